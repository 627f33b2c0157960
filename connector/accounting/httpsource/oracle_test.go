package httpsource_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/transport"
)

// Servers that were not written for these tests judge profiles: SAP CAP, json-server and Prism. They are npm packages.

const oracleVariable = "PAYERSYNC_ORACLES"

// startOracle starts a script of testdata/oracles and returns the addresses that it prints. The packages are in the
// folder that PAYERSYNC_ORACLES names. Without it the test is skipped, but on CI it fails.
func startOracle(t *testing.T, script string, args ...string) []string {
	t.Helper()
	folder := os.Getenv(oracleVariable)
	switch {
	case folder == "" && os.Getenv("CI") == "true":
		t.Fatalf("%s names no folder with the servers' packages; .ci/run installs them", oracleVariable)
	case folder == "":
		t.Skipf("skipped: needs the packages that .ci/run installs with npm; set %s to their folder", oracleVariable)
	}
	script, err := filepath.Abs(filepath.Join("testdata", "oracles", script))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{script}, args...)...)
	cmd.Dir = folder
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	input, err1 := cmd.StdinPipe() // the script ends with it, so also when this process is killed
	output, err2 := cmd.StdoutPipe()
	if err := cmp.Or(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			_ = cmd.Wait()
			t.Fatalf("%s ended before it was ready: %s", filepath.Base(script), complaints.String())
		}
		if addresses, ready := strings.CutPrefix(strings.TrimSpace(line), "oracle "); ready {
			drained := make(chan struct{})
			go func() { defer close(drained); _, _ = io.Copy(io.Discard, lines) }()
			t.Cleanup(func() {
				_ = input.Close()
				<-drained
				_ = cmd.Wait()
			})
			return strings.Fields(addresses)
		}
	}
}

// stored is one customer as an oracle keeps it.
type stored struct {
	id      string
	state   connector.RecordState
	updated time.Time
}

// oracle is a server with customers, read by a shipped profile.
type oracle struct {
	t        *testing.T
	api      string // the address below which the server keeps customers
	list     string // the path of the list, below it
	item     func(id string) string
	source   *httpsource.Source
	lists    atomic.Int64 // requests for a page of the list
	behind   func()       // is called behind each page; may be nil
	customer func(stored) map[string]any
	all      []stored // in the order of the server's list
}

// read opens the source of a shipped profile at an address.
func (o *oracle) read(profile, address string, size int) {
	o.t.Helper()
	p := shippedBy(o.t, profile)
	c := p.SampleConfig()
	c.BaseURL, c.PageSize = address, size
	client := transport.New(transport.Options{Base: o, Retries: -1})
	var err error
	if o.source, err = httpsource.New(p, c, httpsource.Dependencies{HTTP: client, Limiter: &accountingtest.Limiter{},
		Token: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"}), Now: time.Now}); err != nil {
		o.t.Fatal(err)
	}
}

// RoundTrip sends a request to the server.
func (o *oracle) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, o.list) {
		o.lists.Add(1)
		if o.behind != nil {
			o.behind()
		}
	}
	return resp, err
}

// send sends JSON to the server, as another user of the books.
func (o *oracle) send(method, path string, body any) {
	o.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			o.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.api+path, bytes.NewReader(text))
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		o.t.Fatal(err)
	}
	answer, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode >= 300 {
		o.t.Fatalf("%s %s: HTTP %d: %.300s", method, path, resp.StatusCode, answer)
	}
}

// expect fails unless a read since a time gives exactly the wanted customers, with their states.
func (o *oracle) expect(what string, since time.Time, want []stored) {
	o.t.Helper()
	before := o.lists.Load()
	got, err := readAll(o.t.Context(), o.source, since)
	if err != nil {
		o.t.Fatalf("%s: %v", what, err)
	}
	for _, c := range want {
		switch r, met := got[c.id]; {
		case !met:
			o.t.Errorf("%s: %s is missing", what, c.id)
		case r.State != c.state || r.Problem != "" || !r.UpdatedAt.Equal(c.updated):
			o.t.Errorf("%s: %s is %s of %s (%s), and stored is %+v", what, c.id, r.State, r.UpdatedAt, r.Problem, c)
		}
	}
	if len(got) != len(want) {
		o.t.Errorf("%s: %d customers, want %d", what, len(got), len(want))
	}
	o.t.Logf("%s: %d of %d customers in %d pages", what, len(got), len(want), o.lists.Load()-before)
}

// expectProbes fails unless all steps of a check are good.
func (o *oracle) expectProbes() {
	o.t.Helper()
	for _, probe := range o.source.Probe(o.t.Context()) {
		if !probe.OK {
			o.t.Errorf("probe %s: %s", probe.Name, probe.Detail)
		}
	}
}

// since returns the customers edited at or after a time.
func (o *oracle) since(at time.Time) []stored {
	return slices.DeleteFunc(slices.Clone(o.all), func(c stored) bool { return c.updated.Before(at) })
}

