package reconcile_test

import (
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/state"
)

// An answer without a status takes none away, one that was overtaken brings none back, and the
// answer to a create may be from memory.
//
// covers F177
func TestAFinancialStatusIsThatOfTheNewestLookThatShowedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("1", "b1")
	for _, s := range []struct {
		status string
		cause  connector.Cause
		ticket int64
		want   string
	}{
		{"OVERDUE", connector.CauseWebhook, 100, "OVERDUE"},
		{"", connector.CauseSweep, 101, "OVERDUE"},
		{"FULLY_PAID", connector.CauseWebhook, 99, "OVERDUE"},
		{"NO_INVOICES", connector.CauseCreate, 102, "OVERDUE"},
		{"FULLY_PAID", connector.CauseSweep, 103, "FULLY_PAID"},
	} {
		w.now = w.now.Add(time.Minute)
		c := connector.RemoteCustomer{ID: "b1", Name: "Payer b1", ExternalData: map[string]string{"no": "1"},
			Financial: s.status}
		w.do(func(tx *state.Tx) error {
			seen, err := reconcile.Observe(tx, reconcile.OfCustomer(c, s.ticket, s.cause, "1"))
			if seen.Drifted || seen.Moved {
				t.Errorf("%+v counts as a change of the customer", s)
			}
			return err
		})
		if got, err := w.ledger.Financial(t.Context(), "b1"); err != nil || got.Status != s.want {
			t.Errorf("after %+v: %+v, %v", s, got, err)
		}
	}
}
