package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/state/statetest"
)

// The secrets of the tests' installations.
const (
	clientSecret  = "hunter2-client-secret-9c41"
	webhookSecret = "hunter2-webhook-secret-of-32-bytes"
)

// world is one installation in a folder of its own, and the sandbox it speaks to.
type world struct {
	t       testing.TB
	dir     string
	box     *sandbox.Sandbox
	service *httptest.Server
	hooks   string            // the address on which serve takes webhooks
	env     map[string]string // beside that of the test

	// front, when set, answers a request to the service instead of the sandbox,
	// unless it returns false.
	front atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	seen  atomic.Int64 // requests to the service so far
}

// newWorld writes a configuration, a mapping, a key, an empty ledger and a CSV file with these rows, and
// serves an empty sandbox to them. change may alter the sandbox.
func newWorld(t testing.TB, rows []row, change ...func(*sandbox.Options)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), hooks: freeAddress(t), service: httptest.NewUnstartedServer(nil)}
	w.env = map[string]string{"BILLING_CLIENT_SECRET": clientSecret}
	o := sandbox.Options{
		ClientSecret: connector.NewSecret(clientSecret), PublicURL: "http://" + w.service.Listener.Addr().String(), Seed: 1,
		Deliver: &http.Client{Timeout: 10 * time.Second},
		Switches: sandbox.Switches{Signature: sandbox.Signature{
			Header: "x-signature", Signed: "{body}", Secret: connector.NewSecret(webhookSecret),
		}},
	}
	for _, f := range change {
		f(&o)
	}
	w.box = sandbox.New(o)
	w.service.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.seen.Add(1)
		if front := w.front.Load(); front == nil || !(*front)(rw, r) {
			w.box.ServeHTTP(rw, r)
		}
	})
	w.service.Start()
	t.Cleanup(w.service.Close)
	w.write("payersync.yaml", w.config())
	w.write("mapping.yaml", worldMapping)
	w.write("webhook.secret", webhookSecret+"\n")
	w.export(rows...)
	statetest.New(t, w.path("payersync.db"))
	w.must(os.Rename(w.path("payersync.db.key"), w.path("payersync.key")))
	return w
}

func (w *world) config() string {
	return fmt.Sprintf(`billing:
  profile: sandbox
  base_url: %s/api
  client_id: sandbox
  client_secret: env:BILLING_CLIENT_SECRET
  redirect_url: https://app.example.com/signed
  rate_per_second: 100000
  webhook:
    public_url: http://%s/webhooks/billing
    signature: {header: x-signature, algorithm: hmac-sha256, encoding: hex, signed: "{body}", secrets: [file:webhook.secret]}
connections:
  - {name: acme, source: {kind: csv, path: customers.csv, id: [AccountNumber]}, mapping: mapping.yaml}
guards: {max_creates: 20}
server: {webhooks: "%[2]s", admin: "", metrics: ""}
log: {level: debug, format: json}
`, w.service.URL, w.hooks)
}

// worldMapping gives every address of a row, so that one with two is held.
const worldMapping = `version: 1
source: csv
key: {accountNumber: AccountNumber}
customer:
  name: trim(Name)
  people:
    - {name: trim(Name), email: lower(trim(Email)), phone: trim(Phone)}
  addresses: 'filter([{line1: Street, city: "Leeds"}, {line1: Depot, city: "Hull"}], .line1 != "")'
mandate:
  request: any(customer.people, .email != "")
own: [name, people, addresses]
`

// row is a row of customers.csv.
type row struct{ ID, Name, Email, Phone, Street, Depot string }

// people returns n rows without a fault: A00001, A00002 and so on.
func people(n int) []row {
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{
			ID: fmt.Sprintf("A%05d", i+1), Name: fmt.Sprintf("Payer %d", i+1), Email: fmt.Sprintf("payer%d@example.org", i+1),
			Phone: "01632 960100", Street: fmt.Sprintf("%d Mill Lane", i+1),
		}
	}
	return rows
}

