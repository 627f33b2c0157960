package letters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/mail"
	"payersync/connector/outbox"
	"payersync/state"
)

// Reader reads customers of the billing service; a reconcile.Reconciler is one. The ledger has the result when the read
// returns.
type Reader interface {
	// Look returns a customer; nil if the service reports it as nonexistent.
	Read(ctx context.Context, billingID string, cause connector.Cause, causeID string) (*connector.RemoteCustomer, error)
}

// Desk sends the letters. Set its fields before the first use. It uses the ledger's clock.
type Desk struct {
	Ledger   *state.Ledger
	Reader   Reader
	Settings Settings

	// Renew fetches links too old for a mail again, unless this needs a person's approval. It is called once a day at
	// most; nil for none.
	Renew func(ctx context.Context, payers []state.RecordID) error

	// JournalLost is a person's statement to Continue: the journal of the other nodes is lost.
	JournalLost bool

	Wait   func(ctx context.Context, d time.Duration) error // between two letters; nil for a timer
	Report func(LetterEvent)                                // receives the outcome of each letter; may be nil
	// for tests with crashes: an error means the process died there; may be nil
	Step func(Point) error
}

// Point is a place between two steps of sending a letter. Those after Frozen are points of the outbox.
type Point = outbox.Point

// The points before those of the outbox, in their order.
const (
	Marked Point = "marked" // the folder of the journal, before the database knows
	Looked Point = "looked"
	Frozen Point = "frozen"
)

// LetterEvent is the outcome of a letter.
type LetterEvent struct {
	state.RecordID
	MandateID string
	MessageID string
	Step      int
	Kind      Kind
	State     state.MessageState // "" for one that was looked at and not sent
	Answer    string             // the mail server's answer, or why it was not sent
}

// Counts counts the results of one run.
type Counts struct {
	Sent, Refused, Deferred, Unclear int
	Kept                             int // looked at and not sent
	Waiting                          int // for a person
	Left                             int // due, and not sent in this run
	Abandoned                        int // letters of a dead process
	Holds                            []Hold
	Closed                           bool      // it was no time for letters
	Opens                            time.Time // from then on letters may leave; the time of the look while they may
}

// The errors of a desk.
var (
	ErrBusy    = outbox.ErrBusy    // another process is sending letters
	ErrNothing = outbox.ErrNothing // no letter waits for approval
	ErrChanged = outbox.ErrChanged // the waiting letters differ from those shown
)

// How long one look is good for, and one plan.
const (
	lookGood = 15 * time.Minute
	planGood = 5 * time.Minute
)

// Run sends the due letters once. Letters not sent within a few minutes are left to the next run. It fails with ErrBusy
// while another process is sending. It also fails if the billing service or the mail server does not answer, or the
// ledger cannot be written.
func (d *Desk) Run(ctx context.Context) (res Counts, err error) {
	err = outbox.Locked(d.Ledger, state.MessageLetter, func() (err error) { res, err = d.run(ctx); return err })
	return res, err
}

func (d *Desk) run(ctx context.Context) (res Counts, err error) {
	err = d.Ledger.Do(ctx, func(tx *state.Tx) error {
		n, err := tx.AbandonSending()
		res.Abandoned = int(n)
		return err
	})
	if err != nil {
		return res, err
	}
	if _, err := d.brakeOnBounces(ctx); err != nil { // reports of them come at any time
		return res, err
	}
	p, err := d.Plan(ctx)
	if err != nil {
		return res, err
	}
	if err := d.note(ctx, p); err != nil {
		return res, err
	}
	res.Waiting, res.Holds, res.Opens = p.Count(Waits, ""), p.Holds, d.Opens(p)
	res.Closed = !res.Opens.Equal(p.At)
	if res.Closed {
		return res, nil
	}
	if err := d.renew(ctx, p); err != nil {
		return res, err
	}
	err = d.sendAll(ctx, p, &res)
	return res, err
}

// mostRenewed is how many links are fetched again in one day.
const mostRenewed = 200

// renew fetches old links again; their letters are due at the next look.
func (d *Desk) renew(ctx context.Context, p *Plan) error {
	var old []state.RecordID
	for _, x := range p.Next {
		if x.Why == WhyOldLink && !p.holds(x.Connection) && len(old) < mostRenewed {
			old = append(old, x.RecordID)
		}
	}
	if d.Renew == nil || len(old) == 0 || DayOf(p.renewed) == DayOf(p.At) {
		return nil
	}
	if err := d.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.NoteLinksRenewed() }); err != nil {
		return err
	}
	return d.Renew(ctx, old)
}

