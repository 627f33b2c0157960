package match

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	side = Side{Name: "Müller; Söhne, \"Bau\"", Email: "anna@gmx.de", Phone: "+49 30 1234567", Postcode: "01067",
		City: "Dresden", Number: "DE123456789"}
	list = []Row{
		{"R1", "C1", Undecided, 97, "same name; same e-mail", side, side},
		{"00123", "1E5", Accept, 75, "name equal but for a typo",
			Side{Name: "=1+1", Email: "@x", Phone: "-1", City: "'quoted"}, Side{Name: "＝cmd", Postcode: "1/2"}},
		{"R3", "C3", Reject, 0, "", Side{}, Side{}},
	}
)

func readRows(r io.Reader) ([]Row, error) {
	sheet, err := ReadCSV(r)
	return sheet.Rows, err
}

// written is the list as a file.
func written(t *testing.T, rows []Row, comma rune) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteCSV(&b, rows, comma); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAListComesBackAsItWas(t *testing.T) {
	t.Parallel()
	comma := written(t, list, ',')
	semicolon := written(t, list, ';')
	for name, text := range map[string]string{
		"commas": comma, "semicolons": semicolon,
		"a byte order mark":     bom + comma,
		"no byte order mark":    strings.TrimPrefix(semicolon, bom),
		"LF":                    strings.ReplaceAll(comma, "\r\n", "\n"),
		"a line that tells":     "sep=;\r\n" + strings.TrimPrefix(semicolon, bom),
		"rows of commas":        comma + strings.Repeat(",", len(columns)-1) + "\r\n",
		"a decision in capital": strings.ReplaceAll(comma, ",accept,", ", Accept ,"),
		"a header in capitals":  strings.Replace(comma, "record_id", "Record_ID", 1),
	} {
		got, err := readRows(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(list, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A decision is about the values shown in the row.
func TestAFileTellsWhatIsOtherwiseByNow(t *testing.T) {
	t.Parallel()
	sheet, err := ReadCSV(strings.NewReader("\n" + written(t, list, ',')))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{3, 4, 5}, sheet.Lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	ours, theirs := list[1].Ours, list[1].Theirs
	if names := sheet.Differing(1, ours, theirs); names != nil {
		t.Errorf("nothing is otherwise, and it tells %v", names)
	}
	ours.Email, theirs.City = "", "York"
	if diff := cmp.Diff([]string{"record_email", "customer_city"}, sheet.Differing(1, ours, theirs)); diff != "" {
		t.Errorf("otherwise (-want +got):\n%s", diff)
	}
	few, err := ReadCSV(strings.NewReader("record_id,customer_id,decision,check\nR1,C1,accept," + check("R1", "C1") +
		"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if names := few.Differing(0, ours, theirs); names != nil {
		t.Errorf("a file without the columns tells %v", names)
	}
}

func TestAFileHasStableColumns(t *testing.T) {
	t.Parallel()
	want := "record_id,customer_id,decision,score,reasons,record_name,customer_name,record_email,customer_email,record_phone,customer_phone," +
		"record_postcode,customer_postcode,record_city,customer_city,record_company_number,customer_company_number,check\r\n" +
		"R1,C1,,97,same name; same e-mail,\"Müller; Söhne, \"\"Bau\"\"\",\"Müller; Söhne, \"\"Bau\"\"\",anna@gmx.de,anna@gmx.de,'+49 30 1234567,'+49 30 1234567," +
		"'01067,'01067,Dresden,Dresden,DE123456789,DE123456789," + check("R1", "C1") + "\r\n"
	if got := written(t, list[:1], ','); got != want {
		t.Errorf("the file is\n%s\nwant\n%s", got, want)
	}
	if !strings.HasPrefix(written(t, nil, ';'), bom+"record_id;customer_id;") {
		t.Error("a file with semicolons does not begin with a byte order mark")
	}
}

// No cell is taken for a formula, and none for a number that would be written
// otherwise.
func TestNoCellBeginsWithAFormula(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[=+@'0-9.,＝\-\t]+.*`)).Draw(t, "text")
		g := guarded(s)
		if g != "" && strings.ContainsAny(g[:1], "=+-@\t\r") || unguarded(g) != s {
			t.Fatalf("%q is guarded as %q and comes back as %q", s, g, unguarded(g))
		}
	})
	for in, want := range map[string]string{"0": "0", "1001": "1001", "00123": "'00123", "1E5": "'1E5",
		"12345678901234567": "'12345678901234567", "Anna": "Anna", "'x": "''x"} {
		if got := guarded(in); got != want {
			t.Errorf("guarded(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestColumnsMayMoveAndOthersMayBeAdded(t *testing.T) {
	t.Parallel()
	text := "note;check;decision;customer_id;record_id\r\nwho is this?;" + check("R1", "C1") + ";accept;C1;R1\r\n"
	got, err := readRows(strings.NewReader(text))
	if diff := cmp.Diff([]Row{{Record: "R1", Customer: "C1", Decision: Accept}}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestEveryProblemOfAFileIsToldWithItsPlace(t *testing.T) {
	t.Parallel()
	row := func(record, customer, decision string) string {
		return fmt.Sprintf("%s,%s,%s,90,%s\n", record, customer, decision, check(record, customer))
	}
	const head = "record_id,customer_id,decision,score,check\n"
	tests := []struct{ about, text, want string }{
		{"nothing", "", "line 1: there is no header row with record_id, customer_id, decision and check between commas or semicolons"},
		{"another file", "name,city\nAnna,Berlin\n",
			"line 1: there is no header row with record_id, customer_id, decision and check between commas or semicolons"},
		{"no decision and no check", "record_id,customer_id\n",
			"line 1, column decision: the column is missing\nline 1, column check: the column is missing"},
		{"a column twice", "record_id,customer_id,decision,check,decision\n",
			"line 1, column decision: the column is there twice"},
		{"a record that is new and is not", head + row("R1", "C1", "new") + row("R1", "C2", "accept") +
			row("R2", "C3", "accept") + row("R2", "C4", "new"),
			"line 3, column decision: record \"R1\" is accept here and new on line 2\nline 5, column decision: record \"R2\" is new here and accept on line 4"},
		{"an unknown decision", head + row("R1", "C1", "yes"),
			`line 2, column decision: "yes" is no decision; write accept, reject, new or nothing`},
		{"an altered id", head + strings.Replace(row("00123", "C1", "accept"), "00123", "123", 1),
			`line 2, column check: record_id "123" and customer_id "C1" are not as they were written: a person or a spreadsheet altered one of the three`},
		{"ids of two rows", head + "R1,C2,accept,90," + check("R1", "C1") + "\n",
			`line 2, column check: record_id "R1" and customer_id "C2" are not as they were written: a person or a spreadsheet altered one of the three`},
		{"a row twice", head + row("R1", "C1", "") + row("R1", "C1", "accept"),
			"line 3, column record_id: the match is on line 2 already"},
		{"a customer for two", head + row("R1", "C1", "accept") + row("R2", "C1", "accept"),
			`line 3, column decision: customer "C1" is accepted for another record on line 2 already`},
		{"two for a record", head + row("R1", "C1", "accept") + row("R1", "C2", "accept"),
			`line 3, column decision: record "R1" is accepted with another customer on line 2 already`},
		{"a short row", head + "R1,C1\n", "line 2: the row has 2 columns, and the header has 5"},
		{"a score", head + strings.Replace(row("R1", "C1", ""), "90", "good", 1),
			`line 2, column score: "good" is no score from 0 to 100`},
		{"quotes", head + row("R1", "C1", "") + "R\"2,C2,,90,x\n",
			"line 3: the quotes are wrong at character 2; nothing behind it could be read"},
		{"another encoding", head + strings.Replace(row("R1", "C1", ""), "90", "M\xfcller", 1),
			`line 2, column score: the text is not UTF-8; save the file as "CSV UTF-8"`},
		{"UTF-16", "\xff\xfer\x00e\x00", `line 1: the file is not UTF-8; save it as "CSV UTF-8"`},
		{"all at once, after a line that tells", "sep=,\n" + head + row("R1", "C1", "accept") + row("R2", "C1", "accept") +
			row("R3", "C3", "no") + row("R1", "C1", ""),
			"line 4, column decision: customer \"C1\" is accepted for another record on line 3 already\n" +
				"line 5, column decision: \"no\" is no decision; write accept, reject, new or nothing\nline 6, column record_id: the match is on line 3 already"},
	}
	for _, tt := range tests {
		rows, err := readRows(strings.NewReader(tt.text))
		var problems CSVError
		if rows != nil || !errors.As(err, &problems) || err.Error() != tt.want {
			t.Errorf("%s: %d rows and\n%v\nwant\n%s", tt.about, len(rows), err, tt.want)
		}
	}
}

func TestAFileThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := readRows(strings.NewReader(strings.Repeat("x", MaxCSV+1))); err == nil ||
		!strings.Contains(err.Error(), "more than 64 MiB") {
		t.Error(err)
	}
}

func TestWhatCannotStandInAFileIsRefused(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "a\r\nb", "\xff"} {
		if err := WriteCSV(&bytes.Buffer{}, []Row{{Record: id, Customer: "C1"}}, ','); err == nil {
			t.Errorf("the id %q is written", id)
		}
	}
	if err := WriteCSV(&bytes.Buffer{}, nil, '\t'); err == nil {
		t.Error("a tab is taken for a comma")
	}
}

func TestAWriterThatFailsIsTold(t *testing.T) {
	t.Parallel()
	for _, comma := range []rune{',', ';'} {
		if err := WriteCSV(full{}, list, comma); !errors.Is(err, errFull) {
			t.Errorf("%c: %v", comma, err)
		}
	}
}

var errFull = errors.New("the disk is full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// A record with only taken customers still has a row, so a person can call it new.
func TestRowsLeaveOutWhatIsTaken(t *testing.T) {
	t.Parallel()
	best := Pair{Record: "R1", Customer: "C1", Score: 60, Codes: "name_same another_customer"}
	suggestions := []Suggestion{
		{"R1", &best, []Pair{{Record: "R1", Customer: "C2", Score: 60},
			{Record: "R1", Customer: "C3", Taken: "linked to record R9"}}},
		{"R2", nil, []Pair{{Record: "R2", Customer: "C3", Taken: "linked to record R9"}}},
	}
	one := Row{Record: "R1", Customer: "C1", Score: 60, Reasons: "same name; another customer fits as well"}
	if diff := cmp.Diff([]Row{one}, Rows(suggestions, false)); diff != "" {
		t.Errorf("proposals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Row{one, {Record: "R1", Customer: "C2", Score: 60},
		{Record: "R2", Customer: "C3", Reasons: "linked to record R9"}}, Rows(suggestions, true)); diff != "" {
		t.Errorf("with runners-up (-want +got):\n%s", diff)
	}
}

// Any file is read, or refused with a place. A file that was read can be written and read again.
func FuzzReadCSV(f *testing.F) {
	var b bytes.Buffer
	for _, comma := range []rune{',', ';'} {
		if err := WriteCSV(&b, list, comma); err != nil {
			f.Fatal(err)
		}
		f.Add(b.String())
		b.Reset()
	}
	f.Add("sep=;\nrecord_id;customer_id;decision;check\nR1;C1;accept;" + check("R1", "C1") + "\n")
	f.Add("record_id,customer_id,decision,check\n\"R1,C1")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := readRows(strings.NewReader(text))
		var problems CSVError
		if errors.As(err, &problems) {
			for _, p := range problems {
				if p.Line < 1 || p.Text == "" || len(rows) > 0 {
					t.Fatalf("problem %+v beside %d rows", p, len(rows))
				}
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		accepted := map[string]bool{}
		for _, r := range rows {
			if r.Decision == Accept && (accepted["record "+r.Record] || accepted["customer "+r.Customer]) {
				t.Fatalf("%+v is accepted twice", r)
			}
			if r.Decision == Accept {
				accepted["record "+r.Record], accepted["customer "+r.Customer] = true, true
			}
		}
		if slices.ContainsFunc(rows, func(r Row) bool { return r.writable() != nil }) {
			return
		}
		var b bytes.Buffer
		if err := WriteCSV(&b, rows, ';'); err != nil {
			t.Fatal(err)
		}
		again, err := readRows(&b)
		if err != nil || len(again) != len(rows) {
			t.Fatalf("%v: %d rows are %d when they are read again", err, len(rows), len(again))
		}
		for i, r := range rows {
			if a := again[i]; a.Record != r.Record || a.Customer != r.Customer || a.Decision != r.Decision ||
				a.Score != r.Score {
				t.Fatalf("%+v comes back as %+v", r, a)
			}
		}
	})
}
