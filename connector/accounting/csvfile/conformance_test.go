package csvfile_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/csvfile"
)

// covers F44, F45, F54
func TestSourceConforms(t *testing.T) {
	accountingtest.Run(t, accountingtest.Harness{Open: openBook, Many: 1201})
}

// book is a file of customers that a bookkeeper exports again after every change.
type book struct {
	t      testing.TB
	path   string
	rows   [][]string // Id, Name, Notes
	spoilt map[string]bool
}

func openBook(t testing.TB, n int) accountingtest.Company {
	b := &book{t: t, path: filepath.Join(t.TempDir(), "customers.csv"), spoilt: map[string]bool{}}
	for range n {
		b.rows = append(b.rows, b.newRow())
	}
	b.export(0)
	s, err := csvfile.New(csvfile.Config{Path: b.path, ID: []string{"id"}})
	if err != nil {
		t.Fatal(err)
	}
	c := accountingtest.Company{Source: s, Truth: b.truth, Add: b.add, Edit: b.edit, Spoil: b.spoil, Break: b.cut}
	if _, err := os.Stat("/proc/self/fd"); err == nil {
		c.Held = b.held
	}
	return c
}

func (b *book) newRow() []string {
	id := fmt.Sprintf("A%04d", len(b.rows))
	return []string{id, "Customer \"" + id + "\", Ltd", "first line\nsecond line"}
}

// export writes the file anew, but for its last missing bytes.
func (b *book) export(missing int) {
	var text strings.Builder
	w := csv.NewWriter(&text)
	_ = w.Write([]string{"Id", "Name", "Notes"})
	_ = w.WriteAll(b.rows) // a strings.Builder takes everything
	whole := []byte(text.String())
	if err := os.WriteFile(b.path, whole[:len(whole)-missing], 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *book) row(id string) []string {
	return b.rows[slices.IndexFunc(b.rows, func(r []string) bool { return r[0] == id })]
}

func (b *book) truth() []connector.Record {
	var out []connector.Record
	for _, r := range b.rows {
		if b.spoilt[r[0]] {
			continue
		}
		data, err := json.Marshal(map[string]string{"Id": r[0], "Name": r[1], "Notes": r[2]})
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, connector.Record{SourceID: r[0], State: connector.RecordActive, Data: data})
	}
	return out
}

func (b *book) add() string {
	b.rows = append(b.rows, b.newRow())
	b.export(0)
	return b.rows[len(b.rows)-1][0]
}

func (b *book) edit(id string) {
	b.row(id)[1] += " (renamed)"
	b.export(0)
}

func (b *book) spoil(id string) {
	b.spoilt[id] = true
	b.row(id)[2] = "lost \xff text: zoë"
	b.export(0)
}

// cut leaves the file without its end, as a copy that was interrupted.
func (b *book) cut() func() {
	b.export(10)
	return func() { b.export(0) }
}

// held counts the descriptors that are open on the file.
func (b *book) held() int {
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		b.t.Fatal(err)
	}
	n := 0
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == b.path {
			n++
		}
	}
	return n
}
