package state

import (
	"errors"
	"testing"
	"time"

	"payersync/connector"
)

// covers F05, F99, S1, S2
func TestAKeyIsNotCreatedWhileAnotherCreateWithItMayStillArrive(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end   AttemptEnd
		waits time.Duration // before the index is read by which it goes
		want  error
	}{
		"no answer yet":                 {"", 0, ErrKeyUnderWay},
		"no answer, and its time":       {"", Arrival - time.Second, ErrKeyUnderWay},
		"no answer, but a later look":   {"", Arrival, nil},
		"answered":                      {AttemptAnswered, 0, nil},
		"refused":                       {AttemptRefused, 0, nil},
		"never left":                    {AttemptUnsent, 0, nil},
		"its time over, and looked for": {AttemptLooked, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			first := d.planCreate(run, acme, "c1")
			var left Attempt
			d.do(func(tx *Tx) (err error) {
				left, err = tx.FreezeCreate(run, first, []byte("{}"), 0)
				return err
			})
			if tt.end != "" {
				d.do(func(tx *Tx) error { return tx.EndAttempt(left, tt.end) })
			}
			d.do(func(tx *Tx) error { // closed all the same, as when its key was doubled
				return tx.CloseWith(run, first, connector.ChangeHeld, connector.ReasonKeyDoubled, "")
			})
			r := record("c2", "c2")
			d.save(run, acme, r)
			v := included(r, &NewChange{Action: connector.ActionCreate, Wanted: customer("c2", "c1")})
			v.Key = key("c1")
			d.decide(run, acme, v)
			second := d.open(acme, "c2", LaneCustomer)
			d.clock.move(tt.waits)
			since, err := d.Ticket(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			err = d.Do(t.Context(), func(tx *Tx) error {
				_, err := tx.FreezeCreate(run, second, []byte("{}"), since)
				return err
			})
			if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
				t.Errorf("the second create: %v, want %v", err, tt.want)
			}
		})
	}
}

func TestAnAttemptEndsOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c := d.planLink(run, "c1", "b1")
	d.do(func(tx *Tx) error {
		a, err := tx.Attempt(run, c)
		return errors.Join(err, tx.EndAttempt(a, AttemptAnswered), tx.EndAttempt(a, AttemptUnsent))
	})
	if got := one[string](t, d.Ledger, "SELECT ended FROM attempts"); got != string(AttemptAnswered) {
		t.Errorf("the attempt ended %q, want answered", got)
	}
}

// Dropping an attempted change that never left keeps its attempt.
func TestWhatWasAttemptedIsDroppedWithoutItsAttempt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c := d.planLink(run, "c1", "b1")
	d.do(func(tx *Tx) error {
		a, err := tx.Attempt(run, c)
		return errors.Join(err, tx.Unsent(c, a), tx.dropPlanned(acme, "c1", LaneCustomer, LaneMandate))
	})
	if got := one[string](t, d.Ledger,
		"SELECT c.state || ' ' || a.ended FROM changes c JOIN attempts a ON a.change_id = c.change_id"); got != "void unsent" {
		t.Errorf("the change and its attempt are %q, want void unsent", got)
	}
}

// covers F05, S6
func TestAnUpdateThatMayTakeEffectAfterALaterOneHasNotEnded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ends [2]AttemptEnd // of the older and the newer update
		late bool          // the older one ends when the newer one has left
		want bool
	}{
		"both answered in their order":            {[2]AttemptEnd{AttemptAnswered, AttemptAnswered}, false, false},
		"the older never answered":                {[2]AttemptEnd{"", AttemptAnswered}, false, true},
		"the older answered after the newer left": {[2]AttemptEnd{AttemptAnswered, AttemptAnswered}, true, true},
		"the older never left":                    {[2]AttemptEnd{AttemptUnsent, AttemptAnswered}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			c := d.planLinked(run, "c1", "b1", connector.ActionUpdate)
			freeze := func() (a Attempt) {
				d.do(func(tx *Tx) (err error) {
					a, err = tx.FreezeUpdate(run, c, []byte("{}"), []byte("{}"))
					return err
				})
				return a
			}
			end := func(a Attempt, how AttemptEnd) {
				if how != "" {
					d.do(func(tx *Tx) error { return tx.EndAttempt(a, how) })
				}
			}
			older := freeze()
			if !tt.late {
				end(older, tt.ends[0])
			}
			newer := freeze()
			if tt.late {
				end(older, tt.ends[0])
			}
			end(newer, tt.ends[1])
			d.do(func(tx *Tx) error {
				known, err := tx.Known(Observation{CustomerID: "b1"})
				if err != nil {
					return err
				}
				if got := len(known[0].Sent) > 0; got != tt.want {
					t.Errorf("an update is under way: %t, want %t", got, tt.want)
				}
				return nil
			})
		})
	}
}

func TestRequestsUnderWayAreSearchedAmongThoseWithoutAnEnd(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's query plan")
	d := newDesk(t)
	steps := d.queryPlan("SELECT 1 FROM attempts WHERE "+hasArrived, stamp(d.Now()))
	if len(steps) != 1 || steps[0] != "SEARCH attempts USING INDEX attempts_open (over=?)" {
		t.Errorf("SQLite reads them so: %q", steps)
	}
}
