package outbox

import (
	"errors"
	"time"

	"payersync/connector"
	"payersync/connector/mail"
	"payersync/connector/webhook"
	"payersync/state"
)

// Outcome is the outcome of one attempt to send a message.
type Outcome struct {
	State   state.MessageState // sent, refused, deferred or unclear; "" for a message that did not leave
	General bool               // the answer is about all messages of the sender, so the next one would fare the same
	PutOff  bool               // the receiver asks for another attempt later
	RetryAt time.Time          // not before this time; zero for none
	Answer  string             // the receiver's answer, or the error
	Err     error              // nil for sent
}

// OfMessage returns the state of the one message. A refusal of all messages is no refusal of this one: it may be tried
// again.
func (o Outcome) OfMessage() state.MessageState {
	if o.General && o.State == state.MessageRefused {
		return state.MessageDeferred
	}
	return o.State
}

// fullMailbox is the enhanced status of a refusal that ends when the mailbox's owner comes back.
const fullMailbox = "5.2.2"

// OutcomeOf returns the outcome of an attempt from the result of its sender. The outcome of an unknown error is
// unclear.
func OutcomeOf(answer string, err error) Outcome {
	if err == nil {
		return Outcome{State: state.MessageSent, Answer: answer}
	}
	o := Outcome{State: state.MessageUnclear, Answer: err.Error(), Err: err}
	var later interface{ RetryAt() time.Time }
	if errors.As(err, &later) {
		o.RetryAt = later.RetryAt()
	}
	var refused *mail.RefusedError
	var deferred *mail.DeferredError
	var hook *webhook.RefusedError
	var record *connector.WriteRefusedError
	var noPost *mail.NotSentError
	var noHook *webhook.NotSentError
	switch {
	case errors.As(err, &refused):
		o.State = state.MessageRefused
		if refused.Answer.Enhanced == fullMailbox {
			o.State, o.PutOff = state.MessageDeferred, true
		}
		o.ofMail(refused.Stage, refused.Answer)
	case errors.As(err, &deferred):
		o.State, o.PutOff = state.MessageDeferred, deferred.Stage.OfThisMessage()
		o.ofMail(deferred.Stage, deferred.Answer)
	case errors.As(err, &record):
		o.State, o.Answer = state.MessageRefused, record.Why
	case errors.As(err, &hook):
		o.State, o.General = state.MessageRefused, true
	case errors.Is(err, connector.ErrStale):
		o.State = state.MessageDeferred
	case errors.As(err, &noPost), errors.As(err, &noHook), errors.Is(err, connector.ErrNotWritten):
		o.State, o.General = state.MessageDeferred, true
	}
	return o
}

// ofMail notes a mail server's answer. An answer before the recipient is about all our messages.
func (o *Outcome) ofMail(at mail.Stage, a mail.Answer) {
	if o.General = !at.OfThisMessage() && !o.PutOff; !o.General {
		o.Answer = a.String()
	}
}
