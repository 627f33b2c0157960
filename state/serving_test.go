package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAWrongConfigurationIsKnownSinceItsFirstMistake(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	start := d.clock.now()
	for i, step := range []struct {
		problem string
		restart []string
		want    Serving
	}{
		{"", nil, Serving{Restart: []string{}}},
		{"a", nil, Serving{Problem: "a", Since: start.Add(time.Minute), Restart: []string{}}},
		{"b", []string{"server.webhooks"},
			Serving{Problem: "b", Since: start.Add(time.Minute), Restart: []string{"server.webhooks"}}},
		{"", []string{"ledger.path", "server.webhooks"}, Serving{Restart: []string{"ledger.path", "server.webhooks"}}},
		{"a", nil, Serving{Problem: "a", Since: start.Add(4 * time.Minute), Restart: []string{}}},
	} {
		d.do(func(tx *Tx) error { return tx.SetServing(step.problem, step.restart) })
		d.clock.move(time.Minute)
		got, err := d.Serving(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}
