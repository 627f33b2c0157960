package admin_test

import (
	"errors"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/state"
)

// placed is where a record of a test's books is put.
type placed struct {
	id       string
	label    connector.Label
	verdict  state.Verdict             // Included for ""
	state    connector.RecordState     // RecordActive for ""
	reason   connector.Reason          // told of it
	topic    state.Topic               // of the reason
	unlinked bool                      // it has no customer
	lost     bool                      // its link was never seen
	status   connector.MandateStatus   // "" for no mandate
	moves    []connector.MandateStatus // after the status, a day each
	people   []connector.Person        // that its customer holds
	key      string                    // id for ""
}

// book puts records into the ledger as runs, reads and answers do.
func (w *world) book(connection string, all ...placed) {
	w.t.Helper()
	run := w.run(connection)
	for _, p := range all {
		w.do(func(tx *state.Tx) error { return w.bookOne(tx, run, connection, p) })
		for _, status := range p.moves {
			w.now = w.now.Add(24 * time.Hour)
			w.do(func(tx *state.Tx) error {
				_, err := tx.SaveMandate(connector.Mandate{ID: "m-" + p.id, CustomerID: "b-" + p.id, Status: status},
					connector.CauseSweep, "1")
				return err
			})
		}
	}
}

func (w *world) bookOne(tx *state.Tx, run int64, connection string, p placed) error {
	r := connector.Record{SourceID: p.id, State: connector.RecordActive, Data: fmt.Appendf(nil, `{"Name":%q}`, p.id)}
	if p.state != "" {
		r.State = p.state
	}
	if p.verdict == "" {
		p.verdict = state.Included
	}
	key := connector.Key{Name: "acct", Value: p.id}
	if p.key != "" {
		key.Value = p.key
	}
	d := state.Decision{SourceID: p.id, ContentHash: r.Hash(), Verdict: p.verdict, Key: key, Topic: p.topic,
		Reason: p.reason, Left: p.verdict == state.Excluded}
	if err := errors.Join(tx.SavePage(run, connection, []connector.Record{r}),
		tx.SaveDecisions(run, connection, "m1", d)); err != nil {
		return err
	}
	if p.label != (connector.Label{}) {
		if err := tx.SaveLabels(connection, "m1", []state.NewLabel{{SourceID: p.id, Label: p.label}}); err != nil {
			return err
		}
	}
	if p.unlinked {
		return nil
	}
	billing := "b-" + p.id
	payer := state.Payer{Connection: connection, SourceID: p.id, Key: key}
	list, err := tx.BeginPass()
	if err != nil {
		return err
	}
	if err := tx.LinkPayer(payer, billing, true); err != nil {
		return err
	}
	shown := connector.RemoteCustomer{ID: billing, ExternalData: map[string]string{key.Name: key.Value}}
	known, err := tx.Known(state.Observation{CustomerID: billing, Customer: &shown, Ticket: list.Ticket, List: list})
	if err != nil {
		return err
	}
	if err := tx.Reflect(known[0], state.Reflection{}); err != nil {
		return err
	}
	if p.people != nil {
		payer.BillingID = billing
		if err := tx.SetApplied(payer,
			connector.Customer{Name: p.label.Name, People: p.people,
				ExternalData: map[string]string{key.Name: key.Value}}); err != nil {
			return err
		}
	}
	if p.status == "" {
		return nil
	}
	m := connector.Mandate{ID: "m-" + p.id, CustomerID: billing, Status: p.status}
	if !p.lost {
		m.URL = "https://pay.example.com/sign/" + p.id
	}
	if _, err := tx.SaveMandate(m, connector.CauseLink, "1"); err != nil {
		return err
	}
	return tx.SetMandate(connection, p.id, m.ID)
}