// export writes customers.csv, as the accounting system would.
func (w *world) export(rows ...row) {
	w.t.Helper()
	var text bytes.Buffer
	out := csv.NewWriter(&text)
	cells := [][]string{{"AccountNumber", "Name", "Email", "Phone", "Street", "Depot"}}
	for _, r := range rows {
		cells = append(cells, []string{r.ID, r.Name, r.Email, r.Phone, r.Street, r.Depot})
	}
	if err := out.WriteAll(cells); err != nil {
		w.t.Fatal(err)
	}
	w.write("customers.csv", text.String())
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// edit replaces text in a file of the installation.
func (w *world) edit(name, old, text string) {
	w.t.Helper()
	data, err := os.ReadFile(w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		w.t.Fatalf("%s does not hold %q", name, old)
	}
	w.write(name, strings.Replace(string(data), old, text, 1))
}

// ledgerBytes returns the bytes of the ledger's files one after the other. Only
// other processes have the ledger open, so reading drops no lock of ours.
func (w *world) ledgerBytes() []byte {
	w.t.Helper()
	var all []byte
	for _, name := range []string{"payersync.db", "payersync.db-wal", "payersync.db-shm"} {
		data, err := os.ReadFile(w.path(name))
		if err != nil && !os.IsNotExist(err) {
			w.t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// expectOnePerRow fails unless the sandbox has exactly one living customer for
// each row, and nothing else.
func (w *world) expectOnePerRow(rows []row) {
	w.t.Helper()
	count := map[string]int{}
	for _, c := range w.box.Customers() {
		count[c.ExternalData["accountNumber"]]++
	}
	var wrong []string
	for _, r := range rows {
		if count[r.ID] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s has %d customers, want 1", r.ID, count[r.ID]))
		}
		delete(count, r.ID)
	}
	for id, n := range count {
		wrong = append(wrong, fmt.Sprintf("%d customers carry the key %q, which is no row's", n, id))
	}
	w.complain(wrong)
}

// complain reports the first few of what may be thousands of mistakes.
func (w *world) complain(wrong []string) {
	w.t.Helper()
	const most = 10
	for _, what := range wrong[:min(most, len(wrong))] {
		w.t.Error(what)
	}
	if len(wrong) > most {
		w.t.Errorf("and %d more like these", len(wrong)-most)
	}
}

// isWrite reports whether a request may change something in the service.
func isWrite(r sandbox.Request) bool {
	return r.Method != http.MethodGet && r.Path != "/api/oauth2/token"
}

// requests returns those that the sandbox saw and keep says.
func (w *world) requests(keep func(sandbox.Request) bool) []sandbox.Request {
	var out []sandbox.Request
	for _, r := range w.box.Requests() {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// mandateOf returns the newest mandate of the customer with this key.
func (w *world) mandateOf(key string) sandbox.Mandate {
	w.t.Helper()
	for _, c := range w.box.Customers() {
		if n := len(c.Mandates); c.ExternalData["accountNumber"] == key && n > 0 {
			return c.Mandates[n-1]
		}
	}
	w.t.Fatalf("%s has no mandate", key)
	return sandbox.Mandate{}
}

// freeAddress returns a free address on this machine, different from those of other tests.
func freeAddress(t testing.TB) string {
	t.Helper()
	address, err := unused()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// The ports of tests are below the system's ephemeral ports: one of those could go to another server or
// connection between its choice and its use.
const firstPort, portsOfTests = 20_000, 12_000

var lastPort atomic.Int64 // counted from a random one, since packages are tested side by side

func init() { lastPort.Store(rand.Int64N(portsOfTests)) }

// unused is freeAddress for whoever has no test at hand.
func unused() (string, error) {
	for range portsOfTests {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+lastPort.Add(1)%portsOfTests)
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // somebody else's
		}
		return address, l.Close()
	}
	return "", errors.New("every port that tests use is taken")
}

// eventually polls until done, and fails when it takes too long.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// keyOf returns the key that a create carries.
func keyOf(t testing.TB, body []byte) string {
	t.Helper()
	var sent struct {
		ExternalData map[string]string `json:"externalData"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatalf("read a create: %v in %s", err, body)
	}
	return sent.ExternalData["accountNumber"]
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}
