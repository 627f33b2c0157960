package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/connector/syncer"
	"payersync/state"
)

// ErrNotRead means a connection has no stored records to compare.
var ErrNotRead = errors.New("no record of the new connection is stored")

// Moves proposes and notes the pairs of a connection's records and the payers of a moved connection.
type Moves struct {
	Ledger *state.Ledger
	Syncer *syncer.Syncer
	// Stored opens a connection with its mapping, and without reading its source.
	Stored func(ctx context.Context, connection string) (syncer.Connection, error)
}

// MoveProposal is the comparison of two connections: the similar pairs of new records and old payers, and the pairs
// accepted by a person.
type MoveProposal struct {
	Old, New string
	Decision *state.ConnectionDecision // that the connection moved; nil without such a decision
	Certain  []match.Suggestion        // may be accepted without a look at each
	Unsure   []match.Suggestion        // need a look each
	Accepted []MovedRecord             // pairs accepted by a person
	OnlyOld  []state.Payer             // payers without a similar record in the new connection
	OnlyNew  []string                  // records of the new connection without a similar payer
	Mandates map[string]string         // status of each old payer's mandate, by its id

	keys     map[string]connector.Key // of the new records, by their ids
	rejected map[[2]string]bool       // by the ids of the new record and the customer
	conn     syncer.Connection
	above    int
	old      map[string]state.Payer
}

// MovedRecord is an accepted pair, and whether the new key is on the customer by now.
type MovedRecord struct {
	state.MovePair
	Written bool
}

// Propose compares a connection's records without a customer with the payers of another connection. The other need not
// be configured any more. It reads only the ledger. It fails with state.ErrNoConnection if the ledger does not know the
// old one.
func (m *Moves) Propose(ctx context.Context, from, to string, above int) (*MoveProposal, error) {
	conn, err := m.Stored(ctx, to)
	if err != nil {
		return nil, err
	}
	p := &MoveProposal{Old: from, New: to, conn: conn, above: above, keys: map[string]connector.Key{},
		old: map[string]state.Payer{}, Mandates: map[string]string{}}
	if err := m.addDecisions(ctx, p); err != nil {
		return nil, err
	}
	payers, err := m.Syncer.OldPayers(ctx, from)
	if err != nil {
		return nil, err
	}
	records, err := m.Syncer.Unlinked(ctx, conn)
	if err != nil {
		return nil, err
	}
	if len(records)+len(p.Accepted) == 0 {
		if linked, err := m.Ledger.LinkedPayers(ctx, to); err != nil || len(linked) == 0 {
			return nil, errors.Join(err, ErrNotRead)
		}
	}
	return p, m.compare(ctx, p, payers, records)
}

// addDecisions reads the decisions about the two connections.
func (m *Moves) addDecisions(ctx context.Context, p *MoveProposal) error {
	known, err := m.Ledger.HasConnection(ctx, p.Old)
	switch {
	case err != nil:
		return err
	case !known:
		return fmt.Errorf("%s: %w", p.Old, state.ErrNoConnection)
	case p.Old == p.New:
		return state.ErrSameConnection
	}
	if p.Decision, err = m.Ledger.MovedTo(ctx, p.Old); err != nil {
		return err
	}
	if p.Decision != nil && p.Decision.New != p.New {
		return &state.MovedError{Old: p.Old, New: p.Decision.New, At: p.Decision.At}
	}
	pairs, err := m.Ledger.MovePairs(ctx, p.Old, p.New)
	if err != nil {
		return err
	}
	if err := m.Ledger.EachPayer(ctx, state.Filter{Connection: p.Old}, func(r state.PayerRow) error {
		if r.MandateStatus != nil {
			p.Mandates[r.SourceID] = *r.MandateStatus
		}
		return nil
	}); err != nil {
		return err
	}
	linked, err := m.Ledger.LinkedPayers(ctx, p.New)
	if err != nil {
		return err
	}
	waits := map[string]bool{}
	for _, payer := range linked {
		waits[payer.SourceID] = payer.Moves.Value != ""
	}
	p.Accepted = append(p.Accepted,
		connector.Map(pairs, func(pair state.MovePair) MovedRecord {
			return MovedRecord{pair,
				!waits[pair.New.SourceID]}
		})...)
	return nil
}