// change reads all customers in pages, while customers of pages already read are deleted and others are added, by the
// plan behind each of the first pages. Nobody who was there all the time may be missing.
func (o *oracle) change(what string, pages, deletes, adds int) {
	o.t.Helper()
	page := 0
	o.behind = func() {
		if page++; page > pages { // then the books rest
			return
		}
		for range deletes {
			o.send(http.MethodDelete, o.item(o.all[0].id), nil)
			o.all = o.all[1:]
		}
		for range adds {
			o.send(http.MethodPost, o.list, o.customer(stored{id: uuid.NewString(), state: connector.RecordActive,
				updated: time.Now().UTC().Truncate(time.Millisecond)}))
		}
	}
	before, listed := o.lists.Load(), len(o.all)
	got, err := readAll(o.t.Context(), o.source, time.Time{})
	o.behind = nil
	if err != nil {
		o.t.Fatalf("%s: %v", what, err)
	}
	lost := 0
	for _, c := range o.all {
		if _, met := got[c.id]; !met {
			lost++
		}
	}
	if lost > 0 || page < pages {
		o.t.Errorf("%s: %d of %d customers are lost; %d pages were read", what, lost, len(o.all), page)
	}
	o.t.Logf("%s: %d of %d customers lost, of %d before, in %d pages", what, lost, len(o.all), listed,
		o.lists.Load()-before)
}

// books returns n customers, some archived, edited one minute after another until now.
func books(n int, id func(int) string) []stored {
	began := time.Now().UTC().Truncate(time.Second).Add(-time.Duration(n) * time.Minute)
	out := make([]stored, n)
	for i := range out {
		out[i] = stored{id: id(i), state: connector.RecordActive, updated: began.Add(time.Duration(i) * time.Minute)}
		if i%7 == 3 {
			out[i].state = connector.RecordArchived
		}
	}
	return out
}

func TestBusinessCentralProfileReadsAnODataServer(t *testing.T) {
	t.Parallel()
	const company = "9d1b7e01-0000-4b1e-9c35-2f6a6e1c2f6b"
	o := &oracle{t: t, list: "/companies(" + company + ")/customers",
		item: func(id string) string { return "/customers(" + id + ")" },
		customer: func(c stored) map[string]any {
			blocked := " "
			if c.state == connector.RecordArchived {
				blocked = "All"
			}
			return map[string]any{"id": c.id, "number": "C" + c.id[:8], "displayName": "Northwind " + c.id[:8],
				"blocked": blocked, "lastModifiedDateTime": c.updated.Format("2006-01-02T15:04:05.000Z")}
		},
		all: books(2500, func(int) string { return uuid.NewString() })}
	o.api = startOracle(t, "businesscentral.js")[0] + "/v2.0/sample/Production/api/v2.0"
	o.send(http.MethodPost, "/companies", map[string]any{"id": company, "displayName": "Northwind Books",
		"customers": connector.Map(o.all, o.customer)})
	since := o.all[1800].updated
	slices.SortFunc(o.all, func(a, b stored) int { return strings.Compare(a.id, b.id) })

	o.read("businesscentral", o.api, 1000)
	o.expectProbes()
	o.expect("whole", time.Time{}, o.all)
	o.expect("nothing since", time.Now().Add(time.Hour), nil)
	o.expect("since", since, o.since(since))

	o.read("businesscentral", o.api, 100)
	o.expect("whole, in small pages", time.Time{}, o.all)
	o.change("a delete behind each page", 26, 1, 0)
	o.change("a delete and an add behind each page", 20, 1, 1)
	o.change("3 deletes and 3 adds behind each page", 20, 3, 3)
}

func TestFreeAgentProfileReadsAJSONServer(t *testing.T) {
	t.Parallel()
	o := &oracle{t: t, list: "/contacts", item: func(id string) string { return "/contacts/" + id },
		customer: func(c stored) map[string]any {
			status := "Active"
			if c.state == connector.RecordArchived {
				status = "Hidden"
			}
			return map[string]any{"id": c.id, "url": "https://api.freeagent.com/v2/contacts/" + c.id,
				"organisation_name": "Northwind " + c.id, "status": status, "created_at": c.updated,
				"updated_at": c.updated.Format("2006-01-02T15:04:05.000Z")}
		},
		all: books(450, func(i int) string { return fmt.Sprint(1000 + i) })}
	text, err := json.Marshal(connector.Map(o.all, o.customer))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "contacts.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	o.api = startOracle(t, "freeagent.js", file)[0]

	o.read("freeagent", o.api, 100)
	o.expectProbes()
	o.expect("whole", time.Time{}, o.all)
	since := o.all[300].updated
	o.expect("since", since, o.since(since))

	o.read("freeagent", o.api, 20)
	o.expect("whole, in small pages", time.Time{}, o.all)
	o.change("a delete behind each page", 24, 1, 0)
	o.change("a delete and an add behind each page", 20, 1, 1)
	o.change("3 deletes and 3 adds behind each page", 20, 3, 3)
}
