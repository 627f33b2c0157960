package syncer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/connector/reconcile"
	"payersync/mapping"
	"payersync/state"
)

const (
	planPage  = 500 // records planned in one commit
	listPage  = 100 // customers on a page of the service's list, for comparing costs
	lookPages = 100 // the pages always worth a second reading
)

// makePlan decides on every record changed or possibly affected by a change, and gathers the pending changes into one
// plan.
func (r *run) makePlan(ctx context.Context) (state.Plan, error) {
	if r.Settings.SameMandate {
		if err := r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.ReplanLost(r.conn.Name) }); err != nil {
			return state.Plan{}, err
		}
	}
	if err := r.learnLikenesses(ctx); err != nil {
		return state.Plan{}, err
	}
	if err := r.lookForCustomers(ctx); err != nil {
		return state.Plan{}, err
	}
	if err := r.lookForTwoWay(ctx); err != nil {
		return state.Plan{}, err
	}
	if err := r.planAll(ctx); err != nil {
		return state.Plan{}, err
	}
	if err := r.findStops(ctx); err != nil {
		return state.Plan{}, err
	}
	nothing, err := r.Ledger.PlansNothing(ctx, r.conn.Name)
	if err != nil {
		return state.Plan{}, err
	}
	if nothing {
		r.empty = state.PlanDraft
		return state.Plan{Connection: r.conn.Name, RunID: r.id, Mapping: r.conn.Mapping.Version(), State: state.PlanDraft, CreatedAt: r.Ledger.Now()}, nil
	}
	var plan state.Plan
	if err := r.Ledger.DoAlone(ctx, func(tx *state.Tx) (err error) {
		if err := r.noteReading(tx); err != nil {
			return err
		}
		plan, err = tx.FinishPlan(r.id, r.conn.Name, r.conn.Mapping.Version(), r.Settings.Guards.tooMany)
		return err
	}); err != nil {
		return plan, err
	}
	r.notes = nil
	return r.guard(ctx, plan)
}

// saveEmptyPlan saves the plan of a run with nothing to do. It exceeds no limit and needs no approval.
func (r *run) saveEmptyPlan(tx *state.Tx) error {
	if r.empty == "" {
		return nil
	}
	return tx.SaveEmptyPlan(r.plan, r.empty)
}

// planAll decides on every candidate. Afterwards it decides again on records with a key newly shared, or no longer
// shared, with a record decided later, and on probable duplicates of such a record.
func (r *run) planAll(ctx context.Context) error {
	defer r.tellNotCarried()
	planned, err := r.planRecords(ctx)
	if err != nil {
		return err
	}
	if err := r.Ledger.IndexLikenesses(ctx); err != nil {
		return err
	}
	pending, err := r.Ledger.PendingCount(ctx, r.conn.Name, state.LaneCustomer)
	if err != nil || r.first.planned+planned+pending == 0 { // pending: a plan may have been interrupted right here
		return err
	}
	var woken int64
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		if woken, err = tx.WakeRivals(r.conn.Name, r.conn.Info.Snapshot); err != nil || r.Settings.Adopt == AdoptExact {
			return err
		}
		twins, err := tx.WakeTwins(r.conn.Name, r.conn.Info.Snapshot)
		woken += twins
		return err
	}); err != nil || woken == 0 {
		return err
	}
	_, err = r.planRecords(ctx)
	return err
}

// lookForCustomers makes sure the index knows the service's customers before records without a customer are planned,
// and compares those records with them.
func (r *run) lookForCustomers(ctx context.Context) error {
	if err := r.matchNews(ctx); err != nil { // it may have records planned again
		return err
	}
	unlinked, err := r.Ledger.UnlinkedCandidates(ctx, r.conn.Name, r.conn.Mapping.Version(), r.conn.Info.Snapshot)
	if unlinked += r.first.planned; err != nil || unlinked == 0 {
		return err
	}
	if err := r.believeIndex(ctx, unlinked); err != nil {
		return err
	}
	return r.match(ctx)
}

