package readiness_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/connector/readiness"
	"payersync/state"
)

// now is a Friday.
var now = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func ago(days float64) time.Time { return now.Add(-time.Duration(days * 24 * float64(time.Hour))) }

// active is a payer who can be debited.
func active() state.ReadinessFacts {
	return state.ReadinessFacts{
		RecordID: state.RecordID{Connection: "acme", SourceID: "A1"}, State: connector.RecordActive, Decision: state.Included,
		ChangedAt: ago(90),
		LinkState: connector.LinkLinked, BillingID: "b1", InOrder: true,
		Mandate: state.ReadinessMandate{ID: "m1", Status: connector.MandateActive, Since: ago(40), FirstSeen: ago(80),
			LastSeen: ago(0.1), HasLink: true, LinkAt: ago(80)},
	}
}

// waiting is a payer whose link is here and was sent by nobody.
func waiting() state.ReadinessFacts {
	f := active()
	f.Mandate.Status, f.Mandate.Since, f.Mandate.LinkAt = connector.MandateCreated, ago(5), ago(5)
	return f
}

func told(topic int, r connector.Reason) func(*state.ReadinessFacts) {
	return func(f *state.ReadinessFacts) { f.Told[topic] = state.Reported{Reason: r, Since: ago(3)} }
}

func status(s connector.MandateStatus, days float64) func(*state.ReadinessFacts) {
	return func(f *state.ReadinessFacts) { f.Mandate.Status, f.Mandate.Since = s, ago(days) }
}

func left(f *state.ReadinessFacts)    { f.Left, f.Decision = true, state.Excluded }
func without(f *state.ReadinessFacts) { f.Mandate = state.ReadinessMandate{} }
func away(f *state.ReadinessFacts) {
	f.Mandate, f.BillingID, f.InOrder, f.LinkState = state.ReadinessMandate{}, "", false, connector.LinkNew
}

func TestAReasonThatWasPutOffNeedsNobody(t *testing.T) {
	t.Parallel()
	foreign, likeness, email := connector.ReasonForeignChange, connector.ReasonLikeness, connector.ReasonEmailMalformed
	for _, c := range []struct {
		name   string
		told   [3]connector.Reason // three days ago
		putOff connector.Reason
		ago    float64 // days
		who    readiness.Who
	}{
		{"put off after it was told", [3]connector.Reason{"", foreign}, foreign, 1, readiness.Nobody},
		{"told again since", [3]connector.Reason{"", foreign}, foreign, 10, readiness.You},
		{"another reason is told", [3]connector.Reason{email, foreign}, foreign, 1, readiness.Books},
		{"a conflict", [3]connector.Reason{"", likeness}, likeness, 1, readiness.Nobody},
		{"the reader comes before the books", [3]connector.Reason{email, foreign}, "", 0, readiness.You},
	} {
		f := active()
		for topic, r := range c.told {
			told(topic, r)(&f)
		}
		f.PutOff = map[connector.Reason]time.Time{c.putOff: ago(c.ago)}
		if got := readiness.Of(f, now); got.Who != c.who {
			t.Errorf("%s: %s must act, want %s: %+v", c.name, got.Who, c.who, got)
		}
	}
}

func TestAPayerUnderANewNumberIsOneTask(t *testing.T) {
	t.Parallel()
	f := active()
	f.Left, f.Succeeded = true, true
	told(0, connector.ReasonLeftWithMandate)(&f)
	if got := readiness.Of(f, now); got.Class != readiness.LeftBehind || got.Who != readiness.Nobody ||
		!strings.Contains(got.Cure, "new number") {
		t.Errorf("the old record stands %+v, and its task is told with the new one", got)
	}
	told(1, connector.ReasonForeignChange)(&f)
	if got := readiness.Of(f, now); got.Who != readiness.You {
		t.Errorf("another reason is told of it, and it stands %+v", got)
	}
}

