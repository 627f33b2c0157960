package simulation

import (
	"context"
	"errors"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/state"
)

// covers F14, L7
// The contexts are made in the bubble: a test's own belongs to none.
func TestAPartialPartitionLetsTheHealthyPartProgress(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	for _, tt := range []struct {
		name  string
		story func(w *world)
		holds func(w *world) bool
	}{
		{"the billing service is down, and the source is still read", func(w *world) {
			w.outage = time.Now().Add(time.Hour)
			w.payers(2)
			w.syncs()
		}, func(w *world) bool {
			runs, err := w.procs[0].ledger.Runs(context.Background(), state.Filter{})
			w.do(err)
			return len(runs) == 1 && runs[0].Pulled == 2 && runs[0].Outcome == string(connector.RunIncomplete)
		}},
		{"the token endpoint is down, and webhooks are still accepted", func(w *world) {
			w.payers(1)
			w.syncs()
			signs(w)
			w.weather = weather{odds: map[fault]float64{faultRevoked: 1}}
			w.hooks()
		}, func(w *world) bool { return len(w.oracle.accepted) > 0 && w.service.Pending() == 0 }},
		{"no webhook comes, and payers are still made and swept", func(w *world) {
			w.payers(1)
			w.syncs()
			signs(w)
			for w.service.Pending() > 0 {
				w.do(w.onHook(sandbox.Queue.Drop))
			}
			w.sweeps()
		}, func(w *world) bool {
			rows, err := w.procs[0].ledger.Mandates(context.Background(), state.Filter{})
			w.do(err)
			return len(rows) == 1 && rows[0].Status == string(connector.MandatePending)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := play(t, calm(), tmpl, func(w *world) error {
				tt.story(w)
				if !tt.holds(w) {
					return errors.New("the healthy part stood still")
				}
				return w.heal()
			})
			if o.failed() {
				t.Error(o.report(60))
			}
		})
	}
}

// covers F59, L6
func TestWorkResumesWithoutARestartWhenTheDiskHasRoomAgain(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	o := play(t, calm(), tmpl, func(w *world) error {
		w.payers(2)
		w.full = true
		w.syncs()
		signs(w)
		w.hooks()
		w.full = false
		w.syncs()
		w.hooks()
		w.drains()
		if w.counts["restart after a crash"] > 0 {
			return errors.New("a process was started anew")
		}
		return w.heal()
	})
	if o.failed() || o.counts["commit on a full disk"] == 0 {
		t.Error(o.report(60))
	}
}

// covers F39, F59
func TestADeliveryIsRefusedWhileTheDiskIsFull(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	o := play(t, calm(), tmpl, func(w *world) error {
		w.payers(1)
		w.syncs()
		signs(w)
		w.full = true
		w.hooks()
		if len(w.oracle.accepted) > 0 {
			return errors.New("a webhook was acknowledged that cannot be stored")
		}
		w.full = false
		return w.heal()
	})
	if o.failed() {
		t.Error(o.report(60))
	}
}
