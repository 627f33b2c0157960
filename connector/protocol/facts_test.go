package protocol

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/internal/longtest"
)

// Tickets of the small domain: a restore at 4, a look before it, and times that are
// over before or after the looks.
const (
	beforeRestore = 3
	restoredAt    = 4
	early         = 10
	overAt        = 20
	lateLook      = 50
)

// dimension is everything that one part of the facts may be.
type dimension []func(*Facts)

// walk calls visit with every combination of the dimensions, and returns how many
// there are.
func walk(dimensions []dimension, visit func(*Facts)) (n int) {
	levels := make([]Facts, len(dimensions)+1)
	levels[0].Key = "K"
	var descend func(level int)
	descend = func(level int) {
		if level == len(dimensions) {
			visit(&levels[level])
			n++
			return
		}
		for _, choose := range dimensions[level] {
			levels[level+1] = levels[level]
			choose(&levels[level+1])
			descend(level + 1)
		}
	}
	descend(0)
	return n
}

// each makes a dimension of the values of one field.
func each[T any](field func(*Facts) *T, values ...T) dimension {
	var d dimension
	for _, v := range values {
		d = append(d, func(f *Facts) { *field(f) = v })
	}
	return d
}

func records(mandate bool) dimension {
	return each(func(f *Facts) *Record { return &f.Record },
		Record{Usability: Included, Key: "K", Hash: "wanted", Mandate: mandate},
		Record{Usability: Included, Key: "other", Hash: "wanted", Mandate: mandate},
		Record{Usability: Unfit, Key: "K", Reason: connector.ReasonNameMissing},
		Record{Usability: Unfit, Reason: connector.ReasonRecordUnreadable},
		Record{Usability: Excluded},
		Record{Usability: Excluded, Anew: true},
		Record{Usability: Gone},
		Record{Usability: NotShown})
}

var rivals = each(func(f *Facts) *Rival { return &f.Rival }, NoRival, RivalLink, RivalRecord)

var doubts = each(func(f *Facts) *Doubt { return &f.Doubt }, Doubt{}, Doubt{Since: restoredAt},
	Doubt{Since: restoredAt, Over: overAt})

// refusals are what was refused, given up, or lifted by a person.
var refusals = dimension{
	func(*Facts) {},
	func(f *Facts) { f.Refusal = Refusal{connector.ReasonRejected, "wanted", early} },
	func(f *Facts) { f.Worn = early },
	func(f *Facts) {
		f.Refusal, f.Worn, f.Words.Retry = Refusal{connector.ReasonRejected, "wanted", early}, early, early+1
	},
}

func holders(all ...Holders) dimension {
	var d dimension
	for _, h := range all {
		d = append(d, func(f *Facts) {
			if f.Holders = h; h != Nobody && h != Several {
				f.Holder = "c1"
			}
		})
	}
	return d
}

func indexes(now ...bool) dimension {
	var d dimension
	for _, at := range now {
		for _, since := range []int64{0, early, lateLook} {
			d = append(d, func(f *Facts) { f.Index = Index{since, at} })
		}
	}
	return d
}

func approvals(all ...connector.Action) dimension {
	var d dimension
	for _, a := range all {
		d = append(d, func(f *Facts) {
			f.Approved = Intent{Action: a, Hash: "wanted"}
			if a == connector.ActionAdopt || a == connector.ActionUpdate {
				f.Approved.Customer = "c1"
			}
		})
	}
	return d
}

// attempts are own requests: none, or one of the action in every condition.
func attempts(action connector.Action, hashes ...string) dimension {
	d := dimension{func(*Facts) {}}
	for _, hash := range hashes {
		for _, at := range []int64{beforeRestore, early} {
			for _, over := range []int64{0, overAt} {
				for _, rest := range []bool{false, true} {
					if rest && action != connector.ActionCreate {
						continue
					}
					d = append(d, func(f *Facts) {
						f.Attempts = append(slices.Clip(f.Attempts), Attempt{Seq: at, Over: over, Action: action, Hash: hash, Rest: rest})
					})
				}
			}
		}
	}
	return d
}

