package simulation

import (
	"context"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// judgeTold checks V5: a new decision on a record has the same findings as the stored ones. Decisions take
// time, so each seed checks one record without findings.
func (o *oracle) judgeTold(p *process, b *books, record connector.Record, any bool) {
	ctx := context.Background()
	shown, err := p.ledger.AttentionOf(ctx, b.connection, record.SourceID)
	if err != nil {
		o.w.violate("harness", "read what needs attention: %v", err)
	}
	if len(shown) == 0 && !any {
		return
	}
	next, err := p.syncer.Preview(ctx, o.w.connection(b), syncer.PreviewOptions{SourceID: record.SourceID})
	if err != nil || len(next.Customers) != 1 {
		o.w.violate("harness", "preview of record %s: %d customers, %v", record.SourceID, len(next.Customers), err)
		return
	}
	var told []connector.Reason
	for _, row := range shown {
		// a past event; the present facts do not show it
		if !strings.HasPrefix(row.Detail, "While the customer was being updated") {
			told = append(told, connector.Reason(row.Reason))
		}
	}
	c := next.Customers[0]
	if want, ok := o.w.rendered(record); ok && c.Action == connector.ActionAdopt &&
		slices.Equal(told, []connector.Reason{connector.ReasonKeyDisputed}) && o.looksForeign(want) {
		return // a forecast reads no customer
	}
	foreseen := slices.DeleteFunc([]connector.Reason{c.Reason, c.Also, c.OfMandate},
		func(r connector.Reason) bool { return r == "" })
	slices.Sort(told)
	slices.Sort(foreseen)
	if next.InFlight == 0 && !slices.Equal(told, foreseen) {
		o.w.violate("V5", "people are told %q of record %s, and deciding anew says %q: %v", told, record.SourceID, foreseen,
			shown)
	}
}

// judgeSettled checks V6: a decision from the facts of the ledger gives the stored findings, class and link.
func (o *oracle) judgeSettled(p *process) {
	if err := p.ledger.Do(context.Background(), func(tx *state.Tx) error {
		differences, err := tx.Settle()
		for _, d := range differences {
			o.w.violate("V6", "by the facts, %s", d)
		}
		return err
	}); err != nil {
		o.w.violate("harness", "decide again: %v", err)
	}
}

// judgeComplete checks V2: unfinished work of a complete run has a finding.
func (o *oracle) judgeComplete(p *process, b *books, res syncer.Result) {
	for _, record := range b.records {
		want, ok := o.w.rendered(record)
		if _, givenUp := o.givenUp[state.RecordID{Connection: b.connection, SourceID: record.SourceID}]; !ok || givenUp {
			continue
		}
		shown, err := p.ledger.AttentionOf(context.Background(), b.connection, record.SourceID)
		if err != nil || len(shown) > 0 {
			continue
		}
		payer, err := p.ledger.Payer(context.Background(), b.connection, record.SourceID)
		if err != nil || payer.LinkState != connector.LinkLinked || payer.Shows != want.Customer.Hash() &&
			!o.taints[want.Key.Value]["undone"] {
			o.w.violate("V2", "run %d is complete, and record %s is %s without a word (%v)", res.RunID, record.SourceID,
				payer.LinkState, err)
		}
	}
}

// check judges the present ledger: S2, S8, S9, S10, S17 and V6.
func (o *oracle) check(p *process) {
	ctx := context.Background()
	payers, err := p.ledger.Payers(ctx, state.Filter{})
	if err != nil {
		o.w.violate("harness", "read the payers: %v", err)
		return
	}
	linked := map[string]string{}
	for _, row := range payers {
		o.checkPayer(row, linked)
	}
	o.checkMandates(ctx, p)
	o.checkAttention(ctx, p)
	o.judgeSettled(p)
	have := o.inboxKeys(p)
	for key := range o.accepted {
		if _, ok := have[key]; !ok {
			o.w.violate("S10", "the webhook %s was acknowledged and is not in the inbox", key)
		}
	}
}

// checkAttention checks S15 and V3: findings show no secret, and every create of unknown outcome has a
// finding after its run.
func (o *oracle) checkAttention(ctx context.Context, p *process) {
	shown, err := p.ledger.Attention(ctx, state.Filter{})
	if err != nil {
		o.w.violate("harness", "read what needs attention: %v", err)
	}
	listed := map[string]bool{}
	for _, row := range shown {
		o.told("attention", row.Detail)
		listed[row.SourceID] = true
	}
	for _, b := range o.w.allBooks() {
		open, err := p.ledger.Changes(ctx, b.connection, state.LaneCustomer, false, 0, 100)
		if err != nil {
			o.w.violate("harness", "read the changes: %v", err)
		}
		for _, c := range open {
			if c.State == connector.ChangeUnknown && !listed[c.Payer.SourceID] {
				o.w.violate("V3", "nobody is told that the outcome of the %s of record %s is unknown", c.Action, c.Payer.SourceID)
			}
		}
	}
}

func (o *oracle) checkPayer(row state.PayerRow, linked map[string]string) {
	o.w.reach("link state " + row.LinkState)
	if row.AttentionReason != nil {
		o.w.reach("attention " + *row.AttentionReason)
	}
	if row.BillingID == nil {
		return
	}
	id := *row.BillingID
	if other, twice := linked[id]; twice {
		o.w.violate("S2", "records %s and %s are both linked to customer %s", other, row.SourceID, id)
	}
	linked[id] = row.SourceID
	if _, lives := o.w.service.Customer(id); lives {
		o.known[id] = true
	}
	if o.keys[id] == nil {
		o.w.violate("S8", "record %s is linked to customer %s, which never was", row.SourceID, id)
	} else if !o.keys[id][row.KeyValue] {
		o.w.violate("S2", "record %s with key %s is linked to customer %s, which never carried it", row.SourceID,
			row.KeyValue, id)
	}
	if _, lives := o.w.service.Customer(id); lives && row.LinkState == string(connector.LinkMissing) && !o.misled[id] {
		o.w.violate("S17", "customer %s of record %s counts as missing and is there", id, row.SourceID)
	}
}

func (o *oracle) checkMandates(ctx context.Context, p *process) {
	mandates, err := p.ledger.Mandates(ctx, state.Filter{})
	if err != nil {
		o.w.violate("harness", "read the mandates: %v", err)
	}
	customers := map[string]bool{}
	for _, m := range mandates {
		customers[m.BillingID] = true
		truth, ok := o.w.service.Mandate(m.MandateID)
		if !ok || truth.CustomerID != m.BillingID || place(truth, m.Status) < 0 {
			o.w.violate("S8", "the ledger holds mandate %s of customer %s as %s, which it never was", m.MandateID, m.BillingID,
				m.Status)
		}
	}
	for id := range customers {
		o.checkHistory(ctx, p, id)
	}
}

func (o *oracle) checkHistory(ctx context.Context, p *process, id string) {
	rows, err := p.ledger.History(ctx, id)
	if err != nil {
		o.w.violate("harness", "read the history: %v", err)
	}
	last := map[string]int{}
	for _, r := range rows {
		truth, _ := o.w.service.Mandate(r.MandateID)
		at := place(truth, r.ToStatus)
		if at < 0 {
			o.w.violate("S8", "the history says that mandate %s was %s, which it never was", r.MandateID, r.ToStatus)
		}
		if at < last[r.MandateID] && o.lag == 0 { // no reader knows how far its answers are behind
			o.w.violate("S9", "the ledger took mandate %s back to %s", r.MandateID, r.ToStatus)
		}
		last[r.MandateID] = at
	}
}

// place returns the position of a status in a mandate's life; -1 if it never had it.
func place(m sandbox.Mandate, status string) int {
	return slices.IndexFunc(m.History, func(s sandbox.StatusChange) bool { return string(s.Status) == status })
}
