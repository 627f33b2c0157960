package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/internal/longtest"
	"payersync/state"
)

// The longest mode, a thousand kills in minutes:
//
//	PAYERSYNC_LONG=1 go test ./cmd/payersync -run KillNineOfAny -any-kills 1000 -timeout 0 -v
var anyKills = flag.Int("any-kills", 12, "how often a process of any command is killed")

// worldKills is how many kills one installation takes before its books are closed.
const worldKills = 100

// Backfills, syncs and serves with webhooks are killed with SIGKILL at random moments, in one installation
// after the other, after edits of rows. In the end no acknowledged delivery is lost, and every row has one
// customer, created with the same bytes each time. Every unsigned payer has a link or a finding.
//
// covers F01, F02, F05, F10, F39, F67, L1, L2, L3, S1, S2, S3, S10, S16
func TestKillNineOfAnyCommandLosesAndDoublesNothing(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	random, began, done := seeded(t), time.Now(), map[string]int{}
	for left := *anyKills; left > 0 && !t.Failed(); left -= worldKills {
		seed := random.Uint64()
		t.Run(fmt.Sprint(done["world"]), func(t *testing.T) {
			k := &killing{world: newWorld(t, nil, slowly), random: rand.New(rand.NewPCG(seed, 0)),
				acknowledged: map[string]bool{}, done: done}
			k.edit("payersync.yaml", "mapping: mapping.yaml}", `mapping: mapping.yaml, schedule: "@every 1s"}`)
			k.edit("payersync.yaml", "max_creates: 20", "max_creates: 1000")
			k.edit("payersync.yaml", "level: debug", "level: warn") // what was shown is kept to the end
			k.kill(min(left, worldKills))
			k.closeBooks()
		})
		done["world"]++
	}
	took := time.Since(began)
	t.Logf("%d kills in %v, %.0f a minute: %v", done["backfill"]+done["sync"]+done["serve"], took.Round(time.Second),
		float64(done["backfill"]+done["sync"]+done["serve"])/took.Minutes(), done)
}

// slowly gives every request a little time, so kills hit requests.
func slowly(o *sandbox.Options) { o.Latency = time.Millisecond }

// killing is an installation for killing processes.
type killing struct {
	*world
	random       *rand.Rand
	rows         []row
	acknowledged map[string]bool
	told         int            // webhooks sent
	done         map[string]int // kills by command, and what else happened
}

// kill kills n processes. A process that ends before its moment does not count.
func (k *killing) kill(n int) {
	k.t.Helper()
	for killed, tries := 0, 0; killed < n; tries++ {
		if tries > 5*n {
			k.t.Fatalf("only %d of %d processes lived to be killed", killed, tries)
		}
		k.change()
		which := []string{"backfill", "sync", "serve"}[k.random.IntN(3)]
		if !k.killOne(which) {
			k.done["ended by itself"]++
			continue
		}
		killed++
		k.done[which]++
		k.expectNoneTwice(killed)
	}
}

// change adds rows and edits others, as people do between runs.
func (k *killing) change() {
	k.t.Helper()
	k.rows = append(k.rows, people(len(k.rows) + 1 + k.random.IntN(4))[len(k.rows):]...)
	for range k.random.IntN(4) {
		k.rows[k.random.IntN(len(k.rows))].Phone = fmt.Sprintf("01632 9%05d", k.random.IntN(100_000))
	}
	k.export(k.rows...)
}

// killOne starts a command, kills it at a random moment, and reports whether it was still running.
func (k *killing) killOne(which string) bool {
	k.t.Helper()
	args := map[string][]string{"backfill": {"backfill", "--yes"}, "sync": {"sync", "--yes"}, "serve": {"serve"}}[which]
	come, began := k.anyMoment(which), time.Now()
	p := k.start(args...)
	eventually(k.t, "the moment to kill", func() bool {
		if which == "serve" {
			k.tell()
		}
		return p.over() || come() || time.Since(began) > 2*time.Second
	})
	p.signal(syscall.SIGKILL)
	r := p.wait()
	if r.code != -1 && (which == "serve" || r.code != exitDone && r.code != exitAttention) {
		k.t.Fatalf("%s ended by itself with %d:\n%s%s", which, r.code, r.out, r.errOut)
	}
	return r.code == -1
}

