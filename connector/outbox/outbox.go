// Package outbox sends messages: letters to payers, alarms, and write-backs to accounting systems. A message is frozen
// before it is sent, and only its frozen bytes are sent.
//
//	plan ─▶ approve ─▶ lock ─▶ freeze ─▶ begin ─▶ send ─▶ end
//	          │          │        └──── ledger ────┘        └ ledger: sent, refused, deferred, unclear
//	     batch hash   one process
//
// The callers decide the recipients, the times and the contents. This package decides the next step of a message from
// the ledger's facts ([Rules.Next]), the meaning of an answer ([OutcomeOf]), the pauses, and the end of a run after
// repeated refusals ([Breaker]). A crash between begin and end leaves an unknown outcome. The policy of the kind
// decides what follows.
package outbox

import (
	"time"

	"payersync/state"
)

// Policy decides what follows an attempt with an unknown outcome.
type Policy int

// The policies.
const (
	Never     Policy = iota // a person decides: a duplicate harms more than a lost message
	AfterRead               // the receiver is read, and shows whether the message arrived
	Always                  // the same bytes are sent again: the receiver recognises a repeat by its id
)

// Rules are the rules of one kind of messages.
type Rules struct {
	Policy         Policy
	First, Longest time.Duration // the pause after the first attempt, doubled after each other one up to Longest
	Refused        time.Duration // the pause after a refusal; 0: it is final
	PutOffs        int           // how often the receiver may put a message off; 0 for any number
	Row            int           // refusals in a row that end a run; 0 for any number
	Unclear        int           // unknown outcomes that end a run; 0 for any number
}

// The rules of the kinds.
var (
	Alarms   = Rules{Policy: Always, First: time.Minute, Longest: time.Hour, Refused: 6 * time.Hour}
	Letters  = Rules{Policy: Never, PutOffs: state.MostDeferrals, Row: 3, Unclear: 5}
	Fields   = Rules{Policy: AfterRead, First: 10 * time.Minute, Longest: 6 * time.Hour, Refused: 24 * time.Hour, Row: 10}
	Webhooks = Rules{Policy: Always, First: 10 * time.Minute, Longest: 6 * time.Hour, Refused: 24 * time.Hour, Row: 10}
)

// Message holds the ledger's facts about one message.
type Message struct {
	State    state.MessageState // "" before it is frozen
	Attempts int                // how often it was about to leave
	PutOffs  int                // how often its receiver put it off
	At       time.Time          // of the last attempt or answer; zero for none
	RetryAt  time.Time          // not before this time, if later than the pause; zero for none
}

// NextStep is the next step of a message.
type NextStep string

// The steps.
const (
	Freeze NextStep = "freeze" // write it by the present facts, freeze it and send it
	Send   NextStep = "send"   // send the frozen bytes again
	Read   NextStep = "read"   // read the receiver, to learn whether the message arrived
	Wait   NextStep = "wait"   // its time has not come
	Ask    NextStep = "ask"    // a person decides: nobody knows whether it arrived
	Stop   NextStep = "stop"   // the receiver does not take it: a person decides
	Done   NextStep = "done"   // the receiver took it
)

// Next returns the next step of a message, and for Wait its end. The caller holds the lock of the kind, so no other
// process is sending the message.
func (r Rules) Next(m Message, now time.Time) (NextStep, time.Time) {
	step := Freeze
	switch m.State {
	case state.MessageSent:
		return Done, time.Time{}
	case state.MessageSending, state.MessageUnclear:
		switch r.Policy {
		case AfterRead:
			return Read, time.Time{}
		case Always:
			step = Send
		default:
			return Ask, time.Time{}
		}
	case state.MessageDeferred, state.MessageRefused:
		if m.State == state.MessageRefused && r.Refused == 0 || r.PutOffs > 0 && m.PutOffs >= r.PutOffs {
			return Stop, time.Time{}
		}
		if r.Policy == Always {
			step = Send
		}
	}
	if due := r.DueAt(m, now); due.After(now) {
		return Wait, due
	}
	return step, time.Time{}
}

// longestPause is longer than every pause. The end of a longer one was computed by a clock that was ahead.
const longestPause = 25 * time.Hour

// DueAt returns the end of a message's pause; the zero time for none. A time in the future does not count, because the
// clock was ahead when it was stored.
func (r Rules) DueAt(m Message, now time.Time) (due time.Time) {
	const most = 10 // doublings, against an overflow
	pause := min(r.First<<min(max(m.Attempts-1, 0), most), r.Longest)
	if m.State == state.MessageRefused {
		pause = r.Refused
	}
	if !m.At.IsZero() && !m.At.After(now) {
		due = m.At.Add(pause)
	}
	if m.RetryAt.After(due) {
		due = m.RetryAt
	}
	if due.After(now.Add(longestPause)) {
		return time.Time{}
	}
	return due
}

// Begin returns the facts of a message that is about to leave.
func (m Message) Begin(now time.Time) Message {
	m.State, m.At, m.RetryAt = state.MessageSending, now, time.Time{}
	m.Attempts++
	return m
}

// End returns the facts of a message after the outcome of an attempt.
func (m Message) End(o Outcome, now time.Time) Message {
	m.State, m.At, m.RetryAt = o.State, now, o.RetryAt
	if o.PutOff {
		m.PutOffs++
	}
	return m
}

// Breaker counts the outcomes of a run, and tells when to end it.
type Breaker struct {
	Rules   Rules
	InRow   int // refusals in a row
	unclear int
}

// Note counts an outcome, and reports whether the run must end.
func (b *Breaker) Note(s state.MessageState) (refused, unclear bool) {
	switch s {
	case state.MessageRefused:
		b.InRow++
	case state.MessageUnclear:
		b.unclear++
		b.InRow = 0
	default:
		b.InRow = 0
	}
	return b.Rules.Row > 0 && b.InRow >= b.Rules.Row, b.Rules.Unclear > 0 && b.unclear >= b.Rules.Unclear
}
