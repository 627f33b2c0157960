package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/connector/syncer"
	"payersync/state"
)

// PairWord is a person's decision on a record and a customer of the billing service.
type PairWord struct {
	SourceID, BillingID string
	Says                state.PairVerdict
}

// String names the pair.
func (w PairWord) String() string { return w.SourceID + " = " + w.BillingID }

// PairNotSaid means a decision was refused, so none of the decisions with it were noted.
type PairNotSaid struct {
	PairWord
	Err error
}

// Error says why.
func (e *PairNotSaid) Error() string { return e.Err.Error() }

// Unwrap returns why.
func (e *PairNotSaid) Unwrap() error { return e.Err }

// SayOfPairs notes words on pairs of a connection, all of them or none, each with an entry in the audit log.
// Nothing is sent: the next plan uses them. It fails with a *PairNotSaid.
func SayOfPairs(ctx context.Context, ledger *state.Ledger, connection string, words []PairWord,
	by syncer.Operator) error {
	return ledger.Do(ctx, func(tx *state.Tx) error { return sayOfPairs(tx, connection, words, by) })
}

func sayOfPairs(tx *state.Tx, connection string, words []PairWord, by syncer.Operator) error {
	for _, w := range words {
		if err := syncer.SayPair(tx, state.RecordID{Connection: connection, SourceID: w.SourceID}, w.BillingID, w.Says,
			by); err != nil {
			return &PairNotSaid{w, err}
		}
	}
	return nil
}

// Likelihood is a group of records similar to customers.
type Likelihood string

// The groups, in display order.
const (
	// one customer alone, name and e-mail address are equal, nothing speaks against it, and no other record of ours
	// claims it
	Likely  Likelihood = "likely"
	Unclear Likelihood = "unclear" // one customer alone, for no other record of ours
	Several Likelihood = "several" // more than one customer, or another record of ours claims the customer
)

// Likelihoods are all groups, in their order.
var Likelihoods = []Likelihood{Likely, Unclear, Several}

// Likeness is a record without a customer, similar to one of the billing service; payers match lists it too.
type Likeness struct {
	state.RecordID
	Since      string
	Group      Likelihood
	Candidates []state.MatchCandidate // the best first
	Claimed    bool                   // another record of ours looks like the same customer, or was said to be it
}

// Matches provides records similar to customers, and the decisions on them.
type Matches struct {
	Ledger *state.Ledger
	Syncer *syncer.Syncer
	// a connection with the mapping in force
	Stored      func(ctx context.Context, connection string) (syncer.Connection, error)
	Connections []string
	Ahead       *Ahead // customers read ahead; it outlives these Matches
	Board       *Board // the waiting records; it outlives them, too

	shown []string // the connections visible to the user; nil for all
}

// LimitedTo returns the matches limited to some connections. Competing claims to a customer still count in all
// connections.
func (m *Matches) LimitedTo(connections []string) *Matches {
	only := *m
	if only.shown = connections; connections == nil {
		only.shown = []string{}
	}
	return &only
}

func (m *Matches) shows(connection string) bool {
	return m.shown == nil || slices.Contains(m.shown, connection)
}

// seen returns the visible part of the waiting records.
func (m *Matches) seen(w Waiting, err error) (Waiting, error) {
	if m.shown != nil {
		w.Rows = slices.DeleteFunc(slices.Clone(w.Rows), func(l Likeness) bool { return !m.shows(l.Connection) })
		w.Unread = slices.DeleteFunc(slices.Clone(w.Unread), func(u Unread) bool { return !m.shows(u.Connection) })
	}
	return w, err
}

// Waiting returns the records waiting for a decision from Board's cache, by group, then by age. It excludes records
// already decided, even though their findings stay in the ledger until the next run. It also excludes postponed records
// and connections no longer configured.
func (m *Matches) Waiting(ctx context.Context) (Waiting, error) {
	commits, err := m.Ledger.Commits(ctx)
	if err != nil {
		return Waiting{}, err
	}
	return m.seen(m.Board.latest(ctx, commits, m.workOut))
}

