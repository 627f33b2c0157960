package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// Alarm is a condition with its messages to one way, sent or due.
type Alarm struct {
	ID         int64
	Way        string
	Code       string
	Subject    string
	Connection string    // "" where it is of none, or of all
	Urgent     bool      // as it was when it was noticed
	Since      time.Time // its beginning; zero if unknown
	NoticedAt  time.Time
	Text       string    // what is the matter, without a name
	OverAt     time.Time // when it was found to be gone; zero while it holds
	Told       string    // the message that told it; "" for none
	MadeAt     time.Time // when that was made; zero for none
	SentAt     time.Time // when that was taken; zero while it waits
}

// AlarmMessage is a message to one way of telling.
type AlarmMessage struct {
	ID          string    `json:"message_id"`
	Way         string    `json:"way"`
	MadeAt      time.Time `json:"made_at"`
	Digest      string    `json:"digest"` // SHA-256 of the bytes
	Body        []byte    `json:"-"`      // the frozen bytes; nil once they were taken
	Attempts    int       `json:"attempts"`
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	Refused     bool      `json:"refused"`
	Problem     string    `json:"problem,omitempty"`
	SentAt      time.Time `json:"sent_at,omitzero"`
}

const alarmColumns = `a.alarm_id, a.way, a.code, a.subject, a.connection, a.urgent, a.since, a.noticed_at, a.text, a.over_at, coalesce(a.told, ''), m.made_at, m.sent_at
	FROM alarms a LEFT JOIN alarm_messages m ON m.message_id = a.told`

// OpenAlarms returns every alarm with an unreported end, in order of detection.
func (l *Ledger) OpenAlarms(ctx context.Context) ([]Alarm, error) {
	type row struct {
		Alarm
		since, noticed, over, made, sent sql.NullString
	}
	rows, err := list(ctx, l, "SELECT "+alarmColumns+" WHERE a.over_told IS NULL ORDER BY a.alarm_id", nil,
		func(r *row) []any {
			return []any{&r.ID, &r.Way, &r.Code, &r.Subject, &r.Connection, &r.Urgent, &r.since, &r.noticed, &r.Text, &r.over,
				&r.Told, &r.made, &r.sent}
		})
	if err != nil {
		return nil, fmt.Errorf("read the alarms: %w", err)
	}
	out := make([]Alarm, 0, len(rows))
	for _, r := range rows {
		if err := parseTimes(map[*time.Time]sql.NullString{
			&r.Since: r.since, &r.NoticedAt: r.noticed, &r.OverAt: r.over, &r.MadeAt: r.made, &r.SentAt: r.sent,
		}); err != nil {
			return nil, err
		}
		out = append(out, r.Alarm)
	}
	return out, nil
}

// AlarmName is the common name of a condition's alarms.
type AlarmName struct{ Way, Code, Subject string }

// LastMessages returns the newest message of every way with any, by way, without their bytes.
func (l *Ledger) LastMessages(ctx context.Context) ([]AlarmMessage, error) {
	return l.messages(ctx, `SELECT message_id, way, made_at, digest, NULL, attempts, next_attempt, refused, problem, sent_at FROM alarm_messages m
		WHERE message_id = (SELECT n.message_id FROM alarm_messages n WHERE n.way = m.way ORDER BY n.sent_at IS NULL DESC, n.made_at DESC, n.message_id LIMIT 1) ORDER BY way`)
}

// WaitingMessage returns the message that a way has not taken yet; nil for none.
func (l *Ledger) WaitingMessage(ctx context.Context, way string) (*AlarmMessage, error) {
	found, err := l.messages(ctx,
		`SELECT message_id, way, made_at, digest, body, attempts, next_attempt, refused, problem, sent_at FROM alarm_messages
		WHERE way = ? AND sent_at IS NULL`, way)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	m := &found[0]
	m.Body, err = l.openFrozen(m.Body, m.Digest, place("alarm_messages", "body", m.ID), "the message "+m.ID)
	return m, err
}

func (l *Ledger) messages(ctx context.Context, query string, args ...any) ([]AlarmMessage, error) {
	type row struct {
		AlarmMessage
		made, next, sent sql.NullString
	}
	rows, err := list(ctx, l, query, args, func(r *row) []any {
		return []any{&r.ID, &r.Way, &r.made, &r.Digest, &r.Body, &r.Attempts, &r.next, &r.Refused, &r.Problem, &r.sent}
	})
	if err != nil {
		return nil, fmt.Errorf("read the messages of alarms: %w", err)
	}
	out := make([]AlarmMessage, 0, len(rows))
	for _, r := range rows {
		if err := parseTimes(map[*time.Time]sql.NullString{&r.MadeAt: r.made, &r.NextAttempt: r.next,
			&r.SentAt: r.sent}); err != nil {
			return nil, err
		}
		out = append(out, r.AlarmMessage)
	}
	return out, nil
}

// NoticeAlarm stores a condition to be sent to a way.
func (tx *Tx) NoticeAlarm(a Alarm) error {
	err := tx.exec("INSERT INTO alarms (way, code, subject, connection, urgent, since, noticed_at, text, over_at, told) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		a.Way, a.Code, a.Subject, a.Connection, a.Urgent, stamp(a.Since), stamp(a.NoticedAt), a.Text, stamp(a.OverAt),
		sql.NullString{String: a.Told, Valid: a.Told != ""})
	return connector.Wrap(err, "note an alarm")
}

