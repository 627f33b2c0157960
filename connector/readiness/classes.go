package readiness

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
	"payersync/state"
)

func place(f state.ReadinessFacts, now time.Time) Assessment {
	m := f.Mandate
	switch told := conflictOf(f); {
	case f.Left && lives(m) && !f.Missing:
		return leftBehind(f)
	case f.Left:
		return noPayer(f)
	case told.Reason != "":
		return Assessment{Class: Conflict, Who: helps(told.Reason), Since: told.Since, Reason: told.Reason,
			Sentence: told.Reason.Sentence(), Cure: told.Reason.Next()}
	case f.BillingID == "" || f.LinkState != connector.LinkLinked:
		return absent(f)
	case m.ID == "":
		return unasked(f)
	case m.Status == connector.MandateActive && now.Sub(m.LastSeen) > LookEvery:
		return Assessment{Class: Unlooked, Who: Operator, Since: m.LastSeen,
			Sentence: "The mandate was active when payersync last read it, and payersync has not read it since.",
			Cure:     "Start the service, or a sweep.", Ends: endsByRead}
	case m.Status == connector.MandateActive:
		return debitable(f, now)
	case m.Status.Underway():
		return signed(m, now)
	case m.Status == connector.MandateCreated:
		return awaiting(f)
	case m.Status == connector.MandateCancelled:
		return cancelled(f)
	}
	return unless(f.LetBe, Assessment{Class: Unknown, Who: helps(connector.ReasonStatusUnknown), Since: m.Since,
		Reason: connector.ReasonStatusUnknown, Sentence: connector.ReasonStatusUnknown.Sentence(),
		Cure: connector.ReasonStatusUnknown.Next()})
}

// lives reports whether a mandate is, or can become, active: it waits for a signature, is signed, active, or
// has an unknown status.
func lives(m state.ReadinessMandate) bool {
	return m.ID != "" && m.Status != connector.MandateCancelled
}

// conflicts are the reasons for which the record's customer is uncertain.
var conflicts = map[connector.Reason]bool{
	connector.ReasonCustomerMissing: true, connector.ReasonKeyDoubled: true, connector.ReasonKeyRemoved: true,
	connector.ReasonOtherKey:   true,
	connector.ReasonKeyChanged: true, connector.ReasonKeyShared: true, connector.ReasonKeyDisputed: true,
	connector.ReasonLikeness:   true,
	connector.ReasonRenumbered: true, connector.ReasonEnteredTwice: true, connector.ReasonUnlinked: true,
	connector.ReasonAnswerMismatch: true,
}

// conflictOf returns a record's conflict. A conflict of its customer comes before one of the record itself.
func conflictOf(f state.ReadinessFacts) state.Reported {
	for _, told := range []state.Reported{f.Told[1], f.Told[0]} {
		if conflicts[told.Reason] {
			return told
		}
	}
	switch {
	case f.BillingID != "" && (f.Missing || f.LinkState == connector.LinkMissing):
		return state.Reported{Reason: connector.ReasonCustomerMissing}
	case f.Unlinking:
		return state.Reported{Reason: connector.ReasonUnlinked}
	case f.Contested:
		return state.Reported{Reason: connector.ReasonKeyShared}
	case f.LinkState == connector.LinkConflict:
		return state.Reported{Reason: connector.ReasonOtherKey}
	}
	return state.Reported{}
}

// leaving returns when the record left, by the finding about it.
func leaving(f state.ReadinessFacts) time.Time {
	if r := f.Told[0].Reason; r == connector.ReasonLeftWithMandate || r == connector.ReasonRecordGone {
		return f.Told[0].Since
	}
	return f.ChangedAt
}