func TestEachRecordIsInTheClassThatFitsFirst(t *testing.T) {
	t.Parallel()
	type changes []func(*state.ReadinessFacts)
	for _, c := range []struct {
		name  string
		from  func() state.ReadinessFacts
		with  changes
		class readiness.Class
		step  readiness.Stage
		who   readiness.Who
		days  int
		says  string // part of the sentence, or of the note
	}{
		{"active, seen lately", active, nil, "A", "", readiness.Nobody, 40, "Can be debited"},
		{"active, and its record cannot be sent as it is", active,
			changes{told(0, connector.ReasonEmailMalformed), func(f *state.ReadinessFacts) { f.Decision = state.Held }}, "A", "",
			readiness.Books, 40, "not well formed"},
		{"active for 23 months", active, changes{func(f *state.ReadinessFacts) { f.Mandate.Since = now.AddDate(0, -23, 0) }}, "A",
			"", readiness.Nobody, 700, "Banks may cancel"},
		{"active for a day less", active, changes{func(f *state.ReadinessFacts) { f.Mandate.Since = now.AddDate(0, -23, 1) }}, "A",
			"", readiness.Nobody, 699, ""},
		{"seen 26 hours ago", active, changes{func(f *state.ReadinessFacts) { f.Mandate.LastSeen = now.Add(-26 * time.Hour) }}, "A",
			"", readiness.Nobody, 40, "Can be"},
		{"not seen for longer", active,
			changes{func(f *state.ReadinessFacts) { f.Mandate.LastSeen = now.Add(-26*time.Hour - time.Second) }}, "B", "",
			readiness.Operator, 1, "has not read it since"},
		{"signed last Friday", active, changes{status(connector.MandatePending, 7)}, "C", "", readiness.Bank, 7,
			"The bank now decides"},
		{"signed the Thursday before", active, changes{status(connector.MandatePending, 8)}, "C", "", readiness.Bank, 8,
			"more than 5 working days"},
		{"not sent", waiting, nil, "D", readiness.NotSent, readiness.You, 5, "Nobody has sent"},
		{"sent twice", waiting, changes{func(f *state.ReadinessFacts) { f.Letters.Sent, f.Handed.Times = 1, 1 }}, "D",
			readiness.Sent, readiness.Payer, 5, "2 times"},
		{"a letter that may have arrived", waiting, changes{func(f *state.ReadinessFacts) { f.Letters.Unclear = 1 }}, "D",
			readiness.Sent, readiness.Payer, 5, "does not know whether 1 letter arrived"},
		{"stopped by a person", waiting,
			changes{func(f *state.ReadinessFacts) { f.Stop = &state.LetterStop{Why: "person", UntilOn: "2026-12-01"} }}, "D",
			readiness.Stopped, readiness.You, 5, "until 2026-12-01"},
		{"opted out", waiting, changes{func(f *state.ReadinessFacts) { f.Barred = &state.LetterStop{Why: "opted_out"} }}, "D",
			readiness.Stopped, readiness.You, 5, "asked for no more letters"},
		{"bounced, and stopped", waiting, changes{func(f *state.ReadinessFacts) {
			f.Stop, f.Barred = &state.LetterStop{Why: "person"}, &state.LetterStop{Why: "bounced"}
		}}, "D", readiness.Bounced, readiness.Books, 5, "does not exist"},
		{"its record cannot be sent as it is", waiting,
			changes{told(0, connector.ReasonNameMissing), func(f *state.ReadinessFacts) { f.Decision = state.Held }}, "D",
			readiness.Stopped, readiness.Books, 5, "no name"},
		{"its payer has a second customer", waiting, changes{told(state.ReportedDuplicate, connector.ReasonDuplicateCustomer)},
			"D", readiness.Stopped, readiness.You, 5, "a second customer"},
		{"it has a second customer, and can be debited", active,
			changes{told(state.ReportedDuplicate, connector.ReasonDuplicateCustomer)}, "A", "", readiness.You, 40, "Can be debited"},
		{"its customer is not in order", waiting, changes{func(f *state.ReadinessFacts) { f.InOrder = false }}, "D",
			readiness.Stopped, readiness.Nobody, 5, "not confirmed"},
		{"no link", waiting, changes{func(f *state.ReadinessFacts) { f.Mandate.HasLink = false }}, "D", readiness.LinkLost,
			readiness.You, 5, "no signing link"},
		{"no link, and a person lets it be", waiting,
			changes{func(f *state.ReadinessFacts) { f.Mandate.HasLink, f.LetBe = false, true }}, "D", readiness.LinkLost,
			readiness.Nobody, 5, "no signing link"},
		{"its payer is let be", waiting, changes{func(f *state.ReadinessFacts) { f.LetBe = true }}, "D", readiness.Stopped,
			readiness.Nobody, 5, "leave it as it is"},
		{"a link from before", waiting, changes{func(f *state.ReadinessFacts) { f.Mandate.LinkAt = ago(6) }}, "D",
			readiness.LinkLost, readiness.You, 5, "no signing link"},
		{"cancelled by others", active, changes{status(connector.MandateCancelled, 2)}, "E", "", readiness.You, 2,
			"The payer, the bank or a colleague"},
		{"cancelled by us", active, changes{status(connector.MandateCancelled, 2), func(f *state.ReadinessFacts) {
			f.Mandate.Ended = state.Ended{Cause: connector.CauseCancel, Actor: "ada", Why: "moved away"}
		}}, "E", "", readiness.You, 2, `We cancelled the mandate: ada, "moved away".`},
		{"cancelled, and a person lets it be", active,
			changes{status(connector.MandateCancelled, 2), func(f *state.ReadinessFacts) { f.LetBe = true }}, "E", "", readiness.Nobody,
			2, "cancelled"},
		{"not planned lately", active, changes{without}, "F", readiness.NotWished, readiness.Operator, 90,
			"has not requested a mandate yet"},
		{"a rule that does not ask", active, changes{without, unasked(state.Unasked{Why: connector.UnaskedRule, Line: 33})},
			"F", readiness.NotWished, readiness.Nobody, 90, "from this payer: line 33 of the mapping"},
		{"no rule", active, changes{without, unasked(state.Unasked{Why: connector.UnaskedRule})}, "F", readiness.NotWished,
			readiness.Nobody, 90, "no rule mandate.request"},
		{"no e-mail address", active, changes{without, unasked(state.Unasked{Why: connector.UnaskedNoEmail, Line: 33})}, "F",
			readiness.NoEmail, readiness.Books, 90, "No contact has an e-mail address"},
		{"a person does not ask", active, changes{without, unasked(state.Unasked{Why: connector.UnaskedPerson})}, "F",
			readiness.NotWished, readiness.Nobody, 90, "A person decided"},
		{"a request has no answer", active, changes{without, func(f *state.ReadinessFacts) {
			f.Told[2].Reason, f.Awaited = connector.ReasonOutcomeUnknown, "It is made again at 10:45."
		}}, "F", readiness.UnderWay, readiness.Nobody, 90, "requesting a mandate. It is made again at 10:45."},
		{"a request is planned", active, changes{without, func(f *state.ReadinessFacts) { f.Asking = connector.ChangePending }},
			"F", readiness.UnderWay, readiness.Nobody, 90, "requesting a mandate"},
		{"a request was refused", active, changes{without, told(2, connector.ReasonLinkRefused)}, "F", readiness.Refused,
			readiness.You, 3, "refused to make a signing link"},
		{"left out", active, changes{left, away}, "F", readiness.NoPayer, readiness.Nobody, 90, "Excluded"},
		{"archived", active, changes{left, away, func(f *state.ReadinessFacts) { f.State = connector.RecordArchived },
			told(0, connector.ReasonRecordGone)}, "F", readiness.NoPayer, readiness.You, 3, "archived in the accounting system"},
		{"shown no more", active, changes{away, func(f *state.ReadinessFacts) { f.Left = true }}, "F", readiness.NoPayer,
			readiness.Nobody, 90, "no longer lists it"},
		{"given up", active, changes{left, away, func(f *state.ReadinessFacts) { f.GivenUp = true }}, "F", readiness.NoPayer,
			readiness.Nobody, 90, "gave it up"},
		{"merged", active, changes{left, away, func(f *state.ReadinessFacts) { f.MergedTo = "A2" }}, "F", readiness.NoPayer,
			readiness.Nobody, 90, "merged it into record A2"},
		{"forgotten", active, changes{left, away, func(f *state.ReadinessFacts) { f.State = state.RecordForgotten }}, "F",
			readiness.NoPayer, readiness.Nobody, 90, "forgotten"},
		{"left with a cancelled mandate", active, changes{left, status(connector.MandateCancelled, 2)}, "F", readiness.NoPayer,
			readiness.Nobody, 90, "Excluded"},
		{"left, and the customer is gone too", active, changes{left, func(f *state.ReadinessFacts) { f.Missing = true }}, "F",
			readiness.NoPayer, readiness.Nobody, 90, "Excluded"},
		{"not planned", active, changes{away, func(f *state.ReadinessFacts) { f.Decision = "" }}, "G", "", readiness.Operator, 90,
			"No plan"},
		{"planned", active, changes{away, func(f *state.ReadinessFacts) { f.Sending = connector.ChangePending }}, "G", "",
			readiness.Operator, 90, "not sent it yet"},
		{"sent, without an answer", active, changes{away, func(f *state.ReadinessFacts) { f.Sending = connector.ChangeUnknown }},
			"G", "", readiness.Operator, 90, "outcome is unknown"},
		{"nothing planned", active, changes{away}, "G", "", readiness.Operator, 90, "has no customer for it yet"},
		{"not confirmed", active, changes{func(f *state.ReadinessFacts) { f.LinkState = connector.LinkCreating }}, "G", "",
			readiness.Operator, 90, "not confirmed"},
		{"no name", active, changes{away, told(0, connector.ReasonNameMissing)}, "G", "", readiness.Books, 3, "no name"},
		{"a rule of the mapping fails", active, changes{away, told(0, connector.ReasonMappingFailed)}, "G", "",
			readiness.Operator, 3, "mapping"},
		{"refused", active, changes{away, told(1, connector.ReasonRejected)}, "G", "", readiness.You, 3,
			"refused the customer"},
		{"somebody has its key", active, changes{func(f *state.ReadinessFacts) { f.Contested = true }}, "H", "", readiness.Books, 90,
			"same key"},
		{"the key changed", active, changes{told(0, connector.ReasonKeyChanged)}, "H", "", readiness.Books, 3,
			"key of a linked record"},
		{"a likeness", active, changes{away, told(1, connector.ReasonLikeness)}, "H", "", readiness.You, 3,
			"may be this payer"},
		{"missing there", active, changes{func(f *state.ReadinessFacts) { f.Missing, f.LinkState = true, connector.LinkMissing }},
			"H", "", readiness.You, 90, "no longer exists"},
		{"let go of", active, changes{func(f *state.ReadinessFacts) { f.Unlinking = true }}, "H", "", readiness.You, 90,
			"unlinked this record"},
		{"conflict", active, changes{func(f *state.ReadinessFacts) { f.LinkState = connector.LinkConflict }}, "H", "", readiness.You,
			90, "another record's key"},
		{"moved from another provider", active, changes{status(connector.MandateMigrating, 30)}, "C", "", readiness.Bank, 30,
			"another provider"},
		{"unknown status", active, changes{status("DORMANT", 1)}, "I", "", readiness.You, 1, "documentation does not list"},
		{"left with a mandate", active, changes{left, told(0, connector.ReasonLeftWithMandate)}, "J", readiness.StillActive,
			readiness.You, 3, "still works"},
		{"left with an open link", waiting, changes{left}, "J", readiness.CanSign, readiness.You, 90, "awaiting signature"},
		{"left with an unknown status", active, changes{left, status("DORMANT", 1)}, "J", readiness.StillSigned, readiness.You,
			90, "DORMANT"},
		{"left, and may stay", active, changes{left, func(f *state.ReadinessFacts) { f.Stays = true }}, "J", readiness.StillActive,
			readiness.Nobody, 90, "still works"},
	} {
		f := c.from()
		for _, change := range c.with {
			change(&f)
		}
		got := readiness.Of(f, now)
		if got.Class != c.class || got.Step != c.step || got.Who != c.who || got.Days(now) != c.days ||
			!strings.Contains(got.Sentence+" "+got.Note, c.says) || got.Cure == "" {
			t.Errorf("%s: got %+v (%d days)\nwant class %s, step %q, %s must act, %d days, %q", c.name, got, got.Days(now),
				c.class, c.step, c.who, c.days, c.says)
		}
		if invited, want := readiness.CanBeInvited(f), c.class == "D" && c.step != readiness.LinkLost &&
			!strings.HasPrefix(c.name, "its "); invited != want {
			t.Errorf("%s: may be invited: %v, want %v", c.name, invited, want)
		}
	}
}

