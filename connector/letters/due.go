package letters

import (
	"slices"
	"strings"
	"time"

	"payersync/connector/mail"
	"payersync/connector/outbox"
	"payersync/state"
)

// What is the action for a payer's next letter.
type What string

// The actions.
const (
	Due      What = "due"      // it is to be sent today
	Waits    What = "waits"    // it is due, and a person is to look at it first
	Paused   What = "paused"   // it is due, and nothing is sent to the payer for now
	Later    What = "later"    // its day has not come
	Stopped  What = "stopped"  // none is sent until something changes
	Finished What = "finished" // there is no step left: somebody calls
)

// Why says why a letter is not sent today. It is a public interface: JSON output uses it.
type Why string

// Why a letter is not sent today.
const (
	WhyNotPayer    Why = "not_sendable"    // the payer is none now, or its customer or its link is in doubt
	WhyLetBe       Why = "let_be"          // a person left its mandate as it is
	WhyOptedOut    Why = "opted_out"       // the payer wants no letters
	WhyBounced     Why = "bounced"         // the address does not exist
	WhyPerson      Why = "person"          // a person stopped it
	WhyPaused      Why = "pause"           // a person paused it
	WhyBrake       Why = "brake"           // something went wrong
	WhyOldLink     Why = "link_old"        // the link is too old and must be fetched again
	WhyNoAddress   Why = "no_address"      // the accounting system has no usable address
	WhyOver        Why = "over"            // the ladder has no step left, or is too old
	WhyRefused     Why = "refused"         // the mail server did not take the first letter to this address
	WhyGivenUp     Why = "given_up"        // the mail server put the letter off too often
	WhyDay         Why = "day"             // the day of its next step has not come
	WhyDistance    Why = "distance"        // the payer had a letter a few days ago
	WhyAddress     Why = "address"         // its address had one a few days ago, or has one today
	WhyPutOff      Why = "put_off"         // the mail server put it off today
	WhyReplaced    Why = "replaced"        // another mandate was written about before
	WhyShared      Why = "shared_address"  // several payers have the address
	WhyAlsoWritten Why = "also_written_to" // another payer with the address has an open link or a mandate
	WhyOwnDomain   Why = "own_domain"      // the address is one of ours
	WhyExample     Why = "example_domain"  // the address can be nobody's
	WhyApproval    Why = "approval"        // the first letters of a setup are to be approved
	WhyChanged     Why = "addresses"       // too many addresses changed
	WhyMany        Why = "many"            // it would be many more than the last time
)

// waitsAlone are the reasons for a letter to wait individually, outside any batch.
var waitsAlone = []Why{WhyReplaced, WhyShared, WhyAlsoWritten, WhyOwnDomain, WhyExample}

// Distances between letters, in days.
const (
	leastDistance = 3
	oldLink       = 35 // the usual last step, plus some days for a late start
)

// facts holds all facts for the decision on a payer's next letter.
type facts struct {
	state.RecordID
	MandateID string
	Recipient string                // keyed hash of the address
	Address   string                // in the books
	Language  string                // the language of its letters
	Can       bool                  // it may get its link in any way
	LetBe     bool                  // a person left it as it is
	LinkAt    time.Time             // when the link was seen last
	Stops     []state.LetterStop    // in force for it, the newest last
	Steps     map[int]*state.Letter // about this mandate, by step
	First     Day                   // of the first letter or hand-over about this mandate; zero for none
	Last      Day                   // of the last one to this payer, about any mandate; zero for none
	LastThere Day                   // of the last one to this address; zero for none
	Before    bool                  // something was sent about another mandate of this payer
	Sharing   int                   // payers with this address
	Also      bool                  // another payer with this address has an open link or a mandate
}

// Verdict is the decision about a payer's next letter.
type Verdict struct {
	What What
	Why  Why
	Step int // of the next letter, if there is one
	Kind Kind
	On   Day // its time, if known; zero otherwise
}

// due decides on a payer's next letter, independent of other letters. It asks the rules in order; the first verdict
// counts.
func (s *Settings) due(f *facts, today Day) Verdict {
	for _, rule := range []func(*Settings, *facts, Day) (Verdict, bool){
		sendable, stopped, addressed, ladder, linked, distance, alone,
	} {
		if v, decided := rule(s, f, today); decided {
			return v
		}
	}
	step, _ := s.step(f, today)
	return Verdict{What: Due, Step: step, Kind: s.kind(f, step), On: today}
}

func sendable(_ *Settings, f *facts, _ Day) (Verdict, bool) {
	switch {
	case !f.Can:
		return Verdict{What: Stopped, Why: WhyNotPayer}, true
	case f.LetBe:
		return Verdict{What: Stopped, Why: WhyLetBe}, true
	}
	return Verdict{}, false
}

// stopWeights puts permanent stops before temporary ones.
var stopWeights = []string{state.StopOptedOut, state.StopBounced, state.StopPerson, state.StopBrake, state.StopPause}

func stopped(_ *Settings, f *facts, today Day) (Verdict, bool) {
	for _, why := range stopWeights {
		for _, stop := range f.Stops {
			if stop.Why != why || !stop.Holds(today.String()) {
				continue
			}
			v := Verdict{What: Stopped, Why: Why(why)}
			if why == state.StopPause || why == state.StopBrake {
				v.What = Paused
			}
			if stop.UntilOn != "" {
				v.On, _ = ParseDay(stop.UntilOn) // an unreadable one is not shown
			}
			return v, true
		}
	}
	return Verdict{}, false
}

