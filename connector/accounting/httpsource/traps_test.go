package httpsource

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/configs"
	"payersync/connector"
)

// told writes a page for a comparison: the id, state and time of edit of each record.
func told(records []connector.Record) string {
	return strings.Join(connector.Map(records, func(r connector.Record) string {
		line := r.SourceID + " " + string(r.State)
		if !r.UpdatedAt.IsZero() {
			line += " " + r.UpdatedAt.UTC().Format(time.RFC3339)
		}
		if r.Problem != "" {
			line += " with a problem"
		}
		return line
	}), ", ")
}

func TestEachTrapOfASystemIsAvoidedByItsProfile(t *testing.T) {
	t.Parallel()
	ninja := `"meta": {"pagination": {"total": %d, "current_page": 1, "total_pages": 1}}`
	for _, tt := range []struct {
		trap, profile string
		status        int
		headers       map[string]string
		body          string
		want          string // the records that come out
		ends, after   string // how the read ends instead
	}{
		{trap: "a proxy's headers in a good answer pause nothing", profile: "freshbooks",
			headers: map[string]string{"retry-after": "53", "x-ratelimit-remaining": "0"},
			body:    `{"response": {"result": {"clients": [{"id": 1, "updated": "2026-06-29 12:00:00", "vis_state": 0}], "page": 1, "pages": 1, "per_page": 100, "total": 1}}}`, want: "1 active 2026-06-29T16:00:00Z"},
		{trap: "the proxy's reset is not Zoho's", profile: "zoho-books", status: 429,
			headers: map[string]string{"x-ratelimit-reset": "1795172400", "X-RATE-LIMIT-RESET": "7200",
				"X-RATE-LIMIT-REMAINING": "0"}, body: `{"code": 45}`, ends: "parked", after: "2h"},
		{trap: "the proxy's reset is not Exact's", profile: "exact", status: 429,
			headers: map[string]string{"x-ratelimit-reset": "1795172400"}, body: `{}`, ends: "parked", after: "1m"},
		{trap: "Exact writes the local time of summer as UTC", profile: "exact",
			body: `{"d": {"results": [{"ID": "a", "Status": "C", "Blocked": false, "Modified": "/Date(1782404464000)/"}]}}`,
			want: "a active 2026-06-25T14:21:04Z"},
		{trap: "Exact writes the local time of winter as UTC", profile: "exact",
			body: `{"d": {"results": [{"ID": "a", "Status": "A", "Blocked": false, "Modified": "/Date(1768494064000)/"}]}}`,
			want: "a active 2026-01-15T15:21:04Z"},
		{trap: "FreshBooks writes the time of New York, in winter too", profile: "freshbooks",
			body: `{"response": {"result": {"clients": [{"id": 1, "updated": "2026-01-15 12:00:00", "signup_date": "2026-01-15 17:00:00", "vis_state": 0}], "page": 1, "pages": 1, "total": 1}}}`, want: "1 active 2026-01-15T17:00:00Z"},
		{trap: "Zoho's offsets have no colon, and vendors are in the list", profile: "zoho-books",
			body: `{"code": 0, "contacts": [{"contact_id": "26081500000009800199", "contact_type": "vendor", "status": "active", "last_modified_time": "2026-06-09T09:45:21-0400"}], "page_context": {"page": 1, "has_more_page": false, "applied_filter": "Status.All"}}`, want: "26081500000009800199 active 2026-06-09T13:45:21Z"},
		{trap: "Zoho filters", profile: "zoho-books",
			body: `{"code": 0, "contacts": [], "page_context": {"page": 1, "has_more_page": false, "applied_filter": "Status.Customers"}}`, ends: "unavailable"},
		{trap: "Zoho calls a refusal a success", profile: "zoho-books",
			body: `{"code": 57, "contacts": [], "page_context": {"page": 1, "has_more_page": false}}`, ends: "unavailable"},
		{trap: "Zoho does not say whether there are more pages", profile: "zoho-books", body: `{"code": 0, "contacts": []}`,
			ends: "unavailable"},
		{trap: "Moneybird's Retry-After is an epoch, and its body a bare text", profile: "moneybird", status: 429,
			headers: map[string]string{"RETRY-AFTER": "1795169100"}, body: `"Retry later"`, ends: "parked", after: "5m"},
		{trap: "Moneybird's pages above 100 are refused", profile: "moneybird", status: 400,
			body: `{"error": "per_page does not have a valid value"}`, ends: "rejected"},
		{trap: "Moneybird's record is not found", profile: "moneybird", status: 404,
			body: `{"error": "record not found", "symbolic": {"id": "not_found"}}`, ends: "not_found"},
		{trap: "Moneybird's version is no time of edit", profile: "moneybird",
			body: `[{"id": "474244219090765282", "administration_id": 123, "archived": false, "version": 1766494553, "updated_at": "2025-12-23T12:55:53.171Z"}, {"id": 474244219090765283, "archived": true}]`, want: "474244219090765282 active 2025-12-23T12:55:53Z, 474244219090765283 archived"},
		{trap: "Sage's list is an object, whatever its description says", profile: "sage-accounting",
			body: `[{"id": "a", "contact_types": [], "is_active": true}]`, ends: "unavailable"},
		{trap: "Sage's contact without its attributes", profile: "sage-accounting",
			body: `{"$total": 1, "$page": 1, "$next": null, "$items": [{"id": "a", "displayed_as": "Mill", "$path": "/contacts/a"}]}`, want: "a active with a problem"},
		{trap: "Lexware's pages count from 0", profile: "lexware",
			body: `{"content": [], "last": true, "number": 1, "totalElements": 0}`, ends: "unavailable"},
		{trap: "Lexware's rows have a version and no time", profile: "lexware",
			body: `{"content": [{"id": "a", "version": 7, "roles": {"customer": {"number": 10308}}, "archived": false}, {"id": "b", "roles": {"vendor": {}}, "archived": true}], "last": true, "number": 0, "totalElements": 2}`, want: "a active, b archived"},
		{trap: "Lexware does not say whether it is the last page", profile: "lexware",
			body: `{"content": [], "number": 0, "totalElements": 0}`, ends: "unavailable"},
		{trap: "Invoice Ninja lists deleted and archived clients", profile: "invoice-ninja",
			body: `{"data": [{"id": "a", "is_deleted": true, "archived_at": 1, "updated_at": 1763572544}, {"id": "b", "is_deleted": false, "archived_at": 1763572544}, {"id": "c", "is_deleted": false, "archived_at": null}], ` + fmt.Sprintf(ninja, 3) + `}`, want: "a deleted 2025-11-19T17:15:44Z, b archived, c unknown"},
		{trap: "Odoo calls a refusal a success", profile: "odoo-rpc",
			body: `{"jsonrpc": "2.0", "id": null, "error": {"code": 100, "message": "Odoo Session Expired", "data": {"name": "odoo.http.SessionExpiredException"}}}`, ends: "disconnected"},
		{trap: "Fortnox's error in capitals", profile: "fortnox", status: 404,
			body: `{"ErrorInformation": {"Error": 1, "Message": "x", "Code": 2000433}}`, ends: "not_found"},
		{trap: "Fortnox's error in small letters", profile: "fortnox", status: 400,
			body: `{"ErrorInformation": {"error": 1, "message": "x", "code": 2000587}}`, ends: "rejected"},
		{trap: "Fortnox's third form of an error", profile: "fortnox", status: 401, body: `{"message": "unauthorized"}`,
			ends: "disconnected"},
		{trap: "Fortnox gives another page than was asked for", profile: "fortnox",
			body: `{"MetaInformation": {"@TotalResources": 700, "@TotalPages": 7, "@CurrentPage": 2}, "Customers": []}`,
			ends: "unavailable"},
		{trap: "a throttle in XML, without a time", profile: "freeagent", status: 429,
			headers: map[string]string{"Content-Type": "application/xml"}, body: `<Fault><Error code="3001"/></Fault>`,
			ends: "parked", after: "1m"},
		{trap: "a throttle in JSON with the seconds in its text alone", profile: "invoice-ninja", status: 429,
			body: `{"ErrorCode": 4010, "DeveloperErrorMessage": "Try again in 55 seconds."}`, ends: "parked", after: "1m"},
		{trap: "FreeAgent's page without headers is the last", profile: "freeagent",
			body: `{"contacts": [{"url": "https://api.freeagent.com/v2/contacts/2", "status": "Active", "updated_at": "2024-09-16T09:34:41Z"}]}`, want: "2 active 2024-09-16T09:34:41Z"},
		{trap: "e-conomic's older answers have no time of edit", profile: "economic",
			body: `{"collection": [{"customerNumber": 101, "barred": false}], "pagination": {"skipPages": 0, "pageSize": 20, "results": 1}}`, want: "101 active"},
		{trap: "Business Central writes a blank as _x0020_", profile: "businesscentral",
			body: `{"value": [{"id": "a", "blocked": "_x0020_"}, {"id": "b", "blocked": " "}, {"id": "c", "blocked": null}]}`,
			want: "a active, b active, c active with a problem"},
		{trap: "Dolibarr's status is a number or a text", profile: "dolibarr",
			body: `[{"id": 12, "status": 1}, {"id": "13", "status": "0"}, {"id": "14", "status": true}]`,
			want: "12 active, 13 archived, 14 active with a problem"},
		{trap: "ERPNext's flag is a number", profile: "erpnext",
			body: `{"data": [{"name": "Mill", "disabled": 0, "modified": "2026-11-19 17:05:44.123456"}, {"name": "Quay", "disabled": 2}]}`, want: "Mill active 2026-11-19T17:05:44Z, Quay unknown"},
	} {
		t.Run(tt.profile+": "+tt.trap, func(t *testing.T) {
			t.Parallel()
			p := shippedProfile(t, tt.profile)
			records, short, err := p.page(t, tt.status, tt.headers, []byte(tt.body))
			if tt.ends != "" {
				if wrong := endsAs(err, tt.ends, tt.after); wrong != nil {
					t.Error(wrong)
				}
				return
			}
			if got := told(records); err != nil || short || got != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

// asked is the request for a profile's first page.
func (p *Profile) asked(t testing.TB, since time.Time) *http.Request {
	t.Helper()
	c := p.SampleConfig()
	c.PageSize = 0
	s, err := New(p, c, Dependencies{Now: func() time.Time { return checkTime }})
	if err != nil {
		t.Fatal(err)
	}
	req, err := s.build(t.Context(), p.list, s.request("124132", since))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestRequestsAskForWhatTheSystemWouldLeaveOut(t *testing.T) {
	t.Parallel()
	summer := time.Date(2026, 6, 25, 14, 24, 8, 500e6, time.UTC)
	for _, tt := range []struct {
		trap, profile string
		since         time.Time
		want, without []string
	}{
		{"FreeAgent hides contacts without view, and sorts by name", "freeagent", time.Time{},
			[]string{"view=all", "sort=created_at"}, []string{"updated_since"}},
		{"Moneybird excludes the moment itself", "moneybird", summer,
			[]string{"filter=updated_after%3A2026-06-25%2014%3A24%3A07%20UTC", "include_archived=true", "/contacts/filter.json"},
			nil},
		{"Moneybird's pages have 100 rows at most", "moneybird", time.Time{},
			[]string{"per_page=100", "/contacts.json", "include_archived=true"}, []string{"filter"}},
		{"Exact is asked in its own time, and without $skip", "exact", summer,
			[]string{"datetime%272026-06-25T16%3A24%3A08%27"}, []string{"skip", "top"}},
		{"FreshBooks is asked for days of New York, one earlier", "freshbooks", summer,
			[]string{"search%5Bupdated_min%5D=2026-06-24"}, []string{"sort"}},
		{"Zoho is asked for every status", "zoho-books", summer, []string{"filter_by=Status.All", "per_page=200"}, nil},
		{"Sage includes the moment", "sage-accounting", summer,
			[]string{"updated_or_created_since=2026-06-25T14%3A24%3A08Z", "attributes=all"}, nil},
		{"sevdesk leaves out persons without depth", "sevdesk", time.Time{}, []string{"depth=1", "countAll=true", "offset=0"},
			nil},
		{"Fortnox compares minutes, in a zone that it does not name", "fortnox", summer,
			[]string{"lastmodified=2026-06-25%2014%3A24", "page=1", "sortby=customernumber"}, []string{"filter"}},
		{"Lexware's first page is 0", "lexware", time.Time{}, []string{"page=0"}, nil},
		{"Invoice Ninja understands seconds since 1970", "invoice-ninja", summer, []string{"updated_at=1782397448"}, nil},
		{"Business Central sends no next link with $top", "businesscentral", summer,
			[]string{"lastModifiedDateTime%20ge%202026-06-25T14%3A24%3A08Z"}, []string{"%24top", "+"}},
		{"ERPNext pages of its own have 20 rows", "erpnext", time.Time{},
			[]string{"limit_page_length=500", "order_by=creation%20asc"}, nil},
		{"Dolibarr is asked in the order of ids", "dolibarr", time.Time{}, []string{"sortfield=t.rowid", "page=0"},
			[]string{"sqlfilters"}},
	} {
		t.Run(tt.profile+": "+tt.trap, func(t *testing.T) {
			t.Parallel()
			address := shippedProfile(t, tt.profile).asked(t, tt.since).URL.String()
			for _, want := range tt.want {
				if !strings.Contains(address, want) {
					t.Errorf("%s has no %s", address, want)
				}
			}
			for _, not := range tt.without {
				if strings.Contains(address, not) {
					t.Errorf("%s has %s", address, not)
				}
			}
		})
	}
}

// shippedNames are the names of the shipped profiles.
func shippedNames(t testing.TB) []string {
	t.Helper()
	files, err := fs.Glob(configs.FS, "sources/*/profile.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	return connector.Map(files, func(f string) string { return path.Base(path.Dir(f)) })
}

func TestNoProfileTakesAnotherAnswerForAPage(t *testing.T) {
	t.Parallel()
	for _, name := range shippedNames(t) {
		p := shippedProfile(t, name)
		for _, body := range []string{"", "null", "true", "{}", `{"error": {"code": 1, "message": "x"}}`,
			`{"message": "x", "status": 200}`, `{"errors": []}`, `"Retry later"`, "<!DOCTYPE html><p>Sign in",
			"<?xml version=\"1.0\"?><list/>", "\ufeff[]", "[1, 2", `{"success": false}`} {
			if records, _, err := p.page(t, http.StatusOK, nil, []byte(body)); err == nil {
				t.Errorf("%s takes %q for a page of %d", name, body, len(records))
			}
		}
		for status, ends := range map[int]string{204: "unavailable", 206: "unavailable", 302: "unavailable",
			408: "unavailable", 500: "unavailable", 503: "unavailable", 401: "disconnected", 403: "disconnected",
			429: "parked"} {
			_, _, err := p.page(t, status, nil, []byte(`{}`))
			// Exact counts every refusal
			if wrong := endsAs(err, ends, ""); wrong != nil && (name != "exact" || status != http.StatusRequestTimeout) {
				t.Errorf("%s with status %d: %v", name, status, wrong)
			}
		}
		for value, after := range map[string]string{"37": "37s", checkTime.Add(2 * time.Minute).Format(http.TimeFormat): "2m",
			"1795168980": "3m"} {
			_, _, err := p.page(t, http.StatusTooManyRequests, map[string]string{"RETRY-AFTER": value}, []byte(`<html>`))
			if wrong := endsAs(err, "parked", after); wrong != nil {
				t.Errorf("%s with Retry-After %s: %v", name, value, wrong)
			}
		}
	}
}

// harmless are fields of rules for states that may be blank in an active record.
var harmless = []string{"xero-http MergedToContactID", "xero-http ContactID", "exact Blocked",
	"sage-accounting gdpr_obfuscated", "sage-accounting deleted_at"}

func TestRecordWithAnUnknownStateIsNeverActive(t *testing.T) {
	t.Parallel()
	for _, name := range shippedNames(t) {
		p := shippedProfile(t, name)
		fake, err := NewFake(p, p.SampleConfig(), func() time.Time { return checkTime })
		if err != nil {
			t.Fatal(err)
		}
		fake.Add(1)
		raw, err := fake.record(fake.customers[0])
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, rule := range p.states {
			for _, field := range rule.reads {
				if slices.Contains(harmless, name+" "+field) || field == "record" {
					continue
				}
				for _, value := range []string{"", "null", `"zzz"`, `""`, "77", "[]", "{}", "1.5"} {
					var members map[string]json.RawMessage
					if err := json.Unmarshal(raw, &members); err != nil {
						t.Fatal(err)
					}
					if members[field] = json.RawMessage(value); value == "" {
						delete(members, field)
					}
					if name == "businesscentral" && value == `""` {
						continue // is what it writes for a customer who is not blocked
					}
					text, err := json.Marshal(members)
					if err != nil {
						t.Fatal(err)
					}
					tried++
					if r := fake.source.reader("1").record(text); r.State == connector.RecordActive && r.Problem == "" {
						t.Errorf("%s: %s as %q is active", name, field, value)
					}
				}
			}
		}
		if tried == 0 {
			t.Errorf("%s: no value was tried", name)
		}
	}
}

func TestListThatEndsBeforeItsCountIsIncomplete(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t, "lexware")
	var e example
	e.Answer.Body = `{"content": [{"id": "a", "archived": false}], "last": true, "number": 0, "totalElements": 2}`
	tenant := `{"organizationId": "1", "companyName": "Northwind Books"}`
	s, err := p.sample(byPath{"/v1/profile": tenant, "/v1/contacts": e.Answer.Body.(string)},
		func() time.Time { return checkTime })
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for page, err := range s.Customers(t.Context(), time.Time{}) {
		if err != nil {
			if !strings.Contains(err.Error(), "it counts 2 records, and its last page comes after 1") {
				t.Error(err)
			}
			if read != 1 {
				t.Errorf("%d records were read", read)
			}
			return
		}
		read += len(page.Records)
	}
	t.Error("the read is complete")
}

// byPath answers requests by their path.
type byPath map[string]string

func (b byPath) RoundTrip(req *http.Request) (*http.Response, error) {
	body := []byte(b[req.URL.Path])
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: bodyOf(body),
		ContentLength: int64(len(body)), Request: req}, nil
}

func TestNextPageMayBeAnotherQueryOrNameThePort(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t, "businesscentral")
	s, err := New(p, p.SampleConfig(), Dependencies{Now: func() time.Time { return checkTime }})
	if err != nil {
		t.Fatal(err)
	}
	env := s.request("1", time.Time{})
	base := "https://api.businesscentral.dynamics.com"
	for next, want := range map[string]string{
		"?$skiptoken=x":                  base + "/v2.0/sample/Production/api/v2.0/companies(1)/customers?$skiptoken=x",
		"companies(1)/customers?x=1":     base + "/v2.0/sample/Production/api/v2.0/companies(1)/customers?x=1",
		base + ":443/v2.0/customers?x=1": base + ":443/v2.0/customers?x=1",
	} {
		req, err := s.follow(t.Context(), p.list, next, env)
		if err != nil || req.URL.String() != want {
			t.Errorf("%s leads to %v, %v; want %s", next, req, err, want)
		}
	}
	if _, err := s.follow(t.Context(), p.list, base+":8443/x", env); err == nil {
		t.Error("another port is followed")
	}
}

// covers the traps of sevdesk: a total as text, null for text, and lists of their own.
func TestRowsOfFurtherListsBelongToTheirRecords(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t, "sevdesk")
	for _, tt := range []struct{ name, addresses, ways, want string }{
		{"all there", `{"objects": [{"id": "1", "contact": {"id": "7"}, "city": "Hamburg"}, {"id": "2", "contact": {"id": 7}, "city": null}, {"id": "3", "contact": null}], "total": "3"}`, `{"objects": [], "total": "0"}`,
			`[{"id":"1","city":"Hamburg"},{"id":"2","city":null}]`},
		{"fewer than counted", `{"objects": [{"id": "1", "contact": {"id": "7"}}], "total": "2"}`, `{"objects": []}`, ""},
		{"no list", `{"error": {"message": "x"}}`, `{"objects": []}`, ""},
		{"a row without an id", `{"objects": [{"contact": {"id": "7"}}]}`, `{"objects": []}`, ""},
		{"the second list is missing", `{"objects": []}`, `<html>`, ""},
	} {
		s, err := p.sample(byPath{"/api/v1/ContactAddress": tt.addresses, "/api/v1/CommunicationWay": tt.ways,
			"/api/v1/Contact": `{"objects": [{"id": "7", "status": "1000", "name": null, "sevClient": {"id": "692471"}}], "total": "1"}`}, func() time.Time { return checkTime })
		if err != nil {
			t.Fatal(err)
		}
		var got []connector.Record
		for page, err2 := range s.Customers(t.Context(), time.Time{}) {
			got, err = append(got, page.Records...), err2
		}
		if tt.want == "" {
			if err == nil || len(got) > 0 {
				t.Errorf("%s: %d records, error %v", tt.name, len(got), err)
			}
			continue
		}
		if err != nil || len(got) != 1 || !strings.Contains(string(got[0].Data), tt.want) {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
}

func TestLoginGivesTheSessionOnceAndKeysStandInBodiesAlone(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t, "odoo-rpc")
	for answer, want := range map[string]string{`{"result": 2}`: "", `{"result": false}`: "refuses the keys",
		`{"result": null}`: "refuses the keys",
		`{"error": {"data": {"name": "odoo.exceptions.AccessDenied"}}}`: "refuses the API key", `<html>`: "a web page came"} {
		logins, leaked := 0, false
		system := roundTrip(func(req *http.Request) string {
			body := new(strings.Builder)
			if _, err := io.Copy(body, req.Body); err != nil {
				t.Error(err)
			}
			leaked = leaked || strings.Contains(fmt.Sprint(req.URL, req.Header), "sample-key")
			switch {
			case strings.Contains(body.String(), "authenticate"):
				logins++
				return answer
			case strings.Contains(body.String(), "res.company"):
				return `{"result": [{"id": 7, "name": "Northwind Books"}]}`
			}
			return `{"result": [{"id": 11, "active": true}]}`
		})
		s, err := p.sample(system, func() time.Time { return checkTime })
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for _, err2 := range s.Customers(t.Context(), time.Time{}) {
				err = err2
			}
		}
		if want == "" && (err != nil || logins != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) ||
			leaked {
			t.Errorf("%s: %d logins, leaked %t, error %v; want %q", answer, logins, leaked, err, want)
		}
	}
}

// roundTrip answers each request with a body.
type roundTrip func(*http.Request) string

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	body := []byte(f(req))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: bodyOf(body),
		ContentLength: int64(len(body)), Request: req}, nil
}

