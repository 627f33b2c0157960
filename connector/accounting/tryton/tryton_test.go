package tryton_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/tryton"
	"payersync/connector/accounting/tryton/trytontest"
	"payersync/connector/transport"
)

func TestConfigurationErrorsNameTheKey(t *testing.T) {
	t.Parallel()
	good := tryton.Config{URL: "https://books.example", Database: "acct", User: "payersync",
		Password: connector.NewSecret("secret")}
	tests := []struct {
		key    string
		change func(c *tryton.Config)
	}{
		{"url", func(c *tryton.Config) { c.URL = "" }},
		{"url", func(c *tryton.Config) { c.URL = "books.example" }},
		{"url", func(c *tryton.Config) { c.URL = "ftp://books.example" }},
		{"url", func(c *tryton.Config) { c.URL = "https://me:secret@books.example" }},
		{"database", func(c *tryton.Config) { c.Database = "" }},
		{"database", func(c *tryton.Config) { c.Database = "a/b" }},
		{"user", func(c *tryton.Config) { c.User = "" }},
		{"password", func(c *tryton.Config) { c.Password = connector.Secret{} }},
		{"page_size", func(c *tryton.Config) { c.PageSize = 1001 }},
	}
	for _, tt := range tests {
		c := good
		tt.change(&c)
		_, err := tryton.New(c, tryton.Deps{})
		if err == nil || !strings.HasPrefix(err.Error(), "tryton source: "+tt.key+" ") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v", tt.key, err)
		}
	}
	if _, err := tryton.New(good, tryton.Deps{}); err != nil {
		t.Error(err)
	}
}

// A wrong password is tried once: a few more would close the login to everybody.
//
// covers F29
func TestWrongPasswordIsTriedOnce(t *testing.T) {
	b := openBooks(t)
	b.add(1)
	c := b.config()
	c.Password = connector.NewSecret("a wrong password")
	s := b.open(c)
	for range 3 {
		_, err := tryRead(t.Context(), s, time.Time{})
		var gone *accounting.Disconnected
		if !errors.As(err, &gone) || strings.Contains(err.Error(), "a wrong password") {
			t.Fatalf("error %v, want one that the source is disconnected", err)
		}
	}
	s.Probe(t.Context())
	if n := b.logins(); n != 1 {
		t.Errorf("the password was tried %d times", n)
	}
}

func (b *books) logins() (n int) {
	for _, c := range b.front.Calls() {
		if c.Method == "common.db.login" {
			n++
		}
	}
	return n
}

// covers F13
func TestClosedLoginParksTheSource(t *testing.T) {
	b := openBooks(t)
	c := b.config()
	c.Password = connector.NewSecret("a wrong password")
	for range 6 { // what a wrong configuration does in six runs
		_, _ = tryRead(t.Context(), b.open(c), time.Time{})
	}
	before := time.Now()
	_, err := tryRead(t.Context(), b.source, time.Time{}) // with the right password
	var parked *accounting.Parked
	if !errors.As(err, &parked) || parked.Until.Before(before.Add(4*time.Minute)) ||
		!b.limiter.Parked().Equal(parked.Until) {
		t.Fatalf("error %v, limiter parked until %v", err, b.limiter.Parked())
	}
	calls := len(b.front.Calls())
	_, err = tryRead(t.Context(), b.open(b.config()), time.Time{})
	if !errors.As(err, &parked) || len(b.front.Calls()) != calls {
		t.Errorf("a parked source made %d calls, error %v", len(b.front.Calls())-calls, err)
	}
}

