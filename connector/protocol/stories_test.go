package protocol

import (
	"slices"
	"testing"

	"payersync/connector"
)

// chapter is one moment of a story: what the facts are by then, and what has to be
// next.
type chapter struct {
	what    string
	change  func(*Facts)
	do      Do
	line    string
	reason  connector.Reason
	working bool // it is not complete
}

// play plays a story of one payer. It forgets ended attempts, like the ledger.
func play(t *testing.T, f Facts, chapters []chapter) {
	t.Helper()
	for _, c := range chapters {
		c.change(&f)
		ended := Decide(f).Ended
		gone := func(a Attempt) bool { return slices.Contains(ended, a.Seq) }
		f.Attempts, f.Others = slices.DeleteFunc(slices.Clone(f.Attempts), gone),
			slices.DeleteFunc(slices.Clone(f.Others), gone)
		o := Decide(f)
		s := o.Customer
		if s.Do != c.do || s.Line != c.line || s.Reason != c.reason {
			t.Errorf("%s: the step is %s by the line %q and tells %q, want %s by %q and %q", c.what, s.Do, s.Line, s.Reason,
				c.do, c.line, c.reason)
		}
		if working := o.Class == Working; working != c.working {
			t.Errorf("%s: it is %s, want working %v", c.what, o.Class, c.working)
		}
	}
}

// included are the facts of a record that nothing was ever sent for.
func included() Facts {
	return Facts{
		Key: "K", Record: Record{Usability: Included, Key: "K", Hash: "wanted"}, Index: Index{Since: 10, Now: true},
		Approved: Intent{Action: connector.ActionCreate, Hash: "wanted"},
	}
}

var create = Attempt{Seq: 11, Action: connector.ActionCreate, Hash: "wanted"}

func TestACreateWithoutAnAnswerHoldsItsKeyWhateverHappens(t *testing.T) {
	t.Parallel()
	t.Run("of the first record", func(t *testing.T) {
		t.Parallel()
		play(t, included(), []chapter{
			{"the record is new", func(*Facts) {}, Create, "create", "", true},
			{"the create got no answer", func(f *Facts) { f.Attempts = []Attempt{create} }, Replay, "create unanswered",
				connector.ReasonOutcomeUnknown, true},
			{"two customers were typed by hand", func(f *Facts) { f.Holders, f.Index.Since = Several, 20 }, Tell, "key doubled",
				connector.ReasonKeyDoubled, false},
			{"both were deleted", func(f *Facts) { f.Holders, f.Index.Since = Nobody, 30 }, Replay, "create unanswered",
				connector.ReasonOutcomeUnknown, true},
			{"the record is excluded", func(f *Facts) { f.Record = Record{} }, Wait, "create left behind",
				connector.ReasonOutcomeUnknown, true},
			{"the time of the create is over", func(f *Facts) { f.Attempts[0].Over = 40 }, ReadList, "create outlived",
				connector.ReasonOutcomeUnknown, true},
			{"lists that began later show nothing", func(f *Facts) { f.Index.Since = 50 }, Nothing, "record excluded", "",
				false},
		})
	})
	t.Run("seen from the second", func(t *testing.T) {
		t.Parallel()
		f := included()
		f.Others = []Attempt{create}
		play(t, f, []chapter{
			{"the first record's create may arrive", func(f *Facts) { f.Index.Since = 30 }, Wait, "key under way",
				connector.ReasonKeyUnderWay, true},
			{"its time is over", func(f *Facts) { f.Others[0].Over = 40 }, ReadList, "other's create outlived",
				connector.ReasonKeyUnderWay, true},
			{"it had arrived, and a list shows it", func(f *Facts) {
				f.Index.Since, f.Holders, f.Holder, f.Approved = 50, Free, "c1",
					Intent{Action: connector.ActionAdopt, Customer: "c1", Hash: "wanted"}
			}, ReadCustomer, "key found", "", true},
			{"the customer carries the key", func(f *Facts) { f.Look = Look{Seq: 51, Shows: Ours, Now: true} }, Adopt,
				"key found", "", true},
		})
	})
	t.Run("seen from the second, when it never arrived", func(t *testing.T) {
		t.Parallel()
		f := included()
		f.Others = []Attempt{create}
		play(t, f, []chapter{
			{"a list between says nothing", func(f *Facts) { f.Others[0].Over, f.Index.Since = 40, 40 }, ReadList,
				"other's create outlived", connector.ReasonKeyUnderWay, true},
			{"a later one does", func(f *Facts) { f.Index.Since = 41 }, Create, "create", "", true},
		})
	})
}

