package state

import (
	"errors"
	"strings"
	"testing"

	"payersync/connector"
)

// sent plans and freezes a create for each id, as one group.
func (d *desk) sent(run int64, ids ...string) (out []Sent) {
	d.t.Helper()
	changes := connector.Map(ids, func(id string) Change { return d.planCreate(run, acme, id) })
	for i, f := range d.freezeAll(run, changes...) {
		if f.Err != nil {
			d.t.Fatal(f.Err)
		}
		changes[i].Run = run
		out = append(out, Sent{changes[i], f.Attempt})
	}
	return out
}

// made is the customer in the answer to a create.
func made(s Sent) connector.RemoteCustomer {
	return remote("b-"+s.Change.Payer.SourceID, s.Change.Payer.Key)
}

// saveCreated saves answers to creates as a group.
func (d *desk) saveCreated(run int64, sent []Sent, made func(Sent) connector.RemoteCustomer) (rest []CreateAnswer,
	err error) {
	d.t.Helper()
	var group []CreateAnswer
	for _, s := range sent {
		a, err := d.PrepareAnswer(s, made(s))
		if err != nil {
			d.t.Fatal(err)
		}
		group = append(group, a)
	}
	return rest, d.Do(d.t.Context(), func(tx *Tx) (err error) {
		rest, err = tx.SaveCreated(run, group)
		return err
	})
}

// outcome is everything the ledger holds of the answer to a create, without the id.
func (d *desk) outcome(id string) (out []string) {
	d.t.Helper()
	for _, query := range []string{
		"SELECT state || ' ' || reason || ' ' || CAST(run_id AS TEXT) || ' ' || CAST(ended_at AS TEXT) || ' ' || updated_at FROM changes WHERE source_id = ?1",
		`SELECT coalesce(billing_id, '') || ' ' || link_state || ' ' || CASE applied_hash WHEN shows THEN 'shown' ELSE '' END || ' ' || CAST(seen_at + 10 * answered_at + 100 * shown_at + 1000 * confirmed_at AS TEXT) || ' ' || updated_at
			FROM payers WHERE source_id = ?1 AND applied IS NOT NULL`,
		"SELECT class || ' ' || CAST(replan + rests AS TEXT) FROM source_records WHERE source_id = ?1",
		"SELECT ended || ' ' || CAST(end_ticket AS TEXT) FROM attempts WHERE source_id = ?1",
		"SELECT key_values || ' ' || CAST(known_pass AS TEXT) || ' ' || listed_at || ' ' || read_at FROM remote_customers WHERE billing_id = 'b-' || ?1",
		"SELECT kind || ' ' || value FROM remote_traits WHERE billing_id = 'b-' || ?1",
		"SELECT topic || ' ' || reason FROM attention WHERE source_id = ?1",
		"SELECT word FROM words WHERE source_id = ?1",
	} {
		rows, err := list(d.t.Context(), d.Ledger, query, []any{id}, func(s *string) []any { return []any{s} })
		if err != nil {
			d.t.Fatalf("%s: %v", query, err)
		}
		out = append(out, strings.ReplaceAll(strings.Join(rows, ", "), id, "ID"))
	}
	return out
}

