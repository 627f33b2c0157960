package httpsource

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/configs"
	"payersync/connector"
)

// recorded is one answer of a file of recorded answers.
type recorded struct {
	Response json.RawMessage
	Status   int
	Headers  map[string]string
	Request  struct{ Params map[string]string }
}

// recordings returns the recorded answers of a file by method and path. They are not part of the repository: without
// them the test is skipped, unless VENDOR_SPECS says that they are there.
func recordings(t *testing.T, name string) map[string][]recorded {
	t.Helper()
	folder, promised := os.LookupEnv("VENDOR_SPECS")
	path := filepath.Join(cmp.Or(folder, "../../../../shared/specs"), "recorded", name)
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) && !promised {
		t.Skipf("there is no %s: recorded answers are not part of the repository; set VENDOR_SPECS to their folder", path)
	}
	var file struct {
		API map[string]map[string]json.RawMessage
	}
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]recorded{}
	for method, paths := range file.API {
		for path, raw := range paths {
			var all []recorded
			if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
				raw = slices.Concat([]byte("["), raw, []byte("]"))
			}
			if err := json.Unmarshal(raw, &all); err != nil {
				t.Fatal(name, path, err)
			}
			out[method+" "+path] = all
		}
	}
	return out
}

// shippedProfile is a shipped profile with the size of its pages as it is.
func shippedProfile(t testing.TB, name string) *Profile {
	t.Helper()
	text, err := fs.ReadFile(configs.FS, "sources/"+name+"/profile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// page reads one answer as the first page of a profile's list.
func (p *Profile) page(t testing.TB, status int, headers map[string]string, body []byte) ([]connector.Record, bool,
	error) {
	t.Helper()
	var e example
	e.Answer.Status, e.Answer.Headers, e.Answer.Body = status, headers, string(body)
	s, err := p.sample(e.turns(), func() time.Time { return checkTime })
	if err != nil {
		t.Fatal(err)
	}
	if s.login != nil {
		s.login = func(context.Context) (any, error) { return 1, nil }
	}
	l := &listing{source: s, reader: s.reader("1"), vars: s.request("1", time.Time{})}
	sheet, err := l.fetch(t.Context(), 0)
	return sheet.Records, l.short, err
}

// Each want counts the records by their state, as somebody counted them in the file.
func TestRecordedListsAreReadAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		profile, file, request string
		wrap                   string // around an answer that is one record
		states                 map[connector.RecordState]int
		problems               int
		short                  bool
	}{
		{profile: "exact", file: "exact-online-customers.json", request: "get /api/v1/124132/crm/Accounts",
			states: map[connector.RecordState]int{"active": 10}},
		{profile: "zoho-books", file: "zoho-books-contacts.json", request: "get /books/v3/contacts",
			states: map[connector.RecordState]int{"active": 6}},
		{profile: "freshbooks", file: "freshbooks-clients.json", request: "get /accounting/account/ZyQ04o/users/clients",
			states: map[connector.RecordState]int{"active": 3}},
		{profile: "economic", file: "economic-customers-2016.json", request: "get /customers",
			states: map[connector.RecordState]int{"active": 10}},
		{profile: "moneybird", file: "moneybird-contacts-documented.json", request: "get /123/contacts.json",
			states: map[connector.RecordState]int{"active": 5}},
		{profile: "moneybird", file: "moneybird-contacts-documented.json", request: "get /123/contacts/filter.json",
			states: map[connector.RecordState]int{"active": 2}},
		{profile: "freeagent", file: "freeagent-contacts-documented.json", request: "get /v2/contacts",
			states: map[connector.RecordState]int{"active": 1}},
		{profile: "lexware", file: "lexware-contacts-documented.json", request: "get /v1/contacts",
			states: map[connector.RecordState]int{"active": 1}, short: true},
		{profile: "sage-accounting", file: "sage-accounting-contacts-documented.json", request: "get /v3.1/contacts",
			states: map[connector.RecordState]int{"active": 2}, problems: 2},
		{profile: "sage-accounting", file: "sage-accounting-contacts-documented.json",
			request: "get /v3.1/contacts/cced5085c2d24394a758c5d16b38fca1",
			wrap:    `{"$total": 1, "$page": 1, "$next": null, "$items": [@]}`,
			states:  map[connector.RecordState]int{"active": 1}},
		{profile: "fortnox", file: "fortnox-customers.json", request: "get /3/customers/1",
			wrap: `{"MetaInformation": {"@TotalResources": 1, "@TotalPages": 1, "@CurrentPage": 1}, "Customers": [{"CustomerNumber": "1"}], "Customer": @.Customer}`, states: map[connector.RecordState]int{"active": 1}},
		{profile: "fortnox", file: "fortnox-customers.json", request: "get /3/customers/9",
			wrap: `{"MetaInformation": {"@TotalResources": 1, "@TotalPages": 1, "@CurrentPage": 1}, "Customers": [{"CustomerNumber": "9"}], "Customer": @.Customer}`, states: map[connector.RecordState]int{"active": 1}},
		{profile: "fortnox", file: "fortnox-customers.json", request: "get /3/customers",
			states: map[connector.RecordState]int{}},
		{profile: "businesscentral", file: "businesscentral-customer-documented.json",
			request: "get /v2.0/TENANT/Production/api/v2.0/companies(COMPANY)/customers(f2a5738a-44e3-ea11-bb43-000d3a2feca1)",
			wrap:    `{"value": [@]}`, states: map[connector.RecordState]int{"active": 1}},
	} {
		t.Run(tt.profile+" "+tt.request, func(t *testing.T) {
			p := shippedProfile(t, tt.profile)
			all := recordings(t, tt.file)[tt.request]
			states, problems, isShort := map[connector.RecordState]int{}, 0, false
			for i, r := range all {
				body := []byte(r.Response)
				if strings.Contains(tt.wrap, "@.Customer}") { // the list and the detail in one answer
					var detail struct{ Customer json.RawMessage }
					if err := json.Unmarshal(body, &detail); err != nil {
						t.Fatal(err)
					}
					body = []byte(strings.Replace(tt.wrap, "@.Customer", string(detail.Customer), 1))
				} else if tt.wrap != "" {
					body = []byte(strings.Replace(tt.wrap, "@", string(body), 1))
				}
				records, short, err := p.page(t, r.Status, r.Headers, body)
				if r.Status != 200 {
					if err == nil {
						t.Errorf("answer %d with status %d gives a page", i+1, r.Status)
					}
					continue
				}
				if err != nil || short && !tt.short {
					t.Errorf("answer %d: short %t, error %v", i+1, short, err)
				}
				isShort = isShort || short
				for _, record := range records {
					states[record.State]++
					if record.Problem != "" {
						problems++
					}
					// its file is older than the field
					if p.updated != nil && record.UpdatedAt.IsZero() && record.Problem == "" && tt.profile != "economic" {
						t.Errorf("the time of edit of %s is not read", record.SourceID)
					}
				}
			}
			if len(all) == 0 || problems != tt.problems || isShort != tt.short || !sameStates(states, tt.states) {
				t.Errorf("%d answers gave %v with %d problems, short %t; want %v with %d, %t", len(all), states, problems, isShort,
					tt.states, tt.problems, tt.short)
			}
		})
	}
}

func sameStates(a, b map[connector.RecordState]int) bool {
	for _, state := range []connector.RecordState{connector.RecordActive, connector.RecordArchived,
		connector.RecordDeleted, connector.RecordMerged, connector.RecordUnknown} {
		if a[state] != b[state] {
			return false
		}
	}
	return true
}
