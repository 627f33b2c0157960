package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// MostDeferrals is how often a letter may be put off by a mail server before it is given up.
const MostDeferrals = 3

// Letter is a letter to a payer about a mandate and a step of its reminders.
type Letter struct {
	ID        int64
	MandateID string
	Step      int    // 0 is the invitation
	Kind      string // which template
	RecordID
	Recipient string    // keyed hash of the address
	Setup     string    // hash of what a person approves the first batch of
	Language  string    // BCP 47
	MessageID string    // keyed hash of mandate and step
	Body      []byte    // the frozen bytes with their recipient; nil when they are kept no longer, and in lists
	LookedAt  time.Time // when the customer was read before it
	FrozenAt  time.Time

	State     MessageState
	Attempts  int       // how often its first byte was about to leave
	Deferrals int       // how often the mail server said not now
	SendingAt time.Time // when the last attempt began; zero for none
	EndedAt   time.Time // when its outcome was known
	Answer    string    // what the mail server said, without addresses
	Word      string    // a person's decision on an unclear one
}

// Reached reports whether the letter has come to its recipient, or may have.
func (l Letter) Reached() bool {
	return l.State == MessageSent || l.State == MessageUnclear || l.State == MessageSending
}

// ErrLetterTaken means that a letter for the step was sent, or may have been.
var ErrLetterTaken = errors.New("a letter for this step was sent already, or may have been")

// FreezeLetter keeps a letter before its first byte leaves. It fails with ErrLetterTaken when
// one for the step may have been taken.
func (tx *Tx) FreezeLetter(l Letter) error {
	n, err := tx.count(`INSERT INTO letters (mandate_id, step, kind, connection, source_id, recipient, setup, language, message_id, digest, body, looked_at, frozen_at, state)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 'frozen')
		ON CONFLICT (mandate_id, step) DO UPDATE SET kind = excluded.kind, recipient = excluded.recipient, setup = excluded.setup, language = excluded.language,
		  digest = excluded.digest, body = excluded.body, looked_at = excluded.looked_at, frozen_at = excluded.frozen_at, state = 'frozen', answer = ''
		WHERE letters.message_id = excluded.message_id AND (letters.state = 'frozen' OR letters.state = 'void' OR letters.state = 'deferred' AND letters.deferrals < ?14
		  OR letters.state = 'refused' AND letters.recipient <> excluded.recipient)`,
		l.MandateID, l.Step, l.Kind, l.Connection, l.SourceID, l.Recipient, l.Setup, l.Language, l.MessageID,
		digestOf(l.Body),
		tx.l.seal.box(l.Body, place("letters", "body", l.MessageID)), stamp(l.LookedAt), stamp(l.FrozenAt), MostDeferrals)
	if err == nil && n == 0 {
		err = ErrLetterTaken
	}
	if err != nil {
		return fmt.Errorf("freeze the letter of step %d for mandate %s: %w", l.Step, l.MandateID, err)
	}
	return nil
}

// mayLeave is the condition that nothing known keeps letter t from being sent. Its mandate is the
// payer's and unsigned, and nobody stopped it. ?2 is the day.
const mayLeave = `EXISTS (SELECT 1 FROM payers p JOIN mandates m ON m.mandate_id = p.mandate_id
	JOIN source_records r ON r.connection = p.connection AND r.source_id = p.source_id
	WHERE p.connection = t.connection AND p.source_id = t.source_id AND p.mandate_id = t.mandate_id AND m.status = 'CREATED' AND r.forgotten = '' AND NOT ` + hasLeft + `)
  AND NOT EXISTS (SELECT 1 FROM letter_stops s WHERE s.ended_at IS NULL AND (s.until_on IS NULL OR s.until_on > ?2)
	AND (s.scope = 'all' OR s.scope = 'connection' AND s.connection = t.connection
	  OR s.scope = 'payer' AND s.connection = t.connection AND s.source_id = t.source_id OR s.scope = 'address' AND s.recipient = t.recipient))`