func TestAnswersOfAGroupMeanWhatTheyMeanOneByOne(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	sent := d.sent(run, "s1", "g1", "g2")
	for _, s := range sent {
		d.do(func(tx *Tx) error {
			return errors.Join(tx.tell(acme, s.Change.Payer.SourceID, TopicLink, connector.ReasonOutcomeUnknown, ""),
				tx.exec("INSERT INTO words (connection, source_id, billing_id, word, ticket, said_at) VALUES (?, ?, ?, 'accept', 1, ?)", acme, s.Change.Payer.SourceID, "x-"+s.Change.Payer.SourceID, stamp(tx.now)))
		})
	}
	d.do(func(tx *Tx) error {
		if err := errors.Join(tx.Created(run, sent[0].Change, made(sent[0]).ID),
			tx.EndAttempt(sent[0].Attempt, AttemptAnswered)); err != nil {
			return err
		}
		_, err := tx.SaveRemote(made(sent[0]), sent[0].Attempt.Ticket)
		return err
	})
	if rest, err := d.saveCreated(run, sent[1:], made); err != nil || len(rest) != 0 {
		t.Fatalf("%d were left: %v", len(rest), err)
	}
	want := strings.Join(d.outcome("s1"), "\n")
	for _, id := range []string{"g1", "g2"} {
		if got := strings.Join(d.outcome(id), "\n"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", id, got, want)
		}
	}
	if p, err := d.Payer(t.Context(), acme, "g1"); err != nil || p.Applied == nil ||
		p.Applied.Hash() != sent[1].Change.Wanted.Hash() {
		t.Errorf("the payer is %+v: %v", p, err)
	}
	again := made(sent[1])
	d.do(func(tx *Tx) error {
		known, err := tx.Known(Observation{CustomerID: again.ID, Customer: &again, Ticket: 99})
		if err == nil && !known[0].Same {
			t.Errorf("the index holds %+v, want %+v", known[0].index, known[0].entry)
		}
		return err
	})
}

func TestAGroupOfAnswersLeavesWhatNeedsADecisionOfItsOwn(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(d *desk, s Sent)
		made    func(Sent) connector.RemoteCustomer
		rest    int
		err     error
	}{
		{"the index knows the customer", func(d *desk, s Sent) {
			d.do(func(tx *Tx) error { _, err := tx.SaveRemote(made(s), s.Attempt.Ticket+9); return err })
		}, made, 1, nil},
		{"two answers name one customer", nil,
			func(s Sent) connector.RemoteCustomer { return remote("b1", s.Change.Payer.Key) }, 1, nil},
		{"another payer has the customer", func(d *desk, s Sent) {
			d.do(func(tx *Tx) error {
				return tx.exec("UPDATE payers SET billing_id = ? WHERE source_id = 'other'", made(s).ID)
			})
		}, made, 0, errNotTogether},
		{"the payer has another customer", func(d *desk, _ Sent) {
			d.do(func(tx *Tx) error { return tx.exec("UPDATE payers SET billing_id = 'b9' WHERE source_id = 'c1'") })
		}, made, 0, errNotTogether},
		{"the payer was forgotten", func(d *desk, _ Sent) {
			d.do(func(tx *Tx) error {
				return tx.exec("UPDATE source_records SET forgotten = 'payer' WHERE source_id = 'c1'")
			})
		}, made, 0, errNotTogether},
		{"a person has closed the change", func(d *desk, s Sent) {
			d.do(func(tx *Tx) error {
				return tx.exec("UPDATE changes SET state = 'held' WHERE change_id = ?", s.Change.ID)
			})
		}, made, 0, errNotTogether},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			sent := d.sent(run, "c1", "c2", "other")[:2]
			if tt.prepare != nil {
				tt.prepare(d, sent[0])
			}
			rest, err := d.saveCreated(run, sent, tt.made)
			if !errors.Is(err, tt.err) || err == nil && len(rest) != tt.rest {
				t.Fatalf("%d were left: %v; want %d and %v", len(rest), err, tt.rest, tt.err)
			}
			done := one[int](t, d.Ledger, "SELECT count(*) FROM changes WHERE state = 'done'")
			ended := one[int](t, d.Ledger, "SELECT count(*) FROM attempts WHERE ended <> ''")
			if want := map[bool]int{true: 1}[tt.err == nil]; done != want || ended != want {
				t.Errorf("%d changes are done by %d answers, want %d", done, ended, want)
			}
		})
	}
}

// plannedLinks plans a request for a signing link for each id, of customers that a list has shown.
func (d *desk) plannedLinks(run int64, ids ...string) []Change {
	d.t.Helper()
	return connector.Map(ids, func(id string) Change {
		c := d.planLink(run, id, "b-"+id)
		d.do(func(tx *Tx) error {
			_, err := tx.SaveRemote(remote("b-"+id, c.Payer.Key), 1)
			return err
		})
		c.Payer = d.payerOf(acme, id)
		return c
	})
}

