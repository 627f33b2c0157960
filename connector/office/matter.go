package office

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/state"
)

// Matter is what is the matter with one record, what the ledger has to show for it, and each
// way out.
type Matter struct {
	Connection string            `json:"connection"` // blank for a delivery and for the webhook subscription
	SourceID   string            `json:"source_id"`  // or the delivery's key
	Name       string            `json:"name,omitempty"`
	BillingID  string            `json:"billing_id,omitempty"`
	MandateID  string            `json:"mandate_id,omitempty"`
	Told       []Telling         `json:"told"`
	Evidence   []string          `json:"evidence"`
	Closed     []state.ClosedRow `json:"closed"` // what a person has said that holds
}

// Telling is one thing that needs a person.
type Telling struct {
	Reason connector.Reason `json:"reason"`
	Detail string           `json:"detail"`
	Since  string           `json:"since"`
	Next   string           `json:"next"`
	Ways   []WayOut         `json:"ways"`
}

// WayOut is a way out with the ids of the record that it is for.
type WayOut struct {
	Command string          `json:"command"`
	Does    string          `json:"does"`
	Sends   connector.Sends `json:"sends"`
}

// MatterOf returns what is the matter with a record. It asks the ledger alone.
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
	w := witness{ledger: ledger, id: id, stored: stored, words: map[string]string{"RECORD": id.SourceID}, m: &m}
	if err := w.gather(ctx, by); err != nil {
		return m, err
	}
	m.Told = tellings(told, w.words, func(r connector.Reason) map[string]string { return w.of[r] })
	return m, nil
}

// MatterOfDelivery returns what is the matter with a delivery.
func MatterOfDelivery(d state.StoredDelivery) Matter {
	m := Matter{SourceID: d.DeliveryKey, BillingID: d.BillingID, MandateID: d.MandateID, Evidence: []string{}, Closed: []state.ClosedRow{}, Told: []Telling{}}
	m.Evidence = append(m.Evidence, fmt.Sprintf("It came on %s, is of the type %q, and is %s.", d.ReceivedAt, d.EventType, d.State))
	if d.State == string(connector.InboxQuarantined) {
		m.Told = tellings([]state.AttentionRow{{Reason: string(connector.ReasonEventNotUnderstood), Detail: d.Detail, Since: d.ReceivedAt}},
			map[string]string{"DELIVERY": d.DeliveryKey}, nil)
	}
	return m
}

// MatterOfSubscription returns what is the matter with the webhook subscription.
func MatterOfSubscription(ctx context.Context, ledger *state.Ledger) (Matter, error) {
	const id = Subscription
	m := Matter{SourceID: id, Evidence: []string{}}
	told, err := ledger.AttentionOf(ctx, "", id)
	if err != nil {
		return m, err
	}
	m.Told = tellings(told, nil, nil)
	f, err := ledger.Subscription(ctx)
	if err != nil {
		return m, err
	}
	if f.Expected != nil {
		m.Evidence = append(m.Evidence, fmt.Sprintf("The one that is expected is %s; it sends to %s.", f.Expected.ID, f.Expected.URL))
	}
	for _, s := range f.Shown {
		m.Evidence = append(m.Evidence, fmt.Sprintf("The billing service showed %s, which sends to %s.", s.ID, s.URL))
	}
	m.Closed, err = ledger.Closed(ctx, state.RecordID{SourceID: id}, 0)
	return m, err
}

// tellings adds to what is told the ways out, with the words that the commands leave open.
func tellings(told []state.AttentionRow, known map[string]string, of func(connector.Reason) map[string]string) []Telling {
	out := []Telling{}
	for _, a := range told {
		r := connector.Reason(a.Reason)
		t := Telling{Reason: r, Detail: a.Detail, Since: a.Since, Next: r.Next(), Ways: []WayOut{}}
		for _, w := range r.Ways() {
			command := filled(w.Command, known)
			if of != nil {
				command = filled(command, of(r))
			}
			t.Ways = append(t.Ways, WayOut{filled(command, map[string]string{"TEXT": "why"}), w.Does, w.Sends})
		}
		out = append(out, t)
	}
	return out
}

