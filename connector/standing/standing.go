// Package standing puts every record into one class of readiness for direct debit, with the time since when
// and the person to act. The first class that fits counts:
//
//	removed, or excluded ──────────────────────────▶ J while its mandate lives, else F
//	not linked, or in conflict ────────────────────▶ H in conflict, else G
//	linked ──▶ mandate ──┬─ ACTIVE ───▶ A, or B when nobody has looked lately
//	                     ├─ PENDING ──▶ C
//	                     ├─ CREATED ──▶ D: link lost, bounced, stopped, sent, not sent
//	                     ├─ CANCELLED ▶ E
//	                     ├─ another ──▶ I
//	                     └─ none ─────▶ F
//
// It is one pure function over the facts of package state. Reports, letters and hand-over files all call it,
// so they never disagree. They decide themselves what to send.
package standing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/state"
)

// Class says how ready a record is for direct debit.
type Class string

// The classes.
const (
	Debitable  Class = "A" // linked, its mandate is active and was seen so lately
	Unlooked   Class = "B" // was active when it was seen last
	Signed     Class = "C" // the bank decides
	Awaiting   Class = "D" // of a signature
	Cancelled  Class = "E"
	Unasked    Class = "F" // nobody asked for a mandate
	Absent     Class = "G" // not in the billing service
	Conflict   Class = "H" // the record's customer is uncertain
	Unknown    Class = "I" // the mandate has an undocumented status
	LeftBehind Class = "J" // left the books or the mapping, and its mandate, or the link for one, still holds
)

// Classes are all classes in the order of a report: the most urgent first.
var Classes = []Class{LeftBehind, Debitable, Unlooked, Signed, Awaiting, Cancelled, Unasked, Absent, Conflict, Unknown}

// Title returns the class in a few words.
func (c Class) Title() string {
	switch c {
	case Debitable:
		return "can be debited"
	case Unlooked:
		return "was active when last seen"
	case Signed:
		return "signed, bank decides"
	case Awaiting:
		return "awaiting signature"
	case Cancelled:
		return "cancelled"
	case Unasked:
		return "no mandate requested"
	case Absent:
		return "not in the billing service"
	case Conflict:
		return "on hold"
	case Unknown:
		return "unknown status"
	case LeftBehind:
		return "removed, mandate remains"
	}
	return string(c)
}

// Step is how far a record of a class has come; most classes have none.
type Step string

// The steps of LeftBehind, of Awaiting and of Unasked.
const (
	StillActive Step = "active"   // the payer can still be debited
	StillSigned Step = "signed"   // the bank decides, or the status is not documented
	CanSign     Step = "can_sign" // the mandate waits for a signature

	LinkLost Step = "link_lost" // nobody has the link, or it is older than its mandate
	Bounced  Step = "bounced"   // the e-mail address does not exist
	Stopped  Step = "stopped"   // a person, the payer or a finding about the record stopped letters
	Sent     Step = "sent"
	NotSent  Step = "not_sent"

	NoPayer   Step = "no_payer"  // the record is left out or gone
	NotWished Step = "not_asked" // a rule of the mapping, or a person, does not ask
	NoEmail   Step = "no_email"  // no contact has an e-mail address
	UnderWay  Step = "under_way" // a request for a link is planned, or has no answer
	Refused   Step = "refused"   // a request for a link was refused, or given up
)

// Steps returns the steps of a class in the order of a report; nil if it has none.
func (c Class) Steps() []Step {
	switch c {
	case LeftBehind:
		return []Step{StillActive, StillSigned, CanSign}
	case Awaiting:
		return []Step{NotSent, Sent, Stopped, Bounced, LinkLost}
	case Unasked:
		return []Step{NotWished, NoEmail, UnderWay, Refused, NoPayer}
	}
	return nil
}

// Title returns the step in a few words.
func (s Step) Title() string {
	switch s {
	case StillActive:
		return "mandate still active"
	case StillSigned:
		return "may become active"
	case CanSign:
		return "can still sign"
	case LinkLost:
		return "signing link lost"
	case Bounced:
		return "bounced"
	case Stopped:
		return "stopped"
	case Sent:
		return "sent"
	case NotSent:
		return "not invited"
	case NoPayer:
		return "excluded"
	case NotWished:
		return "not requested"
	case NoEmail:
		return "no e-mail"
	case UnderWay:
		return "being requested"
	case Refused:
		return "request refused"
	}
	return string(s)
}