func linked(s *Settings, f *facts, today Day) (Verdict, bool) {
	most := oldLink
	if s.LinkValid > 0 {
		most = min(most, int(s.LinkValid/(24*time.Hour))-1)
	}
	return Verdict{What: Stopped, Why: WhyOldLink}, today.Since(DayOf(f.LinkAt.In(s.zone(f.Connection)))) > most
}

func addressed(_ *Settings, f *facts, _ Day) (Verdict, bool) {
	return Verdict{What: Stopped, Why: WhyNoAddress}, mail.CheckAddress(f.Address) != nil
}

// step returns the newest step already due, and the number of days since the first letter. Missed steps are not caught
// up.
func (s *Settings) step(f *facts, today Day) (step, days int) {
	if f.First == (Day{}) {
		return 0, 0
	}
	days = today.Since(f.First)
	for step+1 < len(s.Steps) && s.Steps[step+1] <= days {
		step++
	}
	return step, days
}

// kind returns the kind of a step's letter.
func (s *Settings) kind(f *facts, step int) Kind {
	switch {
	case step == 0 && f.Before:
		return Replaced
	case step == 0:
		return Invitation
	case step == len(s.Steps)-1:
		return LastCall
	}
	return Reminder
}

func ladder(s *Settings, f *facts, today Day) (Verdict, bool) {
	step, days := s.step(f, today)
	last := step == len(s.Steps)-1
	letter, begun := f.Steps[step], f.First != (Day{})
	next := func() Verdict {
		if last {
			return Verdict{What: Finished, Why: WhyOver}
		}
		return Verdict{What: Later, Why: WhyDay, Step: step + 1, Kind: s.kind(f, step+1), On: f.First.Plus(s.Steps[step+1])}
	}
	switch {
	case days > LongestLadder:
		return Verdict{What: Finished, Why: WhyOver}, true
	case letter == nil && begun && step == 0: // somebody else sent it
		return next(), true
	case letter == nil:
		return Verdict{}, false
	}
	do, until := outbox.Letters.Next(s.message(letter, f), today.noon())
	switch {
	case do == outbox.Freeze:
		return Verdict{}, false
	case do == outbox.Wait:
		return Verdict{What: Later, Why: WhyPutOff, Step: step, Kind: s.kind(f, step), On: DayOf(until)}, true
	case begun:
		return next(), true
	case letter.State == state.MessageRefused:
		return Verdict{What: Stopped, Why: WhyRefused, Step: step, Kind: s.kind(f, step)}, true
	}
	return Verdict{What: Stopped, Why: WhyGivenUp, Step: step, Kind: s.kind(f, step)}, true
}

// message returns the facts about a letter, by the payer's calendar: a day's time is its noon. A letter refused at one
// address is a new one for another.
func (s *Settings) message(l *state.Letter, f *facts) outbox.Message {
	m := outbox.Message{State: l.State, Attempts: l.Attempts, PutOffs: l.Deferrals}
	switch {
	case l.State == state.MessageRefused && l.Recipient != f.Recipient:
		m = outbox.Message{}
	case l.State == state.MessageDeferred && l.Deferrals > 0:
		m.RetryAt = DayOf(l.SendingAt.In(s.zone(f.Connection))).Plus(1).noon()
	}
	return m
}

// distance keeps letters of any kind apart, to the payer and to the address.
func distance(s *Settings, f *facts, today Day) (Verdict, bool) {
	for _, last := range []struct {
		day Day
		why Why
	}{{f.Last, WhyDistance}, {f.LastThere, WhyAddress}} {
		if last.day != (Day{}) && today.Since(last.day) < leastDistance {
			step, _ := s.step(f, today)
			return Verdict{What: Later, Why: last.why, Step: step, Kind: s.kind(f, step), On: last.day.Plus(leastDistance)}, true
		}
	}
	return Verdict{}, false
}

// mostSharing is how many payers may have one address before a person looks at it.
const mostSharing = 3

// alone holds a letter for a person if it could reach the wrong recipient.
func alone(s *Settings, f *facts, today Day) (Verdict, bool) {
	step, _ := s.step(f, today)
	v := Verdict{What: Waits, Step: step, Kind: s.kind(f, step), On: today}
	_, domain, _ := strings.Cut(strings.ToLower(f.Address), "@")
	switch {
	case v.Kind == Replaced:
		v.Why = WhyReplaced
	case f.Sharing > mostSharing:
		v.Why = WhyShared
	case f.Also:
		v.Why = WhyAlsoWritten
	case slices.ContainsFunc(s.Own, func(own string) bool { return strings.EqualFold(own, domain) }):
		v.Why = WhyOwnDomain
	case isExample(domain) && !s.Test:
		v.Why = WhyExample
	}
	return v, v.Why != ""
}

// isExample reports whether a domain is reserved for examples (RFC 2606, RFC 6761).
func isExample(domain string) bool {
	for _, of := range []string{"example", "test", "invalid", "localhost", "example.com", "example.net", "example.org"} {
		if domain == of || strings.HasSuffix(domain, "."+of) {
			return true
		}
	}
	return false
}
