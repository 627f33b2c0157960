package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payersync/connector"
	"payersync/connector/writeback"
	"payersync/state"
)

// toldBooks are another system that receives the mandates' states, and writes them into payersync's export.
type toldBooks struct {
	t    *testing.T
	mu   sync.Mutex
	ids  []string
	says map[string]connector.FieldStatus
}

func (b *toldBooks) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	verifier, err := standardwebhooks.NewWebhookRaw([]byte(webhookSecret))
	if err != nil {
		b.t.Error(err)
		return
	}
	if err := verifier.Verify(body, r.Header); err != nil {
		b.t.Errorf("the signature does not hold: %v", err)
	}
	var e writeback.HookBody
	if err := json.Unmarshal(body, &e); err != nil || e.Type != "mandate.status" || e.ID != r.Header.Get("webhook-id") ||
		strings.Contains(string(body), "Payer ") || strings.Contains(string(body), "@") {
		b.t.Errorf("the body is %s", body)
	}
	b.ids = append(b.ids, e.ID)
	b.says[e.SourceID] = e.To
}

// export writes the books' export, with what they were told in a column.
func (b *toldBooks) export(w *world, rows []row) {
	text := "AccountNumber,Name,Email,Phone,Street,Depot,Status\n"
	for _, r := range rows {
		text += strings.Join([]string{r.ID, r.Name, r.Email, r.Phone, r.Street, r.Depot, string(b.says[r.ID])}, ",") + "\n"
	}
	w.write("customers.csv", text)
}

// newToldWorld returns a world whose books have these rows, and are told how mandates stand.
func newToldWorld(t *testing.T, rows []row) (*world, *toldBooks) {
	t.Helper()
	w, b := newWorld(t, rows), &toldBooks{t: t, says: map[string]connector.FieldStatus{}}
	receiver := httptest.NewServer(b)
	t.Cleanup(receiver.Close)
	b.export(w, rows)
	w.edit("payersync.yaml", "mapping: mapping.yaml}",
		"mapping: mapping.yaml, writeback: {webhook: {url: "+receiver.URL+"/dd, secret: file:webhook.secret}, fields: [Status]}}")
	return w, b
}

// shownWritePlan is what writeback plan prints as JSON.
type shownWritePlan struct {
	writePlan
	Writes []writeRow `json:"writes"`
}

// A table has the first writes of a plan, and JSON has all of them, each once and as the plan has it.
func TestAPlanOfManyWritesIsShownWholeAsJSON(t *testing.T) {
	t.Parallel()
	rows := people(shownWrites + 3)
	w, _ := newToldWorld(t, rows)
	w.expect(exitDone, "sync", "--yes")
	plan := decode[shownWritePlan](t, w.expect(exitDone, "writeback", "plan", "--output", "json"))
	shown := map[string]bool{}
	for _, r := range plan.Writes {
		if shown[r.SourceID] = true; r.Doing != writeback.Waits {
			t.Errorf("%s: %s, and nobody has let it go", r.SourceID, r.Doing)
		}
	}
	if plan.Waiting != len(rows) || len(plan.Writes) != len(rows) || len(shown) != len(rows) {
		t.Errorf("%d wait, %d writes of %d payers are shown; want %d", plan.Waiting, len(plan.Writes), len(shown), len(rows))
	}
	table := w.expect(exitDone, "writeback", "plan")
	if n := strings.Count(table.out, " waits "); n != shownWrites ||
		!strings.Contains(table.out, "… and 3 more; --output json has all of them.") {
		t.Errorf("%d are shown in a table:\n%s", n, table.out)
	}
}

// A payer's mandate is asked for, signed and active; the books are told each, write it down, and
// show it with their next export; and nothing of that is ever sent to the billing service.
//
// covers F146
func TestStatusesGoBackIntoTheBooksAndNothingComesOfIt(t *testing.T) {
	t.Parallel()
	rows := people(6)
	w, b := newToldWorld(t, rows)
	w.expect(exitDone, "sync")

	plan := decode[shownWritePlan](t, w.expect(exitDone, "writeback", "plan", "--output", "json"))
	if plan.Waiting != 6 || plan.Batch == "" || len(plan.Writes) != 6 || plan.Writes[0].To != connector.FieldAsked {
		t.Fatalf("the first plan is %+v", plan)
	}
	w.expect(exitApproval, "writeback", "run")
	if len(b.ids) != 0 {
		t.Fatalf("before anybody approved, %d came", len(b.ids))
	}
	if r := w.run("writeback", "approve", "another"); r.code != exitFailed {
		t.Errorf("another batch was approved:\n%s", r.out)
	}
	w.expect(exitDone, "writeback", "approve", plan.Batch, "--reason", "looked at all")
	w.expect(exitDone, "writeback", "run")
	w.expect(exitDone, "writeback", "run")
	if len(b.ids) != 6 || b.says["A00003"] != connector.FieldAsked {
		t.Fatalf("%d came, the books say %v", len(b.ids), b.says)
	}
	writes := w.box.Writes()
	b.export(w, rows)
	counts := decode[struct{ Counts state.Counts }](t, w.expect(exitDone, "sync", "--output", "json")).Counts
	if counts.OwnEchoes != 6 || counts.Unchanged != 6 || w.box.Writes() != writes {
		t.Errorf("the sync behind it: %+v, and %d requests that write", counts, w.box.Writes()-writes)
	}
	status := decode[writeStatus](t, w.expect(exitDone, "writeback", "--output", "json"))
	if status.Echoes != 6 || status.Says["asked"] != 6 || len(status.Look) != 0 {
		t.Errorf("the status is %+v", status)
	}

	mandate := w.mandateOf("A00001").ID
	w.must(w.box.Sign(mandate))
	w.must(w.box.Approve(mandate))
	w.expect(exitDone, "sweep")
	if r := decode[writeback.Result](t, w.expect(exitDone, "writeback", "run", "--output", "json")); r.Later != 1 ||
		len(b.ids) != 6 {
		t.Errorf("a moment after the first write: %+v", r)
	}

	if jobs := decode[statusReport](t, w.expect(exitDone, "status", "--output", "json")).Jobs; !slices.ContainsFunc(jobs,
		func(j jobRow) bool { return j.Name == writebackJob }) {
		t.Errorf("serve does not write back: %+v", jobs)
	}

	w.edit("mapping.yaml", "mandate:\n", "include: Status != \"active\"\nmandate:\n")
	if r := w.run("mapping", "check"); r.code != exitUsage ||
		!strings.Contains(r.errOut+r.out, "Status is what payersync itself writes back") {
		t.Errorf("a mapping that reads the status ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
}

func TestWriteBackIsOffUnlessItIsConfigured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	for _, args := range [][]string{{"writeback", "plan"}, {"writeback", "run"}, {"writeback"}} {
		if r := w.expect(exitDone, args...); !strings.Contains(r.errOut, "No connection writes back") {
			t.Errorf("%v said:\n%s", args, r.errOut)
		}
	}
	for _, job := range decode[statusReport](t, w.expect(exitDone, "status", "--output", "json")).Jobs {
		if job.Name == writebackJob {
			t.Error("serve would write back")
		}
	}
	if r := w.run("writeback", "run", "--connection", "acme"); r.code != exitUsage ||
		!strings.Contains(r.errOut, "it has no key writeback") {
		t.Errorf("it ended with %d:\n%s", r.code, r.errOut)
	}
}
