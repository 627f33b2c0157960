package reconcile

import (
	"slices"
	"strings"

	"payersync/connector"
	"payersync/state"
)

// compare returns what follows from an observation by what the ledger knows of the customer, and how the two differ.
func compare(k *state.Known) (news state.Reflection, seen Seen) {
	if k.Ours && k.List != nil && otherwise(k) {
		return state.Reflection{Otherwise: true}, Seen{Ours: true, Otherwise: true}
	}
	if k.Mandate != nil {
		m := *k.Mandate
		m.CustomerID = k.CustomerID
		news.Mandate = &m
	}
	switch {
	case k.Stale:
		return news, Seen{Stale: true, Overtaken: k.Overtaken}
	case !k.Ours:
		return news, Seen{}
	}
	if seen.Ours = true; k.Customer != nil {
		seen.Drifted = drifted(k.Payer, *k.Customer)
		compareLink(k, &news)
		news.Held = compareHeld(k)
		if k.Cause != connector.CauseCreate { // the service may answer from memory
			news.Financial = k.Customer.Financial
		}
	}
	seen.Moved = compareMandate(k, &news)
	news.News = k.List != nil && (seen.Moved || !k.Seen || k.LinkState != connector.LinkLinked || k.Shows != k.AppliedHash ||
		k.Mandate != nil && k.Mandate.ID != k.MandateID)
	return news, seen
}

// otherwise reports whether a list shows a customer of ours in another state than the ledger: its key, the values
// applied, or its mandate, except normal progress. A newly created customer has no other state yet.
func otherwise(k *state.Known) bool {
	carried := k.Customer.ExternalData
	switch {
	case !k.Seen:
		return false
	case !k.Alone, len(carried) > 0 && connector.KeyIn(carried, k.Key.Name) != k.Key, drifted(k.Payer, *k.Customer):
		return true
	case k.Mandate == nil || k.MandateID == "":
		return false
	}
	return k.Mandate.ID != k.MandateID || !k.Status.LeadsTo(k.Mandate.Status)
}

// compareLink compares the key that the customer carries with its payer's. An update of ours may have written the
// payer's future key.
func compareLink(k *state.Known, news *state.Reflection) {
	carried, next := connector.KeyIn(k.Customer.ExternalData, k.Key.Name), k.Moves
	ours := carried == k.Key
	if k.Moved.Value != "" {
		news.Moved, carried, next, ours = k.Moved, k.Moved, connector.Key{}, true
	}
	bare := len(k.Customer.ExternalData) == 0
	switch {
	case ours:
		compareHolders(k, next, news)
	case k.Unlink.At != 0: // a person unlinked it
	case k.Young && bare: // the service may fill it in later: not confirmed, not refuted
		news.Young = true
	case k.List != nil && bare: // a list may leave it out; only a read of the customer itself refutes a link
	case carried.Value != "":
		news.Conflict = connector.ReasonOtherKey
	default:
		news.Conflict = connector.ReasonKeyRemoved
	}
}

// compareHolders confirms the link to a customer that carries the key, if no other may have it. The answer to a create
// is no read: the service may answer from memory with a long deleted customer (fault F08).
func compareHolders(k *state.Known, next connector.Key, news *state.Reflection) {
	awaited := next.Value != "" && (k.Next || connector.KeyIn(k.Customer.ExternalData, next.Name) == next)
	switch {
	case k.Cause == connector.CauseCreate, k.Seen && k.LinkState == connector.LinkLinked: // it was said before
	case k.Others, awaited: // the plan's finding about the keys stays
	case k.Taken:
		news.Conflict = connector.ReasonOtherKey
	default:
		news.Confirmed = true
	}
}

// compareHeld compares our values with the customer's: those applied last, those of another update with an unknown time
// of effect, or neither. The answer to a create is not a read, and a list may be incomplete.
func compareHeld(k *state.Known) *state.HeldValues {
	values, applied := k.Applied, k.Applied != nil && holds(k.Applied, *k.Customer)
	if k.Cause == connector.CauseCreate || k.List != nil && !applied {
		return nil
	}
	held := &state.HeldValues{Applied: applied}
	if values == nil {
		return held
	}
	if !applied {
		if i := slices.IndexFunc(k.Sent, func(c connector.Customer) bool { return holds(&c, *k.Customer) }); i >= 0 {
			values, held.Instead = &k.Sent[i], true
		}
	}
	shown := values.WithIDs(k.Customer.People)
	held.Differs, held.Values = differences(values, *k.Customer), &shown
	return held
}