// looks are reads of the customer: at every time, with everything that it can show.
func looks(times []int64, now ...bool) dimension {
	d := dimension{func(*Facts) {}}
	for _, seq := range times {
		for _, at := range now {
			for _, shows := range []Shows{Missing, OtherKey, NoKey} {
				d = append(d, func(f *Facts) { f.Look = Look{Seq: seq, Shows: shows, Now: at} })
			}
			for _, holds := range []string{"", "wanted", "older"} {
				d = append(d, func(f *Facts) { f.Look = Look{Seq: seq, Shows: Ours, Holds: holds, Now: at} })
			}
			d = append(d, func(f *Facts) { f.Look = Look{Seq: seq, Shows: Ours, Unmoved: true, Now: at} },
				func(f *Facts) { f.Look = Look{Seq: seq, Shows: NotYet, Now: at} })
		}
	}
	return d
}

// disputes are reads of a customer that looks like somebody else's, before and after a
// person's word.
var disputes = dimension{
	func(f *Facts) { f.Look = Look{Seq: lateLook, Shows: Ours, Disputed: true, Now: true} },
	func(f *Facts) {
		f.Look, f.Words.Adopt = Look{Seq: lateLook, Shows: Ours, Disputed: true, Now: true}, early
	},
}

// domains are the small domains: a payer without a customer, one with, and one with
// a mandate.
func domains() map[string][]dimension {
	otherCreates := dimension{
		func(*Facts) {},
		func(f *Facts) { f.Others = []Attempt{{Seq: early, Action: connector.ActionCreate}} },
		func(f *Facts) { f.Others = []Attempt{{Seq: early, Action: connector.ActionCreate, Over: overAt}} },
	}
	likenesses := dimension{
		func(*Facts) {}, func(f *Facts) { f.Alike = true }, func(f *Facts) { f.AlikeLeft = true },
		func(f *Facts) { f.AlikeTwice = true },
		func(f *Facts) { f.Alike, f.AlikeLeft, f.AlikeTwice, f.Words.Create = true, true, true, early },
	}
	creates := attempts(connector.ActionCreate, "older")
	link := func(f *Facts) { f.Link = Link{Customer: "c1"} }
	unlinks := dimension{
		func(*Facts) {}, func(f *Facts) { f.Approved.Unlinks = true },
		func(f *Facts) { f.Approved = Intent{connector.ActionUpdate, "c2", "wanted", true} },
		func(f *Facts) { f.Approved = Intent{} },
	}
	return map[string][]dimension{
		"let go": {
			slices.Concat(attempts(connector.ActionUpdate, "wanted", ""), attempts(connector.ActionLink, "")[1:], creates[5:6],
				creates[7:8],
				dimension{func(f *Facts) {
					f.Attempts = []Attempt{{Seq: early, Action: connector.ActionUpdate, Answered: early + 1}}
				}}),
			{link}, {func(f *Facts) { f.Words.Unlink = early }}, records(true), rivals[1:], holders(Nobody, Own, Several),
			looks([]int64{beforeRestore, early + 1, lateLook}, true, false),
			doubts, indexes(true)[1:], approvals(connector.ActionUpdate), unlinks,
			each(func(f *Facts) *connector.MandateStatus { return &f.Mandate.Status }, "", connector.MandateCreated,
				connector.MandateCancelled),
		},
		"not linked": {
			attempts(connector.ActionCreate, "older"), otherCreates, records(false), rivals,
			holders(Nobody, Free, Another, Several),
			append(looks([]int64{lateLook}, true)[:6:6], disputes...), indexes(true, false), doubts, likenesses, refusals,
			approvals("", connector.ActionCreate, connector.ActionAdopt),
		},
		"linked": {
			slices.Concat(attempts(connector.ActionUpdate, "wanted", "older"), creates[5:6], creates[7:8]),
			{link}, records(false), rivals[1:], holders(Nobody, Own, Several),
			looks([]int64{beforeRestore, early + 1, lateLook}, true, false),
			{func(*Facts) {}, func(f *Facts) { f.Link.Confirmed, f.Link.ConfirmedAt = "wanted", early },
				func(f *Facts) { f.Link.Confirmed, f.Link.ConfirmedAt = "wanted", beforeRestore }},
			{func(*Facts) {}, func(f *Facts) { f.Link.Answered, f.Link.AnsweredAt = "wanted", early+2 },
				func(f *Facts) { f.Link.Answered, f.Link.AnsweredAt = "older", beforeRestore-1 }},
			doubts, refusals, indexes(true)[1:2], approvals("", connector.ActionAdopt, connector.ActionUpdate),
		},
		"mandate": {
			attempts(connector.ActionLink, ""), {func(*Facts) {}, link}, records(true), rivals[:2], holders(Own, Several),
			slices.Concat(looks([]int64{early + 1}, false)[:6], looks([]int64{lateLook}, true)[1:5]), doubts,
			each(func(f *Facts) *connector.MandateStatus { return &f.Mandate.Status }, "", connector.MandateCreated,
				connector.MandatePending, connector.MandateCancelled, "PAUSED"),
			each(func(f *Facts) *bool { return &f.Mandate.Link }, false, true),
			each(func(f *Facts) *Again { return &f.Mandate.Again }, AgainUnknown, AgainSame, AgainNew),
			{
				func(*Facts) {}, func(f *Facts) { f.Mandate.Seq, f.Words.Ask = early, early-1 },
				func(f *Facts) { f.Mandate.Seq, f.Words.Ask = early, early+1 },
				func(f *Facts) { f.Mandate.Seq, f.Words.Ask, f.Mandate.Asked = early, early+1, early+2 },
				func(f *Facts) { f.Words.Leave = early },
				func(f *Facts) { f.Words.LetBe = early },
				func(f *Facts) { f.Mandate.Seq, f.Words.LetBe, f.Words.Ask = early, early, early+1 },
			},
			{func(*Facts) {}, func(f *Facts) { f.Mandate.Refused = early }, func(f *Facts) { f.Mandate.Rest = true },
				func(f *Facts) { f.Mandate.Refused, f.Words.Retry = early, early+1 }},
			each(func(f *Facts) *bool { return &f.Mandate.Approved }, false, true),
		},
	}
}

