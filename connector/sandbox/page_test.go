package sandbox

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"payersync/connector"
)

func (w *world) form(path string, header http.Header, values url.Values) reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", "http://sandbox.test"+path,
		strings.NewReader(values.Encode()))
	must(w.t, err)
	req.Header = header
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	got, err := roundTrip(w.RoundTripper(), req)
	must(w.t, err)
	return got
}

func browser() http.Header { return http.Header{"Accept": {"text/html,*/*"}} }

func TestOperatorPageOffersWhatIsPossible(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	if got := w.want(200, "GET", "/", "").body; !strings.Contains(got, "There are no customers yet") {
		t.Errorf("got %s", got)
	}
	id := w.openLink(w.create(`{"name":"Northwind","externalData":{"k":"1"}}`))
	buttons := map[connector.MandateStatus][]string{
		"CREATED": {"sign", "cancel"}, "PENDING": {"approve", "cancel", "bank"}, "ACTIVE": {"cancel", "bank"},
		"CANCELLED": {"reinstate"}, "MIGRATING": {"approve", "cancel"},
	}
	for status, want := range buttons {
		must(t, w.SetStatus(id, status))
		page := w.want(200, "GET", "/", "").body
		if !strings.Contains(page, "Northwind") || !strings.Contains(page, string(status)) {
			t.Errorf("%s: got %s", status, page)
		}
		for _, act := range []string{"sign", "approve", "cancel", "reinstate", "bank"} {
			offered := strings.Contains(page, `action="/sandbox/mandates/`+id+"/"+act+`"`)
			if offered != strings.Contains(strings.Join(want, " "), act) {
				t.Errorf("%s: %s offered %v", status, act, offered)
			}
		}
	}
}

func TestOperatorPageShowsTheNewest(t *testing.T) {
	t.Parallel()
	w := crowded(t, shownCustomers+1, Switches{})
	page := w.want(200, "GET", "/", "").body
	if strings.Contains(page, "<bdi>C0</bdi>") || !strings.Contains(page, "<bdi>C100</bdi>") ||
		!strings.Contains(page, "101 customers") {
		t.Error("the oldest of 101 customers is shown, or the newest is not")
	}
}

func TestPagesEscapeWhatCustomersAreCalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.openLink(w.create(`{"name":"<script>alert(1)</script>"}`))
	for _, path := range []string{"/", "/sign/" + id} {
		got := w.want(200, "GET", path, "")
		if strings.Contains(got.body, "<script") || !strings.Contains(got.body, "&lt;script&gt;") {
			t.Errorf("%s: got %s", path, got.body)
		}
		if !strings.Contains(got.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: got headers %v", path, got.header)
		}
	}
	if got := w.want(200, "GET", "/sandbox/style.css", ""); !strings.HasPrefix(got.header.Get("Content-Type"),
		"text/css") {
		t.Errorf("got headers %v", got.header)
	}
}

func TestPayerSignsAndIsLedBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{PublicURL: "https://pay.test"})
	customer := w.create(`{"name":"Northwind"}`)
	link := text(t, w.want(200, "PUT", "/api/customers/"+customer+"/directdebitmandates", redirect).body, "url")
	path := strings.TrimPrefix(link, "https://pay.test")
	if got := w.want(200, "GET", path, "").body; !strings.Contains(got, "<button>") {
		t.Errorf("got %s", got)
	}
	got := w.form(path, browser(), nil)
	if got.status != 303 || got.header.Get("Location") != "https://app.test/done" {
		t.Errorf("got %d to %s", got.status, got.header.Get("Location"))
	}
	if status := w.Customers()[0].Mandates[0].Status; status != connector.MandatePending {
		t.Errorf("got %s", status)
	}
	if got := w.want(200, "GET", path, "").body; strings.Contains(got, "<button>") {
		t.Errorf("signed already: got %s", got)
	}
	if got := w.form(path, browser(), nil); got.status != 409 {
		t.Errorf("second signing: got %d", got.status)
	}
	w.want(404, "GET", "/sign/unknown", "")
}

func TestAddressFromCreateOpensAMandateWhenSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{PublicURL: "https://pay.test"})
	created := w.want(200, "POST", "/api/customers", `{"name":"Northwind"}`).body
	path := strings.TrimPrefix(text(t, created, "url"), "https://pay.test")
	w.want(200, "GET", path, "")
	if n := len(w.Customers()[0].Mandates); n != 0 {
		t.Fatalf("looking at the page made %d mandates", n)
	}
	got := w.form(path, browser(), nil)
	mandates := w.Customers()[0].Mandates
	if got.status != 303 || len(mandates) != 1 || mandates[0].Status != connector.MandatePending {
		t.Errorf("got %d, %+v", got.status, mandates)
	}
	if back := got.header.Get("Location"); back != "/sign/"+mandates[0].ID {
		t.Errorf("led to %s", back)
	}
	if got := w.want(200, "GET", path, "").body; !strings.Contains(got, connector.MandatePending.Label()) {
		t.Errorf("got %s", got)
	}
}

