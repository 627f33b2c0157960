// Package readiness puts every record into one class of readiness for direct debit, with the time since when
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
package readiness

import (
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

// Stage is how far a record of a class has come; most classes have none.
type Stage string

// The steps of LeftBehind, of Awaiting and of Unasked.
const (
	StillActive Stage = "active"   // the payer can still be debited
	StillSigned Stage = "signed"   // the bank decides, or the status is not documented
	CanSign     Stage = "can_sign" // the mandate waits for a signature

	LinkLost Stage = "link_lost" // nobody has the link, or it is older than its mandate
	Bounced  Stage = "bounced"   // the e-mail address does not exist
	Stopped  Stage = "stopped"   // a person, the payer or a finding about the record stopped letters
	Sent     Stage = "sent"
	NotSent  Stage = "not_sent"

	NoPayer   Stage = "no_payer"  // the record is left out or gone
	NotWished Stage = "not_asked" // a rule of the mapping, or a person, does not ask
	NoEmail   Stage = "no_email"  // no contact has an e-mail address
	UnderWay  Stage = "under_way" // a request for a link is planned, or has no answer
	Refused   Stage = "refused"   // a request for a link was refused, or given up
)

// Steps returns the steps of a class in the order of a report; nil if it has none.
func (c Class) Steps() []Stage {
	switch c {
	case LeftBehind:
		return []Stage{StillActive, StillSigned, CanSign}
	case Awaiting:
		return []Stage{NotSent, Sent, Stopped, Bounced, LinkLost}
	case Unasked:
		return []Stage{NotWished, NoEmail, UnderWay, Refused, NoPayer}
	}
	return nil
}

// Title returns the step in a few words.
func (s Stage) Title() string {
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

// Assessment is the class of one record, with the reason and the next action.
type Assessment struct {
	Class    Class     `json:"class"`
	Step     Stage     `json:"step,omitempty"`
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
func (c Class) Counts(step Stage) bool { return c != LeftBehind && step != NoPayer }

// Counts reports whether the record counts as a payer.
func (s Assessment) Counts() bool { return s.Class.Counts(s.Step) }

// Days returns how many whole days it has stood there.
func (s Assessment) Days(now time.Time) int { return max(0, int(now.Sub(s.Since)/(24*time.Hour))) }

// IsPayer reports whether the record is a payer now, and its customer certain: the newest plan includes it as
// it is, and reads have shown the customer with this payer's key alone. Letters and hand-over files take such
// records only.
func IsPayer(f state.ReadinessFacts) bool {
	return !f.Left && f.Decision == state.Included && !f.Contested && !f.Unlinking && f.InOrder && !f.Missing
}

// HoldsLink reports whether the mandate waits for a signature and its signing link is stored. A link from
// before the present wait began was for another mandate.
func HoldsLink(m state.ReadinessMandate) bool {
	return m.Status == connector.MandateCreated && m.HasLink && !m.LinkAt.Before(m.Since)
}

// WithoutExpired returns the facts without an expired signing link: such a link counts as lost. A link works
// for the duration valid; 0 means unknown.
func WithoutExpired(f state.ReadinessFacts, now time.Time, valid time.Duration) state.ReadinessFacts {
	if valid > 0 && f.Mandate.HasLink && now.Sub(f.Mandate.LinkAt) >= valid {
		f.Mandate.HasLink, f.Mandate.LinkAt = false, time.Time{}
	}
	return f
}

// CanBeInvited reports whether the payer may get its signing link, by letter or hand-over: it is in the class
// Awaiting, and nothing is in doubt. Stage says whether a person stopped it.
func CanBeInvited(f state.ReadinessFacts) bool {
	return IsPayer(f) && !hasSecond(f) && HoldsLink(f.Mandate) && !f.LetBe && f.LinkState == connector.LinkLinked &&
		conflictOf(f).Reason == ""
}

// Of returns the class of a record at the time now.
func Of(f state.ReadinessFacts, now time.Time) Assessment {
	s := place(f, now)
	if s.Since.IsZero() {
		s.Since = f.ChangedAt
	}
	return s.assign(f).noteSecond(f)
}

// hasSecond reports whether the payer has a second customer in the billing service, on which a person has yet
// to decide. It may have a mandate there, so the payer is not asked to sign another one.
func hasSecond(f state.ReadinessFacts) bool { return f.Told[state.ReportedDuplicate].Reason != "" }

// noteSecond adds a note about a second customer if another finding comes first.
func (s Assessment) noteSecond(f state.ReadinessFacts) Assessment {
	r := f.Told[state.ReportedDuplicate].Reason
	if hasSecond(f) && !waits(f, r) && s.Reason != r && !strings.Contains(s.Note, r.Sentence()) {
		s.Note = strings.TrimSpace(s.Note + " " + r.Sentence())
	}
	return s
}

// helpers are the parties to act on a finding, in order of priority.
var helpers = []Who{You, Books, Operator}

// assign sets the party to act. Every finding needs one, in every class, unless a person put it off or
// decides on it with another record.
func (s Assessment) assign(f state.ReadinessFacts) Assessment {
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
func waits(f state.ReadinessFacts, r connector.Reason) bool { return succeeded(f, r) || putOff(f, r) }

// succeeded reports whether the finding belongs to another record, perhaps the same payer under a new number:
// the two are one task.
func succeeded(f state.ReadinessFacts, r connector.Reason) bool {
	return f.Succeeded && r == connector.ReasonLeftWithMandate
}

// putOff reports whether a person put off a reason since the finding began.
func putOff(f state.ReadinessFacts, r connector.Reason) bool {
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
