package syncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/state"
)

// candidatesKept is the number of pairs of a record returned by Match besides the proposed pair: all pairs kept by
// match.Find.
const candidatesKept = 16

// matching holds the data for comparing a connection's unlinked records.
type matching struct {
	*Syncer
	conn      Connection
	decided   map[string]bool          // records with a person's decision
	rejected  map[[2]string]bool       // a record and a customer rejected as a pair by a person
	promised  map[string]string        // the record of an accepted match, by customer
	keyNames  map[string]bool          // names of our keys
	unclaimed map[string]connector.Key // a customer's key without a record, by customer
}

// Match compares each stored record without a customer with all customers of the index, and stores the candidates of
// each record. It returns the suggestions, best first, including customers already taken. All displays and counts of
// candidates use this result. The customers come from the last list of the service.
func (s *Syncer) Match(ctx context.Context, conn Connection) ([]match.Suggestion, error) {
	newest, _, err := s.Ledger.UnmatchedProfiles(ctx, conn.Name)
	if err != nil {
		return nil, err
	}
	if err := s.noteUnclaimed(ctx, conn, true); err != nil {
		return nil, err
	}
	found, err := s.matchAll(ctx, conn, newest)
	if err != nil {
		return nil, err
	}
	return found, s.Ledger.Do(ctx,
		func(tx *state.Tx) error { return tx.RecountFirstMatching(conn.Name, conn.Mapping.KeyName()) })
}

// matchAll is Match with the stored facts about the customers' keys.
func (s *Syncer) matchAll(ctx context.Context, conn Connection, newest int64) ([]match.Suggestion, error) {
	m, err := s.newMatching(ctx, conn)
	if err != nil {
		return nil, err
	}
	found, err := match.Find(ctx, m.records(ctx), m.customers(ctx),
		match.Settings{RunnersUp: candidatesKept, Rejected: m.isRejected})
	if err != nil {
		return nil, fmt.Errorf("compare records with customers: %w", err)
	}
	var candidates []state.MatchCandidate
	for _, f := range found {
		candidates = append(candidates, candidatesOf(f)...)
	}
	return found, s.saveCandidates(ctx, conn, newest, candidates)
}

func (s *Syncer) saveCandidates(ctx context.Context, conn Connection, upTo int64,
	candidates []state.MatchCandidate) error {
	return s.Ledger.DoAlone(ctx, func(tx *state.Tx) error { return tx.SaveMatchCandidates(conn.Name, upTo, candidates) })
}

// ShowPairs fills in both sides of every pair of some suggestions, as the ledger knows them.
func (s *Syncer) ShowPairs(ctx context.Context, conn Connection, suggestions []match.Suggestion) error {
	m, err := s.newMatching(ctx, conn)
	if err != nil {
		return err
	}
	for i := range suggestions {
		for _, p := range suggestions[i].Pairs() {
			if key := m.unclaimed[p.Customer]; key.Value != "" {
				p.Carries = key.String()
			}
		}
	}
	return match.Show(suggestions, m.records(ctx), m.customers(ctx))
}

func candidatesOf(f match.Suggestion) (out []state.MatchCandidate) {
	for _, p := range f.Free() {
		out = append(out, state.MatchCandidate{SourceID: p.Record, BillingID: p.Customer, Score: p.Score, Reasons: p.Codes})
	}
	return out
}

// newMatching reads people's decisions on records and customers.
func (s *Syncer) newMatching(ctx context.Context, conn Connection) (*matching, error) {
	m := &matching{Syncer: s, conn: conn, decided: map[string]bool{}, rejected: map[[2]string]bool{},
		keyNames: map[string]bool{conn.Mapping.KeyName(): true}}
	said, err := s.Ledger.PairDecisions(ctx, conn.Name)
	if err != nil {
		return nil, err
	}
	for _, w := range said {
		switch {
		case w.Word == state.WordAccept:
			m.decided[w.SourceID] = true
		case w.Apart():
			m.rejected[[2]string{w.SourceID, w.BillingID}] = true
		}
	}
	if m.promised, err = s.Ledger.PendingLinksByCustomer(ctx); err != nil {
		return nil, err
	}
	if m.unclaimed, err = s.Ledger.UnclaimedKeys(ctx, conn.Name, conn.Mapping.KeyName()); err != nil {
		return nil, err
	}
	names, err := s.Ledger.KeyNames(ctx)
	for _, name := range names {
		m.keyNames[name] = true
	}
	return m, err
}

func (m *matching) isRejected(record, customer string) bool {
	return m.rejected[[2]string{record, customer}]
}

