package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/connector/syncer"
	"payersync/connector/writeback"
	"payersync/state"
)

// Decision is a person's intended decision about a record: an act with its ids.
type Decision struct {
	Act      connector.Act
	Record   state.RecordID
	Other    state.RecordID // the other record, for an act on two
	Customer string         // for an act on a record and a customer
	Parts    []string       // of the customer, for ActIgnore: name, people or addresses
	Fields   []string       // for ActTakeTheirs; none for all differing fields
	Delivery string         // its key, for an act on a delivery
	Change   int64          // for ActUndo
	Stays    bool           // for ActForget: a valid mandate stays at the billing service
	Until    letters.Day    // for ActStopLetters; zero for ever
	Address  string         // an e-mail address instead of a record, for an act on letters
}

// Proposal is the effect of a decision in the present state of the billing service and the ledger. Nothing is written
// before Perform. The field of the act is set.
type Proposal struct {
	Decision
	Move   *syncer.Move
	Merge  *syncer.Merge
	Unlink *syncer.Unlink
	Holder *syncer.Holder
	Drift  *syncer.Drift
	Forget *Forgetting
	Undo   *syncer.Undo
	Field  *writeback.Item // nil where it shows the present status

	Successors []Successor // for ActCancel and ActClose

	second  bool // it rejects a second customer of a linked payer
	holds   bool // it rejects the customer that carries the payer's number
	perform func(context.Context, syncer.Operator, *ActResult) error
}

// Successor is a record that may be a removed payer under a new number.
type Successor struct {
	state.RecordID
	Name string // "" if unknown
}

// noting returns a function to perform an act without an outcome.
func noting(do func(context.Context, syncer.Operator) error) func(context.Context, syncer.Operator, *ActResult) error {
	return func(ctx context.Context, by syncer.Operator, _ *ActResult) error { return do(ctx, by) }
}

// ErrNoDecision means an act is not handled here, or lacks an id.
var ErrNoDecision = errors.New("the decision does not say what it is about")

// proposers make the proposals, by act.
var proposers = map[connector.Act]func(*Attention, context.Context, *Proposal) error{
	connector.ActRekey: (*Attention).proposeMove, connector.ActTakeOver: (*Attention).proposeMove,
	connector.ActMerge: (*Attention).proposeMerge, connector.ActSeparate: (*Attention).proposeSeparate,
	connector.ActTellApart: (*Attention).proposeApart,
	connector.ActAdopt:     (*Attention).proposeAdopt, connector.ActLink: (*Attention).proposeLink,
	connector.ActAccept: (*Attention).proposeLink,
	connector.ActReject: (*Attention).proposeReject, connector.ActTakeBack: (*Attention).proposeTakeBack,
	connector.ActUnlink: (*Attention).proposeUnlink, connector.ActKeep: (*Attention).proposeKeep,
	connector.ActTakeTheirs: (*Attention).proposeDrift, connector.ActSendOurs: (*Attention).proposeDrift,
	connector.ActIgnore: (*Attention).proposeDrift,
	connector.ActForget: (*Attention).proposeForget, connector.ActUnforget: (*Attention).proposeUnforget,
	connector.ActUndo:  (*Attention).proposeUndo,
	connector.ActRetry: (*Attention).proposeRetry, connector.ActGiveUp: (*Attention).proposeGiveUp,
	connector.ActTakeUp: (*Attention).proposeTakeUp,
	connector.ActClose:  (*Attention).proposeClose, connector.ActCloseSubscription: (*Attention).proposeCloseSubscription,
	connector.ActRequest: (*Attention).proposeRequest, connector.ActCancel: (*Attention).proposeCancel,
	connector.ActReinstate: (*Attention).proposeReinstate,
	connector.ActAsk:       (*Attention).proposeAsking, connector.ActAskNot: (*Attention).proposeAsking,
	connector.ActAskByRule:   (*Attention).proposeAsking,
	connector.ActStopLetters: (*Attention).proposeLetters, connector.ActAllowLetters: (*Attention).proposeLetters,
	connector.ActResume: (*Attention).proposeResume,
	connector.ActReplay: (*Attention).proposeReplay, connector.ActCloseDelivery: (*Attention).proposeCloseDelivery,
	connector.ActSubscribe: (*Attention).proposeSubscribe,
	connector.ActTakeField: (*Attention).proposeTakeField,
}

