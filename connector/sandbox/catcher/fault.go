package catcher

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-smtp"
)

// FaultKind is a way for a letter to go wrong.
type FaultKind string

// The fault kinds, in the order of a conversation. "Kept" means the letter has arrived, whatever the answer
// to the sender.
const (
	CutBefore      FaultKind = "cut_before"      // the connection ends at the recipient; not kept
	Refused        FaultKind = "refused"         // Code, 550 when 0, to the recipient
	Deferred       FaultKind = "deferred"        // Code, 451 when 0, to the recipient
	CutWithin      FaultKind = "cut_within"      // the connection ends when the letter should come; not kept
	LetterRefused  FaultKind = "letter_refused"  // Code, 554 when 0, after the letter; not kept
	LetterDeferred FaultKind = "letter_deferred" // Code, 452 when 0, after the letter; not kept
	CutAfter       FaultKind = "cut_after"       // kept; the connection ends without an answer
	Silent         FaultKind = "silent"          // kept; no answer, for as long as the sender waits
	Slow           FaultKind = "slow"            // kept; the answer takes Delay, in real time
)

// FaultKinds lists every kind.
func FaultKinds() []FaultKind {
	return []FaultKind{CutBefore, Refused, Deferred, CutWithin, LetterRefused, LetterDeferred, CutAfter, Silent, Slow}
}

// MailFault affects letters to Recipient, as often as Skip, Every and Count allow together. Of several injected
// faults only the first matching one applies.
type MailFault struct {
	Kind      FaultKind
	Recipient string        // whatever its case; "" is everybody
	Skip      int           // let so many pass first
	Every     int           // then strike every nth; 0 and 1 strike each
	Count     int           // stop after so many strikes; 0 is never
	Code      int           // of an answer
	Delay     time.Duration // of Slow
}

// Validate reports the invalid parts of f; nil for none.
func (f MailFault) Validate() error {
	var errs []error
	if !slices.Contains(FaultKinds(), f.Kind) {
		errs = append(errs, fmt.Errorf("mail fault kind %q is not known: use one of %v", f.Kind, FaultKinds()))
	}
	first := map[FaultKind]int{Refused: 5, LetterRefused: 5, Deferred: 4, LetterDeferred: 4}[f.Kind]
	if f.Code != 0 && f.Code/100 != first {
		errs = append(errs, fmt.Errorf("mail fault %s cannot answer %d: 4xx is for what is deferred, 5xx for what is refused",
			f.Kind, f.Code))
	}
	if f.Skip < 0 || f.Every < 0 || f.Count < 0 || f.Delay < 0 {
		errs = append(errs, errors.New("a number of the mail fault is negative: use 0 or more"))
	}
	return errors.Join(errs...)
}

// ParseFault reads a fault as people write it: its kind, then any of recipient, skip,
// every, count, code and delay as FIELD=VALUE behind commas.
func ParseFault(text string) (f MailFault, err error) {
	kind, rest, more := strings.Cut(text, ",")
	f.Kind = FaultKind(strings.TrimSpace(kind))
	numbers := map[string]*int{"skip": &f.Skip, "every": &f.Every, "count": &f.Count, "code": &f.Code}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch number := numbers[name]; {
		case !more:
		case number != nil:
			*number, err = strconv.Atoi(value)
		case name == "recipient":
			f.Recipient = value
		case name == "delay":
			f.Delay, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("a mail fault has no field %q: use recipient, skip, every, count, code, delay", name)
		}
		if err != nil {
			return MailFault{}, err
		}
	}
	return f, f.Validate()
}

// injection is a fault and how often it had its chance.
type injection struct {
	MailFault
	matched, struck int
}

// Inject adds a fault. It panics when f does not pass Validate.
func (c *Catcher) Inject(f MailFault) {
	if err := f.Validate(); err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &injection{MailFault: f})
}

// ClearFaults removes every injected fault.
func (c *Catcher) ClearFaults() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// atRecipient are the kinds that strike before there is a letter.
var atRecipient = []FaultKind{CutBefore, Refused, Deferred}

// strike returns the fault that a recipient, or the letter to several, meets; blank
// when there is none.
func (c *Catcher) strike(letter bool, recipients ...string) MailFault {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, in := range c.faults {
		if slices.Contains(atRecipient, in.Kind) != letter && in.concerns(recipients) && in.strikes() {
			in.struck++
			return in.MailFault
		}
	}
	return MailFault{}
}

func (f MailFault) concerns(recipients []string) bool {
	return f.Recipient == "" ||
		slices.ContainsFunc(recipients, func(r string) bool { return strings.EqualFold(r, f.Recipient) })
}

func (in *injection) strikes() bool {
	in.matched++
	n := in.matched - in.Skip
	return n > 0 && (in.Every < 2 || n%in.Every == 0) && (in.Count == 0 || in.struck < in.Count)
}

// answer returns the server's answer; nil is yes.
func (f MailFault) answer() error {
	usual, text := 0, "this mailbox takes no mail"
	switch f.Kind {
	case Refused:
		usual = 550
	case LetterRefused:
		usual, text = 554, "this letter is not wanted"
	case Deferred:
		usual, text = 451, "try again later"
	case LetterDeferred:
		usual, text = 452, "no room just now"
	default:
		return nil
	}
	return &smtp.SMTPError{Code: cmp.Or(f.Code, usual), EnhancedCode: smtp.NoEnhancedCode, Message: text}
}