// believeIndex makes the index proof of absence before n customers count as nonexistent. The last list may be a day
// old, so a second look follows unless this run has listed. This is one more list pass, or a search for each customer
// before its create if a list would take many pages for a few customers.
//
// Without proof, it sets noProof: the run plans no creates, and serves all payers with a customer as usual.
func (r *run) believeIndex(ctx context.Context, n int) error {
	if n == 0 || r.noProof != nil {
		return nil
	}
	r.progress("list", 0, 0)
	began := r.Ledger.Now()
	listed, err := r.Reconciler.Believe(ctx, 0)
	switch {
	case err != nil:
		return r.without(err)
	case listed:
		r.listed = began
	}
	if err := r.noteBelieved(ctx); err != nil {
		return err
	}
	if !r.listed.IsZero() && r.Ledger.Now().Sub(r.listed) <= r.Settings.ProbeAfter {
		return nil
	}
	x, err := r.Ledger.Index(ctx, r.Reconciler.Lookup.Quarantine)
	if err != nil {
		return err
	}
	if r.probe = x.Customers > lookPages*listPage && 2*n <= x.Customers/listPage; r.probe {
		return nil
	}
	return r.without(r.prove(ctx))
}

// noteBelieved stores the ticket from which the index is trusted.
func (r *run) noteBelieved(ctx context.Context) error {
	x, err := r.Ledger.Index(ctx, r.Reconciler.Lookup.Quarantine)
	if err == nil {
		r.believed.Store(x.Since)
	}
	return err
}

// prove makes one list pass for this run. It reads incomplete customers of the list again, because earlier reads may be
// as old as an earlier list.
func (r *run) prove(ctx context.Context) error {
	began := r.Ledger.Now()
	err := r.Reconciler.Prove(ctx, began)
	if err == nil {
		r.listed = began
	}
	return err
}

// without remembers a missing proof; it returns any other error.
func (r *run) without(err error) error {
	var short *reconcile.ShortListError
	if err == nil {
		return nil
	}
	err = fmt.Errorf("look for customers that exist already: %w", err)
	if errors.As(err, &short) || errors.Is(err, reconcile.ErrListChanges) {
		r.noProof = err
		return nil
	}
	return err
}

// isThere reports whether a plan may use a record. In a snapshot, only the rows read in this run count; after a whole
// reading these are all rows in the ledger. A row not read counts neither as deleted nor as returned, because the
// reading may have ended early. Other sources give only changes, so every record counts. An unlink decided by a person
// is carried out anyway.
func (r *run) isThere(c state.Candidate) bool {
	return !r.conn.Info.Snapshot || r.met == nil || r.met.Has(c.Record.SourceID) || c.Payer != nil && c.Payer.Unlink.At > 0
}

// planRecords decides on every candidate, page by page. The next page is decided
// while one is saved: no decision looks at what another has just said.
func (r *run) planRecords(ctx context.Context) (planned int, err error) {
	pages := make(chan []state.Decision)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(pages)
		return connector.Guard(func() error { return r.decideAll(ctx, pages) })
	})
	group.Go(func() error {
		for page := range pages {
			if err := connector.Guard(func() error { return r.saveDecisions(ctx, page) }); err != nil {
				return err
			}
			planned += len(page)
			r.progress("plan", planned, 0)
		}
		return nil
	})
	err = group.Wait()
	return planned, err
}

