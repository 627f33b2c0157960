package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/state"
)

// reading is what one GET of a customer finds: a customer of which the mandate,
// the key and the name move on in the service, or nothing at all.
type reading struct {
	gone    bool
	name    string
	key     string // "ours", "other" or "" for none
	mandate string // "" for none yet
	status  connector.MandateStatus
}

// drawReadings draws what successive reads of one customer find. Mandates only
// move on, as they do in the service; keys and names are edited to and fro.
func drawReadings(t *rapid.T) []reading {
	mandates := []reading{
		{}, {mandate: "m1", status: connector.MandateCreated}, {mandate: "m1", status: connector.MandatePending},
		{mandate: "m1", status: "PAUSED"},
		{mandate: "m1", status: connector.MandateActive}, {mandate: "m1", status: connector.MandateCancelled},
		{mandate: "m2", status: connector.MandateCreated}, {mandate: "m2", status: connector.MandateActive},
	}
	at := 0
	out := make([]reading, rapid.IntRange(1, 6).Draw(t, "reads"))
	for i := range out {
		at = rapid.IntRange(at, len(mandates)-1).Draw(t, "mandate")
		out[i] = mandates[at]
		out[i].name = rapid.SampledFrom([]string{"Northwind", "Southwind"}).Draw(t, "name")
		out[i].key = rapid.SampledFrom([]string{"ours", "ours", "other", ""}).Draw(t, "key")
	}
	out[len(out)-1].gone = rapid.IntRange(0, 4).Draw(t, "gone") == 0
	return out
}

// Reads that were made one after the other may be written in any order and more
// than once: the ledger then says of the customer what it says when they are
// written in the order they were made.
//
// covers F31, F32, F36, S8, S9
func TestAnyOrderAndRepetitionOfReadsEndsInTheSameLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tries := 0
	rapid.Check(t, func(rt *rapid.T) {
		tries++
		readings := drawReadings(rt)
		inOrder, shuffled := fmt.Sprint("a", tries), fmt.Sprint("b", tries)
		order := make([]int, len(readings))
		for i := range order {
			order[i] = i
		}
		again := rapid.SliceOfN(rapid.SampledFrom(order), 0, 4).Draw(rt, "again")
		want := w.observeAll(inOrder, readings, order)
		got := w.observeAll(shuffled, readings, rapid.Permutation(append(again, order...)).Draw(rt, "order"))
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Errorf("what is known of the customer (-in order +shuffled):\n%s", diff)
		}
	})
	if err := w.ledger.Integrity(t.Context()); err != nil {
		t.Error(err)
	}
}

// known is what the ledger says of a payer and its customer.
type known struct {
	LinkState, Mandate, Status string
	Attention                  []string
	Carries                    bool // the index of customers has ours with our key
}

// observeAll links a new payer, takes a ticket for each read, writes the reads in
// the given order and returns what the ledger says then.
func (w *world) observeAll(id string, readings []reading, order []int) known {
	w.t.Helper()
	w.link(id, "c-"+id)
	tickets := make([]int64, len(readings))
	for i := range readings {
		w.do(func(tx *state.Tx) (err error) { tickets[i], err = tx.Ticket(); return err })
	}
	for _, i := range order {
		w.do(func(tx *state.Tx) error { return w.write(tx, id, readings[i], tickets[i]) })
	}
	out := w.known(id)
	if readings[len(readings)-1].gone { // a read from before, written afterwards, tells nothing of the mandate either
		out.Mandate, out.Status, out.Attention = "", "", nil
	}
	return out
}

func (w *world) write(tx *state.Tx, id string, r reading, ticket int64) error {
	if r.gone {
		p, err := tx.PayerByBillingID("c-" + id)
		if err != nil {
			return err
		}
		return reconcile.Missing(tx, p, ticket)
	}
	c := connector.RemoteCustomer{ID: "c-" + id, Name: r.name, ExternalData: map[string]string{"theirs": "x"}}
	switch r.key {
	case "ours":
		c.ExternalData["no"] = id
	case "other":
		c.ExternalData["no"] = id + "-changed"
	}
	if r.mandate != "" {
		c.Mandate = &connector.Mandate{ID: r.mandate + "-" + id, Status: r.status}
	}
	_, err := reconcile.Observe(tx, reconcile.OfCustomer(c, ticket, connector.CauseWebhook, "delivery"))
	return err
}

func (w *world) known(id string) known {
	w.t.Helper()
	ctx := context.Background()
	p, err := w.ledger.Payer(ctx, "acme", id)
	if err != nil {
		w.t.Fatal(err)
	}
	out := known{LinkState: string(p.LinkState), Mandate: strings.TrimSuffix(p.MandateID, "-"+id)}
	rows, err := w.ledger.AttentionOf(ctx, "acme", id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		out.Attention = append(out.Attention, r.Reason)
	}
	holders, err := w.ledger.KeyHolders(ctx, p.Key)
	if err != nil {
		w.t.Fatal(err)
	}
	out.Carries = len(holders) > 0
	history, err := w.ledger.History(ctx, "c-"+id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range history {
		if h.MandateID == p.MandateID {
			out.Status = h.ToStatus
		}
	}
	return out
}
