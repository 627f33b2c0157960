package quickbookstest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"payersync/connector/accounting/quickbooks/quickbookstest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func model(n int) *quickbookstest.Server {
	s := quickbookstest.New(func() time.Time { return noon })
	s.Add(n)
	return s
}

// get asks for something below the company, with a good token.
func get(t *testing.T, s *quickbookstest.Server, path string, query url.Values) (status int, body string) {
	t.Helper()
	token, _ := s.Token()
	return send(t, s, "/v3/company/"+quickbookstest.Realm+"/"+path, query, token.AccessToken)
}

func send(t *testing.T, s *quickbookstest.Server, path string, query url.Values, token string) (status int,
	body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"https://quickbooks.api.intuit.com"+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// ids returns the ids in the answer to a query.
func ids(t *testing.T, s *quickbookstest.Server, statement string) string {
	t.Helper()
	status, body := get(t, s, "query", url.Values{"query": {statement}})
	var list struct {
		QueryResponse struct{ Customer []struct{ Id string } } //nolint:revive // spelt as QuickBooks spells it
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s, error %v", statement, status, body, err)
	}
	var out []string
	for _, c := range list.QueryResponse.Customer {
		out = append(out, c.Id)
	}
	return strings.Join(out, " ")
}

func TestModelAnswersQueries(t *testing.T) {
	t.Parallel()
	now := noon
	s := quickbookstest.New(func() time.Time { return now })
	s.Add(4)
	now = noon.Add(time.Hour)
	s.Deactivate("2")
	for statement, want := range map[string]string{
		"SELECT * FROM Customer":                              "1 3 4", // inactive ones only on request
		"SELECT * FROM Customer WHERE Active IN (true,false)": "1 2 3 4",
		"SELECT * FROM Customer WHERE Active IN (true,false) ORDERBY Id STARTPOSITION 2 MAXRESULTS 2":                     "2 3",
		"SELECT * FROM Customer WHERE Active IN (true,false) ORDERBY MetaData.LastUpdatedTime":                            "1 3 4 2",
		"SELECT * FROM Customer WHERE Active IN (true,false) AND MetaData.LastUpdatedTime >= '2026-11-20T05:00:00-08:00'": "2", // 13:00 in UTC
		"SELECT * FROM Customer WHERE Active IN (true,false) AND MetaData.LastUpdatedTime >= '2026-11-20T13:00:01Z'":      "",
		"SELECT * FROM Customer WHERE Active IN (true,false) ORDERBY Id STARTPOSITION 9":                                  "",
	} {
		if got := ids(t, s, statement); got != want {
			t.Errorf("%s gave %q, want %q", statement, got, want)
		}
	}
	if _, body := get(t, s, "query", url.Values{"query": {"SELECT COUNT(*) FROM Customer"}}); !strings.Contains(body,
		`"totalCount":3`) {
		t.Errorf("the count is %s", body)
	}
	if _, body := get(t, s, "query",
		url.Values{"query": {"SELECT * FROM Customer ORDERBY Id STARTPOSITION 9"}}); strings.Contains(body, "Customer") {
		t.Errorf("an empty list has its key: %s", body)
	}
}

func TestModelGivesAHundredUnlessAsked(t *testing.T) {
	t.Parallel()
	s := model(150)
	if got := len(strings.Fields(ids(t, s, "SELECT * FROM Customer"))); got != 100 {
		t.Errorf("%d customers, want 100", got)
	}
}

func TestModelRefusesWhatQuickBooksRefuses(t *testing.T) {
	t.Parallel()
	s := model(2)
	for _, statement := range []string{
		"", "SELECT Id FROM Customer", "SELECT * FROM Customer WHERE Active = true OR Job = true",
		"SELECT * FROM Customer MAXRESULTS 1001",
		"SELECT * FROM Customer STARTPOSITION 0", "SELECT * FROM Customer WHERE MetaData.LastUpdatedTime >= 'yesterday'",
	} {
		if status, body := get(t, s, "query", url.Values{"query": {statement}}); status != http.StatusBadRequest ||
			!strings.Contains(body, `"Fault"`) {
			t.Errorf("%q: %d %s", statement, status, body)
		}
	}
	if status, body := get(t, s, "customer/99", nil); status != http.StatusBadRequest || !strings.Contains(body, `"610"`) {
		t.Errorf("an id that is not there: %d %s", status, body)
	}
	if status, body := send(t, s, "/v3/company/"+quickbookstest.Realm+"/customer/1", nil,
		"old"); status != http.StatusUnauthorized || !strings.Contains(body, `"fault"`) {
		t.Errorf("an old token: %d %s", status, body)
	}
	token, _ := s.Token()
	if status, body := send(t, s, "/v3/company/123/customer/1", nil, token.AccessToken); status != http.StatusForbidden ||
		!strings.Contains(body, `"3100"`) {
		t.Errorf("another company: %d %s", status, body)
	}
}

func TestModelCapturesChangesUpToItsCapAndWindow(t *testing.T) {
	t.Parallel()
	capture := func(s *quickbookstest.Server, since time.Time) (int, string) {
		return get(t, s, "cdc", url.Values{"entities": {"Customer"}, "changedSince": {since.Format(time.RFC3339)}})
	}
	s := model(3)
	s.Merge("2", "3")
	if _, body := capture(s, noon); !strings.Contains(body, `"status":"Deleted"`) || strings.Count(body, `"Id"`) < 3 {
		t.Errorf("changes: %s", body)
	}
	if _, body := capture(s, noon.Add(time.Second)); !strings.Contains(body, `{"CDCResponse":[{"QueryResponse":[{}]}]`) {
		t.Errorf("no changes: %s", body)
	}
	if status, _ := capture(s, noon.Add(-31*24*time.Hour)); status != http.StatusBadRequest {
		t.Errorf("beyond its window: %d", status)
	}
	if _, body := capture(model(1200), noon); strings.Count(body, `"SyncToken"`) != 1000 ||
		!strings.Contains(body, fmt.Sprintf(`"maxResults":%d`, 1000)) {
		t.Errorf("%d of 1200 changes came", strings.Count(body, `"SyncToken"`))
	}
}

func TestModelWritesTimesInTheCompanysOffset(t *testing.T) {
	t.Parallel()
	_, body := get(t, model(1), "customer/1", nil)
	if !strings.Contains(body, `"LastUpdatedTime":"2026-11-20T04:00:00-08:00"`) {
		t.Errorf("the customer is %s", body)
	}
}

func TestModelSuffersAfterSoManyRequestsUntilItIsMended(t *testing.T) {
	t.Parallel()
	s := model(1)
	s.Suffer(quickbookstest.ThrottledXML, 1)
	var got []int
	for range 2 {
		status, _ := get(t, s, "customer/1", nil)
		got = append(got, status)
	}
	_, body := get(t, s, "customer/1", nil)
	s.Mend()
	status, _ := get(t, s, "customer/1", nil)
	if got = append(got, status); got[0] != 200 || got[1] != 403 || got[2] != 200 || !strings.HasPrefix(body, "<?xml") {
		t.Errorf("statuses %v, throttled with %s", got, body)
	}
}
