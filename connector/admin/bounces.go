package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"strings"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/connector/letters/bounce"
	"payersync/connector/syncer"
	"payersync/state"
)

// Bounces holds the actions on bounced letters.
type Bounces struct {
	Ledger *state.Ledger
}

// Bounced is the result of a bounce report, or of a person's statement about bounces.
type Bounced struct {
	Stopped int `json:"stopped"` // addresses that get no more letters
	Noted   int `json:"noted"`   // temporarily undelivered letters: the next one may arrive
	Dropped int `json:"dropped"` // reports of foreign messages, or of delivered ones
	Payers  int `json:"payers"`  // payers at the address
}

// Words describes the result. list names the list of the address's payers, for example "payersync attention list".
func (b Bounced) Words(list string) string {
	switch {
	case b.Stopped > 0 && b.Payers == 1:
		return "Nothing more is sent to the address, which 1 payer is written to at; " + list + " tells who."
	case b.Stopped > 0 && b.Payers > 0:
		return "Nothing more is sent to the address, which " + connector.Plural(b.Payers, "payer") + " are written to at; " +
			list + " tells who."
	case b.Stopped > 0:
		return "Nothing more is sent to the address. No payer is written to at it, for all that is known."
	case b.Noted > 0:
		return "The letter did not arrive for now; that is noted, and the next one goes out."
	}
	return "The report is not about a letter of ours that did not arrive; nothing was noted."
}

// BouncedText is pasted text, or a file: a delivery report, or addresses, a line each.
type BouncedText struct {
	Name string // of the file; "" for what is pasted
	Text string
}

// BouncedLine is the result of a line of a text, or of a whole report.
type BouncedLine struct {
	Bounced
	Name  string // of the file
	N     int    // of the line, from 1; 0 for a report
	Text  string // as it was written
	Wrong string // why it was not understood; "" where it was
}

// The errors of statements about addresses.
var (
	// ErrNotWrittenTo means no mail address is known for the record.
	ErrNotWrittenTo = errors.New("no address is known at which the record is written to")
	// ErrNotBounced means the address has no bounces.
	ErrNotBounced = errors.New("nobody said that letters to the address come back")
	// ErrTooManyLines means the text exceeds the maximum number of lines.
	ErrTooManyLines = fmt.Errorf("there are more than %d lines", MostLines)
)

// MostLines is how many lines of addresses are taken in at once.
const MostLines = 500

// AddressOf parses a text as an e-mail address; "" if it is not one.
func AddressOf(text string) string {
	a, err := mail.ParseAddress(text)
	if err != nil || a.Name != "" {
		return ""
	}
	return a.Address
}

// NoReport reports whether an error means a mail is not a usable report.
func NoReport(err error) bool {
	return errors.Is(err, bounce.ErrNoReport) || errors.Is(err, bounce.ErrNoMessage) || errors.Is(err, bounce.ErrTooLarge)
}

// Texts processes delivery reports, and a person's list of addresses. It notes everything understood in one write, and
// reports the rest. A repeated address is noted once. On an error, for example ErrTooManyLines, nothing is noted.
func (b *Bounces) Texts(ctx context.Context, texts []BouncedText, by syncer.Operator) (out []BouncedLine, err error) {
	said := words{Bounces: b, by: by, seen: map[string]bool{}}
	if err := connector.Each(texts, func(t BouncedText) error { return said.read(ctx, t) }); err != nil {
		return nil, err
	}
	if len(said.keep) == 0 {
		return said.lines, nil
	}
	return said.lines, b.Ledger.Do(ctx, func(tx *state.Tx) error {
		return connector.Each(said.keep, func(keep func(*state.Tx) error) error { return keep(tx) })
	})
}

// words are the facts gathered from texts.
type words struct {
	*Bounces
	by    syncer.Operator
	lines []BouncedLine
	keep  []func(*state.Tx) error
	seen  map[string]bool // addresses, as hashes
}

func (w *words) read(ctx context.Context, t BouncedText) error {
	got, keep, err := w.readReport(ctx, strings.NewReader(t.Text), w.by)
	switch {
	case err == nil:
		w.lines, w.keep = append(w.lines, BouncedLine{Bounced: got, Name: t.Name}), append(w.keep, keep)
		return nil
	case errors.Is(err, bounce.ErrNoReport):
		return w.readAddresses(ctx, t)
	case NoReport(err):
		w.lines = append(w.lines, BouncedLine{Name: t.Name, Text: t.Text, Wrong: err.Error()})
		return nil
	}
	return err
}

func (w *words) readAddresses(ctx context.Context, t BouncedText) error {
	lines := strings.Split(t.Text, "\n")
	if len(w.lines)+len(lines) > MostLines {
		return ErrTooManyLines
	}
	for i, text := range lines {
		line := BouncedLine{Name: t.Name, N: i + 1, Text: strings.TrimSpace(text)}
		address := AddressOf(line.Text)
		recipient := w.Ledger.RecipientHash(address)
		switch {
		case line.Text == "" || address != "" && w.seen[recipient]:
			continue
		case address == "":
			line.Wrong = "it is no e-mail address, and no delivery report"
		default:
			got, keep, err := w.decisionOn(ctx, address, w.by)
			if err != nil {
				return err
			}
			line.Bounced, w.seen[recipient], w.keep = got, true, append(w.keep, keep)
		}
		w.lines = append(w.lines, line)
	}
	return nil
}

