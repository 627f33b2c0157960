package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/mapping/strict"
)

// heavy is a record at the bounds: long texts and long lists.
func heavy(t testing.TB) connector.Record {
	t.Helper()
	phones := make([]map[string]string, maxList)
	for i := range phones {
		phones[i] = map[string]string{"PhoneType": "DEFAULT", "PhoneNumber": fmt.Sprint(i)}
	}
	data, err := json.Marshal(map[string]any{
		"ContactID": "c1", "Name": strings.Repeat("a", maxText), "FirstName": strings.Repeat("a", maxText),
		"Tags": make([]string, maxList), "Phones": phones,
	})
	if err != nil {
		t.Fatal(err)
	}
	return connector.Record{Data: data}
}

// hardWork are expressions that would take long, or much memory, if they were let.
var hardWork = []string{
	`count(Phones, count(Phones, count(Phones, .PhoneNumber != "") > 0) > 0) > 0 ? "a" : "b"`,
	`let r = 1..30000; count(r, count(r, count(r, # > 0) > 0) > 0) > 0 ? "a" : "b"`,
	`let r = 1..30000; join(map(r, map(r, map(r, Name)[0])[0]), "")`,
	`len(1..999999999) > 1 ? "a" : "b"`,
	`join(map(1..999, Name), Name)`,
	`let a = Name + Name; let b = a + a; let c = b + b; let d = c + c; d + d`,
	`let m = {a: Name}; let a = m.a + m.a; let b = a + a; let c = b + b; let d = c + c; d + d`,
	`replace(Name, "a", Name)`,
	`len(split(Name, "a")) > 1 ? "a" : "b"`,
	`Name matches "(a*)*(a|b|ab)*c$" ? "a" : "b"`,
	`Name matches "(.{0,30}x){0,30}$" ? "a" : "b"`,
	`any(1..9999, Name matches "^(a+)+b$") ? "a" : "b"`,
	`any(1..9999, Name contains FirstName + "b") ? "a" : "b"`,
	`all(1..9999, Name == FirstName) ? "a" : "b"`,
	`all(1..9999, Name <= FirstName && Name >= FirstName) ? "a" : "b"`,
	`all(1..9999, FirstName in [Name, Name + "", Name]) ? "a" : "b"`,
	`all(1..9999, lower(upper(title(Name))) != "") ? "a" : "b"`,
	`all(1..9999, Name startsWith FirstName) ? "a" : "b"`,
	`all(1..9999, Phones == Phones) ? "a" : "b"`,
	`all(1..9999, Tags[0:999] == Tags[0:999]) ? "a" : "b"`,
	`all(1..9999, len(filter(Phones, true)) > 0) ? "a" : "b"`,
	`all(1..9999, Phones[0] in Phones) ? "a" : "b"`,
	`any(1..9999, "none" in Tags) ? "a" : "b"`,
	`all(1..9999, len(Name) > 0) ? "a" : "b"`,
	`all(1..9999, filter(Phones, true) == Phones) ? "a" : "b"`,
	`let p = filter(Phones, true); all(1..9999, p == Phones) ? "a" : "b"`,
	`let p = filter(Phones, true); any(1..9999, p != Phones) ? "a" : "b"`,
	`let m = {a: Phones, b: filter(Phones, true)}; any(1..9999, m.a != m.b) ? "a" : "b"`,
	`all(1..9999, phone(Phones, "FAX") == "") ? "a" : "b"`,
}

// covers F92
func TestNoExpressionMakesARecordHang(t *testing.T) {
	r := heavy(t)
	for _, expression := range hardWork {
		t.Run(expression, func(t *testing.T) {
			m := load(t, named(expression))
			start := time.Now()
			_, err := m.Apply(r)
			took := time.Since(start)
			t.Logf("%v, %v", took.Round(time.Millisecond/10), err)
			if took > 100*time.Millisecond*slowdown {
				t.Errorf("took %v", took)
			}
			var unmapped *RecordError
			if err != nil && !errors.As(err, &unmapped) {
				t.Errorf("Apply = %T, want a *RecordError", err)
			}
		})
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(wholeFile(f))
	for _, pattern := range []string{"testdata/wrong/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data))
		}
	}
	f.Fuzz(func(t *testing.T, yaml string) {
		m, err := Load("mapping.yaml", []byte(yaml), xero())
		var wrong *strict.Error
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("Load = %T, want a *strict.Error", err)
		}
		if err == nil {
			applyOnce(t, m)
		}
	})
}

func FuzzExpression(f *testing.F) {
	for _, e := range hardWork {
		f.Add(e)
	}
	input, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		f.Fatal(err)
	}
	for expression := range strings.Lines(string(input)) {
		f.Add(strings.TrimSpace(expression))
	}
	f.Fuzz(func(t *testing.T, expression string) {
		m, err := Load("mapping.yaml", []byte(named(expression)), xero())
		var wrong *strict.Error
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("Load = %T, want a *strict.Error", err)
		}
		if err == nil {
			applyOnce(t, m)
		}
	})
}

// applyOnce applies a mapping that was accepted: it may refuse the record, in
// bounded time, and nothing else.
func applyOnce(t *testing.T, m *Mapping) {
	t.Helper()
	start := time.Now()
	_, err := m.Apply(heavy(t))
	var unmapped *RecordError
	if err != nil && !errors.As(err, &unmapped) {
		t.Fatalf("Apply = %T, want a *RecordError", err)
	}
	if took := time.Since(start); took > time.Second {
		t.Fatalf("Apply took %v", took)
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"ContactID": "c1", "Name": " Northwind ", "IsCustomer": true, "ContactStatus": "ACTIVE"}`))
	f.Add([]byte(`{"ContactID": 1e400, "Phones": [[]], "Addresses": {"a": null}}`))
	f.Add([]byte(`{"ContactID": "c1", "IsCustomer": true, "ContactStatus": "ACTIVE", "Phones": [{"PhoneType": "DEFAULT", "PhoneNumber": 12}]}`))
	m := load(f, wholeFile(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := m.Apply(connector.Record{Data: data})
		var unmapped *RecordError
		if err != nil && !errors.As(err, &unmapped) {
			t.Fatalf("Apply = %T, want a *RecordError", err)
		}
	})
}