// stride is odd, so that it meets every value of every dimension.
const stride = scale | 1

func TestEveryCombinationOfFactsHasOneLine(t *testing.T) {
	longtest.Story(t, longtest.Computing)
	t.Parallel()
	reached := map[string]map[string]int{}
	for name := range domains() {
		reached[name] = map[string]int{}
	}
	t.Run("domains", func(t *testing.T) {
		for name, dimensions := range domains() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				seen := 0
				n := walk(dimensions, func(f *Facts) {
					if seen++; seen%stride != 0 {
						return
					}
					o := Decide(*f)
					reached[name][o.Customer.Line]++
					reached[name][o.Mandate.Line]++
					if problem := unlawful(f, o); problem != "" {
						t.Fatalf("%s:\n%+v", problem, *f)
					}
				})
				t.Logf("%d combinations, one in %d of them decided on", n, stride)
			})
		}
	})
	for _, l := range slices.Concat(customers, mandates) {
		n := 0
		for _, lines := range reached {
			n += lines[l.name]
		}
		if n == 0 {
			t.Errorf("the line %q is never taken", l.name)
		}
	}
}

// unlawful says which law the decision on the facts breaks, in words of its own.
func unlawful(f *Facts, o Outcome) string {
	customer, mandate, next, class := o.Customer, o.Mandate, o.next(), o.Class
	claims := f.Record.Usability == Included && f.Record.Key == f.Key
	read := f.Look.Now && f.Look.Shows == Ours && f.Look.Seq > f.Doubt.Since
	creating := slices.ContainsFunc(f.Attempts,
		func(a Attempt) bool { return a.Action == connector.ActionCreate && a.Open(f.Index.Since) })
	if customer.Line == unforeseen.name || mandate.Line == unforeseen.name {
		return "no line fits"
	}
	switch customer.Do {
	case Create:
		if !claims || f.Link.Customer != "" || f.Holders != Nobody || f.Rival != NoRival || f.Index.Since <= f.Doubt.Over ||
			f.Index.Since == 0 || !f.Index.Now ||
			f.Doubt.Since != 0 && f.Doubt.Over == 0 || creating || f.Approved.Action != connector.ActionCreate ||
			(f.Alike || f.AlikeLeft || f.AlikeTwice) && f.Words.Create == 0 {
			return "a customer is made that must not be"
		}
		for _, a := range f.Others {
			if a.Open(f.Index.Since) {
				return "a customer is made while another payer's may arrive"
			}
		}
	case Replay:
		if !claims || f.Link.Customer != "" || f.Holders != Nobody || !f.Index.Now || !creating || customer.Attempt == 0 ||
			f.Doubt.Since >= customer.Attempt {
			return "a create is replayed that must not be"
		}
	case Update:
		if !claims || customer.Customer != f.Link.Customer || !read || f.Holders == Several || f.Rival == RivalRecord ||
			f.Look.Holds == f.Record.Hash {
			return "a customer is updated that must not be"
		}
	case Adopt:
		if f.Link.Customer != "" || f.Holders != Free || !f.Look.Now || f.Look.Shows != Ours || !creating &&
			(!claims || !f.Index.Now || f.Rival != NoRival || f.Look.Disputed && f.Words.Adopt == 0) {
			return "a customer is adopted that must not be"
		}
	case Tell:
		if customer.Reason == "" {
			return "a person is told nothing"
		}
	}
	if unlinking := f.Words.Unlink != 0 &&
		f.Link.Customer != ""; unlinking != (customer.Line == "unlink" || strings.HasPrefix(customer.Line, "unlink, ")) {
		return "a customer is let go that must not be, or not that must be"
	} else if unlinking {
		return releases(f, customer, mandate)
	}
	if mandate.Do == AskLink {
		word := f.Words.Ask > f.Mandate.Seq && f.Words.Ask > f.Mandate.Asked
		if !read || !word && (!claims || !f.Record.Mandate || !f.Mandate.Approved || f.Mandate.Status != "" &&
			(f.Mandate.Status != connector.MandateCreated || f.Mandate.Again != AgainSame)) {
			return "a link is asked for that must not be"
		}
		if slices.ContainsFunc(f.Attempts,
			func(a Attempt) bool { return a.Action == connector.ActionLink && a.Open(f.Look.Seq) }) {
			return "a link is asked for while an earlier request may arrive"
		}
	}
	working := customer.works() || mandate.works() || customer.Do == Wait || mandate.Do == Wait
	if working != (class == Working) || next.works() != (customer.works() || mandate.works()) {
		return "the class " + string(class) + " does not go with the step " + next.Line
	}
	told := o.Findings
	if (customer.Do == Tell || mandate.Do == Tell) && len(told) == 0 {
		return "a person is not told"
	}
	return cmp.Or(leaves(f, told), closes(f, o, told))
}