func TestControlEndpointsActAsPayerAndBank(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.openLink(w.create(`{"name":"A"}`))
	steps := []struct {
		act    string
		values url.Values
		want   string
	}{{"sign", nil, "PENDING"}, {"approve", nil, "ACTIVE"},
		{"cancel", url.Values{"reason": {"ACCOUNT_CLOSED"}}, "CANCELLED"}}
	again := []struct{ act, want string }{{"reinstate", "ACTIVE"}, {"bank", "PENDING"}}
	for _, step := range steps {
		got := w.form("/sandbox/mandates/"+id+"/"+step.act, http.Header{}, step.values)
		if got.status != 200 || text(t, got.body, "status") != step.want {
			t.Errorf("%s: got %d %s", step.act, got.status, got.body)
		}
	}
	if m, _ := w.Mandate(id); m.FailureReason != "ACCOUNT_CLOSED" {
		t.Errorf("got reason %q", m.FailureReason)
	}
	for _, step := range again {
		got := w.form("/sandbox/mandates/"+id+"/"+step.act, http.Header{}, nil)
		if got.status != 200 || text(t, got.body, "status") != step.want {
			t.Errorf("%s: got %d %s", step.act, got.status, got.body)
		}
	}
	for path, want := range map[string]int{"/" + id + "/sign": 409, "/" + id + "/bank": 409, "/unknown/sign": 404, "/" +
		id + "/frame": 404} {
		if got := w.form("/sandbox/mandates"+path, http.Header{}, nil); got.status != want {
			t.Errorf("%s: got %d, want %d", path, got.status, want)
		}
	}
}

func TestBrowsersReturnToTheOperatorPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.openLink(w.create(`{"name":"A"}`))
	got := w.form("/sandbox/mandates/"+id+"/cancel", browser(), nil)
	if got.status != 303 || got.header.Get("Location") != "/" {
		t.Errorf("got %d to %s", got.status, got.header.Get("Location"))
	}
	if m, _ := w.Mandate(id); m.FailureReason == "" {
		t.Error("a bank's cancel left no reason")
	}
}

func TestOtherSitesCannotPost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.openLink(w.create(`{"name":"A"}`))
	header := browser()
	header.Set("Sec-Fetch-Site", "cross-site")
	if got := w.form("/sandbox/mandates/"+id+"/sign", header, nil); got.status != 403 {
		t.Errorf("got %d", got.status)
	}
	if got := w.status(id); got != connector.MandateCreated {
		t.Errorf("got %s", got)
	}
}

func TestControlEndpointsTellTheTruth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.create(`{"name":"A","externalData":[{"key":"k","value":"1"}]}`)
	w.openLink(id)
	var customers []Customer
	must(t, json.Unmarshal([]byte(w.want(200, "GET", "/sandbox/customers", "").body), &customers))
	if len(customers) != 1 || customers[0].ID != id || customers[0].ExternalData["k"] != "1" ||
		len(customers[0].Mandates) != 1 {
		t.Errorf("got %+v", customers)
	}
	var requests []struct{ Method, Path, Body string }
	must(t, json.Unmarshal([]byte(w.want(200, "GET", "/sandbox/requests", "").body), &requests))
	if len(requests) != 2 || requests[0].Body != `{"name":"A","externalData":[{"key":"k","value":"1"}]}` {
		t.Errorf("got %+v", requests)
	}
}

// A page whose name was made to lead to this machine reads nothing and does nothing.
func TestTheSandboxAnswersOnlyToItsOwnNames(t *testing.T) {
	t.Parallel()
	s := New(Options{PublicURL: "http://box.example:8090", Hosts: []string{"sandbox"}})
	for host, want := range map[string]int{
		"localhost:8090": 200, "LOCALHOST": 200, "127.0.0.1:8090": 200, "[::1]:8090": 200, "192.0.2.7": 200,
		"box.example": 200, "sandbox:8090": 200,
		"evil.example": 421, "evil.example:8090": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		for _, path := range []string{"/", "/sandbox/customers", "/api/oauth2/token"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if (w.Code == 421) != (want == 421) {
				t.Errorf("%s at %q: got %d, want %d", path, host, w.Code, want)
			}
		}
	}
}

func TestARemovedAddressNamesTheFlagToUseInstead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	for path, want := range map[string]string{
		"/sandbox/switches": "--switch", "/sandbox/faults": "--fault", "/sandbox/faults/clear": "--fault",
		"/sandbox/view":           "--view",
		"/sandbox/letters/faults": "--mail-fault", "/sandbox/letters/faults/clear": "--mail-fault",
	} {
		if got := w.want(410, "GET", path, "").body; !strings.Contains(got, want) {
			t.Errorf("GET %s: got %s", path, got)
		}
		if got := w.form(path, http.Header{}, url.Values{"update": {"path_id"}, "kind": {"late"}}); got.status != 410 ||
			!strings.Contains(got.body, want) {
			t.Errorf("POST %s: got %d %s", path, got.status, got.body)
		}
	}
}

func TestAFaultIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]Fault{
		"late":          {Kind: Late},
		"slow,delay=2s": {Kind: Slow, Delay: 2 * time.Second},
		"throttled,method=put,path=/api/customers/*,skip=1,every=3,probability=0.5,count=2,retry_after=30": {
			Kind: Throttled, Method: "PUT", Path: "/api/customers/*", Skip: 1, Every: 3, Probability: 0.5, Count: 2,
			RetryAfter: "30"},
		"error_before,status=500": {Kind: ErrorBefore, Status: 500},
	} {
		if f, err := ParseFault(text); err != nil || f != want {
			t.Errorf("%s: got %+v, %v", text, f, err)
		}
	}
	for _, text := range []string{"", "lat", "slow,delay=x", "slow,speed=1", "html,probability=2", "html,every=-1",
		"html,path=[", "error_after,status=200"} {
		if _, err := ParseFault(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
