package state

import (
	"errors"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
)

// freezeAll freezes creates as one group, each with a body of its own.
func (d *desk) freezeAll(run int64, changes ...Change) (out []Frozen) {
	d.t.Helper()
	group := connector.Map(changes,
		func(c Change) PlannedCreate { return PlannedCreate{c, []byte(`{"no":"` + c.Payer.SourceID + `"}`)} })
	d.do(func(tx *Tx) (err error) {
		out, err = tx.FreezeCreates(run, group, 0)
		return err
	})
	return out
}

func TestCreatesOfAGroupAreFrozenExceptThoseThatMayNotBeSent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	before := d.run(acme)
	older := d.planCreate(before, acme, "older")
	d.closeRun(before, connector.RunIncomplete)
	run := d.run(acme)
	group := []Change{d.planCreate(run, acme, "c1"), d.planCreate(run, acme, "found"), older,
		d.planCreate(run, acme, "twin"), d.planCreate(run, acme, "said"), d.planCreate(run, acme, "gone")}
	group[3].Payer.Key = group[0].Payer.Key
	d.do(func(tx *Tx) error {
		_, err := tx.SaveRemote(remote("b9", group[1].Payer.Key), 1)
		return errors.Join(err,
			tx.exec("INSERT INTO words (connection, source_id, billing_id, word, ticket, said_at) VALUES (?, 'said', 'b8', 'accept', 1, ?)", acme, stamp(tx.now)),
			tx.exec("UPDATE changes SET state = 'void' WHERE source_id = 'gone'"))
	})
	frozen := d.freezeAll(run, group...)
	for i, want := range []error{nil, ErrKeyFound, nil, ErrKeyTaken, ErrAccepted, ErrNotOpen} {
		id := group[i].Payer.SourceID
		if got := frozen[i].Err; !errors.Is(got, want) || want == nil && got != nil {
			t.Errorf("the create of %s: %v, want %v", id, got, want)
		}
		if want != nil {
			continue
		}
		c := d.open(acme, id, LaneCustomer)
		if string(c.Body) != `{"no":"`+id+`"}` || c.State != connector.ChangeFrozen || c.Attempts != 1 || c.Run != run ||
			c.Payer.LinkState != connector.LinkCreating {
			t.Errorf("the create of %s is %+v", id, c)
		}
		if a := frozen[i].Attempt; one[int64](t, d.Ledger,
			"SELECT ticket FROM attempts WHERE attempt_id = ? AND change_id = ?", a.ID, c.ID) != a.Ticket {
			t.Errorf("the create of %s has the attempt %+v", id, a)
		}
	}
	if frozen[2].Attempt.Ticket != frozen[0].Attempt.Ticket+1 {
		t.Errorf("the tickets are %d and %d, want one after the other", frozen[0].Attempt.Ticket, frozen[2].Attempt.Ticket)
	}
}

func TestNobodyWaitsForCreatesThatNeverLeft(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	group := []Change{d.planCreate(run, acme, "c1"), d.planCreate(run, acme, "c2"), d.planCreate(run, acme, "again")}
	frozen := d.freezeAll(run, group...)
	var left []Sent
	for i, c := range group {
		left = append(left, Sent{c, frozen[i].Attempt})
	}
	d.do(func(tx *Tx) error { // another process has gone on with it
		_, err := tx.Attempt(run, group[2])
		return err
	})
	d.do(func(tx *Tx) error { return tx.Thaw(left) })
	for _, c := range group[:2] {
		now := d.open(acme, c.Payer.SourceID, LaneCustomer)
		under, err := d.CreatesUnderWay(t.Context(), c.Payer.Key)
		if err != nil || len(under) > 0 || now.State != connector.ChangePending || now.Attempts != 0 || now.Body != nil ||
			now.Payer.LinkState != connector.LinkNew {
			t.Errorf("%s is %+v with %d creates under way: %v", c.Payer.SourceID, now, len(under), err)
		}
	}
	if again := d.open(acme, "again", LaneCustomer); again.State != connector.ChangeFrozen || again.Attempts != 2 ||
		len(again.Body) == 0 {
		t.Errorf("the create that another process has sent is %+v", again)
	}
	d.clock.move(time.Minute)
	for i, f := range d.freezeAll(run, group[:2]...) {
		if f.Err != nil || f.Attempt.ID <= frozen[i].Attempt.ID {
			t.Errorf("frozen anew: %+v", f)
		}
	}
}

// asksLink decides to send every request for a signing link.
func asksLink(protocol.Facts) protocol.Do { return protocol.AskLink }

func TestLinkRequestsOfAGroupAreFrozenExceptThoseThatAreNotPlanned(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	group := d.plannedLinks(run, "c1", "c2", "gone", "edited", "doubled")
	d.save(run, acme, record("edited", "another name"))
	d.do(func(tx *Tx) error {
		_, err := tx.SaveRemote(remote("b-other", group[4].Payer.Key), 1)
		return err
	})
	d.do(func(tx *Tx) error { return tx.exec("UPDATE changes SET state = 'void' WHERE source_id = 'gone'") })
	var frozen []Frozen
	freeze := func() {
		d.do(func(tx *Tx) (err error) {
			frozen, err = tx.FreezeLinks(run, group, asksLink)
			return err
		})
	}
	freeze()
	for i, want := range []error{nil, nil, ErrNotOpen, ErrLookFirst, ErrLookFirst} {
		if got := frozen[i].Err; !errors.Is(got, want) || want == nil && got != nil {
			t.Fatalf("the request for %s: %v, want %v", group[i].Payer.SourceID, got, want)
		}
	}
	c := d.open(acme, "c1", LaneMandate)
	if for1 := one[string](t, d.Ledger, "SELECT action || ' ' || billing_id FROM attempts WHERE attempt_id = ?",
		frozen[0].Attempt.ID); c.State != connector.ChangeFrozen || c.Attempts != 1 || for1 != "link b-c1" {
		t.Errorf("the request is %+v, sent as %q", c, for1)
	}
	d.do(func(tx *Tx) error { return tx.Thaw([]Sent{{group[0], frozen[0].Attempt}}) })
	if c := d.open(acme, "c1", LaneMandate); c.State != connector.ChangePending || c.Attempts != 0 ||
		c.Payer.BillingID != "b-c1" {
		t.Errorf("the request that never left is %+v", c)
	}
}

func TestALinkRequestIsNotFrozenIfTheFactsOfTheLedgerSayOtherwise(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	group := d.plannedLinks(run, "c1", "c2")
	d.see("c2", signing("m-1", "b-c2", "https://sign.example.com/1"))
	d.do(func(tx *Tx) error {
		frozen, err := tx.FreezeLinks(run, group, func(f protocol.Facts) protocol.Do {
			f.Look.Now, f.Mandate.Approved = true, true
			return protocol.Decide(f).Mandate.Do
		})
		if err == nil && (frozen[0].Err != nil || !errors.Is(frozen[1].Err, ErrLookFirst)) {
			t.Errorf("frozen are %+v", frozen)
		}
		return err
	})
	if c := d.open(acme, "c2", LaneMandate); c.State != connector.ChangePending {
		t.Errorf("the request of a payer with a mandate is %s", c.State)
	}
}
