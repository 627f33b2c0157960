package xero

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"payersync/connector"
)

func source(t testing.TB) *Source {
	t.Helper()
	s, err := New(Config{}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// covers F280
func TestDatesOfBothFormsAreTheSameInstant(t *testing.T) {
	t.Parallel()
	instant := time.Date(2017, 8, 21, 20, 49, 4, 227e6, time.UTC)
	tests := []struct {
		text string
		want time.Time
	}{
		{"/Date(1503348544227)/", instant},
		{"/Date(1503348544227+0000)/", instant},
		{"/Date(1503348544227+1300)/", instant}, // the offset is for display
		{"/Date(1503348544227-0800)/", instant},
		{"/Date(-1000)/", time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC)},
		{"/Date(0)/", time.Unix(0, 0).UTC()},
		{"2017-08-21T20:49:04.227", instant}, // the form without zone is UTC
		{"2017-08-21T20:49:04.227Z", instant},
		{"2017-08-21T22:49:04.227+02:00", instant},
		{"", time.Time{}},
		{"/Date()/", time.Time{}},
		{"/Date(12345678901234567890)/", time.Time{}},
		{"/Date(1503348544227)/ and more", time.Time{}},
		{"yesterday", time.Time{}},
		{"/Date(253402318799999-0500)/", time.Time{}}, // in the year 10000
		{"/Date(999999999999999)/", time.Time{}},
		{"/Date(-999999999999999)/", time.Time{}},
		{"/Date(-62135596800001)/", time.Time{}}, // before the year 1
		{"9999-12-31T23:59:59-05:00", time.Time{}},
		{"0001-01-01T00:00:00+02:00", time.Time{}},
	}
	for _, tt := range tests {
		if got := parseDate(tt.text); !got.Equal(tt.want) || got.Location() != time.UTC {
			t.Errorf("parseDate(%q) = %v, want %v", tt.text, got, tt.want)
		}
	}
}

func TestDateWithEscapedSlashesIsRead(t *testing.T) {
	t.Parallel()
	raw := `{"ContactID":"c1","ContactStatus":"ACTIVE","Addresses":[],"Phones":[],"UpdatedDateUTC":"\/Date(1763632800123+0000)\/"}`
	got := source(t).record(json.RawMessage(raw))
	if want := time.UnixMilli(1763632800123); !got.UpdatedAt.Equal(want) {
		t.Errorf("updated at %v, want %v", got.UpdatedAt, want)
	}
}

// covers F44
func TestStatusSaysWhereAContactStands(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status, merged string
		want           connector.RecordState
		into           string
	}{
		{`"ACTIVE"`, `null`, connector.RecordActive, ""},
		{`"ACTIVE"`, `""`, connector.RecordActive, ""},
		{`"ACTIVE"`, `"00000000-0000-0000-0000-000000000000"`, connector.RecordActive, ""},
		{`"ACTIVE"`, `"c1"`, connector.RecordActive, ""},
		{`"ARCHIVED"`, `null`, connector.RecordArchived, ""},
		{`"ARCHIVED"`, `"c2"`, connector.RecordMerged, "c2"},
		{`"GDPRREQUEST"`, `null`, connector.RecordDeleted, ""},
		{`"PAUSED"`, `null`, connector.RecordUnknown, ""},
		{`"active"`, `null`, connector.RecordUnknown, ""},
		{`""`, `null`, connector.RecordUnknown, ""},
		{`null`, `null`, connector.RecordUnknown, ""},
	}
	for _, tt := range tests {
		raw := `{"ContactID":"c1","Addresses":[],"Phones":[],"ContactStatus":` + tt.status + `,"MergedToContactID":` +
			tt.merged + `}`
		got := source(t).record(json.RawMessage(raw))
		if got.State != tt.want || got.MergedInto != tt.into || got.Problem != "" {
			t.Errorf("status %s merged %s: %q into %q, problem %q; want %q into %q", tt.status, tt.merged, got.State,
				got.MergedInto, got.Problem, tt.want, tt.into)
		}
	}
}