// BeginSending marks a frozen letter before its first byte leaves, and returns its bytes. It reports false,
// and gives the letter up, if newer facts forbid the letter, or the last check is older than lookedAfter.
// today is the day by the payer's clock.
func (tx *Tx) BeginSending(messageID string, lookedAfter time.Time, today string) (body []byte, may bool, err error) {
	tx.leads = true
	n, err := tx.count("UPDATE letters AS t SET state = 'sending', attempts = attempts + 1, sending_at = ?3, ended_at = NULL WHERE t.message_id = ?1 AND t.state = 'frozen' AND t.looked_at > ?4 AND t.looked_at <= ?3 AND "+mayLeave,
		messageID, today, stamp(tx.now), stamp(lookedAfter))
	if err != nil {
		return nil, false, fmt.Errorf("note that a letter leaves: %w", err)
	}
	if n == 0 {
		return nil, false, tx.endLetter("UPDATE letters SET state = 'void', ended_at = ?2, answer = 'nothing was sent: things had changed' WHERE message_id = ?1 AND state = 'frozen'", messageID, stamp(tx.now))
	}
	var box []byte
	var digest string
	if err := tx.row([]any{&box, &digest}, "SELECT body, digest FROM letters WHERE message_id = ?",
		messageID); err != nil {
		return nil, false, fmt.Errorf("read a letter: %w", err)
	}
	body, err = tx.l.openFrozen(box, digest, place("letters", "body", messageID), "the letter "+messageID)
	return body, err == nil, err
}

// EndLetter stores the result of sending a letter: MessageSent, MessageRefused or MessageUnclear. put
// tells whether the mail server deferred the letter, or never received it.
func (tx *Tx) EndLetter(messageID string, to MessageState, put bool, answer string) error {
	return tx.endLetter("UPDATE letters SET state = ?2, ended_at = ?3, answer = ?4, deferrals = deferrals + ?5 WHERE message_id = ?1 AND state = 'sending'", messageID, to, stamp(tx.now), answer, put)
}

func (tx *Tx) endLetter(query string, args ...any) error {
	return connector.Wrap(tx.exec(query, args...), "note what became of a letter")
}

// AbandonSending marks the letters that a dead process was sending as unclear, and returns their
// number. The caller holds the lock of TryOutbox.
func (tx *Tx) AbandonSending() (int64, error) {
	n, err := tx.count("UPDATE letters SET state = 'unclear', ended_at = ?, answer = 'payersync ended while it was sent' WHERE state = 'sending'", stamp(tx.now))
	return n, connector.Wrap(err, "note which letters were being sent")
}

// VoidLetters gives up a payer's unsent letters that concern no unsigned mandate.
func (tx *Tx) VoidLetters(connection, sourceID string) error {
	return tx.endLetter(`UPDATE letters AS t SET state = 'void', ended_at = ?3, answer = 'the mandate waits for no signature any more'
		WHERE connection = ?1 AND source_id = ?2 AND (state = 'frozen' OR state = 'deferred') AND NOT EXISTS (
		  SELECT 1 FROM payers p JOIN mandates m ON m.mandate_id = p.mandate_id
		  WHERE p.connection = ?1 AND p.source_id = ?2 AND p.mandate_id = t.mandate_id AND m.status = 'CREATED')`, connection,
		sourceID, stamp(tx.now))
}

// Decisions of a person about an unclear letter.
const (
	WordArrived = "arrived" // the payer has it
	WordAgain   = "again"   // it may be sent once more
)

// ErrNotUnclear means that the letter needs no decision.
var ErrNotUnclear = errors.New("nobody has to decide about the letter")

// SayOfLetter notes a person's decision about an unclear letter. It also permits another try for a
// letter that the mail server refused or deferred too often. It fails with ErrNotUnclear.
func (tx *Tx) SayOfLetter(id int64, word string, by Entry) error {
	to := MessageSent
	if word == WordAgain {
		to = MessageDeferred
	}
	n, err := tx.count("UPDATE letters SET state = ?2, word = ?3, deferrals = 0 WHERE letter_id = ?1 AND (state = 'unclear' OR ?2 = 'deferred' AND (state = 'refused' OR state = 'deferred' AND deferrals >= ?4))", id, to, word, MostDeferrals)
	switch {
	case err != nil:
		return fmt.Errorf("note what is said of a letter: %w", err)
	case n == 0:
		return ErrNotUnclear
	}
	return tx.Audit(by)
}

