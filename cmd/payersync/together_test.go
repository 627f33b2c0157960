package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector/sandbox"
	"payersync/state"
)

// The long mode: go test ./cmd/payersync -run AtOnce -rounds 50 -processes 8
var (
	rounds    = flag.Int("rounds", 3, "how often several processes sync at once")
	processes = flag.Int("processes", 3, "how many processes sync at once")
)

// covers F61, F62, S1, G10
func TestSyncsOfOneConnectionAtOnceMakeNoCustomerTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	done := 0
	for round := range *rounds {
		rows := people(15 * (round + 1))
		w.export(rows...)
		for _, r := range w.atOnce(slices.Repeat([][]string{{"sync"}}, *processes)) {
			switch {
			case r.code == exitDone:
				done++
			case r.code != exitHeld || !strings.Contains(r.errOut, "holds the connection acme"):
				t.Fatalf("a sync ended with %d:\n%s%s", r.code, r.out, r.errOut)
			}
		}
		if done <= round {
			t.Fatalf("round %d: no sync ended with 0", round)
		}
		w.expectOnePerRow(rows)
		if n := len(w.requests(isCreate)); n != len(rows) {
			t.Errorf("%d creates were sent for %d rows", n, len(rows))
		}
	}
	t.Logf("%d of %d syncs found the connection free", done, *rounds**processes)
	w.expectOneMandateEach()
	w.expectWholeLedger()
	w.expectNothingLeftToSend()
}

func isCreate(r sandbox.Request) bool {
	return r.Method == http.MethodPost && r.Path == "/api/customers"
}

// atOnce runs commands at the same time, one process each, to their ends.
func (w *world) atOnce(commands [][]string) []result {
	w.t.Helper()
	var running []*process
	for _, args := range commands {
		running = append(running, w.start(args...))
	}
	var results []result
	for _, p := range running {
		results = append(results, p.wait())
	}
	return results
}

// Both processes stand in front of the service's list before either goes on, so
// that their runs do overlap.
//
// covers F62, F78, S1
func TestSyncsOfTwoConnectionsAtOnceBothComplete(t *testing.T) {
	t.Parallel()
	mine := people(15)
	theirs := people(15)
	for i := range theirs {
		theirs[i].ID = fmt.Sprintf("B%05d", i+1)
		theirs[i].Name, theirs[i].Email = "Other "+theirs[i].Name, "other-"+theirs[i].Email
	}
	w := newWorld(t, theirs)
	if err := os.Rename(w.path("customers.csv"), w.path("other.csv")); err != nil {
		t.Fatal(err)
	}
	w.export(mine...)
	w.edit("payersync.yaml", "connections:\n",
		"connections:\n  - {name: brook, source: {kind: csv, path: other.csv, id: [AccountNumber]}, mapping: mapping.yaml}\n")
	w.meetAtTheList(2)
	for i, r := range w.atOnce([][]string{{"sync", "acme"}, {"sync", "brook"}}) {
		if r.code != exitDone || !strings.Contains(r.out, "15 created") {
			t.Errorf("process %d ended with %d:\n%s%s", i, r.code, r.out, r.errOut)
		}
	}
	all := slices.Concat(mine, theirs)
	w.expectOnePerRow(all)
	w.expectIdenticalCreates()
	w.expectOneMandateEach()
	w.expectLinked(all)
	w.expectWholeLedger()
	w.expectNothingLeftToSend()
}

// meetAtTheList holds the service's list back until n processes have asked for it;
// each has a token of its own.
func (w *world) meetAtTheList(n int) {
	var mu sync.Mutex
	tokens, met := map[string]bool{}, make(chan struct{})
	front := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || r.URL.Path != "/api/customers" {
			return false
		}
		mu.Lock()
		before := len(tokens)
		tokens[r.Header.Get("Authorization")] = true
		if before < n && len(tokens) == n {
			close(met)
		}
		mu.Unlock()
		select {
		case <-met:
		case <-r.Context().Done():
		}
		return false
	}
	w.front.Store(&front)
}

// While a run of serve waits for the service, serve takes webhooks in and reflects
// them, and a sync by hand is told that the connection is in use. Afterwards both
// work on the ledger side by side.
//
// covers F61, F62, L3
func TestServeAndSyncShareALedger(t *testing.T) {
	t.Parallel()
	rows := people(6) // the two creates that are held leave room for other requests
	w := newWorld(t, rows)
	// its first run is overdue
	w.edit("payersync.yaml", "mapping: mapping.yaml}", `mapping: mapping.yaml, schedule: "@yearly"}`)
	release := w.holdCreatesAfter(4)
	serve := w.serve()
	waits := func() bool { return w.withCustomer() == 4 }
	eventually(t, "the run to wait for its fifth customer", waits)

	if refused := w.expect(exitHeld, "sync"); !strings.Contains(refused.errOut, "holds the connection acme") {
		t.Errorf("a sync beside the run says %s", refused.errOut)
	}
	for i, c := range w.box.Customers() {
		if status, _ := post(t, w.delivery(event(fmt.Sprint("ev-", i), c.ID))); status != http.StatusOK {
			t.Errorf("a webhook during the run was answered %d", status)
		}
	}
	w.reflected(4)
	if !waits() {
		t.Fatal("the run did not wait: nothing happened beside it")
	}
	release()
	eventually(t, "the end of the run", func() bool { return strings.Contains(serve.errOut.String(), "run ended") })

	w.expectNothingLeftToSend()
	rows = people(20)
	w.export(rows...)
	w.expect(exitDone, "sync")
	serve.stop()
	w.expectOnePerRow(rows)
	w.expectIdenticalCreates()
	w.expectOneMandateEach()
	w.expectLinked(rows)
	w.expectWholeLedger()
}

// holdCreatesAfter lets n creates through and holds the others back until the
// returned function is called.
func (w *world) holdCreatesAfter(n int64) (release func()) {
	var seen atomic.Int64
	free, release := gate(w.t)
	front := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && r.URL.Path == "/api/customers" && seen.Add(1) > n {
			<-free
		}
		return false
	}
	w.front.Store(&front)
	return release
}

// withCustomer counts the payers of which the ledger knows the customer.
func (w *world) withCustomer() (n int) {
	w.t.Helper()
	for _, p := range decodeLines[state.PayerRow](w.t, w.expect(exitDone, "payers", "list", "--output", "json")) {
		if show.Value(p.BillingID) != "" {
			n++
		}
	}
	return n
}
