package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// Forgetting lists the data to erase for a payer, the remaining data, and the result.
type Forgetting struct {
	Connection string            `json:"connection"`
	SourceID   string            `json:"source_id"`
	BillingID  string            `json:"billing_id"`     // of the customer that stays at the billing service; "" for none
	MandateID  string            `json:"mandate_id"`     // that stays there; "" for none
	Mandate    string            `json:"mandate_status"` // its status
	Erases     ForgetCounts      `json:"erases"`
	Alike      []state.Lookalike `json:"alike"`     // other records, perhaps of the same person; they stay
	Elsewhere  []string          `json:"elsewhere"` // the remaining data and its places
	Forgotten  bool              `json:"forgotten"`
	SaidBefore bool              `json:"said_before"` // so nothing was done now
	// another process was reading: the files are cleaned at the next start
	FilesLater bool `json:"files_later"`

	Name string `json:"-"` // by which the ledger knows the payer; "" for none
}

// ForgetCounts says how much would be erased.
type ForgetCounts struct {
	Changes    int `json:"changes"`
	Deliveries int `json:"deliveries"`
	Hashes     int `json:"keyed_hashes"`
}

// MandateHolds reports whether the payer has a mandate other than a cancelled one.
func (f Forgetting) MandateHolds() bool {
	return f.Mandate != "" && f.Mandate != string(connector.MandateCancelled)
}

// ErrMandateHolds means a payer has a mandate, and nobody would be informed about it any more.
var ErrMandateHolds = errors.New("its mandate still holds, and nobody would be told of it any more")

// ForgetOf returns the effect of forgetting a payer. It fails with state.ErrForgotten if the payer was forgotten
// before.
func ForgetOf(ctx context.Context, ledger *state.Ledger, id state.RecordID) (Forgetting, error) {
	r := Forgetting{Connection: id.Connection, SourceID: id.SourceID, Alike: []state.Lookalike{}, Elsewhere: []string{}}
	if err := ledger.MayForget(ctx, id); err != nil {
		r.Forgotten = errors.Is(err, state.ErrForgotten)
		r.SaidBefore = r.Forgotten
		return r, err
	}
	held, err := ledger.SubjectData(ctx, id)
	if err != nil {
		return r, err
	}
	r.Name, r.Erases = held.Label.Name, ForgetCounts{len(held.Changes), len(held.Deliveries), held.Hashes}
	if held.Payer != nil {
		r.BillingID = held.Payer.BillingID
	}
	for _, m := range held.Mandates {
		if m.BillingID == r.BillingID {
			r.MandateID, r.Mandate = m.MandateID, m.Status
		}
	}
	if r.Alike, err = ledger.Lookalikes(ctx, id.Connection, id.SourceID); err != nil {
		return r, err
	}
	r.Elsewhere, err = remains(ctx, ledger, r, held)
	return r, err
}

// remains lists the remaining data about a payer, with their places.
func remains(ctx context.Context, ledger *state.Ledger, r Forgetting, held state.SubjectData) (out []string, err error) {
	entries, mappings, err := ledger.Quotes(ctx, held.Label)
	if err != nil {
		return nil, err
	}
	if r.BillingID != "" {
		out = append(out, fmt.Sprintf("The billing service keeps customer %s, and no request to delete it is sent: ask there.", r.BillingID))
	}
	if r.MandateID != "" {
		out = append(out, fmt.Sprintf("The billing service keeps mandate %s: %s.", r.MandateID,
			connector.MandateStatus(r.Mandate).Label()))
	}
	out = append(out,
		fmt.Sprintf("The accounting system keeps record %s of %s as it is, and so do exports of it.", r.SourceID,
			r.Connection),
		"Backups of the ledger from before hold it, sealed. Put back, they forget it again when they are opened with the list of forgotten payers beside them.",
		"Logs hold ids alone. What was printed or saved with --show-values, in an export, or as a list of signing links is where you put it.")
	path, file := ledger.Path()
	if kept, err := state.ReplacedLedgers(path); file != nil && err == nil && len(kept) > 0 {
		out = append(out, fmt.Sprintf("Ledgers that a restore has replaced hold it, sealed, until you remove them: %s.",
			strings.Join(kept, ", ")))
	}
	if held.Payer != nil && strings.Contains(r.SourceID+held.Payer.Key, "@") {
		out = append(out, "The record's id or key looks like an e-mail address. Ids and keys stay, here and at the billing service: choose others for the mapping.")
	}
	if entries > 0 {
		out = append(out, fmt.Sprintf("The audit log holds the name or the e-mail address in %s that people gave as reasons; no line of it is ever changed.", connector.Plural(entries, "text")))
	}
	if mappings > 0 {
		out = append(out, fmt.Sprintf("The ledger keeps %s of the mapping file, sealed, with the name or the e-mail address in the text, perhaps as an example; so does the file itself.", connector.Plural(mappings, "version")))
	}
	return out, nil
}

// aboutRecord is the line of the audit log about one record.
func aboutRecord(by syncer.Operator, action string, id state.RecordID) state.Entry {
	return state.Entry{Actor: by.Name, Action: action, Subject: id.Connection + "/" + id.SourceID, Reason: by.Reason}
}

// proposeForget is for a record of a payer forgotten before: a valid mandate is cancelled first.
func (a *Attention) proposeForget(ctx context.Context, p *Proposal) error {
	id := p.Record
	f, err := ForgetOf(ctx, a.Ledger, id)
	p.Forget = &f
	switch {
	case errors.Is(err, state.ErrForgotten):
		return syncer.ErrSaidBefore
	case err != nil:
		return err
	case f.MandateHolds() && !p.Stays:
		return ErrMandateHolds
	}
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) (err error) {
		out.Later, err = a.Ledger.Forget(ctx, id, aboutRecord(by, "forget payer", id))
		return err
	}
	return nil
}

func (a *Attention) proposeUnforget(_ context.Context, p *Proposal) error {
	id := p.Record
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) error {
		err := a.Ledger.Unforget(ctx, id, aboutRecord(by, "unforget payer", id))
		out.News = err == nil
		return unless(err, state.ErrNotForgotten)
	}
	return nil
}
