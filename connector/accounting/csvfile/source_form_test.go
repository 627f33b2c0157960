package csvfile

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestMemoryHoldsNoMoreThanAPageAndTheIDs(t *testing.T) {
	const rows, width = 4000, 4 << 10
	var b strings.Builder
	b.WriteString("Id,Name\n")
	for i := range rows {
		fmt.Fprintf(&b, "A%d,%s\n", i, strings.Repeat("x", width))
	}
	s := source(t, b.String())
	b.Reset()
	before, most := liveBytes(), int64(0)
	for page, err := range s.Customers(t.Context(), time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, liveBytes())
		runtime.KeepAlive(page)
	}
	if limit := int64(3 * pageSize * width); most-before > limit {
		t.Errorf("reading %d bytes held %d bytes at a time, want at most %d", rows*width, most-before, limit)
	}
}

func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkRead100000Rows(b *testing.B) {
	s := source(b, many(100_000))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for page, err := range s.Customers(b.Context(), time.Time{}) {
			if err != nil {
				b.Fatal(err)
			}
			n += len(page.Records)
		}
		if n != 100_000 {
			b.Fatalf("read %d records, want 100000", n)
		}
	}
}

func TestAFileIsMarkedByAllThatDecidesAboutItsRecords(t *testing.T) {
	t.Parallel()
	const text = "No,Name\nA1,Northwind\n"
	mark := func(path, text string, change func(*Config)) string {
		t.Helper()
		path = filepath.Join(t.TempDir(), path)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Config{Path: path, ID: []string{"No"}}
		change(&c)
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.Mark(t.Context())
		if err != nil || m == "" {
			t.Fatalf("mark %q, %v", m, err)
		}
		return m
	}
	as := func(*Config) {}
	first := mark("a.csv", text, as)
	if again := mark("a.csv", text, as); again != first {
		t.Errorf("the same file elsewhere is marked %s, then %s", first, again)
	}
	for what, other := range map[string]string{
		"a name is edited":      mark("a.csv", strings.Replace(text, "wind", "wend", 1), as),
		"a row is added":        mark("a.csv", text+"A2,Southwind\n", as),
		"another name of file":  mark("b.csv", text, as), // records tell where they come from
		"another id":            mark("a.csv", text, func(c *Config) { c.ID = []string{"Name"} }),
		"two columns as the id": mark("a.csv", text, func(c *Config) { c.ID = []string{"No", "Name"} }),
		"another preset":        mark("a.csv", text, func(c *Config) { c.ID, c.Preset = nil, "sage" }),
		"another encoding":      mark("a.csv", text, func(c *Config) { c.Encoding = "macintosh" }),
		"another delimiter":     mark("a.csv", text, func(c *Config) { c.Delimiter = ";" }),
	} {
		if other == first {
			t.Errorf("%s: the mark is the same", what)
		}
	}
	s, err := New(Config{Path: filepath.Join(t.TempDir(), "none.csv"), ID: []string{"No"}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.Mark(t.Context()); m != "" || err == nil {
		t.Errorf("a file that is not there is marked %q, %v", m, err)
	}
}

// A change of the reading needs a new number: otherwise old readings stay in use until the file changes.
func TestTheFormOfReadingGoesUpWithWhatItGives(t *testing.T) {
	t.Parallel()
	sum := sha256.New()
	for _, text := range []string{
		"No,Name\nA1,Northwind\nA2,\"South, wind\"\n",
		"No;Name;Note\r\nA1;Northwind;12\" pipe\r\n\r\nA2;  ;x;y\r\nA3;a;\"b\nc\"\r\n",
		"Customers\n\nNo\tName\n\tnobody\nA1\tone\nA1\ttwo\n line 3\tx\n",
		"\ufeffNo,Name\nÄ1,Zo\u00eb\n", "No,Name\n\xc41,Zo\xeb\n", "No,Name\nA1,x\n\"A2,y\nA3,z",
	} {
		path := filepath.Join(t.TempDir(), "a.csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := New(Config{Path: path, ID: []string{"No"}})
		if err != nil {
			t.Fatal(err)
		}
		for page, err := range s.Customers(t.Context(), time.Time{}) {
			if err != nil {
				continue // which is told each time
			}
			for _, r := range page.Records {
				fmt.Fprintf(sum, "%q %s %q %q %q %s\n", r.SourceID, r.State, r.Problem, r.Origin, r.MergedInto, r.Data)
			}
		}
	}
	if now := fmt.Sprintf("%d %.6x", form, sum.Sum(nil)); now != givenByForm {
		t.Errorf("the form of reading and what it gives are %s, and were %s: if the second changed, raise the first, and note both here", now, givenByForm)
	}
}

// givenByForm is a form with a digest of what it gives.
const givenByForm = "1 c3f39159ed6b"