func (r *run) decideAll(ctx context.Context, pages chan<- []state.Decision) error {
	after := ""
	for {
		candidates, err := r.Ledger.Candidates(ctx, r.conn.Name, r.conn.Mapping.Version(), r.conn.Info.Snapshot, after, planPage)
		if err != nil || len(candidates) == 0 {
			return err
		}
		decisions, err := r.decidePage(ctx, candidates)
		if err != nil {
			return err
		}
		select {
		case pages <- decisions:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		after = candidates[len(candidates)-1].Record.SourceID
	}
}

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
	seen, err := r.sights(ctx, page, decisions)
	if err != nil {
		return nil, err
	}
	out := decisions[:0]
	var left []string
	for i, d := range decisions {
		if unseenBy(page[i].Candidate, d) == "" {
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

// subject is a record as a plan looks at it.
type subject struct {
	state.Candidate

	made     rendered
	like     *state.Likeness // the payer's traits; nil if not stored
	seen     *sight          // a read of the customer to link or update; nil if there was none
	stranger bool            // a new record without any match: see state.Ledger.Strangers
}

// subjects renders the candidates of a page open to planning. In one query, it asks which new candidates match a known
// payer or customer.
func (r *run) subjects(ctx context.Context, candidates []state.Candidate) ([]subject, error) {
	page := make([]subject, 0, len(candidates))
	var newcomers []state.Newcomer
	var at []int
	for _, c := range candidates {
		if !r.isThere(c) || r.noProof != nil && (c.Payer == nil || c.Payer.BillingID == "") {
			continue
		}
		m, err := r.render(c)
		if err != nil {
			return nil, fmt.Errorf("record %s: %w", c.Record.SourceID, err)
		}
		s := subject{Candidate: c, made: m}
		if m.Standing == protocol.Included {
			s.like = new(likenessOf(m.Customer))
		}
		if c.Payer == nil && s.like != nil {
			newcomers = append(newcomers, state.Newcomer{SourceID: c.Record.SourceID, Key: m.Result.Key, Customer: m.Customer, Likeness: *s.like})
			at = append(at, len(page))
		}
		page = append(page, s)
	}
	strangers, err := r.Ledger.Strangers(ctx, r.conn.Name, newcomers)
	for i, is := range strangers {
		page[at[i]].stranger = is
	}
	return page, err
}

func (r *run) saveDecisions(ctx context.Context, decisions []state.Decision) error {
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.SaveDecisions(r.id, r.conn.Name, r.conn.Mapping.Version(), decisions...)
	}); err != nil || r.opts.Decided == nil {
		return err
	}
	for _, d := range decisions {
		r.opts.Decided(r.id, d)
	}
	return nil
}

// tellNotCarried reports the values of new customers without a place in the service.
func (r *run) tellNotCarried() {
	if r.cuts.Load() {
		r.tell("The country of new customers is not sent: the short spelling of addresses has none. If the service takes the long one, set billing.dialect.address_fields: long.")
	}
}

// rendered is the result of the mapping for a record.
type rendered struct {
	protocol.Record
	mapping.Result        // zero for an unmappable record
	problem        string // why it is unfit, in words
}

// render is mapped for a record of the ledger. A record given up by a person is excluded, independent of the
// mapping.
func (r *run) render(c state.Candidate) (rendered, error) {
	m, err := r.mapped(c.Record)
	m.decided(c.Asking)
	if err != nil || !c.GivenUp || m.Standing != protocol.Included && m.Standing != protocol.Unfit {
		return m, err
	}
	return rendered{Record: protocol.Record{Standing: protocol.Excluded, Anew: m.digest(c.ContentHash) != c.GivenUpOf}}, nil
}

// decided puts a person's decision whether the payer is asked before the mapping's rule.
func (m *rendered) decided(asking connector.AskDecision) {
	if m.Standing != protocol.Included {
		return
	}
	switch asking {
	case connector.Ask:
		m.RequestMandate, m.Unasked = true, mapping.Unasked{}
	case connector.DoNotAsk:
		m.RequestMandate, m.Unasked = false, mapping.Unasked{Why: connector.UnaskedPerson}
	}
	m.Record.Mandate = m.RequestMandate
}

// digest returns a hash of the mapped record, for a person's decision to give it up. For an unmappable record it uses
// the source content.
func (m rendered) digest(content string) string {
	if m.Result.Included {
		content = m.Customer.Hash()
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{string(m.Record.Reason), m.Record.Key, content}, "\x00")))
	return hex.EncodeToString(sum[:])
}

