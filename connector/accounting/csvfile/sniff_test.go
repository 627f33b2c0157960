package csvfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// sniffed returns the findings about content.
func sniffed(t testing.TB, content string) *Findings {
	t.Helper()
	f, err := Sniff(t.Context(), write(t, content))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// twice is UTF-8 that was read as Windows-1252 and written as UTF-8 again.
func twice(s string) string {
	out, err := charmap.Windows1252.NewDecoder().String(s)
	if err != nil {
		panic(err)
	}
	return out
}

// covers F283
func TestSniffTellsTheEncodingByTheLettersWithinWords(t *testing.T) {
	t.Parallel()
	pages := map[string]encoding.Encoding{"windows-1252": charmap.Windows1252, "macintosh": charmap.Macintosh,
		"cp850": charmap.CodePage850}
	for _, names := range []string{
		"1;Köhler Bau;Dresden\n2;Möbel Höfer;Köln\n3;Schön Druck;Leipzig\n",
		"1;Société Générale;Besançon\n2;Hélène Forêt;Nîmes\n",
		"1;Muñoz Peña;Málaga\n2;José Núñez;León\n",
		"1;MÜLLER GMBH;KÖLN\n2;Weiß & Söhne;Düsseldorf\n",
		"1;Società Caffè Perù;Forlì\n2;Città Più;Cantù\n",
		"1;Håkon Sørensen;Tromsø\n2;Bjørn Ærø;Århus\n",
	} {
		for want, page := range pages {
			text, err := page.NewEncoder().String("No;Name;Ort\n" + names)
			if err != nil {
				t.Fatal(err)
			}
			if f := sniffed(t, text); f.Encoding != want || f.Doubtful != "" || f.Rows[0][1] != strings.Split(names, ";")[1] {
				t.Errorf("%q in %s is taken for %s, doubts %q", names, want, f.Encoding, f.Doubtful)
			}
		}
		if f := sniffed(t, twice("No;Name;Ort\n"+names)); f.Encoding != "utf-8-twice" ||
			f.Rows[0][1] != strings.Split(names, ";")[1] {
			t.Errorf("%q encoded twice is taken for %s: %q", names, f.Encoding, f.Rows)
		}
	}
	if f := sniffed(t, "No;Name;Ort\n1;O’Brien “Best” Ltd — Œuvre;Köln\n"); f.Encoding != "utf-8" {
		t.Errorf("UTF-8 is taken for %s", f.Encoding)
	}
}

const german = "Kd.-Nr.;Name;Ort\r\n1001;Bäckerei Grün;Köln\r\n1002;Fleischerei Weiß;Düren\r\n1003;Café Œuvre & Söhne;Straßburg\r\n"

func TestSniffTellsHowAFileWasWrittenAndTheSourceReadsItSo(t *testing.T) {
	t.Parallel()
	in := func(e encoding.Encoding, s string) string {
		out, err := encoding.ReplaceUnsupported(e.NewEncoder()).String(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	tabs := strings.ReplaceAll(german, ";", "\t")
	for _, tt := range []struct {
		name, content string
		encoding      string
		delimiter     rune
		told          Config // what the source has to be told
	}{
		{"UTF-8", german, "utf-8", ';', Config{}},
		{"UTF-8 with a mark", "\ufeff" + german, "utf-8", ';', Config{}},
		{"UTF-16 with a mark, tabs", in(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), tabs), "utf-16le", '\t',
			Config{}},
		{"UTF-16 without a mark", in(unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), tabs), "utf-16le", '\t',
			Config{Encoding: "utf-16le", Delimiter: "tab"}},
		{"big-endian UTF-16 without a mark", in(unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), tabs), "utf-16be", '\t',
			Config{Encoding: "utf-16be", Delimiter: "tab"}},
		{"Windows-1252", in(charmap.Windows1252, german), "windows-1252", ';', Config{}},
		{"ISO-8859-15", in(charmap.ISO8859_15, german), "iso-8859-15", ';', Config{Encoding: "iso-8859-15", Delimiter: ";"}},
		{"Macintosh", in(charmap.Macintosh, german), "macintosh", ';', Config{Encoding: "macintosh", Delimiter: ";"}},
		{"code page 850", in(charmap.CodePage850, strings.ReplaceAll(german, "Œ", "Oe")), "cp850", ';',
			Config{Encoding: "cp850", Delimiter: ";"}},
		{"UTF-8 encoded twice", twice(german), "utf-8-twice", ';', Config{Encoding: "utf-8-twice", Delimiter: ";"}},
		{"two byte order marks", "\ufeff\ufeff" + german, "utf-8", ';', Config{}},
		{"an end mark", german + "\x1a", "utf-8", ';', Config{}},
		{"end marks behind the last row", strings.TrimSuffix(german, "\r\n") + "\x1a\x1a", "utf-8", ';', Config{}},
		{"commas", strings.ReplaceAll(german, ";", ","), "utf-8", ',', Config{}},
		{"bars", strings.ReplaceAll(german, ";", "|"), "utf-8", '|', Config{Encoding: "utf-8", Delimiter: "|"}},
		{"commas inside of cells", strings.ReplaceAll(german, " ", ", "), "utf-8", ';', Config{}},
	} {
		f := sniffed(t, tt.content)
		if f.Encoding != tt.encoding || f.Delimiter != tt.delimiter || f.Line != 1 || f.Count != 3 || f.Doubtful != "" {
			t.Errorf("%s: found %s and %q, headings in line %d, %d rows, doubts %q", tt.name, f.Encoding, f.Delimiter, f.Line,
				f.Count, f.Doubtful)
		}
		if diff := cmp.Diff([]string{"Kd.-Nr.", "Name", "Ort"}, f.Columns); diff != "" {
			t.Errorf("%s: columns (-want +got):\n%s", tt.name, diff)
		}
		c, err := f.Config(t.Context(), "", "Kd.-Nr.")
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		tt.told.Path, tt.told.ID = f.Path, []string{"Kd.-Nr."}
		if diff := cmp.Diff(tt.told, c); diff != "" {
			t.Errorf("%s: the source is told (-want +got):\n%s", tt.name, diff)
		}
		if got := brief(read(t, configured(t, c))); !strings.Contains(got[0], "Gr") ||
			!slices.Contains(got, `1002: {"Kd.-Nr.":"1002","Name":"Fleischerei`+map[bool]string{true: ","}[strings.Contains(tt.name, "inside")]+` Weiß","Ort":"Düren"}`) {
			t.Errorf("%s: the source reads %v", tt.name, got)
		}
	}
}