// unasked makes the newest plan not ask for a mandate.
func unasked(u state.Unasked) func(*state.ReadinessFacts) {
	return func(f *state.ReadinessFacts) { f.Unasked = u }
}

func TestALinkThatWorksNoMoreCountsAsLost(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	for _, c := range []struct {
		name  string
		given float64 // days ago
		valid time.Duration
		lost  bool
	}{
		{"nobody knows for how long", 400, 0, false}, {"it works", 6.99, week, false}, {"it has just expired", 7, week, true},
		{"it expired long ago", 8, week, true},
	} {
		f := waiting()
		f.Mandate.Since, f.Mandate.LinkAt = ago(400), ago(c.given)
		f = readiness.WithoutExpired(f, now, c.valid)
		if got := readiness.Of(f, now).Step == readiness.LinkLost; got != c.lost || readiness.CanBeInvited(f) == c.lost {
			t.Errorf("%s: lost %v, may be sent %v", c.name, got, readiness.CanBeInvited(f))
		}
	}
}

// drawn returns facts of any kind, also such as no ledger should hold.
func drawn(t *rapid.T) state.ReadinessFacts {
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	at := func(name string) time.Time { return ago(float64(rapid.IntRange(0, 800).Draw(t, name))) }
	reasons := []connector.Reason{""}
	for r := range connector.Reasons {
		reasons = append(reasons, r)
	}
	slices.Sort(reasons)
	why := func(name string) state.Reported {
		return state.Reported{Reason: rapid.SampledFrom(reasons).Draw(t, name), Since: at(name + " since")}
	}
	stop := func(name string) *state.LetterStop {
		return rapid.SampledFrom([]*state.LetterStop{nil, nil, {Why: "person"}, {Why: "opted_out"}, {Why: "bounced"}}).Draw(t,
			name)
	}
	f := state.ReadinessFacts{
		State: rapid.SampledFrom([]connector.RecordState{connector.RecordActive, connector.RecordArchived,
			connector.RecordUnknown, state.RecordForgotten}).Draw(t, "state"),
		Decision:  rapid.SampledFrom([]state.Verdict{"", state.Included, state.Held, state.Excluded}).Draw(t, "decision"),
		ChangedAt: at("changed"), Left: flag("left"), GivenUp: flag("given up"), Stays: flag("stays"), LetBe: flag("let be"),
		Unlinking: flag("unlinking"), Contested: flag("contested"),
		Told: [4]state.Reported{why("record"), why("link"), why("mandate"), why("second customer")},
		LinkState: rapid.SampledFrom([]connector.LinkState{"", connector.LinkNew, connector.LinkCreating,
			connector.LinkLinked, connector.LinkLinked, connector.LinkMissing, connector.LinkConflict,
			connector.LinkHeld}).Draw(t, "link"),
		InOrder: flag("in order"), Missing: flag("missing"), Stop: stop("stop"), Barred: stop("barred"),
	}
	if flag("has a customer") {
		f.BillingID = "b1"
	}
	if flag("has a mandate") {
		f.Mandate = state.ReadinessMandate{ID: "m1",
			Status: rapid.SampledFrom([]connector.MandateStatus{"CREATED", "PENDING", "ACTIVE", "CANCELLED", "DORMANT"}).Draw(t,
				"status"),
			Since: at("since"), LastSeen: at("seen"), HasLink: flag("link"), LinkAt: at("link at")}
		f.Letters.Sent, f.Handed.Times = rapid.IntRange(0, 3).Draw(t, "letters"), rapid.IntRange(0, 2).Draw(t, "handed")
	}
	return f
}

