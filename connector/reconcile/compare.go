package reconcile

import (
	"payersync/connector"
	"payersync/state"
)

// compare returns what follows from an observation by what the ledger knows of the customer, and how the two differ.
func compare(k *state.Known) (news state.Reflection, seen Seen) {
	var carried connector.Key
	var held bool // it holds the values applied
	if k.Ours && k.Customer != nil {
		carried = connector.KeyIn(k.Customer.ExternalData, k.Key.Name)
		held = k.Applied != nil && holds(k.Applied, *k.Customer)
		if k.List != nil && k.Seen && otherwise(k, carried, held) {
			return state.Reflection{Otherwise: true}, Seen{Ours: true, Otherwise: true}
		}
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
		seen.Drifted = k.Applied != nil && !held
		compareLink(k, carried, &news)
		if k.Cause != connector.CauseCreate { // the service may answer from memory
			news.Held, news.Financial = compareHeld(k, held), k.Customer.Financial
		}
	}
	seen.Moved = compareMandate(k, &news)
	news.News = k.List != nil &&
		(seen.Moved || !k.Seen || k.LinkState != connector.LinkLinked || k.Shows != k.AppliedHash ||
			k.Mandate != nil && k.Mandate.ID != k.MandateID)
	return news, seen
}

// otherwise reports whether a list shows a customer of ours in another state than the ledger: its key, the values
// applied, or its mandate, except normal progress. A newly created customer has no other state yet.
func otherwise(k *state.Known, carried connector.Key, held bool) bool {
	switch {
	case !k.Alone, len(k.Customer.ExternalData) > 0 && carried != k.Key, k.Applied != nil && !held:
		return true
	case k.Mandate == nil || k.MandateID == "":
		return false
	}
	return k.Mandate.ID != k.MandateID || !k.Status.LeadsTo(k.Mandate.Status)
}

// compareLink compares the key that the customer carries with its payer's. An update of ours may have written the
// payer's future key. The link is confirmed if no other customer or payer may have the key. The answer to a create is
// no read: the service may answer from memory with a long deleted customer (fault F08).
func compareLink(k *state.Known, carried connector.Key, news *state.Reflection) {
	bare, ours := len(k.Customer.ExternalData) == 0, carried == k.Key
	awaited := ours && k.Moves.Value != "" &&
		(k.Next > 0 || connector.KeyIn(k.Customer.ExternalData, k.Moves.Name) == k.Moves)
	if news.Moved = k.Moved; k.Moved.Value != "" {
		ours = true
	}
	switch {
	case ours && (k.Cause == connector.CauseCreate || k.Seen && k.LinkState == connector.LinkLinked): // it was said before
	case ours && (k.Others > 0 || awaited): // the plan's finding about the keys stays
	case ours && k.Taken == 0:
		news.Confirmed = true
	case ours:
		news.Conflict = connector.ReasonOtherKey
	case k.Unlink.At != 0: // a person unlinked it
	case k.Young > 0 && !k.Seen && bare: // the service may fill it in later: not confirmed, not refuted
		news.Young = true
	case k.List != nil && bare: // a list may leave it out; only a read of the customer itself refutes a link
	case carried.Value != "":
		news.Conflict = connector.ReasonOtherKey
	default:
		news.Conflict = connector.ReasonKeyRemoved
	}
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
	// somebody has its link, or nobody: the next plan tells
	news.Unsigned = k.Status == "" && m.Status == connector.MandateCreated && m.URL == ""
	news.Explains = news.Changed || m.URL != "" || k.Cause == connector.CauseLink
	return moved
}

// agrees reports whether SaveAgreed stores all the news of a list about a customer: it is as the ledger knows it, or
// its link is confirmed for the first time. TestAPageIsObservedAsItsCustomersOneByOne compares SaveAgreed with
// Reflect.
func agrees(k *state.Known, news state.Reflection) bool {
	if !k.Ours || !k.Same || !k.Alone || k.Told || k.Unlink.At != 0 || k.Moves != (connector.Key{}) ||
		k.Shows != k.AppliedHash ||
		news.Otherwise || news.Young || news.Conflict != "" || k.Applied != nil && news.Held == nil {
		return false
	}
	settled := k.Seen && k.LinkState == connector.LinkLinked
	first := !k.Seen && news.Confirmed && k.LinkState == connector.LinkCreating && k.Applied != nil && k.Late &&
		k.Open == 0
	m := k.Mandate
	return (settled || first) && (m == nil || news.Mandate != nil && !news.Changed && !news.Explains &&
		m.FailureReason.IsZero() && (m.ServiceTime == "" || m.ServiceTime == k.ServiceTime) && !k.LinkApart)
}
