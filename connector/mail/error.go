package mail

import (
	"fmt"
	"strings"
)

// Stage is how far a conversation came.
type Stage string

// The stages. Before AtRecipient, a refusal is about us and applies to every message; from there on it is
// about this one.
const (
	AtConnection Stage = "the connection"
	AtGreeting   Stage = "the greeting"
	AtEncryption Stage = "the encryption"
	AtSignIn     Stage = "user name and password"
	AtSender     Stage = "the sender"
	AtRecipient  Stage = "the recipient"
	AtMessage    Stage = "the mail"
)

// OfThisMessage reports whether an answer at that stage is about one message and its recipient, and not about
// every message of ours.
func (s Stage) OfThisMessage() bool { return s == AtRecipient || s == AtMessage }

// Answer is a mail server's answer, in one line and without addresses.
type Answer struct {
	Code     int    // 0 if it lacks a required feature
	Enhanced string // for example 5.1.1; "" where it gave none
	Text     string
}

// String returns the answer as a server gives it.
func (a Answer) String() string {
	if a.Code == 0 {
		return a.Text
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.Code, a.Text))
}

// RefusedError means a final refusal: the server will not accept the message later either.
type RefusedError struct {
	Stage  Stage
	Answer Answer
}

// Error returns the refusal in the server's words.
func (e *RefusedError) Error() string { return notTaken(e.Stage, e.Answer) }

// DeferredError means the server refused a message for now, and may accept it later.
type DeferredError struct {
	Stage  Stage
	Answer Answer
}

// Error returns the refusal in the server's words.
func (e *DeferredError) Error() string { return notTaken(e.Stage, e.Answer) }

func notTaken(at Stage, a Answer) string {
	if a.Code == 0 {
		return fmt.Sprintf("the mail server cannot be used, since %s", a)
	}
	return fmt.Sprintf("the mail server did not take %s: %s", at, a)
}

// NotSentError means there was no answer, and nothing of the message had left.
type NotSentError struct {
	Stage Stage
	Err   error
}

// Error returns why.
func (e *NotSentError) Error() string { return "nothing was sent: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *NotSentError) Unwrap() error { return e.Err }

// UnclearError means the message, or a part of it, had left and no answer came: the server may have accepted
// it.
type UnclearError struct{ Err error }

// Error returns the known facts.
func (e *UnclearError) Error() string {
	return "it is not known whether the mail was taken: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *UnclearError) Unwrap() error { return e.Err }

// silence is the error of a server without an answer, or with one outside of SMTP.
type silence struct {
	stage Stage
	text  string // of err, as it may be shown
	err   error
}

func (e *silence) Error() string {
	return fmt.Sprintf("the mail server took %s with no answer: %s", e.stage, e.text)
}

func (e *silence) Unwrap() error { return e.err }

// termsError means a server lacks a required feature.
type termsError struct{ why string }

func (e *termsError) Error() string { return e.why }
