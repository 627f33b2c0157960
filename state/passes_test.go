package state

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"payersync/connector"
)

// covers F49, F97
func TestAPassLacksWhatWasKnownBeforeAndIsNotKnownToBeGone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "linked")
	d.list("by hand", "gone", "linked", "stays")
	d.do(func(tx *Tx) error {
		_, err := tx.ForgetRemote("gone", 90)
		return err
	})
	pass := d.list("stays")
	got, err := d.Lacking(t.Context(), pass)
	want := []Lacking{{"linked", true}, {"by hand", false}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("lacking, %v (-want +got):\n%s", err, diff)
	}
}

// covers F97, S17
// Two passes overlap, and the one that began first misses a customer listed by the other.
func TestAPassLacksWhatOnlyALaterOneBesideItListed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.list("b1", "b2")
	short := d.startList("b1")
	d.list("b1", "b2")
	d.finish(short)
	lacking, err := d.Lacking(t.Context(), short)
	if diff := cmp.Diff([]Lacking{{"b2", false}}, lacking); diff != "" || err != nil {
		t.Errorf("lacking, %v (-want +got):\n%s", err, diff)
	}
}

// covers F98
func TestAListThatShowsNoExternalDataTakesNoKeyAway(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "linked")
	d.list("linked", "by hand")
	started := d.Now()
	d.clock.move(time.Minute)
	pass := d.beginPass()
	for _, id := range []string{"linked", "by hand", "new"} {
		d.saveListed(connector.RemoteCustomer{ID: id, Name: "as before"}, pass)
	}
	d.finish(pass)
	for _, id := range []string{"linked", "by hand"} {
		if got := d.holders(key(id)); !slices.Equal(got, []string{id}) {
			t.Errorf("the key of %s is held by %v", id, got)
		}
	}
	d.clock.move(time.Minute)
	d.saveRemote(connector.RemoteCustomer{ID: "by hand"}, pass.Ticket+1)
	if got := d.holders(key("by hand")); len(got) != 0 {
		t.Errorf("a read of the customer itself leaves its key with %v", got)
	}
	d.clock.move(time.Minute)
	pass = d.beginPass() // once more, as it is known by now
	for _, id := range []string{"linked", "by hand", "new"} {
		d.saveListed(connector.RemoteCustomer{ID: id, Name: "as before"}, pass)
	}
	d.finish(pass)
	got, err := d.Unshown(t.Context(), pass, started)
	want := []Unshown{{BillingID: "linked", Doubtful: true, Unread: true}, {BillingID: "new", Unread: true},
		{BillingID: "by hand"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Unshown{})); diff != "" || err != nil {
		t.Errorf("listed without externalData, %v (-want +got):\n%s", err, diff)
	}
}

// covers F97, F98, S17
func TestAPassThatLeavesSomethingInDoubtProvesNothing(t *testing.T) {
	t.Parallel()
	for name, judge := range map[string]func(tx *Tx, pass int64) error{
		"not examined":               func(*Tx, int64) error { return nil },
		"lacks a customer":           func(tx *Tx, pass int64) error { return tx.JudgePass(pass, 1, 0) },
		"shows one without its keys": func(tx *Tx, pass int64) error { return tx.JudgePass(pass, 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			for range 2 {
				pass := d.startList("b1")
				d.do(func(tx *Tx) error { return errors.Join(tx.FinishPass(pass), judge(tx, pass.Pass)) })
			}
			if x := d.index(0); !x.Believed.IsZero() || x.Customers != 0 {
				t.Errorf("the index is %+v, want nothing believed", x)
			}
		})
	}
}

// covers F36, F104
func TestTimesInTheFutureCountAsNotedJustNow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.list("b1")
	d.list("b1")
	note := func() (found bool) {
		d.do(func(tx *Tx) (err error) {
			found, err = tx.NoteClock()
			return err
		})
		return found
	}
	d.clock.move(-30 * time.Second)
	if x := d.index(0); note() || x.Believed.IsZero() {
		t.Errorf("half a minute is taken for a clock that was ahead: %+v", x)
	}
	d.clock.move(-time.Hour)
	if !note() {
		t.Error("passes of an hour ahead are not noticed")
	}
	if x := d.index(15 * time.Minute); !x.Believed.IsZero() || !x.ClockBack.Equal(d.Now()) ||
		!x.Doubted().Equal(x.ClockBack) {
		t.Errorf("the index is %+v, want nothing believed", x)
	}
	if note() {
		t.Error("it is noticed a second time")
	}
}