func TestACustomerThatIsFoundIsNoAnswerToTheCreate(t *testing.T) {
	t.Parallel()
	first := included()
	first.Attempts = []Attempt{create}
	play(t, first, []chapter{
		{"a customer was typed by hand", func(f *Facts) { f.Holders, f.Holder, f.Index.Since = Free, "c7", 20 }, ReadCustomer,
			"answer found", "", true},
		{"it carries the key", func(f *Facts) { f.Look = Look{Seq: 21, Shows: Ours, Holds: "wanted", Now: true} }, Adopt,
			"answer found", "", true},
		{"it is linked, and the create may still arrive", func(f *Facts) { f.Link.Customer, f.Holders = "c7", Own }, Later,
			"other create awaited", "", false},
		{"the time of the create is over", func(f *Facts) { f.Attempts[0].Over = 30 }, ReadList, "other create outlived", "",
			true},
		{"the lists show one customer", func(f *Facts) { f.Index.Since = 40 }, Nothing, "in step", "", false},
	})
	second := included()
	second.Others = []Attempt{create}
	play(t, second, []chapter{
		{"the first record is linked to it", func(f *Facts) { f.Rival, f.Holders, f.Holder = RivalLink, Another, "c7" }, Wait,
			"key under way", connector.ReasonKeyUnderWay, true},
		{"the customer was deleted, and the first record excluded",
			func(f *Facts) { f.Rival, f.Holders, f.Holder = NoRival, Nobody, "" }, Wait, "key under way",
			connector.ReasonKeyUnderWay, true},
	})
}

func TestAnOldUpdateNeverStaysUnnoticed(t *testing.T) {
	t.Parallel()
	f := included()
	f.Record.Hash = "older"
	f.Link = Link{Customer: "c1", Confirmed: "first", ConfirmedAt: 5}
	f.Holders, f.Holder = Own, "c1"
	f.Look = Look{Seq: 12, Shows: Ours, Holds: "first", Now: true}
	f.Approved = Intent{Action: connector.ActionUpdate, Customer: "c1", Hash: "older"}
	play(t, f, []chapter{
		{"the record was edited", func(*Facts) {}, Update, "update", "", true},
		{"the update got no answer, and the key is off the customer", func(f *Facts) {
			f.Attempts = []Attempt{{Seq: 13, Action: connector.ActionUpdate, Customer: "c1", Hash: "older"}}
			f.Look = Look{Seq: 14, Shows: NoKey}
		}, Tell, "key removed", connector.ReasonKeyRemoved, false},
		{"the key is back, and the record was edited again", func(f *Facts) {
			f.Look, f.Record.Hash = Look{Seq: 16, Shows: Ours, Holds: "first", Now: true}, "newer"
			f.Approved.Hash = "newer"
		}, Update, "update", "", true},
		{"the newer update was answered", func(f *Facts) { f.Link.Answered, f.Link.AnsweredAt = "newer", 18 }, ReadCustomer,
			"customer unread", "", true},
		{"a read confirms it, and the older one may still arrive", func(f *Facts) {
			f.Look, f.Link.Confirmed, f.Link.ConfirmedAt = Look{Seq: 19, Shows: Ours, Holds: "newer"}, "newer", 19
		}, Later, "older update awaited", "", false},
		{"its time is over", func(f *Facts) { f.Attempts[0].Over = 30 }, ReadCustomer, "older update outlived", "", true},
		{"it had arrived just before", func(f *Facts) { f.Look = Look{Seq: 30, Shows: Ours, Holds: "older", Now: true} },
			Update, "older update arrived", "", true},
		{"the newer values are sent again", func(f *Facts) {
			f.Link.AnsweredAt, f.Look = 32, Look{Seq: 33, Shows: Ours, Holds: "newer", Now: true}
		}, Nothing, "in step", "", false},
	})
}