// compare looks for the payer continued by each record.
func (m *Moves) compare(ctx context.Context, p *MoveProposal, payers []syncer.OldPayer,
	records []syncer.Unlinked) error {
	for _, o := range payers {
		p.old[o.SourceID] = o.Payer
	}
	imported, err := m.imported(ctx, p, records)
	if err != nil {
		return err
	}
	exported := map[string]map[string]string{}
	for _, r := range records {
		exported[r.SourceID] = r.Exported
	}
	ofRecord, ofPayer := onlyTheirs(exported), onlyTheirs(imported)
	var open []match.Record
	for _, r := range records {
		open = append(open, match.Record{ID: r.SourceID, Want: withoutKey(r), Exported: ofRecord[r.SourceID]})
		p.keys[r.SourceID] = r.Key
	}
	p.rejected = map[[2]string]bool{}
	said, err := m.Ledger.PairDecisions(ctx, p.New)
	if err != nil {
		return err
	}
	for _, w := range said {
		p.rejected[[2]string{w.SourceID, w.BillingID}] = w.Apart()
	}
	found, err := match.Find(ctx, match.All(open), besides(payers, ofPayer), match.Settings{
		Rejected: func(record, payer string) bool { return p.rejected[[2]string{record, p.old[payer].BillingID}] },
	})
	if err != nil {
		return err
	}
	if err := match.Show(found, match.All(open), besides(payers, ofPayer)); err != nil {
		return err
	}
	p.sort(found, payers, records)
	return nil
}

// imported returns what the old payers' records show of the fields that the new system exports, by source id and field.
func (m *Moves) imported(ctx context.Context, p *MoveProposal, records []syncer.Unlinked) (map[string]map[string]string,
	error) {
	if !slices.ContainsFunc(records, func(r syncer.Unlinked) bool { return len(r.Exported) > 0 }) {
		return nil, nil
	}
	out, err := m.Syncer.Imported(ctx, p.Old, p.conn.Info.Fields)
	for id := range out {
		if _, payer := p.old[id]; !payer {
			delete(out, id)
		}
	}
	return out, err
}

// onlyTheirs returns the values that one record alone has, by the record's id.
func onlyTheirs(all map[string]map[string]string) map[string][]string {
	count := map[string]int{}
	for _, values := range all {
		for field, value := range values {
			count[field+" "+value]++
		}
	}
	out := map[string][]string{}
	for id, values := range all {
		for field, value := range values {
			if text := field + " " + value; count[text] == 1 {
				out[id] = append(out[id], text)
			}
		}
		slices.Sort(out[id])
	}
	return out
}

// sort puts the matches into the lists of a proposal.
func (p *MoveProposal) sort(found []match.Suggestion, payers []syncer.OldPayer, records []syncer.Unlinked) {
	looksLike, isLike := map[string]bool{}, map[string]bool{}
	for _, s := range found {
		looksLike[s.Record] = true
		for _, other := range s.Others {
			isLike[other.Customer] = true
		}
		if s.Best == nil {
			p.Unsure = append(p.Unsure, s)
			continue
		}
		isLike[s.Best.Customer] = true
		if s.Best.Taken == "" && s.Best.Score >= p.above {
			p.Certain = append(p.Certain, s)
		} else {
			p.Unsure = append(p.Unsure, s)
		}
	}
	for _, o := range payers {
		if !isLike[o.SourceID] {
			p.OnlyOld = append(p.OnlyOld, o.Payer)
		}
	}
	for _, r := range records {
		if !looksLike[r.SourceID] {
			p.OnlyNew = append(p.OnlyNew, r.SourceID)
		}
	}
}

// withoutKey returns the wanted customer of a record without its key, because other accounting systems have
// other keys.
func withoutKey(r syncer.Unlinked) connector.Customer {
	want := r.Want
	want.ExternalData = map[string]string{}
	for name, value := range r.Want.ExternalData {
		if name != r.Key.Name && name != connector.ScopeName(r.Key.Name) {
			want.ExternalData[name] = value
		}
	}
	return want
}

// besides returns payers in the form of customers, for comparison with records.
func besides(payers []syncer.OldPayer, exported map[string][]string) match.Pages[match.Customer] {
	return func(yield func([]match.Customer, error) bool) {
		for some := range slices.Chunk(payers, 500) {
			page := make([]match.Customer, len(some))
			for i, p := range some {
				page[i] = p.Beside()
				page[i].Exported = exported[p.SourceID]
			}
			if !yield(page, nil) {
				return
			}
		}
	}
}