// clockSet reports whether the time since the last look cannot have gone by while payersync
// looked every few minutes.
func clockSet(now, looked time.Time) bool {
	return !looked.IsZero() && (now.Sub(looked) < -clockBack || now.Sub(looked) > clockForward)
}

// noteBatch is how many addresses one commit notes.
const noteBatch = 500

// note stores the result of a look, creates the journal if there is none, and notes the addresses unless too many of
// them changed.
func (d *Desk) note(ctx context.Context, p *Plan) error {
	var texts []string
	clock := true
	for _, h := range p.Holds {
		if h.Connection == "" && h.Code != HoldSender {
			texts = append(texts, h.Text)
		}
		clock = clock && h.Code != HoldClock
	}
	err := d.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.NoteLetterLook(p.waiting(), strings.Join(texts, " "), clock)
	})
	if err != nil || p.holds("") {
		return err
	}
	if p.journal == nil {
		if err := d.beginJournal(ctx, p); err != nil {
			return err
		}
	}
	if err := errors.Join(d.keepWords(p), d.markFolder(ctx)); err != nil {
		return err
	}
	if p.changed {
		return nil // a person looks at them first
	}
	return d.noteAddresses(ctx, p)
}

// keepWords adds decisions about addresses to the journal.
func (d *Desk) keepWords(p *Plan) error {
	var lines []state.JournalLetter
	for _, w := range lacking(p.words, p.journal.words) {
		lines = append(lines, state.JournalLetter{MessageID: w.Why, Recipient: w.Recipient, At: d.Ledger.Now()})
	}
	if len(lines) == 0 {
		return nil
	}
	return p.journal.append(lines...)
}

func (d *Desk) beginJournal(ctx context.Context, p *Plan) error {
	desk, err := d.Ledger.LetterDesk(ctx)
	if err != nil {
		return err
	}
	if p.journal, err = beginJournal(d.Settings.place(), desk.Ledger); err != nil {
		return err
	}
	return d.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.SetLetterJournal(p.journal.id) })
}

func (d *Desk) noteAddresses(ctx context.Context, p *Plan) error {
	for some := range slices.Chunk(slices.Concat(p.moved, p.met), noteBatch) {
		if err := d.Ledger.Do(ctx, func(tx *state.Tx) error {
			return connector.Each(some,
				func(a state.LetterAddress) error { return tx.NoteLetterAddress(a.RecordID, a.Recipient) })
		}); err != nil {
			return err
		}
	}
	return nil
}

// sendAll sends the due letters in the order of their steps, the first letters first.
func (d *Desk) sendAll(ctx context.Context, p *Plan, res *Counts) error {
	due := []Next{}
	for _, x := range p.Next {
		if x.What == Due && !p.holds(x.Connection) && d.Settings.isOpen(x.Connection, d.Ledger.Now()) {
			due = append(due, x)
		}
	}
	slices.SortStableFunc(due, func(a, b Next) int { return a.Step - b.Step })
	res.Left = len(due)
	left, breaker, spoke := p.sent, outbox.Breaker{Rules: outbox.Letters}, false
	for _, x := range due {
		if spoke && d.wait(ctx, time.Minute/time.Duration(max(1, d.Settings.PerMinute))) != nil {
			return nil // told to stop, it stops in order
		}
		now := d.Ledger.Now()
		switch {
		case ctx.Err() != nil, left >= d.Settings.PerDay, now.Sub(p.At) >= planGood, now.Before(p.At):
			return nil
		case !d.Settings.isOpen(x.Connection, now):
			continue
		}
		e, err := d.send(ctx, p, x)
		spoke = e.State != "" // checked but unsent letters cost no sending time
		res.Left--
		if e.State == state.MessageSent || e.State == state.MessageUnclear || e.State == state.MessageRefused {
			left++
		}
		res.count(e)
		if err == nil && d.Report != nil {
			d.Report(e)
		}
		if err != nil {
			return err
		}
		refused, unclear := breaker.Note(e.State)
		if refused {
			return d.brake(ctx, fmt.Sprintf("The mail server refused %d letters one after the other: %s. letters again sends one of them once more.", breaker.InRow, e.Answer))
		}
		if e.State == state.MessageRefused {
			if braked, err := d.brakeOnBounces(ctx); braked || err != nil {
				return err
			}
		}
		if unclear {
			return nil
		}
	}
	return nil
}

