package show

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
)

func TestTheOnlyPageOfATableIsTheTable(t *testing.T) {
	t.Parallel()
	header, rows := []string{"Record", "Name"}, [][]string{{"A1", "Ada"}, {"A10000", "Grace Hopper"}, {"B", "日本"}}
	var whole, page bytes.Buffer
	Table(&whole, header, rows)
	new(PagedTable).Write(&page, header, rows)
	if whole.String() != page.String() ||
		!strings.HasPrefix(page.String(), " Record  Name         \n A1      Ada          \n") {
		t.Errorf("the table is %q, and as a page %q", whole.String(), page.String())
	}
}

// A page that goes on is as wide as the one before, or wider. One with other columns is a table of its own.
func TestAPageOfATableIsAsWideAsThoseBeforeIt(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var p PagedTable
	p.Write(&out, []string{"Record", "Name"}, [][]string{{"A1", "Grace Hopper"}})
	p.Write(&out, []string{"Record", "Name"}, [][]string{{"A2", "Ada"}})
	p.Write(&out, []string{"Record", "Name"}, [][]string{{"A30000000", "Ada"}})
	p.Write(&out, []string{"Record", "Name"}, [][]string{{"A4", "Ada"}})
	p.Write(&out, []string{"Record"}, [][]string{{"A5"}})
	const want = ` Record  Name         
 A1      Grace Hopper 
 A2      Ada          
 A30000000  Ada          
 A4         Ada          
 Record 
 A5     
`
	if got := out.String(); got != want {
		t.Errorf("the pages are\n%s\nwant\n%s", got, want)
	}
}

// A terminal that is too narrow for a page gets a heading with it, because its columns are as they fit there.
func TestAPageThatIsTooWideHasItsHeading(t *testing.T) {
	t.Parallel()
	var shown bytes.Buffer
	s := &Screen{w: &shown, terminal: true}
	var p PagedTable
	header := []string{"Record", "What is the matter"}
	p.Write(s, header, [][]string{{"A1", "short"}})
	p.Write(s, header, [][]string{{"A2", strings.Repeat("long ", 30)}})
	p.Write(s, header, [][]string{{"A3", "short"}})
	if got := shown.String(); strings.Count(got, "Record") != 3 || strings.Count(got, "long") != 30 {
		t.Errorf("the pages are\n%s", got)
	}
}

// By this the widths of columns are told from the bytes of most cells.
func FuzzNoTextIsWiderThanItHasBytes(f *testing.F) {
	for _, s := range []string{"", "Ada", "Müller ½ “Æ”", "日本語", "👩‍👩‍👧 🇩🇪", "e\u0301\u0327", "\x1b[31m\x00\u202e",
		"\xff\xfe", "│─┼"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s = Visible(s); runewidth.StringWidth(s) > len(s) {
			t.Errorf("%q has %d bytes and takes %d columns", s, len(s), runewidth.StringWidth(s))
		}
	})
}

func TestATableOnANarrowTerminalCutsNoLink(t *testing.T) {
	t.Parallel()
	link := "https://sign.example.org/mandates/" + strings.Repeat("a1b2", 20)
	var shown bytes.Buffer
	s := &Screen{w: &shown, terminal: true}
	Table(s, []string{"Name", "Signing link"}, [][]string{{strings.Repeat("Harbour Bakery ", 6), link}})
	if got := shown.String(); !strings.Contains(got, link) || !strings.Contains(got, "\nBakery") {
		t.Errorf("the link is cut, or the name is not broken between its words:\n%s", got)
	}
}