func TestSniffFindsTheHeadingsBetweenTitlesAndTotals(t *testing.T) {
	t.Parallel()
	f := sniffed(t, "Kundenliste Muster GmbH;;;;\nStand:;12.03.2026;;;\n\nKd.-Nr.;Name;Name;;E-Mail\n1;A;;;a@a.example\n2;B;;;\n3;C\n4;D;;;\nSumme;;;;\n4 Kunden;;;;\n")
	want := &Findings{
		Path: f.Path, Encoding: "utf-8", Delimiter: ';', Above: []string{"Kundenliste Muster GmbH", "Stand: 12.03.2026"},
		Line:    4,
		Columns: []string{"Kd.-Nr.", "Name", "Name (2)", "column 4", "E-Mail"}, Repeated: []string{"Name"},
		Count: 4, Rows: [][]string{{"1", "A", "", "", "a@a.example"}, {"2", "B", "", "", ""}, {"4", "D", "", "", ""}},
		Lines: []int{5, 6, 8},
		Bad:   []string{"Line 7 has only 2 of the header's 5 columns."}, Unfit: 1, Footer: []int{9, 10},
		Totals: [][]string{{"4 Kunden", "", "", "", ""}, {"Summe", "", "", "", ""}},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestSniffSaysWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ content, want string }{
		"nothing": {"", "it is empty; export it again"},
		"a workbook": {"PK\x03\x04" + strings.Repeat("x", 100),
			"it is a spreadsheet, not a CSV file; save it from the spreadsheet as CSV UTF-8"},
		"a picture": {"\x89PNG\x00\x00\x01\x02\x00abc",
			"it holds bytes that are no text; save it from its program as CSV UTF-8"},
		"one column": {"Name\nAnn\nBob\n",
			"it has one column only, or its columns are not parted by commas, semicolons, tabs or |; export it with a number, a name and an e-mail address for each customer, as CSV UTF-8"},
		"no headings": {"1001;Ann;a@a.example\n1002;Bob;b@b.example\n",
			"none of its first lines looks like headings: they hold addresses, numbers or dates, or nothing; export it with its headings, or write them as a first line"},
		"an old workbook": {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("x", 100),
			"it is a spreadsheet, not a CSV file; save it from the spreadsheet as CSV UTF-8"},
		"a web page": {"<html><head><meta charset=utf-8></head><body><table><tr><td>No</td><td>Name</td></tr>\n<tr><td>1</td><td>Ann</td></tr></table></body></html>\n", "it is a web page, not a CSV file; open it in a spreadsheet, and save it from there as CSV UTF-8"},
		"a PDF": {"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\n",
			"it is a PDF document, not a CSV file; export it again as CSV UTF-8"},
		"JSON": {"[{\"id\":\"1\",\"name\":\"Ann\"},\n{\"id\":\"2\",\"name\":\"Bob\"}]\n",
			"it is JSON, not a CSV file; export it again as CSV UTF-8"},
		"XML": {"<?xml version=\"1.0\"?>\n<Workbook><Row><Cell>No</Cell></Row></Workbook>\n",
			"it is an XML file, not a CSV file; export it again as CSV UTF-8"},
		"a card file": {"BEGIN:VCARD\nVERSION:3.0\nFN:Ann Oak\nEMAIL:a@a.example\nEND:VCARD\n",
			"it is a file of contact cards, not a CSV file; export it again as CSV UTF-8"},
		"old Mac text": {"Id;Name\r1;Ann\r", "its lines end as on very old Macintosh computers; save it as CSV UTF-8"},
	} {
		path := write(t, tt.content)
		if _, err := Sniff(t.Context(), path); err == nil || err.Error() != "cannot read "+path+": "+tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	huge := filepath.Join(dir, "huge.csv")
	if err := os.WriteFile(huge, []byte(german), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 2<<30); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                            "it is not a plain file; give the path of the exported CSV file",
		filepath.Join(dir, "none.csv"): "there is no such file; put the export there, or correct its path",
		huge:                           "it has more than 256 MiB; export the customers only, or fewer columns",
	} {
		if _, err := Sniff(t.Context(), path); err == nil || err.Error() != "cannot read "+path+": "+want {
			t.Errorf("%v", err)
		}
	}
}