func leftBehind(f state.ReadinessFacts) Assessment {
	r := connector.ReasonLeftWithMandate
	s := Assessment{Class: LeftBehind, Step: stillOf(f.Mandate.Status), Who: You, Since: leaving(f), Reason: r,
		Sentence: r.Sentence(), Cure: r.Next()}
	s.Note = fmt.Sprintf("Its mandate is %s.", f.Mandate.Status.Label())
	if f.Stays {
		s.Who, s.Cure = Nobody, "Nothing: a person decided that the mandate stays. A new finding appears if the record returns and is removed again."
	}
	if f.GivenUp {
		s.Sentence = fmt.Sprintf("A person gave the record up, but its mandate stays: %s.", s.Step.Title())
		if f.Stays {
			s.Cure, s.Ends = "If that is intended, nothing. Otherwise, link it again.", endsByTakingUp
		}
	}
	return s
}

// stillOf returns the step of a removed record by the status of its mandate.
func stillOf(status connector.MandateStatus) Stage {
	switch status {
	case connector.MandateActive:
		return StillActive
	case connector.MandateCreated:
		return CanSign
	}
	return StillSigned
}

func noPayer(f state.ReadinessFacts) Assessment {
	s := Assessment{Class: Unasked, Step: NoPayer, Who: Nobody, Since: leaving(f), Cure: "Nothing."}
	switch {
	case f.State == state.RecordForgotten:
		s.Sentence = "A person had the payer forgotten."
	case f.MergedTo != "":
		s.Sentence = fmt.Sprintf("A person merged it into record %s, which stands for both.", f.MergedTo)
	case f.GivenUp:
		s.Sentence = "A person gave it up."
	case f.State != connector.RecordActive:
		s.Sentence = fmt.Sprintf("It is %s in the accounting system.", f.State)
	case f.Decision == state.Excluded:
		s.Sentence = "Excluded: the mapping does not include it."
	default:
		s.Sentence = "The accounting system no longer lists it."
	}
	return s
}

// absent says why the billing service does not have a record's customer, and names the party to act.
func absent(f state.ReadinessFacts) Assessment {
	for _, told := range f.Told[:2] {
		if told.Reason != "" {
			return Assessment{Class: Absent, Who: helps(told.Reason), Since: told.Since, Reason: told.Reason,
				Sentence: told.Reason.Sentence(), Cure: told.Reason.Next()}
		}
	}
	s := Assessment{Class: Absent, Who: Operator}
	switch {
	case f.Decision == "":
		s.Sentence, s.Cure, s.Ends = "No plan has included it yet.", "Start a run.", endsByRun
	case f.Sending == connector.ChangePending:
		s.Sentence, s.Cure, s.Ends = "A plan lists its change, but payersync has not sent it yet.", Planned, endsByPlan
	case f.Sending != "":
		s.Sentence, s.Cure = "payersync sent a request, and its outcome is unknown.",
			"Nothing: the next run checks this by itself."
	case f.BillingID != "":
		s.Sentence, s.Cure = "payersync has not confirmed its customer yet.", "Nothing: the next run reads it."
	default:
		s.Sentence, s.Cure, s.Ends = "The billing service has no customer for it yet.", "Start a run.", endsByRun
	}
	return s
}

// helps returns the party to act on a reason. Problems in the billing service are the task of the person in
// charge of the mandates.
func helps(r connector.Reason) Who {
	if who := r.Who(); who != connector.WhoService {
		return Who(who)
	}
	return You
}

func unasked(f state.ReadinessFacts) Assessment {
	told := f.Told[2]
	switch {
	case told.Reason == connector.ReasonOutcomeUnknown || f.Asking != "":
		return Assessment{Class: Unasked, Step: UnderWay, Who: Nobody, Since: told.Since,
			Sentence: strings.TrimSpace("payersync is requesting a mandate. " + f.Awaited),
			Cure:     "Nothing: the next run continues."}
	case told.Reason != "":
		return Assessment{Class: Unasked, Step: Refused, Who: helps(told.Reason), Since: told.Since, Reason: told.Reason,
			Sentence: told.Reason.Sentence(), Cure: told.Reason.Next()}
	}
	return NotAsked(f.Unasked)
}