func TestACancelledMandateIsReplacedOnlyOnAPersonsWord(t *testing.T) {
	t.Parallel()
	f := included()
	f.Record.Mandate, f.Mandate.Approved = true, true
	f.Link, f.Holders, f.Holder = Link{Customer: "c1"}, Own, "c1"
	f.Look = Look{Seq: 12, Shows: Ours, Holds: "wanted"}
	for _, c := range []struct {
		what   string
		change func(*Facts)
		do     Do
		line   string
	}{
		{"no mandate was ever seen", func(*Facts) {}, ReadCustomer, "ask"},
		{"a read just before shows none", func(f *Facts) { f.Look.Now = true }, AskLink, "ask"},
		{"the request got no answer", func(f *Facts) {
			f.Attempts, f.Mandate.Asked = []Attempt{{Seq: 13, Action: connector.ActionLink, Customer: "c1"}}, 13
			f.Look.Seq = 14
		}, Wait, "request awaited"},
		{"a mandate was made and cancelled",
			func(f *Facts) { f.Mandate.Status, f.Mandate.Seq = connector.MandateCancelled, 15 }, Tell, "cancelled"},
		{"a person asks, while the first request may arrive", func(f *Facts) { f.Words.Ask = 16 }, Wait, "request awaited"},
		{"its time is over", func(f *Facts) { f.Attempts[0].Over, f.Look.Now = 17, false }, ReadCustomer, "request outlived"},
		{"a later read shows no other", func(f *Facts) { f.Look = Look{Seq: 18, Shows: Ours, Holds: "wanted", Now: true} },
			AskLink, "a person asks"},
		{"the word is used up", func(f *Facts) { f.Mandate.Asked = 19 }, Tell, "cancelled"},
	} {
		c.change(&f)
		if s := Decide(f).Mandate; s.Do != c.do || s.Line != c.line {
			t.Errorf("%s: the step is %s by the line %q, want %s by %q", c.what, s.Do, s.Line, c.do, c.line)
		}
	}
}

func TestWhatWasReadBeforeARestoreProvesNothing(t *testing.T) {
	t.Parallel()
	f := included()
	f.Doubt = Doubt{Since: 20}
	play(t, f, []chapter{
		{"requests from before may arrive", func(*Facts) {}, Wait, "restore in doubt", "", true},
		{"their time is over", func(f *Facts) { f.Doubt.Over = 30 }, ReadList, "index not believed", "", true},
		{"lists that began later", func(f *Facts) { f.Index.Since = 31 }, Create, "create", "", true},
	})
	g := included()
	g.Link = Link{Customer: "c1", Confirmed: "wanted", ConfirmedAt: 12}
	g.Holders, g.Doubt = Own, Doubt{Since: 20}
	g.Look = Look{Seq: 12, Shows: Ours, Holds: "wanted"}
	play(t, g, []chapter{
		{"the customer was read before the restore", func(*Facts) {}, ReadCustomer, "customer unread", "", true},
		{"read again, it is as wanted", func(f *Facts) { f.Look.Seq = 21 }, Later, "older update awaited", "", false},
		{"read when everything must have arrived", func(f *Facts) { f.Doubt.Over, f.Look.Seq = 30, 31 }, Nothing, "in step",
			"", false},
	})
}

