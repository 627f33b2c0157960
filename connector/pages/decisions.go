package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// Decisions are deeds for a person's decision about a record. A page first shows the effect of each. They appear as
// ways out of findings; an undo appears as long as it is possible.

// decisions are these deeds.
var decisions = []deed{
	decision(connector.ActTakeOver, "take-over", ""),
	decision(connector.ActReject, "reject", ""),
	decision(connector.ActRekey, "rekey", ""),
	decision(connector.ActUnlink, "unlink", "Not this payer's customer…"),
	decision(connector.ActTellApart, "two-payers", ""),
	decision(connector.ActMerge, "merge", "One payer: merge the records…"),
	decision(connector.ActAdopt, "adopt", ""),
	decision(connector.ActLink, "link-customer", "Link another customer…"),
	decision(connector.ActTakeTheirs, "take-theirs", ""),
	decision(connector.ActSendOurs, "send-ours", ""),
	decision(connector.ActIgnore, "ignore", ""),
	decision(connector.ActUnforget, "unforget", "Another payer, or back again…"),
	decision(connector.ActForget, "forget", ""),

	decision(connector.ActKeep, "keep", ""),
	decision(connector.ActSeparate, "separate", ""),
	decision(connector.ActTakeBack, "take-back", ""),
}

// decision returns the deed of a decision. Most decisions read the customer.
func decision(act connector.Act, name, label string) deed {
	return deed{act: act, name: name, label: label, sends: true, asks: always,
		may: func(s shownPayer) bool { return len(s.decisionsFor(act)) > 0 }}
}

// isDecision reports whether a deed is one of the decisions.
func isDecision(d deed) bool {
	return slices.ContainsFunc(decisions, func(of deed) bool { return of.name == d.name })
}

// deedFor returns the deed of an act; nil for none.
func deedFor(act connector.Act) *deed {
	if i := slices.IndexFunc(deeds, func(d deed) bool { return d.act == act }); i >= 0 && act != "" {
		return &deeds[i]
	}
	return nil
}

// decisionsFor returns the decisions possible now with an act. A decision may lack its customer or record; the person
// then supplies it.
func (s shownPayer) decisionsFor(act connector.Act) (out []admin.Decision) {
	id := s.id()
	for _, t := range s.Matter.Told {
		for _, w := range t.Ways {
			if w.Decision.Act == act && w.Decision.Record == id {
				out = append(out, w.Decision)
			}
		}
	}
	if d := s.notTheHolder(); act == connector.ActReject && d.Customer != "" {
		out = append(out, d)
	}
	for _, n := range s.Noted {
		if n.Undo.Act == act {
			out = append(out, n.Undo)
		}
	}
	return out
}

// notTheHolder returns the decision to reject the customer with the payer's number while it is in dispute. Otherwise it
// names no customer.
func (s shownPayer) notTheHolder() admin.Decision {
	if !slices.ContainsFunc(s.Matter.Told,
		func(t admin.Telling) bool { return t.Reason == connector.ReasonKeyDisputed }) {
		return admin.Decision{}
	}
	return admin.Decision{Act: connector.ActReject, Record: s.id(), Customer: s.Matter.Holder}
}

// noted is a person's decision on a payer, not executed by a run yet.
type noted struct {
	Says string         // in words
	Undo admin.Decision // to take it back; without an act if that is impossible
	Ends bool           // it settles the finding, so no other way out is offered
}

// notedOf returns the decisions on a payer not executed yet.
func notedOf(stored state.StoredRecord, m admin.Matter) (out []noted) {
	id := state.RecordID{Connection: m.Connection, SourceID: m.SourceID}
	p := stored.Payer
	if stored.Merged {
		waits := slices.ContainsFunc(m.Told, func(t admin.Telling) bool { // no run has processed it yet
			return slices.ContainsFunc(t.Reason.Ways(), func(w connector.Way) bool { return w.Act == connector.ActMerge })
		})
		out = append(out, noted{"It is the same payer as " + stored.Record.MergedInto + ", which stands for both.",
			admin.Decision{Act: connector.ActSeparate, Record: id,
				Other: state.RecordID{Connection: id.Connection, SourceID: stored.Record.MergedInto}}, waits})
	}
	if p != nil && p.Unlink.At != 0 {
		out = append(out, noted{"The customer does not belong to this payer.",
			admin.Decision{Act: connector.ActKeep, Record: id, Customer: p.BillingID}, true})
	}
	if p != nil && p.Moves.Value != "" {
		out = append(out, noted{"The customer gets the record's new number.", admin.Decision{}, true})
	}
	for _, c := range m.Seconds {
		out = append(out, noted{"The customer " + c + " there is another payer's.",
			admin.Decision{Act: connector.ActTakeBack, Record: id, Customer: c}, false})
	}
	if p != nil && p.BillingID != "" {
		return out
	}
	for _, w := range m.Said {
		undo := admin.Decision{Act: connector.ActTakeBack, Record: id, Customer: w.BillingID}
		switch {
		case w.Word == state.WordAccept:
			out = append(out, noted{"The payer is the customer " + w.BillingID + ".", undo, true})
		case w.Word == state.WordReject && w.Reason == connector.ReasonUnlinked: // reverting its replacement restores it
		case w.Word == state.WordReject:
			out = append(out, noted{"The payer is not the customer " + w.BillingID + ".", undo, false})
		}
	}
	return out
}