// filled puts words in the places of a command, as a shell takes them.
func filled(command string, known map[string]string) string {
	parts := strings.Fields(command)
	for i, part := range parts {
		switch value, ok := known[part]; {
		case !ok:
		case value == "why" || !plain.MatchString(value):
			parts[i] = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		default:
			parts[i] = value
		}
	}
	return strings.Join(parts, " ")
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=][A-Za-z0-9_./:@%+=-]*$`)

// witness gathers what the ledger has to show for what is the matter with a record.
type witness struct {
	ledger *state.Ledger
	id     state.RecordID
	stored state.StoredRecord
	words  map[string]string                      // by placeholder, for every command
	of     map[connector.Reason]map[string]string // by placeholder, for the commands of one reason
	m      *Matter
}

func (w *witness) say(format string, args ...any) {
	w.m.Evidence = append(w.m.Evidence, fmt.Sprintf(format, args...))
}

// fill notes what stands for a placeholder in the commands of a reason, where it is one alone.
func (w *witness) fill(r connector.Reason, placeholder string, found []string) {
	if len(found) != 1 {
		return
	}
	if w.of == nil {
		w.of = map[connector.Reason]map[string]string{}
	}
	if w.of[r] == nil {
		w.of[r] = map[string]string{}
	}
	w.of[r][placeholder] = found[0]
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
		func(ctx context.Context) error { return w.alike(ctx, customer, key) },
		w.spoken, w.mandate,
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

// requests says which requests have no answer.
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

// lastChange says how the newest change ended, when that was not well.
func (w *witness) lastChange(ctx context.Context) error {
	changes, err := w.ledger.ChangesOf(ctx, w.id.Connection, w.id.SourceID)
	if err != nil || len(changes) == 0 {
		return err
	}
	switch last := changes[len(changes)-1]; last.State {
	case connector.ChangeFailed, connector.ChangeHeld, connector.ChangeUnknown:
		w.say("The newest change (%s, change %d) is %s since %s, after %s.", last.Action, last.ID, last.State, last.UpdatedAt.UTC().Format("2006-01-02T15:04:05Z"), connector.Plural(last.Attempts, "attempt"))
	}
	return nil
}

// key says who else has the record's key, or asked for it.
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
		w.fill(connector.ReasonKeyShared, "OTHER", []string{rival})
	}
	holders, err := w.ledger.KeyHolders(ctx, key)
	if err != nil {
		return err
	}
	if others := slices.DeleteFunc(slices.Clone(holders), func(id string) bool { return id == w.m.BillingID }); len(others) > 0 {
		w.say("The key is carried by customer %s.", strings.Join(others, " and "))
	}
	senders, err := w.ledger.CreatesUnderWay(ctx, key)
	for _, s := range senders {
		if s.Connection != w.id.Connection || s.SourceID != w.id.SourceID {
			w.say("A request to create a customer with the key left for record %s on %s.", s.SourceID, s.SentAt.UTC().Format("2006-01-02T15:04:05Z"))
		}
	}
	return err
}

// alike says whom the record looks like.
func (w *witness) alike(ctx context.Context, c connector.Customer, key connector.Key) error {
	if w.m.BillingID != "" || c.Name == "" {
		return nil
	}
	customers, err := w.ledger.Alike(ctx, c, key.Name, w.id.Connection, w.id.SourceID)
	if err != nil {
		return err
	}
	if len(customers) > 0 {
		w.say("Like it, and without our key: customer %s.", strings.Join(customers, " and "))
	}
	w.fill(connector.ReasonLikeness, "CUSTOMER", customers)
	twins, err := w.ledger.Twins(ctx, w.id.Connection, w.id.SourceID, state.Likeness(match.TraitsOf(c)))
	if err != nil {
		return err
	}
	var old, theirs, other []string
	for _, t := range twins.Left {
		w.say("Record %s looks like it, has left the books, and has customer %s.", t.SourceID, t.BillingID)
		old, theirs = append(old, t.SourceID), append(theirs, t.BillingID)
	}
	for _, t := range twins.Twice {
		w.say("Record %s of the same books looks like it.", t.SourceID)
		other = append(other, t.SourceID)
	}
	w.fill(connector.ReasonRenumbered, "OLD", old)
	w.fill(connector.ReasonRenumbered, "CUSTOMER", theirs)
	w.fill(connector.ReasonEnteredTwice, "OTHER", other)
	return nil
}

// spoken says what persons have said of the record and customers.
func (w *witness) spoken(ctx context.Context) error {
	said, err := w.ledger.Words(ctx, w.id.Connection)
	var former []string
	for _, s := range said {
		if s.SourceID != w.id.SourceID {
			continue
		}
		switch s.Word {
		case state.WordAccept:
			w.say("A person said that it is customer %s.", s.BillingID)
		case state.WordReject:
			w.say("A person said that it is not customer %s.", s.BillingID)
		case state.WordSpent:
			w.say("A person's word about customer %s holds no more.", s.BillingID)
			former = append(former, s.BillingID)
		}
	}
	w.fill(connector.ReasonUnlinked, "CUSTOMER", former)
	return err
}

// mandate says how the payer's mandate came to stand as it does.
func (w *witness) mandate(ctx context.Context) error {
	if w.m.BillingID == "" {
		return nil
	}
	history, err := w.ledger.History(ctx, w.m.BillingID)
	if err != nil || len(history) == 0 {
		return err
	}
	last := history[len(history)-1]
	w.say("Mandate %s is %s since %s, seen by %s.", last.MandateID, connector.MandateStatus(last.ToStatus).Label(), last.ObservedAt, last.Cause)
	return nil
}