// covers F21
func TestSessionThatIsRefusedTwiceIsNoReasonToLoop(t *testing.T) {
	b := openBooks(t)
	b.front.Answer(func(c trytontest.Call, w http.ResponseWriter) bool {
		if c.Method == "common.db.login" {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	var gone *accounting.Disconnected
	if _, err := tryRead(t.Context(), b.source, time.Time{}); !errors.As(err, &gone) {
		t.Errorf("error %v", err)
	}
	if n := b.logins(); n != 2 {
		t.Errorf("%d logins, want 2", n)
	}
}

func TestInactivePartsDoNotSpeakForAParty(t *testing.T) {
	b := openBooks(t)
	party := b.add(1)[0]
	var mechanisms []int64
	b.Call(&mechanisms, "model.party.contact_mechanism.search", []any{[]any{"type", "=", "email"}}, 0, nil, nil,
		trytontest.Values{})
	b.Write("party.contact_mechanism", mechanisms[0], trytontest.Values{"active": false})
	b.Create("party.contact_mechanism", trytontest.Values{"party": party, "type": "email", "value": "new@books.example"})
	got := read(t, b.source, time.Time{})[strconv.FormatInt(party, 10)]
	if text := string(got.Data); strings.Contains(text, "c0@books.example") ||
		!strings.Contains(text, `"email":"new@books.example"`) {
		t.Errorf("data %s", text)
	}
}

// Where nothing of a party is active any more, an erasure moves no time of edit.
//
// covers F44
func TestErasureWithoutATraceIsSeenByTheNextIncrementalRead(t *testing.T) {
	b := openBooks(t)
	party := b.add(1)[0]
	for _, model := range []string{"party.address", "party.contact_mechanism"} {
		var parts []int64
		b.Call(&parts, "model."+model+".search", []any{[]any{"party", "=", party}}, 0, nil, nil, trytontest.Values{})
		for _, part := range parts {
			b.Write(model, part, trytontest.Values{"active": false})
		}
	}
	b.Write("party.party", party, trytontest.Values{"active": false})
	since := time.Now()
	b.Erase(party)
	records := read(t, b.source, since)
	if diff := cmp.Diff(facts(t, byID(b.truth())), facts(t, records)); diff != "" {
		t.Errorf("records (-truth +read):\n%s", diff)
	}
}

func TestProbeSaysWhatWorksAndWhatDoesNot(t *testing.T) {
	b := openBooks(t)
	b.add(1)
	if got, want := names(b.source.Probe(t.Context())),
		"server ok, clock ok, credentials ok, permissions ok, one page ok"; got != want {
		t.Errorf("probes of a good database: %s\nwant %s", got, want)
	}
	c := b.config()
	c.Database = "nowhere"
	if got, want := names(b.open(c).Probe(t.Context())), "server ok, clock ok, credentials failed"; got != want {
		t.Errorf("probes of no database: %s\nwant %s", got, want)
	}
	b.front.Answer(func(c trytontest.Call, w http.ResponseWriter) bool {
		if c.Method != "model.ir.model.access.get_access" {
			return false
		}
		_, _ = io.WriteString(w, `{"id":1,"result":{"party.party":{"read":true},"party.address":{"read":0}}}`)
		return true
	})
	got := b.open(b.config()).Probe(t.Context())
	last := got[len(got)-1]
	if last.Name != "permissions" || last.OK || !strings.Contains(last.Detail, "may not read party.address;") {
		t.Errorf("probe without permission: %+v", last)
	}
}

func names(probes []accounting.Probe) string {
	var out []string
	for _, p := range probes {
		verdict := map[bool]string{true: "ok", false: "failed"}[p.OK]
		out = append(out, p.Name+" "+verdict)
	}
	return strings.Join(out, ", ")
}

// scripted is a server whose every read gives the same rows.
func scripted(t testing.TB, rows string) *tryton.Source {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "common.db.login"):
			_, _ = io.WriteString(w, `{"id":1,"result":[1,"key"]}`)
		case strings.Contains(string(body), "fields_get"):
			_, _ = io.WriteString(w, `{"id":1,"result":{"invoice":{},"building_name":{}}}`)
		default:
			_, _ = io.WriteString(w, `{"id":1,"result":`+rows+`}`)
		}
	}))
	t.Cleanup(s.Close)
	client := transport.New(transport.Options{Retries: -1})
	t.Cleanup(client.Close)
	source, err := tryton.New(tryton.Config{URL: s.URL, Database: "acct", User: "u", Password: connector.NewSecret("p")},
		tryton.Deps{HTTP: client, Limiter: &accountingtest.Limiter{}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// row is a party as a server answers it, with some of its keys replaced.
func row(changes map[string]string) string {
	keys := map[string]string{
		"id": "17", "code": `"C1"`, "name": `"Ann"`, "active": "true", "replaced_by": "null", "categories.": "[]",
		"tax_identifier.": "null",
		"create_date":     `{"__class__":"datetime","year":2026,"month":1,"day":2,"hour":3,"minute":4,"second":5,"microsecond":678901}`,
		"write_date":      "null", "addresses.": "[]", "contact_mechanisms.": "[]", "identifiers.": "[]",
	}
	for key, value := range changes {
		keys[key] = value
	}
	var members []string
	for key, value := range keys {
		if value != "" {
			members = append(members, strconv.Quote(key)+":"+value)
		}
	}
	return "[{" + strings.Join(members, ",") + "}]"
}

func TestRowsBecomeRecords(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		changes map[string]string
		want    connector.Record // State, MergedInto, Problem and UpdatedAt
	}{
		{"active", nil, connector.Record{State: connector.RecordActive}},
		{"active as a number", map[string]string{"active": "1"}, connector.Record{State: connector.RecordActive}},
		{"archived", map[string]string{"active": "0"}, connector.Record{State: connector.RecordArchived}},
		{"merged", map[string]string{"active": "false", "replaced_by": "4"},
			connector.Record{State: connector.RecordMerged, MergedInto: "4"}},
		{"neither active nor not", map[string]string{"active": "null"}, connector.Record{State: connector.RecordUnknown}},
		{"active of another type", map[string]string{"active": `"yes"`},
			connector.Record{State: connector.RecordUnknown, Problem: "A field of the party has another type than is known."}},
		{"addresses left out", map[string]string{"addresses.": ""},
			connector.Record{State: connector.RecordUnknown,
				Problem: "The server omitted addresses of this party; check what the user may read."}},
		{"no UTF-8", map[string]string{"name": "\"\xff\""},
			connector.Record{State: connector.RecordUnknown, Problem: "The party holds characters that are no text."}},
		{"NUL", map[string]string{"name": `"a\u0000b"`},
			connector.Record{State: connector.RecordActive,
				Problem: "The party holds a NUL character in one of its texts; remove it in Tryton."}},
		{"no NUL, but a backslash", map[string]string{"name": `"a\\u0000b"`},
			connector.Record{State: connector.RecordActive}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := read(t, scripted(t, row(tt.changes)), time.Time{})["17"]
			summary := connector.Record{State: got.State, MergedInto: got.MergedInto, Problem: got.Problem}
			if diff := cmp.Diff(tt.want, summary); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDataOfARowHasEveryDeclaredField(t *testing.T) {
	t.Parallel()
	s := scripted(t, row(map[string]string{
		"write_date": `{"__class__":"datetime","year":2026,"month":2,"day":3,"hour":4,"minute":5,"second":6,"microsecond":7}`,
		"addresses.": `[{"id":1,"active":true,"party_name":"A","building_name":"Quay House","street":"1 Quay St\nUnit 4","postal_code":"YO21","city":"Whitby",` +
			`"country.":{"code":"GB"},"subdivision.":{"name":"North Yorkshire"},"invoice":1},{"id":2,"active":0,"city":"Old"}]`,
		"contact_mechanisms.": `[{"active":0,"type":"email","value":"old@a.example"},{"active":1,"type":"email","value":"ann@a.example","name":"Desk"}]`,
		"identifiers.":        `[{"type":"gb_vat","code":"GB1"}]`,
		"tax_identifier.":     `{"type":"gb_vat","code":"GB1"}`,
		"categories.":         `[{"id":1,"name":"Customers"}]`,
	}))
	got := read(t, s, time.Time{})["17"]
	want := `{"id":"17","code":"C1","name":"Ann","active":true,"email":"ann@a.example","phone":null,"mobile":null,"website":null,` +
		`"tax_identifier":{"type":"gb_vat","code":"GB1"},"categories":["Customers"],` +
		`"addresses":[{"party_name":"A","name":"Quay House","street":"1 Quay St\nUnit 4","postal_code":"YO21","city":"Whitby","subdivision":"North Yorkshire","country":"GB","invoice":true,"delivery":null}],` +
		`"contact_mechanisms":[{"type":"email","value":"ann@a.example","name":"Desk","invoice":null}],"identifiers":[{"type":"gb_vat","code":"GB1"}]}`
	if diff := cmp.Diff(want, string(got.Data)); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if at := time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC); !got.UpdatedAt.Equal(at) {
		t.Errorf("updated at %v, want %v", got.UpdatedAt, at)
	}
}

// covers F20
func TestAnswersThatCannotBeUsedEndTheReadAndQuoteNothing(t *testing.T) {
	t.Parallel()
	for _, rows := range []string{`{}`, `[{"name":"Ann"}]`, `[{"id":"x"}]`, `[{"id":5},{"id":4}]`, `[{"id":5},{"id":5}]`,
		`[{"id":1.5}]`, `null`, `"Ann"`} {
		_, err := tryRead(t.Context(), scripted(t, rows), time.Time{})
		if rows == "null" && err == nil {
			t.Error("null was taken for an empty list")
			continue
		}
		if err == nil || strings.Contains(err.Error(), "Ann") || connector.FaultOf(err) != connector.FaultUnavailable {
			t.Errorf("%s: error %v", rows, err)
		}
	}
}

// covers F91
func TestErrorsOfTheServerAreNotQuoted(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":1,"error":["Ann Baker's party is broken","at line 1 of Ann Baker"]}`)
	}))
	t.Cleanup(s.Close)
	client := transport.New(transport.Options{Retries: -1})
	t.Cleanup(client.Close)
	source, err := tryton.New(tryton.Config{URL: s.URL, Database: "acct", User: "u", Password: connector.NewSecret("p")},
		tryton.Deps{HTTP: client, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tryRead(t.Context(), source, time.Time{})
	if err == nil || strings.Contains(err.Error(), "Ann") || !strings.Contains(err.Error(), "server's log") {
		t.Errorf("error %v", err)
	}
}

// FuzzRows reads whatever a server may answer for its rows: the read fails, or
// every record keeps its promises.
func FuzzRows(f *testing.F) {
	for _, seed := range []string{row(nil), row(map[string]string{"active": "null", "replaced_by": "3"}), `[]`,
		`[{"id":1}]`, `[{"id":1,"addresses.":[null]}]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rows string) {
		source := scripted(t, rows)
		info, err := source.Describe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		records, err := tryRead(t.Context(), source, time.Time{})
		if err != nil && connector.FaultOf(err) == "" {
			t.Errorf("error %v is of no kind", err)
		}
		for id, r := range records {
			if n, err := strconv.ParseInt(id, 10, 64); err != nil || n <= 0 {
				t.Errorf("id %q", id)
			}
			if data, problem := accounting.Declared(r.Data, info.Fields); problem != "" || string(data) != string(r.Data) {
				t.Errorf("data %s becomes %s: %s", r.Data, data, problem)
			}
		}
	})
}

func ExampleConfig() {
	_, err := tryton.New(tryton.Config{URL: "tryton.example.com"}, tryton.Deps{})
	fmt.Println(err)
	// Output: tryton source: url is no web address; write it as in https://tryton.example.com
}