// Who is the person or party to act next.
type Who string

// The parties to act. Books are the people who keep the accounting records, Operator runs payersync, and You
// looks after the mandates.
const (
	Nobody   Who = "nobody"
	Operator Who = "operator"
	Bank     Who = "bank"
	Payer    Who = "payer"
	You      Who = "you"
	Books    Who = "books"
)

// How long is too long.
const (
	LookEvery    = 26 * time.Hour // by when a sweep must have seen an active mandate again
	BankDays     = 5              // a bank's usual working days
	DormantAfter = 23             // months without news after which banks may drop an instruction
)

// Standing is the class of one record, with the reason and the next action.
type Standing struct {
	Class    Class     `json:"class"`
	Step     Step      `json:"step,omitempty"`
	Who      Who       `json:"who"`
	Since    time.Time `json:"since"` // from when the age counts
	Sentence string    `json:"sentence"`
	Cure     string    `json:"cure"`
	Note     string    `json:"note,omitempty"` // a further note

	Reason connector.Reason `json:"-"` // the reason of the class, if it is a finding
	Ends   Ends             `json:"-"` // the steps of Cure

	Late    bool `json:"late,omitempty"`    // it takes longer than it should
	Dormant bool `json:"dormant,omitempty"` // active without news for so long that a bank may drop the instruction
}

// Counts reports whether records of the class and step count as payers. Removed and excluded records do not:
// their class is LeftBehind, or their step NoPayer.
func (c Class) Counts(step Step) bool { return c != LeftBehind && step != NoPayer }

// Counts reports whether the record counts as a payer.
func (s Standing) Counts() bool { return s.Class.Counts(s.Step) }

// Days returns how many whole days it has stood there.
func (s Standing) Days(now time.Time) int { return max(0, int(now.Sub(s.Since)/(24*time.Hour))) }

// IsPayer reports whether the record is a payer now, and its customer certain: the newest plan includes it as
// it is, and reads have shown the customer with this payer's key alone. Letters and hand-over files take such
// records only.
func IsPayer(f state.Standing) bool {
	return !f.Left && f.Decision == state.Included && !f.Contested && !f.Unlinking && f.InOrder && !f.Missing
}

// HoldsLink reports whether the mandate waits for a signature and its signing link is stored. A link from
// before the present wait began was for another mandate.
func HoldsLink(m state.StandingMandate) bool {
	return m.Status == connector.MandateCreated && m.HasLink && !m.LinkAt.Before(m.Since)
}

// WithoutExpired returns the facts without an expired signing link: such a link counts as lost. A link works
// for the duration valid; 0 means unknown.
func WithoutExpired(f state.Standing, now time.Time, valid time.Duration) state.Standing {
	if valid > 0 && f.Mandate.HasLink && now.Sub(f.Mandate.LinkAt) >= valid {
		f.Mandate.HasLink, f.Mandate.LinkAt = false, time.Time{}
	}
	return f
}

// CanBeInvited reports whether the payer may get its signing link, by letter or hand-over: it is in the class
// Awaiting, and nothing is in doubt. Step says whether a person stopped it.
func CanBeInvited(f state.Standing) bool {
	return IsPayer(f) && !hasSecond(f) && HoldsLink(f.Mandate) && !f.LetBe && f.LinkState == connector.LinkLinked && conflictOf(f).Reason == ""
}

// Of returns the class of a record at the time now.
func Of(f state.Standing, now time.Time) Standing {
	s := place(f, now)
	if s.Since.IsZero() {
		s.Since = f.ChangedAt
	}
	return s.assign(f).noteSecond(f)
}

// hasSecond reports whether the payer has a second customer in the billing service, on which a person has yet
// to decide. It may have a mandate there, so the payer is not asked to sign another one.
func hasSecond(f state.Standing) bool { return f.Told[state.ToldDuplicate].Reason != "" }