// pathOf returns the address of a decision's question.
func pathOf(d admin.Decision) string {
	q := url.Values{}
	if d.Other != (state.RecordID{}) {
		q.Set("other", d.Other.Connection+"/"+d.Other.SourceID)
	}
	if d.Customer != "" {
		q.Set("customer", d.Customer)
	}
	at := payerPath(d.Record) + "/" + deedFor(d.Act).name
	if len(q) > 0 {
		at += "?" + q.Encode()
	}
	return at
}

// partWords are the parts of a customer, in words.
var partWords = map[string]string{"name": "Name", "people": "Contacts", "addresses": "Addresses"}

// errOpen means the person must still choose the customer or record.
var errOpen = errors.New("the address names no customer or record")

// decisionAsked returns the decision named by an address or a form, if the payer's page offers it.
func (v *visit) decisionAsked(act connector.Act, s shownPayer) (d admin.Decision, err error) {
	offered := s.decisionsFor(act)
	if len(offered) == 0 {
		return d, notAsItStands.at(s.Path)
	}
	d = admin.Decision{Act: act, Record: s.id(), Customer: v.filled("customer"), Parts: v.Form["part"]}
	if connection, id, ok := strings.Cut(v.filled("other"), "/"); ok {
		d.Other = state.RecordID{Connection: connection, SourceID: id}
	}
	if f := admin.Acts[act]; f.Asks(admin.InputRecord) && d.Other == (state.RecordID{}) ||
		f.Asks(admin.InputCustomer) && d.Customer == "" {
		return d, errOpen
	}
	for _, o := range offered {
		open := o.Other == (state.RecordID{}) && o.Customer == ""
		if o.Other == d.Other && o.Customer == d.Customer || open &&
			(d.Other == (state.RecordID{}) || d.Other.Connection == s.Connection) {
			// its values may be another connection's
			if open && d.Customer != "" && v.pages.limited && !slices.Contains(s.alike, d.Customer) {
				break
			}
			return d, nil
		}
	}
	return d, notAsItStands.at(s.Path)
}

// fingerprint reveals whether the effect of a decision changed since a person saw it.
func fingerprint(d admin.Decision, shown admin.Preview) string {
	d.Parts, d.Fields = nil, nil // chosen by the person in the form
	return seenOf(d, shown)
}