// requested is plannedLinks, and freezes the requests as one group.
func (d *desk) requested(run int64, ids ...string) (out []Sent) {
	d.t.Helper()
	changes := d.plannedLinks(run, ids...)
	d.do(func(tx *Tx) error {
		frozen, err := tx.FreezeLinks(run, changes, asksLink)
		for i, f := range frozen {
			changes[i].Run = run
			out, err = append(out, Sent{changes[i], f.Attempt}), errors.Join(err, f.Err)
		}
		return err
	})
	return out
}

// linkOutcome is everything the ledger holds of the answer to a request for a signing link, without the id.
func (d *desk) linkOutcome(id string) string {
	d.t.Helper()
	var out []string
	for _, query := range []string{
		"SELECT state || ' ' || reason || ' ' || CAST(run_id AS TEXT) || ' ' || CAST(ended_at AS TEXT) || ' ' || updated_at FROM changes WHERE source_id = ?1",
		"SELECT mandate_id || ' ' || link_state || ' ' || updated_at FROM payers WHERE source_id = ?1",
		"SELECT class || ' ' || CAST(replan + rests AS TEXT) FROM source_records WHERE source_id = ?1",
		"SELECT ended || ' ' || CAST(end_ticket AS TEXT) FROM attempts WHERE source_id = ?1",
		"SELECT CASE c.ticket WHEN a.ticket THEN 'raised' ELSE '' END FROM remote_customers c JOIN attempts a ON a.billing_id = c.billing_id WHERE c.billing_id = 'b-' || ?1",
		`SELECT mandate_id || ' ' || status || ' ' || status_since || ' ' || service_time || ' ' || first_seen_at || ' ' || last_seen_at || ' ' || CASE WHEN link IS NULL THEN '' ELSE link_at END || ' ' || CAST(link_refused AS TEXT)
			FROM mandates WHERE billing_id = 'b-' || ?1`,
		"SELECT mandate_id || ' ' || from_status || ' ' || to_status || ' ' || service_time || ' ' || observed_at || ' ' || cause || ' ' || cause_id FROM mandate_history WHERE billing_id = 'b-' || ?1",
		"SELECT topic || ' ' || reason FROM attention WHERE source_id = ?1",
	} {
		rows, err := list(d.t.Context(), d.Ledger, query, []any{id}, func(s *string) []any { return []any{s} })
		if err != nil {
			d.t.Fatalf("%s: %v", query, err)
		}
		out = append(out, strings.ReplaceAll(strings.Join(rows, ", "), id, "ID"))
	}
	return strings.Join(out, "\n")
}

// saveLinked saves answers to requests for signing links as a group.
func (d *desk) saveLinked(run int64, sent []Sent, mandates ...connector.Mandate) (rest []LinkAnswer, err error) {
	d.t.Helper()
	var group []LinkAnswer
	for i, s := range sent {
		group = append(group, d.PrepareLink(s, mandates[i]))
	}
	return rest, d.Do(d.t.Context(), func(tx *Tx) (err error) {
		rest, err = tx.SaveLinked(run, "run 1", group)
		return err
	})
}