// Now is Waiting computed from the ledger's present state; for many records this takes seconds.
func (m *Matches) Now(ctx context.Context) (Waiting, error) { return m.seen(m.workOut(ctx)) }

// workOut returns the waiting records of all connections.
func (m *Matches) workOut(ctx context.Context) (Waiting, error) {
	now := Waiting{At: m.Ledger.Now()}
	claims, err := decidedClaims(ctx, m.Ledger, m.Connections)
	if err != nil {
		return now, err
	}
	for _, connection := range m.Connections {
		open, err := m.Ledger.OpenMatches(ctx, connection)
		if err != nil || len(open) == 0 {
			if err != nil {
				return now, err
			}
			continue
		}
		conn, err := m.Stored(ctx, connection)
		if ctx.Err() != nil {
			return now, ctx.Err()
		}
		if err != nil {
			now.Unread = append(now.Unread, unread(connection, err))
			continue
		}
		for _, o := range open {
			for _, c := range o.Candidates {
				claims[c.BillingID]++
			}
			if _, waits, err := m.Syncer.UnlinkedOne(ctx, conn, o.SourceID); err != nil {
				return now, err
			} else if waits && !o.PutOff {
				now.Rows = append(now.Rows,
					Likeness{RecordID: state.RecordID{Connection: connection, SourceID: o.SourceID}, Since: o.Since,
						Candidates: o.Candidates})
			}
		}
	}
	for i := range now.Rows {
		now.Rows[i].judge(claims)
	}
	slices.SortStableFunc(now.Rows, CompareLikeness)
	return now, nil
}

// CompareLikeness orders by group, then by age.
func CompareLikeness(a, b Likeness) int {
	return cmp.Or(cmp.Compare(slices.Index(Likelihoods, a.Group), slices.Index(Likelihoods, b.Group)),
		cmp.Compare(a.Since, b.Since), compare(a.RecordID, b.RecordID))
}

// leastLikely is the minimum score of a pair without objections and without another good match.
const leastLikely = 60

// Sides returns both sides of a record's best match, as the ledger knows them.
func (m *Matches) Sides(ctx context.Context, l Likeness) (ours, theirs match.Side, err error) {
	u, _, err := m.Wanted(ctx, l.RecordID)
	if err != nil {
		return ours, theirs, err
	}
	found, err := m.Ledger.ProfilesOf(ctx, l.Candidates[0].BillingID)
	if err != nil {
		return ours, theirs, err
	}
	var customer match.Customer
	if len(found) > 0 {
		customer.RemoteCustomer = found[0].RemoteCustomer
	}
	ours, theirs = match.Sides(match.Record{ID: u.SourceID, Want: u.Want}, customer)
	return ours, theirs, nil
}

// judge assigns the record to its group.
func (l *Likeness) judge(claims map[string]int) {
	for _, c := range l.Candidates {
		l.Claimed = l.Claimed || claims[c.BillingID] > 1
	}
	name, email := match.Equal(l.Candidates[0].Reasons)
	switch {
	case len(l.Candidates) > 1 || l.Claimed:
		l.Group = Several
	case name && email && l.Candidates[0].Score >= leastLikely:
		l.Group = Likely
	default:
		l.Group = Unclear
	}
}

