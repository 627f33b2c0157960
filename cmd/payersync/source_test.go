package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/connector"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/billing"
	"payersync/connector/credentials/credentialstest"
	"payersync/connector/pages"
)

// profiledBooks serves the model of a profile's system.
type profiledBooks struct {
	*httpsource.Fake
	mu   sync.Mutex
	seen []*http.Request
}

func (b *profiledBooks) Token() (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: "access"}, nil
}

func (b *profiledBooks) Requests() []*http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

func (b *profiledBooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.seen = append(b.seen, r)
	b.mu.Unlock()
	resp, err := b.RoundTrip(r)
	if err != nil {
		http.Error(w, "no answer", http.StatusInternalServerError)
		return
	}
	defer resp.Body.Close()
	for name := range resp.Header {
		w.Header().Set(name, resp.Header.Get(name))
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// newProfiledWorld is a world with a second connection, books, to the model of a profile's system with n customers.
func newProfiledWorld(t *testing.T, kind, block string, n int) (*world, *vendor, *profiledBooks) {
	t.Helper()
	p := config.ShippedProfile(kind)
	fake, err := httpsource.NewFake(p, p.SampleConfig(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	fake.Add(n)
	b := &profiledBooks{Fake: fake}
	v := newVendor(t, b)
	w := newWorld(t, people(3))
	w.edit("payersync.yaml", "guards:",
		fmt.Sprintf("  - {name: books, source: {%s}, mapping: %s.yaml}\nguards:",
			strings.ReplaceAll(block, "HOST", v.http.URL), kind))
	w.env["BOOKS_SECRET"] = credentialstest.ClientSecret
	w.write(kind+".yaml", readShipped(t, "configs/sources/"+kind+"/mapping.yaml"))
	return w, v, b
}

const freeagentBlock = `kind: freeagent, client_id: ` + credentialstest.ClientID +
	`, client_secret: env:BOOKS_SECRET, base_url: "HOST/v2", authorize_url: "HOST/authorize", token_url: "HOST/token"`

func TestFreeAgentIsConnectedAndReadByItsProfile(t *testing.T) {
	t.Parallel()
	w, v, b := newProfiledWorld(t, "freeagent", freeagentBlock, 7)
	if done := w.connect(v); done.code != exitDone || !strings.Contains(done.out, "Northwind Books") {
		t.Fatalf("connect ended with %d:\n%s%s", done.code, done.out, done.errOut)
	}
	checked := w.run("check")
	for _, want := range []string{"ok source books credentials:", "ok source books tenant:", "ok source books clock:",
		"ok consent books"} {
		if !strings.Contains(strings.Join(strings.Fields(checked.out), " "), want) {
			t.Errorf("check does not say %q:\n%s", want, checked.out)
		}
	}
	synced := w.expect(exitDone, "sync", "books")
	if !strings.Contains(synced.out, "7 read") || !strings.Contains(synced.out, "7 created") {
		t.Errorf("sync says:\n%s", synced.out)
	}
	b.Change("1003", func(name *string, _ *connector.RecordState, _ *string) { *name = "Renamed Ltd" })
	if again := w.expect(exitDone, "sync", "books"); !strings.Contains(again.out, "1 updated") ||
		!strings.Contains(again.out, "0 created") || len(w.box.Customers()) != 7 {
		t.Errorf("there are %d customers, and a second sync says:\n%s", len(w.box.Customers()), again.out)
	}
	kept := string(w.ledgerBytes()) + synced.out + synced.errOut + checked.out
	for _, secret := range []string{"access-1", "refresh-1", credentialstest.ClientSecret} {
		if strings.Contains(kept, secret) {
			t.Errorf("%q shows in the ledger's file or in what was printed", secret)
		}
	}
}

// covers F13
func TestThrottledProfileIsLeftAloneUntilTheTimeItGave(t *testing.T) {
	t.Parallel()
	w, v, b := newProfiledWorld(t, "freeagent", freeagentBlock, 150)
	if done := w.connect(v); done.code != exitDone {
		t.Fatal(done.out, done.errOut)
	}
	b.Fault = httpsource.Throttled
	until := time.Now().Add(time.Hour)
	first := w.expect(exitThrottled, "sync", "books")
	if !strings.Contains(first.out, "throttled; try again at "+until.Format(time.DateOnly)) {
		t.Errorf("the run says:\n%s%s", first.out, first.errOut)
	}
	asked := v.asked()
	w.expect(exitThrottled, "sync", "books")
	if got := v.asked(); got != asked {
		t.Errorf("a parked source had %d requests", got-asked)
	}
}

// What write-back sets comes back with the next reading as no change.
//
// covers F146
func TestAProfileWritesTheStatusBack(t *testing.T) {
	t.Parallel()
	w, _, b := newProfiledWorld(t, "erpnext", `kind: erpnext, url: "HOST", api_key: env:BOOKS_SECRET, api_secret: env:BOOKS_SECRET`, 3)
	w.edit("payersync.yaml", "mapping: erpnext.yaml}",
		"mapping: erpnext.yaml, writeback: {profile: {field: custom_direct_debit, asked: DD asked, active: DD active}}}")
	w.edit("erpnext.yaml", `any(customer.people, .email != "")`, "true")
	w.expect(exitDone, "sync", "books", "--yes")
	plan := decode[shownWritePlan](t, w.expect(exitDone, "writeback", "plan", "--output", "json"))
	if plan.Waiting != 3 || !strings.Contains(plan.Setup, "custom_direct_debit") || *plan.Writes[0].Becomes != "DD asked" {
		t.Fatalf("the plan is %+v", plan)
	}
	w.expect(exitDone, "writeback", "approve", plan.Batch)
	if r := w.expect(exitDone, "writeback", "run"); !strings.Contains(r.out, "3 statuses written") {
		t.Errorf("the run says:\n%s", r.out)
	}
	tried := w.expect(exitDone, "source", "--try", "books")
	asked := b.Requests()
	if key := asked[len(asked)-1].Header.Get("Authorization"); !strings.Contains(key, credentialstest.ClientSecret) ||
		!strings.Contains(tried.out, "3 active") {
		t.Errorf("source --try asks with the key %q:\n%s", key, tried.out)
	}
	puts := 0
	for _, r := range b.Requests() {
		if r.Method != http.MethodGet {
			puts++
		}
	}
	if again := w.expect(exitDone, "sync", "books"); puts != 3 || !strings.Contains(again.out, "3 unchanged") {
		t.Errorf("%d requests wrote; the sync behind them says:\n%s", puts, again.out)
	}
	w.must(w.box.Sign(w.mandateOfName("Customer 1").ID))
	w.must(w.box.Approve(w.mandateOfName("Customer 1").ID))
	w.expect(exitDone, "sweep")
	plan = decode[shownWritePlan](t, w.expect(exitDone, "writeback", "plan", "--output", "json"))
	if len(plan.Writes) != 1 || *plan.Writes[0].Holds != "DD asked" || *plan.Writes[0].Becomes != "DD active" {
		t.Errorf("behind the bank's answer the plan is %+v", plan)
	}
}

func TestOwnProfileIsReadFromItsFile(t *testing.T) {
	t.Parallel()
	w, v, _ := newProfiledWorld(t, "freeagent",
		strings.Replace(freeagentBlock, "kind: freeagent", "kind: http, profile: books.yaml", 1), 5)
	w.write("books.yaml", strings.Replace(readShipped(t, "configs/sources/freeagent/profile.yaml"), "name: freeagent",
		"name: ourbooks", 1))
	w.edit("freeagent.yaml", "source: freeagent", "source: ourbooks")
	if done := w.connect(v); done.code != exitDone {
		t.Fatal(done.out, done.errOut)
	}
	if synced := w.expect(exitDone, "sync", "books"); !strings.Contains(synced.out, "5 created") {
		t.Errorf("sync says:\n%s", synced.out)
	}
	checked := w.run("source", "--check", w.path("books.yaml"))
	if checked.code != exitFailed || !strings.Contains(checked.out, "wrong examples: there are none") {
		t.Errorf("check of a profile without examples ended with %d:\n%s%s", checked.code, checked.out, checked.errOut)
	}
	w.edit("books.yaml", "status == \"Active\"", "staus == \"Active\"")
	broken := w.run("sync", "books")
	for _, want := range []string{"books.yaml:", `unknown name "staus"; did you mean "status"?`} {
		if broken.code != exitUsage || !strings.Contains(broken.errOut, want) {
			t.Errorf("a broken profile ends with %d, without %q:\n%s", broken.code, want, broken.errOut)
		}
	}
}

func TestWrongSettingsOfAProfileAreExplained(t *testing.T) {
	t.Parallel()
	for block, want := range map[string]string{
		`kind: freeagent, client_id: x, client_secret: y, sandbx: true`:                 `did you mean "sandbox"?`,
		`kind: freeagent, client_id: x, client_secret: y, sandbox: "perhaps"`:           "true or false",
		`kind: freeagent, client_secret: y`:                                             `the key "client_id" is missing`,
		`kind: http, client_id: x, client_secret: y`:                                    "profile",
		`kind: freeagent, client_id: x, client_secret: y, base_url: "http://a.example"`: "must begin with https://",
		`kind: http, profile: nowhere.yaml, client_id: x, client_secret: y`:             "cannot read the profile",
	} {
		w := newWorld(t, people(1))
		w.edit("payersync.yaml", "guards:", "  - {name: books, source: {"+block+"}, mapping: mapping.yaml}\nguards:")
		if r := w.run("plan", "books"); r.code != exitUsage || !strings.Contains(r.errOut, want) {
			t.Errorf("%s ends with %d, without %q:\n%s", block, r.code, want, r.errOut)
		}
	}
}

func TestShippedProfilesAreListedAndShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	all := w.expect(exitDone, "source")
	for _, name := range config.Profiles() {
		if !strings.Contains(all.out, name) {
			t.Errorf("the list does not name %s:\n%s", name, all.out)
		}
		one := w.expect(exitDone, "source", name)
		for _, field := range config.ShippedProfile(name).Fields() {
			if !strings.Contains(one.out, "  "+field.Name) {
				t.Errorf("the field %s of %s is not shown", field.Name, name)
			}
		}
	}
	if r := w.run("source", "xero"); r.code != exitUsage || !strings.Contains(r.errOut, "has code of its own") {
		t.Errorf("a system without a profile ends with %d: %s", r.code, r.errOut)
	}
	if r := w.run("source", "freeagnt"); r.code != exitUsage || !strings.Contains(r.errOut, "did you mean freeagent?") {
		t.Errorf("an unknown profile ends with %d: %s", r.code, r.errOut)
	}
}

// The pages show the same of a profile as the command.
func TestThePagesListTheSystemsOfTheCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	listed := w.expect(exitDone, "source").out
	names := map[string]bool{}
	for _, s := range systems() {
		names[s.Name] = true
		for _, said := range []string{s.Title, s.Access, s.Tested, s.Reads, s.Limits} {
			if said == "" || !strings.Contains(listed, said) {
				t.Errorf("the command says nothing of %q for %s", said, s.Name)
			}
		}
		if slices.ContainsFunc(builtIn, func(b pages.System) bool { return b.Name == s.Name }) {
			continue
		}
		if len(s.Traps) == 0 || s.Register == "" {
			t.Errorf("%s has no traps, or nothing to register", s.Name)
		}
	}
	for _, name := range append(config.Profiles(), config.KindXero, config.KindCSV) {
		if names[name] == (name == besidePackage) {
			t.Errorf("%s is in the list: %t", name, names[name])
		}
	}
}

// The draft of a mapping for a profile of one's own fits its fields, for each shipped profile taken as one.
func TestAProfileOfOnesOwnIsSetUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, name := range config.Profiles() {
		text := strings.Replace(readShipped(t, "configs/sources/"+name+"/profile.yaml"), "name: "+name, "name: ours", 1)
		file, dir := w.path(name+"-books.yaml"), w.path("of-"+name)
		w.write(name+"-books.yaml", text)
		done := w.expect(exitDone, "init", "--source", file, "--ask", "everybody", dir)
		if !strings.Contains(done.out, name+"-books.yaml") {
			t.Errorf("init of %s says:\n%s", name, done.out)
		}
		p, err := config.LoadProfile(file)
		if err != nil {
			t.Fatal(err)
		}
		info := connector.SourceInfo{Kind: p.Name(), Fields: p.Fields()}
		if _, err := session.LoadMapping(filepath.Join(dir, mappingFile), info, billing.Dialect{}); err != nil {
			t.Errorf("the mapping for %s: %v", name, err)
		}
	}
	w.write("broken.yaml", "profile: 1\nname: x\n")
	if r := w.run("init", "--source", w.path("broken.yaml"), w.path("broken")); r.code != exitUsage ||
		!strings.Contains(r.errOut, "broken.yaml:") {
		t.Errorf("a broken profile ends with %d: %s", r.code, r.errOut)
	}
}