// records yields sendable records without a customer and without a person's decision.
func (m *matching) records(ctx context.Context) match.Pages[match.Record] {
	return func(yield func([]match.Record, error) bool) {
		err := m.eachUnlinked(ctx, m.conn, func(page []Unlinked) error {
			var records []match.Record
			for _, u := range page {
				if !m.decided[u.SourceID] {
					records = append(records, match.Record{ID: u.SourceID, Want: u.Want})
				}
			}
			if !yield(records, nil) {
				return errStopReading
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopReading) {
			yield(nil, err)
		}
	}
}

// errStopReading stops a read early because the consumer needs no more rows.
var errStopReading = errors.New("the reader wants no more")

// customers yields the customers of the index. It marks unlinked customers not open to a proposal.
func (m *matching) customers(ctx context.Context) match.Pages[match.Customer] {
	return func(yield func([]match.Customer, error) bool) {
		for page, err := range m.indexed(ctx) {
			for i, c := range page {
				if c.Taken == "" {
					page[i].Taken = m.taken(c.RemoteCustomer)
				}
			}
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}

// indexed yields first the unlinked customers of the index, as last read, then the linked customers, as written. A
// customer linked during the iteration is yielded once.
func (s *Syncer) indexed(ctx context.Context) match.Pages[match.Customer] {
	return func(yield func([]match.Customer, error) bool) {
		free := connector.NewIDs()
		for page, err := range s.Ledger.Profiles(ctx) {
			customers := make([]match.Customer, len(page))
			for i, p := range page {
				customers[i] = match.Customer{RemoteCustomer: p.RemoteCustomer}
				free.Add(p.ID)
			}
			if !yield(customers, err) || err != nil {
				return
			}
		}
		for page, err := range s.Ledger.LinkedPages(ctx) {
			var customers []match.Customer
			for _, p := range page {
				if p.Applied != nil && !free.Has(p.BillingID) {
					customers = append(customers, linkedCustomer(p))
				}
			}
			if !yield(customers, err) || err != nil {
				return
			}
		}
	}
}

// taken returns the reason against proposing an unlinked customer; "" if there is none.
func (m *matching) taken(c connector.RemoteCustomer) string {
	if record := m.promised[c.ID]; record != "" {
		return "accepted for record " + record
	}
	for name := range m.keyNames {
		if key := connector.KeyIn(c.ExternalData, name); key.Value != "" && key.Indexed() != m.unclaimed[c.ID] {
			return fmt.Sprintf("carries the key %s", key)
		}
	}
	return ""
}

// MarkTaken marks the customers not open to a proposal, with the reason. A list may omit externalData, so values from
// earlier reads count too.
func (s *Syncer) MarkTaken(ctx context.Context, conn Connection, customers []*match.Customer) error {
	m, err := s.newMatching(ctx, conn)
	if err != nil {
		return err
	}
	for _, c := range customers {
		pairs, err := s.Ledger.Pairs(ctx, c.ID)
		if err != nil {
			return err
		}
		if pairs == nil {
			pairs = map[string]string{}
		}
		maps.Copy(pairs, c.ExternalData)
		c.Taken = m.taken(connector.RemoteCustomer{ID: c.ID, ExternalData: pairs})
		_, record, err := s.Ledger.LinkedTo(ctx, c.ID)
		if err != nil {
			return err
		}
		if record != "" {
			c.Taken = "linked to record " + record
		}
	}
	return nil
}

// linkedCustomer returns a payer's customer as it was written last.
func linkedCustomer(p state.Payer) match.Customer {
	c := connector.RemoteCustomer{ID: p.BillingID, Name: p.Applied.Name, Addresses: p.Applied.Addresses,
		ExternalData: p.Applied.ExternalData}
	for _, person := range p.Applied.People {
		c.Emails, c.Phones = append(c.Emails, person.Email), append(c.Phones, person.Phone)
	}
	return match.Customer{RemoteCustomer: c, Taken: "linked to record " + p.SourceID}
}

// match compares the records of the run's connection with the customers of the index, unless the operator goes by
// keys alone.
func (r *run) match(ctx context.Context) error {
	if r.noProof != nil {
		return nil
	}
	if err := r.noteUnclaimed(ctx, r.conn, !r.undecided); err != nil || r.Settings.Adopt == AdoptExact {
		return err
	}
	newest, _, err := r.Ledger.UnmatchedProfiles(ctx, r.conn.Name)
	switch {
	case err != nil:
		return err
	case newest == 0: // no customer is free
		return r.saveCandidates(ctx, r.conn, 0, nil)
	}
	r.progress("match", 0, 0)
	_, err = r.matchAll(ctx, r.conn, newest)
	return err
}

// matchNews calls match if the index has new customers since the last match.
func (r *run) matchNews(ctx context.Context) error {
	_, news, err := r.Ledger.UnmatchedProfiles(ctx, r.conn.Name)
	if err != nil || !news {
		return err
	}
	return r.match(ctx)
}

// candidates returns the possible customers of a record, best first. It first compares the record with newer customers
// of the same name or e-mail address.
func (r *run) candidates(ctx context.Context, sourceID string, want connector.Customer,
	keyName string) ([]state.MatchCandidate, error) {
	known, err := r.Ledger.MatchCandidates(ctx, r.conn.Name, sourceID)
	if err != nil || len(known) > 0 {
		return known, err
	}
	ids, err := r.Ledger.Alike(ctx, want, keyName, r.conn.Name, sourceID)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	found, err := r.matchOne(ctx, sourceID, want, ids)
	if err != nil || r.id == 0 { // a forecast notes nothing
		return found, err
	}
	return found, r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.AddMatchCandidates(r.conn.Name, found) })
}

// matchOne compares a record with customers of the same name or e-mail address.
func (r *run) matchOne(ctx context.Context, sourceID string, want connector.Customer,
	ids []string) ([]state.MatchCandidate, error) {
	profiles, err := r.Ledger.ProfilesOf(ctx, ids...)
	if err != nil {
		return nil, err
	}
	customers := connector.Map(profiles,
		func(p state.Profile) match.Customer { return match.Customer{RemoteCustomer: p.RemoteCustomer} })
	found, err := match.Find(ctx, match.All([]match.Record{{ID: sourceID, Want: want}}), match.All(customers),
		match.Settings{RunnersUp: candidatesKept})
	if err != nil {
		return nil, err
	}
	var out []state.MatchCandidate
	known := map[string]bool{}
	for _, f := range found {
		for _, c := range candidatesOf(f) {
			out, known[c.BillingID] = append(out, c), true
		}
	}
	for _, id := range ids { // the index has only their hashes
		if !known[id] {
			out = append(out, state.MatchCandidate{SourceID: sourceID, BillingID: id})
		}
	}
	return out, nil
}

// alikeDetail lists the possible customers of a record with scores and reasons.
func alikeDetail(found []state.MatchCandidate) string {
	const most = 3
	text := ""
	for _, c := range found[:min(most, len(found))] {
		why := cmp.Or(match.Why(c.Reasons), "same name or e-mail")
		text += fmt.Sprintf("The customer %s in the billing service may be this one: score %d of 100 (%s). ", c.BillingID,
			c.Score, why)
	}
	if len(found) > most {
		text += fmt.Sprintf("So may %d more. ", len(found)-most)
	}
	return text + "Nothing is sent before you decide."
}

// eachUnlinked passes the sendable stored records of a connection without a customer to do, page by page. It reads only
// the ledger.
func (s *Syncer) eachUnlinked(ctx context.Context, conn Connection, do func([]Unlinked) error) error {
	r := &run{Syncer: s, conn: conn}
	for after := ""; ; {
		page, err := s.Ledger.StoredUnlinked(ctx, conn.Name, conn.Mapping.Version(), conn.Info.Snapshot, after, storedPage)
		if err != nil || len(page) == 0 {
			return err
		}
		var out []Unlinked
		for _, stored := range page {
			u, waits, err := r.unlinked(stored)
			if err != nil {
				return err
			}
			if waits {
				out = append(out, u)
			}
		}
		if err := do(out); err != nil {
			return err
		}
		after = page[len(page)-1].Record.SourceID
	}
}

// foundBySearch reports whether a search hit may be the record's customer, so a person must decide before a create. The
// hit has the record's name or an e-mail address of it. It is unlinked, carries no key of another record, and no person
// has ruled the pair out.
func (r *run) foundBySearch(ctx context.Context, c state.Change, hit connector.RemoteCustomer) (bool, error) {
	if r.Settings.Adopt == AdoptExact || !match.Alike(c.Wanted, hit) {
		return false, nil
	}
	if carried := connector.KeyIn(hit.ExternalData, c.Payer.Key.Name); carried.Value != "" {
		unclaimed, err := r.Ledger.UnclaimedKeyOf(ctx, r.conn.Name, carried.Name, hit.ID)
		if err != nil || carried.Indexed() != unclaimed {
			return false, err
		}
	}
	if _, linked, err := r.Ledger.LinkedTo(ctx, hit.ID); err != nil || linked != "" {
		return false, err
	}
	apart, err := r.Ledger.Rejected(ctx, r.conn.Name, c.Payer.SourceID, hit.ID)
	return err == nil && !apart, err
}
