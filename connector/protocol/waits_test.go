package protocol

import (
	"slices"
	"strings"
	"testing"

	"payersync/connector"
)

// waits says how a finding ends by itself. change is a passing time or a read, without any person.
type waits struct {
	facts  Facts
	change func(*Facts)
}

// wishing is a record that wants a customer and a mandate.
func wishing() Record { return Record{Usability: Included, Key: "K", Hash: "wanted", Mandate: true} }

// byItself holds every reason: with what ends it, or with nothing where somebody has to act.
var byItself = map[connector.Reason][]waits{
	connector.ReasonOutcomeUnknown: {
		{Facts{Key: "K", Record: wishing(), Index: Index{Since: 5, Now: true},
			Attempts: []Attempt{{Seq: 7, Action: connector.ActionCreate, Rest: true}}},
			func(f *Facts) { f.Attempts[0].Over = 9 }},
		{inOrderFacts(func(f *Facts) { f.Mandate.Rest = true }), func(f *Facts) { f.Mandate.Rest = false }},
		{inOrderFacts(func(f *Facts) {
			f.Mandate = Mandate{Status: connector.MandateCreated, Again: AgainSame, Rest: true, Approved: true}
		}), func(f *Facts) { f.Mandate.Rest = false }},
		{inOrderFacts(func(f *Facts) { f.Attempts = []Attempt{{Seq: 30, Action: connector.ActionLink, Customer: "c1"}} }),
			func(f *Facts) { f.Attempts[0].Over, f.Look.Seq = 31, 32 }},
	},
	connector.ReasonKeyUnsettled: {{
		Facts{Key: "K", Record: wishing(), Index: Index{Since: 5, Now: true}, Holders: Free, Holder: "c1",
			Look: Look{Seq: 6, Shows: NoKey, Now: true}},
		func(f *Facts) { f.Holders, f.Holder = Nobody, "" },
	}},
	connector.ReasonKeyUnderWay: {{
		Facts{Key: "K", Record: wishing(), Index: Index{Since: 5, Now: true},
			Others: []Attempt{{Seq: 7, Action: connector.ActionCreate}}},
		func(f *Facts) { f.Others[0].Over, f.Index.Since = 8, 9 },
	}},

	connector.ReasonRecordUnreadable: nil, connector.ReasonMappingFailed: nil, connector.ReasonKeyBlank: nil,
	connector.ReasonKeyShared:  nil,
	connector.ReasonKeyChanged: nil, connector.ReasonNameMissing: nil, connector.ReasonEmailMalformed: nil,
	connector.ReasonTooManyAddresses: nil,
	connector.ReasonTwoPrimary:       nil, connector.ReasonIllegalText: nil, connector.ReasonLikeness: nil,
	connector.ReasonRenumbered:   nil,
	connector.ReasonEnteredTwice: nil, connector.ReasonDuplicateCustomer: nil, connector.ReasonKeyDoubled: nil,
	connector.ReasonKeyRemoved: nil, connector.ReasonOtherKey: nil,
	connector.ReasonKeyDisputed: nil, connector.ReasonUnlinked: nil, connector.ReasonAnswerMismatch: nil,
	connector.ReasonCustomerMissing: nil,
	connector.ReasonRejected:        nil, connector.ReasonNoAnswer: nil, connector.ReasonForeignChange: nil,
	connector.ReasonLinkLost:    nil,
	connector.ReasonLinkRefused: nil, connector.ReasonMandateCancelled: nil, connector.ReasonStatusUnknown: nil,
	connector.ReasonRecordGone:      nil,
	connector.ReasonLeftWithMandate: nil, connector.ReasonForgotten: nil, connector.ReasonAddressBounced: nil,
	connector.ReasonEventNotUnderstood: nil,
	connector.ReasonTwoWay:             nil, connector.ReasonSubscriptionChanged: nil, connector.ReasonGivenUpChanged: nil,
}

// inOrderFacts are the facts of a linked payer with an up-to-date customer and no mandate requested yet.
func inOrderFacts(set func(*Facts)) Facts {
	f := Facts{
		Key: "K", Record: wishing(), Link: Link{Customer: "c1", Confirmed: "wanted", ConfirmedAt: 20}, Holders: Own,
		Holder: "c1",
		Look:   Look{Seq: 20, Shows: Ours, Holds: "wanted", Now: true}, Index: Index{Since: 5, Now: true},
		Mandate: Mandate{Approved: true},
	}
	set(&f)
	return f
}

// endsByItself reports whether people are told that nobody must act.
func endsByItself(r connector.Reason) bool {
	return r.Who() == connector.WhoNobody || strings.HasPrefix(r.Next(), "Nothing:")
}

// covers F240, F242
func TestWhateverSaysThatNobodyMustActEndsByTimeOrARead(t *testing.T) {
	t.Parallel()
	for r := range connector.Reasons {
		t.Run(string(r), func(t *testing.T) {
			t.Parallel()
			ways, entered := byItself[r]
			switch {
			case !entered:
				t.Fatal("nobody has said what ends this reason: add it to byItself")
			case endsByItself(r) != (ways != nil):
				t.Fatalf("people are told that %q must act, and %q; it has %d ways to end by itself", r.Who(), r.Next(), len(ways))
			}
			for i, w := range ways {
				before := Decide(w.facts)
				if !slices.ContainsFunc(before.Findings, func(n Finding) bool { return n.Reason == r }) {
					t.Errorf("way %d tells %v, not %s", i, before.Findings, r)
				}
				if class := before.Class; class != Working {
					t.Errorf("way %d counts as %s, want working: a run that leaves it is not complete", i, class)
				}
				w.change(&w.facts)
				if after := Decide(w.facts); after.Customer.Line == before.Customer.Line &&
					after.Mandate.Line == before.Mandate.Line {
					t.Errorf("way %d: neither time nor a read moves %q and %q on", i, before.Customer.Line, before.Mandate.Line)
				}
			}
		})
	}
	for _, l := range slices.Concat(customers, mandates) {
		if l.do == Tell && l.reason != "" && endsByItself(l.reason) {
			t.Errorf("the line %q leaves the payer to a person, who is told that nobody must act", l.name)
		}
	}
}
