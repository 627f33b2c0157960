package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/internal/longtest"
	"payersync/state"
)

// The long mode, for releases and nights:
//
//	PAYERSYNC_LONG=1 go test ./cmd/payersync -run KillNine -kills 50
//
// -kill-seed repeats the kills of a failed run at the same places, as far as two processes behave alike.
var (
	kills    = longtest.Int("kills", 2, 5, "how often a process is killed")
	killRows = longtest.Int("kill-rows", 200, defaultKillRows, "rows of the backfill that is killed")
	killSeed = flag.Uint64("kill-seed", 0, "seed of the kill moments; 0 draws one")
)

// A backfill is killed with SIGKILL again and again, each time at a random point
// of its progress, and started anew. In the end every row has exactly
// one customer and every second one its one mandate, all creates of a row had the
// same bytes, and the ledger is whole and agrees with the service.
//
// covers F01, F02, F67, L1, L2, S1, S2, S3, S16
func TestKillNineNeverMakesACustomerTwice(t *testing.T) {
	t.Parallel()
	rows := people(killRows())
	for i := range rows {
		if i%2 == 1 {
			rows[i].Email = "" // nobody to ask for a mandate
		}
	}
	w := newWorld(t, rows)
	random := seeded(t)
	began, inside := time.Now(), 0
	for range kills() {
		// half of the rows are two writes, the others one
		if w.killDuring(w.moment(random, 3*killRows()/2/kills()), "backfill", "--yes") {
			inside++
		}
	}
	w.finish("backfill", "--yes")
	t.Logf("%d of %d kills came inside a run; %d rows took %d writes and %v", inside, kills(), len(rows), w.box.Writes(),
		time.Since(began).Round(time.Millisecond))

	w.expectOnePerRow(rows)
	w.expectIdenticalCreates()
	w.expectOneMandateEach()
	w.expectLinked(rows)
	w.expectWholeLedger()
	w.expectNothingLeftToSend()
}

// Syncs are killed while they create, update and ask for signing links, with new
// rows and edits before each. In the end the service has every row as it was
// last exported.
//
// covers F01, F05, F10, F67, L1, S1, S3, S6, S16
func TestKillNineDuringSyncsEndsInTheLastExport(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	w := newWorld(t, nil)
	random, inside := seeded(t), 0
	var rows []row
	for round := range kills() {
		rows = people(20 * (round + 1))
		for i := range rows {
			rows[i].Phone = fmt.Sprintf("01632 9%05d", random.IntN(3)) // two of three change with each export
		}
		w.export(rows...)
		if w.killDuring(w.moment(random, 45), "sync", "--yes") {
			inside++
		}
	}
	w.finish("sync", "--yes")
	t.Logf("%d of %d kills came inside a run", inside, kills())

	w.expectOnePerRow(rows)
	w.expectIdenticalCreates()
	w.expectOneMandateEach()
	w.expectLinked(rows)
	w.expectPhones(rows)
	w.expectWholeLedger()
	w.expectNothingLeftToSend()
}

// A serve is killed again and again during its first run and incoming webhooks. Its acknowledged deliveries
// are in the inbox, and the service has each row once.
//
// covers F01, F39, F67, L2, L3, S1, S3, S10, S16
func TestKillNineOfServeLosesNoWebhookAndDoublesNoCustomer(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	rows := people(150)
	w := newWorld(t, rows, func(o *sandbox.Options) { o.Latency = time.Millisecond })
	w.edit("payersync.yaml", "mapping: mapping.yaml}", `mapping: mapping.yaml, schedule: "@yearly"}`)
	w.edit("payersync.yaml", "max_creates: 20", "max_creates: 1000")
	random, acknowledged := seeded(t), map[string]bool{}
	for round := range kills() {
		serve := w.serve()
		come, began, told := w.moment(random, 2*len(rows)/kills()), time.Now(), 0
		eventually(t, "the moment to kill", func() bool {
			told++
			if id := fmt.Sprintf("round-%d-%d", round, told); w.signAndTell(random, id) {
				acknowledged["event:"+id] = true
			}
			return come() || time.Since(began) > time.Second // the run may be over, and its writes with it
		})
		serve.signal(syscall.SIGKILL)
		if r := serve.wait(); r.code != -1 {
			t.Fatalf("serve ended by itself with %d:\n%s", r.code, r.errOut)
		}
	}
	t.Logf("%d webhooks were acknowledged and %d customers made between %d kills", len(acknowledged),
		len(w.box.Customers()), kills())
	for _, d := range w.inbox() {
		delete(acknowledged, withoutHash(d.DeliveryKey))
	}
	for key := range acknowledged {
		t.Errorf("%s was acknowledged and is lost", key)
	}

	w.finish("sync")
	w.expect(exitDone, "sweep") // finds the mandates that were signed and not told of
	for _, d := range w.inbox() {
		if d.State != "reflected" && d.State != "superseded" {
			t.Errorf("delivery %s is %s", d.DeliveryKey, d.State)
		}
	}
	w.expectOnePerRow(rows)
	w.expectIdenticalCreates()
	w.expectOneMandateEach()
	w.expectLinked(rows)
	w.expectStatuses()
	w.expectWholeLedger()
	w.expectNothingLeftToSend()
}

