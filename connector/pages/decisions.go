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
	"payersync/connector/office"
	"payersync/connector/syncer"
	"payersync/state"
)

// Decisions are deeds for a person's decision about a record. A page first shows the effect of each. They appear as
// ways out of findings; an undo appears as long as it is possible.

const (
	nothingNow = " The next run sends it: its plan lists the change, and the limits apply."
	notedNext  = "Saved. The next run sends it. Nothing was sent yet."
	notedOnly  = "Saved. Nothing was sent."
)

// decisions are these deeds.
var decisions = []deed{
	{act: connector.ActTakeOver, name: "take-over", label: "Same payer under a new number…", title: "Same payer under a new number", becomes: "The new record keeps the customer and the mandate, so the payer does not sign again. payersync writes the new number on the customer." + nothingNow},
	{act: connector.ActReject, name: "reject", label: "Two different payers…", title: "Two different payers", becomes: "The customer does not belong to this record. payersync creates a new one, unless there is another match." + nothingNow},
	{act: connector.ActRekey, name: "rekey", label: "Use the new number…", title: "Use the new number", becomes: "payersync writes the record's new number on the customer. The mandate stays." + nothingNow},
	{act: connector.ActUnlink, name: "unlink", label: "Not this payer's customer…", title: "Unlink the customer", becomes: "payersync removes our number from the customer. You then choose the right customer. A mandate stays with the old customer." + nothingNow},
	{act: connector.ActTellApart, name: "two-payers", label: "Two payers…", title: "Two payers", becomes: "The two records are two payers. payersync creates a separate customer for this one." + nothingNow},
	{act: connector.ActMerge, name: "merge", label: "One payer: merge the records…", title: "One payer", becomes: "The two records are one payer. This one is excluded, and the other stands for both. If only this one has a customer, it moves to the other with its mandate." + nothingNow},
	{act: connector.ActAdopt, name: "adopt", label: "Link this customer…", title: "Link this customer", becomes: "The customer with this number belongs to the payer, although its details differ. payersync writes the record's values on it." + nothingNow},
	{act: connector.ActLink, name: "link-customer", label: "Link another customer…", title: "Link a customer", becomes: "The customer belongs to the payer. payersync links it, and writes the record's values on it." + nothingNow},
	{act: connector.ActTakeTheirs, name: "take-theirs", label: "Keep their value…", title: "Keep their value", becomes: "The customer keeps these values until the record's values change. Nothing is sent."},
	{act: connector.ActSendOurs, name: "send-ours", label: "Send our value…", title: "Send our value", becomes: "payersync writes the record's values on the customer again." + nothingNow},
	{act: connector.ActIgnore, name: "ignore", label: "Leave a field to the billing service…", title: "Leave a field to the billing service", becomes: "payersync no longer writes these fields of the customer. “Send our value” takes that back."},
	{act: connector.ActUnforget, name: "unforget", label: "Another payer, or back again…", title: "Not the forgotten payer", becomes: "The record is another payer, or the payer is back. The next run reads it again."},
	{act: connector.ActForget, name: "forget", label: "The forgotten payer…", title: "The forgotten payer", danger: true, becomes: "The record is excluded, and payersync stores none of its data. Nothing is sent. Do not write a name into the reason."},

	{act: connector.ActKeep, name: "keep", label: "Keep the customer…", title: "Keep the customer", becomes: "The payer keeps the customer. Nothing is sent."},
	{act: connector.ActSeparate, name: "separate", label: "Separate the records…", title: "Separate the records", becomes: "The record is a separate payer again. A customer that has moved stays with the other record." + nothingNow},
	{act: connector.ActTakeBack, name: "take-back", label: "Take the decision back…", title: "Take the decision back", becomes: "The decision about this payer and customer no longer applies. It has not led to a request yet."},
}

