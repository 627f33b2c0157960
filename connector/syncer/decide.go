package syncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/mapping"
	"payersync/state"
)

// decidePage decides on a page of candidates. If a customer must be read first for comparison or display, its candidate
// is decided again after the read. A candidate without a decision stays to be planned, and the run is not complete.
func (r *run) decidePage(ctx context.Context, candidates []state.Candidate) ([]state.Decision, error) {
	page, err := r.subjects(ctx, candidates)
	if err != nil {
		return nil, err
	}
	decisions := make([]state.Decision, len(page))
	for i, s := range page {
		if decisions[i], err = r.decide(ctx, s); err != nil {
			return nil, fmt.Errorf("record %s: %w", s.Record.SourceID, err)
		}
	}
	seen, err := r.readCustomers(ctx, page, decisions)
	if err != nil {
		return nil, err
	}
	out := decisions[:0]
	var left []string
	for i, d := range decisions {
		if mustRead(page[i].Candidate, d) == "" {
			out = append(out, d)
			continue
		}
		s, shown := seen[d.SourceID]
		if !shown {
			left = append(left, d.SourceID)
			continue
		}
		page[i].seen = &s
		if d, err = r.decide(ctx, page[i]); err != nil {
			return nil, fmt.Errorf("record %s: %w", page[i].Record.SourceID, err)
		}
		out = append(out, d)
	}
	if len(left) == 0 {
		return out, nil
	}
	return out, r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.Undecided(r.conn.Name, left) })
}

// decide returns the decision on one record.
func (r *run) decide(ctx context.Context, s subject) (state.Decision, error) {
	c, m := s.Candidate, s.made
	d := state.Decision{SourceID: c.Record.SourceID, ContentHash: c.ContentHash, Stands: c.Stands, Verdict: state.Held,
		Topic: state.TopicRecord, Key: m.Result.Key, Likeness: s.like,
		Facts: state.FactsOfPlan(protocol.Facts{Key: m.Record.Key, Record: m.Record}, false)}
	if m.Usability == protocol.Included {
		d.Unasked = state.Unasked(m.Unasked)
	}
	if !c.MadeWith(r.conn.Mapping.Version()) && r.id != 0 { // a forecast notes nothing
		d.Label = new(r.label(c.Record))
	}
	if c.Payer != nil && c.Payer.BillingID != "" {
		d, err := r.decideLinked(ctx, d, c, m, s.seen)
		return reportForgotten(d, c), err
	}
	next := protocol.Decide(protocol.Facts{Key: m.Record.Key, Record: m.Record})
	switch d.LinkState = next.Link; m.Usability {
	case protocol.Excluded, protocol.Gone:
		d.Verdict = state.Excluded
		return reportForgotten(d.Because(next.Customer.Reason, ""), c), nil
	case protocol.Unfit:
		return d.Because(m.Reason, m.problem), nil
	}
	return r.decideNew(ctx, d, s)
}

// reportForgotten asks a person to check a record without stored data, if it may be another payer than the forgotten
// one.
func reportForgotten(d state.Decision, c state.Candidate) state.Decision {
	if d.Reason != "" {
		return d
	}
	switch d.Topic = state.TopicRecord; c.Forgotten {
	case state.ForgottenAlike:
		d.Verdict = state.Held
		return d.Because(connector.ReasonForgotten,
			"The record is new, and has the number, or the name and the e-mail address, of a payer that was forgotten. Nothing of it is kept, and nothing is sent for it.")
	case state.ForgottenOther:
		return d.Because(connector.ReasonForgotten,
			"The payer of this record was forgotten, and the record looks like somebody else by now. Nothing of it is kept, and nothing is sent for it.")
	}
	return d
}

func sentences(problems []connector.Problem) string {
	all := connector.Map(problems, func(p connector.Problem) string { return p.Detail })
	return strings.Join(all, " ")
}

