package state

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/protocol"
)

// freeze freezes a create and returns it as the ledger holds it then.
func (d *desk) freeze(run int64, c Change, body string) (frozen Change, ticket int64) {
	d.t.Helper()
	d.do(func(tx *Tx) error {
		a, err := tx.FreezeCreate(run, c, []byte(body), 0)
		ticket = a.Ticket
		return err
	})
	return d.open(c.Payer.Connection, c.Payer.SourceID, LaneCustomer), ticket
}

// covers F02, S3
func TestACreateIsFrozenBeforeItIsSentAndNeverChanges(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c := d.planCreate(run, acme, "c1")
	const body = `{"name":"Ada & Söhne","externalData":{"acct":"c1"}}`
	frozen, ticket := d.freeze(run, c, body)
	if string(frozen.Body) != body || frozen.State != connector.ChangeFrozen || frozen.Attempts != 1 || ticket != 1 {
		t.Errorf("frozen is %q, %s, attempt %d, ticket %d", frozen.Body, frozen.State, frozen.Attempts, ticket)
	}
	if got := frozen.Payer.LinkState; got != connector.LinkCreating {
		t.Errorf("the payer is %s, want creating", got)
	}
	again := []func(*Tx) error{
		func(tx *Tx) error {
			_, err := tx.FreezeCreate(run, c, []byte(`{"name":"Eve"}`), 0)
			return err
		},
		func(tx *Tx) error { _, err := tx.FreezeUpdate(run, c, []byte(`{"name":"Eve"}`), nil); return err },
	}
	for i, write := range again {
		if err := d.Do(t.Context(), write); err == nil {
			t.Errorf("freeze %d over frozen bytes was accepted", i)
		}
	}
	d.do(func(tx *Tx) error {
		return tx.LeaveUnknown(run, c, "")
	})
	d.clock.move(time.Minute)
	d.do(func(tx *Tx) error {
		a, err := tx.Attempt(run, c)
		return errors.Join(err, tx.Unsent(c, a))
	})
	got := d.open(acme, "c1", LaneCustomer)
	if string(got.Body) != body || got.State != connector.ChangeFrozen || got.Attempts != 2 ||
		!got.UpdatedAt.Equal(d.Now()) {
		t.Errorf("before the replay: %q, %s, attempt %d at %v", got.Body, got.State, got.Attempts, got.UpdatedAt)
	}
}

func TestFrozenBytesAreCheckedBeforeTheyAreSent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c, _ := d.freeze(run, d.planCreate(run, acme, "c1"), `{"name":"Ada"}`)
	other, _ := d.freeze(run, d.planCreate(run, acme, "c2"), `{"name":"Ben"}`)
	tests := []struct{ name, statement, want string }{
		{"bytes sealed for another change",
			"UPDATE changes SET body = (SELECT body FROM changes WHERE change_id = ?2) WHERE change_id = ?1",
			"altered or moved"},
		{"no bytes", "UPDATE changes SET body = x'' WHERE change_id = ?1 AND ?2 > 0", "checksum"},
		{"another checksum", "UPDATE changes SET body_sha256 = (SELECT body_sha256 FROM changes WHERE change_id = ?2) WHERE change_id = ?1", "checksum"},
	}
	for _, tt := range tests {
		before := one[[]byte](t, d.Ledger, "SELECT body FROM changes WHERE change_id = ?", c.ID)
		d.do(func(tx *Tx) error { return tx.exec(tt.statement, c.ID, other.ID) })
		_, err := d.Changes(t.Context(), acme, LaneCustomer, false, 0, 10)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want it to say %q", tt.name, err, tt.want)
		}
		d.do(func(tx *Tx) error { return tx.exec("UPDATE changes SET body = ? WHERE change_id = ?", before, c.ID) })
	}
}

func TestFreezeCreateRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(d *desk, run int64, c Change)
		want    error
	}{
		{"a key that exists in the service", func(d *desk, _ int64, c Change) { // covers F76
			d.do(func(tx *Tx) error { _, err := tx.SaveRemote(remote("b9", c.Payer.Key), 1); return err })
		}, ErrKeyFound},
		{"a key that another payer is being created with", func(d *desk, run int64, c Change) {
			d.freeze(run, d.planCreate(run, acme, "twin"), "{}")
			d.do(func(tx *Tx) error {
				return errors.Join(tx.exec("UPDATE attempts SET ended = 'looked'"),
					tx.exec("UPDATE payers SET link_state = 'new', key_value = ? WHERE source_id = 'twin'", c.Payer.Key.Value))
			})
		}, ErrKeyTaken},
		{"a key that is linked in another connection", func(d *desk, _ int64, c Change) {
			other := d.run("globex")
			v := included(record("g1", "g1"), nil)
			v.Key = c.Payer.Key
			d.save(other, "globex", record("g1", "g1"))
			d.decide(other, "globex", v)
			d.link("globex", "g1", "b9")
		}, ErrKeyTaken},
		{"a run that lost its lease", func(d *desk, _ int64, _ Change) {
			d.clock.move(Lease)
			d.run(acme)
		}, ErrLeaseLost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			c := d.planCreate(run, acme, "c1")
			tt.prepare(d, run, c)
			err := d.Do(t.Context(), func(tx *Tx) error { _, err := tx.FreezeCreate(run, c, []byte("{}"), 0); return err })
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if got := d.open(acme, "c1", LaneCustomer); got.State != connector.ChangePending || got.Body != nil {
				t.Errorf("the change is %s with %q, want it pending as before", got.State, got.Body)
			}
		})
	}
}

func TestOnlyTheRunOfAnOpenAdoptionLinksItsCustomer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		prepare func(d *desk, run int64, c Change)
		want    error
	}{
		{"an open one", func(*desk, int64, Change) {}, nil},
		{"one that a later plan took back", func(d *desk, run int64, c Change) {
			d.do(func(tx *Tx) error { return tx.CloseWith(run, c, connector.ChangeVoid, "", "") })
		}, ErrNotOpen},
		{"one left to a person", func(d *desk, run int64, c Change) {
			d.do(func(tx *Tx) error { return tx.CloseWith(run, c, connector.ChangeHeld, connector.ReasonKeyDisputed, "") })
		}, ErrNotOpen},
		{"a run that lost its lease", func(d *desk, _ int64, _ Change) {
			d.clock.move(Lease)
			d.run(acme)
		}, ErrLeaseLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run, r := d.run(acme), record("c1", "c1")
			d.save(run, acme, r)
			d.decide(run, acme, included(r, &NewChange{Action: connector.ActionAdopt, Wanted: customer("c1", "c1"), BillingID: "b1"}))
			c := d.open(acme, "c1", LaneCustomer)
			tt.prepare(d, run, c)
			if err := d.Do(t.Context(), func(tx *Tx) error { return tx.LinkAdopted(run, c) }); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if p, err := d.Payer(t.Context(), acme, "c1"); err != nil || (p.BillingID == "b1") != (tt.want == nil) {
				t.Errorf("the payer has the customer %q, %v", p.BillingID, err)
			}
		})
	}
}

// covers S2
func TestACustomerIsLinkedToOnePayer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run, other := d.run(acme), d.run("globex")
	first := d.planLinked(run, "c1", "b1", connector.ActionUpdate)
	second := d.planCreate(run, acme, "c2")
	third := d.planCreate(other, "globex", "c1")
	for _, c := range []Change{second, third} {
		err := d.Do(t.Context(), func(tx *Tx) error { return tx.LinkPayer(c.Payer, "b1", true) })
		if !errors.Is(err, ErrCustomerTaken) {
			t.Errorf("linking %s of %s: got %v, want %v", c.Payer.SourceID, c.Payer.Connection, err, ErrCustomerTaken)
		}
	}
	d.do(func(tx *Tx) error { return tx.LinkPayer(first.Payer, "b1", true) }) // its own, again
	if _, id, err := d.LinkedTo(t.Context(), "b1"); id != "c1" || err != nil {
		t.Errorf("b1 is linked to %q, %v; want c1", id, err)
	}
}

