package csvfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/accounting"
)

// FuzzReader reads whatever a file may hold: it is either refused with an error,
// or every record keeps its promises, and a second read gives the same.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"Id,Name\nA1,Ann\nA1,Bob\n", "\ufeffId;Name\r\nA1;\"Ann\r\nLee\"\r\n", "\xff\xfeI\x00d\x00\n\x00A\x001\x00\n\x00",
		"Id\tName\nA1\tZo\xeb\n", "Title\n\n*Id,,\nA1,,x\n\"", "Id,id\nline 3,\n\x00,\n", "Id\n\"\n\"\"\"\n\"\"\n",
		"Id,N\n1.2E+15,#N/A\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		s := source(t, string(content))
		first, err := collect(t.Context(), s)
		if err != nil && !strings.HasPrefix(err.Error(), "cannot read ") {
			t.Errorf("error %q does not say what could not be done", err)
		}
		if n := bytes.Count(content, []byte("\n")) + 1; len(first) > n {
			t.Errorf("%d records from %d lines", len(first), n)
		}
		checkRecords(t, s, first)
		second, _ := collect(t.Context(), s)
		if len(first) != len(second) {
			t.Fatalf("first read gave %d records, second %d", len(first), len(second))
		}
		for i := range first {
			if first[i].Hash() != second[i].Hash() || first[i].SourceID != second[i].SourceID {
				t.Errorf("record %d differs between two reads", i)
			}
		}
	})
}

func checkRecords(t *testing.T, s *Source, records []connector.Record) {
	t.Helper()
	declared := map[string]bool{}
	if info, err := s.Describe(t.Context()); err == nil {
		for _, field := range info.Fields {
			if declared[strings.ToLower(field.Name)] {
				t.Errorf("field %q is declared twice", field.Name)
			}
			declared[strings.ToLower(field.Name)] = true
		}
	}
	seen := map[string]bool{}
	for _, r := range records {
		if strings.TrimSpace(r.SourceID) == "" || seen[r.SourceID] {
			t.Errorf("source id %q is blank or comes twice", r.SourceID)
		}
		seen[r.SourceID] = true
		var data map[string]string
		if err := json.Unmarshal(r.Data, &data); err != nil {
			t.Errorf("data of %s: %v", r.Origin, err)
		}
		if r.Problem == "" && len(data) != len(declared) || r.Problem != "" && len(data) != 0 {
			t.Errorf("%s has %d fields of %d, problem %q", r.Origin, len(data), len(declared), r.Problem)
		}
		for name := range data {
			if !declared[strings.ToLower(name)] {
				t.Errorf("field %q is not declared", name)
			}
		}
	}
}

// FuzzGoodRowSurvivesJunk puts junk between two good rows: the first one always
// comes through, unless the junk claims its id.
func FuzzGoodRowSurvivesJunk(f *testing.F) {
	for _, seed := range []string{"", "\"", "B1,\"Bob\nC1,Cat\"x\n", "\x00,\xff\n", "B1;x\r", "A1,Again", "\"\"\"\n\"",
		"line 2,\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, junk string) {
		records, err := collect(t.Context(), source(t, "Id,Name\nA1,Ann\n"+junk+"\nZ1,Zed\n"))
		if err != nil && !errors.Is(err, accounting.ErrUndecided) {
			t.Fatalf("read: %v", err)
		}
		first := records[0]
		if first.SourceID != "A1" {
			t.Fatalf("first record is %s, want A1", first.SourceID)
		}
		if first.Problem != "" && !strings.Contains(first.Problem, "have the same Id") {
			t.Errorf("problem of a good row: %s", first.Problem)
		}
		if first.Problem == "" && string(first.Data) != `{"Id":"A1","Name":"Ann"}` {
			t.Errorf("data of a good row: %s", first.Data)
		}
	})
}