// closes returns the broken law about a person's decisions. Nothing is sent or reported for a mandate left as
// it is, unless a person requests it or a request may arrive. A given-up record has a finding only if its
// values changed, and nothing else happens.
func closes(f *Facts, o Outcome, told []Finding) string {
	if f.Words.LetBe != 0 && f.Link.Customer != "" && o.holding&(asked|asking) == 0 {
		if o.Mandate.Do != Nothing || slices.ContainsFunc(told, func(n Finding) bool { return n.Lane == LaneMandate }) {
			return "of a mandate that is let be, something is done or told"
		}
	}
	open := f.Link.Customer == "" && o.holding&creating != 0
	if f.Record.Anew && !open && (len(told) == 0 || o.Customer.Do != Tell) {
		return "a record that was given up is another by now, and nobody is told"
	}
	return ""
}

// releases returns the broken law of unlinked customers: nothing else is sent, and none of our requests may
// still arrive.
func releases(f *Facts, customer, mandate Step) string {
	switch {
	case mandate.Do != Nothing || customer.Do != Unlink && customer.Do.Sends():
		return "something else is sent to a customer that is let go"
	case customer.Do != Unlink:
		return ""
	case !f.Look.Now || f.Look.Shows == Unseen || f.Look.Shows == NotYet || !f.Approved.Unlinks ||
		f.Approved.Customer != f.Link.Customer:
		return "a customer is let go that nobody looked at, or that no plan showed"
	case f.Doubt.Since != 0 && (f.Doubt.Over == 0 || f.Look.Seq <= f.Doubt.Over):
		return "a customer is let go while requests from before a restore may arrive"
	}
	for _, a := range f.Attempts {
		if a.Answered == 0 && (a.Over == 0 || f.seen(a) <= a.Over) {
			return "a customer is let go while a request may arrive"
		}
	}
	return ""
}