func TestAnAnsweredCreateIsAppliedAndWaitsForARead(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c, _ := d.freeze(run, d.planCreate(run, acme, "c1"), "{}")
	d.do(func(tx *Tx) error {
		if err := tx.tell(acme, "c1", TopicLink, connector.ReasonOutcomeUnknown, ""); err != nil {
			return err
		}
		if err := tx.LinkPayer(c.Payer, "b1", false); err != nil {
			return err
		}
		return tx.CloseDone(run, c)
	})
	p := d.payerOf(acme, "c1")
	if p.BillingID != "b1" || p.LinkState != connector.LinkCreating || p.AppliedHash != c.Wanted.Hash() {
		t.Errorf("the payer is %+v", p)
	}
	if diff := cmp.Diff(&c.Wanted, p.Applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	if rows, err := d.AttentionOf(t.Context(), acme, "c1"); len(rows) != 0 || err != nil {
		t.Errorf("attention is %v, %v; want none", rows, err)
	}
	waiting, err := d.Unverified(t.Context(), acme, 10)
	if n, err2 := d.UnverifiedCount(t.Context(), acme); n != 1 || len(waiting) != 1 || errors.Join(err, err2) != nil {
		t.Errorf("%d unverified, %v, %v; want 1", n, waiting, errors.Join(err, err2))
	}
	if err := d.Do(t.Context(), func(tx *Tx) error { return tx.CloseDone(run, c) }); err == nil {
		t.Error("a change was closed twice")
	}
}

func TestACreateThatEndsWithoutACustomerGivesItsKeyFree(t *testing.T) {
	t.Parallel()
	for _, to := range []connector.ChangeState{connector.ChangeFailed, connector.ChangeHeld, connector.ChangeVoid,
		connector.ChangeUnknown} {
		t.Run(string(to), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			r := record("c1", "c1")
			d.save(run, acme, r)
			v := included(r, &NewChange{Action: connector.ActionCreate, Wanted: customer("c1", "c1")})
			v.Link = true
			d.decide(run, acme, v)
			c, _ := d.freeze(run, d.open(acme, "c1", LaneCustomer), "{}")
			d.do(func(tx *Tx) error {
				if to == connector.ChangeUnknown {
					return tx.LeaveUnknown(run, c, "")
				}
				return tx.CloseWith(run, c, to, connector.ReasonRejected, "Refused.")
			})
			wantLink, wantPending := connector.LinkHeld, 0 // the service refused it
			switch to {
			case connector.ChangeUnknown:
				wantLink, wantPending = connector.LinkCreating, 1
			case connector.ChangeVoid:
				wantLink = connector.LinkNew
			}
			if got := d.payerOf(acme, "c1").LinkState; got != wantLink {
				t.Errorf("the payer is %s, want %s", got, wantLink)
			}
			waiting, err := d.PendingCount(t.Context(), acme, LaneCustomer)
			if unanswered, unread := d.UnansweredCount(t.Context(), acme, LaneCustomer); waiting != 0 ||
				unanswered != wantPending || err != nil || unread != nil {
				t.Errorf("%d customers wait to be sent and %d for an answer (%v, %v), want 0 and %d", waiting, unanswered, err,
					unread, wantPending)
			}
			if n, err := d.PendingCount(t.Context(), acme, LaneMandate); n != wantPending || err != nil {
				t.Errorf("%d link requests wait, %v; want %d", n, err, wantPending)
			}
			rows, err := d.AttentionOf(t.Context(), acme, "c1")
			if err != nil || (len(rows) == 0) != (to == connector.ChangeVoid) {
				t.Errorf("attention is %v, %v", rows, err)
			}
			if to == connector.ChangeVoid && len(d.candidates(acme, mapping)) != 1 {
				t.Error("a void change is not planned anew")
			}
		})
	}
}

// covers F10, F11
func TestAnUpdateIsFrozenAnewAfterAnotherRead(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c := d.planLinked(run, "c1", "b1", connector.ActionUpdate)
	for i, body := range []string{`{"name":"first"}`, `{"name":"second"}`} {
		d.do(func(tx *Tx) error {
			_, err := tx.FreezeUpdate(run, c, []byte(body), []byte("before "+body))
			return err
		})
		got := d.open(acme, "c1", LaneCustomer)
		if string(got.Body) != body || string(got.PreImage) != "before "+body || got.Attempts != i+1 ||
			got.BillingID != "b1" {
			t.Errorf("freeze %d: %q, before %q, attempt %d of %s", i+1, got.Body, got.PreImage, got.Attempts, got.BillingID)
		}
	}
	d.do(func(tx *Tx) error { return tx.CloseDone(run, c) })
	if err := d.Do(t.Context(),
		func(tx *Tx) error { _, err := tx.FreezeUpdate(run, c, []byte("{}"), nil); return err }); err == nil {
		t.Error("a closed update was frozen again")
	}
}

