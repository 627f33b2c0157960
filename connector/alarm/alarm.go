// Package alarm reports the conditions found by package health: each once at its start and once at its end, over
// every way with a suitable minimum severity. It limits the number of messages.
//
//	conditions ─▶ notice ─▶ alarms (ledger) ─▶ freeze ─▶ send ─▶ sent
//	                 │                            │        │
//	        one row for each way      bytes, id, commit    └─ failed: later, the same bytes
//
// All news of one look forms one message. While a message waits for its way, later news waits with it, so a recovered
// way gets two messages and not two hundred. A message is frozen in the ledger before it is sent, and keeps one id
// forever. If an answer was lost, the message is sent again unchanged, and the mail system or the webhook's receiver
// can recognise the repeat.
//
// The caller does the logging and the reports of failed ways. A failed way is also a condition, reported over the other
// ways.
package alarm

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"payersync/connector"
	"payersync/connector/health"
	"payersync/connector/outbox"
	"payersync/state"
)

// Severity is the severity of a condition: Critical if it is urgent, else Warning.
type Severity string

// The severities, equal to those of the rules in configs/prometheus.
const (
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// Way is one way of telling somebody.
type Way struct {
	Name        string
	Sender      Sender
	MinSeverity Severity // of the conditions that it is told of; "" for all
	Names       bool     // its readers may see payers' names
}

// Sender takes messages to a recipient.
type Sender interface {
	// Freeze returns the bytes of a message, as it leaves however often it does.
	Freeze(m Message) ([]byte, error)
	// Send sends frozen bytes, and returns the receiver's answer. Package outbox knows the meaning of its errors.
	Send(ctx context.Context, id string, body []byte) (answer string, err error)
}

// MessageEvent is the outcome of one message.
type MessageEvent struct {
	Way     string
	Message string
	Begun   int       // begun conditions in it
	Over    int       // ended conditions in it
	Answer  string    // the receiver's answer
	Err     error     // why it was not taken
	Next    time.Time // when it is tried again
}

// Notifier sends alarms. Its fields are set before its first use; it is used by one goroutine at a time.
type Notifier struct {
	Ledger       *state.Ledger
	Now          func() time.Time // the clock; the ledger's if there is one
	Look         func(context.Context) ([]health.Condition, error)
	Ways         []Way
	Installation string                               // this installation's name in messages
	Account      string                               // that command lines name; "" for the only one of a ledger's file
	Time         func(time.Time) string               // how messages write a time
	Clean        func(text string, names bool) string // masks secret values; with names, payers' names may leave
	Command      func(connector.Step) string          // how messages write a step; nil for not at all
	Report       func(MessageEvent)                   // is told of each attempt, by several goroutines at once

	taken     *sync.Map             // the ids of accepted messages not yet stored as such in the ledger
	unwritten map[string]*unwritten // sent while the ledger accepted no writes, by way
	outages   int                   // how often the ledger could be written again
}

// Remember adopts another teller's facts that could not be written to the ledger.
func (t *Notifier) Remember(before *Notifier) {
	if before != nil {
		t.taken, t.unwritten, t.outages = before.taken, before.unwritten, before.outages
	}
}

// keptFor is how long sent alarms are kept.
const keptFor = 400 * 24 * time.Hour

// Notify examines the conditions once, and sends every way its news. Its error is the obstacle to this; Report gets the
// failures of single ways. It fails with outbox.ErrBusy while another process is sending.
func (t *Notifier) Notify(ctx context.Context) error {
	return outbox.Locked(t.Ledger, state.MessageAlarm, func() error { return t.notify(ctx) })
}

// NextLook returns the time of the next try of a refused message; the zero time if none waits.
func (t *Notifier) NextLook(ctx context.Context) (next time.Time, err error) {
	last, err := t.Ledger.LastMessages(ctx)
	for _, m := range last {
		if m.SentAt.IsZero() && (next.IsZero() || m.NextAttempt.Before(next)) {
			next = m.NextAttempt
		}
	}
	return next, err
}

func (t *Notifier) notify(ctx context.Context) error {
	t.taken = cmp.Or(t.taken, &sync.Map{})
	found, err := t.conditions(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return errors.Join(err, t.NotifyUnwritable(ctx, err))
	}
	if err := t.recover(ctx); err != nil {
		return err
	}
	open, err := t.notice(ctx, found)
	if err != nil {
		return err
	}
	return t.each(func(w Way) error { return t.notifyWay(ctx, w, open, found) })
}

// conditions returns the conditions, if the ledger can be written and read. Another process may lock it for a while,
// so look tries twice.
func (t *Notifier) conditions(ctx context.Context) ([]health.Condition, error) {
	err := t.Ledger.Ping(ctx)
	if err != nil && ctx.Err() == nil {
		err = t.Ledger.Ping(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("commit to the ledger: %w", err)
	}
	return t.Look(ctx)
}

// each calls do for all ways at once, so none waits for another.
func (t *Notifier) each(do func(Way) error) error {
	errs := make([]error, len(t.Ways))
	var wg sync.WaitGroup
	for i, w := range t.Ways {
		wg.Go(func() {
			if err := do(w); err != nil {
				errs[i] = fmt.Errorf("send alarms by alerts.ways %s: %w", w.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// admits reports whether a way gets a condition. A failed way does not get the report of its own failure.
func (w Way) admits(c health.Condition) bool {
	return (c.Urgent || w.MinSeverity != Critical) && (c.Code != health.WayFailed || c.Subject != w.Name)
}

func nameOf(a state.Alarm) state.AlarmName {
	return state.AlarmName{Way: a.Way, Code: a.Code, Subject: a.Subject}
}

// notice stores the conditions started and ended since the last look, in one commit, and returns the open alarms.
func (t *Notifier) notice(ctx context.Context, found []health.Condition) ([]state.Alarm, error) {
	open, err := t.Ledger.OpenAlarms(ctx)
	if err != nil {
		return nil, err
	}
	known := connector.By(open, nameOf)
	now := t.Now()
	var writes []func(*state.Tx) error
	names := make([]string, len(t.Ways))
	for i, w := range t.Ways {
		names[i] = w.Name
		holds := map[state.AlarmName]bool{}
		for _, c := range found {
			name := state.AlarmName{Way: w.Name, Code: string(c.Code), Subject: c.Subject}
			a, is := known[name]
			if holds[name] || a.Told == "" && !w.admits(c) { // a sent alarm is followed to its end
				continue
			}
			holds[name] = true
			switch {
			case !is:
				a = state.Alarm{Way: w.Name, Code: string(c.Code), Subject: c.Subject, Connection: c.Connection, Urgent: c.Urgent,
					Since: c.Since, NoticedAt: now, Text: c.Sentence}
				writes = append(writes, func(tx *state.Tx) error { return tx.NoticeAlarm(a) })
			case !a.OverAt.IsZero(): // it returned before its end was sent
				writes = append(writes, func(tx *state.Tx) error { return tx.SetAlarmOver(a.ID, time.Time{}) })
			}
		}
		for _, a := range open {
			if a.Way != w.Name || holds[nameOf(a)] {
				continue
			}
			switch {
			case a.Told == "" && !a.Urgent: // nobody was told, and nobody needs to be
				writes = append(writes, func(tx *state.Tx) error { return tx.DropAlarm(a.ID) })
			case a.OverAt.IsZero():
				writes = append(writes, func(tx *state.Tx) error { return tx.SetAlarmOver(a.ID, now) })
			}
		}
	}
	if len(writes) == 0 {
		return open, nil
	}
	err = t.Ledger.Do(ctx, func(tx *state.Tx) error {
		if err := connector.Each(writes, func(write func(*state.Tx) error) error { return write(tx) }); err != nil {
			return err
		}
		return errors.Join(tx.KeepWays(names), tx.DropOldAlarms(now.Add(-keptFor)))
	})
	if err != nil {
		return nil, err
	}
	return t.Ledger.OpenAlarms(ctx)
}

// item is one alarm for one way.
type item struct {
	alarm state.Alarm
	holds *health.Condition // nil if it is over
	over  bool
}

// notifyWay sends a way's waiting message, if its time has come, and then the news.
func (t *Notifier) notifyWay(ctx context.Context, w Way, open []state.Alarm, found []health.Condition) error {
	waiting, err := t.Ledger.WaitingMessage(ctx, w.Name)
	if err != nil {
		return err
	}
	if waiting != nil {
		sent, err := t.again(ctx, w, *waiting)
		if err != nil || !sent {
			return err
		}
	}
	items := due(w, open, found)
	if len(items) == 0 || ctx.Err() != nil {
		return nil
	}
	return t.first(ctx, w, items)
}

// again sends a waiting message once more, and reports whether it was accepted.
func (t *Notifier) again(ctx context.Context, w Way, m state.AlarmMessage) (sent bool, err error) {
	if _, was := t.taken.Load(m.ID); was {
		if err = t.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.MessageSent(m.ID) }); err == nil {
			t.taken.Delete(m.ID)
		}
		return true, err
	}
	now := t.Now()
	facts := factsOf(m)
	if step, _ := outbox.Alarms.Next(facts, now); step != outbox.Send {
		return false, nil
	}
	facts = facts.Begin(now)
	return t.send(ctx, w, m, facts, MessageEvent{Way: w.Name, Message: m.ID}, func(tx *state.Tx) error {
		return tx.TryMessage(m.ID, outbox.Alarms.DueAt(facts, now))
	})
}

// factsOf returns the facts about a waiting message.
func factsOf(m state.AlarmMessage) outbox.Message {
	facts := outbox.Message{State: state.MessageUnclear, Attempts: m.Attempts, RetryAt: m.NextAttempt}
	if m.Refused {
		facts.State = state.MessageRefused
	}
	return facts
}

// first freezes a message about these items, and sends it.
func (t *Notifier) first(ctx context.Context, w Way, items []item) error {
	m, err := t.compose(ctx, w, items)
	if err != nil {
		return err
	}
	body, err := w.Sender.Freeze(m)
	if err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	e := MessageEvent{Way: w.Name, Message: m.ID}
	tellings := make([]state.AlarmNotice, len(items))
	for i, it := range items {
		tellings[i] = state.AlarmNotice{Alarm: it.alarm.ID, Text: it.alarm.Text, Over: it.over}
		if it.holds != nil {
			tellings[i].Text = it.holds.Sentence
		}
		if it.over {
			e.Over++
		} else {
			e.Begun++
		}
	}
	facts := outbox.Message{}.Begin(m.At)
	frozen := state.AlarmMessage{ID: m.ID, Way: w.Name, MadeAt: m.At, Body: body, Attempts: facts.Attempts,
		NextAttempt: outbox.Alarms.DueAt(facts, m.At)}
	_, err = t.send(ctx, w, frozen, facts, e, func(tx *state.Tx) error { return tx.FreezeMessage(frozen, tellings) })
	return err
}

// send sends a frozen message, and notes the outcome. begin notes the attempt.
func (t *Notifier) send(ctx context.Context, w Way, m state.AlarmMessage, facts outbox.Message, e MessageEvent,
	begin func(*state.Tx) error) (sent bool, err error) {
	o, err := outbox.Attempt{
		Begin: func(tx *state.Tx) (bool, error) { return true, begin(tx) },
		Send:  func(ctx context.Context) (string, error) { return w.Sender.Send(ctx, m.ID, m.Body) },
		End: func(tx *state.Tx, o outbox.Outcome) error {
			if o.Err == nil {
				return tx.MessageSent(m.ID)
			}
			now := t.Now()
			e.Next = outbox.Alarms.DueAt(facts.End(o, now), now)
			return tx.MessageFailed(m.ID, connector.OneLine(o.Err.Error()), o.State == state.MessageRefused, e.Next)
		},
	}.Do(ctx, t.Ledger)
	if sent = o.State == state.MessageSent; sent && err != nil {
		t.taken.Store(m.ID, true) // this process does not send it twice
	}
	if e.Err = o.Err; sent {
		e.Answer = o.Answer
	}
	if o.State != "" {
		t.report(e)
	}
	return sent, err
}

func (t *Notifier) report(e MessageEvent) {
	if t.Report != nil {
		t.Report(e)
	}
}

// due returns a way's alarms due now: begun conditions and ended ones.
func due(w Way, open []state.Alarm, found []health.Condition) (items []item) {
	holds := make(map[state.AlarmName]*health.Condition, len(found))
	for i, c := range found {
		holds[state.AlarmName{Way: w.Name, Code: string(c.Code), Subject: c.Subject}] = &found[i]
	}
	for _, a := range open {
		it := item{alarm: a, over: !a.OverAt.IsZero()}
		if a.Way != w.Name || a.Told != "" && !it.over {
			continue
		}
		if !it.over {
			it.holds = holds[nameOf(a)]
		}
		items = append(items, it)
	}
	return items
}

// Try sends a test message over a way, and returns the receiver's answer. After a success, the way's waiting messages
// are due at once.
func (t *Notifier) Try(ctx context.Context, w Way) (answer string, err error) {
	m := Message{ID: rand.Text(), Kind: KindTest, At: t.Now(), Installation: t.Installation}
	m.when = t.Time
	body, err := w.Sender.Freeze(m)
	if err != nil {
		return "", err
	}
	if answer, err = w.Sender.Send(ctx, m.ID, body); err != nil {
		return "", err
	}
	return answer, t.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.HurryMessages(w.Name) })
}

// unwritten holds one way's alarms while the ledger accepts no writes.
type unwritten struct {
	message state.AlarmMessage
	facts   outbox.Message
	text    string
	known   bool // its begin was sent, but not its end
	noticed time.Time
}

// NotifyUnwritable reports an unwritable ledger, or one impossible to open: then Ledger is nil. It cannot be noted in
// the ledger, so each process reports it once for each way while it lasts.
func (t *Notifier) NotifyUnwritable(ctx context.Context, cause error) error {
	if t.unwritten == nil {
		t.unwritten = map[string]*unwritten{}
	}
	c := Unwritable(cause)
	var open []state.Alarm
	if t.Ledger != nil {
		open, _ = t.Ledger.OpenAlarms(ctx) // unreadable alarms are sent again
	}
	now := t.Now()
	for _, w := range t.Ways {
		if t.unwritten[w.Name] != nil || !w.admits(c) {
			continue
		}
		u := &unwritten{text: c.Sentence, noticed: now}
		u.known = slices.ContainsFunc(open,
			func(a state.Alarm) bool { return a.Way == w.Name && a.Code == string(c.Code) && a.Told != "" })
		day := sha256.Sum256([]byte(t.Installation + "\x00" + w.Name + "\x00" + now.UTC().Format(time.DateOnly)))
		m := Message{ID: fmt.Sprintf("ledger-%x-%d", day[:12], t.outages), Kind: KindAlarms, At: now,
			Installation: t.Installation, Begun: []Notice{t.noticeFor(w, item{holds: &c}, nil)}, when: t.Time, account: t.Account,
			list: t.list()}
		body, err := w.Sender.Freeze(m)
		if err != nil {
			return err
		}
		u.message = state.AlarmMessage{ID: m.ID, Way: w.Name, MadeAt: now, Body: body}
		t.unwritten[w.Name] = u
	}
	return t.each(func(w Way) error {
		u := t.unwritten[w.Name]
		if u == nil || u.known || !u.message.SentAt.IsZero() || outbox.Alarms.DueAt(u.facts, now).After(now) {
			return nil
		}
		u.facts = u.facts.Begin(now)
		e := MessageEvent{Way: w.Name, Message: u.message.ID, Begun: 1}
		if e.Answer, e.Err = w.Sender.Send(ctx, u.message.ID, u.message.Body); e.Err == nil {
			u.message.SentAt = now
		}
		u.message.Attempts, e.Next = u.facts.Attempts, outbox.Alarms.DueAt(u.facts, now)
		t.report(e)
		return nil
	})
}

// Unwritable returns the condition of an unwritable ledger.
func Unwritable(cause error) health.Condition {
	return health.Condition{Code: health.LedgerUnwritable, Urgent: true,
		Sentence: "payersync cannot read or write its ledger: " + cause.Error() +
			". No run can start, and payersync answers deliveries with 503.",
		Next: "Check the disk and the file of the ledger. payersync continues by itself, and no change is lost."}
}

// recover notes the reports sent while the ledger could not be written, so their end is reported as usual.
func (t *Notifier) recover(ctx context.Context) error {
	if len(t.unwritten) == 0 {
		return nil
	}
	open, err := t.Ledger.OpenAlarms(ctx)
	if err != nil {
		return err
	}
	now := t.Now()
	err = t.Ledger.Do(ctx, func(tx *state.Tx) error {
		for way, u := range t.unwritten {
			a := state.Alarm{Way: way, Code: string(health.LedgerUnwritable), Urgent: true, Since: u.noticed,
				NoticedAt: u.noticed, Text: u.text, OverAt: now}
			i := slices.IndexFunc(open, func(o state.Alarm) bool { return nameOf(o) == nameOf(a) })
			var err error
			switch {
			case i >= 0:
				err = tx.SetAlarmOver(open[i].ID, now)
			case !u.message.SentAt.IsZero():
				a.Told = u.message.ID
				err = errors.Join(tx.NoteSent(u.message), tx.NoticeAlarm(a))
			default:
				err = tx.NoticeAlarm(a)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		t.unwritten = nil
		t.outages++
	}
	return err
}