// leaves returns the broken law of removed records: a living mandate has one finding, unless a person accepts
// it, and nothing is sent by itself.
func leaves(f *Facts, told []Finding) string {
	out := f.Record.Usability != Included && f.Record.Usability != Unfit
	alive := f.Mandate.Status != "" && f.Mandate.Status != connector.MandateCancelled
	n := 0
	for _, notice := range told {
		if notice.Reason == connector.ReasonLeftWithMandate || notice.Reason == connector.ReasonRecordGone {
			n++
		}
		if out && notice.Reason == connector.ReasonMandateCancelled {
			return "of a payer who has left, it is told that the mandate is cancelled"
		}
	}
	switch {
	case n > 1:
		return "that a payer has left is told more than once"
	case n > 0 && (!out || f.Link.Customer == "" || f.Words.Leave != 0):
		return "it is told of a payer's leaving that must not be"
	case n == 0 && out && alive && f.Link.Customer != "" && f.Words.Leave == 0 && f.Look.Shows != Missing:
		return "a payer has left with a mandate, and nobody is told"
	}
	return ""
}

func TestEveryReasonOfATableIsExplained(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, l := range slices.Concat(customers, mandates) {
		if _, known := connector.Reasons[l.reason]; l.reason != "" && !known {
			t.Errorf("the line %q tells %q, which nobody has explained", l.name, l.reason)
		}
		if names[l.name] {
			t.Errorf("two lines are called %q", l.name)
		}
		names[l.name] = true
	}
}

func TestOfNothingKnownNothingFollows(t *testing.T) {
	t.Parallel()
	var f Facts
	o := Decide(f)
	if s := o.next(); s.Do != Nothing {
		t.Errorf("the next step is %s", s.Do)
	}
	if o.Class != Out || o.Findings != nil {
		t.Errorf("it is %s, and a person is told %v", o.Class, o.Findings)
	}
}

// A colleague changed a customer right after its create, and a read showed it before the ledger was lost. After the
// restore, the change is still the colleague's: it must not be overwritten without a word.
func TestAChangeByOthersSeenBeforeARestoreIsStillToldAfterIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		since int64 // ticket of the first read that showed the change
		want  Do
	}{
		{"seen before the restore", beforeRestore, Tell},
		{"seen after it", early, Update}, // a lost request of ours may have made it
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			next := Decide(Facts{
				Key: "K", Record: Record{Usability: Included, Key: "K", Hash: "wanted"}, Holders: Own, Holder: "c",
				Link:     Link{Customer: "c", Answered: "wanted", AnsweredAt: beforeRestore - 1},
				Doubt:    Doubt{Since: restoredAt, Over: early},
				Look:     Look{Seq: lateLook, Shows: Ours, Since: tt.since, Now: true},
				Approved: Intent{Action: connector.ActionUpdate, Customer: "c", Hash: "wanted"},
			})
			if next.Customer.Do != tt.want {
				t.Errorf("next: %+v, want %s", next.Customer, tt.want)
			}
		})
	}
}