// signAndTell lets a random payer with a signing link sign, sends the webhook, and reports whether it was
// acknowledged.
func (w *world) signAndTell(random *rand.Rand, id string) bool {
	w.t.Helper()
	asked := slices.DeleteFunc(w.box.Customers(), func(c sandbox.Customer) bool { return len(c.Mandates) == 0 })
	if len(asked) == 0 {
		return false
	}
	c := asked[random.IntN(len(asked))]
	if m := c.Mandates[len(c.Mandates)-1]; m.Status == connector.MandateCreated {
		w.must(w.box.Sign(m.ID))
	}
	resp, err := client.Do(w.delivery(event(id, c.ID)))
	if err != nil {
		return false // serve is gone
	}
	_ = resp.Body.Close() // it has none
	return resp.StatusCode/100 == 2
}

func seeded(t *testing.T) *rand.Rand {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kill-seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// moment draws the time of a kill and returns a function that reports it: after some writes, so the work
// advances between kills; after some requests, mostly reads; or after some time, perhaps before the first
// request. apart is the largest number of writes to wait for.
func (w *world) moment(random *rand.Rand, apart int) func() bool {
	switch random.IntN(4) {
	case 0:
		began, wait := time.Now(), time.Duration(random.Int64N(int64(500*time.Millisecond)))
		return func() bool { return time.Since(began) > wait }
	case 1:
		until := w.seen.Load() + random.Int64N(400)
		return func() bool { return w.seen.Load() > until }
	}
	until := w.box.Writes() + random.IntN(max(1, apart))
	return func() bool { return w.box.Writes() > until }
}

// killDuring starts a command, kills it at its moment, and reports whether it was still running.
func (w *world) killDuring(come func() bool, args ...string) bool {
	w.t.Helper()
	p := w.start(args...)
	eventually(w.t, "the moment to kill", func() bool { return p.over() || come() })
	p.signal(syscall.SIGKILL)
	r := p.wait()
	if r.code != -1 && r.code != exitDone {
		w.expectOnlyLosses(r)
	}
	return r.code == -1
}

// finish runs a command until nothing is left of the kills. A run that only finished an earlier one's frozen
// requests is followed by another. A signing link lost with its process is requested again, as the finding
// says.
func (w *world) finish(args ...string) {
	w.t.Helper()
	var r result
	for tries := 0; tries < 5; tries++ {
		r = w.run(args...)
		if r.code == exitDone {
			return
		}
		for range 60 { // a link request that was killed twice has a pause
			if !strings.Contains(r.out, "run it again at") {
				break
			}
			time.Sleep(time.Second)
			r = w.run(args...)
		}
		if r.code == exitDone {
			return
		}
		if w.expectOnlyLosses(r) {
			w.expect(exitDone, "mandates", "links", "--lost", "--yes")
		}
	}
	w.t.Fatalf("%s still leaves something to do:\n%s%s%s", args[0], r.out, r.errOut, w.run("attention", "list").out)
}

// expectOnlyLosses fails if a run has findings beyond lost answers, the result of a kill. It reports whether
// a signing link is among them.
func (w *world) expectOnlyLosses(r result) (links bool) {
	w.t.Helper()
	if r.code != exitAttention {
		w.t.Fatalf("the run ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	for _, a := range decodeLines[state.AttentionRow](w.t, w.run("attention", "list", "--output", "json")) {
		switch connector.Reason(a.Reason) {
		case connector.ReasonLinkLost:
			links = true
		case connector.ReasonOutcomeUnknown: // a run finds out
		default:
			w.t.Errorf("%s needs a person for %s", a.SourceID, a.Reason)
		}
	}
	return links
}

// expectOneMandateEach fails unless every customer with an e-mail address has one
// mandate, and no other has any.
func (w *world) expectOneMandateEach() {
	w.t.Helper()
	var wrong []string
	for _, c := range w.box.Customers() {
		want := 0
		if strings.Contains(string(c.Raw), "@example.org") {
			want = 1
		}
		if len(c.Mandates) != want {
			wrong = append(wrong, fmt.Sprintf("%s has %d mandates, want %d", c.Name, len(c.Mandates), want))
		}
	}
	w.complain(wrong)
}

// expectLinked fails unless the ledger links each row to the service's customer with its key, and knows its
// mandate.
func (w *world) expectLinked(rows []row) {
	w.t.Helper()
	customers, mandates := map[string]string{}, map[string]string{}
	for _, c := range w.box.Customers() {
		customers[c.ExternalData["accountNumber"]] = c.ID
		if len(c.Mandates) > 0 {
			mandates[c.ExternalData["accountNumber"]] = c.Mandates[0].ID
		}
	}
	payers := decodeLines[state.PayerRow](w.t, w.expect(exitDone, "payers", "list", "--output", "json"))
	if len(payers) != len(rows) {
		w.t.Errorf("the ledger has %d payers, want %d", len(payers), len(rows))
	}
	var wrong []string
	for _, p := range payers {
		if p.LinkState != "linked" || show.Value(p.BillingID) != customers[p.KeyValue] ||
			show.Value(p.MandateID) != mandates[p.KeyValue] {
			wrong = append(wrong, fmt.Sprintf("%s is %s to customer %q with mandate %q, the service has %q with %q",
				p.SourceID, p.LinkState, show.Value(p.BillingID), show.Value(p.MandateID), customers[p.KeyValue],
				mandates[p.KeyValue]))
		}
	}
	w.complain(wrong)
}

// expectPhones fails unless every customer has its row's telephone number.
func (w *world) expectPhones(rows []row) {
	w.t.Helper()
	want := map[string]string{}
	for _, r := range rows {
		want[r.ID] = r.Phone
	}
	var wrong []string
	for _, c := range w.box.Customers() {
		if key := c.ExternalData["accountNumber"]; !strings.Contains(string(c.Raw), want[key]) {
			wrong = append(wrong, fmt.Sprintf("%s should have %s: %s", key, want[key], c.Raw))
		}
	}
	w.complain(wrong)
}

// expectStatuses fails unless the ledger has the status of every mandate.
func (w *world) expectStatuses() {
	w.t.Helper()
	known := map[string]string{}
	for _, p := range decodeLines[state.PayerRow](w.t, w.expect(exitDone, "payers", "list", "--output", "json")) {
		known[show.Value(p.MandateID)] = show.Value(p.MandateStatus)
	}
	var wrong []string
	for _, c := range w.box.Customers() {
		for _, m := range c.Mandates {
			if known[m.ID] != string(m.Status) {
				wrong = append(wrong, fmt.Sprintf("mandate %s is %s, in the ledger %q", m.ID, m.Status, known[m.ID]))
			}
		}
	}
	w.complain(wrong)
}

func (w *world) expectWholeLedger() {
	w.t.Helper()
	if check := w.expect(exitDone, "check"); !strings.Contains(check.out, "whole, both hash chains hold") {
		w.t.Errorf("check says:\n%s", check.out)
	}
}

// expectNothingLeftToSend fails when a further run sends a write.
func (w *world) expectNothingLeftToSend() {
	w.t.Helper()
	before := w.box.Writes()
	w.expect(exitDone, "sync")
	if n := w.box.Writes() - before; n != 0 {
		w.t.Errorf("a run after the last one sent %d writes", n)
	}
}
