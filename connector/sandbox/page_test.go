package sandbox

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"payersync/connector"
)

func (w *world) form(path string, header http.Header, values url.Values) reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", "http://sandbox.test"+path, strings.NewReader(values.Encode()))
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
		"CREATED": {"sign", "cancel"}, "PENDING": {"approve", "cancel", "bank"}, "ACTIVE": {"cancel", "bank"}, "CANCELLED": {"reinstate"}, "MIGRATING": {"approve", "cancel"},
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
	if strings.Contains(page, "<bdi>C0</bdi>") || !strings.Contains(page, "<bdi>C100</bdi>") || !strings.Contains(page, "101 customers") {
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
	if got := w.want(200, "GET", "/sandbox/style.css", ""); !strings.HasPrefix(got.header.Get("Content-Type"), "text/css") {
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
	}{{"sign", nil, "PENDING"}, {"approve", nil, "ACTIVE"}, {"cancel", url.Values{"reason": {"ACCOUNT_CLOSED"}}, "CANCELLED"}}
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
	for path, want := range map[string]int{"/" + id + "/sign": 409, "/" + id + "/bank": 409, "/unknown/sign": 404, "/" + id + "/frame": 404} {
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
	if len(customers) != 1 || customers[0].ID != id || customers[0].ExternalData["k"] != "1" || len(customers[0].Mandates) != 1 {
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
		"localhost:8090": 200, "LOCALHOST": 200, "127.0.0.1:8090": 200, "[::1]:8090": 200, "192.0.2.7": 200, "box.example": 200, "sandbox:8090": 200,
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

func TestEverySwitchIsSetByTheFormAndHoldsForTheNextRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	for _, k := range Table() {
		for _, value := range k.values() {
			if got := w.form("/sandbox/switches", http.Header{}, url.Values{k.Name: {value}}); got.status != 200 {
				t.Fatalf("%s=%s: got %d %s", k.Name, value, got.status, got.body)
			}
			if got := k.Value(w.Switches()); got != value {
				t.Errorf("%s is %q after %q was set", k.Name, got, value)
			}
			w.want(200, "GET", "/", "")
		}
		must(t, w.SetSwitches(Standard()))
	}
	if got := w.form("/sandbox/switches", http.Header{}, url.Values{"update": {"path_id"}, "cancel": {"dash"}}); got.status != 400 || w.Switches().Update != "body_id" {
		t.Errorf("one of two is wrong: got %d, and update is %s", got.status, w.Switches().Update)
	}
	w.form("/sandbox/switches", browser(), url.Values{"profile": {"adfin"}, "update": {"path_id"}})
	if got := w.want(200, "GET", "/", "").body; !strings.Contains(got, "profile adfin, 1 differ") {
		t.Error("the page does not say what differs from the profile")
	}
}

func TestFaultsAreSetShownAndClearedByForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	set := url.Values{"kind": {"error_before"}, "method": {"get"}, "path": {"/api/customers"}, "every": {"2"}, "status": {"500"}}
	if got := w.form("/sandbox/faults", browser(), set); got.status != 303 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	w.want(200, "GET", "/api/customers", "")
	w.want(500, "GET", "/api/customers", "")
	if got := w.want(200, "GET", "/", "").body; !strings.Contains(got, "error_before,method=GET,path=/api/customers,every=2,status=500</code> struck 1 of 2") {
		t.Errorf("the page shows %s", got)
	}
	if got := w.form("/sandbox/faults/clear", http.Header{}, nil); strings.TrimSpace(got.body) != "[]" {
		t.Errorf("after clearing: %s", got.body)
	}
	foreign := http.Header{"Sec-Fetch-Site": {"cross-site"}}
	for _, path := range []string{"/sandbox/faults", "/sandbox/faults/clear", "/sandbox/switches"} {
		if got := w.form(path, foreign.Clone(), set); got.status != 403 {
			t.Errorf("another site's form at %s: got %d", path, got.status)
		}
	}
}

func TestABodyOrFieldThatChangesNothingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	for _, path := range []string{"/sandbox/switches", "/sandbox/faults"} {
		if got := w.want(415, "POST", path, `{"update":"path_id","kind":"late"}`).body; !strings.Contains(got, "NAME=VALUE") {
			t.Errorf("%s: JSON is answered %s", path, got)
		}
	}
	if got := w.form("/sandbox/faults", http.Header{}, url.Values{"kind": {"late"}, "evry": {"3"}}); got.status != 400 || !strings.Contains(got.body, `no field \"evry\"`) {
		t.Errorf("a misspelt field: got %d %s", got.status, got.body)
	}
	if len(w.shownFaults()) != 0 || w.Switches().Update != "body_id" {
		t.Errorf("faults are %v and update is %s", w.shownFaults(), w.Switches().Update)
	}
}

func TestAFaultIsReadAsItIsWritten(t *testing.T) {
	for _, text := range []string{"late", "slow,delay=2s", "throttled,method=PUT,path=/api/customers/*,skip=1,every=3,probability=0.5,count=2,retry_after=30"} {
		f, err := ParseFault(text)
		if err != nil || f.String() != text {
			t.Errorf("%s: got %s, %v", text, f, err)
		}
	}
	for _, text := range []string{"", "lat", "slow,delay=x", "slow,speed=1", "html,probability=2", "html,every=-1", "html,path=[", "error_after,status=200"} {
		if _, err := ParseFault(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