// NotAsked says why nobody requested a mandate, by the newest plan.
func NotAsked(u state.Unasked) Assessment {
	s := Assessment{Class: Unasked, Step: NotWished, Who: Nobody}
	switch u.Why {
	case connector.UnaskedNoEmail:
		s.Step, s.Who = NoEmail, Books
		s.Sentence, s.Cure, s.Ends = "No contact has an e-mail address, so payersync requests no mandate.",
			"Enter an e-mail address in the accounting system, or request a mandate.", endsByRequest
	case connector.UnaskedPerson:
		s.Sentence, s.Cure, s.Ends = "A person decided to request no mandate from this payer.",
			"If that is intended, nothing. Otherwise, take the decision back.", endsByRule
	case connector.UnaskedRule:
		s.Sentence = fmt.Sprintf("payersync requests no mandate from this payer: %s.", connector.AskingRule("", u.Line))
		s.Cure, s.Ends = "If that is intended, nothing. For more payers, change the rule. For this payer alone, request one.",
			endsByAsking
	default:
		s.Who, s.Sentence, s.Cure, s.Ends = Operator, "payersync has not requested a mandate yet.", "Start a run.", endsByRun
	}
	return s
}

func signed(m state.ReadinessMandate, now time.Time) Assessment {
	s := Assessment{Class: Signed, Who: Bank, Since: m.Since, Sentence: "The payer has signed. The bank now decides.",
		Cure: "Nothing."}
	if m.Status == connector.MandateMigrating { // it takes as long as the other provider needs
		s.Sentence = "The mandate is moving here from another provider. The payer cannot be debited yet."
		s.Cure = "Nothing. If this takes long, ask the billing service for the reason."
		return s
	}
	if workingDays(m.Since, now) > BankDays {
		s.Late = true
		s.Sentence = fmt.Sprintf("The payer signed more than %d working days ago, and the bank has not decided.", BankDays)
		s.Cure = "Ask the billing service for the reason."
	}
	return s
}

// workingDays counts the days from Monday to Friday begun since the day of from.
func workingDays(from, to time.Time) int {
	days := int(to.UTC().Truncate(24*time.Hour).Sub(from.UTC().Truncate(24*time.Hour)) / (24 * time.Hour))
	n := days / 7 * 5
	for i := range days % 7 {
		switch to.UTC().AddDate(0, 0, -i).Weekday() {
		case time.Saturday, time.Sunday:
		default:
			n++
		}
	}
	return n
}

// Times returns how often the signing link was sent for the mandate, by letter or by hand. A letter of
// unclear outcome counts: its reader must not be invited twice.
func Times(f state.ReadinessFacts) int { return f.Letters.Sent + f.Letters.Unclear + f.Handed.Times }

// LastSent returns when the link was sent for the mandate last; zero for never.
func LastSent(f state.ReadinessFacts) time.Time {
	if f.Letters.Last.After(f.Handed.Last) {
		return f.Letters.Last
	}
	return f.Handed.Last
}

// FirstSent returns when the link was sent for the mandate first; zero for never.
func FirstSent(f state.ReadinessFacts) time.Time {
	if a, b := f.Letters.First, f.Handed.First; b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return f.Handed.First
}

// StopOf returns the reason against letters to the payer; nil for none. A bounced address comes first.
func StopOf(f state.ReadinessFacts) *state.LetterStop {
	if f.Barred != nil && f.Barred.Why == state.StopBounced {
		return f.Barred
	}
	return cmp.Or(f.Stop, f.Barred)
}

