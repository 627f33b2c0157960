package state

import (
	"errors"
	"testing"
	"time"

	"payersync/connector"
	"payersync/state/internal/dbtest"
)

// nodesOf returns ledgers of one account on nodes of their own, whose clocks are so far wrong, and what sets the clock
// of their database.
func nodesOf(t *testing.T, wrong ...time.Duration) (nodes []*desk, set func(off time.Duration)) {
	t.Helper()
	if !dbtest.OnPostgres() {
		t.Skip("on PostgreSQL only: run with -engine postgres")
	}
	opts := newOptions(t, newClock())
	opts.Account = "acme"
	setClock, err := dbtest.Clock(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	dsn, err := dbtest.DSN(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range wrong {
		opts := opts
		opts.Now = func() time.Time { return time.Now().Add(by) }
		if opts.Server, err = OpenServer(t.Context(),
			ServerOptions{Address: dsn, Connections: 4, KeyEncryptionKey: kekOf(1)}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(opts.Server.Close)
		if _, err := opts.Server.ensure(t.Context(), opts.Account); err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		nodes = append(nodes, &desk{Ledger: l, t: t, opts: opts})
	}
	return nodes, func(off time.Duration) {
		t.Helper()
		if err := setClock(off); err != nil {
			t.Fatal(err)
		}
	}
}

// beginsRun tries to open a run of acme.
func (d *desk) beginsRun() error {
	return d.Do(d.t.Context(), func(tx *Tx) error {
		_, err := tx.OpenRun(NewRun{Connection: acme, Kind: connector.RunSync, Trigger: "manual", Mapping: mapping,
			Holder: "test"})
		return err
	})
}

// What one node decides by the time, another with another clock decides alike.
//
// covers F198
func TestNodesOfDifferentClocksDecideAlike(t *testing.T) {
	t.Parallel()
	nodes, _ := nodesOf(t, 10*time.Minute, -10*time.Minute)
	const gap = 2 * time.Second
	for i, d := range nodes {
		other := nodes[1-i]
		apart := func(what string, at time.Time) {
			t.Helper()
			if off := time.Since(at).Abs(); off > time.Minute {
				t.Errorf("%s of node %d is off by %s", what, i, off)
			}
		}
		apart("the time", d.Now())
		d.do(func(tx *Tx) error { apart("the time of a write", tx.Now()); return nil })
		for name, c := range map[string]struct {
			wait time.Duration
			due  int
		}{"over": {-time.Second, 1}, "to come": {time.Minute, 0}} {
			d.receive(delivery(name, "b1"))
			open := d.waiting()[0]
			d.do(func(tx *Tx) error { return tx.PostponeDeliveries(open, connector.InboxReceived, c.wait) })
			due, err := d.opts.Server.DueAccounts(t.Context(), gap)
			if err != nil || len(due) != c.due || len(d.waiting()) != c.due || len(other.waiting()) != c.due {
				t.Errorf("a delivery whose time is %s: due are %v for the queue, %v here and %v elsewhere, %v", name, due,
					d.waiting(), other.waiting(), err)
			}
			d.do(func(tx *Tx) error { return tx.exec("DELETE FROM inbox") })
		}
		for name, c := range map[string]struct {
			wait  time.Duration
			parks bool
		}{"over": {-time.Second, false}, "to come": {time.Minute, true}} {
			if err := d.ParkScope(t.Context(), name, d.Now().Add(c.wait)); err != nil {
				t.Fatal(err)
			}
			for _, d := range nodes {
				left, err := d.BudgetLeft(t.Context(), name, connector.Limits{})
				if err != nil || left.ParkedUntil.IsZero() == c.parks {
					t.Errorf("a wait that is %s: %+v, %v", name, left, err)
				}
			}
			d.do(func(tx *Tx) error { return tx.exec("DELETE FROM budgets") })
		}
		run := d.run(acme)
		var held *ErrRunOpen
		if err := other.beginsRun(); !errors.As(err, &held) {
			t.Errorf("a run that another node has at work: %v", err)
		}
		if open, err := other.OpenRun(t.Context(), acme); open != run || err != nil {
			t.Errorf("another node sees run %d at work, %v, want %d", open, err, run)
		}
		d.closeRun(run, connector.RunComplete)
	}
}

// Nothing is lost, no ticket comes again, and a lease lasts for as much longer as the clock went back, and no more.
//
// covers F198
func TestTheClockOfTheDatabaseGoesBack(t *testing.T) {
	t.Parallel()
	nodes, set := nodesOf(t, 0, 0)
	d, other := nodes[0], nodes[1]
	ticket := func(d *desk) (n int64) {
		d.do(func(tx *Tx) (err error) { n, err = tx.Ticket(); return err })
		return n
	}
	d.receive(delivery("before", "b1"))
	last, ran := ticket(d), d.run(acme)
	const back = 5 * time.Second
	set(-back)
	for range 3 {
		for _, d := range nodes {
			next := ticket(d)
			if next <= last {
				t.Errorf("ticket %d came after %d", next, last)
			}
			last = next
			if behind := time.Since(d.Now()); behind < back-time.Second {
				t.Errorf("a node is only %s behind the clock that was right", behind)
			}
		}
	}
	d.receive(delivery("after", "b2"))
	if due := other.waiting(); len(due) != 2 {
		t.Errorf("due are %+v, want both deliveries", due)
	}
	if held, err := other.OpenRun(t.Context(), acme); held != ran || err != nil {
		t.Errorf("run %d is at work, %v, want %d", held, err, ran)
	}
	until, err := time.Parse(layout,
		one[string](t, other.Ledger, "SELECT lease_until FROM runs WHERE finished_at IS NULL"))
	if err != nil || time.Until(until) > Lease {
		t.Errorf("the lease is until %s, %v", until, err)
	}
	var open *ErrRunOpen
	set(time.Until(until) - 10*time.Second)
	if err := other.beginsRun(); !errors.As(err, &open) {
		t.Errorf("before its lease is over: %v", err)
	}
	set(time.Until(until))
	if err := other.beginsRun(); err != nil {
		t.Errorf("when its lease is over: %v", err)
	}
}
