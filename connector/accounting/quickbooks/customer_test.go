package quickbooks

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"payersync/connector"
)

func source(t testing.TB) *Source {
	t.Helper()
	s, err := New(Config{Company: "1"}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTimesAreInstantsWhateverTheirOffset(t *testing.T) {
	t.Parallel()
	instant := time.Date(2026, 11, 20, 1, 5, 44, 0, time.UTC)
	tests := []struct {
		text string
		want time.Time
	}{
		{"2026-11-19T17:05:44-08:00", instant},
		{"2026-11-19T18:05:44-07:00", instant}, // a text comparison would put this one behind
		{"2026-11-20T01:05:44Z", instant},
		{"2026-11-20T01:05:44.000Z", instant},
		{"2026-11-20T06:35:44+05:30", instant},
		{"2026-11-20T01:05:44", time.Time{}},
		{"2026-11-20", time.Time{}},
		{"", time.Time{}},
		{"yesterday", time.Time{}},
	}
	for _, tt := range tests {
		if got := parseTime(tt.text); !got.Equal(tt.want) || got.Location() != time.UTC {
			t.Errorf("parseTime(%q) = %v, want %v", tt.text, got, tt.want)
		}
	}
}

// covers F44
func TestActiveSaysWhereACustomerStands(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]connector.RecordState{
		`{"Id":"1","Active":true}`:                  connector.RecordActive,
		`{"Id":"1","Active":true,"Job":false}`:      connector.RecordActive,
		`{"Id":"1","Active":false}`:                 connector.RecordArchived,
		`{"Id":"1","Active":true,"Job":true}`:       connector.RecordArchived,
		`{"Id":"1","Active":true,"IsProject":true}`: connector.RecordArchived,
		`{"Id":"1"}`:               connector.RecordUnknown,
		`{"Id":"1","Active":null}`: connector.RecordUnknown,
	} {
		if got, _ := source(t).record(json.RawMessage(raw)); got.State != want || got.Problem != "" {
			t.Errorf("%s: state %q, problem %q; want %q", raw, got.State, got.Problem, want)
		}
	}
}

func TestCustomerKeepsDigitsAndDropsWhatIsNotDeclared(t *testing.T) {
	t.Parallel()
	raw := `{"sparse":false,"Id":12345678901234567890,"BillAddr":{"City":"","Id":"75","Lat":"x"},"Active":true,"DefaultTaxCodeRef":{"value":"2"},
	 "MetaData":{"LastUpdatedTime":"2026-11-19T17:05:44-08:00","CreateTime":"2026-01-02T09:11:12-08:00"},"Balance":0.10}`
	got, _ := source(t).record(json.RawMessage(raw))
	want := `{"Id":"12345678901234567890","MetaData":{"CreateTime":"2026-01-02T09:11:12-08:00"},"Active":true,"BillAddr":{"City":""},"Balance":0.10}`
	if string(got.Data) != want || got.SourceID != "12345678901234567890" {
		t.Errorf("id %s, data %s; want %s", got.SourceID, got.Data, want)
	}
}

func TestUnusableCustomerHasAProblemWithoutItsValues(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, raw, problem, id string }{
		{"another type", `{"Id":"1","PrimaryEmailAddr":"ann@private.example"}`,
			"The field PrimaryEmailAddr is not an object.", "1"},
		{"another type below", `{"Id":"1","BillAddr":{"Line1":["private"]}}`, "The field BillAddr.Line1 is not a text.", "1"},
		{"status of another type", `{"Id":"1","status":["private"]}`, "status cannot be read", "1"},
		{"no id", `{"DisplayName":"private"}`, "without an Id", "without id "},
		{"id of another type", `{"Id":{"private":1}}`, "without an Id", "without id "},
		{"id that is no whole number", `{"Id":1.5e3,"DisplayName":"private"}`, "without an Id", "without id "},
		{"no object", `"private"`, "without an Id", "without id "},
		{"null", `null`, "without an Id", "without id "},
	}
	for _, tt := range tests {
		got, _ := source(t).record(json.RawMessage(tt.raw))
		if !strings.Contains(got.Problem, tt.problem) || !strings.HasPrefix(got.SourceID, tt.id) {
			t.Errorf("%s: id %q, problem %q; want %q, %q", tt.name, got.SourceID, got.Problem, tt.id, tt.problem)
		}
		if strings.Contains(got.Problem+got.SourceID+got.Origin, "private") || string(got.Data) != "{}" {
			t.Errorf("%s: the record shows what it should not: %+v", tt.name, got)
		}
	}
}