// mapped maps a record.
func (r *run) mapped(c connector.Record) (rendered, error) {
	switch {
	case c.Problem != "":
		return unfit(connector.ReasonRecordUnreadable, c.Problem), nil
	case c.State != connector.RecordActive:
		return rendered{Record: protocol.Record{Standing: protocol.Gone}}, nil
	}
	res, err := r.conn.Mapping.Apply(c)
	var unmapped *mapping.RecordError
	switch {
	case errors.As(err, &unmapped):
		return unfit(unmapped.Reason, unmapped.Detail), nil
	case err != nil, !res.Included:
		return rendered{}, err
	}
	m := rendered{Result: res}
	if problems := res.Customer.Problems(); len(problems) > 0 {
		m = unfit(problems[0].Reason, sentences(problems))
		m.Result = res
	} else {
		m.Record = protocol.Record{Standing: protocol.Included, Hash: res.Customer.Hash(), Mandate: res.RequestMandate}
	}
	m.Record.Key = res.Key.ID()
	return m, nil
}

// of returns the record of a payer with a customer. A future key of the customer counts as the payer's: an update
// writes it, and it is confirmed once a read shows it.
func (m rendered) of(p state.Payer) protocol.Record {
	record := m.Record
	if p.MovesTo(m.Result.Key) {
		record.Key = p.Key.ID()
	}
	return record
}

func unfit(reason connector.Reason, problem string) rendered {
	return rendered{Record: protocol.Record{Standing: protocol.Unfit, Reason: reason}, problem: problem}
}

// decide returns the decision on one record.
func (r *run) decide(ctx context.Context, s subject) (state.Decision, error) {
	c, m := s.Candidate, s.made
	d := state.Decision{SourceID: c.Record.SourceID, ContentHash: c.ContentHash, Stands: c.Stands, Verdict: state.Held, Topic: state.TopicRecord, Key: m.Result.Key, Likeness: s.like}
	if m.Standing == protocol.Included {
		d.Unasked = state.Unasked(m.Unasked)
	}
	if c.LabelledBy != r.conn.Mapping.Version() && r.id != 0 { // a forecast notes nothing
		d.Label = new(r.label(c.Record))
	}
	if c.Payer != nil && c.Payer.BillingID != "" {
		d, err := r.decideLinked(ctx, d, c, m, s.seen)
		return tellForgotten(d, c), err
	}
	switch m.Standing {
	case protocol.Excluded, protocol.Gone:
		d.Verdict = state.Excluded
		return tellForgotten(d.Because(protocol.Decide(protocol.Facts{Record: m.Record}).Customer.Reason, ""), c), nil
	case protocol.Unfit:
		return d.Because(m.Reason, m.problem), nil
	}
	return r.decideNew(ctx, d, s)
}

// tellForgotten asks a person to check a record without stored data, if it may be another payer than the forgotten one.
func tellForgotten(d state.Decision, c state.Candidate) state.Decision {
	if d.Reason != "" {
		return d
	}
	switch d.Topic = state.TopicRecord; c.Forgotten {
	case state.ForgottenAlike:
		d.Verdict = state.Held
		return d.Because(connector.ReasonForgotten, "The record is new, and has the number, or the name and the e-mail address, of a payer that was forgotten. Nothing of it is kept, and nothing is sent for it.")
	case state.ForgottenOther:
		return d.Because(connector.ReasonForgotten, "The payer of this record was forgotten, and the record looks like somebody else by now. Nothing of it is kept, and nothing is sent for it.")
	}
	return d
}

func sentences(problems []connector.Problem) string {
	all := connector.Map(problems, func(p connector.Problem) string { return p.Detail })
	return strings.Join(all, " ")
}

