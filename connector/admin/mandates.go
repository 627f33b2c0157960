package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// Mandates holds people's acts on mandates and their signing links. Each act is in the audit log before
// anything is sent.
type Mandates struct {
	Ledger  *state.Ledger
	Syncer  *syncer.Syncer
	Billing syncer.Canceller

	WhenCreated string        // billing.dialect.link_when_created: the result of a second request for an open mandate
	Valid       time.Duration // how long a link works; 0 if unknown
}

// ErrNoMandate means a payer has no mandate to cancel.
var ErrNoMandate = errors.New("the record has no mandate")

// payerOf returns the payer of a proposal about mandates.
func (a *Attention) payerOf(ctx context.Context, p *Proposal) (state.Payer, error) {
	if a.Mandates == nil {
		return state.Payer{}, ErrNoDecision
	}
	return a.Ledger.Payer(ctx, p.Record.Connection, p.Record.SourceID)
}

// proposeRequest requests one payer's signing link. After a cancellation it fails with syncer.ErrReasonNeeded without a
// reason.
func (a *Attention) proposeRequest(ctx context.Context, p *Proposal) error {
	payer, err := a.payerOf(ctx, p)
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) (err error) {
		out.Mandate, err = a.Mandates.Syncer.RequestLink(ctx, payer, by)
		return err
	}
	return err
}

// proposeCancel cancels the current mandate of one payer.
func (a *Attention) proposeCancel(ctx context.Context, p *Proposal) error {
	payer, err := a.payerOf(ctx, p)
	if err == nil && payer.MandateID == "" {
		err = ErrNoMandate
	}
	if err != nil {
		return err
	}
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) error {
		out.MandateID = payer.MandateID
		return a.Mandates.Syncer.CancelMandate(ctx, a.Mandates.Billing, payer, by)
	}
	return a.findSuccessors(ctx, p)
}

// proposeReinstate reinstates one payer's cancelled mandate under its own id.
func (a *Attention) proposeReinstate(ctx context.Context, p *Proposal) error {
	payer, err := a.payerOf(ctx, p)
	if err == nil && payer.MandateID == "" {
		err = ErrNoMandate
	}
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) error {
		out.MandateID = payer.MandateID
		if err := a.Mandates.Syncer.ReinstateMandate(ctx, a.Mandates.Billing, payer, by); err != nil {
			return err
		}
		row, err := a.Ledger.Mandate(ctx, payer.MandateID)
		if row != nil {
			out.Mandate.Status = connector.MandateStatus(row.Status)
		}
		return err
	}
	return err
}

// Links selects signing links to fetch again.
type Links struct {
	Connection string        // "" for all
	Older      time.Duration // links last given that long ago; 0 for links nobody has
}

// Find returns the payers of the selected links. An expired link counts as lost.
func (m *Mandates) Find(ctx context.Context, which Links) ([]state.Payer, error) {
	if which.Older > 0 {
		return m.Ledger.OldLinks(ctx, which.Connection, m.Ledger.Now().Add(-which.Older))
	}
	return m.Ledger.LostLinks(ctx, which.Connection, m.validSince())
}

// validSince returns the earliest issue time of a link still valid; the zero time if links are not known to expire.
func (m *Mandates) validSince() time.Time {
	if m.Valid == 0 {
		return time.Time{}
	}
	return m.Ledger.Now().Add(-m.Valid)
}

// Expired reports whether the stored link of a mandate has expired.
func (m *Mandates) Expired(ctx context.Context, mandateID string) (bool, error) {
	if m.Valid == 0 {
		return false, nil
	}
	given, err := m.Ledger.LinkGiven(ctx, mandateID)
	return err == nil && !given.IsZero() && !given.After(m.validSince()), err
}

// mostLinks is how many links are fetched again without a person's word.
const mostLinks = 200

// Asking says how a person is asked before links are fetched again.
type Asking int

// How a person is asked.
const (
	AskNothing Asking = iota
	AskOnce           // about all of them
	AskEach           // about each, because it may replace an unsigned mandate
)

// Asks says how a person is asked before so many links are fetched again.
func (m *Mandates) Asks(links int) Asking {
	switch {
	case links == 0, m.WhenCreated == "same" && links <= mostLinks:
		return AskNothing
	case m.WhenCreated == "new":
		return AskEach
	}
	return AskOnce
}

// Fetched is the result of fetching links again.
type Fetched struct {
	Asked   int `json:"asked"`
	Fetched int `json:"fetched"`
	Failed  int `json:"failed"`
}

// errNoLink means the billing service answered without a link.
var errNoLink = errors.New("the billing service gave no signing link")

// ErrNotAsked means a person's required approval is missing.
var ErrNotAsked = errors.New("a person has to say yes first")

// Fetching is a set of links to fetch again.
type Fetching struct {
	Payers []state.Payer
	Said   bool // a person has said yes to these, as Asks wants it
	By     syncer.Operator

	Progress func(syncer.Progress)            // told before each; nil for nobody
	Failed   func(sourceID string, err error) // called for each failure; may be nil
}

// Fetch requests the links one after the other. A refusal for one payer does not stop the others. It ends if the
// service does not answer or refuses this kind of request. After an interruption, a new Find returns the remaining
// links.
func (m *Mandates) Fetch(ctx context.Context, f Fetching) (out Fetched, err error) {
	if m.Asks(len(f.Payers)) != AskNothing && !f.Said {
		return out, ErrNotAsked
	}
	out.Asked = len(f.Payers)
	if out.Asked == 0 {
		return out, nil
	}
	ids := connector.Map(f.Payers, func(p state.Payer) string { return p.Connection + "/" + p.SourceID })
	if err := m.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: f.By.Name, Action: "fetch lost signing links",
			Subject: connector.Plural(len(ids), "payer"), Reason: strings.Join(ids, ", ")})
	}); err != nil {
		return out, err
	}
	for i, p := range f.Payers {
		if f.Progress != nil {
			f.Progress(syncer.Progress{Stage: "links", Done: i, Total: len(f.Payers)})
		}
		err := m.fetch(ctx, p, f.By)
		switch {
		case err == nil:
			out.Fetched++
		case ctx.Err() != nil, endsFetching(err):
			return out, err
		default:
			out.Failed++
			if f.Failed != nil {
				f.Failed(p.SourceID, err)
			}
		}
	}
	return out, nil
}

// fetch requests one link. A signature in the meantime counts as success.
func (m *Mandates) fetch(ctx context.Context, p state.Payer, by syncer.Operator) error {
	got, err := m.Syncer.RequestLink(ctx, p, by)
	switch {
	case errors.Is(err, syncer.ErrHasMandate):
		return nil
	case err == nil && got.URL == "" && got.Status == connector.MandateCreated:
		return errNoLink
	}
	return err
}

// endsFetching reports whether an error would also affect the next link.
func endsFetching(err error) bool {
	switch connector.FaultOf(err) {
	case connector.FaultThrottled, connector.FaultUnavailable, connector.FaultUnauthorized:
		return true
	}
	return errors.Is(err, connector.ErrWrongWay)
}
