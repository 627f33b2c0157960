package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/state"
)

// Matter is a finding about one record, the ledger's evidence for it, and each way out.
type Matter struct {
	Connection string            `json:"connection"` // blank for a delivery and for the webhook subscription
	SourceID   string            `json:"source_id"`  // or the delivery's key
	Name       string            `json:"name,omitempty"`
	BillingID  string            `json:"billing_id,omitempty"`
	MandateID  string            `json:"mandate_id,omitempty"`
	Told       []Telling         `json:"told"`
	Evidence   []string          `json:"evidence"`
	Closed     []state.ClosedRow `json:"closed"` // the person's decisions in force

	Renumberings []state.Renumbering  `json:"-"` // with the record as either half; both have the same ways out
	Said         []state.PairDecision `json:"-"` // words on the record and customers
	Seconds      []string             `json:"-"` // apparent second customers, assigned to another payer by a person
	// the customer that carries the record's key and is not its own; "" for none, or several
	Holder string `json:"-"`
}

// Telling is one finding in need of a person.
type Telling struct {
	Reason connector.Reason `json:"reason"`
	Detail string           `json:"detail"`
	Since  string           `json:"since"`
	Next   string           `json:"next"`
	Ways   []WayOut         `json:"ways"`
}

// WayOut is a way out with the ids of its record.
type WayOut struct {
	Does  string          `json:"does"`
	Sends connector.Sends `json:"sends"`

	Decision Decision `json:"-"` // an id that a person must add is blank
	Why      bool     `json:"-"` // the person must give a reason
}

// MatterOf returns the finding about a record, from the ledger alone.
func MatterOf(ctx context.Context, ledger *state.Ledger, id state.RecordID, by Explainer) (Matter, error) {
	m := Matter{Connection: id.Connection, SourceID: id.SourceID, Evidence: []string{}}
	version := ""
	if by.Mapping != nil {
		version = by.Mapping.Version()
	}
	stored, err := ledger.StoredRecord(ctx, id.Connection, id.SourceID, version)
	if err != nil {
		return m, err
	}
	labels, err := ledger.LabelsOf(ctx, []state.RecordID{id})
	if err != nil {
		return m, err
	}
	m.Name = labels[id].Name
	if m.Closed, err = ledger.Closed(ctx, id, 0); err != nil {
		return m, err
	}
	told, err := ledger.AttentionOf(ctx, id.Connection, id.SourceID)
	if err != nil {
		return m, err
	}
	w := witness{ledger: ledger, id: id, stored: stored, m: &m}
	if err := w.gather(ctx, by); err != nil {
		return m, err
	}
	if err := w.halves(ctx, told); err != nil {
		return m, err
	}
	m.Told = tellings(told, target{Record: id}, func(r connector.Reason) []target { return w.of[r] })
	for i, t := range m.Told {
		if t.Reason == connector.ReasonLeftWithMandate && len(m.Renumberings) > 0 {
			m.Told[i] = bothHalves(t, m.Renumberings)
		}
	}
	return m, nil
}

// halves adds the other half of a renumbered record, with the facts known about it.
func (w *witness) halves(ctx context.Context, told []state.AttentionRow) (err error) {
	if !slices.ContainsFunc(told, func(a state.AttentionRow) bool {
		return a.Reason == string(connector.ReasonRenumbered) || a.Reason == string(connector.ReasonLeftWithMandate)
	}) {
		return nil
	}
	if w.m.Renumberings, err = w.ledger.RenumberingsOf(ctx, w.id); err != nil {
		return err
	}
	for _, r := range w.m.Renumberings {
		other := r.Old
		if other == w.id {
			other = r.New
		}
		rows, err := w.ledger.Records(ctx, state.RecordFilter{Among: []state.RecordID{other}, Limit: 1})
		if err != nil {
			return err
		}
		name, mandate := "", "no mandate"
		for _, row := range rows {
			if row.Label != nil {
				name = " " + row.Label.Name
			}
			if row.MandateStatus != nil && *row.MandateStatus != "" {
				mandate = "a mandate: " + connector.MandateStatus(*row.MandateStatus).Label()
			}
		}
		if other == r.New {
			w.say("Record %s%s is in the accounting system, looks like this payer, and waits for your decision. It has %s.",
				other.SourceID, name, mandate)
			continue
		}
		w.say("Record %s%s has %s.", other.SourceID, name, mandate)
		w.offer(connector.ReasonRenumbered, target{Other: r.Old, Customer: r.BillingID})
	}
	return nil
}

