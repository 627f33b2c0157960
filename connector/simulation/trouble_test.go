package simulation

import (
	"context"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
)

// beside adds a customer that others made for a record of ours to come.
func (w *world) beside(key string) {
	w.oracle.taint(key, "doubled")
	w.do(w.add(map[string]any{"name": "Payer " + key, "externalData": map[string]any{keyName: key}}))
}

// shows sets what readers are shown for a while.
func (w *world) shows(kind string, v sandbox.View, lasts time.Duration) {
	w.spells = append(w.spells, spell{kind: kind, view: v, lasts: lasts})
}

// dayLater is a black-box story: three payers are linked and three foreign customers are known, more than a
// day passes, readers see less than the truth, and records with the foreign customers' keys come.
func dayLater(kind string, v sandbox.View) func(*world) {
	return func(w *world) {
		w.payers(3)
		w.syncs()
		for _, key := range []string{"R4", "R5", "R6"} {
			w.beside(key)
		}
		w.sweeps()
		w.sweeps()
		w.do(w.wait(30 * time.Hour))
		w.shows(kind, v, 3*time.Hour)
		w.payers(3)
		for range 3 {
			w.syncs()
			w.sweeps()
			w.do(w.wait(30 * time.Minute))
		}
	}
}

// covers F97, F98, F103, F104, F105, S1, S17
func TestTroublesThatLastMakeNothingTwice(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	for _, tt := range []struct {
		name  string
		story func(*world)
	}{
		{"a list that is empty", dayLater(listEmpty, sandbox.View{Missing: 1})},
		{"a list that lacks some", dayLater(listShort, sandbox.View{Missing: 0.5})},
		{"a list that lacks pages", dayLater(pagesLost, sandbox.View{LostPages: 0.5})},
		{"a list without keys", dayLater(listKeyless, sandbox.View{NoKeys: true})},
		{"a list that is an hour behind", func(w *world) {
			w.payers(2)
			w.syncs()
			w.shows(listBehind, sandbox.View{ListLag: time.Hour}, 5*time.Hour)
			w.sweeps()
			signs(w)
			w.hooks()
			w.drains()
			w.sweeps()
			w.payers(1)
			w.syncs()
		}},
		{"a new customer that no read finds for seconds", func(w *world) {
			w.shows(readsBehind, sandbox.View{ListLag: 90 * time.Second, ReadLag: 90 * time.Second}, time.Hour)
			w.payers(3)
			w.syncs()
			w.do(w.wait(10 * time.Minute))
			w.syncs()
		}},
		{"a new customer that no read finds for an hour", func(w *world) {
			w.shows(readsBehind, sandbox.View{ListLag: time.Hour, ReadLag: time.Hour}, 5*time.Hour)
			w.payers(3)
			w.syncs()
			w.do(w.wait(10 * time.Minute))
			w.syncs()
			w.do(w.wait(2 * time.Hour))
			w.syncs()
		}},
		{"a customer that others make between two runs", func(w *world) {
			w.payers(1)
			w.syncs()
			w.payers(1)
			w.beside("R2")
			w.do(w.wait(time.Minute))
			w.syncs()
		}},
		{"a clock that is a month ahead while creates get no answer", func(w *world) {
			w.payers(1)
			w.syncs()
			w.payers(3)
			w.skew, w.jumped = 30*24*time.Hour, true
			for range 6 {
				w.once("create", faultLostRequest)
			}
			w.syncs()
			w.skew = 0
			w.do(w.wait(time.Hour))
			w.syncs()
		}},
		{"a ledger that is copied back", func(w *world) {
			w.payers(1)
			w.syncs()
			w.do(w.takeBackup())
			w.payers(2)
			w.syncs()
			w.do(w.wait(time.Minute))
			w.do(w.copyBack())
			w.syncs()
			w.do(w.wait(time.Hour))
			w.syncs()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := calm()
			p.strict, p.adopt, p.switches.List.MaxSize = true, syncer.AdoptExact, 2
			o := play(t, p, tmpl, func(w *world) error {
				tt.story(w)
				return w.heal()
			})
			if o.failed() {
				t.Error(o.report(40))
			}
		})
	}
}

// The sandbox's view is set by the requests that it is to begin with, and lifted
// when its time is over or everything heals.
func TestATroubleBeginsAndEnds(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	o := play(t, calm(), tmpl, func(w *world) error {
		w.payers(2)
		w.syncs()
		seen := func() int {
			res, err := w.procs[0].syncer.Reconciler.Pass(context.Background()) // a test's own belongs to no bubble
			w.do(err)
			return res.Customers
		}
		w.spells = append(w.spells, spell{kind: listEmpty, view: sandbox.View{Missing: 1}, after: 2, lasts: time.Hour})
		for i, want := range []int{2, 0, 0} {
			if got := seen(); got != want {
				t.Errorf("pass %d saw %d customers, want %d", i, got, want)
			}
		}
		w.do(w.wait(time.Hour))
		if got := seen(); got != 2 {
			t.Errorf("after its time the list shows %d customers", got)
		}
		w.do(w.addRecord())
		w.do(w.sync(w.procs[0], connector.RunSync))
		return nil
	})
	if o.err != nil || o.counts["trouble: list empty"] == 0 {
		t.Errorf("%v %v", o.err, o.counts)
	}
}

func TestKindsOfTroubleAreNamed(t *testing.T) {
	for kinds, want := range map[string]int{"none": 0, "": 0, "all": len(troubleKinds), listEmpty: 1, listEmpty + "," +
		positionAhead: 2} {
		if got := named(kinds); len(got) != want {
			t.Errorf("%q stands for %q", kinds, got)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a kind that nobody knows is taken")
		}
	}()
	named("rain")
}