// Report processes a delivery report. It trusts only reports about our own letters, by the Message-ID of the returned
// message: only its recipient or sender knows it.
func (b *Bounces) Report(ctx context.Context, report io.Reader, by syncer.Operator) (Bounced, error) {
	got, keep, err := b.readReport(ctx, report, by)
	if err != nil {
		return Bounced{}, err
	}
	return got, b.Ledger.Do(ctx, keep)
}

// Address stops letters to an address because a person has stated they bounce.
func (b *Bounces) Address(ctx context.Context, address string, by syncer.Operator) (Bounced, error) {
	got, keep, err := b.decisionOn(ctx, address, by)
	if err != nil {
		return Bounced{}, err
	}
	return got, b.Ledger.Do(ctx, keep)
}

// readReport returns the content of a delivery report, and the function to store it.
func (b *Bounces) readReport(ctx context.Context, report io.Reader, by syncer.Operator) (Bounced, func(*state.Tx) error,
	error) {
	said, err := bounce.Parse(report)
	if err != nil {
		return Bounced{}, nil, err
	}
	id, _, _ := strings.Cut(said.MessageID, "@") // the part before our domain identifies letters
	letter, err := b.Ledger.LetterOfMessage(ctx, id)
	if err != nil {
		return Bounced{}, nil, err
	}
	if letter == nil || said.Kind == bounce.None {
		return Bounced{Dropped: 1}, func(*state.Tx) error { return nil }, nil
	}
	audit := state.Entry{Actor: by.Name, Action: "note a letter that came back", Subject: letter.MessageID,
		Reason: said.Status}
	if said.Kind == bounce.Soft {
		return Bounced{Noted: 1}, func(tx *state.Tx) error { return tx.Audit(audit) }, nil
	}
	return b.stop(ctx, letter.Recipient, said.Status, audit)
}

// decisionOn returns the meaning of a person's decision on an address, and the function to store it.
func (b *Bounces) decisionOn(ctx context.Context, address string, by syncer.Operator) (Bounced, func(*state.Tx) error,
	error) {
	recipient := b.Ledger.RecipientHash(address)
	return b.stop(ctx, recipient, by.Reason,
		state.Entry{Actor: by.Name, Action: "note an address that takes no mail", Subject: recipient, Reason: by.Reason})
}

func (b *Bounces) stop(ctx context.Context, recipient, note string, audit state.Entry) (Bounced, func(*state.Tx) error,
	error) {
	payers, err := b.Ledger.PayersAt(ctx, recipient)
	return Bounced{Stopped: 1, Payers: payers}, func(tx *state.Tx) error {
		return errors.Join(tx.AddLetterStop(state.LetterStop{Scope: state.StopAddress, Recipient: recipient,
			Why: state.StopBounced, Note: note, Actor: audit.Actor}), tx.Audit(audit))
	}, err
}

// proposeResume marks the address of a record as working again.
func (a *Attention) proposeResume(ctx context.Context, p *Proposal) error {
	recipient, err := a.Ledger.RecipientOf(ctx, p.Record)
	if err == nil && recipient == "" {
		err = ErrNotWrittenTo
	}
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error {
		return (&Bounces{a.Ledger}).revive(ctx, recipient, by)
	})
	return err
}

// proposeLetters stops the letters to a payer or an address, or lets them go again. The audit log does not name the
// address.
func (a *Attention) proposeLetters(_ context.Context, p *Proposal) error {
	of, desk := p.Decision, &letters.Desk{Ledger: a.Ledger}
	entry := func(by syncer.Operator, action string) state.Entry {
		if of.Address != "" {
			return letterEntry(by, action, "an address")
		}
		return aboutRecord(by, action, of.Record)
	}
	p.perform = noting(func(ctx context.Context, by syncer.Operator) error {
		return desk.Stop(ctx, of.Record, of.Address, of.Until, entry(by, "stop letters"))
	})
	if p.Act == connector.ActAllowLetters {
		p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) (err error) {
			out.Count, err = desk.Unstop(ctx, of.Record, of.Address, entry(by, "let letters go again"))
			return err
		}
	}
	return nil
}

// ReviveAddress marks an address as working again.
func (b *Bounces) ReviveAddress(ctx context.Context, address string, by syncer.Operator) error {
	return b.revive(ctx, b.Ledger.RecipientHash(address), by)
}

func (b *Bounces) revive(ctx context.Context, recipient string, by syncer.Operator) error {
	return b.Ledger.Do(ctx, func(tx *state.Tx) error {
		held, err := tx.Revive(recipient)
		if err == nil && !held {
			err = ErrNotBounced
		}
		return errors.Join(err, tx.Audit(state.Entry{Actor: by.Name, Action: "note an address that works again",
			Subject: recipient, Reason: by.Reason}))
	})
}