// decideLinked decides on the record of a payer with a customer. It gathers the facts and asks package protocol for the
// next step.
func (r *run) decideLinked(ctx context.Context, d state.Decision, c state.Candidate, m rendered,
	seen *customerRead) (state.Decision, error) {
	p := *c.Payer
	base, err := r.base(ctx, p)
	if err != nil {
		return d, err
	}
	have := connector.Customer{}
	if base != nil {
		have = *base
	}
	wanted := r.conn.Mapping.Owned(m.Customer, have).With(p.Accepted)
	f := c.Facts
	f.Record = m.of(p)
	if m.Usability == protocol.Included {
		f.Record.Hash = wanted.Hash()
	}
	f.AsPlanned()
	f.Mandate.Again = r.Settings.again()
	d.Left = m.Usability == protocol.Excluded || m.Usability == protocol.Gone
	other, err := r.contest(ctx, &f, c, m)
	if err != nil {
		return d, err
	}
	d.Contested, d.Facts = other != "", state.FactsOfPlan(f, p.MovesTo(m.Result.Key))
	if p.Seen { // the state follows from the same facts as the finding: a doubled key may be gone
		d.LinkState = protocol.Decide(f).Link
	}
	f.AsRead()
	next := protocol.Decide(f)
	step, asking := next.Customer, next.Mandate
	d.OfMandate, d.Awaited = asking.Reason, r.awaited(f, asking)
	if m.Usability == protocol.Excluded || d.Left && step.Do == protocol.Nothing {
		d.Verdict = state.Excluded
	}
	switch step.Do {
	case protocol.ReadCustomer, protocol.ReadList, protocol.Wait:
		d.Waits = true
		detail, err := r.awaitedOf(ctx, f, p, step)
		if err != nil {
			return d, err
		}
		d = d.Because(step.Reason, detail)
	case protocol.Unlink:
		return r.decideUnlink(ctx, d, p, seen)
	case protocol.Tell:
		return r.reportLinked(ctx, d, c, m, f, next, other)
	case protocol.Update:
		d.Customer = &state.NewChange{Action: connector.ActionUpdate, Wanted: wanted, BillingID: p.BillingID,
			Diff: connector.Diff(have, wanted)}
		r.showBefore(d.Customer, base, seen)
		if r.linkOnly && !d.Left {
			d.Topic = state.TopicLink
			d = r.withheld(d, "Updating the customer", "")
		}
	}
	if d.Left {
		return d, nil
	}
	d.Verdict, d.Topic = state.Included, state.TopicLink
	// A link lost before any request needs an immediate look and a report.
	d.Link = asking.Do == protocol.AskLink || asking.Reason == connector.ReasonLinkLost && f.Mandate.Asked == 0
	return d, nil
}

// reportLinked reports a linked payer's findings to people. other is the record with the same key.
func (r *run) reportLinked(ctx context.Context, d state.Decision, c state.Candidate, m rendered, f protocol.Facts,
	next protocol.Outcome, other string) (state.Decision, error) {
	reason := next.Customer.Reason
	k := keyKnown{key: c.Payer.Key, rival: other}
	var err error
	if reason == connector.ReasonKeyDoubled {
		if k.holders, err = r.Ledger.KeyHolders(ctx, k.key); c.Payer.MovesTo(m.Result.Key) {
			more, moreErr := r.Ledger.KeyHolders(ctx, m.Result.Key)
			k.holders, err = append(k.holders, more...), errors.Join(err, moreErr)
		}
	}
	if d.Topic = state.Topic(protocol.LaneOf(reason)); d.Topic == state.TopicLink {
		d.Verdict = state.Included
	}
	if beside := next.About(protocol.LaneCustomer); beside != reason {
		d.Also = beside
	}
	detail := k.because(reason)
	switch {
	case reason == connector.ReasonLeftWithMandate:
		detail = removedDetail(c, f)
	case m.Usability == protocol.Gone:
		detail = removedState(c) + ". Nothing was removed in the billing service."
	case m.Usability == protocol.Unfit:
		detail = m.problem
	case reason == connector.ReasonForeignChange && f.Link.Answered == "": // not of the last update, which has its own finding
		detail = reason.Sentence()
	}
	return d.Because(reason, detail), err
}

// showBefore makes a change show its effect on the customer as last read. Without a read, or if the customer cannot be
// merged (the act reports this), the change shows the known values.
func (r *run) showBefore(c *state.NewChange, base *connector.Customer, seen *customerRead) {
	if seen == nil || seen.missing {
		return
	}
	if diff, err := r.Billing.MergeDiff(seen.customer, base, c.Wanted, r.conn.Mapping.Own()); err == nil {
		c.Diff, c.Seen = diff, true
	}
}

