package simulation

import (
	"context"
	"slices"

	"payersync/connector/syncer"
	"payersync/state"
)

// anyPayer returns a payer with a customer, as the ledger of p has it.
func (w *world) anyPayer(p *process) (state.Payer, bool) {
	rows, err := p.ledger.Payers(context.Background(), state.Filter{})
	rows = slices.DeleteFunc(rows, func(r state.PayerRow) bool { return r.BillingID == nil })
	if err != nil || len(rows) == 0 {
		return state.Payer{}, false
	}
	row := rows[w.minds.IntN(len(rows))]
	payer, err := p.ledger.Payer(context.Background(), row.Connection, row.SourceID)
	return payer, err == nil
}

func (w *world) operatorLink() error {
	p := w.anyProcess()
	return w.as(p, func() error {
		payer, ok := w.anyPayer(p)
		if !ok {
			return nil
		}
		w.operator = true
		defer func() { w.operator = false }()
		_, err := p.syncer.RequestLink(context.Background(), payer, syncer.Operator{Name: "Olive", Reason: "the payer asked"})
		w.logf("%s operator link %s: err %t", p.name, payer.SourceID, err != nil)
		return nil
	})
}

// operatorApart decides that records with one name and address are two payers.
func (w *world) operatorApart() error {
	p := w.anyProcess()
	return w.as(p, func() error {
		for i, a := range w.books.records {
			for _, b := range w.books.records[i+1:] {
				if f, g := w.books.fields(a.SourceID), w.books.fields(b.SourceID); f.Name != g.Name || f.Email != g.Email {
					continue
				}
				err := p.ledger.Do(context.Background(), func(tx *state.Tx) error {
					_, err := tx.KeepApart(w.books.connection, a.SourceID, b.SourceID)
					return err
				})
				w.logf("%s operator says that %s is not %s: err %t", p.name, a.SourceID, b.SourceID, err != nil)
				if err == nil {
					w.reach("told apart")
				}
			}
		}
		return nil
	})
}

func (w *world) operatorCancel() error {
	p := w.anyProcess()
	return w.as(p, func() error {
		payer, ok := w.anyPayer(p)
		if !ok || payer.MandateID == "" {
			return nil
		}
		w.operator = true
		defer func() { w.operator = false }()
		err := p.syncer.CancelMandate(context.Background(), p.billing, payer,
			syncer.Operator{Name: "Olive", Reason: "the payer asked"})
		w.logf("%s operator cancel %s: err %t", p.name, payer.SourceID, err != nil)
		return nil
	})
}

func (w *world) operatorApprove() error {
	p := w.anyProcess()
	return w.as(p, func() error {
		plans, err := p.ledger.WaitingPlans(context.Background())
		if err != nil || len(plans) == 0 {
			return nil
		}
		w.reach("a waiting plan approved")
		err = p.ledger.Do(context.Background(), func(tx *state.Tx) error { return tx.Approve(plans[0].ID, "Olive") })
		w.logf("%s approves plan %d: err %t", p.name, plans[0].ID, err != nil)
		return nil
	})
}