func TestContactKeepsAbsentNullAndEmptyApart(t *testing.T) {
	t.Parallel()
	raw := `{"Phones":[],"Addresses":[{"AddressType":"POBOX","Shape":1,"City":""}],"ContactID":"c1","ContactStatus":"ACTIVE",
	 "FirstName":"","EmailAddress":null,"TaxNumbeType":"x","BankAccountDetails":"12-34-56 12345678","AccountNumber":12345678901234567890}`
	got := source(t).record(json.RawMessage(raw))
	want := `{"ContactID":"c1","ContactStatus":"ACTIVE","AccountNumber":"12345678901234567890","FirstName":"","EmailAddress":null,` +
		`"Addresses":[{"AddressType":"POBOX","City":""}],"Phones":[]}`
	if string(got.Data) != want || got.Problem != "" {
		t.Errorf("data %s, problem %q; want %s", got.Data, got.Problem, want)
	}
}

func TestUnusableContactHasAProblemWithoutItsValues(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, raw, problem, id string }{
		{"another type", `{"ContactID":"c1","ContactStatus":"ACTIVE","EmailAddress":{"a":"ann@private.example"}}`,
			"The field EmailAddress is not a text.", "c1"},
		{"another type below", `{"ContactID":"c1","Addresses":[{"City":["private"]}],"Phones":[]}`,
			"The field Addresses.City is not a text.", "c1"},
		{"no list", `{"ContactID":"c1","Phones":{"private":1}}`, "The field Phones is not a list.", "c1"},
		{"summary", `{"ContactID":"c1","ContactStatus":"ACTIVE","Name":"private"}`, "only a summary", "c1"},
		{"no id", `{"ContactStatus":"ACTIVE","Name":"private"}`, "without a ContactID", "without id "},
		{"id of another type", `{"ContactID":["private"]}`, "without a ContactID", "without id "},
		{"no object", `"private"`, "not an object", "without id "},
		{"no text", "{\"ContactID\":\"c1\",\"Name\":\"private \xff\"}", "characters that are no text", "c1"},
	}
	for _, tt := range tests {
		got := source(t).record(json.RawMessage(tt.raw))
		if !strings.Contains(got.Problem, tt.problem) || !strings.HasPrefix(got.SourceID, tt.id) {
			t.Errorf("%s: id %q, problem %q; want %q, %q", tt.name, got.SourceID, got.Problem, tt.id, tt.problem)
		}
		if strings.Contains(got.Problem+got.SourceID+got.Origin, "private") || string(got.Data) != "{}" {
			t.Errorf("%s: the record shows what it should not: %+v", tt.name, got)
		}
	}
}

// FuzzPage reads whatever may come as a page: it is refused, or every record
// keeps its promises, and reading it again gives the same.
func FuzzPage(f *testing.F) {
	for _, seed := range []string{
		`{"pagination":{"page":1,"pageSize":100,"pageCount":1,"itemCount":2},"Contacts":[{"ContactID":"c1","ContactStatus":"ACTIVE","Name":"A","Addresses":[{"AddressType":"STREET","City":""}],"Phones":[],"UpdatedDateUTC":"\/Date(1763632800123+0000)\/"},{"ContactID":"c2","ContactStatus":"ARCHIVED","MergedToContactID":"c1","EmailAddress":null}]}`,
		`{"pagination":{"page":1},"Contacts":[null,1,"x",[],{},{"ContactID":""},{"ContactID":"c1","ContactID":"c2"}]}`,
		`{"Contacts":[]}`, `{"Contacts":null}`, `[]`, `{}`, `<html>`, "", `{"pagination":{"page":1e3},"Contacts":[{}]}`,
		`{"pagination":{"page":1},"Contacts":[{"ContactID":"c","PaymentTerms":{"Sales":{"Day":20,"Type":"X"}},"IsCustomer":true,"ContactPersons":[{"IncludeInEmails":"no"}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	s := source(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		page, err := parsePage(body, 1)
		if err != nil {
			return
		}
		for _, raw := range page.Contacts {
			r := s.record(raw)
			if strings.TrimSpace(r.SourceID) == "" {
				t.Errorf("record of %q has no id", raw)
			}
			var data map[string]json.RawMessage
			if err := json.Unmarshal(r.Data, &data); err != nil || (r.Problem != "" && len(data) > 0) {
				t.Errorf("data %q with problem %q: %v", r.Data, r.Problem, err)
			}
			if again := s.record(raw); again.Hash() != r.Hash() || again.SourceID != r.SourceID {
				t.Errorf("two readings of %q differ", raw)
			}
			if r.State == connector.RecordMerged && (r.MergedInto == "" || r.MergedInto == r.SourceID) {
				t.Errorf("%q is merged into %q", r.SourceID, r.MergedInto)
			}
		}
	})
}
