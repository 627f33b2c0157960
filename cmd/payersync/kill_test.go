package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/state"
)

// The long mode, for releases and nights:
//
//	go test ./cmd/payersync -run KillNine -kills 50
//
// With -kill-seed the kills of a run that failed come at the same places again,
// as far as two processes ever do the same twice.
var (
	kills    = flag.Int("kills", 5, "how often the backfill is killed")
	killRows = flag.Int("kill-rows", defaultKillRows, "rows of the backfill that is killed")
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
	rows := people(*killRows)
	for i := range rows {
		if i%2 == 1 {
			rows[i].Email = "" // nobody to ask for a mandate
		}
	}
	w := newWorld(t, rows)
	random := seeded(t)
	began, inside := time.Now(), 0
	for range *kills {
		if w.killDuringBackfill(w.moment(random)) {
			inside++
		}
	}
	w.expect(exitDone, "backfill", "--yes")
	t.Logf("%d of %d kills came inside a run; %d rows took %d writes and %v", inside, *kills, len(rows), w.box.Writes(), time.Since(began).Round(time.Millisecond))

	w.expectOnePerRow(rows)
	w.expectIdenticalCreates()
	w.expectOneMandateEach()
	w.expectLinked(rows)
	if check := w.expect(exitDone, "check"); !strings.Contains(check.out, "whole, both hash chains hold") {
		t.Errorf("check says:\n%s", check.out)
	}
	before := w.box.Writes()
	w.expect(exitDone, "sync")
	if n := w.box.Writes() - before; n != 0 {
		t.Errorf("a run after the last one sent %d writes", n)
	}
}

func seeded(t *testing.T) *rand.Rand {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kill-seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// moment draws when a process is killed and returns a function that says whether
// the moment has come: after some writes, so that the work gets on between kills;
// after some requests, many of which are reads; or after some time, which may be
// over before the first request.
func (w *world) moment(random *rand.Rand) func() bool {
	switch random.IntN(4) {
	case 0:
		began, wait := time.Now(), time.Duration(random.Int64N(int64(500*time.Millisecond)))
		return func() bool { return time.Since(began) > wait }
	case 1:
		until := w.seen.Load() + random.Int64N(400)
		return func() bool { return w.seen.Load() > until }
	}
	share := 3 * *killRows / 2 / *kills // half of the rows are two writes, the others one
	until := w.box.Writes() + random.IntN(max(1, share))
	return func() bool { return w.box.Writes() > until }
}

// killDuringBackfill starts a backfill, kills it when its moment has come, and
// reports whether that was before its end.
func (w *world) killDuringBackfill(come func() bool) bool {
	w.t.Helper()
	p := w.start("backfill", "--yes")
	eventually(w.t, "the moment to kill", func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return come()
		}
	})
	p.signal(syscall.SIGKILL)
	r := p.wait()
	if r.code != -1 && r.code != exitDone {
		w.t.Fatalf("the backfill ended by itself with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	return r.code == -1
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

// expectLinked fails unless the ledger links each row to the customer that has
// its key in the service, and knows that customer's mandate.
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
		if p.LinkState != "linked" || shown(p.BillingID) != customers[p.KeyValue] || shown(p.MandateID) != mandates[p.KeyValue] {
			wrong = append(wrong, fmt.Sprintf("%s is %s to customer %q with mandate %q, the service has %q with %q",
				p.SourceID, p.LinkState, shown(p.BillingID), shown(p.MandateID), customers[p.KeyValue], mandates[p.KeyValue]))
		}
	}
	w.complain(wrong)
}