// noteSecond adds a note about a second customer if another finding comes first.
func (s Standing) noteSecond(f state.Standing) Standing {
	r := f.Told[state.ToldDuplicate].Reason
	if hasSecond(f) && !waits(f, r) && s.Reason != r && !strings.Contains(s.Note, r.Sentence()) {
		s.Note = strings.TrimSpace(s.Note + " " + r.Sentence())
	}
	return s
}

// helpers are the parties to act on a finding, in order of priority.
var helpers = []Who{You, Books, Operator}

// assign sets the party to act. Every finding needs one, in every class, unless a person put it off or
// decides on it with another record.
func (s Standing) assign(f state.Standing) Standing {
	if s.Who != Nobody && s.Reason != "" && waits(f, s.Reason) {
		s.Who, s.Cure, s.Ends = Nobody, "Nothing for now: a person postponed this finding.", endsByItself
		if succeeded(f, s.Reason) {
			s.Cure = "Nothing here: decide on the record that may be this payer under a new number."
		}
	}
	if slices.Contains(helpers, s.Who) {
		return s
	}
	for _, who := range helpers {
		for _, told := range f.Told {
			if told.Reason == "" || helps(told.Reason) != who || waits(f, told.Reason) {
				continue
			}
			s.Who, s.Cure, s.Reason, s.Ends = who, told.Reason.Next(), told.Reason, endsByItself
			if sentence := told.Reason.Sentence(); s.Sentence != sentence && !strings.Contains(s.Note, sentence) {
				s.Note = strings.TrimSpace(s.Note + " " + sentence)
			}
			return s
		}
	}
	return s
}

// waits reports whether nobody need act on a reason of this record for now.
func waits(f state.Standing, r connector.Reason) bool { return succeeded(f, r) || putOff(f, r) }

// succeeded reports whether the finding belongs to another record, perhaps the same payer under a new number:
// the two are one task.
func succeeded(f state.Standing, r connector.Reason) bool {
	return f.Succeeded && r == connector.ReasonLeftWithMandate
}

// putOff reports whether a person put off a reason since the finding began.
func putOff(f state.Standing, r connector.Reason) bool {
	at, is := f.PutOff[r]
	if !is {
		return false
	}
	var since time.Time
	if r == connector.ReasonAddressBounced && f.Barred != nil {
		since = f.Barred.Since
	}
	for _, told := range f.Told {
		if told.Reason == r && (since.IsZero() || told.Since.Before(since)) {
			since = told.Since
		}
	}
	return !at.Before(since)
}

func place(f state.Standing, now time.Time) Standing {
	m := f.Mandate
	switch told := conflictOf(f); {
	case f.Left && lives(m) && !f.Missing:
		return leftBehind(f)
	case f.Left:
		return noPayer(f)
	case told.Reason != "":
		return Standing{Class: Conflict, Who: helps(told.Reason), Since: told.Since, Reason: told.Reason, Sentence: told.Reason.Sentence(), Cure: told.Reason.Next()}
	case f.BillingID == "" || f.LinkState != connector.LinkLinked:
		return absent(f)
	case m.ID == "":
		return unasked(f)
	case m.Status == connector.MandateActive && now.Sub(m.LastSeen) > LookEvery:
		return Standing{Class: Unlooked, Who: Operator, Since: m.LastSeen, Sentence: "The mandate was active when payersync last read it, and payersync has not read it since.",
			Cure: "Start the service, or a sweep.", Ends: endsByRead}
	case m.Status == connector.MandateActive:
		return debitable(f, now)
	case m.Status.Underway():
		return signed(m, now)
	case m.Status == connector.MandateCreated:
		return awaiting(f)
	case m.Status == connector.MandateCancelled:
		return cancelled(f)
	}
	return unless(f.LetBe, Standing{Class: Unknown, Who: helps(connector.ReasonStatusUnknown), Since: m.Since, Reason: connector.ReasonStatusUnknown, Sentence: connector.ReasonStatusUnknown.Sentence(), Cure: connector.ReasonStatusUnknown.Next()})
}

// lives reports whether a mandate is, or can become, active: it waits for a signature, is signed, active, or
// has an unknown status.
func lives(m state.StandingMandate) bool { return m.ID != "" && m.Status != connector.MandateCancelled }

