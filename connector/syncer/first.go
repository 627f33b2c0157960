package syncer

import (
	"context"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/state"
)

// firstPage is the number of new records stored in one commit, at least.
const firstPage = 2000

// firstPass plans new records while the source is read. Each record is mapped, decided on, and stored once with its
// decision, so nothing is stored, read back and changed. It takes only records that nobody can know yet
// (state.Ledger.Strangers), and records that the mapping leaves out or cannot use. The plan decides on all others from
// the ledger, by the same functions.
//
// As in planRecords, no decision looks at records that are not stored yet. Afterwards, planAll decides again on records
// that share a key or look alike.
type firstPass struct {
	run     *run
	found   int  // new records of the reading
	planned int  // of them, those stored with a decision
	open    bool // new records may be planned at once
	closed  bool // a fact of the ledger or of the service leaves all records to the plan

	page, saving []state.FirstRecord // gathered, and being stored
	ids          map[string]bool     // of both
	done         chan error          // the result of storing; nil while nothing is being stored
}

// decidePage decides on new records of a page. It returns the ids of the records it will store; the caller stores the
// others for the plan.
func (p *firstPass) decidePage(ctx context.Context, first []state.Candidate) (map[string]bool, error) {
	if p.found += len(first); len(first) == 0 || p.closed {
		return nil, nil
	}
	if !p.open {
		var err error
		if p.open, err = p.run.plansAtOnce(ctx, p.found); err != nil || !p.open {
			p.closed = !p.run.probe // of more new records, a list may be the cheaper way
			return nil, err
		}
	}
	for _, c := range first {
		p.run.met.Add(c.Record.SourceID)
	}
	page, err := p.run.subjects(ctx, first)
	if err != nil {
		return nil, err
	}
	if err := inParts(page, func(s *subject) error {
		if s.made.Usability == protocol.Included && !s.stranger {
			return nil
		}
		d, err := p.run.decide(ctx, *s)
		if err == nil {
			s.first, err = p.run.Ledger.NewFirst(p.run.conn.Name, s.Record, d)
		}
		return err
	}); err != nil {
		return nil, err
	}
	taken := make(map[string]bool, len(page))
	for _, s := range page {
		if s.first != nil {
			p.page = append(p.page, *s.first)
			p.ids[s.Record.SourceID], taken[s.Record.SourceID] = true, true
		}
	}
	if len(p.page) >= firstPage {
		err = p.store(ctx)
	}
	return taken, err
}

// store begins to store the gathered records, once the records before them are stored.
func (p *firstPass) store(ctx context.Context) error {
	if err := p.wait(); err != nil || len(p.page) == 0 {
		return err
	}
	p.saving, p.page, p.done = p.page, make([]state.FirstRecord, 0, len(p.page)), make(chan error, 1)
	go func(page []state.FirstRecord, done chan<- error) {
		done <- connector.Guard(func() error { return p.run.saveFirst(ctx, page) })
	}(p.saving, p.done)
	return nil
}

// wait returns when nothing is being stored.
func (p *firstPass) wait() error {
	if p.done == nil {
		return nil
	}
	err := <-p.done
	if p.done = nil; err == nil {
		p.planned += len(p.saving)
	}
	for _, f := range p.saving {
		delete(p.ids, f.Record.SourceID)
	}
	p.saving = nil
	return err
}

// flush returns when all decided records are stored.
func (p *firstPass) flush(ctx context.Context) error {
	if err := p.store(ctx); err != nil {
		return err
	}
	return p.wait()
}

// storeRepeated makes sure that the ledger holds every record that a page shows again.
func (p *firstPass) storeRepeated(ctx context.Context, page []connector.Record) error {
	for _, c := range page {
		if p.ids[c.SourceID] {
			return p.flush(ctx)
		}
	}
	return nil
}

// saveFirst stores new records with their decisions.
func (r *run) saveFirst(ctx context.Context, page []state.FirstRecord) error {
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.SaveFirst(r.id, r.conn.Name, r.conn.Mapping.Version(), page)
	}); err != nil || r.opts.Decided == nil {
		return err
	}
	for _, f := range page {
		r.opts.Decided(r.id, f.Decision)
	}
	return nil
}

// plansAtOnce reports whether n new records may be planned before the source was read to its end. It makes the index
// proof of absence first. The plan decides on the records later, with all facts, if one of these is true:
//
//   - the connection was planned before, so the guard of missing records must approve the reading first;
//   - after a restore, lost requests may still arrive;
//   - the connection only links, because the service has a connection of its own;
//   - the list cannot be read or is no proof, or a search for each customer costs less than a list.
//
// Once the source is read, all records are compared with the free customers of the list. The plan decides again on
// those that look like one (state.Tx.SaveMatchCandidates).
func (r *run) plansAtOnce(ctx context.Context, n int) (open bool, err error) {
	if r.doubtEnds.After(r.Ledger.Now()) {
		return false, nil
	}
	if planned, err := r.Ledger.WasPlanned(ctx, r.conn.Name); err != nil || planned {
		return false, err
	}
	if known, err := r.Ledger.TwoWay(ctx, r.conn.Name); err != nil || r.conn.linksOnly(known) {
		return false, err
	}
	if err := r.learnLikenesses(ctx); err != nil {
		return false, err
	}
	if err := r.trustIndex(ctx, n); err != nil || r.noProof != nil || r.probe {
		return false, context.Cause(ctx) // the plan asks again, and reports the error: the source is read all the same
	}
	return true, nil
}
