package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAJobShowsWhenItBeganAndEndedAndWhenItLastEndedWell(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	start := d.clock.now()
	note := func(f func(tx *Tx) error) {
		t.Helper()
		d.do(f)
		d.clock.move(time.Minute)
	}
	begin := func(tx *Tx) error { return tx.BeginJob("sweep") }
	shows := func(want ...JobRow) {
		t.Helper()
		got, err := d.Jobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("jobs (-want +got):\n%s", diff)
		}
	}
	at := func(minutes time.Duration) time.Time { return start.Add(minutes * time.Minute) }

	note(begin)
	shows(JobRow{Name: "sweep", BegunAt: at(0)})
	note(func(tx *Tx) error { return tx.EndJob("sweep", JobEnd{Outcome: "done"}) })
	shows(JobRow{Name: "sweep", BegunAt: at(0), EndedAt: at(1), DoneAt: at(1), Outcome: "done"})
	note(begin)
	note(func(tx *Tx) error {
		return tx.EndJob("sweep", JobEnd{Outcome: "parked", Until: at(20), Problem: "the service asks for a pause"})
	})
	shows(JobRow{Name: "sweep", BegunAt: at(2), EndedAt: at(3), DoneAt: at(1), Outcome: "parked", ParkedUntil: at(20),
		Problem: "the service asks for a pause"})
	note(begin)
	shows(JobRow{Name: "sweep", BegunAt: at(4), EndedAt: at(3), DoneAt: at(1), Outcome: "parked",
		Problem: "the service asks for a pause"})
}