// conflicts are the reasons for which the record's customer is uncertain.
var conflicts = map[connector.Reason]bool{
	connector.ReasonCustomerMissing: true, connector.ReasonKeyDoubled: true, connector.ReasonKeyRemoved: true, connector.ReasonOtherKey: true,
	connector.ReasonKeyChanged: true, connector.ReasonKeyShared: true, connector.ReasonKeyDisputed: true, connector.ReasonLikeness: true,
	connector.ReasonRenumbered: true, connector.ReasonEnteredTwice: true, connector.ReasonUnlinked: true, connector.ReasonAnswerMismatch: true,
}

// conflictOf returns a record's conflict. A conflict of its customer comes before one of the record itself.
func conflictOf(f state.Standing) state.Told {
	for _, told := range []state.Told{f.Told[1], f.Told[0]} {
		if conflicts[told.Reason] {
			return told
		}
	}
	switch {
	case f.BillingID != "" && (f.Missing || f.LinkState == connector.LinkMissing):
		return state.Told{Reason: connector.ReasonCustomerMissing}
	case f.Unlinking:
		return state.Told{Reason: connector.ReasonUnlinked}
	case f.Contested:
		return state.Told{Reason: connector.ReasonKeyShared}
	case f.LinkState == connector.LinkConflict:
		return state.Told{Reason: connector.ReasonOtherKey}
	}
	return state.Told{}
}

// leaving returns when the record left, by the finding about it.
func leaving(f state.Standing) time.Time {
	if r := f.Told[0].Reason; r == connector.ReasonLeftWithMandate || r == connector.ReasonRecordGone {
		return f.Told[0].Since
	}
	return f.ChangedAt
}

