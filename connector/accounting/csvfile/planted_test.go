package csvfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"payersync/connector/accounting"
)

// manner is how a file with planted rows is written.
type manner struct {
	comma    string
	all      bool // every cell is quoted, not only those that must be
	raw      bool // quotation marks inside a quoted cell are not written twice
	crlf     bool
	encoding encoding.Encoding
}

// manners are all manners of writing; eight in a row differ in their marks and line
// ends alone.
func manners() (out []manner) {
	for _, e := range []encoding.Encoding{encoding.Nop, charmap.Windows1252,
		unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)} {
		for _, comma := range []string{",", ";", "\t"} {
			for bits := range 8 {
				out = append(out, manner{comma: comma, all: bits&1 > 0, raw: bits&2 > 0, crlf: bits&4 > 0, encoding: e})
			}
		}
	}
	return out
}

func (m manner) row(cells ...string) string {
	for i, cell := range cells {
		if m.all || strings.ContainsAny(cell, "\"\n\r"+m.comma) {
			if !m.raw {
				cell = strings.ReplaceAll(cell, `"`, `""`)
			}
			cells[i] = `"` + cell + `"`
		}
	}
	end := "\n"
	if m.crlf {
		end = "\r\n"
	}
	return strings.Join(cells, m.comma) + end
}

func (m manner) file(t testing.TB, rows ...string) *Source {
	t.Helper()
	text, err := m.encoding.NewEncoder().String(strings.Join(rows, ""))
	if err != nil {
		t.Fatal(err)
	}
	return configured(t, Config{ID: []string{"Id"}, Delimiter: m.delimiter(), Path: write(t, text)})
}

// delimiter names the delimiter: what a cell holds must not look like a wider
// header.
func (m manner) delimiter() string {
	if m.comma == "\t" {
		return "tab"
	}
	return m.comma
}

// plant returns a note with lines that look like rows.
func (m manner) plant(before string, rows int, after string) string {
	var b strings.Builder
	b.WriteString(before + "\n")
	for i := range rows {
		fmt.Fprintf(&b, "PLANTED%d%sEve%[2]sx%[2]sy\n", i, m.comma)
	}
	return b.String() + after
}

// readPlanted reads a file with planted rows in the second payer's note, and returns the ids of the records
// without a problem.
func (m manner) readPlanted(t testing.TB, note string, noteLast bool) []string {
	t.Helper()
	b1 := []string{"B1", "Bob", note, "Whitby"}
	if noteLast {
		b1 = []string{"B1", "Bob", "Whitby", note}
	}
	records, err := collect(t.Context(), m.file(t, m.row("Id", "Name", "Note", "City"), m.row("A1", "Ann", "", ""),
		m.row(b1...), m.row("C1", "Cat, Ltd; & Co", "", "York"), m.row("Z1", "Zed", "", "")))
	if err != nil && !errors.Is(err, accounting.ErrUndecided) {
		t.Errorf("%+v: read: %v", m, err)
	}
	var good []string
	problems := 0
	for _, r := range records {
		if r.Problem != "" {
			problems++
			continue
		}
		good = append(good, r.SourceID)
		if strings.HasPrefix(r.SourceID, "PLANTED") {
			t.Fatalf("%+v: %s became a record\nnote %.200q", m, r.SourceID, note)
		}
	}
	most := 1
	if m.raw {
		// a mark alone in a line of the note reads as the end of a row, which is short, and begins a cell that never ends
		most = 2
	}
	if problems > most {
		t.Errorf("%+v: one note made %d records with a problem\nnote %.200q", m, problems, note)
	}
	if !m.raw && err != nil {
		t.Errorf("%+v: a well written file was not read to its end: %v", m, err)
	}
	return good
}

// covers F108
func TestTextInACellNeverBecomesARecord(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	for name, tt := range map[string]struct {
		before, after string
		rows          int
	}{
		"short note":                              {"hello", "bye", 3},
		"row above the limit":                     {strings.Repeat(long+"\n", 300), "bye", 3},
		"row far above the limit in one line":     {strings.Repeat(long, 700), "bye", 3},
		"15,000 rows in one note":                 {"hello", "bye", 15_000},
		"a mark and text behind it":               {`24" pipe`, "bye", 3},
		"a mark at the end of a line":             {`pipe 24"`, "bye", 3},
		"a mark at the end of a line, 15,000":     {`pipe 24"`, "bye", 15_000},
		"a mark at the end of a line, line break": {`pipe 24"`, "", 3},
		"a mark before a delimiter":               {`said "yes", then`, "bye", 3},
		"a mark before a semicolon":               {`said "yes"; then`, "bye", 3},
		"two marks":                               {`the "Crown" inn`, "bye", 3},
		"a mark alone in its line":                {"hello\n\"", "bye", 3},
		"a backslash before the mark":             {`pipe 24\"`, "bye", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := manners()
			if tt.rows > 100 || len(tt.before) > 100 {
				all = all[:8] // of one encoding and delimiter
			}
			for _, m := range all {
				for _, last := range []bool{false, true} {
					good := m.readPlanted(t, m.plant(tt.before, tt.rows, tt.after), last)
					if want := []string{"A1", "C1", "Z1"}; !m.raw &&
						!slices.Equal(want, slices.DeleteFunc(good, func(id string) bool { return id == "B1" })) {
						t.Errorf("%+v: %q are well, want %q and B1 where it is not too long", m, good, want)
					}
				}
			}
		})
	}
}

// covers F108
func FuzzNoCellYieldsARecord(f *testing.F) {
	f.Add("hello", "bye", uint8(0), uint16(3), false)
	f.Add("said \"yes\", then", "", uint8(9), uint16(3), true)
	f.Add("pipe 24\"", "x\r\ny", uint8(30), uint16(1), false)
	f.Add("\"\"\n\"", " ", uint8(71), uint16(20), true)
	f.Add(strings.Repeat("long\n", 60_000), "", uint8(4), uint16(9), false)
	all := manners()
	f.Fuzz(func(t *testing.T, before, after string, which uint8, rows uint16, last bool) {
		m := all[int(which)%len(all)]
		if m.encoding != encoding.Nop { // not every text can be written in every encoding
			before, after = ascii(before), ascii(after)
		}
		if m.raw { // a cell that holds marks of its own behind the rows cannot be told from rows
			after = strings.ReplaceAll(after, `"`, "")
		}
		m.readPlanted(t, m.plant(before, int(rows%300), after), last)
	})
}

func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r > 126 {
			return '?'
		}
		return r
	}, s)
}