func TestSniffTellsWhereAFileStopsMakingSense(t *testing.T) {
	t.Parallel()
	f := sniffed(t, "Id;Name;City\n1;Ann;Leeds\n2;\"Bob\" Ltd;York\n3;Cy;Hull\n")
	if f.Stray != "line 3 has a quotation mark in the wrong place, so that rows and text cannot be told apart from line 3 on" || f.Count != 1 {
		t.Errorf("%q, %d rows", f.Stray, f.Count)
	}
}

func TestSniffSaysWhichLettersNoLanguageHas(t *testing.T) {
	t.Parallel()
	text, err := charmap.Windows1250.NewEncoder().String("Id;Name\n1;Žluťoučký kůň\n2;Łukasz Błędowski\n3;Ďábelské ódy\n")
	if err != nil {
		t.Fatal(err)
	}
	if f := sniffed(t, text); f.Encoding == "utf-8" || f.Doubtful == "" {
		t.Errorf("text of another part of Europe is read as %s, doubts %q", f.Encoding, f.Doubtful)
	}
}

func TestAFileIsCountedWholeAndLookedAtInPart(t *testing.T) {
	t.Parallel()
	f := sniffed(t, "Id;Name;City\n"+strings.Repeat("1;Ann;Leeds\n", maxSample+7))
	if f.Count != maxSample+7 || len(f.Rows) != maxSample {
		t.Errorf("%d rows, %d looked at", f.Count, len(f.Rows))
	}
}

// FuzzSniffEndsForAnyBytes: whatever a file holds, it is told or refused.
func FuzzSniffEndsForAnyBytes(f *testing.F) {
	for _, seed := range []string{german, "a;b\n\"", "\xff\xfea\x00;\x00", ";;;\n;;;\n", "x|y|z\n1|2|3\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		found, err := Sniff(t.Context(), write(t, content))
		if err != nil {
			return
		}
		for _, row := range found.Rows {
			if len(row) != len(found.Columns) {
				t.Errorf("a row of %d cells below %d headings", len(row), len(found.Columns))
			}
		}
	})
}