func TestLinkAnswersOfAGroupMeanWhatTheyMeanOneByOne(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	sent := d.requested(run, "s1", "g1", "g2")
	mandate := func(id string) connector.Mandate {
		m := signing("m-"+id, "b-"+id, "https://sign.example.com/"+id)
		m.ServiceTime = "2026-11-20T10:00:00"
		return m
	}
	d.do(func(tx *Tx) error {
		m, p := mandate("s1"), sent[0].Change.Payer
		if fresh, err := tx.see(Observation{CustomerID: p.BillingID, Ticket: sent[0].Attempt.Ticket}); err != nil || !fresh {
			return errors.Join(err, errors.New("a newer read is known"))
		}
		if _, err := tx.SaveMandate(m, connector.CauseLink, "run 1"); err != nil {
			return err
		}
		tx.Touch(p)
		return errors.Join(tx.SetMandate(acme, p.SourceID, m.ID), tx.VoidLetters(acme, p.SourceID),
			tx.CloseWith(run, sent[0].Change, connector.ChangeDone, "", ""), tx.EndAttempt(sent[0].Attempt, AttemptAnswered))
	})
	if rest, err := d.saveLinked(run, sent[1:], mandate("g1"), mandate("g2")); err != nil || len(rest) != 0 {
		t.Fatalf("%d were left: %v", len(rest), err)
	}
	want := d.linkOutcome("s1")
	for _, id := range []string{"g1", "g2"} {
		if got := d.linkOutcome(id); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", id, got, want)
		}
		if link, err := d.SigningLink(t.Context(), "m-"+id); err != nil || link != mandate(id).URL {
			t.Errorf("%s has the link %q: %v", id, link, err)
		}
	}
	if damage, err := d.Verify(t.Context(), nil); err != nil || len(damage) != 0 {
		t.Errorf("the ledger is %+v: %v", damage, err)
	}
}

func TestALinkAnswerThatIsNotAPayersFirstMandateIsLeft(t *testing.T) {
	t.Parallel()
	link := func(id string) connector.Mandate { return signing("m-"+id, "b-"+id, "https://sign.example.com/"+id) }
	for name, c := range map[string]struct {
		before func(*desk, Sent)
		answer func(m *connector.Mandate)
	}{
		"it shows no link":        {answer: func(m *connector.Mandate) { m.URL = "" }},
		"it shows no id":          {answer: func(m *connector.Mandate) { m.ID = "" }},
		"it shows another status": {answer: func(m *connector.Mandate) { m.Status = connector.MandateActive }},
		"it shows a reason":       {answer: func(m *connector.Mandate) { m.FailureReason = connector.NewSecret("AC04") }},
		"another answer names it": {answer: func(m *connector.Mandate) { m.ID = "m-other" }},
		"the payer has a mandate": {before: func(d *desk, s Sent) { d.see("c1", link("old")) }},
		"the customer has one": {before: func(d *desk, s Sent) {
			d.do(func(tx *Tx) error {
				_, err := tx.SaveMandate(signing("m-old", "b-c1", "l"), connector.CauseSweep, "1")
				return err
			})
		}},
		"a newer read is known": {before: func(d *desk, s Sent) {
			d.do(func(tx *Tx) error {
				return second(tx.see(Observation{CustomerID: "b-c1", Ticket: s.Attempt.Ticket + 1}))
			})
		}},
		"the record is gone": {before: func(d *desk, s Sent) {
			d.do(func(tx *Tx) error { return tx.exec("UPDATE source_records SET unseen = 1 WHERE source_id = 'c1'") })
		}},
		"only the record's id stays": {before: func(d *desk, s Sent) {
			d.do(func(tx *Tx) error {
				return tx.exec("UPDATE source_records SET forgotten = 'other' WHERE source_id = 'c1'")
			})
		}},
		"the payer has another customer": {before: func(d *desk, s Sent) {
			d.do(func(tx *Tx) error { return tx.exec("UPDATE payers SET billing_id = 'b-new' WHERE source_id = 'c1'") })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			sent := d.requested(run, "other", "c1")
			if c.before != nil {
				c.before(d, sent[1])
			}
			m := link("c1")
			if c.answer != nil {
				c.answer(&m)
			}
			rest, err := d.saveLinked(run, sent, link("other"), m)
			if err != nil || len(rest) != 1 || rest[0].Change.ID != sent[1].Change.ID {
				t.Errorf("%d are left: %v; want this one alone", len(rest), err)
			}
			if got := column(t, d.Ledger,
				"SELECT source_id FROM changes WHERE state = 'done'"); strings.TrimSpace(got) != "other" {
				t.Errorf("done are %q, want the other one", got)
			}
		})
	}
}
