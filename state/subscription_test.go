package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// covers F113
func TestWhatIsTheMatterWithTheSubscriptionIsKeptWithTheTimeItWasFound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	save := func(f SubscriptionFacts, wantNews bool) {
		t.Helper()
		d.do(func(tx *Tx) error {
			if news, err := tx.SaveSubscription(f); news != wantNews || err != nil {
				t.Errorf("saving %+v: news %t, %v", f, news, err)
			}
			return nil
		})
	}
	ours := Subscription{ID: "w1", URL: "https://hooks.example.com/in", Events: []string{"customer"}, Enabled: true}
	save(SubscriptionFacts{Expected: &ours}, false)
	found := d.Now()
	f := SubscriptionFacts{Expected: &ours, Shown: []Subscription{}, ShownAt: found, Problem: SubscriptionDeleted,
		Detail: "It is gone."}
	save(f, true)
	d.clock.move(time.Hour)
	f.ShownAt = d.Now()
	save(f, false)
	f.Since = found
	got, err := d.Subscription(t.Context())
	if diff := cmp.Diff(f, got); diff != "" || err != nil {
		t.Errorf("the subscription (-want +got), %v:\n%s", err, diff)
	}
	rows, err := d.Attention(t.Context(), Filter{State: string(connector.ReasonSubscriptionChanged)})
	want := []AttentionRow{{SourceID: "webhooks", Reason: "subscription_changed", Detail: "It is gone.",
		Since: stamp(found).(string)}}
	if diff := cmp.Diff(want, rows); diff != "" || err != nil {
		t.Errorf("attention (-want +got), %v:\n%s", err, diff)
	}
	save(SubscriptionFacts{Expected: &ours}, true)
	if got, err := d.Subscription(t.Context()); err != nil || got.Problem != "" || !got.Since.IsZero() ||
		!got.ShownAt.IsZero() {
		t.Errorf("once it is right again the ledger has %+v, %v", got, err)
	}
}
