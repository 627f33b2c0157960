package sandbox

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// world is a sandbox with a clock that tests turn, and a client of it.
type world struct {
	*Sandbox
	t     *testing.T
	mu    sync.Mutex
	at    time.Time
	token string
}

func newWorld(t *testing.T, opt Options) *world {
	t.Helper()
	w := &world{t: t, at: start}
	opt.Now = w.now
	w.Sandbox = New(opt)
	w.token = w.IssueToken(ClientCredentials, 1000*time.Hour)
	return w
}

func with(sw Switches) Options { return Options{Switches: sw} }

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *world) wait(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

type reply struct {
	status int
	header http.Header
	body   string
}

// try sends a request with the world's token and reads the answer whole.
func (w *world) try(method, path, body string) (reply, error) {
	return roundTrip(w.RoundTripper(), w.request(method, path, body))
}

func (w *world) request(method, path, body string) *http.Request {
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://sandbox.test"+path, strings.NewReader(body))
	must(w.t, err)
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("Content-Type", "application/json")
	return req
}

func roundTrip(rt http.RoundTripper, req *http.Request) (reply, error) {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body)}, err
}

func (w *world) do(method, path, body string) reply {
	w.t.Helper()
	got, err := w.try(method, path, body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

// want sends a request and fails unless it is answered with status.
func (w *world) want(status int, method, path, body string) reply {
	w.t.Helper()
	got := w.do(method, path, body)
	if got.status != status {
		w.t.Fatalf("%s %s: got status %d, want %d; body %s", method, path, got.status, status, got.body)
	}
	return got
}

// create makes a customer through the service and returns its id.
func (w *world) create(body string) string {
	w.t.Helper()
	return text(w.t, w.want(200, "POST", "/api/customers", body).body, "id")
}

// openLink asks for a signing link and returns the mandate's id.
func (w *world) openLink(customer string) string {
	w.t.Helper()
	return text(w.t, w.want(200, "PUT", "/api/customers/"+customer+"/directdebitmandates", "").body, "id")
}

func (w *world) status(mandate string) connector.MandateStatus {
	w.t.Helper()
	m, ok := w.Mandate(mandate)
	if !ok {
		w.t.Fatalf("mandate %s is not there", mandate)
	}
	return m.Status
}

// at returns the JSON value under a path of names in body.
func at(t *testing.T, body string, names ...string) string {
	t.Helper()
	raw := json.RawMessage(body)
	for _, name := range names {
		var o map[string]json.RawMessage
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatalf("read %v in %s: %v", names, body, err)
		}
		raw = o[name]
	}
	return string(raw)
}

func text(t *testing.T, body string, names ...string) string {
	t.Helper()
	var s string
	if raw := at(t, body, names...); json.Unmarshal([]byte(raw), &s) != nil {
		t.Fatalf("no text at %v in %s", names, body)
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOneSeedGivesOneHistory(t *testing.T) {
	t.Parallel()
	history := func(seed uint64) string {
		w := newWorld(t, Options{Seed: seed,
			DeliveryFaults: DeliveryFaults{Drop: 0.3, Duplicate: 0.3, Hold: 0.5, HoldUpTo: time.Hour}})
		w.want(200, "PUT", "/api/apps/sandbox/webhooks", `{"url":"https://hooks.test/in","events":["customer","dd-mandate"]}`)
		w.Inject(Fault{Kind: ErrorAfter, Probability: 0.5})
		var out strings.Builder
		for i := range 20 {
			got := w.do("POST", "/api/customers", fmt.Sprintf(`{"name":"Customer %d"}`, i))
			fmt.Fprintln(&out, got.status, got.body)
		}
		for _, c := range w.Customers() {
			fmt.Fprintln(&out, c.ID, w.openLinkQuietly(c.ID))
		}
		for _, d := range w.Deliveries().List() {
			fmt.Fprintln(&out, d.ID, d.Due, string(d.Body))
		}
		return out.String() + w.WebhookSecret().Expose()
	}
	if diff := cmp.Diff(history(7), history(7)); diff != "" {
		t.Errorf("one seed, two histories:\n%s", diff)
	}
	if history(7) == history(8) {
		t.Error("two seeds gave the same history")
	}
}

func (w *world) openLinkQuietly(customer string) string {
	return w.do("PUT", "/api/customers/"+customer+"/directdebitmandates", "").body
}

func TestFaultsAndEventsShiftNoIDs(t *testing.T) {
	t.Parallel()
	ids := func(disturb func(*world)) []string {
		w := newWorld(t, Options{Seed: 3})
		disturb(w)
		var out []string
		for i := range 5 {
			w.do("POST", "/api/customers", fmt.Sprintf(`{"name":"Customer %d"}`, i))
		}
		for _, c := range w.Customers() {
			out = append(out, c.ID)
		}
		return out
	}
	calm := ids(func(*world) {})
	stormy := ids(func(w *world) {
		w.want(200, "PUT", "/api/apps/sandbox/webhooks", `{"url":"https://hooks.test/in","events":["customer"]}`)
		w.IssueToken(AuthorizationCode, time.Hour)
		w.Inject(Fault{Kind: ErrorAfter, Probability: 0.5})
	})
	if diff := cmp.Diff(calm, stormy); diff != "" {
		t.Errorf("ids differ:\n%s", diff)
	}
}

func TestConcurrentUseKeepsOneCustomerPerBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{Latency: time.Microsecond})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				if _, err := w.try("POST", "/api/customers", fmt.Sprintf(`{"name":"Customer %d"}`, i)); err != nil {
					t.Error(err)
				}
				w.Customers()
				w.Requests()
			}
		})
	}
	wg.Wait()
	if got := len(w.Customers()); got != 50 {
		t.Errorf("got %d customers, want 50", got)
	}
	if got := w.Writes(); got != 400 {
		t.Errorf("got %d writes, want 400", got)
	}
}