// GroupsOf groups what was found for the records of a connection, as Waiting does. Records that are like taken
// customers only are in no group.
func GroupsOf(ctx context.Context, ledger *state.Ledger, connections []string, connection string,
	found []match.Suggestion) (map[string]Likelihood, error) {
	claims, err := decidedClaims(ctx, ledger, connections)
	if err != nil {
		return nil, err
	}
	for _, other := range connections {
		if other == connection {
			continue
		}
		open, err := ledger.OpenMatches(ctx, other)
		if err != nil {
			return nil, err
		}
		for _, o := range open {
			for _, c := range o.Candidates {
				claims[c.BillingID]++
			}
		}
	}
	for _, s := range found {
		for _, p := range s.Free() {
			claims[p.Customer]++
		}
	}
	groups := map[string]Likelihood{}
	for _, s := range found {
		l := Likeness{}
		for _, p := range s.Free() {
			l.Candidates = append(l.Candidates, state.MatchCandidate{BillingID: p.Customer, Score: p.Score, Reasons: p.Codes})
		}
		if len(l.Candidates) > 0 {
			l.judge(claims)
			groups[s.Record] = l.Group
		}
	}
	return groups, nil
}

// decidedClaims returns how many records people have linked to each customer.
func decidedClaims(ctx context.Context, ledger *state.Ledger, connections []string) (claims map[string]int, err error) {
	claims = map[string]int{}
	for _, c := range connections {
		words, err := ledger.PairDecisions(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, w := range words {
			if w.Word == state.WordAccept {
				claims[w.BillingID]++
			}
		}
	}
	return claims, nil
}

// Wanted returns a record as the mapping makes a customer of it.
func (m *Matches) Wanted(ctx context.Context, id state.RecordID) (u syncer.Unlinked, waits bool, err error) {
	conn, err := m.Stored(ctx, id.Connection)
	if err != nil {
		return u, false, err
	}
	return m.Syncer.UnlinkedOne(ctx, conn, id.SourceID)
}

// Beside reads a customer for a person to compare it with a record, or returns what was read of
// the two in the last minutes.
func (m *Matches) Beside(ctx context.Context, id state.RecordID, billingID string) (syncer.Holder, error) {
	return m.Ahead.read(ctx, pairOf{id, billingID}, m.Ledger.Now, m.read)
}

// Again is Beside, and reads the customer in any case.
func (m *Matches) Again(ctx context.Context, id state.RecordID, billingID string) (syncer.Holder, error) {
	return m.Ahead.again(ctx, pairOf{id, billingID}, m.Ledger.Now, m.read)
}

// AcceptedBy returns the effect of linking a record to the customer that was read beside it.
func AcceptedBy(id state.RecordID, h syncer.Holder) Preview {
	return Proposal{Decision: Decision{Act: connector.ActAccept, Record: id, Customer: h.Customer}, Holder: &h}.Preview()
}

func (m *Matches) read(ctx context.Context, p pairOf) (syncer.Holder, error) {
	conn, err := m.Stored(ctx, p.Connection)
	if err != nil {
		return syncer.Holder{}, err
	}
	return m.Syncer.PairOf(ctx, conn, p.SourceID, p.customer)
}

// readAhead is of how many pairs customers are read before somebody asks.
const readAhead = 5

// ReadAhead reads the customers for Beside in the background, five at most.
func (m *Matches) ReadAhead(next []Likeness) {
	pairs := connector.Map(next[:min(readAhead, len(next))],
		func(l Likeness) pairOf { return pairOf{l.RecordID, l.Candidates[0].BillingID} })
	m.Ahead.begin(pairs, m.Ledger.Now, m.read)
}

// Link notes the decision to link a record to a customer, as Again has just read it. It sends nothing: the next run
// links the customer, within its limits. In Link, Apart and SayAll, the first of two people to decide wins; the other
// gets state.ErrDecidedMeanwhile.
func (m *Matches) Link(ctx context.Context, id state.RecordID, h syncer.Holder, by syncer.Operator) error {
	if by.Reason == "" {
		return syncer.ErrReasonNeeded
	}
	if err := m.Syncer.AcceptUndecided(ctx, h, by); err != nil {
		return err
	}
	m.Board.decide(id)
	return nil
}

// Apart notes the decision to rule out these customers for a record. It sends nothing: the next run checks the record
// again, and creates a customer if it resembles no other.
func (m *Matches) Apart(ctx context.Context, id state.RecordID, customers []string, by syncer.Operator) error {
	words := connector.Map(customers, func(c string) PairWord { return PairWord{id.SourceID, c, state.WordReject} })
	if err := m.Ledger.Do(ctx,
		func(tx *state.Tx) error { return sayUndecided(tx, id.Connection, words, by) }); err != nil {
		return err
	}
	m.Board.decide(id)
	return nil
}

// sayUndecided is sayOfPairs for a person to whom the pairs were shown as undecided.
func sayUndecided(tx *state.Tx, connection string, words []PairWord, by syncer.Operator) error {
	for _, w := range words {
		if err := tx.CheckPairDecision(connection, w.SourceID, w.BillingID, w.Says); err != nil {
			return &PairNotSaid{w, err}
		}
	}
	return sayOfPairs(tx, connection, words, by)
}

// SayAll notes words by connection, all of them or none, as SayOfPairs does.
func (m *Matches) SayAll(ctx context.Context, words map[string][]PairWord, by syncer.Operator) error {
	err := m.Ledger.Do(ctx, func(tx *state.Tx) error {
		for connection, of := range words {
			if err := sayUndecided(tx, connection, of, by); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var ids []state.RecordID
	for connection, of := range words {
		for _, w := range of {
			ids = append(ids, state.RecordID{Connection: connection, SourceID: w.SourceID})
		}
	}
	m.Board.decide(ids...)
	return nil
}

// Pair is a record and a customer, linked or ruled out by a decision.
type Pair struct {
	state.RecordID
	BillingID string
}

// Left is a pair with a decision not undone, and the reason: state.ErrLinkedAlready (a change was sent since),
// state.ErrUnderWay (a request is in flight), or state.ErrNoPairDecision (no decision is left to undo).
type Left struct {
	Pair
	Why error
}

// TakeBack undoes the decisions on pairs, as long as nothing was sent since, each with an entry in the audit log. It
// returns the unchanged pairs.
func (m *Matches) TakeBack(ctx context.Context, pairs []Pair, by syncer.Operator) (left []Left, err error) {
	var back []state.RecordID
	err = m.Ledger.Do(ctx, func(tx *state.Tx) error {
		left, back = nil, nil
		for _, p := range pairs {
			if !m.shows(p.Connection) {
				left = append(left, Left{p, state.ErrNoPairDecision})
				continue
			}
			switch err := takeWordBack(tx, p, by); {
			case errors.Is(err, state.ErrLinkedAlready), errors.Is(err, state.ErrUnderWay), errors.Is(err, state.ErrNoPairDecision):
				left = append(left, Left{p, err})
				continue
			case err != nil:
				return err
			}
			back = append(back, p.RecordID)
		}
		return nil
	})
	if err == nil {
		m.Board.undecide(back...)
	}
	return left, err
}

// takeWordBack undoes the decision on one pair, with an entry in the audit log.
func takeWordBack(tx *state.Tx, p Pair, by syncer.Operator) error {
	if err := tx.RevokePairDecision(p.Connection, p.SourceID, p.BillingID); err != nil {
		return err
	}
	return tx.Audit(state.Entry{Actor: by.Name, Action: "take match back", Subject: p.Connection + "/" +
		PairWord{SourceID: p.SourceID, BillingID: p.BillingID}.String(), Reason: by.Reason})
}

// NotHad reports whether an error means a customer is unavailable for a record, as opposed to unreadable.
func NotHad(err error) bool {
	for _, why := range []error{syncer.ErrCarriesAnother, syncer.ErrNoCustomer, syncer.ErrNotSent, state.ErrLinkedAlready,
		state.ErrCustomerTaken, state.ErrAccepted, state.ErrUnderWay, state.ErrDecidedMeanwhile, state.ErrNoRecord,
		state.ErrNoPairDecision} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}