func TestACustomerThatLooksLikeSomebodyElseIsTakenOverOnAPersonsWord(t *testing.T) {
	t.Parallel()
	f := included()
	f.Holders, f.Holder, f.Approved = Free, "c1", Intent{Action: connector.ActionAdopt, Customer: "c1", Hash: "wanted"}
	play(t, f, []chapter{
		{"a list shows the key", func(*Facts) {}, ReadCustomer, "key found", "", true},
		{"the customer looks like somebody else",
			func(f *Facts) { f.Look = Look{Seq: 21, Shows: Ours, Disputed: true, Now: true} }, Tell, "key disputed",
			connector.ReasonKeyDisputed, false},
		{"a person said to try again, which says nothing of who it is", func(f *Facts) { f.Words.Retry = 22 }, Tell,
			"key disputed", connector.ReasonKeyDisputed, false},
		{"a person said that it is the record's", func(f *Facts) { f.Words.Adopt = 23 }, Adopt, "key found", "", true},
		{"the key is off by now", func(f *Facts) { f.Look = Look{Seq: 24, Shows: NoKey, Now: true} }, ReadList,
			"holder not confirmed", connector.ReasonKeyUnsettled, true},
	})
}

func TestTheAnswerToACreateIsNotDisputed(t *testing.T) {
	t.Parallel()
	f := included()
	f.Holders, f.Holder, f.Attempts = Free, "c1", []Attempt{create}
	play(t, f, []chapter{
		{"a colleague has renamed what it made",
			func(f *Facts) { f.Look = Look{Seq: 21, Shows: Ours, Disputed: true, Now: true} }, Adopt, "answer found", "", true},
	})
}

func TestAMandateThatAPersonLetsBeIsNotToldOfBeforeItIsAnother(t *testing.T) {
	t.Parallel()
	f := included()
	f.Link, f.Holders, f.Holder, f.Record.Mandate = Link{Customer: "c1"}, Own, "c1", true
	f.Look = Look{Seq: 12, Shows: Ours, Holds: "wanted", Now: true}
	f.Mandate.Status = connector.MandateCancelled
	for _, c := range []struct {
		name   string
		what   func(*Facts)
		do     Do
		line   string
		reason connector.Reason
	}{
		{"it is cancelled", func(*Facts) {}, Tell, "cancelled", connector.ReasonMandateCancelled},
		{"a person says that no new one is wanted", func(f *Facts) { f.Words.LetBe = 13 }, Nothing, "let be", ""},
		{"an earlier request for a link is found without an end",
			func(f *Facts) { f.Attempts = []Attempt{{Seq: 9, Action: connector.ActionLink}} }, Tell, "cancelled",
			connector.ReasonMandateCancelled},
		{"a person asks for one after all", func(f *Facts) { f.Attempts, f.Words.Ask = nil, 14 }, AskLink, "a person asks",
			""},
		{"its status is another, of which nobody has said anything",
			func(f *Facts) { f.Words = Words{}; f.Mandate.Status = "PAUSED" }, Tell, "status not documented",
			connector.ReasonStatusUnknown},
	} {
		c.what(&f)
		if s := Decide(f).Mandate; s.Do != c.do || s.Line != c.line || s.Reason != c.reason {
			t.Errorf("%s: %s by %q, told %q; want %s by %q, %q", c.name, s.Do, s.Line, s.Reason, c.do, c.line, c.reason)
		}
	}
}

func TestARecordThatAPersonGaveUpIsToldOfWhenItIsAnother(t *testing.T) {
	t.Parallel()
	f := included()
	f.Attempts = []Attempt{create}
	play(t, f, []chapter{
		{"a person gives it up while its create may arrive", func(f *Facts) { f.Record = Record{} }, Wait,
			"create left behind", connector.ReasonOutcomeUnknown, true},
		{"it changes meanwhile", func(f *Facts) { f.Record.Anew = true }, Wait, "create left behind",
			connector.ReasonOutcomeUnknown, true},
		{"the create can arrive no more", func(f *Facts) { f.Attempts = nil }, Tell, "excluded, and changed since",
			connector.ReasonGivenUpChanged, false},
		{"a person says that it stays given up", func(f *Facts) { f.Record.Anew = false }, Nothing, "record excluded", "",
			false},
	})
}