// bothHalves changes the ways out for a removed payer, possibly still there under a new number: moving its
// customer comes first, and cancelling its mandate last.
func bothHalves(t Telling, pairs []state.Renumbering) Telling {
	var first, last []WayOut
	var names []string
	for _, r := range pairs {
		names = append(names, r.New.SourceID)
		for _, w := range connector.ReasonRenumbered.Ways() {
			if w.Act == connector.ActTakeOver || w.Act == connector.ActReject {
				first = append(first, wayOut(w, target{Record: r.New, Other: r.Old, Customer: r.BillingID}))
			}
		}
	}
	for _, w := range t.Ways {
		if w.Decision.Act == connector.ActCancel {
			w.Does += fmt.Sprintf(" Record %s may be the same payer under a new number, and would have to sign anew.",
				strings.Join(names, " or "))
			last = append(last, w)
			continue
		}
		first = append(first, w)
	}
	t.Ways = slices.Concat(first, last)
	t.Next = fmt.Sprintf("Record %s may be the same payer under a new number. Decide on both at once; the first way moves the customer and its mandate to the new record.", strings.Join(names, " or "))
	return t
}

// MatterOfDelivery returns the finding about a delivery.
func MatterOfDelivery(d state.StoredDelivery) Matter {
	m := Matter{SourceID: d.DeliveryKey, BillingID: d.BillingID, MandateID: d.MandateID, Evidence: []string{},
		Closed: []state.ClosedRow{}, Told: []Telling{}}
	m.Evidence = append(m.Evidence,
		fmt.Sprintf("It came on %s, is of the type %q, and is %s.", d.ReceivedAt, d.EventType, d.State))
	if d.State == string(connector.InboxQuarantined) {
		m.Told = tellings([]state.AttentionRow{{Reason: string(connector.ReasonEventNotUnderstood), Detail: d.Detail,
			Since: d.ReceivedAt}},
			target{Delivery: d.DeliveryKey}, nil)
	}
	return m
}

// MatterOfSubscription returns the finding about the webhook subscription.
func MatterOfSubscription(ctx context.Context, ledger *state.Ledger) (Matter, error) {
	const id = Subscription
	m := Matter{SourceID: id, Evidence: []string{}}
	told, err := ledger.AttentionOf(ctx, "", id)
	if err != nil {
		return m, err
	}
	m.Told = tellings(told, target{}, nil)
	f, err := ledger.Subscription(ctx)
	if err != nil {
		return m, err
	}
	if f.Expected != nil {
		m.Evidence = append(m.Evidence,
			fmt.Sprintf("The one that is expected is %s; it sends to %s.", f.Expected.ID, f.Expected.URL))
	}
	for _, s := range f.Shown {
		m.Evidence = append(m.Evidence, fmt.Sprintf("The billing service showed %s, which sends to %s.", s.ID, s.URL))
	}
	m.Closed, err = ledger.Closed(ctx, state.RecordID{SourceID: id}, 0)
	return m, err
}

// NextFor returns the next step for an attention row. If the row is a half of one of these pairs, it names both
// records.
func NextFor(row state.AttentionRow, pairs []state.Renumbering) string {
	r, id := connector.Reason(row.Reason), state.RecordID{Connection: row.Connection, SourceID: row.SourceID}
	for _, p := range pairs {
		if r == connector.ReasonRenumbered && p.New == id || r == connector.ReasonLeftWithMandate && p.Old == id {
			return fmt.Sprintf("Record %s was removed, and record %s may be the same payer. %s", p.Old.SourceID, p.New.SourceID,
				connector.ReasonRenumbered.Next())
		}
	}
	return r.Next()
}

// target holds the ids that a way out is about.
type target struct {
	Record, Other state.RecordID
	Customer      string
	Delivery      string
}

// tellings adds the ways out to the findings. A way with another record or a customer appears once for each known one.
func tellings(told []state.AttentionRow, about target, of func(connector.Reason) []target) []Telling {
	out := []Telling{}
	for _, a := range told {
		r := connector.Reason(a.Reason)
		t := Telling{Reason: r, Detail: a.Detail, Since: a.Since, Next: r.Next(), Ways: []WayOut{}}
		var others []target
		if of != nil {
			others = of(r)
		}
		for _, w := range r.Ways() {
			t.Ways = append(t.Ways, waysOut(w, about, others)...)
		}
		out = append(out, t)
	}
	return out
}