// Propose returns the effect of a decision. It reads the customer if the act changes one. It fails with
// syncer.ErrSaidBefore if a person has made the same decision before and it is still in force.
func (a *Attention) Propose(ctx context.Context, d Decision) (Proposal, error) {
	p := Proposal{Decision: d}
	propose := proposers[d.Act]
	if propose == nil {
		return p, fmt.Errorf("%s: %w", d.Act, ErrNoDecision)
	}
	return p, propose(a, ctx, &p)
}

// Diff lists the customer's changed fields: From is the present value, To the new one. For a drift, From is
// the customer's value and To the value from the accounting system.
func (p Proposal) Diff() []connector.FieldChange {
	switch {
	case p.Move != nil:
		return p.Move.Diff
	case p.Merge != nil && p.Merge.Move != nil:
		return p.Merge.Move.Diff
	case p.Unlink != nil:
		return p.Unlink.Diff
	case p.Holder != nil:
		return p.Holder.Diff
	case p.Drift != nil:
		return p.Drift.Fields
	case p.Undo != nil && p.Undo.Adoption != nil:
		return p.Undo.Adoption.Diff
	case p.Undo != nil:
		return connector.Map(p.Undo.Fields, func(f connector.FieldChange) connector.FieldChange {
			return connector.FieldChange{Path: f.Path, From: f.To, To: f.From}
		})
	}
	return nil
}

// DriftParts lists the differing parts of the customer (name, people, addresses).
func (p Proposal) DriftParts() (parts []string) {
	for _, f := range p.Diff() {
		part, _, _ := strings.Cut(f.Path, "[")
		part, _, _ = strings.Cut(part, ".")
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return parts
}

func (a *Attention) proposeMove(ctx context.Context, p *Proposal) error {
	holder := p.Record
	if p.Act == connector.ActTakeOver {
		holder = p.Other
		if holder == (state.RecordID{}) {
			return ErrNoDecision
		}
		before, err := a.movedBefore(ctx, p.Record, p.Other)
		if err != nil {
			return err
		}
		if p.Move = before; before != nil {
			return syncer.ErrSaidBefore
		}
	}
	from, err := a.Ledger.Payer(ctx, holder.Connection, holder.SourceID)
	if err != nil {
		return err
	}
	conn, err := a.Stored(ctx, p.Record.Connection)
	if err != nil {
		return err
	}
	m, err := a.Syncer.MoveOf(ctx, conn, from, p.Record.SourceID)
	p.Move = &m
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error { return a.Syncer.SayMove(ctx, m, by) })
	return err
}

// movedBefore returns an earlier move decision: a record has the customer of a removed record, and waits for
// its key there. It is nil otherwise.
func (a *Attention) movedBefore(ctx context.Context, record, other state.RecordID) (*syncer.Move, error) {
	p, err := a.Ledger.Payer(ctx, record.Connection, record.SourceID)
	if err != nil || p.BillingID == "" || p.Moves.Value == "" {
		return nil, unless(err, state.ErrNoPayer)
	}
	old, err := a.Ledger.Payer(ctx, other.Connection, other.SourceID)
	if err != nil || old.BillingID != "" || old.Key != p.Key {
		return nil, unless(err, state.ErrNoPayer)
	}
	old.BillingID = p.BillingID
	return &syncer.Move{From: old, Record: record, Key: p.Moves, Diff: []connector.FieldChange{}}, nil
}

// unless returns an error other than the known one.
func unless(err, known error) error {
	if errors.Is(err, known) {
		return nil
	}
	return err
}

func (a *Attention) proposeMerge(ctx context.Context, p *Proposal) error {
	if p.Other.Connection != p.Record.Connection {
		return ErrNoDecision
	}
	conn, err := a.Stored(ctx, p.Record.Connection)
	if err != nil {
		return err
	}
	m, err := a.Syncer.MergeOf(ctx, conn, p.Record.SourceID, p.Other.SourceID)
	p.Merge = &m
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error { return a.Syncer.SayMerge(ctx, m, by) })
	return err
}

func (a *Attention) proposeSeparate(_ context.Context, p *Proposal) error {
	id := p.Record
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error { return a.Syncer.SayUnmerge(ctx, id, by) })
	return nil
}

func (a *Attention) proposeApart(_ context.Context, p *Proposal) error {
	if p.Other.Connection != p.Record.Connection {
		return ErrNoDecision
	}
	record, other := p.Record, p.Other.SourceID
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) error {
		return a.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
			if out.News, err = tx.KeepApart(record.Connection, record.SourceID, other); err != nil || !out.News {
				return err
			}
			return tx.Audit(state.Entry{Actor: by.Name, Action: "reject match", Subject: record.Connection + "/" +
				record.SourceID + " = " + other, Reason: by.Reason})
		})
	}
	return nil
}