func TestAPayerThatLeavesWithAMandateIsToldOnce(t *testing.T) {
	t.Parallel()
	f := included()
	f.Link, f.Holders, f.Holder = Link{Customer: "c1"}, Own, "c1"
	f.Look = Look{Seq: 12, Shows: Ours, Holds: "wanted"}
	f.Mandate.Status = connector.MandateCreated
	const line = "record left, mandate lives"
	play(t, f, []chapter{
		{"its signing link is open", func(*Facts) {}, Nothing, "in step", "", false},
		{"the record is excluded", func(f *Facts) { f.Record = Record{} }, Tell, line, connector.ReasonLeftWithMandate,
			false},
		{"the payer signs", func(f *Facts) { f.Mandate.Status = connector.MandateActive }, Tell, line,
			connector.ReasonLeftWithMandate, false},
		{"a person says that it may stay", func(f *Facts) { f.Words.Leave = 13 }, Nothing, "record excluded", "", false},
		{"another mandate appears, of which nobody has said anything",
			func(f *Facts) { f.Words.Leave, f.Mandate.Status = 0, connector.MandatePending }, Tell, line,
			connector.ReasonLeftWithMandate, false},
		{"the record is archived", func(f *Facts) { f.Record = Record{Usability: Gone} }, Tell, line,
			connector.ReasonLeftWithMandate, false},
		{"the mandate is cancelled", func(f *Facts) { f.Mandate.Status = connector.MandateCancelled }, Tell,
			"record gone, customer left", connector.ReasonRecordGone, false},
		{"a person says that it may stay so", func(f *Facts) { f.Words.Leave = 14 }, Nothing, "record gone", "", false},
		{"a reading does not show the record, and the status is not documented", func(f *Facts) {
			f.Words.Leave, f.Record, f.Mandate.Status = 0, Record{Usability: NotShown}, "PAUSED"
		}, Tell, line, connector.ReasonLeftWithMandate, false},
		{"the mandate is cancelled", func(f *Facts) { f.Mandate.Status = connector.MandateCancelled }, Nothing,
			"record shown no more", "", false},
	})
}

func TestACustomerIsLetGoOnAPersonsWordWhenNothingCanArriveAnyMore(t *testing.T) {
	t.Parallel()
	f := included()
	f.Link, f.Holders, f.Holder = Link{Customer: "c1", Confirmed: "older", ConfirmedAt: 12}, Own, "c1"
	f.Look = Look{Seq: 12, Shows: Ours, Holds: "older", Now: true}
	f.Approved = Intent{Action: connector.ActionUpdate, Customer: "c1", Hash: "wanted"}
	play(t, f, []chapter{
		{"an update is planned", func(*Facts) {}, Update, "update", "", true},
		{"a person says that the customer is not the record's", func(f *Facts) { f.Words.Unlink = 13 }, Approval, "unlink",
			"", false},
		{"a plan shows that", func(f *Facts) { f.Approved.Unlinks = true }, Unlink, "unlink", "", true},
		{"the request gets no answer", func(f *Facts) {
			f.Attempts = []Attempt{{Seq: 14, Action: connector.ActionUpdate, Customer: "c1"}}
		}, Wait, "unlink, request awaited", connector.ReasonOutcomeUnknown, true},
		{"a read shows that the key is off",
			func(f *Facts) { f.Look, f.Holders = Look{Seq: 15, Shows: NoKey, Now: true}, Nobody }, Wait,
			"unlink, request awaited", connector.ReasonOutcomeUnknown, true},
		{"its time is over", func(f *Facts) { f.Attempts[0].Over, f.Look.Now = 16, false }, ReadCustomer,
			"unlink, request outlived", connector.ReasonOutcomeUnknown, true},
		{"a later read shows the same", func(f *Facts) { f.Look = Look{Seq: 17, Shows: NoKey, Now: true} }, Unlink, "unlink",
			"", true},
	})
}