// Pair returns the pair of an old payer and a new record, by their ids. It reports false if the proposal lacks one of
// them.
func (p *MoveProposal) Pair(oldID, newID string) (state.MovePair, bool) {
	old, known := p.old[oldID]
	key, free := p.keys[newID]
	return state.MovePair{
		Old: state.RecordID{Connection: p.Old, SourceID: oldID}, New: state.RecordID{Connection: p.New, SourceID: newID},
		BillingID: old.BillingID, Key: key,
	}, known && free
}

// Offered returns the possible payers of a new record, best first.
func (p *MoveProposal) Offered(newID string) []match.Pair {
	found := slices.Concat(p.Certain, p.Unsure)
	if i := slices.IndexFunc(found, func(s match.Suggestion) bool { return s.Record == newID }); i >= 0 {
		return found[i].Offered()
	}
	return nil
}

// Pairs returns the accepted or rejected pairs of the offered ones.
func (p *MoveProposal) Pairs(offered []match.Pair) (out []state.MovePair) {
	for _, c := range offered {
		if pair, ok := p.Pair(c.Customer, c.Record); ok {
			out = append(out, pair)
		}
	}
	return out
}

// DecidedSo reports whether a person has accepted, or rejected, a pair before.
func (p *MoveProposal) DecidedSo(oldID, newID string, accepted bool) bool {
	if !accepted {
		return p.rejected[[2]string{newID, p.old[oldID].BillingID}]
	}
	return slices.ContainsFunc(p.Accepted,
		func(r MovedRecord) bool { return r.Old.SourceID == oldID && r.New.SourceID == newID })
}

// CertainPairs returns the pairs safe to accept together.
func (p *MoveProposal) CertainPairs() (out []state.MovePair) {
	for _, s := range p.Certain {
		if pair, ok := p.Pair(s.Best.Customer, s.Record); ok {
			out = append(out, pair)
		}
	}
	return out
}

// Undecided says how many records of both connections are undecided when these pairs are accepted.
func (p *MoveProposal) Undecided(accepting []state.MovePair) string {
	old, fresh := len(p.old)-len(accepting), len(p.Certain)+len(p.Unsure)-len(accepting)
	if old <= 0 && fresh <= 0 {
		return "No record is undecided."
	}
	return fmt.Sprintf("Undecided so far: %s of %s, %s of %s.", connector.Plural(max(0, old), "payer"), p.Old,
		connector.Plural(max(0, fresh), "record"), p.New)
}

// Accept stores the move and these pairs. It returns the unchanged pairs. It sends nothing: the next plan of
// the new connection writes the keys.
func (m *Moves) Accept(ctx context.Context, p *MoveProposal, pairs []state.MovePair,
	by syncer.Operator) ([]state.MoveLeft, error) {
	return m.Syncer.MoveBooks(ctx, p.conn, p.Old, pairs, by)
}

// Reject notes the decision against a pair of a new record and an old payer.
func (m *Moves) Reject(ctx context.Context, pair state.MovePair, by syncer.Operator) error {
	return SayOfPairs(ctx, m.Ledger, pair.New.Connection,
		[]PairWord{{pair.New.SourceID, pair.BillingID, state.WordReject}}, by)
}

// TakeBack returns the customers of accepted pairs, named by their new records, to the payers of the old
// connection. It returns the unchanged pairs.
func (m *Moves) TakeBack(ctx context.Context, from, to string, newIDs []string, by syncer.Operator) ([]state.MoveLeft,
	error) {
	all, err := m.Ledger.MovePairs(ctx, from, to)
	if err != nil {
		return nil, err
	}
	pairs := slices.DeleteFunc(all, func(p state.MovePair) bool { return !slices.Contains(newIDs, p.New.SourceID) })
	return m.Syncer.TakePairsBack(ctx, from, to, pairs, by)
}

// Undo takes the whole move back, as syncer.UndoMove does.
func (m *Moves) Undo(ctx context.Context, from, to string, by syncer.Operator) ([]state.MoveLeft, error) {
	return m.Syncer.UndoMove(ctx, from, to, by)
}