func (a *Attention) proposeAdopt(ctx context.Context, p *Proposal) error {
	payer, err := a.Ledger.Payer(ctx, p.Record.Connection, p.Record.SourceID)
	if err != nil {
		return err
	}
	conn, err := a.Stored(ctx, p.Record.Connection)
	if err != nil {
		return err
	}
	h, err := a.Syncer.HolderOf(ctx, conn, payer)
	p.accept(a, h)
	return err
}

func (a *Attention) proposeLink(ctx context.Context, p *Proposal) error {
	if p.Customer == "" {
		return ErrNoDecision
	}
	conn, err := a.Stored(ctx, p.Record.Connection)
	if err != nil {
		return err
	}
	h, err := a.Syncer.PairOf(ctx, conn, p.Record.SourceID, p.Customer)
	p.accept(a, h)
	return err
}

func (p *Proposal) accept(a *Attention, h syncer.Holder) {
	p.Holder, p.Customer = &h, h.Customer
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error { return a.Syncer.Accept(ctx, h, by) })
}

func (a *Attention) proposeReject(ctx context.Context, p *Proposal) error {
	if p.Customer == "" {
		return ErrNoDecision
	}
	payer, err := a.Ledger.Payer(ctx, p.Record.Connection, p.Record.SourceID)
	if unless(err, state.ErrNoPayer) != nil {
		return err
	}
	p.second = payer.BillingID != ""
	told, err := a.Ledger.AttentionOf(ctx, p.Record.Connection, p.Record.SourceID)
	if err != nil {
		return err
	}
	p.holds = slices.ContainsFunc(told,
		func(t state.AttentionRow) bool { return t.Reason == string(connector.ReasonKeyDisputed) })
	d := p.Decision
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error {
		return SayOfPairs(ctx, a.Ledger, d.Record.Connection, []PairWord{{d.Record.SourceID, d.Customer, state.WordReject}},
			by)
	})
	return nil
}

func (a *Attention) proposeTakeBack(_ context.Context, p *Proposal) error {
	if p.Customer == "" {
		return ErrNoDecision
	}
	d := p.Decision
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error {
		return a.Ledger.Do(ctx, func(tx *state.Tx) error { return takeWordBack(tx, Pair{d.Record, d.Customer}, by) })
	})
	return nil
}

func (a *Attention) proposeUnlink(ctx context.Context, p *Proposal) error {
	payer, err := a.Ledger.Payer(ctx, p.Record.Connection, p.Record.SourceID)
	if err != nil {
		return err
	}
	u, err := a.Syncer.UnlinkOf(ctx, payer, 0)
	p.Unlink = &u
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error { return a.Syncer.SayUnlink(ctx, u, by) })
	return err
}

func (a *Attention) proposeKeep(ctx context.Context, p *Proposal) error {
	payer, err := a.Ledger.Payer(ctx, p.Record.Connection, p.Record.SourceID)
	p.Customer = payer.BillingID
	p.perform = noting(func(ctx context.Context,
		by syncer.Operator) error {
		return a.Syncer.TakeUnlinkBack(ctx, payer, by)
	})
	return err
}

func (a *Attention) proposeDrift(ctx context.Context, p *Proposal) error {
	payer, err := a.Ledger.Payer(ctx, p.Record.Connection, p.Record.SourceID)
	if err != nil {
		return err
	}
	conn, err := a.Stored(ctx, payer.Connection)
	if err != nil {
		return err
	}
	d, err := a.Syncer.DriftOf(ctx, conn, payer)
	p.Drift = &d
	of := p.Decision
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error {
		switch of.Act {
		case connector.ActTakeTheirs:
			return a.Syncer.TakeTheirs(ctx, d, of.Fields, by)
		case connector.ActSendOurs:
			return a.Syncer.SendOurs(ctx, d, by)
		}
		if len(of.Parts) == 0 {
			return ErrNoDecision
		}
		return a.Syncer.IgnoreParts(ctx, d, of.Parts, by)
	})
	return err
}

func (a *Attention) proposeUndo(ctx context.Context, p *Proposal) error {
	payer, err := a.Ledger.Payer(ctx, p.Record.Connection, p.Record.SourceID)
	if err != nil {
		return err
	}
	conn, err := a.Stored(ctx, payer.Connection)
	if err != nil {
		return err
	}
	u, err := a.Syncer.UndoOf(ctx, conn, payer, p.Change)
	p.Undo = &u
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error { return a.Syncer.SayUndo(ctx, u, by) })
	return err
}