// decideLinked decides on the record of a payer with a customer. It gathers the facts and asks package protocol for the
// next step.
func (r *run) decideLinked(ctx context.Context, d state.Decision, c state.Candidate, m rendered, seen *sight) (state.Decision, error) {
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
	if m.Standing == protocol.Included {
		f.Record.Hash = wanted.Hash()
	}
	f.Approved = protocol.Intent{Action: connector.ActionUpdate, Customer: p.BillingID, Hash: f.Record.Hash} // the change the plan would allow
	f.Approved.Unlinks = f.Words.Unlink != 0
	f.Mandate.Approved, f.Mandate.Again = true, r.Settings.again()
	d.Left = m.Standing == protocol.Excluded || m.Standing == protocol.Gone
	other, err := r.contest(ctx, &f, c, m)
	if err != nil {
		return d, err
	}
	d.Contested = other != ""
	if p.Seen { // the state follows from the same facts as the finding: a doubled key may be gone
		d.LinkState = protocol.Decide(f).Link
	}
	f.AsRead()
	next := protocol.Decide(f)
	step, asking := next.Customer, next.Mandate
	d.OfMandate, d.Awaited = asking.Reason, r.awaited(f, asking)
	if m.Standing == protocol.Excluded || d.Left && step.Do == protocol.Nothing {
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
		return r.tellLinked(ctx, d, c, m, f, next, other)
	case protocol.Update:
		d.Customer = &state.NewChange{Action: connector.ActionUpdate, Wanted: wanted, BillingID: p.BillingID, Diff: connector.Diff(have, wanted)}
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

// contest adds to the facts of a linked payer the rivals for its key, or for its customer's future key: the present key
// is then left to others. It returns the rival record, "" for none.
func (r *run) contest(ctx context.Context, f *protocol.Facts, c state.Candidate, m rendered) (other string, err error) {
	if !c.Payer.MovesTo(m.Result.Key) {
		other = r.rivalOf(c)
	} else {
		var taken []string
		if other, taken, err = r.inTheWay(ctx, *c.Payer, m.Result.Key); len(taken) > 0 {
			f.Holders = protocol.Several
		}
	}
	if other != "" {
		f.Rival = protocol.RivalRecord
	}
	return other, err
}

// inTheWay returns the record with the future key of a payer's customer, "" for none, and the customers already
// carrying it.
func (r *run) inTheWay(ctx context.Context, p state.Payer, key connector.Key) (record string, customers []string, err error) {
	if r.claims != nil { // in a forecast the payer itself counts under its key
		if r.claims.of(key) > 0 {
			record = "another"
		}
	} else if record, err = r.rival(ctx, key, p.SourceID); err != nil {
		return "", nil, err
	}
	customers, err = r.Ledger.KeyHolders(ctx, key)
	return record, slices.DeleteFunc(customers, func(id string) bool { return id == p.BillingID }), err
}

// tellLinked reports a linked payer's findings to people. other is the record with the same key.
func (r *run) tellLinked(ctx context.Context, d state.Decision, c state.Candidate, m rendered, f protocol.Facts, next protocol.Outcome, other string) (state.Decision, error) {
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
		detail = leftDetail(c, f)
	case m.Standing == protocol.Gone:
		detail = gone(c) + ". Nothing was removed in the billing service."
	case m.Standing == protocol.Unfit:
		detail = m.problem
	case reason == connector.ReasonForeignChange && f.Link.Answered == "": // not of the last update, which has its own finding
		detail = reason.Sentence()
	}
	return d.Because(reason, detail), err
}

// base returns our part of a payer's customer, to tell it from the edits of others. This is the last applied version,
// or the frozen body of a create with a lost answer. It is nil if we wrote nothing.
func (r *run) base(ctx context.Context, p state.Payer) (*connector.Customer, error) {
	if p.Applied != nil || p.BillingID == "" {
		return p.Applied, nil
	}
	return r.Ledger.SentCreate(ctx, p)
}

// showBefore makes a change show its effect on the customer as last read. Without a read, or if the customer cannot be
// merged (the act reports this), the change shows the known values.
func (r *run) showBefore(c *state.NewChange, base *connector.Customer, seen *sight) {
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
	record := protocol.Record{Standing: protocol.Included, Key: res.Key.ID(), Hash: s.made.Hash, Mandate: res.RequestMandate}
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
			why = cmp.Or(why, k.spentBy(*seen))
		}
		if k.byWord && why != "" && k.word.Spent == "" && r.id != 0 { // a forecast notes nothing
			if err := r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.SpendWord(r.conn.Name, d.SourceID, k.word.BillingID, why) }); err != nil {
				return d, err
			}
			continue
		}
		next := protocol.Decide(k.facts)
		step := next.Customer
		if step.Do == protocol.ReadList && !looked && r.id != 0 { // a forecast asks the ledger alone
			if _, err := r.believeAfter(ctx, k.over); err != nil {
				return d, err
			}
			continue
		}
		if r.id == 0 && k.facts.Holders == protocol.Free && k.facts.Holder != c.Adopting {
			if err := r.judgeUnseen(ctx, &k, owned); err != nil {
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
func (r *run) asksOnceAdopted(f protocol.Facts, seen *sight) bool {
	if seen == nil || seen.missing || seen.customer.Mandate == nil {
		return true
	}
	f.Link.Customer, f.Holders, f.Holder = seen.customer.ID, protocol.Own, seen.customer.ID
	f.Mandate.Status, f.Mandate.Link = seen.customer.Mandate.Status, seen.customer.Mandate.URL != ""
	f.Mandate.Approved, f.Mandate.Again = true, r.Settings.again()
	step := protocol.Decide(f).Mandate
	return step.Do != protocol.Nothing || step.Reason != ""
}

// baseOfNew is base for a payer not yet linked to its customer.
func (r *run) baseOfNew(ctx context.Context, c state.Candidate, id string) (*connector.Customer, error) {
	if c.Payer == nil {
		return nil, nil
	}
	p := *c.Payer
	p.BillingID = id
	return r.base(ctx, p)
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
				d.Customer.Diff = slices.DeleteFunc(d.Customer.Fields(), func(f connector.FieldChange) bool { return slices.Contains(lost, f.Path) })
			}
		}
		return d
	}
	if d.Waits = step.Do != protocol.Tell; d.Waits {
		r.waitsUntil(k.until)
	}
	d.LinkState, d.Topic, d.Contested = next.Link, state.Topic(protocol.LaneOf(step.Reason)), k.rival != ""
	reason := k.told(step.Reason)
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

