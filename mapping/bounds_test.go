package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/connector"
	"payersync/mapping/strict"
)

// heavy is a record at the bounds: long texts and long lists.
func TestAnEndlessMappingIsRefusedWithoutCompilingItAll(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	file.WriteString("version: 1\nsource: xero\nkey: {id: ContactID}\ncustomer: {name: Name}\nexternalData:\n")
	for i := range 3_000 {
		fmt.Fprintf(&file, "  k%05d: Naem\n", i)
	}
	_, err := Load("mapping.yaml", []byte(file.String()), xero())
	var wrong *strict.Error
	// key and name are right; one problem is that there are too many
	if !errors.As(err, &wrong) || len(wrong.Problems) != maxExpressions-2+1 {
		t.Errorf("Load gives %d problems, want those of the first %d expressions and one more", len(wrong.Problems),
			maxExpressions)
	}
}

func heavy(t testing.TB) connector.Record {
	t.Helper()
	phones := make([]map[string]string, maxList)
	for i := range phones {
		phones[i] = map[string]string{"PhoneType": "DEFAULT", "PhoneNumber": fmt.Sprint(i)}
	}
	data, err := json.Marshal(map[string]any{
		"ContactID": "c1", "Name": strings.Repeat("a", maxText), "FirstName": strings.Repeat("a", maxText),
		"EmailAddress": strings.Repeat("a@ ", maxText/3), "LastName": strings.Repeat("(", 300) + "a@b.c",
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
	`all(1..9999, lower(Name) <= lower(FirstName) && lower(Name) >= lower(FirstName)) ? "a" : "b"`,
	`all(1..9999, FirstName in [Name, Name + "", Name]) ? "a" : "b"`,
	`all(1..9999, lower(upper(title(Name))) != "") ? "a" : "b"`,
	`all(1..9999, Name startsWith FirstName) ? "a" : "b"`,
	`all(1..9999, Phones == Phones) ? "a" : "b"`,
	`all(1..9999, Tags[0:999] == Tags[0:999]) ? "a" : "b"`,
	`all(1..9999, len(filter(Phones, true)) > 0) ? "a" : "b"`,
	`all(1..9999, Phones[0] in Phones) ? "a" : "b"`,
	`any(1..9999, "none" in Tags) ? "a" : "b"`,
	`all(1..9999, len(Name) > 0) ? "a" : "b"`,
	`all(1..9999, Name[1:] != "") ? "a" : "b"`,
	`all(1..9999, filter(Phones, true) == Phones) ? "a" : "b"`,
	`let p = filter(Phones, true); all(1..9999, p == Phones) ? "a" : "b"`,
	`let p = filter(Phones, true); any(1..9999, p != Phones) ? "a" : "b"`,
	`let m = {a: Phones, b: filter(Phones, true)}; any(1..9999, m.a != m.b) ? "a" : "b"`,
	`all(1..9999, phone(Phones, "FAX") == "") ? "a" : "b"`,
	`all(1..9999, phone(Phones, "DEFAULT") != "") ? "a" : "b"`,
	`all(1..9999, phone("+44 113 496 0123") != "") ? "a" : "b"`,
	`all(1..9999, phone(Name, "GB") != "") ? "a" : "b"`,
	`all(1..9999, len(emails(EmailAddress)) > 0) ? "a" : "b"`,
	`all(1..9999, firstEmail(EmailAddress) != "") ? "a" : "b"`,
	`all(1..9999, isEmail(LastName) or true) ? "a" : "b"`,
	`all(1..9999, isEmail(truncate(LastName, 320)) or true) ? "a" : "b"`,
	`all(1..9999, country("Democratic Republic of the Congo") != "") ? "a" : "b"`,
	`all(1..9999, country(Name) != "") ? "a" : "b"`,
	`all(1..9999, date("31 December 2024 10:15", "D MMMM YYYY") != "") ? "a" : "b"`,
	`all(1..9999, number("1,234,567,890,123.45") > 1) ? "a" : "b"`,
	`all(1..9999, postcode(Name) != "") ? "a" : "b"`,
	`all(1..9999, digits(Name) == "") ? "a" : "b"`,
	`join(map(map(1..999, person(Name, Name, Name)), .name), "")`,
	`all(1..9999, IsCustomer ? true : coalesce(Name, Name) != "") ? "a" : "b"`,
}

// Bounds of the work on one record, however hard its mapping and its values. The
// race detector slows it down, and drops memory that would be used again.
const (
	maxTime      = 100 * time.Millisecond * slowdown
	maxAllocated = slowdown * 32 << 20 // bytes over the whole work, so a bound of what is held at any moment too
)

// covers F92
func TestNoExpressionMakesARecordHang(t *testing.T) {
	r := heavy(t)
	for _, expression := range hardWork {
		t.Run(expression, func(t *testing.T) {
			checkBounded(t, load(t, named(expression)), r)
		})
	}
}

// checkBounded applies a mapping. It may refuse the record, within the bounds,
// and do nothing else.
func checkBounded(t *testing.T, m *Mapping, r connector.Record) {
	t.Helper()
	before, start := allocated(), processorTime(t)
	_, err := m.Apply(r)
	took, bytes := processorTime(t)-start, allocated()-before
	for try := 0; try < 2 && took > maxTime; try++ { // the collector may have worked beside it
		start = processorTime(t)
		_, _ = m.Apply(r)
		took = min(took, processorTime(t)-start)
	}
	t.Logf("%v, %d KiB, %v", took.Round(time.Millisecond/10), bytes>>10, err)
	if took > maxTime {
		t.Errorf("Apply took %v", took)
	}
	if bytes > maxAllocated {
		t.Errorf("Apply allocated %d bytes", bytes)
	}
	var unmapped *RecordError
	if err != nil && !errors.As(err, &unmapped) {
		t.Errorf("Apply = %T, want a *RecordError", err)
	}
}

// checkWatched compares Explain and Coverage with Apply.
func checkWatched(t *testing.T, m *Mapping, r connector.Record) {
	t.Helper()
	_, err := m.Apply(r)
	if x := m.Explain(r); fmt.Sprint(x.Err) != fmt.Sprint(err) {
		t.Errorf("Explain = %v, Apply = %v", x.Err, err)
	}
	c := m.NewCoverage()
	c.Add(r)
	if failed := c.Report().Failed == 1; failed != (err != nil) {
		t.Errorf("Coverage counts a failure: %v, Apply = %v", failed, err)
	}
}

// processorTime returns how long this process has worked. Expressions never
// wait, and unlike a clock it stands still while a busy machine does other work.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// allocated returns how many bytes were ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
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
	r := heavy(f)
	f.Fuzz(func(t *testing.T, yaml string) {
		m, err := read("mapping.yaml", []byte(yaml), xero()) // what could be meant takes a hundred times as long
		var wrong *strict.Error
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("Load = %T, want a *strict.Error", err)
		}
		if err == nil {
			checkBounded(t, m, r)
			checkWatched(t, m, r)
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
	r := heavy(f)
	f.Fuzz(func(t *testing.T, expression string) {
		m, err := Load("mapping.yaml", []byte(named(expression)), xero())
		var wrong *strict.Error
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("Load = %T, want a *strict.Error", err)
		}
		if err == nil {
			checkBounded(t, m, r)
			checkWatched(t, m, r)
		}
	})
}

// everyFunction is a mapping whose result depends on every function.
const everyFunction = `version: 1
source: xero
region: AT
key: {id: ContactID}
include: not (EmailAddress matches "^x+$")
customer:
  name: coalesce(trim(Name), upper(LastName), "none")
  people: 'map(emails(EmailAddress), person(title(Name), lower(#), phone(field("phone"))))'
  addresses:
    - {line1: 'truncate(Org.Vat, 9)', city: 'address(Addresses, "POBOX").City', country: country(LastName), postCode: 'postcode(field("Post Code"))'}
externalData:
  phone: phone(Phones, "DEFAULT")
  other: phone(FirstName, country(LastName))
  since: date(DefaultCurrency, "DD/MM/YYYY")
  size: 'number(FirstName) > 1000 ? "large" : "small"'
  digits: digits(replace(default(FirstName, "0"), "0", "1"))
  tags: join(split(join(Tags, ","), ","), ";")
mandate: {request: isEmail(firstEmail(EmailAddress)) or isBlank(Name)}
`

func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"ContactID": "c1", "Name": " Northwind ", "IsCustomer": true, "ContactStatus": "ACTIVE"}`))
	f.Add([]byte(`{"ContactID": 1e400, "Phones": [[]], "Addresses": {"a": null}}`))
	f.Add([]byte(`{"ContactID": "c1", "IsCustomer": true, "ContactStatus": "ACTIVE", "Phones": [{"PhoneType": "DEFAULT", "PhoneNumber": 12}]}`))
	f.Add([]byte(`{"ContactID": "c1", "DefaultCurrency": "31/12/2019", "FirstName": "(£1,250.00)", "LastName": "Österreich", "phone": "01/5134 (0)", "EmailAddress": "a@b.example, @"}`))
	m := load(f, everyFunction)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := connector.Record{Data: data}
		checkBounded(t, m, r)
		checkWatched(t, m, r)
	})
}