func TestFaultIsReadInEveryForm(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, code string }{
		{"capital", `{"Fault":{"Error":[{"Message":"m","code":"610"}],"type":"ValidationFault"},"time":"x"}`, "610"},
		{"lower case", `{"fault":{"error":[{"code":"3200"}],"type":"AUTHENTICATION"}}`, "3200"},
		{"leading zeros", `{"Fault":{"Error":[{"code":"003001"}]}}`, "3001"},
		{"a number", `{"Fault":{"Error":[{"code":3100}]}}`, "3100"},
		{"XML", `<IntuitResponse xmlns="http://schema.intuit.com/finance/v3"><Fault type="x"><Error code="3001"/></Fault></IntuitResponse>`, "3001"},
		{"XML with a declaration",
			`<?xml version="1.0"?><IntuitResponse><Fault type="x"><Error code="610"/></Fault></IntuitResponse>`, "610"},
		{"none", `{"QueryResponse":{}}`, ""},
		{"no JSON", `Invalid Company Status`, ""},
		{"a web page", `<!doctype html><p>`, ""},
		{"nothing", ``, ""},
	}
	for _, tt := range tests {
		if got := faultOf([]byte(tt.body)).code(); got != tt.code {
			t.Errorf("%s: code %q, want %q", tt.name, got, tt.code)
		}
	}
}

func TestChangeDataWithoutAResponseIsNoEmptyAnswer(t *testing.T) {
	t.Parallel()
	for body, fine := range map[string]bool{
		`{"CDCResponse":[{"QueryResponse":[{}]}]}`:                        true,
		`{"CDCResponse":[{"QueryResponse":[{"Customer":[{"Id":"1"}]}]}]}`: true,
		`{"CDCResponse":[{"QueryResponse":[]}]}`:                          false,
		`{"CDCResponse":[]}`:                                              false,
		`{}`:                                                              false,
		`{"CDCResponse":[{"QueryResponse":[{"Fault":{"type":"x"}}]}]}`:    false,
		`{"CDCResponse":[{"QueryResponse":[{},{"Fault":{"type":"x"}}]}]}`: false,
	} {
		var said capture
		if err := json.Unmarshal([]byte(body), &said); err != nil {
			t.Fatal(err)
		}
		if _, err := said.rows(); (err == nil) != fine {
			t.Errorf("%s: error %v", body, err)
		}
	}
}

// FuzzRow reads whatever may come as a row, and as a fault: every record keeps
// its promises, and reading it again gives the same.
func FuzzRow(f *testing.F) {
	for _, seed := range []string{
		`{"domain":"QBO","sparse":false,"Id":"67","SyncToken":"3","MetaData":{"CreateTime":"2026-01-02T09:11:12-08:00","LastUpdatedTime":"2026-11-19T17:05:44-08:00"},"GivenName":"Ann","DisplayName":"N","Active":true,"Job":false,"CurrencyRef":{"value":"GBP"},"PrimaryPhone":{"FreeFormNumber":"+44 113 200 0111"},"PrimaryEmailAddr":{"Address":"a@b.example, c@d.example"},"BillAddr":{"Id":"75","Line1":"1 Quay St"},"Balance":0}`,
		`{"status":"Deleted","Id":"3"}`, `{"Id":3,"sparse":true}`, `{"Id":null}`, `null`, `[]`, `"x"`,
		`{"Id":"1","Active":"yes"}`, `{"ID":"1","id":"2","Id":" 3 "}`,
		`{"Fault":{"Error":[{"code":"610"}]}}`,
		`<IntuitResponse><Fault type="x"><Error code="3001"/></Fault></IntuitResponse>`,
	} {
		f.Add([]byte(seed))
	}
	s := source(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		_ = faultOf(body).text()
		if !json.Valid(body) {
			return // a row is always a JSON value
		}
		r, h := s.record(body)
		if strings.TrimSpace(r.SourceID) == "" {
			t.Errorf("record of %q has no id", body)
		}
		var data map[string]json.RawMessage
		if err := json.Unmarshal(r.Data, &data); err != nil || r.Problem != "" && len(data) > 0 {
			t.Errorf("data %q with problem %q: %v", r.Data, r.Problem, err)
		}
		if again, g := s.record(body); again.Hash() != r.Hash() || again.SourceID != r.SourceID ||
			g.tombstone() != h.tombstone() {
			t.Errorf("two readings of %q differ", body)
		}
	})
}
