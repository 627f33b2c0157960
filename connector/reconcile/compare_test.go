package reconcile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/state"
)

// knownOf is what the ledger knows of a customer that a read has shown as it was sent, and of its payer.
func knownOf(sourceID, billingID string) *state.Known {
	applied, customer := sent(sourceID), asSent(sourceID, billingID)
	key := connector.Key{Name: "no", Value: sourceID}
	return &state.Known{
		Observation: reconcile.OfCustomer(customer, 7, connector.CauseWebhook, "delivery"),
		Payer: state.Payer{Connection: "acme", SourceID: sourceID, Key: key, BillingID: billingID,
			LinkState: connector.LinkLinked, Seen: true,
			Applied: &applied, AppliedHash: applied.Hash(), Shows: applied.Hash(), MandateID: "m1"},
		Ours: true, Alone: true, Confirmed: true, Status: connector.MandateActive,
	}
}

// covers F08, F31, F32, F43, F49
func TestWhatFollowsFromAnObservation(t *testing.T) {
	t.Parallel()
	type news = state.Reflection
	held, other := &state.SubjectValues{Applied: true}, &state.SubjectValues{}
	mandate := func(status connector.MandateStatus) *connector.Mandate {
		return &connector.Mandate{ID: "m1", CustomerID: "c1", Status: status}
	}
	next := connector.Key{Name: "acct", Value: "9"}
	unconfirmed := func(k *state.Known) { k.Seen, k.LinkState = false, connector.LinkCreating }
	list := func(k *state.Known) { k.List = new(state.Listing) }
	show := func(c func(*connector.RemoteCustomer)) func(*state.Known) {
		return func(k *state.Known) { c(k.Customer) }
	}
	bare := show(func(c *connector.RemoteCustomer) { c.ExternalData = nil })
	otherKey := show(func(c *connector.RemoteCustomer) { c.ExternalData = map[string]string{"no": "B2"} })
	otherName := show(func(c *connector.RemoteCustomer) { c.Name = "Southwind" })
	shows := func(m *connector.Mandate) func(*state.Known) { return func(k *state.Known) { k.Mandate = m } }
	for name, tt := range map[string]struct {
		given []func(*state.Known)
		news  news
		seen  reconcile.Seen
	}{
		"nothing": {nil, news{Held: held}, reconcile.Seen{Ours: true}},
		"a stale read keeps its signing link only": {[]func(*state.Known){func(k *state.Known) {
			k.Stale,
				k.Overtaken = true, true
		}, otherName, shows(mandate("CREATED"))}, news{Mandate: mandate("CREATED")},
			reconcile.Seen{Stale: true, Overtaken: true}},
		"a customer that is nobody's": {[]func(*state.Known){func(k *state.Known) {
			k.Ours, k.Payer = false,
				state.Payer{}
		}}, news{}, reconcile.Seen{}},
		"the first read confirms the link": {[]func(*state.Known){unconfirmed}, news{Confirmed: true, Held: held},
			reconcile.Seen{Ours: true}},
		"the answer to a create is no read": {[]func(*state.Known){unconfirmed,
			func(k *state.Known) { k.Cause = connector.CauseCreate },
			show(func(c *connector.RemoteCustomer) { c.Financial = "GOOD" })}, news{}, reconcile.Seen{Ours: true}},
		"another customer carries the key": {[]func(*state.Known){unconfirmed,
			func(k *state.Known) { k.Others = 1 }}, news{Held: held}, reconcile.Seen{Ours: true}},
		"another payer is being created with the key": {[]func(*state.Known){unconfirmed,
			func(k *state.Known) { k.Taken = 1 }}, news{Conflict: connector.ReasonOtherKey, Held: held},
			reconcile.Seen{Ours: true}},
		"another customer carries the future key": {[]func(*state.Known){unconfirmed,
			func(k *state.Known) { k.Moves, k.Next = next, 1 }}, news{Held: held}, reconcile.Seen{Ours: true}},
		"the customer carries both keys": {[]func(*state.Known){unconfirmed,
			func(k *state.Known) { k.Moves = next; k.Customer.ExternalData["acct"] = "9" }}, news{Held: held},
			reconcile.Seen{Ours: true}},
		"an update of ours wrote the future key": {[]func(*state.Known){func(k *state.Known) {
			k.LinkState, k.Moves, k.Moved, k.Applied.ExternalData = connector.LinkConflict, next, next, next.Pairs()
			k.Customer.ExternalData = next.Pairs()
		}}, news{Moved: next, Confirmed: true, Held: held}, reconcile.Seen{Ours: true}},
		"another key": {[]func(*state.Known){otherKey},
			news{Conflict: connector.ReasonOtherKey, Held: other}, reconcile.Seen{Ours: true, Drifted: true}},
		"no key": {[]func(*state.Known){bare},
			news{Conflict: connector.ReasonKeyRemoved, Held: held}, reconcile.Seen{Ours: true}},
		"no key of a new customer": {[]func(*state.Known){unconfirmed, bare,
			func(k *state.Known) { k.Young = 1 }}, news{Young: true, Held: held}, reconcile.Seen{Ours: true}},
		"no key in a list": {[]func(*state.Known){bare, list}, news{Held: held},
			reconcile.Seen{Ours: true}},
		"no key after a person has unlinked it": {[]func(*state.Known){bare, func(k *state.Known) { k.Unlink.At = 3 }},
			news{Held: held}, reconcile.Seen{Ours: true}},
		"another name": {[]func(*state.Known){otherName}, news{Held: other},
			reconcile.Seen{Ours: true, Drifted: true}},
		"another name of an update with an unknown end": {[]func(*state.Known){otherName,
			func(k *state.Known) { c := sent("A1"); c.Name = "Southwind"; k.Sent = []connector.Customer{c} }},
			news{Held: &state.SubjectValues{Instead: true}}, reconcile.Seen{Ours: true, Drifted: true}},
		"another name in a list is read again": {[]func(*state.Known){otherName, list}, news{Otherwise: true},
			reconcile.Seen{Ours: true, Otherwise: true}},
		"somebody else with the key in a list": {[]func(*state.Known){list,
			func(k *state.Known) { k.Alone = false }}, news{Otherwise: true}, reconcile.Seen{Ours: true, Otherwise: true}},
		"a mandate that goes back in a list": {[]func(*state.Known){list, shows(mandate("CREATED"))},
			news{Otherwise: true}, reconcile.Seen{Ours: true, Otherwise: true}},
		"a mandate that went on in a list": {[]func(*state.Known){list, shows(mandate("CANCELLED"))},
			news{Held: held, Mandate: mandate("CANCELLED"), Changed: true, Explains: true, News: true},
			reconcile.Seen{Ours: true, Moved: true}},
		"a first sighting in a list": {[]func(*state.Known){list, unconfirmed},
			news{Confirmed: true, Held: held, News: true}, reconcile.Seen{Ours: true}},
		"the mandate as it is known": {[]func(*state.Known){shows(mandate("ACTIVE"))},
			news{Held: held, Mandate: mandate("ACTIVE")}, reconcile.Seen{Ours: true}},
		"a new mandate whose link nobody has": {[]func(*state.Known){shows(mandate("CREATED")),
			func(k *state.Known) { k.Status, k.MandateID = "", "" }},
			news{Held: held, Mandate: mandate("CREATED"), Changed: true, Explains: true, Unsigned: true},
			reconcile.Seen{Ours: true, Moved: true}},
		"a mandate without an id is told, and not kept": {[]func(*state.Known){shows(&connector.Mandate{Status: "ACTIVE"})},
			news{Held: held, Mandate: &connector.Mandate{CustomerID: "c1", Status: "ACTIVE"}, Explains: true},
			reconcile.Seen{Ours: true}},
		"a mandate without a status says nothing": {[]func(*state.Known){shows(&connector.Mandate{ID: "m1"})},
			news{Held: held}, reconcile.Seen{Ours: true}},
		"an answer with a mandate and no customer": {[]func(*state.Known){shows(mandate("ACTIVE")),
			func(k *state.Known) { k.Customer, k.Cause = nil, connector.CauseLink }},
			news{Mandate: mandate("ACTIVE"), Explains: true}, reconcile.Seen{Ours: true}},
		"a financial status": {[]func(*state.Known){show(func(c *connector.RemoteCustomer) { c.Financial = "GOOD" })},
			news{Held: held, Financial: "GOOD"}, reconcile.Seen{Ours: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := knownOf("A1", "c1")
			for _, given := range tt.given {
				given(k)
			}
			got, seen := reconcile.Compare(k)
			if diff := cmp.Diff(tt.news, got, cmpopts.IgnoreFields(state.SubjectValues{}, "Values", "Differs"),
				cmp.AllowUnexported(connector.Secret{})); diff != "" {
				t.Errorf("the news (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.seen, seen); diff != "" {
				t.Errorf("what was seen (-want +got):\n%s", diff)
			}
		})
	}
}
