package reconcile_test

import (
	"fmt"
	"testing"

	"payersync/connector"
	"payersync/state"
)

// covers F77
func TestAnAccountIsKnownByItsCustomers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*world)
		want   string
		proves bool
	}{
		"all are there": {func(*world) {}, "customer c… is there under its id with our key", true},
		"one is left": {func(w *world) {
			for i := 1; i < 25; i++ {
				delete(w.billing.customers, fmt.Sprintf("c%02d", i))
			}
		}, "customer c… is there under its id with our key", true},
		"none is there": {func(w *world) { clear(w.billing.customers) },
			"none of the 20 linked customers that were looked for is there under its id with our key", false},
		"one has another key": {func(w *world) { w.billing.put("c24", "somebody", "", "") },
			"customer c… is there under its id with our key, and customer c… with another", false},
		"one has the number that a person gave it": {func(w *world) {
			p, err := w.ledger.Payer(t.Context(), "acme", "r24")
			if err != nil {
				t.Fatal(err)
			}
			w.do(func(tx *state.Tx) error { return tx.MoveKey(p, connector.Key{Name: "no", Value: "new"}) })
			w.billing.put("c24", "new", "", "")
		}, "customer c… is there under its id with our key", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for i := range 25 {
				w.link(fmt.Sprintf("r%02d", i), fmt.Sprintf("c%02d", i))
			}
			tt.change(w)
			got, err := w.rec.Evidence(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []*string{&got.Customer, &got.Stranger} {
				if *id != "" {
					*id = "c…"
				}
			}
			if got.String() != tt.want || got.Proves() != tt.proves {
				t.Errorf("it says %q, and proves it: %t", got, got.Proves())
			}
		})
	}
	nobody, err := newWorld(t).rec.Evidence(t.Context())
	if err != nil || nobody.Proves() || nobody.String() != "no customer is linked yet by which it could be told" {
		t.Errorf("without a customer it says %q, %v", nobody, err)
	}
}
