package syncer

import (
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
	"payersync/mapping"
	"payersync/state"
)

// isThere reports whether a plan may use a record. In a snapshot, only the rows read in this run count; after a whole
// reading these are all rows in the ledger. A row not read counts neither as deleted nor as returned, because the
// reading may have ended early. Other sources give only changes, so every record counts. An unlink decided by a person
// is carried out anyway.
func (r *run) isThere(c state.Candidate) bool {
	return !r.conn.Info.Snapshot || r.met == nil || r.met.Has(c.Record.SourceID) || c.Payer != nil && c.Payer.Unlink.At > 0
}

// subject is a record as a plan looks at it.
type subject struct {
	state.Candidate

	made     rendered
	like     *state.Likeness // the payer's traits; nil if not stored
	seen     *customerRead   // a read of the customer to link or update; nil if there was none
	stranger bool            // a new record without any match: see state.Ledger.Strangers

	first *state.FirstRecord // as firstPass stores it; nil for a record left to the plan
}

// subjects renders the candidates of a page open to planning. In one query, it asks which new candidates match a known
// payer or customer.
func (r *run) subjects(ctx context.Context, candidates []state.Candidate) ([]subject, error) {
	page := make([]subject, 0, len(candidates))
	for _, c := range candidates {
		if r.isThere(c) && (r.noProof == nil || c.Payer != nil && c.Payer.BillingID != "") {
			page = append(page, subject{Candidate: c})
		}
	}
	if err := inParts(page, func(s *subject) (err error) {
		if s.made, err = r.render(s.Candidate); err == nil && s.made.Usability == protocol.Included {
			s.like = new(r.likenessOf(s.made.Customer))
		}
		return err
	}); err != nil {
		return nil, err
	}
	var newcomers []state.NewRecord
	var at []int
	for i, s := range page {
		if s.Payer == nil && s.like != nil {
			newcomers = append(newcomers,
				state.NewRecord{SourceID: s.Record.SourceID, Key: s.made.Result.Key, Customer: s.made.Customer, Likeness: *s.like})
			at = append(at, i)
		}
	}
	strangers, err := r.Ledger.WithoutSimilar(ctx, r.conn.Name, newcomers)
	for i, is := range strangers {
		page[at[i]].stranger = is
	}
	return page, err
}

// inParts calls do for every subject of a page. Two goroutines share the page, so do must suit both.
func inParts(page []subject, do func(*subject) error) error {
	var group errgroup.Group
	for part := range slices.Chunk(page, len(page)/2+1) {
		group.Go(func() error {
			return connector.Guard(func() error {
				for i := range part {
					if err := do(&part[i]); err != nil {
						return fmt.Errorf("record %s: %w", part[i].Record.SourceID, err)
					}
				}
				return nil
			})
		})
	}
	return group.Wait()
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
	if err != nil || !c.GivenUp || m.Usability != protocol.Included && m.Usability != protocol.Unfit {
		return m, err
	}
	return rendered{Record: protocol.Record{Usability: protocol.Excluded, Anew: m.digest(c.ContentHash) != c.GivenUpOf}},
		nil
}

// decided puts a person's decision whether the payer is asked before the mapping's rule.
func (m *rendered) decided(asking connector.AskDecision) {
	if m.Usability != protocol.Included {
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
		return rendered{Record: protocol.Record{Usability: protocol.Gone}}, nil
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
		m.Record = protocol.Record{Usability: protocol.Included, Hash: res.Customer.Hash(), Mandate: res.RequestMandate}
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
	return rendered{Record: protocol.Record{Usability: protocol.Unfit, Reason: reason}, problem: problem}
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
func (r *run) inTheWay(ctx context.Context, p state.Payer, key connector.Key) (record string, customers []string,
	err error) {
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

// base returns our part of a payer's customer, to tell it from the edits of others. This is the last applied version,
// or the frozen body of a create with a lost answer. It is nil if we wrote nothing.
func (r *run) base(ctx context.Context, p state.Payer) (*connector.Customer, error) {
	if p.Applied != nil || p.BillingID == "" {
		return p.Applied, nil
	}
	return r.Ledger.SentCreate(ctx, p)
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