// waysOut returns one way for each of others; without any, one with the ids left open.
func waysOut(w connector.Way, about target, others []target) (out []WayOut) {
	for _, other := range others {
		way := wayOut(w, about.with(other))
		if !slices.ContainsFunc(out, func(o WayOut) bool {
			return o.Decision.Other == way.Decision.Other && o.Decision.Customer == way.Decision.Customer
		}) {
			out = append(out, way)
		}
	}
	if out == nil {
		out = append(out, wayOut(w, about))
	}
	return out
}

func wayOut(w connector.Way, about target) WayOut {
	out := WayOut{Does: w.Does, Sends: w.Sends, Why: w.Why,
		Decision: Decision{Act: w.Act, Record: about.Record, Delivery: about.Delivery}}
	if w.Act.OnOther() {
		out.Decision.Other = about.Other
	}
	if w.Act.OnCustomer() {
		out.Decision.Customer = about.Customer
	}
	return out
}

// with returns the target extended by another one.
func (t target) with(other target) target {
	t.Other, t.Customer = other.Other, other.Customer
	return t
}

// witness gathers the ledger's evidence for a finding about a record.
type witness struct {
	ledger *state.Ledger
	id     state.RecordID
	stored state.StoredRecord
	of     map[connector.Reason][]target // the possible targets of a reason's ways out
	m      *Matter
}

func (w *witness) say(format string, args ...any) {
	w.m.Evidence = append(w.m.Evidence, fmt.Sprintf(format, args...))
}

// offer records the possible targets of a reason's ways out.
func (w *witness) offer(r connector.Reason, t target) {
	if w.of == nil {
		w.of = map[connector.Reason][]target{}
	}
	w.of[r] = append(w.of[r], t)
}

func (w *witness) gather(ctx context.Context, by Explainer) error {
	if w.stored.Forgotten == state.ForgottenNot {
		w.say("The record is %s in the accounting system.", w.stored.Record.State)
	} else {
		w.say("The payer of this record was forgotten, or may be one that was: nothing but its id is kept.")
	}
	customer, key := connector.Customer{}, connector.Key{}
	if by.Mapping != nil && w.stored.Record.State == connector.RecordActive && w.stored.Record.Problem == "" {
		if x := by.Mapping.Explain(w.stored.Record); x.Err == nil && x.Result.Included {
			customer, key = x.Result.Customer, x.Result.Key
		}
	}
	if p := w.stored.Payer; p != nil {
		if key.Value == "" || p.BillingID != "" {
			key = p.Key
		}
		w.m.BillingID, w.m.MandateID = p.BillingID, p.MandateID
		w.link(*p)
	}
	for _, gather := range []func(context.Context) error{
		w.requests, w.lastChange,
		func(ctx context.Context) error { return w.key(ctx, key) },
		func(ctx context.Context) error { return w.alike(ctx, customer) },
		w.spoken, w.doubled, w.mandate,
	} {
		if err := gather(ctx); err != nil {
			return err
		}
	}
	return nil
}

// link says how the newest read showed the payer's customer.
func (w *witness) link(p state.Payer) {
	if p.BillingID == "" {
		return
	}
	w.say("Its customer %s %s.", p.BillingID, w.stored.Facts.Look.Shows)
}

// requests lists the requests without an answer.
func (w *witness) requests(ctx context.Context) error {
	open, err := w.ledger.OpenRequests(ctx, w.id.Connection, w.id.SourceID)
	for _, r := range open {
		how := "It may still arrive, and stays known whatever a person says."
		if r.Over {
			how = "It can arrive no more; the next sync looks what became of it."
		}
		to := ""
		if r.BillingID != "" {
			to = " for customer " + r.BillingID
		}
		w.say("A request (%s%s) left on %s and has no answer. %s", r.Action, to, r.SentAt, how)
	}
	return err
}

// lastChange describes the newest change, if it ended badly.
func (w *witness) lastChange(ctx context.Context) error {
	changes, err := w.ledger.ChangesOf(ctx, w.id.Connection, w.id.SourceID)
	if err != nil || len(changes) == 0 {
		return err
	}
	switch last := changes[len(changes)-1]; last.State {
	case connector.ChangeFailed, connector.ChangeHeld, connector.ChangeUnknown:
		w.say("The newest change (%s, change %d) is %s since %s, after %s.", last.Action, last.ID, last.State,
			last.UpdatedAt.UTC().Format("2006-01-02T15:04:05Z"), connector.Plural(last.Attempts, "attempt"))
	}
	return nil
}