// anyMoment draws the moment of a kill: after some writes, some requests, some time, or, for a serve, some
// acknowledged deliveries.
func (k *killing) anyMoment(which string) func() bool {
	if which == "serve" && k.random.IntN(4) > 0 {
		until := len(k.acknowledged) + k.random.IntN(6)
		return func() bool { return len(k.acknowledged) > until }
	}
	switch k.random.IntN(5) {
	case 0:
		began, wait := time.Now(), time.Duration(k.random.Int64N(int64(300*time.Millisecond)))
		return func() bool { return time.Since(began) > wait }
	case 1, 2:
		until := k.seen.Load() + k.random.Int64N(25)
		return func() bool { return k.seen.Load() > until }
	}
	until := k.box.Writes() + k.random.IntN(6)
	return func() bool { return k.box.Writes() > until }
}

// tell lets a payer sign and sends the webhook.
func (k *killing) tell() {
	k.t.Helper()
	k.told++
	if id := fmt.Sprintf("told-%d", k.told); k.signAndTell(k.random, id) {
		k.acknowledged["event:"+id] = true
		k.done["acknowledged"]++
	}
}

// expectNoneTwice fails at once when the service has two customers for a key.
func (k *killing) expectNoneTwice(killed int) {
	k.t.Helper()
	have := map[string]string{}
	for _, c := range k.box.Customers() {
		key := c.ExternalData["accountNumber"]
		if other, twice := have[key]; twice {
			k.t.Fatalf("after kill %d the customers %s and %s carry the key %s", killed, other, c.ID, key)
		}
		have[key] = c.ID
	}
}

// closeBooks lets the work be finished and judges all of it.
func (k *killing) closeBooks() {
	k.t.Helper()
	for range 3 { // one takes up what was begun, the next what has changed since
		if r := k.run("sync", "--yes"); r.code != exitDone && r.code != exitAttention {
			k.t.Fatalf("the sync after the kills ended with %d:\n%s%s", r.code, r.out, r.errOut)
		}
	}
	k.sweepAll()
	k.expectNoneTwice(worldKills)
	k.expectIdenticalCreates()
	waiting := k.expectLinkedOrTold()
	k.expectPhones(k.rows)
	k.expectStatuses()
	k.expectDeliveries()
	k.expectALinkOrAReason()
	k.expectWholeLedger()
	before := k.box.Writes()
	k.run("sync", "--yes")
	if n := k.box.Writes() - before; n != 0 && waiting == 0 {
		k.t.Errorf("a run after the last one sent %d writes", n)
	}
}

