package csvfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"payersync/connector"
	"payersync/connector/accounting"
)

// write puts content into a new file and returns its path.
func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "customers.csv")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// source returns a source over content whose id column is Id.
func source(t testing.TB, content string) *Source {
	t.Helper()
	return configured(t, Config{Path: write(t, content), ID: []string{"Id"}})
}

func configured(t testing.TB, c Config) *Source {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read returns all records of a complete read.
func read(t testing.TB, s *Source) []connector.Record {
	t.Helper()
	records, err := collect(t.Context(), s)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return records
}

func collect(ctx context.Context, s *Source) ([]connector.Record, error) {
	var records []connector.Record
	for page, err := range s.Customers(ctx, time.Time{}) {
		if err != nil {
			return records, err
		}
		records = append(records, page.Records...)
	}
	return records, nil
}

// brief returns records as "id: data" or "id! problem".
func brief(records []connector.Record) []string {
	var out []string
	for _, r := range records {
		if r.Problem != "" {
			out = append(out, r.SourceID+"! "+r.Problem)
			continue
		}
		out = append(out, r.SourceID+": "+string(r.Data))
	}
	return out
}

func TestRecordHoldsTheRowAsItStands(t *testing.T) {
	t.Parallel()
	got := read(t, source(t, "Id,Name,E-Mail\r\n A1 ,\"O'Hara \"\"Pip\"\" & Söhne\r\nLtd\",<pip@ohara.example>\r\n"))
	want := []connector.Record{{
		SourceID: "A1", State: connector.RecordActive, Origin: "customers.csv line 2",
		Data: []byte(`{"Id":" A1 ","Name":"O'Hara \"Pip\" & Söhne\nLtd","E-Mail":"<pip@ohara.example>"}`),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestReadUnderstandsHowTheFileWasWritten(t *testing.T) {
	t.Parallel()
	const plain = "Id,Name\nA1,Café Zoë\nA2,Bäckerei\n"
	encoded := func(e encoding.Encoding, s string) string {
		out, err := e.NewEncoder().String(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	little := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	tests := []struct {
		name, content string
		config        Config
	}{
		{name: "UTF-8", content: plain},
		{name: "UTF-8 with byte order mark", content: "\ufeff" + plain},
		{name: "UTF-16 LE", content: encoded(little, plain)},
		{name: "UTF-16 BE", content: encoded(unicode.UTF16(unicode.BigEndian, unicode.UseBOM), plain)},
		{name: "Windows-1252", content: encoded(charmap.Windows1252, plain)},
		{name: "encoding set", content: encoded(charmap.Macintosh, plain), config: Config{Encoding: "macintosh"}},
		{name: "byte order mark beats setting", content: encoded(little, plain), config: Config{Encoding: "windows-1252"}},
		{name: "UTF-16 without mark, set", content: encoded(unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), plain),
			config: Config{Encoding: "utf-16le"}},
		{name: "CRLF", content: strings.ReplaceAll(plain, "\n", "\r\n")},
		{name: "no final line break", content: strings.TrimSuffix(plain, "\n")},
		{name: "semicolon", content: strings.ReplaceAll(plain, ",", ";")},
		{name: "tab", content: strings.ReplaceAll(plain, ",", "\t")},
		{name: "delimiter set", content: strings.ReplaceAll(plain, ",", "|"), config: Config{Delimiter: "|"}},
		{name: "tab by its name", content: strings.ReplaceAll(plain, ",", "\t"), config: Config{Delimiter: "tab"}},
		{name: "spreadsheet hint line", content: "sep=;\n" + strings.ReplaceAll(plain, ",", ";")},
		{name: "title lines", content: "Customer list\n\"Acme, Ltd\"\n\n" + plain},
		{name: "title with a stray quote", content: "The 5\" list\n" + plain},
		{name: "asterisk on a heading", content: "*Id , *Name\nA1,Café Zoë\nA2,Bäckerei\n"},
		{name: "trailing blank columns", content: "Id,Name,,\nA1,Café Zoë,,\nA2,Bäckerei,,,,\n"},
		{name: "blank lines", content: "\n\nId,Name\n\n  \nA1,Café Zoë\n,\n\r\nA2,Bäckerei\n,,,\n\n"},
		{name: "quoted cells", content: "\"Id\",\"Name\"\n\"A1\",\"Café Zoë\"\n\"A2\",\"Bäckerei\"\n"},
	}
	want := []string{`A1: {"Id":"A1","Name":"Café Zoë"}`, `A2: {"Id":"A2","Name":"Bäckerei"}`}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := tt.config
			c.Path, c.ID = write(t, tt.content), []string{"id"}
			if diff := cmp.Diff(want, brief(read(t, configured(t, c)))); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// covers F48, F52, F54
func TestBadRowIsReportedAndStopsNobodyElse(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxRowBytes)
	tests := []struct {
		name, row string
		want      []string // between the good rows, which are lines 2 and the last
	}{
		{"blank id", " ,Bob", []string{"line 3! Line 3 needs a value in Id."}},
		{"too many columns", "B1,Bob,Smith", []string{"line 3! Line 3 has 3 columns where the header has 2."}},
		{"too few columns", "B1", []string{"line 3! Line 3 has only 1 of the header's 2 columns."}},
		{"NUL", "B1,Bo\x00b", []string{"B1! The Name in line 3 holds a NUL character."}},
		{"NUL in id", "B\x001,Bob", []string{"line 3! The Id in line 3 holds characters that are no text."}},
		{"line break in id", "\"B\n1\",Bob", []string{"line 3! The Id in line 3 holds characters that are no text."}},
		{"invalid UTF-8", "B1,Zoë B\xffb",
			[]string{"B1! The Name in line 3 holds characters that could not be read in the file's encoding."}},
		{"lost character", "B1,B\uFFFDb",
			[]string{"B1! The Name in line 3 holds characters that could not be read in the file's encoding."}},
		{"mark with text on both sides", "B1,Bob \"the Builder\" Smith",
			[]string{`B1: {"Id":"B1","Name":"Bob \"the Builder\" Smith"}`}},
		{"inch sign", "B1,24\" pipe", []string{`B1: {"Id":"B1","Name":"24\" pipe"}`}},
		{"inch sign at the end, nothing is quoted", "B1,pipe 24\"", []string{`B1: {"Id":"B1","Name":"pipe 24\""}`}},
		{"marks written twice", "B1,\"24\"\" pipe \"\"new\"\"\"", []string{`B1: {"Id":"B1","Name":"24\" pipe \"new\""}`}},
		{"rows within two marks", "B1,\"Bob\nC1,Cat\nD1,Dan\",x",
			[]string{"line 3! Line 3 has 3 columns where the header has 2."}},
		{"row too long", "B1," + long, []string{"line 3! Line 3 begins a row of more than 256 KiB."}},
		{"quoted row too long", "B1,\"" + strings.Repeat(long[:1000]+"\nC1,Cat\n", 300) + "\"",
			[]string{"line 3! Line 3 begins a row of more than 256 KiB."}},
		{"spreadsheet number", "1.23E+15,Bob",
			[]string{"line 3! The Id in line 3 was changed by a spreadsheet (long numbers turn into 1.23E+15); format the column as text and export it again."}},
		{"spreadsheet error", "#N/A,Bob",
			[]string{"line 3! The Id in line 3 was changed by a spreadsheet (long numbers turn into 1.23E+15); format the column as text and export it again."}},
		{"id like a line number", "line 2,Bob",
			[]string{"line 3! The Id in line 3 reads like a line number and cannot be used as an id."}},
		{"same id twice", "B1,Bob\nB1 ,Bobby",
			[]string{"B1! Lines 3 and 4 have the same Id; each customer needs its own row and its own Id."}},
		{"same id often", strings.Repeat("B1,Bob\n", 7),
			[]string{"B1! Lines 3, 4, 5, 6, 7 and 2 more have the same Id; each customer needs its own row and its own Id."}},
		{"ids that differ by case", "B1,Bob\nb1,Bob",
			[]string{`B1: {"Id":"B1","Name":"Bob"}`, `b1: {"Id":"b1","Name":"Bob"}`}},
		{"formula, direction marks, emoji, controls", "B1,=1+1\u202e\u200d👩‍🍳\x07",
			[]string{`B1: {"Id":"B1","Name":"=1+1` + "\u202e\u200d👩‍🍳" + `\u0007"}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := brief(read(t, source(t, "Id,Name\nA1,Ann\n"+tt.row+"\nZ1,Zed\n")))
			want := append(append([]string{`A1: {"Id":"A1","Name":"Ann"}`}, tt.want...), `Z1: {"Id":"Z1","Name":"Zed"}`)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// From a mark out of place on, nothing is certain; what is certain before it comes
// through.
//
// covers F108
func TestWhatAMarkOutOfPlaceLeavesOpenIsOneRecordAndNotACompleteRead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, rows string
		certain    []string // between A1 and the record that stands for the rest
		line, from int      // of the mark; the first that is not certain
	}{
		{"text behind a quoted cell", "B1,\"Bob\" Smith\nC1,Cat\n", nil, 3, 3},
		{"inch sign in a quoted cell", "\"B1\",\"24\" pipe\"\n\"C1\",\"Cat\"\n", nil, 3, 3},
		{"never closed", "B1,\"Bob\nC1,Cat\nD1,Dan\n", nil, 3, 3},
		{"never closed, over the limit", "B1,\"Bob\n" + strings.Repeat("C1,Cat\n", 50_000), nil, 3, 3},
		{"closed by the next cell that is quoted", "B1,\"Bob\nC1,Cat\nD1,\"Dan\"\nE1,Eve\n", nil, 5, 3},
		{"quoted rows before it are certain", "\"B1\",\"Bob\"\n\"C1\",\"Cat\"\n\"D1\",\"24\" pipe\"\n", []string{"B1", "C1"},
			5, 5},
		{"rows since a quoted cell may be lines of it", "B1,\"Bob, Ltd\"\nC1,\"pipe 24\"\nD1,Dan\nE1,\"\"Eve\"\n",
			[]string{"B1"}, 6, 4},
		{"a mark that may be the end of a quoted cell", "B1,\"pipe 24\"\nC1,Cat\nend\"\nD1,Dan\n", nil, 5, 3},
		{"a mark behind spaces", "B1,Bob\nC1, \"Cat\nD1,Dan\n\"\n", []string{"B1"}, 4, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := source(t, "\"Id\",\"Name\"\nA1,Ann\n"+tt.rows)
			records, err := collect(t.Context(), s)
			var got []string
			for _, r := range records[:len(records)-1] {
				if r.Problem != "" {
					t.Errorf("%s: %s", r.SourceID, r.Problem)
				}
				got = append(got, r.SourceID)
			}
			if want := append([]string{"A1"}, tt.certain...); !slices.Equal(want, got) {
				t.Errorf("%q are certain, want %q", got, want)
			}
			why := fmt.Sprintf("ine %d has a quotation mark in the wrong place, so that rows and text cannot be told apart from line %d on", tt.line, tt.from)
			rest := records[len(records)-1]
			if want := fmt.Sprintf("line %d! L%s. None of it was used. Please correct that line (inside quotation marks, a mark is written twice) and export the file again.", tt.from, why); want != brief(records[len(records)-1:])[0] {
				t.Errorf("the rest is\n     %s! %s\nwant %s", rest.SourceID, rest.Problem, want)
			}
			want := "cannot read " + s.path + ": l" + why +
				"; correct that line (inside quotation marks, a mark is written twice) and export the file again"
			if !errors.Is(err, accounting.ErrUndecided) || err.Error() != want {
				t.Errorf("error\n got %v\nwant %s", err, want)
			}
		})
	}
}

// Two marks out of place make the rows between them one cell, and each of them alone follows the rules.
func TestRowsThatBecameTheTextOfACellAreNotACompleteRead(t *testing.T) {
	t.Parallel()
	const header = "Id,Name,City,Postcode,Status\nA1,Ann,Leeds,LS1,Active\n"
	for _, tt := range []struct {
		name, rows string
		line       int // of the mark; 0 if the file is whole
	}{
		{"rows between two marks", "B1,\"Bob,Leeds,LS2,Active\nC1,Cat,Leeds,LS3,Active\nD1,Dan\",Leeds,LS4,Active\n", 3},
		{"two rows", "B1,\"Bob,Leeds,LS2,Active\nC1,Cat\",Leeds,LS3,Active\n", 3},
		{"marks at the end of rows", "B1,Bob,Leeds,LS2,\"Active\nC1,Cat,Leeds,LS3,Active\"\n", 3},
		{"a text of two lines", "B1,\"Bob, of Bob, Bob & Co\nLeeds\",Leeds,LS2,Active\n", 0},
		{"a text with many delimiters in one line", "B1,\"a, b, c, d, e, f\",Leeds,LS2,Active\n", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			records, err := collect(t.Context(), source(t, header+tt.rows+"E1,Eve,Leeds,LS5,Active\n"))
			ids := connector.Map(records, func(r connector.Record) string { return r.SourceID })
			if tt.line == 0 {
				if want := []string{"A1", "B1", "E1"}; err != nil || !slices.Equal(ids, want) {
					t.Errorf("read are %q, %v, want %q", ids, err, want)
				}
				return
			}
			if want := []string{"A1", fmt.Sprintf("line %d", tt.line)}; !slices.Equal(ids, want) {
				t.Errorf("read are %q, want %q", ids, want)
			}
			if want := fmt.Sprintf("line %d has a quotation mark in the wrong place", tt.line); !errors.Is(err,
				accounting.ErrUndecided) || !strings.Contains(err.Error(), want) {
				t.Errorf("the read ends with %v, want %q", err, want)
			}
		})
	}
}

func TestProblemHoldsNoPersonalValue(t *testing.T) {
	t.Parallel()
	s := configured(t, Config{Preset: "xero", Path: write(t, "ContactName,AccountNumber,EmailAddress\n"+
		"Joan Secret,,joan@secret.example\nJoan Secret,,joan@secret.example\n,,joan@secret.example\nJoan Secret\nJoan\x00 Secret,J1,\nJoan Secret,\"x\"y,\n")})
	records, err := collect(t.Context(), s)
	if !errors.Is(err, accounting.ErrUndecided) || strings.Contains(strings.ToLower(err.Error()), "joan") {
		t.Errorf("error %v", err)
	}
	for _, r := range records {
		if r.Problem == "" || strings.Contains(strings.ToLower(r.Problem), "secret") {
			t.Errorf("problem of %s: %q, want one without the name", r.Origin, r.Problem)
		}
	}
}

func TestSeveralIDColumnsNeverGiveTheSameID(t *testing.T) {
	t.Parallel()
	s := configured(t, Config{ID: []string{"Branch", "*No"}, Path: write(t, "Branch,No\n"+
		"a,b|c\na|b,c\na\\,b\n\"a\\|b\",c\na,\n,\\|\n x , y \n")})
	var got []string
	for _, r := range read(t, s) {
		got = append(got, r.SourceID)
	}
	want := []string{`a|b\|c`, `a\|b|c`, `a\\|b`, `a\\\|b|c`, "line 6", "line 7", "x|y"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

func TestXeroNameStandsInForABlankAccountNumber(t *testing.T) {
	t.Parallel()
	with := configured(t, Config{Preset: "xero", Path: write(t, "*ContactName,AccountNumber\nAnn,N1\nBob,\nCat,Bob\n,\n")})
	want := []string{
		`N1: {"ContactName":"Ann","AccountNumber":"N1"}`,
		"Bob! Lines 3 and 4 have the same AccountNumber or ContactName; each customer needs its own row and its own AccountNumber or ContactName.",
	}
	if diff := cmp.Diff(want, brief(read(t, with))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	without := configured(t, Config{Preset: "xero", Path: write(t, "ContactName,EmailAddress\nAnn,\n")})
	if got := read(t, without)[0].SourceID; got != "Ann" {
		t.Errorf("id without AccountNumber column = %q, want Ann", got)
	}
}

func TestDescribeDeclaresTheColumnsAsTheFileSpellsThem(t *testing.T) {
	t.Parallel()
	s := configured(t, Config{Preset: "xero",
		Path: write(t, "Contacts of Acme\n*ContactName,ACCOUNTNUMBER,,Phone,phone,Phone (2),,\nAnn,1,,2,3,4,,\n")})
	info, err := s.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := connector.TypeText
	want := connector.SourceInfo{Kind: "csv", Snapshot: true, Fields: []connector.Field{
		{Name: "ContactName", Type: text, Description: "Name of the contact; unique in Xero.",
			Example: "Saltmarsh Bakery Ltd"},
		{Name: "ACCOUNTNUMBER", Type: text, Description: "Your own number for the contact; may be blank.", Example: "SB001"},
		{Name: "column 3", Type: text, Description: "Column 3 of the file."},
		{Name: "Phone", Type: text, Description: "Column 4 of the file."},
		{Name: "phone (2)", Type: text, Description: "Column 5 of the file."},
		{Name: "Phone (2) (2)", Type: text, Description: "Column 6 of the file."},
	}}
	if diff := cmp.Diff(want, info); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
}

func TestHeaderWithoutRowsIsACompleteReadOfNobody(t *testing.T) {
	t.Parallel()
	if got := read(t, source(t, "Id,Name\n")); len(got) != 0 {
		t.Errorf("got %d records, want none", len(got))
	}
}

func TestNewNamesTheKeyThatIsWrong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		config Config
		want   string
	}{
		{Config{ID: []string{"Id"}}, "csv source: path is blank; name the exported file"},
		{Config{Path: "x.csv"}, "csv source: id is missing; name the column that identifies a customer, for example id: [AccountNumber]"},
		{Config{Path: "x.csv", ID: []string{"Id", " *"}},
			"csv source: entry 2 of id is blank; name a column of the file or remove the entry"},
		{Config{Path: "x.csv", Preset: "zero"},
			`csv source: preset "zero" is not known (did you mean "xero"?); use one of generic, sage, xero`},
		{Config{Path: "x.csv", Preset: "xero", Encoding: "utf8"},
			`csv source: encoding "utf8" is not known (did you mean "utf-8"?); use one of cp437, cp850, iso-8859-15, macintosh, utf-16be, utf-16le, utf-8, utf-8-twice, windows-1252, or omit it`},
		{Config{Path: "x.csv", Preset: "xero", Delimiter: ";;"},
			`csv source: delimiter ";;" is not usable; give one character such as ";" or the word tab, or omit it`},
		{Config{Path: "x.csv", Preset: "xero", Delimiter: `"`},
			`csv source: delimiter "\"" is not usable; give one character such as ";" or the word tab, or omit it`},
	}
	for _, tt := range tests {
		_, err := New(tt.config)
		if err == nil || err.Error() != tt.want {
			t.Errorf("New(%+v)\n got %v\nwant %s", tt.config, err, tt.want)
		}
	}
}
