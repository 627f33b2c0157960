package state

import (
	"payersync/connector"
	"payersync/connector/protocol"
)

// PlanFacts are the facts about a record that only a plan knows. They follow from the mapping, or from a comparison
// with other records and customers. A plan stores them, so a later write decides by all facts.
type PlanFacts struct {
	unfit connector.Reason // why the record is unfit; "" for a record that fits
	hash  string           // of the wanted customer; "" for that of the newest change of the customer
	flags planFlags
}

// planFlags are yes-or-no facts, as source_records.plan_flags stores them.
type planFlags int64

// The flags.
const (
	flagAnew    planFlags = 1 << iota // Record.Anew
	flagRekeyed                       // the record has another key than its payer
	// a read must show the customer's new key first; the rival and the holders are those of the new key
	flagMoving
	flagRival // of a moving payer: another record has the new key
	// customers carry the key of a payer without a customer, or the new key of a moving payer
	flagHolders
	flagAlike      // Facts.Alike
	flagAlikeLeft  // Facts.AlikeLeft
	flagAlikeTwice // Facts.AlikeTwice
	flagWithheld   // the connection only links, so the change is withheld

	noPlan planFlags = -1 // the newest plan stored no facts
)

// FactsOfPlan returns the facts that a plan must store. moving reports whether the customer is to get another key.
func FactsOfPlan(f protocol.Facts, moving bool) PlanFacts {
	unlinked := f.Link.Customer == ""
	return PlanFacts{unfit: f.Record.Reason, hash: f.Record.Hash, flags: flagAnew.when(f.Record.Anew) |
		flagRekeyed.when(f.Record.Key != "" && f.Record.Key != f.Key) |
		flagMoving.when(moving) |
		flagRival.when(moving && f.Rival == protocol.RivalRecord) |
		flagHolders.when(moving && f.Holders == protocol.Several || unlinked && f.Holders != protocol.Nobody) |
		flagAlike.when(f.Alike) | flagAlikeLeft.when(f.AlikeLeft) | flagAlikeTwice.when(f.AlikeTwice)}
}

// when returns the flag if it holds, and none otherwise.
func (f planFlags) when(holds bool) planFlags {
	if holds {
		return f
	}
	return 0
}

// WithheldUpdates returns the facts, and adds that the connection only links customers and withholds updates.
func (p PlanFacts) WithheldUpdates() PlanFacts {
	p.flags |= flagWithheld
	return p
}

// has reports whether the flag is set.
func (f planFlags) has(flag planFlags) bool { return f != noPlan && f&flag != 0 }

// addTo completes facts of the ledger with those of the plan. standing is that of the record.
func (p PlanFacts) addTo(f *protocol.Facts, standing protocol.Usability, mandate bool) {
	f.Record = protocol.Record{Usability: standing, Hash: p.hash, Mandate: mandate, Anew: p.flags.has(flagAnew)}
	switch {
	case standing == protocol.Unfit:
		f.Record.Reason = p.unfit
	case p.flags.has(flagRekeyed):
		f.Record.Key = "another=key"
	default:
		f.Record.Key = f.Key
	}
	f.Alike, f.AlikeLeft, f.AlikeTwice = p.flags.has(flagAlike), p.flags.has(flagAlikeLeft), p.flags.has(flagAlikeTwice)
	if p.flags.has(flagMoving) {
		f.Rival = protocol.NoRival
		if p.flags.has(flagRival) {
			f.Rival = protocol.RivalRecord
		}
		if f.Link.Customer != "" && p.flags.has(flagHolders) {
			f.Holders = protocol.Several
		}
	}
}