// init sets the common parts of the decisions, and adds them to the other deeds.
func init() {
	for i := range decisions {
		d := &decisions[i]
		act := d.act
		d.sends = true // most read the customer
		d.reason, d.asks = always, always
		d.may = func(s shownPayer) bool { return len(s.decisionsFor(act)) > 0 }
		d.do = func(v *visit, s shownPayer, by operator) (string, error) { return v.decide(act, s, by) }
	}
	deeds = append(deeds, decisions...)
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
func (s shownPayer) decisionsFor(act connector.Act) (out []office.Decision) {
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
func (s shownPayer) notTheHolder() office.Decision {
	if !slices.ContainsFunc(s.Matter.Told, func(t office.Telling) bool { return t.Reason == connector.ReasonKeyDisputed }) {
		return office.Decision{}
	}
	return office.Decision{Act: connector.ActReject, Record: s.id(), Customer: s.Matter.Holder}
}

// noted is a person's decision on a payer, not executed by a run yet.
type noted struct {
	Says string          // in words
	Undo office.Decision // to take it back; without an act if that is impossible
	Ends bool            // it settles the finding, so no other way out is offered
}

// notedOf returns the decisions on a payer not executed yet.
func notedOf(stored state.StoredRecord, m office.Matter) (out []noted) {
	id := state.RecordID{Connection: m.Connection, SourceID: m.SourceID}
	p := stored.Payer
	if stored.Merged {
		waits := slices.ContainsFunc(m.Told, func(t office.Telling) bool { // no run has processed it yet
			return slices.ContainsFunc(t.Reason.Ways(), func(w connector.Way) bool { return w.Act == connector.ActMerge })
		})
		out = append(out, noted{"It is the same payer as " + stored.Record.MergedInto + ", which stands for both.",
			office.Decision{Act: connector.ActSeparate, Record: id, Other: state.RecordID{Connection: id.Connection, SourceID: stored.Record.MergedInto}}, waits})
	}
	if p != nil && p.Unlink.At != 0 {
		out = append(out, noted{"The customer does not belong to this payer.", office.Decision{Act: connector.ActKeep, Record: id, Customer: p.BillingID}, true})
	}
	if p != nil && p.Moves.Value != "" {
		out = append(out, noted{"The customer gets the record's new number.", office.Decision{}, true})
	}
	for _, c := range m.Seconds {
		out = append(out, noted{"The customer " + c + " there is another payer's.", office.Decision{Act: connector.ActTakeBack, Record: id, Customer: c}, false})
	}
	if p != nil && p.BillingID != "" {
		return out
	}
	for _, w := range m.Said {
		undo := office.Decision{Act: connector.ActTakeBack, Record: id, Customer: w.BillingID}
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
func pathOf(d office.Decision) string {
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
func (v *visit) decisionAsked(act connector.Act, s shownPayer) (d office.Decision, err error) {
	offered := s.decisionsFor(act)
	if len(offered) == 0 {
		return d, notAsItStands.at(s.Path)
	}
	d = office.Decision{Act: act, Record: s.id(), Customer: v.filled("customer"), Parts: v.Form["part"]}
	if connection, id, ok := strings.Cut(v.filled("other"), "/"); ok {
		d.Other = state.RecordID{Connection: connection, SourceID: id}
	}
	switch namesRecord, namesCustomer := takes(act); {
	case namesRecord && d.Other == (state.RecordID{}), namesCustomer && d.Customer == "":
		return d, errOpen
	}
	for _, o := range offered {
		open := o.Other == (state.RecordID{}) && o.Customer == ""
		if o.Other == d.Other && o.Customer == d.Customer || open && (d.Other == (state.RecordID{}) || d.Other.Connection == s.Connection) {
			if open && d.Customer != "" && v.pages.limited && !slices.Contains(s.alike, d.Customer) { // its values may be another connection's
				break
			}
			return d, nil
		}
	}
	return d, notAsItStands.at(s.Path)
}

// takes reports whether an act names another record, or a customer.
func takes(act connector.Act) (record, customer bool) {
	switch act {
	case connector.ActTakeOver:
		return true, false
	case connector.ActMerge, connector.ActTellApart:
		return true, false
	case connector.ActReject, connector.ActLink, connector.ActTakeBack:
		return false, true
	}
	return false, false
}

// decide notes a decision as a person was shown it.
func (v *visit) decide(act connector.Act, s shownPayer, by operator) (string, error) {
	d, err := v.decisionAsked(act, s)
	if errors.Is(err, errOpen) {
		err = errNothingDone("The form names no customer and no record.", "Go back, and name the customer or the record.")
	}
	if err != nil {
		return "", err
	}
	if act == connector.ActIgnore && len(d.Parts) == 0 {
		return "", errNothingDone("No field was selected.", "Go back, and select the fields to leave to the billing service.")
	}
	p, err := v.pages.cfg.Attention.Propose(v.Context(), d)
	if err != nil {
		return "", err
	}
	if v.PostForm.Get("seen") != fingerprint(p) {
		return "", changedMeanwhile.at(s.Path)
	}
	words := notedWords(act)
	if s.rejectsSecond(act) {
		words = notedOnly
	}
	return words, p.Note(v.Context(), by)
}

// rejectsSecond reports whether an act concerns a second customer of a linked payer.
func (s shownPayer) rejectsSecond(act connector.Act) bool {
	return act == connector.ActReject && s.Matter.BillingID != ""
}

// notedWords describes the result.
func notedWords(act connector.Act) string {
	switch act {
	case connector.ActTakeTheirs, connector.ActIgnore, connector.ActForget, connector.ActKeep, connector.ActTakeBack:
		return notedOnly
	}
	return notedNext
}

// fingerprint reveals whether a proposal changed since a person saw it.
func fingerprint(p office.Proposal) string {
	d := p.Decision
	d.Parts, d.Fields = nil, nil // chosen by the person in the form
	text, err := json.Marshal([]any{d, p.Diff(), proposalNotes(p)})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// proposalNotes lists facts to know before a decision, in addition to the changed fields.
func proposalNotes(p office.Proposal) (notes []string) {
	elsewise := func(m *syncer.Move) {
		if len(m.Elsewise) > 0 {
			notes = append(notes, "The customer "+strings.Join(m.Elsewise, " and ")+" already has that number. The payer is on hold until that changes.")
		}
		if m.Mandate != "" {
			notes = append(notes, "Its mandate stays with it: "+m.Mandate.Label()+".")
		}
	}
	switch {
	case p.Move != nil:
		elsewise(p.Move)
	case p.Merge != nil && p.Merge.Move != nil:
		elsewise(p.Merge.Move)
	case p.Merge != nil && p.Merge.Payer != nil && p.Merge.Payer.BillingID != "":
		notes = append(notes, "Its customer stays in the billing service. payersync no longer changes it.")
		if m := p.Merge.Mandate; m != "" && m != connector.MandateCancelled {
			notes = append(notes, "So does its mandate: "+m.Label()+". Cancel it if the payer has another.")
		}
	case p.Unlink != nil:
		if p.Unlink.Missing {
			notes = append(notes, "The customer no longer exists in the billing service.")
		}
		if p.Unlink.Mandate != "" {
			notes = append(notes, "Its mandate stays with the customer: "+p.Unlink.Mandate.Label()+". If this payer gave it, cancel it first.")
		}
	case p.Holder != nil && len(p.Holder.Against) > 0:
		notes = append(notes, "The two differ: "+strings.Join(p.Holder.Against, ", ")+".")
	case p.Drift != nil && len(p.Drift.Fields) == 0:
		notes = append(notes, "The customer has our values again.")
	case p.Forget != nil:
		notes = append(notes, "payersync erases the record, its texts in lists, and its hashes for matches. Ids, statuses, times and the audit log stay.")
		notes = append(notes, p.Forget.Elsewhere...)
	}
	return notes
}

// asked is a page's question before an act.
type asked struct {
	shownPayer
	Title, Becomes, Act string
	Danger, Needs       bool
	Change              int64
	Heads               [2]string // of the two columns of Diff
	Diff                []side
	Kept                []string
	Unlinks             bool

	Notes    []string
	Warnings []string // before acts a person may regret
	Instead  []leads  // possible alternatives
	Sides    []pairHalf
	Customer string
	Other    string // in the form: the connection and the id
	Seen     string
	Parts    []option
	Open     string  // "customer" or "other", where the person has yet to name it
	Choices  []leads // selectable ones
}

// addDecision adds a decision's effect to a page, or asks for its subject.
func (v *visit) addDecision(a *asked, act connector.Act) error {
	s := a.shownPayer
	d, err := v.decisionAsked(act, s)
	if errors.Is(err, errOpen) {
		v.askOpen(a, act)
		return nil
	}
	if err != nil {
		return err
	}
	p, err := v.pages.cfg.Attention.Propose(v.Context(), d)
	if err != nil {
		return notDone(err, s.Path)
	}
	a.Customer, a.Seen, a.Notes = d.Customer, fingerprint(p), proposalNotes(p)
	if s.rejectsSecond(act) {
		a.Becomes = "The customer " + d.Customer + " there is another payer. Both customers stay as they are, and nothing is sent."
	}
	a.Heads = [2]string{"Now", "After"}
	if d.Other != (state.RecordID{}) {
		a.Other = d.Other.Connection + "/" + d.Other.SourceID
		if a.Sides, err = v.pairHalves(d.Other, s.id()); err != nil {
			return err
		}
		if act == connector.ActMerge && len(a.Sides) == 2 {
			a.Sides[0].Books, a.Sides[1].Books = "Stands for both", "Is excluded"
		}
	}
	if act == connector.ActTakeTheirs || act == connector.ActIgnore {
		a.Heads = [2]string{"Service", "Accounting system"}
	}
	if act == connector.ActIgnore {
		a.Parts = append(a.Parts, connector.Map(p.DriftParts(), func(part string) option { return option{Value: part, Label: partWords[part]} })...)
	}
	for _, f := range p.Diff() {
		a.Diff = append(a.Diff, side{Label: office.FieldLabel(f.Path), Theirs: f.From, Ours: f.To})
	}
	if p.Unlink != nil {
		a.Kept = p.Unlink.Kept
	}
	if not := s.notTheHolder(); not.Customer != "" && d.Act == not.Act && d.Customer == not.Customer {
		a.Notes = append(a.Notes, "The payer is on hold while that customer has its number. Remove the number in the billing service.")
	}
	return nil
}

// askOpen asks for the customer or record.
func (v *visit) askOpen(a *asked, act connector.Act) {
	if record, _ := takes(act); record {
		a.Open = "other"
		return
	}
	a.Open = "customer"
	for _, c := range a.alike {
		a.Choices = append(a.Choices, leads{pathOf(office.Decision{Act: act, Record: a.id(), Customer: c}), "Customer " + c})
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

	connector.ReasonLinkRefused:    {connector.ActRequest: "Request the signing link again"},
	connector.ReasonGivenUpChanged: {connector.ActGiveUp: "Give it up again…"},
}

// tellings returns the findings about a payer, with the possible actions.
func (v *visit) tellings(s shownPayer) (out []telling, err error) {
	for i, t := range s.Matter.Told {
		shown := telling{Reason: t.Reason, Detail: plainDetail(t.Detail), Cure: t.Reason.Next()}
		if t.Reason == connector.ReasonRenumbered || t.Reason == connector.ReasonLeftWithMandate {
			if shown.Pairs, err = v.pairsOf(s.Matter.Renumberings); err != nil {
				return nil, err
			}
		}
		if v.User.Role.May(Operator) && v.pages.cfg.Attention != nil && !slices.ContainsFunc(s.Noted, func(n noted) bool { return n.Ends }) {
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
func (v *visit) waysOf(s shownPayer, t office.Telling, paired bool) (out []offer) {
	for _, w := range t.Ways {
		d := deedFor(w.Decision.Act)
		if t.Reason == connector.ReasonLikeness && w.Decision.Act != connector.ActGiveUp {
			o := offer{Label: "Compare and decide", At: matchPath(s.id()), Asks: true, Act: w.Decision.Act, Reason: t.Reason}
			if !slices.ContainsFunc(out, func(before offer) bool { return before.At == o.At }) && v.pages.cfg.Matches != nil {
				out = append(out, o)
			}
			continue
		}
		besides := w.Decision.Act == connector.ActTakeOver || w.Decision.Act == connector.ActReject || w.Decision.Act == connector.ActClose
		if d == nil || paired && besides || !v.can(*d) || w.Decision.Record == s.id() && !d.may(s) {
			continue
		}
		o := offer{Label: d.label, At: s.Path + "/" + d.name, Asks: d.asks(s), Danger: d.danger, Act: d.act, Reason: t.Reason, Mandate: s.MandateID}
		if isDecision(*d) {
			o.At = pathOf(w.Decision)
		}
		if own := ownLabels[t.Reason][d.act]; own != "" {
			o.Label = own
		}
		out = append(out, o)
	}
	if d := s.notTheHolder(); t.Reason == connector.ReasonKeyDisputed && d.Customer != "" && v.can(*deedFor(d.Act)) {
		out = slices.Insert(out, min(1, len(out)), offer{Label: "Not this payer's customer…", At: pathOf(d), Asks: true, Act: d.Act, Reason: t.Reason})
	}
	return out
}

// undoOffers returns the buttons to undo decisions.
func (v *visit) undoOffers(s shownPayer) (out []offer) {
	for _, n := range s.Noted {
		if d := deedFor(n.Undo.Act); d != nil && v.can(*d) && v.pages.cfg.Attention != nil {
			out = append(out, offer{Label: d.label, At: pathOf(n.Undo), Asks: true, Act: n.Undo.Act})
		}
	}
	return out
}