// sweepAll finds the signed mandates without a webhook.
func (k *killing) sweepAll() {
	k.t.Helper()
	if r := k.run("sweep"); r.code != exitDone && r.code != exitAttention {
		k.t.Fatalf("the sweep after the kills ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
}

// reasons returns why a person is asked, by record.
func (k *killing) reasons() map[string]string {
	k.t.Helper()
	out := map[string]string{}
	for _, a := range decodeLines[state.AttentionRow](k.t, k.run("attention", "list", "--output", "json")) {
		out[a.SourceID] = a.Reason
	}
	return out
}

// expectLinkedOrTold fails unless the ledger links every row to the one customer with its key in the service,
// and to its mandate. A create cut off five times waits until all requests must have arrived. That is a
// finding, and the number of those is returned.
func (k *killing) expectLinkedOrTold() (waiting int) {
	k.t.Helper()
	customers, reasons, payers := map[string]sandbox.Customer{}, k.reasons(), map[string]state.PayerRow{}
	for _, c := range k.box.Customers() {
		customers[c.ExternalData["accountNumber"]] = c
	}
	for _, p := range decodeLines[state.PayerRow](k.t, k.expect(exitDone, "payers", "list", "--output", "json")) {
		payers[p.SourceID] = p
	}
	if len(customers) > len(k.rows) || len(payers) != len(k.rows) {
		k.t.Errorf("%d rows have %d payers and %d customers", len(k.rows), len(payers), len(customers))
	}
	var wrong []string
	for _, r := range k.rows {
		p, c, mandate := payers[r.ID], customers[r.ID], ""
		if n := len(c.Mandates); n > 0 {
			mandate = c.Mandates[n-1].ID
		}
		switch {
		case c.ID == "" && reasons[r.ID] == string(connector.ReasonOutcomeUnknown):
			waiting++
			k.done["create told: outcome_unknown"]++
		case c.ID == "" || p.LinkState != "linked" || show.Value(p.BillingID) != c.ID || show.Value(p.MandateID) != mandate:
			wrong = append(wrong, fmt.Sprintf("%s is %q to customer %q with mandate %q, the service has %q with %q; reason %q",
				r.ID, p.LinkState, show.Value(p.BillingID), show.Value(p.MandateID), c.ID, mandate, reasons[r.ID]))
		}
	}
	k.complain(wrong)
	return waiting
}

// expectDeliveries fails if an acknowledged delivery is missing in the inbox, or one there is unfinished.
func (k *killing) expectDeliveries() {
	k.t.Helper()
	var wrong []string
	for _, d := range k.inbox() {
		delete(k.acknowledged, withoutHash(d.DeliveryKey))
		if d.State != string(connector.InboxReflected) && d.State != string(connector.InboxSuperseded) {
			wrong = append(wrong, fmt.Sprintf("delivery %s is %s", d.DeliveryKey, d.State))
		}
	}
	for key := range k.acknowledged {
		wrong = append(wrong, key+" was acknowledged and is lost")
	}
	k.complain(wrong)
}

// expectALinkOrAReason fails unless each unsigned payer has one mandate with its signing link in the ledger,
// or a finding: a request cut off so often that a person must act, or an answer lost with its process.
func (k *killing) expectALinkOrAReason() {
	k.t.Helper()
	links, reasons := map[string]string{}, k.reasons()
	for _, m := range decodeLines[mandateReport](k.t,
		k.expect(exitDone, "mandates", "list", "--links", "--output", "json")) {
		links[m.MandateID] = m.Link
	}
	var wrong []string
	for _, c := range k.box.Customers() {
		source := c.ExternalData["accountNumber"]
		switch n := len(c.Mandates); {
		case n > 1:
			wrong = append(wrong, fmt.Sprintf("%s has %d mandates", source, n))
		case n == 1 && c.Mandates[0].Status != connector.MandateCreated:
			k.done["signed"]++
		case n == 1 && links[c.Mandates[0].ID] != "":
			k.done["with a link"]++
		case slices.Contains([]connector.Reason{connector.ReasonLinkLost, connector.ReasonOutcomeUnknown},
			connector.Reason(reasons[source])):
			k.done["told: "+reasons[source]]++
		default:
			wrong = append(wrong, fmt.Sprintf("%s has %d mandates, no link and no reason but %q", source, n, reasons[source]))
		}
	}
	k.complain(wrong)
}

// A create whose process dies of it five times waits until all that was sent must
// have arrived, and says so.
//
// covers F01, V3
func TestACreateThatWasCutOffFiveTimesIsTold(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	w := newWorld(t, people(1))
	var under atomic.Int64
	hold := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || r.URL.Path != "/api/customers" {
			return false
		}
		under.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // only then is the end of a connection seen
		<-r.Context().Done()               // it never reaches the service
		return true
	}
	w.front.Store(&hold)
	for n := range int64(5) {
		p := w.start("sync", "--yes")
		eventually(t, "the create to be under way", func() bool { return under.Load() > n })
		p.signal(syscall.SIGKILL)
		p.wait()
	}
	w.front.Store(nil)
	r := w.run("sync", "--yes")
	if n := w.box.Writes(); n != 0 {
		t.Errorf("a sixth create was sent, or something else: %d writes", n)
	}
	if r.code != exitAttention {
		t.Errorf("the sync ended with %d, and its create waits:\n%s%s", r.code, r.out, r.errOut)
	}
	shown := decodeLines[state.AttentionRow](t, w.run("attention", "list", "--output", "json"))
	if len(shown) != 1 || shown[0].Reason != string(connector.ReasonOutcomeUnknown) {
		t.Errorf("what needs attention is %+v", shown)
	}
}
