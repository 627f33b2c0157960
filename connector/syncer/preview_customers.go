package syncer

import (
	"context"
	"fmt"

	"payersync/state"
)

func (f *forecast) addCustomers(ctx context.Context, p *Preview, sourceID string) error {
	p.Customers = []CustomerPreview{}
	for i := range f.all {
		e := &f.all[i]
		if asked := e.sourceID == sourceID; !asked && (sourceID != "" || !e.moves() || f.full(len(p.Customers))) {
			continue
		}
		c, err := f.customer(ctx, e.sourceID)
		if err != nil {
			return err
		}
		p.Customers = append(p.Customers, c)
	}
	return nil
}

// moves reports whether the mapping would change anything for the record.
func (e *foreseen) moves() bool {
	dropped := e.now == state.Excluded && (e.was == state.Included || e.was == state.Held)
	return e.action != "" || dropped || e.rekeyed || e.now == state.Held && e.was != state.Held
}

// customer decides on one record again, with its values.
func (f *forecast) customer(ctx context.Context, sourceID string) (CustomerPreview, error) {
	r, err := f.Ledger.StoredRecord(ctx, f.conn.Name, sourceID, f.conn.Mapping.Version())
	if err != nil {
		return CustomerPreview{}, err
	}
	d, err := f.foreseeOne(ctx, r)
	if err != nil {
		return CustomerPreview{}, fmt.Errorf("record %s: %w", sourceID, err)
	}
	c := CustomerPreview{SourceID: sourceID, Key: d.Key, Verdict: d.Verdict, Link: r.AsksForLink(d), Reason: d.Reason,
		Detail: d.Detail, Also: d.Also, OfMandate: d.OfMandate}
	if r.Payer != nil {
		c.BillingID = r.Payer.BillingID
		if c.Key.Value == "" {
			c.Key = r.Payer.Key
		}
	}
	if d.Customer != nil {
		c.Action, c.Diff, c.BillingID = d.Customer.Action, d.Customer.Fields(), d.Customer.BillingID
	}
	return c, nil
}