// compareMandate compares the mandate, and reports whether its status moved. A summary without an id could speak of any
// mandate and is not stored, but a person should know.
func compareMandate(k *state.Known, news *state.Reflection) (moved bool) {
	m := k.Mandate
	switch {
	case m == nil || m.Status == "":
		news.Mandate = nil
		return false
	case m.ID == "":
		news.Explains = true
		return false
	}
	moved = k.Status != m.Status
	news.Changed = moved || k.MandateID != m.ID
	news.Unsigned = k.Status == "" && m.Status == connector.MandateCreated && m.URL == "" // somebody has its link, or nobody: the next plan tells
	news.Explains = news.Changed || m.URL != "" || k.Cause == connector.CauseLink
	return moved
}

// agrees reports whether SaveAgreed stores all the news of a list about a customer: it is as the ledger knows it, or its
// link is confirmed for the first time.
func agrees(k *state.Known, news state.Reflection) bool {
	if !k.Ours || !k.Same || !k.Alone || k.Told || k.Unlink.At != 0 || k.Moves != (connector.Key{}) || k.Shows != k.AppliedHash ||
		news.Otherwise || news.Young || news.Conflict != "" || k.Applied != nil && news.Held == nil {
		return false
	}
	settled := k.Seen && k.LinkState == connector.LinkLinked
	first := !k.Seen && news.Confirmed && k.LinkState == connector.LinkCreating && k.Applied != nil && k.Late && !k.Open
	m := k.Mandate
	return (settled || first) && (m == nil || news.Mandate != nil && !news.Changed && !news.Explains &&
		m.FailureReason.IsZero() && (m.ServiceTime == "" || m.ServiceTime == k.ServiceTime) && !k.LinkApart)
}

// drifted reports whether a value applied by us is gone from the customer.
func drifted(p state.Payer, c connector.RemoteCustomer) bool {
	return p.Applied != nil && !holds(p.Applied, c)
}

// holds reports whether a customer shows all our values, in any form of the service. It ignores names of contacts,
// because the service may split them.
func holds(ours *connector.Customer, c connector.RemoteCustomer) bool {
	for _, person := range ours.People {
		if !shows(c.Emails, person.Email, strings.EqualFold) || !shows(c.Phones, person.Phone, connector.SameForm) {
			return false
		}
	}
	if !flagged(ours.People, c.People) {
		return false
	}
	for _, address := range ours.Addresses {
		if !slices.ContainsFunc(c.Addresses, func(a connector.Address) bool { return sameAddress(address, a) }) {
			return false
		}
	}
	for name, value := range ours.ExternalData {
		if len(c.ExternalData) > 0 && c.ExternalData[name] != value { // a list may leave them out
			return false
		}
	}
	return ours.Name == "" || connector.SameForm(ours.Name, c.Name) // blank: linked by a mapping without a rule for it
}

// flagged reports whether the contacts have our flags. It matches contacts by e-mail address. A flag not shown counts
// as equal.
func flagged(ours, shown []connector.Person) bool {
	differs := func(ours, shown string) bool { return ours != "" && shown != "" && ours != shown }
	for _, p := range ours {
		if p.Email != "" && slices.ContainsFunc(shown, func(s connector.Person) bool { return strings.EqualFold(s.Email, p.Email) }) &&
			!slices.ContainsFunc(shown, func(s connector.Person) bool {
				return strings.EqualFold(s.Email, p.Email) && !differs(p.Primary, s.Primary) && !differs(p.Communication, s.Communication)
			}) {
			return false
		}
	}
	return true
}

// sameAddress compares the contents of both spellings of an address; one has no country.
func sameAddress(ours, theirs connector.Address) bool {
	return connector.SameForm(ours.Line1, theirs.Line1) && connector.SameForm(ours.City, theirs.City) && connector.SameForm(ours.PostCode, theirs.PostCode)
}

func shows(list []string, text string, same func(a, b string) bool) bool {
	return text == "" || slices.ContainsFunc(list, func(shown string) bool { return same(shown, text) })
}
