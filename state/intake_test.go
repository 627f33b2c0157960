package state

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"payersync/connector"
)

// coming are deliveries passed to a ledger with a blocked writer.
type coming struct {
	d     *desk
	taken []Taken
	errs  []error
	ended chan int
}

// hand hands deliveries over, one after the other, and returns when all of them wait.
func (d *desk) hand(ctx context.Context, all ...Delivery) *coming {
	d.t.Helper()
	c := &coming{d, make([]Taken, len(all)), make([]error, len(all)), make(chan int, len(all))}
	for i, v := range all {
		before := d.joined()
		go func() {
			c.taken[i], c.errs[i] = d.StoreDelivery(ctx, v)
			c.ended <- i
		}()
		for d.joined() == before {
			time.Sleep(50 * time.Microsecond) // the gathering is the only sign of it
		}
	}
	return c
}

// joined returns how many deliveries wait, modulo those that fill a write.
func (d *desk) joined() int {
	d.intake.mu.Lock()
	defer d.intake.mu.Unlock()
	if d.intake.open == nil {
		return 0
	}
	return len(d.intake.open.of)
}

// end waits until each is answered.
func (c *coming) end() {
	for range c.errs {
		<-c.ended
	}
}

func (d *desk) commits() int64 {
	d.t.Helper()
	n, err := d.Commits(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

func (d *desk) inboxed() int {
	d.t.Helper()
	return one[int](d.t, d.Ledger, "SELECT count(*) FROM inbox")
}

func TestDeliveriesThatComeTogetherShareACommit(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 15, 16, 17, 100, maxBatch} {
		d := newDesk(t)
		var all []Delivery
		for i := range n {
			all = append(all, delivery(fmt.Sprintf("evt-%d", i), "b1"))
		}
		before, release := d.commits(), d.hold()
		c := d.hand(t.Context(), all...)
		release()
		c.end()
		for i, err := range c.errs {
			if want := (Taken{Fresh: true}); err != nil || c.taken[i] != want {
				t.Errorf("delivery %d of %d: %+v, %v; want it fresh", i, n, c.taken[i], err)
			}
		}
		if commits := d.commits() - before; d.inboxed() != n || commits > 2 { // one is that of whoever held the writer
			t.Errorf("%d of %d deliveries are there after %d commits, want all of them after 2", d.inboxed(), n, commits)
		}
		open := d.waiting()
		if len(open) != 1 || open[0].Key != all[n-1].Key {
			t.Errorf("of %d deliveries the newest is %+v, want the last that came", n, open)
		}
	}
}

// covers F31
func TestOfDeliveriesThatComeTogetherAndAreAlikeOneIsFresh(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	closed := delivery("evt-1", "b1")
	d.receive(closed)
	d.do(func(tx *Tx) error { return tx.CloseDeliveries(d.waiting()[0], connector.InboxReflected, "") })
	release := d.hold()
	c := d.hand(t.Context(), delivery("evt-2", "b1"), closed, delivery("evt-2", "b1"), delivery("evt-3", "b1"),
		delivery("evt-2", "b1"))
	release()
	c.end()
	want := []Taken{{Fresh: true}, {Again: true}, {}, {Fresh: true}, {}}
	for i := range want {
		if c.errs[i] != nil || c.taken[i] != want[i] {
			t.Errorf("delivery %d: %+v, %v; want %+v", i, c.taken[i], c.errs[i], want[i])
		}
	}
	for key, repeats := range map[string]int{"evt-1": 1, "evt-2": 2, "evt-3": 0} {
		found, err := d.DeliveryNamed(t.Context(), key)
		if err != nil || found == nil || found.Repeats != repeats || found.State != string(connector.InboxReceived) {
			t.Errorf("%s: %+v, %v; want it to wait after %d repeats", key, found, err, repeats)
		}
	}
}

// More than one statement stores them, and the ones that are alike are in several.
//
// covers F31
func TestOfManyDeliveriesThatComeTogetherTheFirstOfEachKeyIsFresh(t *testing.T) {
	t.Parallel()
	const keys, all = 19, 60
	d := newDesk(t)
	var come []Delivery
	for i := range all {
		come = append(come, delivery(fmt.Sprintf("evt-%d", i%keys), "b1"))
	}
	release := d.hold()
	c := d.hand(t.Context(), come...)
	release()
	c.end()
	for i, err := range c.errs {
		if err != nil || c.taken[i].Fresh != (i < keys) {
			t.Errorf("delivery %d: %+v, %v", i, c.taken[i], err)
		}
	}
	if n := d.inboxed(); n != keys {
		t.Errorf("%d deliveries are there, want %d", n, keys)
	}
}

func TestOfDeliveriesThatComeTogetherOneThatCannotBeStoredTakesNoOtherAlong(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	nameless := delivery("", "b1")
	release := d.hold()
	c := d.hand(t.Context(), delivery("evt-1", "b1"), nameless, delivery("evt-2", "b1"))
	release()
	c.end()
	if c.errs[0] != nil || c.errs[1] == nil || c.errs[2] != nil || !c.taken[0].Fresh || !c.taken[2].Fresh {
		t.Errorf("got %+v, %v; want the second refused and the others fresh", c.taken, c.errs)
	}
	if n := d.inboxed(); n != 2 {
		t.Errorf("%d deliveries are there, want 2", n)
	}
}

func TestADeliveryWhoseSenderLeftIsNotStoredUnlessItIsUnderWay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	release := d.hold()
	c := d.hand(ctx, delivery("evt-1", "b1"), delivery("evt-2", "b1"))
	stays := d.hand(t.Context(), delivery("evt-3", "b1"))
	cancel(errRefused)
	c.end()
	for _, err := range c.errs {
		if !errors.Is(err, errRefused) {
			t.Errorf("got %v, want the cause of the context's end", err)
		}
	}
	release()
	stays.end()
	if stays.errs[0] != nil || d.inboxed() != 1 {
		t.Errorf("%d deliveries are there, %v; want that of the sender who stayed", d.inboxed(), stays.errs[0])
	}
	leaving, leave := context.WithCancel(t.Context())
	d.opts.Commit = func(done bool) error { leave(); return nil }
	if taken, err := d.another().StoreDelivery(leaving, delivery("evt-4", "b1")); err != nil || !taken.Fresh || d.inboxed() != 2 {
		t.Errorf("%+v, %v; want to learn that the delivery was stored", taken, err)
	}
}

// covers F39
func TestADeliveryIsNotTakenInByALedgerThatTakesNoWrite(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	full := errors.New("the disk is full")
	d.opts.Commit = func(done bool) error {
		if !done {
			return full
		}
		return nil
	}
	broken := d.another()
	if _, err := broken.StoreDelivery(t.Context(), delivery("evt-1", "b1")); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := broken.StoreDelivery(t.Context(), delivery("evt-1", "b1")); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want %v", err, ErrClosed)
	}
	if n := d.inboxed(); n != 0 {
		t.Errorf("%d deliveries are there", n)
	}
}
