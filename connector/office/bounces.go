package office

import (
	"context"
	"errors"
	"io"
	"strings"

	"payersync/connector/letters/bounce"
	"payersync/connector/syncer"
	"payersync/state"
)

// Bounces is what is done about letters that come back.
type Bounces struct {
	Ledger *state.Ledger
}

// Bounced is what became of a report, or of a person's word, that letters come back.
type Bounced struct {
	Stopped int `json:"stopped"` // addresses to which nothing more is sent
	Noted   int `json:"noted"`   // letters that did not arrive for now: the next one may
	Dropped int `json:"dropped"` // reports of messages that are none of ours, or that arrived
	Payers  int `json:"payers"`  // who are written to at the address
}

// What cannot be said of an address.
var (
	// ErrNotWrittenTo means that nobody knows an address at which the record is written to.
	ErrNotWrittenTo = errors.New("no address is known at which the record is written to")
	// ErrNotBounced means that nobody said that letters to the address come back.
	ErrNotBounced = errors.New("nobody said that letters to the address come back")
)

// Report takes a delivery report in. It is believed of a letter of ours alone, by the
// Message-ID of the message that came back: only who got or sent that knows it.
func (b *Bounces) Report(ctx context.Context, mail io.Reader, by syncer.Operator) (Bounced, error) {
	said, err := bounce.Parse(mail)
	if err != nil {
		return Bounced{}, err
	}
	id, _, _ := strings.Cut(said.MessageID, "@") // letters are known by what stands before our domain
	letter, err := b.Ledger.LetterOfMessage(ctx, id)
	if err != nil {
		return Bounced{}, err
	}
	if letter == nil || said.Kind == bounce.None {
		return Bounced{Dropped: 1}, nil
	}
	audit := state.Entry{Actor: by.Name, Action: "note a letter that came back", Subject: letter.MessageID, Reason: said.Status}
	if said.Kind == bounce.Soft {
		return Bounced{Noted: 1}, b.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.Audit(audit) })
	}
	return b.stop(ctx, letter.Recipient, said.Status, audit)
}

// Address stops letters to an address on a person's word that they come back.
func (b *Bounces) Address(ctx context.Context, address string, by syncer.Operator) (Bounced, error) {
	recipient := b.Ledger.RecipientHash(address)
	return b.stop(ctx, recipient, by.Reason, state.Entry{Actor: by.Name, Action: "note an address that takes no mail", Subject: recipient, Reason: by.Reason})
}

func (b *Bounces) stop(ctx context.Context, recipient, note string, audit state.Entry) (Bounced, error) {
	payers, err := b.Ledger.PayersAt(ctx, recipient)
	if err != nil {
		return Bounced{}, err
	}
	return Bounced{Stopped: 1, Payers: payers}, b.Ledger.Do(ctx, func(tx *state.Tx) error {
		return errors.Join(tx.AddLetterStop(state.LetterStop{Scope: state.StopAddress, Recipient: recipient, Why: state.StopBounced, Note: note, Actor: audit.Actor}), tx.Audit(audit))
	})
}

// ReviveRecord says that the address at which a record is written to works after all.
func (b *Bounces) ReviveRecord(ctx context.Context, id state.RecordID, by syncer.Operator) error {
	recipient, err := b.Ledger.RecipientOf(ctx, id)
	switch {
	case err != nil:
		return err
	case recipient == "":
		return ErrNotWrittenTo
	}
	return b.revive(ctx, recipient, by)
}

// ReviveAddress says that an address works after all.
func (b *Bounces) ReviveAddress(ctx context.Context, address string, by syncer.Operator) error {
	return b.revive(ctx, b.Ledger.RecipientHash(address), by)
}

func (b *Bounces) revive(ctx context.Context, recipient string, by syncer.Operator) error {
	return b.Ledger.Do(ctx, func(tx *state.Tx) error {
		held, err := tx.Revive(recipient)
		if err == nil && !held {
			err = ErrNotBounced
		}
		return errors.Join(err, tx.Audit(state.Entry{Actor: by.Name, Action: "note an address that works again", Subject: recipient, Reason: by.Reason}))
	})
}