var many = flag.Int("sandbox.customers", 20_000, "customers that TestManyCreatesAndAListPass makes")

func TestManyCreatesAndAListPass(t *testing.T) {
	t.Parallel()
	const size = 1000
	w := newWorld(t, Options{DiscardRequests: true, Switches: Switches{List: List{MaxSize: size}}})
	for i := range *many {
		w.want(200, "POST", "/api/customers",
			fmt.Sprintf(`{"name":"Customer %d","people":[{"email":"c%d@example.com"}],"externalData":{"id":"%d"}}`, i, i, i))
	}
	seen := map[string]bool{}
	for page := 0; len(seen) == page*size; page++ {
		var customers []struct{ ID string }
		must(t, json.Unmarshal([]byte(w.want(200, "GET", fmt.Sprintf("/api/customers?Page=%d&Size=%d", page, size), "").body),
			&customers))
		for _, c := range customers {
			seen[c.ID] = true
		}
	}
	if len(seen) != *many || w.Writes() != *many {
		t.Errorf("got %d customers listed, %d writes, want %d", len(seen), w.Writes(), *many)
	}
	if got := len(w.Requests()); got != 0 {
		t.Errorf("got %d requests kept, want none", got)
	}
}

func TestNewPanicsOnUnknownSwitches(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(with(Switches{Update: "sideways"}))
}

func TestStandardAndAdfinAreValid(t *testing.T) {
	t.Parallel()
	for name, sw := range map[string]Switches{"zero": {}, "standard": Standard(), "adfin": Adfin()} {
		if err := sw.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateNamesEveryWrongSwitchAtOnce(t *testing.T) {
	t.Parallel()
	err := Switches{
		Update: "sideways", BankChange: "never", LinkLife: -1, ValidationStatus: 200, List: List{FirstPage: 2, MaxSize: -1},
		Signature: Signature{Key: "hex", Secret: connector.NewSecret("no hex")},
	}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"update", "bank_change", "link_life", "validation_status", "first_page", "max_size",
		"signature.secret"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "no hex") {
		t.Errorf("the secret is in %v", err)
	}
}

func BenchmarkCreate(b *testing.B) {
	s := New(Options{DiscardRequests: true})
	token := s.IssueToken(ClientCredentials, time.Hour)
	rt := s.RoundTripper()
	for i := 0; b.Loop(); i++ {
		body := fmt.Appendf(nil, `{"name":"Customer %d","externalData":{"id":"%d"}}`, i, i)
		req, err := http.NewRequestWithContext(b.Context(), "POST", "http://sandbox.test/api/customers",
			bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		if got, err := roundTrip(rt, req); err != nil || got.status != 200 {
			b.Fatal(got.status, err)
		}
	}
}