func TestEveryFactIsInOneClassAndSaysWhoMustAct(t *testing.T) {
	t.Parallel()
	everybody := []readiness.Who{readiness.Nobody, readiness.Operator, readiness.Bank, readiness.Payer, readiness.You,
		readiness.Books}
	rapid.Check(t, func(t *rapid.T) {
		f := drawn(t)
		s := readiness.Of(f, now)
		switch {
		case !slices.Contains(readiness.Classes, s.Class):
			t.Fatalf("class %q is none of the ten", s.Class)
		case s.Class.Steps() == nil && s.Step != "", s.Class.Steps() != nil && !slices.Contains(s.Class.Steps(), s.Step):
			t.Fatalf("class %s has no step %q", s.Class, s.Step)
		case !slices.Contains(everybody, s.Who):
			t.Fatalf("%q must act", s.Who)
		case s.Sentence == "" || s.Cure == "" || s.Since.IsZero():
			t.Fatalf("something is left out: %+v", s)
		case s != readiness.Of(f, now):
			t.Fatal("asked twice, it says two things")
		}
		lives := f.Mandate.ID != "" && f.Mandate.Status != connector.MandateCancelled && !f.Missing
		if (s.Class == readiness.LeftBehind) != (f.Left && lives) {
			t.Fatalf("left: %v, its mandate lives: %v, and it is in class %s", f.Left, lives, s.Class)
		}
		if s.Class == readiness.LeftBehind &&
			(s.Step == readiness.StillActive) != (f.Mandate.Status == connector.MandateActive) {
			t.Fatalf("its mandate is %s, and its step %q", f.Mandate.Status, s.Step)
		}
		if s.Class == readiness.LeftBehind && (s.Step == readiness.CanSign) != (f.Mandate.Status == connector.MandateCreated) {
			t.Fatalf("its mandate is %s, and its step %q", f.Mandate.Status, s.Step)
		}
		if s.Class == readiness.Debitable &&
			(f.Left || f.Contested || f.Missing || f.LinkState != connector.LinkLinked ||
				f.Mandate.Status != connector.MandateActive || now.Sub(f.Mandate.LastSeen) > readiness.LookEvery) {
			t.Fatalf("said to be debitable: %+v", f)
		}
		if readiness.CanBeInvited(f) && (s.Class != readiness.Awaiting || s.Step == readiness.LinkLost) {
			t.Fatalf("may be invited, and is in class %s, step %q", s.Class, s.Step)
		}
		if readiness.CanBeInvited(f) && f.Mandate.LinkAt.Before(f.Mandate.Since) {
			t.Fatal("an older mandate's link is handed over")
		}
	})
}

func TestEveryClassAndStepHasATitle(t *testing.T) {
	t.Parallel()
	for _, c := range readiness.Classes {
		if len(c.Title()) < 3 {
			t.Errorf("class %s has no title", c)
		}
		for _, step := range c.Steps() {
			if title := step.Title(); title == "" || strings.Contains(title, "_") {
				t.Errorf("step %s of class %s is called %q", step, c, title)
			}
		}
	}
	if got := readiness.Class("Z").Title() + readiness.Stage("z").Title(); got != "Zz" {
		t.Errorf("unknown ones are called %q", got)
	}
}