const letterColumns = `letter_id, mandate_id, step, kind, connection, source_id, recipient, setup, language, message_id, looked_at, frozen_at, state, attempts, deferrals, sending_at, ended_at, answer, word FROM letters`

type letterRow struct {
	Letter
	looked, frozen, sending, ended sql.NullString
}

func (r *letterRow) dest() []any {
	return []any{&r.ID, &r.MandateID, &r.Step, &r.Kind, &r.Connection, &r.SourceID, &r.Recipient, &r.Setup, &r.Language,
		&r.MessageID, &r.looked, &r.frozen,
		&r.State, &r.Attempts, &r.Deferrals, &r.sending, &r.ended, &r.Answer, &r.Word}
}

// EachLetter passes on the letters in order of creation, without their bytes: those in a state, or
// all for "".
func (l *Ledger) EachLetter(ctx context.Context, in MessageState, do func(Letter) error) error {
	return l.eachLetter(ctx, "WHERE state = ?1 OR ?1 = '' ORDER BY letter_id", []any{in}, do)
}

// LettersOf returns the letters to a payer in the order in which they were made, without their
// bytes.
func (l *Ledger) LettersOf(ctx context.Context, id RecordID) (out []Letter, err error) {
	err = l.eachLetter(ctx, "WHERE connection = ? AND source_id = ? ORDER BY letter_id", []any{id.Connection, id.SourceID},
		func(t Letter) error { out = append(out, t); return nil })
	return out, err
}

// LetterByID returns a letter with its bytes; nil when there is none.
func (l *Ledger) LetterByID(ctx context.Context, id int64) (out *Letter, err error) {
	if err := l.eachLetter(ctx, "WHERE letter_id = ?", []any{id},
		func(t Letter) error { out = &t; return nil }); err != nil || out == nil {
		return nil, err
	}
	var box []byte
	if err := l.queryRow(ctx, "SELECT body FROM letters WHERE letter_id = ?", id).Scan(&box); err != nil {
		return nil, fmt.Errorf("read a letter: %w", err)
	}
	if out.Body, err = l.seal.open(box, place("letters", "body", out.MessageID)); err != nil {
		return nil, fmt.Errorf("the letter %s: %w", out.MessageID, err)
	}
	return out, nil
}

func (l *Ledger) eachLetter(ctx context.Context, which string, args []any, do func(Letter) error) error {
	return each(ctx, l, "SELECT "+letterColumns+" "+which, args, (*letterRow).dest, func(r letterRow) (err error) {
		for _, t := range []struct {
			stored sql.NullString
			into   *time.Time
		}{{r.looked, &r.LookedAt}, {r.frozen, &r.FrozenAt}, {r.sending, &r.SendingAt}, {r.ended, &r.EndedAt}} {
			if *t.into, err = parseTime(t.stored); err != nil {
				return err
			}
		}
		return do(r.Letter)
	})
}

// HandOver is a day on which somebody else sent a mandate's link.
type HandOver struct {
	MandateID string
	RecordID         // of the payer whose customer has the mandate
	On        string // a day, as YYYY-MM-DD
}

// HandOvers returns the links sent by other people to present payers.
func (l *Ledger) HandOvers(ctx context.Context) ([]HandOver, error) {
	return list(ctx, l, `SELECT h.mandate_id, p.connection, p.source_id, h.sent_on FROM handovers h
		JOIN mandates m ON m.mandate_id = h.mandate_id JOIN payers p ON p.billing_id = m.billing_id ORDER BY h.sent_on, h.mandate_id`, nil,
		func(r *HandOver) []any { return []any{&r.MandateID, &r.Connection, &r.SourceID, &r.On} })
}
