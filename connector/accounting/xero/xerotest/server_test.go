package xerotest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector/accounting/xero/xerotest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// get sends a request with a good token and tenant; header names that begin with
// "-" take a header away.
func get(t *testing.T, s *xerotest.Server, address string, header ...string) (status int, body string, h http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.xero.com"+address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	token, _ := s.Token()
	req.Header.Set("Authorization", "Bearer "+token.AccessToken)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Xero-Tenant-Id", s.Tenants[0].ID)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

const contacts = "/api.xro/2.0/Contacts"

func model(n int) *xerotest.Server {
	s := xerotest.New(func() time.Time { return noon })
	s.Add(n)
	return s
}

// names returns the contacts' names in a list's answer.
func names(t *testing.T, body string) (out []string) {
	t.Helper()
	var list struct{ Contacts []struct{ Name string } }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, c := range list.Contacts {
		out = append(out, c.Name)
	}
	return out
}

func TestModelRefusesWhatXeroRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, address string
		header        []string
		status        int
		says          string
	}{
		{"no token", contacts + "?page=1", []string{"Authorization", ""}, 401, "AuthenticationUnsuccessful"},
		{"an old token", contacts + "?page=1", []string{"Authorization", "Bearer old"}, 401, "TokenExpired"},
		{"no tenant", contacts + "?page=1", []string{"Xero-Tenant-Id", ""}, 403, "AuthenticationUnsuccessful"},
		{"page 0", contacts + "?page=0", nil, 400, "QueryParseException"},
		{"page abc", contacts + "?page=abc", nil, 400, "QueryParseException"},
		{"a page too large", contacts + "?page=1&pageSize=1001", nil, 400, "out of range"},
		{"an HTTP-date", contacts + "?page=1", []string{"If-Modified-Since", noon.Format(http.TimeFormat)}, 400,
			"no date-time"},
		{"a time without zone", contacts + "?page=1", []string{"If-Modified-Since", "2026-11-20T10:00:00"}, 400,
			"no date-time"},
		{"an unknown order", contacts + "?page=1&order=Shoe", nil, 400, "does not know the order"},
		{"an unknown parameter", contacts + "?page=1&pagesize=5", nil, 400, "does not know the parameter"},
		{"an unknown address", "/api.xro/2.0/Contact", nil, 404, "cannot be found"},
	}
	s := model(3)
	for _, tt := range tests {
		if status, body, _ := get(t, s, tt.address, tt.header...); status != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s; want %d with %q", tt.name, status, body, tt.status, tt.says)
		}
	}
}

func TestModelHasXerosTraps(t *testing.T) {
	t.Parallel()
	s := model(5)
	all := s.Contacts()
	s.Archive(all[1].ContactID)
	s.Merge(all[2].ContactID, all[3].ContactID)
	if _, body, h := get(t, s, contacts+"?page=1", "Accept", "*/*"); !strings.HasPrefix(body, "<") ||
		!strings.Contains(h.Get("Content-Type"), "xml") {
		t.Errorf("without Accept came %s", body)
	}
	if _, body, _ := get(t, s, contacts+"?page=1"); len(names(t, body)) != 3 {
		t.Errorf("archived contacts came without being asked for: %v", names(t, body))
	}
	_, body, h := get(t, s, contacts+"?page=1&includeArchived=true")
	if len(names(t, body)) != 5 || !strings.Contains(body, `"MergedToContactID":"`+all[3].ContactID) {
		t.Errorf("with archived contacts came %s", body)
	}
	if h.Get("X-DayLimit-Remaining") == "" || !strings.Contains(body, `+0000)/`) ||
		strings.Count(body, `/Date(`) == strings.Count(body, `+0000)/`) {
		t.Errorf("an answer needs the limit's header and both forms of a time: %v %s", h, body)
	}
	if _, body, _ := get(t, s, contacts+"?includeArchived=true"); strings.Contains(body, "MergedToContactID") ||
		strings.Contains(body, "pagination") {
		t.Errorf("without page came %s", body)
	}
	if _, body, _ := get(t, s, contacts+"?page=1&summaryOnly=true"); strings.Contains(body, "Addresses") {
		t.Errorf("a summary has addresses: %s", body)
	}
	if _, body, _ := get(t, s, contacts+"?page=1", "If-Modified-Since",
		noon.Add(time.Second).Format(time.RFC3339)); len(names(t, body)) != 0 {
		t.Errorf("a later lower bound gave %v", names(t, body))
	}
}

func TestModelPagesInTheOrderThatIsAskedFor(t *testing.T) {
	t.Parallel()
	now := noon
	s := xerotest.New(func() time.Time { return now })
	ids := s.Add(5)
	now = noon.Add(time.Minute)
	s.Edit(ids[0], func(c *xerotest.Contact) { c.Name = "edited" })
	_, first, _ := get(t, s, contacts+"?page=1&pageSize=2&order=UpdatedDateUTC+ASC")
	_, third, _ := get(t, s, contacts+"?page=3&pageSize=2&order=UpdatedDateUTC+ASC")
	if got := append(names(t, first), names(t, third)...); strings.Join(got,
		", ") != "Customer 2 Ltd, Customer 3 Ltd, edited" {
		t.Errorf("pages 1 and 3 are %v", got)
	}
	if !strings.Contains(third, `"pagination":{"itemCount":5,"page":3,"pageCount":3,"pageSize":2}`) {
		t.Errorf("page 3 is described as %s", third)
	}
	_, byID, _ := get(t, s, contacts+"?page=1&order=ContactID+ASC")
	_, made, _ := get(t, s, contacts+"?page=1")
	if strings.Join(names(t, byID), "") == strings.Join(names(t, made), "") {
		t.Error("ids have the order in which contacts were made: an order by them proves nothing")
	}
}

func TestModelSuffersAfterSoManyRequestsUntilItIsMended(t *testing.T) {
	t.Parallel()
	s := model(1)
	s.Suffer(xerotest.DayLimit, 1, 7200)
	var got []int
	for range 3 {
		status, _, _ := get(t, s, contacts+"?page=1")
		got = append(got, status)
	}
	_, _, h := get(t, s, contacts+"?page=1")
	s.Mend()
	status, _, _ := get(t, s, contacts+"?page=1")
	if got = append(got, status); got[0] != 200 || got[1] != 429 || got[2] != 429 || got[3] != 200 {
		t.Errorf("statuses %v", got)
	}
	if h.Get("Retry-After") != "7200" || h.Get("X-Rate-Limit-Problem") != "day" {
		t.Errorf("headers of the limit: %v", h)
	}
}

func TestModelOfACustomConnectionAnswersWithinItsOrganisationAlone(t *testing.T) {
	t.Parallel()
	s := model(1)
	s.Custom = true
	if status, _, _ := get(t, s, "/connections"); status != http.StatusForbidden {
		t.Errorf("the list of connections: %d", status)
	}
	if status, body, _ := get(t, s, "/api.xro/2.0/Organisation", "Xero-Tenant-Id", ""); status != 200 ||
		!strings.Contains(body, s.Tenants[0].ID) {
		t.Errorf("the organisation: %d %s", status, body)
	}
}
