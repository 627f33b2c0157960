package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"payersync/state"
)

// A batch that came before the configuration named its list is split when it is replayed.
//
// covers F287
func TestAQuarantinedBatchIsSplitWhenItIsReplayed(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{"all": {"webhooks", "replay", "--quarantined"},
		"one": {"webhooks", "replay", "event:B1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, people(2))
			w.expect(exitDone, "sync")
			first, second := w.mandateOf("A00001"), w.mandateOf("A00002")
			serve := w.serve()
			w.must(w.box.Sign(first.ID))
			w.must(w.box.Sign(second.ID))
			batch := `{"type":"batch","eventId":"B1","batch":{"entries":[{"type":"dd-mandate","customerId":"` +
				first.CustomerID + `"},{"type":"dd-mandate","customerId":"` + second.CustomerID + `"},{"about":"x"}]}}`
			if status, _ := post(t, w.delivery([]byte(batch))); status != http.StatusOK {
				t.Fatalf("the batch was answered %d", status)
			}
			serve.stop()
			w.edit("payersync.yaml", "    signature: {", "    event_paths: {events: [batch.entries]}\n    signature: {")
			r := w.expect(exitDone, command...)
			if name == "all" && !strings.Contains(r.out, "1 delivery understood now") ||
				!strings.Contains(r.out, "2 customers read again") {
				t.Errorf("replaying says:\n%s", r.out)
			}
			for _, id := range []string{"A00001", "A00002"} {
				if got := w.mandateStatus(id); got != "PENDING" {
					t.Errorf("the mandate of %s is %s in the ledger, want PENDING", id, got)
				}
			}
			count := map[string]int{}
			for _, d := range w.inbox() {
				count[d.State]++
			}
			if want := map[string]int{"reflected": 2, "ignored": 1, "quarantined": 1}; fmt.Sprint(count) != fmt.Sprint(want) {
				t.Errorf("inbox = %v, want %v", count, want)
			}
		})
	}
}

// A delivery that names only a mandate reaches its customer, and one that was not
// understood can be seen, read anew with better paths, and given up.
//
// covers F38, F42
func TestQuarantinedDeliveriesCanBeSeenReplayedAndClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	first, second := w.mandateOf("A00001"), w.mandateOf("A00002")
	serve := w.serve()
	w.must(w.box.Sign(first.ID))
	w.must(w.box.Sign(second.ID))
	odd := `{"type":"dd-mandate","eventId":"odd","payload":{"debtor":"` + second.CustomerID + `","name":"Jane Doe"}}`
	for _, body := range []string{`{"type":"dd-mandate","eventId":"bare","mandateId":"` + first.ID + `"}`, odd,
		"not JSON, says Jane Doe"} {
		if status, _ := post(t, w.delivery([]byte(body))); status != http.StatusOK {
			t.Fatalf("%s was answered %d", body, status)
		}
	}
	w.reflected(1)
	serve.stop()
	if got := w.mandateStatus("A00001"); got != "PENDING" {
		t.Errorf("the mandate that a delivery named is %s in the ledger, want PENDING", got)
	}
	listed := decodeLines[state.InboxRow](t,
		w.expect(exitDone, "webhooks", "list", "--state", "quarantined", "--output", "json"))
	if n := w.needsPerson("event_not_understood"); len(listed) != 2 || n != 2 {
		t.Fatalf("quarantined are %+v, and status says %d; want two", listed, n)
	}

	shown := w.expect(exitDone, "webhooks", "show", "event:odd").out
	for _, want := range []string{"It names neither a customer nor a mandate.", "payload.debtor", "quarantined"} {
		if !strings.Contains(shown, want) {
			t.Errorf("show does not say %q:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "Jane") || strings.Contains(shown, second.CustomerID) {
		t.Errorf("show prints values:\n%s", shown)
	}
	if whole := w.expect(exitDone, "webhooks", "show", "event:odd", "--body").out; !strings.Contains(whole, odd) {
		t.Errorf("show --body prints:\n%s", whole)
	}
	if r := w.expect(exitDone, "webhooks", "list", "--shapes"); !strings.Contains(r.out, `customer_id: ["customerId", `) ||
		!strings.Contains(r.out, `"payload.debtor"]`) || strings.Contains(r.out, "Jane") {
		t.Errorf("shapes prints:\n%s", r.out)
	}
	if r := w.expect(exitFailed, "webhooks", "replay", "event:odd"); !strings.Contains(r.errOut,
		"name its members in billing.webhook.event_paths") {
		t.Errorf("replaying what is still not understood says: %s", r.errOut)
	}
	if r := w.expect(exitDone, "webhooks", "replay", "--quarantined"); !strings.Contains(r.out,
		"0 deliveries understood now, 2 not.") || !strings.Contains(r.out, "1: It names neither a customer nor a mandate.") {
		t.Errorf("replaying all that is still not understood says:\n%s", r.out)
	}
	w.edit("payersync.yaml", "    signature: {", "    event_paths: {customer_id: [payload.debtor]}\n    signature: {")
	if r := w.expect(exitDone, "webhooks", "replay", "--quarantined"); !strings.Contains(r.out,
		"1 delivery understood now, 1 not.") || !strings.Contains(r.out, "1 customer read again") {
		t.Errorf("replaying what is understood by now says:\n%s", r.out)
	}
	w.expect(exitDone, "webhooks", "replay", "event:odd")
	if got := w.mandateStatus("A00002"); got != "PENDING" {
		t.Errorf("the mandate of the replayed delivery is %s in the ledger, want PENDING", got)
	}

	garbage := w.onlyQuarantined()
	if r := w.expect(exitUsage, "webhooks", "close", garbage); !strings.Contains(r.errOut, "takes a reason") {
		t.Errorf("closing without a reason says: %s", r.errOut)
	}
	w.expect(exitDone, "webhooks", "close", garbage, "--reason", "a test of the provider")
	if left := w.needsPerson("event_not_understood"); left != 0 {
		t.Errorf("%d deliveries need a person after one was replayed and one closed", left)
	}
	if r := w.expect(exitDone, "webhooks", "close", garbage, "--reason", "again"); !strings.Contains(r.errOut,
		"was closed before") {
		t.Errorf("closing twice says: %s", r.errOut)
	}
	for _, text := range []string{"show delivery body", "replay delivery", "close delivery", "a test of the provider"} {
		if !w.audited(text) {
			t.Errorf("the audit log does not hold %q", text)
		}
	}
}

// needsPerson returns how many records need a person for a reason.
func (w *world) needsPerson(reason string) int {
	w.t.Helper()
	var status struct {
		Attention map[string]int `json:"attention"`
	}
	if err := json.Unmarshal([]byte(w.expect(exitDone, "status", "--output", "json").out), &status); err != nil {
		w.t.Fatal(err)
	}
	return status.Attention[reason]
}

// onlyQuarantined returns the key of the one delivery that is quarantined.
func (w *world) onlyQuarantined() string {
	w.t.Helper()
	rows := decodeLines[state.InboxRow](w.t,
		w.expect(exitDone, "webhooks", "list", "--state", "quarantined", "--output", "json"))
	if len(rows) != 1 {
		w.t.Fatalf("quarantined are %+v, want one", rows)
	}
	return rows[0].DeliveryKey
}
