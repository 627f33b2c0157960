package state

import (
	"errors"
	"testing"

	"payersync/connector"
)

func TestADecisionWhetherAPayerIsAskedHoldsUntilItIsTakenBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(3)
	id := RecordID{acme, one[string](t, d.Ledger, "SELECT min(source_id) FROM source_records")}
	decide := func(what connector.AskDecision) (news bool) {
		d.do(func(tx *Tx) (err error) {
			news, err = tx.DecideAsking(id, what,
				Entry{Actor: "ada", Action: "ask payer for mandate", Subject: "acme/1", Reason: "agreed"})
			return err
		})
		return news
	}
	d.do(func(tx *Tx) error { return tx.exec("UPDATE source_records SET replan = 0") })
	for _, c := range []struct {
		what connector.AskDecision
		news bool
	}{{connector.AskByRule, false}, {connector.Ask, true}, {connector.Ask, false}, {connector.DoNotAsk, true},
		{connector.AskByRule, true}, {connector.AskByRule, false}, {connector.DoNotAsk, true}} {
		if news := decide(c.what); news != c.news {
			t.Errorf("%q is news: %t, want %t", c.what, news, c.news)
		}
	}
	found, err := d.AskingOf(t.Context(), id)
	if err != nil || found.Decision != connector.DoNotAsk || found.Actor != "ada" || found.Reason != "agreed" ||
		found.At.IsZero() {
		t.Errorf("the decision is %+v, %v", found, err)
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM source_records WHERE replan = 1"); n != 1 {
		t.Errorf("%d records are planned anew, want 1", n)
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM audit WHERE action = 'ask payer for mandate'"); n != 4 {
		t.Errorf("the audit log has %d decisions, want 4", n)
	}
	err = d.Do(t.Context(), func(tx *Tx) error {
		_, err := tx.DecideAsking(RecordID{acme, "nobody"}, connector.Ask,
			Entry{Actor: "ada", Action: "ask payer for mandate"})
		return err
	})
	if !errors.Is(err, ErrNoRecord) {
		t.Errorf("a decision on no record gives %v", err)
	}
}

func TestADecisionWhetherAPayerIsAskedMovesWithItsCustomer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(2)
	ids, err := list(t.Context(), d.Ledger, "SELECT source_id FROM source_records ORDER BY source_id", nil,
		func(s *string) []any { return []any{s} })
	if err != nil {
		t.Fatal(err)
	}
	from, to := RecordID{acme, ids[0]}, RecordID{acme, ids[1]}
	d.do(func(tx *Tx) error {
		_, err := tx.DecideAsking(from, connector.DoNotAsk, Entry{Actor: "ada", Action: "do not ask payer for mandate"})
		return errors.Join(err, tx.moveAsking(from, to))
	})
	for id, want := range map[RecordID]connector.AskDecision{from: connector.AskByRule, to: connector.DoNotAsk} {
		if found, err := d.AskingOf(t.Context(), id); err != nil || found.Decision != want {
			t.Errorf("record %s has %+v, %v, want %q", id.SourceID, found, err, want)
		}
	}
	d.do(func(tx *Tx) error { return tx.moveAsking(from, to) }) // a payer without a decision takes none away
	if found, err := d.AskingOf(t.Context(), to); err != nil || found.Decision != connector.DoNotAsk {
		t.Errorf("it has %+v, %v", found, err)
	}
}

func TestForgettingAPayerKeepsThatItIsNotAskedAndNotThatItIs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(2)
	ids, err := list(t.Context(), d.Ledger, "SELECT source_id FROM source_records ORDER BY source_id", nil,
		func(s *string) []any { return []any{s} })
	if err != nil {
		t.Fatal(err)
	}
	decisions := []connector.AskDecision{connector.Ask, connector.DoNotAsk}
	for i, want := range []connector.AskDecision{connector.AskByRule, connector.DoNotAsk} {
		id := RecordID{acme, ids[i]}
		d.do(func(tx *Tx) error {
			_, err := tx.DecideAsking(id, decisions[i], Entry{Actor: "ada", Action: "decide"})
			return errors.Join(err, tx.erase(id, ForgottenPayer))
		})
		if found, err := d.AskingOf(t.Context(), id); err != nil || found.Decision != want {
			t.Errorf("after %q it has %+v, %v, want %q", decisions[i], found, err, want)
		}
	}
}