func leftBehind(f state.Standing) Standing {
	r := connector.ReasonLeftWithMandate
	s := Standing{Class: LeftBehind, Step: stillOf(f.Mandate.Status), Who: You, Since: leaving(f), Reason: r, Sentence: r.Sentence(), Cure: r.Next()}
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
func stillOf(status connector.MandateStatus) Step {
	switch status {
	case connector.MandateActive:
		return StillActive
	case connector.MandateCreated:
		return CanSign
	}
	return StillSigned
}

func noPayer(f state.Standing) Standing {
	s := Standing{Class: Unasked, Step: NoPayer, Who: Nobody, Since: leaving(f), Cure: "Nothing."}
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
func absent(f state.Standing) Standing {
	for _, told := range f.Told[:2] {
		if told.Reason != "" {
			return Standing{Class: Absent, Who: helps(told.Reason), Since: told.Since, Reason: told.Reason, Sentence: told.Reason.Sentence(), Cure: told.Reason.Next()}
		}
	}
	s := Standing{Class: Absent, Who: Operator}
	switch {
	case f.Decision == "":
		s.Sentence, s.Cure, s.Ends = "No plan has included it yet.", "Start a run.", endsByRun
	case f.Sending == connector.ChangePending:
		s.Sentence, s.Cure, s.Ends = "A plan lists its change, but payersync has not sent it yet.", Planned, endsByPlan
	case f.Sending != "":
		s.Sentence, s.Cure = "payersync sent a request, and its outcome is unknown.", "Nothing: the next run checks this by itself."
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

func unasked(f state.Standing) Standing {
	told := f.Told[2]
	switch {
	case told.Reason == connector.ReasonOutcomeUnknown || f.Asking != "":
		return Standing{Class: Unasked, Step: UnderWay, Who: Nobody, Since: told.Since, Sentence: strings.TrimSpace("payersync is requesting a mandate. " + f.Awaited), Cure: "Nothing: the next run continues."}
	case told.Reason != "":
		return Standing{Class: Unasked, Step: Refused, Who: helps(told.Reason), Since: told.Since, Reason: told.Reason, Sentence: told.Reason.Sentence(), Cure: told.Reason.Next()}
	}
	return NotAsked(f.Unasked)
}

// NotAsked says why nobody requested a mandate, by the newest plan.
func NotAsked(u state.Unasked) Standing {
	s := Standing{Class: Unasked, Step: NotWished, Who: Nobody}
	switch u.Why {
	case connector.UnaskedNoEmail:
		s.Step, s.Who = NoEmail, Books
		s.Sentence, s.Cure, s.Ends = "No contact has an e-mail address, so payersync requests no mandate.", "Enter an e-mail address in the accounting system, or request a mandate.", endsByRequest
	case connector.UnaskedPerson:
		s.Sentence, s.Cure, s.Ends = "A person decided to request no mandate from this payer.", "If that is intended, nothing. Otherwise, take the decision back.", endsByRule
	case connector.UnaskedRule:
		s.Sentence = fmt.Sprintf("payersync requests no mandate from this payer: %s.", connector.AskingRule("", u.Line))
		s.Cure, s.Ends = "If that is intended, nothing. For more payers, change the rule. For this payer alone, request one.", endsByAsking
	default:
		s.Who, s.Sentence, s.Cure, s.Ends = Operator, "payersync has not requested a mandate yet.", "Start a run.", endsByRun
	}
	return s
}

func signed(m state.StandingMandate, now time.Time) Standing {
	s := Standing{Class: Signed, Who: Bank, Since: m.Since, Sentence: "The payer has signed. The bank now decides.", Cure: "Nothing."}
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
func Times(f state.Standing) int { return f.Letters.Sent + f.Letters.Unclear + f.Handed.Times }

// LastSent returns when the link was sent for the mandate last; zero for never.
func LastSent(f state.Standing) time.Time {
	if f.Letters.Last.After(f.Handed.Last) {
		return f.Letters.Last
	}
	return f.Handed.Last
}

// FirstSent returns when the link was sent for the mandate first; zero for never.
func FirstSent(f state.Standing) time.Time {
	if a, b := f.Letters.First, f.Handed.First; b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return f.Handed.First
}

// StopOf returns the reason against letters to the payer; nil for none. A bounced address comes first.
func StopOf(f state.Standing) *state.LetterStop {
	if f.Barred != nil && f.Barred.Why == state.StopBounced {
		return f.Barred
	}
	return cmp.Or(f.Stop, f.Barred)
}

func awaiting(f state.Standing) Standing {
	s := Standing{Class: Awaiting, Since: f.Mandate.Since}
	times, stop := Times(f), StopOf(f)
	switch {
	case !HoldsLink(f.Mandate):
		s.Reason = connector.ReasonLinkLost
		s.Step, s.Who, s.Sentence, s.Cure = LinkLost, You, connector.ReasonLinkLost.Sentence(), connector.ReasonLinkLost.Next()
		return unless(f.LetBe, s)
	case stop != nil && stop.Why == state.StopBounced:
		s.Reason = connector.ReasonAddressBounced
		s.Step, s.Who, s.Sentence, s.Cure = Bounced, Books, "The e-mail address does not exist, or accepts no letters.", "Correct it in the accounting system."
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
		s.Step, s.Who, s.Sentence, s.Cure = NotSent, You, "Nobody has sent the signing link to the payer.", "See the plan of letters for the date of the letter, or send it yourself."
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
func stoppedBy(f state.Standing) (who Who, r connector.Reason, sentence, cure string) {
	for _, told := range []state.Told{f.Told[0], f.Told[1], f.Told[state.ToldDuplicate]} {
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

func cancelled(f state.Standing) Standing {
	r, m := connector.ReasonMandateCancelled, f.Mandate
	s := Standing{Class: Cancelled, Who: You, Since: m.Since, Reason: r, Sentence: r.Sentence(), Cure: r.Next()}
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
func unless(letBe bool, s Standing) Standing {
	if letBe {
		s.Who, s.Reason, s.Cure = Nobody, "", "Nothing: a person decided to leave it as it is."
	}
	return s
}

func debitable(f state.Standing, now time.Time) Standing {
	s := Standing{Class: Debitable, Who: Nobody, Since: f.Mandate.Since, Sentence: "Can be debited.", Cure: "Nothing."}
	if s.Dormant = !s.Since.AddDate(0, DormantAfter, 0).After(now); s.Dormant {
		s.Note = fmt.Sprintf("The mandate has not changed for %d months or more. Banks may cancel unused mandates.", DormantAfter)
	}
	for _, told := range f.Told[:2] {
		if told.Reason != "" {
			s.Note = strings.TrimSpace(s.Note + " " + told.Reason.Sentence())
		}
	}
	return s
}