// decideNew decides on a payer without a customer. It gathers the facts about the key and asks package protocol for the
// next step (RULES.md#who-has-the-key). It looks once for another record's expired create.
func (r *run) decideNew(ctx context.Context, d state.Decision, s subject) (state.Decision, error) {
	c, res, seen := s.Candidate, s.made.Result, s.seen
	record := protocol.Record{Usability: protocol.Included, Key: res.Key.ID(), Hash: s.made.Hash,
		Mandate: res.RequestMandate}
	owned := r.conn.Mapping.Owned(res.Customer, connector.Customer{})
	for looked := false; ; looked = true {
		k := r.newKey(res.Key, record, c.Facts)
		if !s.stranger || looked {
			if err := r.gather(ctx, d.SourceID, res.Customer, &k); err != nil {
				return d, err
			}
		}
		why := k.word.Why()
		if seen != nil && (seen.missing || seen.customer.ID == k.facts.Holder) {
			k.judge(*seen, owned)
			why = cmp.Or(why, k.acceptedGone(*seen))
		}
		if k.byWord && why != "" && k.word.Spent == "" && r.id != 0 { // a forecast notes nothing
			if err := r.Ledger.Do(ctx,
				func(tx *state.Tx) error { return tx.AcceptedIsGone(r.conn.Name, d.SourceID, k.word.BillingID, why) }); err != nil {
				return d, err
			}
			continue
		}
		d.Facts = state.FactsOfPlan(k.facts, false)
		next := protocol.Decide(k.facts)
		step := next.Customer
		if step.Do == protocol.ReadList && !looked && r.id != 0 { // a forecast asks the ledger alone
			if _, err := r.trustIndexAfter(ctx, k.over); err != nil {
				return d, err
			}
			continue
		}
		if r.id == 0 && k.facts.Holders == protocol.Free && k.facts.Holder != c.Adopting {
			if err := r.judgeByIndex(ctx, &k, owned); err != nil {
				return d, err
			}
			next = protocol.Decide(k.facts)
			step = next.Customer
		}
		if step.Do != protocol.Adopt && step.Do != protocol.ReadCustomer {
			return r.linkNew(r.planNew(d, res, next, k), k), nil
		}
		res.Customer = owned // it is read right before
		d = included(d, res, connector.ActionAdopt, step.Customer)
		base, err := r.baseOfNew(ctx, c, step.Customer)
		r.showBefore(d.Customer, base, seen)
		d.Link = d.Link && r.asksOnceAdopted(k.facts, seen)
		return r.linkNew(d, k), err
	}
}

// asksOnceAdopted reports whether the run must check the mandate of an adopted customer, to request a signing link or
// to report why not. A signed mandate needs neither, so the plan counts no link for it.
func (r *run) asksOnceAdopted(f protocol.Facts, seen *customerRead) bool {
	if seen == nil || seen.missing || seen.customer.Mandate == nil {
		return true
	}
	f.Link.Customer, f.Holders, f.Holder = seen.customer.ID, protocol.Own, seen.customer.ID
	f.Mandate.Status, f.Mandate.Link = seen.customer.Mandate.Status, seen.customer.Mandate.URL != ""
	f.Mandate.Approved, f.Mandate.Again = true, r.Settings.again()
	step := protocol.Decide(f).Mandate
	return step.Do != protocol.Nothing || step.Reason != ""
}

// planNew turns the step for a new payer into the plan's decision on its record.
func (r *run) planNew(d state.Decision, res mapping.Result, next protocol.Outcome, k keyKnown) state.Decision {
	step := next.Customer
	if step.Do == protocol.Create {
		d = included(d, res, connector.ActionCreate, "")
		d.Customer.Hash = k.facts.Record.Hash
		if r.Settings.NotCarried != nil {
			lost := r.Settings.NotCarried(res.Customer)
			r.cuts.Store(r.cuts.Load() || len(lost) > 0)
			if len(lost) > 0 {
				d.Customer.Diff = slices.DeleteFunc(d.Customer.Fields(),
					func(f connector.FieldChange) bool { return slices.Contains(lost, f.Path) })
			}
		}
		return d
	}
	if d.Waits = step.Do != protocol.Tell; d.Waits {
		r.waitsUntil(k.until)
	}
	d.LinkState, d.Topic, d.Contested = next.Link, state.Topic(protocol.LaneOf(step.Reason)), k.rival != ""
	reason := k.reasonFor(step.Reason)
	return d.Because(reason, k.because(reason))
}

func included(d state.Decision, res mapping.Result, action connector.Action, id string) state.Decision {
	d.Verdict, d.LinkState = state.Included, connector.LinkNew
	d.Customer = &state.NewChange{Action: action, Wanted: res.Customer, BillingID: id}
	if action != connector.ActionCreate {
		d.Customer.Diff = connector.Diff(connector.Customer{}, res.Customer)
	}
	d.Link = res.RequestMandate
	return d
}