// covers S4, S17, F46
func TestTheIndexIsSettledByTwoEqualCompletePasses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		passes  func(d *desk)
		settled int // minutes after the first instant; 0 for not settled
	}{
		{"no pass", func(*desk) {}, 0},
		{"one pass", func(d *desk) { d.list("b1") }, 0},
		{"two equal", func(d *desk) { d.list("b1", "b2"); d.list("b2", "b1") }, 1},
		{"two empty", func(d *desk) { d.list(); d.list() }, 1},
		{"one more", func(d *desk) { d.list("b1"); d.list("b1", "b2") }, 0},
		{"one less", func(d *desk) { d.list("b1", "b2"); d.list("b1") }, 0},
		{"same number, other customer", func(d *desk) { d.list("b1"); d.list("b2") }, 0},
		{"an unfinished one is not the second", func(d *desk) { d.list("b1"); d.startList("b1") }, 0},
		{"an unfinished one between does not part them", func(d *desk) { d.list("b1"); d.startList(); d.list("b1") }, 1},
		{"equal, but not consecutive", func(d *desk) { d.list("b1"); d.list("b1", "b2"); d.list("b1") }, 0},
		{"the newest pair counts", func(d *desk) { d.list("b1"); d.list("b1"); d.list("b1", "b2"); d.list("b1", "b2") }, 3},
		{"ids that run together", func(d *desk) { d.list("1", "23"); d.list("12", "3") }, 0},
		{"overlapping, equal", func(d *desk) {
			first := d.startList("b1", "b2")
			second := d.startList("b1", "b2")
			d.clock.move(time.Second)
			d.finish(first)
			d.finish(second)
		}, 0},
		{"overlapping, different", func(d *desk) {
			first := d.startList("b1")
			second := d.startList("b1", "b2")
			d.clock.move(time.Second)
			d.finish(first)
			d.finish(second)
		}, 0},
		{"ended the other way round, different", func(d *desk) {
			first := d.startList("b1")
			second := d.startList("b1", "b2")
			d.finish(second)
			d.finish(first)
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			first := d.Now()
			tt.passes(d)
			want := time.Time{}
			if tt.settled > 0 {
				want = first.Add(time.Duration(tt.settled) * time.Minute)
			}
			if got := d.index(0).Believed; !got.Equal(want) {
				t.Errorf("settled at %v, want %v", got, want)
			}
		})
	}
}

// covers F36, F64
func TestPassesOfAClockThatWasAheadDoNotCountAfterARestore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.list("b1")
	d.list("b1")
	d.clock.move(-time.Hour)
	d.do((*Tx).MarkRestored)
	if x := d.index(15 * time.Minute); !x.Believed.IsZero() || x.Customers != 0 {
		t.Errorf("after the restore the index is %+v, want nothing believed", x)
	}
}

// covers F64
func TestPassesBeforeARestoreAndItsQuarantineDoNotCount(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const quarantine = 15 * time.Minute
	d.list("b1")
	d.list("b1")
	if x := d.index(quarantine); x.Believed.IsZero() || x.Customers != 1 || !x.Restored.IsZero() {
		t.Fatalf("before the restore the index is %+v, want it settled", x)
	}
	d.clock.move(time.Minute)
	restored := d.Now()
	d.do((*Tx).MarkRestored)
	if x := d.index(quarantine); !x.Believed.IsZero() || x.Customers != 0 || !x.Restored.Equal(restored) {
		t.Errorf("after the restore the index is %+v, want nothing believed", x)
	}
	d.list("b1")
	d.list("b1")
	if x := d.index(quarantine); !x.Believed.IsZero() {
		t.Errorf("inside the quarantine the index is %+v", x)
	}
	d.clock.move(quarantine)
	d.list("b1")
	d.list("b1")
	if x := d.index(quarantine); x.Believed.Before(restored.Add(quarantine)) {
		t.Errorf("after the quarantine the index is %+v, want it settled again", x)
	}
}

// covers F43, F45, S17
func TestOnlyWhatIsGoneIsDroppedFromTheIndexAndOnlyAfterTwoAgreeingPasses(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "linked")
	there := func() (got []string) {
		for _, id := range []string{"gone", "linked", "not listed", "stays"} {
			var place bool
			if err := d.queryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM remote_customers WHERE billing_id = ?)",
				id).Scan(&place); err != nil {
				t.Fatal(err)
			}
			if place {
				got = append(got, id)
			}
		}
		return got
	}
	all := []string{"gone", "linked", "not listed", "stays"}
	d.list(all...)
	d.do(func(tx *Tx) error {
		_, err := tx.ForgetRemote("gone", 90)
		return err
	})
	steps := []struct {
		name string
		pass func() *Listing
		want []string
	}{
		{"the first pass without it", func() *Listing { return d.list("stays") }, all},
		{"an unfinished pass", func() *Listing { return d.startList("stays") }, all},
		{"a pass that disagrees", func() *Listing { return d.list("stays", "new") }, all},
		{"the first of two that agree", func() *Listing { return d.list("stays") }, all},
		{"the second of two that agree", func() *Listing { return d.list("stays") },
			[]string{"linked", "not listed", "stays"}},
	}
	for _, s := range steps {
		s.pass()
		if diff := cmp.Diff(s.want, there()); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", s.name, diff)
		}
	}
}

// A customer that was made while a pass was under way is news, not missing.
func TestACustomerMadeDuringAPassIsNotLacking(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.list("b0")
	pass := d.startList("b0")
	d.saveRemote(remote("b1", key("c1")), 99)
	d.finish(pass)
	if lacking, err := d.Lacking(t.Context(), pass); len(lacking) != 0 || err != nil {
		t.Errorf("lacking are %v, %v; want nobody", lacking, err)
	}
	if last, err := d.LastPass(t.Context()); err != nil || last.IsZero() {
		t.Errorf("the last pass is %v, %v", last, err)
	}
}