// SetAlarmOver notes since when an alarm's condition is gone; the zero time means that it holds
// after all.
func (tx *Tx) SetAlarmOver(id int64, at time.Time) error {
	return connector.Wrap(tx.exec("UPDATE alarms SET over_at = ? WHERE alarm_id = ?", stamp(at), id),
		"note the end of an alarm")
}

// DropAlarm forgets an alarm that needs no message.
func (tx *Tx) DropAlarm(id int64) error {
	return connector.Wrap(tx.exec("DELETE FROM alarms WHERE alarm_id = ?", id), "drop an alarm")
}

// AlarmNotice is a message's text about one alarm.
type AlarmNotice struct {
	Alarm int64
	Text  string // what is the matter, as the message says it
	Over  bool   // the end, and the beginning if that was not sent
}

// FreezeMessage stores a message, with its conditions, before it first leaves.
func (tx *Tx) FreezeMessage(m AlarmMessage, tellings []AlarmNotice) error {
	err := tx.exec("INSERT INTO alarm_messages (message_id, way, made_at, digest, body, attempts, next_attempt) VALUES (?, ?, ?, ?, ?, ?, ?)",
		m.ID, m.Way, stamp(m.MadeAt), digestOf(m.Body), tx.l.seal.box(m.Body, place("alarm_messages", "body", m.ID)),
		m.Attempts, stamp(m.NextAttempt))
	for _, t := range tellings {
		if err != nil {
			break
		}
		if t.Over {
			err = tx.exec("UPDATE alarms SET told = coalesce(told, ?1), over_told = ?1 WHERE alarm_id = ?2", m.ID, t.Alarm)
		} else {
			err = tx.exec("UPDATE alarms SET told = ?, text = ? WHERE alarm_id = ?", m.ID, t.Text, t.Alarm)
		}
	}
	if err != nil {
		return fmt.Errorf("freeze a message: %w", err)
	}
	return nil
}

// TryMessage notes that a frozen message is about to leave again, and when the next attempt
// would be.
func (tx *Tx) TryMessage(id string, next time.Time) error {
	return tx.touchMessage("UPDATE alarm_messages SET attempts = attempts + 1, next_attempt = ? WHERE message_id = ? AND sent_at IS NULL", stamp(next), id)
}

// MessageFailed notes why a message was not taken, whether it was refused for good, and when
// it is tried again.
func (tx *Tx) MessageFailed(id, problem string, refused bool, next time.Time) error {
	return tx.touchMessage("UPDATE alarm_messages SET problem = ?, refused = ?, next_attempt = ? WHERE message_id = ? AND sent_at IS NULL",
		problem, refused, stamp(next), id)
}

// MessageSent notes that a message was taken. Its bytes are not kept.
func (tx *Tx) MessageSent(id string) error {
	return tx.touchMessage("UPDATE alarm_messages SET sent_at = ?, body = NULL, next_attempt = NULL, refused = 0, problem = '' WHERE message_id = ? AND sent_at IS NULL", stamp(tx.now), id)
}

// HurryMessages makes the waiting message of a way due at once: the way is known to work again.
func (tx *Tx) HurryMessages(way string) error {
	return tx.touchMessage("UPDATE alarm_messages SET next_attempt = ? WHERE way = ? AND sent_at IS NULL", stamp(tx.now),
		way)
}

// NoteSent keeps a message that was sent while the ledger could not be written to.
func (tx *Tx) NoteSent(m AlarmMessage) error {
	return tx.touchMessage("INSERT INTO alarm_messages (message_id, way, made_at, digest, attempts, sent_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		m.ID, m.Way, stamp(m.MadeAt), digestOf(m.Body), m.Attempts, stamp(m.SentAt))
}

func (tx *Tx) touchMessage(query string, args ...any) error {
	return connector.Wrap(tx.exec(query, args...), "note what became of a message")
}

// voidMessages give up every message that was not taken yet. Their alarms are reported again, in
// the words of the day.
var voidMessages = []string{
	"UPDATE alarms SET over_told = NULL WHERE over_told IN (SELECT message_id FROM alarm_messages WHERE sent_at IS NULL)",
	"UPDATE alarms SET told = NULL WHERE told IN (SELECT message_id FROM alarm_messages WHERE sent_at IS NULL)",
	"DELETE FROM alarm_messages WHERE sent_at IS NULL",
}

// alarmsSince is the first schema that knows alarms.
const alarmsSince = 27

// KeepWays drops the alarms for all other ways: their messages no longer reach anybody.
func (tx *Tx) KeepWays(names []string) error {
	ways, err := json.Marshal(names)
	if err != nil {
		return err
	}
	const gone = " WHERE way NOT IN (SELECT value FROM json_each(?))"
	return errors.Join(
		tx.exec("DELETE FROM alarms"+gone, string(ways)),
		tx.exec("DELETE FROM alarm_messages"+gone+" AND sent_at IS NULL", string(ways)))
}

// DropOldAlarms deletes the alarms reported, and reported as over, before a time.
func (tx *Tx) DropOldAlarms(before time.Time) error {
	return errors.Join(
		tx.exec("DELETE FROM alarms WHERE over_told IS NOT NULL AND over_at < ?", stamp(before)),
		tx.exec(`DELETE FROM alarm_messages WHERE sent_at < ?1 AND made_at < ?1 AND NOT EXISTS (
			SELECT 1 FROM alarms a WHERE a.told = message_id OR a.over_told = message_id)`, stamp(before)))
}