// seenOf returns the hash of facts that a person saw.
func seenOf(facts ...any) string {
	text, err := json.Marshal(facts)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// asked is a page's question before an act.
type asked struct {
	shownPayer
	admin.Preview
	Act           string
	Danger, Needs bool
	Change        int64
	Diff          []side

	Instead  []leads // possible alternatives
	Sides    []pairHalf
	Customer string
	Other    string // in the form: the connection and the id
	Seen     string
	Parts    []option
	Open     string  // "customer" or "other", where the person has yet to name it
	Choices  []leads // selectable ones
}

// addDecision adds the parties of an act to a page, with its changes in words.
func (v *visit) addDecision(a *asked, d admin.Decision, p admin.Proposal) (err error) {
	a.Customer, a.Seen = d.Customer, fingerprint(d, a.Preview)
	if d.Other != (state.RecordID{}) {
		a.Other = d.Other.Connection + "/" + d.Other.SourceID
		if a.Sides, err = v.pairHalves(d.Other, a.id()); err != nil {
			return err
		}
		if d.Act == connector.ActMerge && len(a.Sides) == 2 {
			a.Sides[0].Books, a.Sides[1].Books = "Stands for both", "Is excluded"
		}
	}
	if d.Act == connector.ActIgnore {
		a.Parts = append(a.Parts,
			connector.Map(p.DriftParts(), func(part string) option { return option{Value: part, Label: partWords[part]} })...)
	}
	for _, f := range a.Changes {
		a.Diff = append(a.Diff, side{Label: admin.FieldLabel(f.Path), Theirs: f.From, Ours: f.To})
	}
	if len(p.Successors) > 0 {
		a.Instead = v.insteadOf(a.shownPayer, d.Act)
	}
	return nil
}

// askOpen asks for the customer or record.
func (v *visit) askOpen(a *asked, act connector.Act) {
	if admin.Acts[act].Asks(admin.InputRecord) {
		a.Open = "other"
		return
	}
	a.Open = "customer"
	for _, c := range a.alike {
		a.Choices = append(a.Choices, leads{pathOf(admin.Decision{Act: act, Record: a.id(), Customer: c}), "Customer " + c})
	}
}

// telling is one finding in need of a person, with the buttons of its ways out.
type telling struct {
	Reason connector.Reason
	Detail string
	Cure   string
	Pairs  []pair
	Offers []offer
}

// ownLabels are the button labels for reasons with a special meaning of an act.
var ownLabels = map[connector.Reason]map[connector.Act]string{
	connector.ReasonUnlinked: {connector.ActReject: "Create a new customer…"},

	connector.ReasonLinkLost:       {connector.ActRequest: "Fetch the signing link"},
	connector.ReasonLinkRefused:    {connector.ActRequest: "Request the signing link again"},
	connector.ReasonGivenUpChanged: {connector.ActGiveUp: "Give it up again…"},
}

// tellings returns the findings about a payer, with the possible actions.
func (v *visit) tellings(s shownPayer) (out []telling, err error) {
	for i, t := range s.Matter.Told {
		shown := telling{Reason: t.Reason, Detail: t.Detail, Cure: t.Reason.Next()}
		if t.Reason == connector.ReasonRenumbered || t.Reason == connector.ReasonLeftWithMandate {
			if shown.Pairs, err = v.pairsOf(s.Matter.Renumberings); err != nil {
				return nil, err
			}
		}
		if v.User.Role.May(Operator) && v.pages.cfg.Attention != nil &&
			!slices.ContainsFunc(s.Noted, func(n noted) bool { return n.Ends }) {
			shown.Offers = v.waysOf(s, t, len(shown.Pairs) > 0)
		}
		if len(shown.Pairs) > 0 {
			shown.Cure = connector.ReasonRenumbered.Next()
		} else if i == 0 && len(shown.Offers) > 0 {
			shown.Offers[0].Primary = true
		}
		out = append(out, shown)
	}
	return out, nil
}

// waysOf returns the buttons of a finding's ways out. Buttons for both halves of a pair appear beside the pair.
func (v *visit) waysOf(s shownPayer, t admin.Telling, paired bool) (out []offer) {
	for _, w := range t.Ways {
		d := deedFor(w.Decision.Act)
		if t.Reason == connector.ReasonLikeness && w.Decision.Act != connector.ActGiveUp {
			o := offer{Label: "Compare and decide", At: matchPath(s.id()), Asks: true, Act: w.Decision.Act, Reason: t.Reason}
			if !slices.ContainsFunc(out, func(before offer) bool { return before.At == o.At }) && v.pages.cfg.Matches != nil {
				out = append(out, o)
			}
			continue
		}
		besides := w.Decision.Act == connector.ActTakeOver || w.Decision.Act == connector.ActReject ||
			w.Decision.Act == connector.ActClose
		if d == nil || paired && besides || !v.can(*d) || w.Decision.Record == s.id() && !d.may(s) {
			continue
		}
		o := d.button(s, s.Path+"/"+d.name)
		o.Reason = t.Reason
		if isDecision(*d) {
			o.At = pathOf(w.Decision)
		}
		if own := ownLabels[t.Reason][d.act]; own != "" {
			o.Label = own
		}
		out = append(out, o)
	}
	if d := s.notTheHolder(); t.Reason == connector.ReasonKeyDisputed && d.Customer != "" && v.can(*deedFor(d.Act)) {
		out = slices.Insert(out, min(1, len(out)),
			offer{Label: "Not this payer's customer…", At: pathOf(d), Asks: true, Act: d.Act, Reason: t.Reason})
	}
	return out
}

// undoOffers returns the buttons to undo decisions.
func (v *visit) undoOffers(s shownPayer) (out []offer) {
	for _, n := range s.Noted {
		if d := deedFor(n.Undo.Act); d != nil && v.can(*d) && v.pages.cfg.Attention != nil {
			out = append(out, d.button(s, pathOf(n.Undo)))
		}
	}
	return out
}