// guard checks the plan against the limits. A plan above them needs approval and waits until then. If the operator has
// enabled it and nobody has rejected the plan, kinds of change within their own limits go ahead. Changes left out by a
// person always wait. A rejected plan is not offered again. If the plan would lose too many payers, all of it waits and
// the run stands still.
func (r *run) guard(ctx context.Context, plan state.Plan) (state.Plan, error) {
	linked := 0
	if plan.Open.Changes+plan.Open.Identity > 0 { // of nothing, the share is nothing
		var err error
		if linked, err = r.Ledger.LinkedCount(ctx, r.conn.Name); err != nil {
			return plan, err
		}
	}
	var err error
	if plan.Stops, err = r.stopsOf(ctx, plan); err != nil {
		return plan, err
	}
	waits := strings.TrimSpace(state.LeftOut(plan.Open.LeftOut) + " " + state.StopsText(plan.Stops)) // regardless of the limits
	plan.Limits = strings.TrimSpace(r.Settings.Guards.stops(plan.Losses, plan.Open, linked) + " " + state.StopsText(plan.Stops))
	if plan.Lost > 0 && (r.opts.Approve == nil || r.opts.Kind == connector.RunPlan) {
		return plan, r.standStill(ctx, plan)
	}
	if plan.State == state.PlanRejected {
		r.tell(Rejected(plan))
		return plan, nil
	}
	if r.opts.Approve == nil {
		if err := r.letWithin(ctx, &plan, linked); err != nil {
			return plan, err
		}
	}
	if r.opts.Kind == connector.RunPlan {
		switch {
		case plan.Limits != "":
			plan.State = state.PlanWaiting
		case plan.State == state.PlanWaiting:
			plan.State = state.PlanDraft // the limits were raised
		}
		return plan, r.setPlan(ctx, plan, plan.State)
	}
	if plan.Limits == "" {
		return plan, r.Ledger.DoAlone(ctx, func(tx *state.Tx) error { return tx.ApproveWithinLimits(plan.ID) })
	}
	if plan.Limits == waits { // everything else is within the limits
		return plan, r.Ledger.DoAlone(ctx, func(tx *state.Tx) error {
			return errors.Join(tx.ApproveWithinLimits(plan.ID), tx.SetPlanState(plan.ID, state.PlanWaiting, waits))
		})
	}
	return r.ask(ctx, plan, waits)
}