func TestDetailOfAnOddNumberStaysOnePartOfThePath(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t, "fortnox")
	list := `{"MetaInformation": {"@TotalResources": 2, "@TotalPages": 1, "@CurrentPage": 1}, "Customers": [{"CustomerNumber": "A/1 ?#"}, {"CustomerNumber": ".."}]}`
	var asked []string
	s, err := p.sample(roundTrip(func(req *http.Request) string {
		asked = append(asked, req.URL.EscapedPath())
		switch req.URL.EscapedPath() {
		case "/3/companyinformation":
			return `{"CompanyInformation": {"DatabaseNumber": 1, "CompanyName": "x"}}`
		case "/3/customers":
			return list
		}
		return `{"Customer": {"CustomerNumber": "A/1 ?#", "Active": true}}`
	}), func() time.Time { return checkTime })
	if err != nil {
		t.Fatal(err)
	}
	var all []connector.Record
	for page, err := range s.Customers(t.Context(), time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Records...)
	}
	if got := told(all); got != "A/1 ?# active, .. active with a problem" ||
		!slices.Contains(asked, "/3/customers/A%2F1%20%3F%23") {
		t.Errorf("%s, after requests for %q", got, asked)
	}
}

func TestCompaniesWithIdsOfBothKindsAreFound(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t, "moneybird")
	s, err := p.sample(byPath{"/api/v2/administrations.json": `[{"id": "176649459667807705", "name": "One"}, {"id": 123, "name": "Two"}]`}, func() time.Time { return checkTime })
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Organisations(t.Context())
	if got := fmt.Sprint(all); err != nil || got != "[{176649459667807705 One} {123 Two}]" {
		t.Errorf("companies %s, %v", got, err)
	}
}