// key names the other owners of the record's key, or requesters.
func (w *witness) key(ctx context.Context, key connector.Key) error {
	if key.Value == "" {
		return nil
	}
	rival, err := w.ledger.KeyRival(ctx, key, w.id.Connection, w.id.SourceID)
	if err != nil {
		return err
	}
	if rival != "" {
		w.say("Record %s has the same key.", rival)
		w.offer(connector.ReasonKeyShared, target{Other: state.RecordID{Connection: w.id.Connection, SourceID: rival}})
	}
	holders, err := w.ledger.KeyHolders(ctx, key)
	if err != nil {
		return err
	}
	if others := slices.DeleteFunc(slices.Clone(holders),
		func(id string) bool { return id == w.m.BillingID }); len(others) > 0 {
		w.say("The key is carried by customer %s.", strings.Join(others, " and "))
		if len(others) == 1 {
			w.m.Holder = others[0]
		}
	}
	senders, err := w.ledger.CreatesUnderWay(ctx, key)
	for _, s := range senders {
		if s.Connection != w.id.Connection || s.SourceID != w.id.SourceID {
			w.say("A request to create a customer with the key left for record %s on %s.", s.SourceID,
				s.SentAt.UTC().Format("2006-01-02T15:04:05Z"))
		}
	}
	return err
}

// likenessOf returns a payer's traits in the ledger's form.
func likenessOf(c connector.Customer) state.Likeness {
	t := match.TraitsOf(c)
	return state.Likeness{Name: t.Name, Emails: t.Emails, Phones: t.Phones, Postcodes: t.Postcodes}
}

// alike names the records and customers similar to the record.
func (w *witness) alike(ctx context.Context, c connector.Customer) error {
	if w.m.BillingID != "" || c.Name == "" {
		return nil
	}
	found, err := w.ledger.MatchCandidates(ctx, w.id.Connection, w.id.SourceID)
	if err != nil {
		return err
	}
	var customers []string
	for _, m := range found {
		customers = append(customers, m.BillingID)
		w.say("Like it, and without our key: customer %s, score %d (%s).", m.BillingID, m.Score, match.Why(m.Reasons))
	}
	for _, c := range customers {
		w.offer(connector.ReasonLikeness, target{Customer: c})
	}
	twins, err := w.ledger.SimilarPayers(ctx, w.id.Connection, w.id.SourceID, likenessOf(c))
	if err != nil {
		return err
	}
	for _, t := range twins.Left {
		w.say("Record %s looks like it, was removed from the accounting system, and has customer %s.", t.SourceID,
			t.BillingID)
	}
	for _, t := range twins.Twice {
		w.say("Record %s of the same connection looks like it.", t.SourceID)
		w.offer(connector.ReasonEnteredTwice, target{Other: state.RecordID{Connection: t.Connection, SourceID: t.SourceID}})
	}
	return nil
}

// doubled names the other customers similar to the payer, with reasons.
func (w *witness) doubled(ctx context.Context) error {
	found, err := w.ledger.OpenDuplicates(ctx, w.id)
	for _, d := range found {
		w.say("Customer %s looks like the payer's own: score %d of 100 (%s).", d.OtherID, d.Score, match.Why(d.Reasons))
		w.offer(connector.ReasonDuplicateCustomer, target{Customer: d.OtherID})
	}
	if err != nil {
		return err
	}
	w.m.Seconds, err = w.ledger.RejectedSeconds(ctx, w.id)
	return err
}

// spoken lists people's decisions on the record and customers.
func (w *witness) spoken(ctx context.Context) error {
	said, err := w.ledger.PairDecisions(ctx, w.id.Connection)
	for _, s := range said {
		if s.SourceID != w.id.SourceID {
			continue
		}
		w.m.Said = append(w.m.Said, s)
		switch s.Word {
		case state.WordAccept:
			w.say("A person said that it is customer %s.", s.BillingID)
		case state.WordReject:
			w.say("A person said that it is not customer %s.", s.BillingID)
		case state.WordSpent:
			w.say("A person's word about customer %s holds no more.", s.BillingID)
			w.offer(connector.ReasonUnlinked, target{Customer: s.BillingID})
		}
	}
	return err
}

// mandate describes the history of the payer's mandate.
func (w *witness) mandate(ctx context.Context) error {
	if w.m.BillingID == "" {
		return nil
	}
	history, err := w.ledger.History(ctx, w.m.BillingID)
	if err != nil || len(history) == 0 {
		return err
	}
	last := history[len(history)-1]
	w.say("Mandate %s is %s since %s, seen by %s.", last.MandateID, connector.MandateStatus(last.ToStatus).Label(),
		last.ObservedAt, last.Cause)
	return nil
}