func awaiting(f state.ReadinessFacts) Assessment {
	s := Assessment{Class: Awaiting, Since: f.Mandate.Since}
	times, stop := Times(f), StopOf(f)
	switch {
	case !HoldsLink(f.Mandate):
		s.Reason = connector.ReasonLinkLost
		s.Step, s.Who, s.Sentence, s.Cure = LinkLost, You, connector.ReasonLinkLost.Sentence(),
			connector.ReasonLinkLost.Next()
		return unless(f.LetBe, s)
	case stop != nil && stop.Why == state.StopBounced:
		s.Reason = connector.ReasonAddressBounced
		s.Step, s.Who, s.Sentence, s.Cure = Bounced, Books, "The e-mail address does not exist, or accepts no letters.",
			"Correct it in the accounting system."
	case !IsPayer(f), hasSecond(f):
		s.Step = Stopped
		s.Who, s.Reason, s.Sentence, s.Cure = stoppedBy(f)
	case f.LetBe:
		s.Step, s.Sentence = Stopped, "A person decided to leave it as it is."
		return unless(true, s)
	case stop != nil:
		s.Step, s.Who, s.Sentence, s.Cure = Stopped, You, stopWords(*stop), "Call the payer, or allow letters again."
	case times > 0:
		s.Step, s.Who, s.Cure = Sent, Payer, "Wait, or call the payer."
		s.Sentence = fmt.Sprintf("The payer was sent the signing link %s, and has not signed.", often(times))
	default:
		s.Step, s.Who, s.Sentence, s.Cure = NotSent, You, "Nobody has sent the signing link to the payer.",
			"See the plan of letters for the date of the letter, or send it yourself."
		s.Ends = endsByHand
	}
	if f.Letters.Unclear > 0 {
		s.Note = fmt.Sprintf("payersync does not know whether %s arrived.", connector.Plural(f.Letters.Unclear, "letter"))
	}
	return s
}

func often(n int) string {
	if n == 1 {
		return "once"
	}
	return connector.Plural(n, "time")
}

// stoppedBy says why no letter goes to a payer although only the signature is missing: the record cannot be
// sent as it is, or a read has yet to confirm the customer.
func stoppedBy(f state.ReadinessFacts) (who Who, r connector.Reason, sentence, cure string) {
	for _, told := range []state.Reported{f.Told[0], f.Told[1], f.Told[state.ReportedDuplicate]} {
		if told.Reason != "" {
			return helps(told.Reason), told.Reason, told.Reason.Sentence(), told.Reason.Next()
		}
	}
	return Nobody, "", "payersync has not confirmed the customer's key lately.", "Nothing: the next run reads it."
}

func stopWords(s state.LetterStop) string {
	text := "A person stopped letters to the payer"
	if s.Why == state.StopOptedOut {
		text = "The payer asked for no more letters"
	}
	if s.UntilOn != "" {
		text += " until " + s.UntilOn
	}
	return text + "."
}

func cancelled(f state.ReadinessFacts) Assessment {
	r, m := connector.ReasonMandateCancelled, f.Mandate
	s := Assessment{Class: Cancelled, Who: You, Since: m.Since, Reason: r, Sentence: r.Sentence(), Cure: r.Next()}
	if m.Ended.Cause == connector.CauseCancel {
		s.Sentence = "We cancelled the mandate"
		if m.Ended.Actor != "" {
			s.Sentence += ": " + m.Ended.Actor
		}
		if m.Ended.Why != "" {
			s.Sentence += fmt.Sprintf(", %q", m.Ended.Why)
		}
		s.Sentence += "."
	}
	return unless(f.LetBe, s)
}

// unless clears the task of s if letBe is set: a person decided to leave the mandate as it is.
func unless(letBe bool, s Assessment) Assessment {
	if letBe {
		s.Who, s.Reason, s.Cure = Nobody, "", "Nothing: a person decided to leave it as it is."
	}
	return s
}

func debitable(f state.ReadinessFacts, now time.Time) Assessment {
	s := Assessment{Class: Debitable, Who: Nobody, Since: f.Mandate.Since, Sentence: "Can be debited.", Cure: "Nothing."}
	if s.Dormant = !s.Since.AddDate(0, DormantAfter, 0).After(now); s.Dormant {
		s.Note = fmt.Sprintf("The mandate has not changed for %d months or more. Banks may cancel unused mandates.",
			DormantAfter)
	}
	for _, told := range f.Told[:2] {
		if told.Reason != "" {
			s.Note = strings.TrimSpace(s.Note + " " + told.Reason.Sentence())
		}
	}
	return s
}