func (r *Counts) count(e LetterEvent) {
	switch e.State {
	case state.MessageSent:
		r.Sent++
	case state.MessageRefused:
		r.Refused++
	case state.MessageDeferred:
		r.Deferred++
	case state.MessageUnclear:
		r.Unclear++
	default:
		r.Kept++
	}
}

func (d *Desk) wait(ctx context.Context, t time.Duration) error {
	if d.Wait != nil {
		return d.Wait(ctx, t)
	}
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (d *Desk) step(at Point) error {
	if d.Step == nil {
		return nil
	}
	return d.Step(at)
}

// keptError is the reason a due letter is not sent; nothing else is wrong.
type keptError struct{ why string }

func (e *keptError) Error() string { return e.why }

// send sends one letter. It reads the customer, freezes the letter, notes the sending in the ledger and the journal,
// submits it to the mail server, and notes the outcome.
func (d *Desk) send(ctx context.Context, p *Plan, x Next) (LetterEvent, error) {
	e := LetterEvent{RecordID: x.RecordID, MandateID: x.MandateID, MessageID: d.Ledger.LetterID(x.MandateID, x.Step),
		Step: x.Step, Kind: x.Kind}
	to, err := d.freeze(ctx, x, e.MessageID)
	var kept *keptError
	if errors.As(err, &kept) {
		e.Answer = kept.why
		return e, nil
	}
	if err != nil {
		return e, err
	}
	if err := d.step(Frozen); err != nil {
		return e, err
	}
	today := DayOf(d.Ledger.Now().In(d.Settings.zone(x.Connection))).String()
	var body []byte
	var began time.Time
	o, err := outbox.Attempt{
		Begin: func(tx *state.Tx) (leaves bool, err error) {
			began = tx.Now()
			body, leaves, err = tx.BeginSending(e.MessageID, began.Add(-lookGood), today)
			return leaves, err
		},
		Before: func() error {
			sealed, message, whole := bytes.Cut(body, []byte("\n"))
			if body = message; !whole || string(sealed) != to {
				return errors.New("the frozen letter is to somebody else")
			}
			err := p.journal.append(state.JournalLetter{MessageID: e.MessageID, Recipient: x.Recipient, At: began})
			return connector.Wrap(err, "the journal could not be written")
		},
		Send: func(ctx context.Context) (string, error) {
			return d.Settings.Post.Send(ctx, d.Settings.Address, to, body)
		},
		End:  func(tx *state.Tx, o outbox.Outcome) error { return end(tx, e.MessageID, x.Recipient, o) },
		Step: d.Step,
	}.Do(ctx, d.Ledger)
	switch {
	case o.General:
		err = errors.Join(o.Err, err) // the next letter would fail too
	case o.State == "" && err == nil:
		o.Answer = "things had changed when it was about to leave"
	}
	e.State, e.Answer = o.OfMessage(), answerOf(o)
	return e, err
}

// end notes the outcome of a letter. An address that does not exist gets no more letters.
func end(tx *state.Tx, messageID, recipient string, o outbox.Outcome) error {
	err := tx.EndLetter(messageID, o.OfMessage(), o.PutOff, answerOf(o))
	var refused *mail.RefusedError
	if err == nil && o.OfMessage() == state.MessageRefused && errors.As(o.Err, &refused) && isHard(refused) {
		err = tx.AddLetterStop(state.LetterStop{Scope: state.StopAddress, Recipient: recipient, Why: state.StopBounced,
			Note: o.Answer, Actor: "mail server"})
	}
	return err
}

// answerOf returns the answer about a letter. It says "nothing was sent" once if the answer is about all letters.
func answerOf(o outbox.Outcome) string {
	if !o.General {
		return o.Answer
	}
	return "nothing was sent: " + strings.TrimPrefix(o.Answer, "nothing was sent: ")
}

// isHard reports whether an answer means the address does not exist.
func isHard(e *mail.RefusedError) bool {
	if mail.IsDeadAddress(e.Answer.Enhanced) {
		return true
	}
	return e.Answer.Enhanced == "" && e.Stage == mail.AtRecipient &&
		(e.Answer.Code == 550 || e.Answer.Code == 551 || e.Answer.Code == 553)
}