// ask asks for approval of a plan above the limits. Without approval the plan waits. With approval, only the changes on
// hold for other reasons wait.
func (r *run) ask(ctx context.Context, plan state.Plan, waits string) (state.Plan, error) {
	if r.opts.Approve == nil {
		return plan, r.setPlan(ctx, plan, state.PlanWaiting)
	}
	approved, err := r.opts.Approve(plan)
	if err != nil {
		return plan, err
	}
	switch {
	case !approved && plan.Lost > 0:
		return plan, r.standStill(ctx, plan)
	case !approved:
		return plan, r.setPlan(ctx, plan, state.PlanWaiting)
	case plan.Lost > 0:
		r.tell(fmt.Sprintf("%s They were let go, as plan %d says.", r.Settings.Guards.Losses(plan.Losses), plan.ID))
	}
	if waits != "" {
		plan.Limits = waits
		return plan, r.Ledger.DoAlone(ctx, func(tx *state.Tx) error { return tx.ApproveOpen(plan.ID, r.opts.Actor, waits) })
	}
	if err := r.Ledger.DoAlone(ctx, func(tx *state.Tx) error {
		// Refused changes planned again make the same plan as one approved earlier.
		if err := tx.SetPlanState(plan.ID, state.PlanWaiting, plan.Limits); err != nil {
			return err
		}
		return tx.Approve(plan.ID, r.opts.Actor)
	}); err != nil {
		return plan, err
	}
	plan.State, plan.Limits = state.PlanApproved, ""
	return plan, nil
}

// standStill leaves a plan to a person because it would lose too many payers.
func (r *run) standStill(ctx context.Context, plan state.Plan) error {
	plan.State = state.PlanWaiting
	if err := r.setPlan(ctx, plan, plan.State); err != nil {
		return err
	}
	r.plan = &plan
	return &Standstill{plan}
}

// letWithin releases the changes of a plan above the limits if their kind is within its own limit and the operator has
// enabled it. It notes this beside the limits. A run in plan mode only adds the note.
func (r *run) letWithin(ctx context.Context, plan *state.Plan, linked int) error {
	over := r.Settings.Guards.Over(plan.Open, linked)
	if !r.Settings.Guards.HoldOnlyAbove || over == (state.Over{}) {
		return nil
	}
	return r.Ledger.DoAlone(ctx, func(tx *state.Tx) error {
		n, err := tx.WithinCount(plan.ID, over)
		if err != nil || n == 0 {
			return err
		}
		plan.Limits += " " + state.Within(n)
		if r.opts.Kind == connector.RunPlan {
			return nil
		}
		return tx.ApproveWithin(plan.ID, over)
	})
}

// Rejected describes the effect of a rejected plan.
func Rejected(p state.Plan) string {
	return fmt.Sprintf("Plan %d was rejected by %s: nothing of it is sent while it says the same. See it with payersync plans show %[1]d; payersync approve %[1]d sends it all the same.", p.ID, p.RejectedBy)
}

// released reports whether something of the plan was approved, though the plan waits.
func (r *run) released(ctx context.Context) (bool, error) {
	customers, err := r.Ledger.ReleasedCount(ctx, r.conn.Name, state.LaneCustomer)
	if err != nil || customers > 0 {
		return customers > 0, err
	}
	links, err := r.Ledger.ReleasedCount(ctx, r.conn.Name, state.LaneMandate)
	return links > 0, err
}

func (r *run) setPlan(ctx context.Context, plan state.Plan, to state.PlanState) error {
	return r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.SetPlanState(plan.ID, to, plan.Limits) })
}