func TestALinkRequestIsAttemptedOnceAndMayBeTakenBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c := d.planLink(run, "c1", "b1")
	d.do(func(tx *Tx) error { _, err := tx.Attempt(run, c); return err })
	if got := d.open(acme, "c1", LaneMandate); got.State != connector.ChangeFrozen || got.Attempts != 1 {
		t.Errorf("attempted: %s, attempt %d", got.State, got.Attempts)
	}
	d.do(func(tx *Tx) error { return tx.Unsent(c, Attempt{ID: 1}) })
	if got := d.open(acme, "c1", LaneMandate); got.State != connector.ChangePending || got.Attempts != 0 {
		t.Errorf("taken back: %s, attempt %d", got.State, got.Attempts)
	}
	d.look("c1", "b1")
	d.do(func(tx *Tx) error {
		if _, err := tx.SaveMandate(connector.Mandate{ID: "m1", CustomerID: "b1", Status: connector.MandateCreated},
			connector.CauseLink, "1"); err != nil {
			return err
		}
		return errors.Join(tx.SetMandate(acme, "c1", "m1"),
			tx.CloseWith(run, c, connector.ChangeDone, connector.ReasonLinkLost, ""))
	})
	rows, err := d.AttentionOf(t.Context(), acme, "c1")
	if err != nil || len(rows) != 1 || rows[0].Reason != string(connector.ReasonLinkLost) {
		t.Errorf("attention is %v, %v; want the lost link", rows, err)
	}
}

func TestFindPayersByAnyOfTheirIDs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c := d.planLinked(run, "c1", "b1", connector.ActionUpdate)
	d.planCreate(run, acme, "c2")
	d.do(func(tx *Tx) error {
		if _, err := tx.SaveMandate(connector.Mandate{ID: "m1", CustomerID: "b1", Status: connector.MandateActive},
			connector.CauseSweep, "1"); err != nil {
			return err
		}
		return tx.SetMandate(acme, c.Payer.SourceID, "m1")
	})
	for _, id := range []string{"c1", "b1", "m1"} {
		found, err := d.FindPayers(t.Context(), id)
		if err != nil || len(found) != 1 || found[0].SourceID != "c1" || found[0].MandateID != "m1" {
			t.Errorf("%s finds %v, %v; want c1", id, found, err)
		}
	}
	if found, err := d.FindPayers(t.Context(), "C1"); len(found) != 0 || err != nil {
		t.Errorf("C1 finds %v, %v; want nobody", found, err)
	}
	if _, err := d.Payer(t.Context(), acme, "nobody"); !errors.Is(err, ErrNoPayer) {
		t.Errorf("got %v, want %v", err, ErrNoPayer)
	}
}

// remote is a customer of the billing service that carries a key.
func remote(id string, k connector.Key) connector.RemoteCustomer {
	return connector.RemoteCustomer{
		ID: id, Name: "Customer " + id, Emails: []string{id + "@example.com"},
		ExternalData: map[string]string{k.Name: k.Value}, Raw: json.RawMessage("{}"),
	}
}

// What a run leaves on a record counts in the next run as in its own.
func TestAClosedChangeLeavesTheClassOfItsReason(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		to     connector.ChangeState
		reason connector.Reason
		want   protocol.Status
	}{
		{connector.ChangeDone, "", protocol.InStep},
		{connector.ChangeVoid, "", protocol.Working},
		{connector.ChangeFailed, connector.ReasonRejected, protocol.Failed},
		{connector.ChangeFailed, connector.ReasonForeignChange, protocol.Held},
		{connector.ChangeHeld, connector.ReasonAnswerMismatch, protocol.Failed},
		{connector.ChangeHeld, connector.ReasonKeyDoubled, protocol.Held},
		{connector.ChangeHeld, connector.ReasonKeyUnderWay, protocol.Working},
		{connector.ChangeHeld, connector.ReasonKeyUnsettled, protocol.Working},
	} {
		t.Run(string(tt.to)+" "+string(tt.reason), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			c := d.planLinked(run, "c1", "b1", connector.ActionUpdate)
			d.do(func(tx *Tx) error {
				if tt.to == connector.ChangeDone {
					return tx.CloseDone(run, c)
				}
				return tx.CloseWith(run, c, tt.to, tt.reason, "")
			})
			class, err := single[protocol.Status](d.queryRow(t.Context(),
				"SELECT class FROM source_records WHERE source_id = 'c1'"))
			if err != nil || class != tt.want {
				t.Errorf("the record is %q, %v; want %q", class, err, tt.want)
			}
		})
	}
}
