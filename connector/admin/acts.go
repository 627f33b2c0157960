package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// Input is something that a person adds to an act.
type Input string

// The inputs.
const (
	InputReason   Input = "reason"   // why, for the audit log
	InputRecord   Input = "record"   // the other record
	InputCustomer Input = "customer" // of the billing service
	InputPart     Input = "part"     // of the customer: name, people or addresses
)

// ActFacts are the facts about an act that hold for every finding. The texts are for accountants.
type ActFacts struct {
	Title   string // in a few words; as a question it asks before the act
	Becomes string // its effect
	Sends   connector.Sends
	Sent    string  // what the billing service receives; "" for nothing
	Inputs  []Input // what the person adds
	Role    Role    // the least role that may perform it
	Undo    connector.Act
	Early   bool   // only before the next run
	Final   string // why no act takes it back, where Undo is ""
	Danger  bool   // it takes a fresh sign-in
}

// Asks reports whether the person must add an input.
func (f ActFacts) Asks(i Input) bool { return slices.Contains(f.Inputs, i) }

const (
	keyAndValues = "the record's number and values, for its customer"
	theKey       = "the record's number, for its customer"
)

// Acts are the facts about all acts.
var Acts = map[connector.Act]ActFacts{
	connector.ActAccept: {Title: "Link this customer",
		Becomes: "The customer belongs to the payer. payersync links it, and writes the record's values on it.",
		Sends:   connector.SendsNextSync, Sent: keyAndValues,
		Inputs: []Input{InputReason, InputCustomer}, Role: Operator, Undo: connector.ActTakeBack, Early: true},
	connector.ActAdopt: {Title: "Link this customer",
		Becomes: "The customer with this number belongs to the payer, although its details differ. payersync writes the record's values on it.",
		Sends:   connector.SendsNextSync, Sent: keyAndValues, Inputs: []Input{InputReason}, Role: Operator,
		Undo: connector.ActTakeBack, Early: true},
	connector.ActAllowLetters: {Title: "Allow reminders again",
		Becomes: "Removes every stop of letters to this payer: by a person, by the payer, or because letters came back.",
		Sends:   connector.SendsNothing, Role: Operator, Undo: connector.ActStopLetters},
	connector.ActAsk: {Title: "Request a mandate",
		Becomes: "payersync requests a mandate from this payer, whatever the mapping says.", Sends: connector.SendsNextSync,
		Sent: "a request for a signing link",
		Role: Operator, Undo: connector.ActAskByRule},
	connector.ActAskByRule: {Title: "Let the mapping decide",
		Becomes: "The mapping decides again whether payersync requests a mandate from this payer.",
		Sends:   connector.SendsNextSync, Sent: "a request for a signing link, if the mapping says so",
		Role: Operator, Final: "You can decide again at any time."},
	connector.ActAskNot: {Title: "Do not request",
		Becomes: "payersync requests no mandate from this payer, whatever the mapping says.", Sends: connector.SendsNothing,
		Role: Operator, Undo: connector.ActAskByRule},
	connector.ActCancel: {Title: "Cancel the mandate",
		Becomes: "The payer can no longer be debited. payersync never requests a new mandate by itself after a cancellation.",
		Sends:   connector.SendsNow, Sent: "the cancellation of the mandate", Inputs: []Input{InputReason}, Role: Operator,
		Final: "A new mandate needs a new signature.", Danger: true},
	connector.ActClose: {Title: "Leave it as it is",
		Becomes: "The finding ends, and the mandate stays as it is. A new finding appears when it changes.",
		Sends:   connector.SendsNothing,
		Inputs:  []Input{InputReason}, Role: Operator, Final: "The finding stays closed until something changes."},
	connector.ActCloseDelivery: {Title: "Close the delivery",
		Becomes: "The finding ends, and payersync never reads the delivery. The sweep finds the change in any case.",
		Sends:   connector.SendsNothing,
		Inputs:  []Input{InputReason}, Role: Operator, Final: "The delivery stays in the list."},
	connector.ActCloseSubscription: {Title: "Leave it as it is",
		Becomes: "The finding ends, and the webhook subscription stays as it is. Until it is back, only the sweep finds changes.", Sends: connector.SendsNothing,
		Inputs: []Input{InputReason}, Role: Operator, Final: "You can subscribe again at any time."},
	connector.ActForget: {Title: "The forgotten payer",
		Becomes: "The record is excluded, and payersync stores none of its data. Do not write a name into the reason.",
		Sends:   connector.SendsNothing,
		Inputs:  []Input{InputReason}, Role: Operator, Final: "If the payer is back, let the record be kept again.",
		Danger: true},
	connector.ActGiveUp: {Title: "Give the payer up",
		Becomes: "payersync sends nothing for this payer any more. Its customer and mandate stay as they are.",
		Sends:   connector.SendsNothing,
		Inputs:  []Input{InputReason}, Role: Operator, Undo: connector.ActTakeUp},
	connector.ActIgnore: {Title: "Leave a field to the billing service",
		Becomes: "payersync no longer writes these fields of the customer.", Sends: connector.SendsNothing,
		Inputs: []Input{InputReason, InputPart}, Role: Operator, Final: "You can send our value later."},
	connector.ActKeep: {Title: "Keep the customer", Becomes: "The payer keeps the customer.",
		Sends: connector.SendsNothing, Inputs: []Input{InputReason}, Role: Operator,
		Final: "You can unlink the customer again."},
	connector.ActLink: {Title: "Link a customer",
		Becomes: "The customer belongs to the payer. payersync links it, and writes the record's values on it.",
		Sends:   connector.SendsNextSync, Sent: keyAndValues,
		Inputs: []Input{InputReason, InputCustomer}, Role: Operator, Undo: connector.ActTakeBack, Early: true},
	connector.ActMerge: {Title: "One payer",
		Becomes: "The two records are one payer. This one is excluded, and the other stands for both. If only this one has a customer, it moves to the other with its mandate.",
		Sends:   connector.SendsNextSync, Sent: "the other record's number and values, if the customer moves",
		Inputs: []Input{InputReason, InputRecord}, Role: Operator, Undo: connector.ActSeparate},
	connector.ActReinstate: {Title: "Bring the cancelled mandate back",
		Becomes: "The payer can be debited again, so ask the payer first. If the billing service cannot do this, nothing changes.",
		Sends:   connector.SendsNow, Sent: "a request to bring the mandate back", Inputs: []Input{InputReason},
		Role:  Operator,
		Final: "You can cancel the mandate again."},
	connector.ActReject: {Title: "Two different payers",
		Becomes: "The customer does not belong to this record. payersync creates a new one, unless there is another match.",
		Sends:   connector.SendsNextSync, Sent: "a new customer with the record's values",
		Inputs: []Input{InputCustomer}, Role: Operator, Undo: connector.ActTakeBack, Early: true},
	connector.ActRekey: {Title: "Use the new number",
		Becomes: "payersync writes the record's new number on the customer. The mandate stays.",
		Sends:   connector.SendsNextSync, Sent: theKey,
		Inputs: []Input{InputReason}, Role: Operator, Final: "The old number needs a correction in the accounting system."},
	connector.ActReplay: {Title: "Read the delivery again",
		Becomes: "payersync reads the delivery again, and then its customer.", Sends: connector.SendsNothing, Role: Operator,
		Final: "It only reads."},
	connector.ActRequest: {Title: "Request a signing link",
		Becomes: "payersync gets a signing link for the payer. If the mandate was cancelled, the payer must sign again, so agree on it first.", Sends: connector.SendsNow, Sent: "a request for a signing link",
		Role: Operator, Final: "The signing link stays valid. You can cancel the mandate."},
	connector.ActResume: {Title: "Send to the address again",
		Becomes: "The address works. The next letter goes to it when it is due.", Sends: connector.SendsNothing,
		Inputs: []Input{InputReason}, Role: Operator,
		Final: "payersync stops again if a letter comes back."},
	connector.ActRetry: {Title: "Try again",
		Becomes: "The next run tries the payer again, although its record did not change.", Sends: connector.SendsNextSync,
		Sent: "the same request again", Role: Operator, Final: "The next run does it once."},
	connector.ActSendOurs: {Title: "Send our value",
		Becomes: "payersync writes the record's values on the customer again.", Sends: connector.SendsNextSync,
		Sent:   "the record's values, for its customer",
		Inputs: []Input{InputReason}, Role: Operator, Final: "After the run, you can put the earlier values back."},
	connector.ActSeparate: {Title: "Separate the records",
		Becomes: "The record is a separate payer again. A customer that has moved stays with the other record.",
		Sends:   connector.SendsNextSync, Sent: "a new customer, if the record has none",
		Inputs: []Input{InputReason}, Role: Operator, Final: "You can merge the records again."},
	connector.ActStopLetters: {Title: "Stop reminders to this payer",
		Becomes: "payersync sends no letter to this payer until somebody takes that back. The mandate and the signing link stay as they are.", Sends: connector.SendsNothing,
		Role: Operator, Undo: connector.ActAllowLetters},
	connector.ActSubscribe: {Title: "Subscribe to webhooks again",
		Becomes: "The billing service sends webhooks to payersync again.", Sends: connector.SendsNow,
		Sent: "a webhook subscription with the address of payersync", Role: Admin,
		Final: "The billing service can disable the subscription."},
	connector.ActTakeBack: {Title: "Take the decision back",
		Becomes: "The decision about this payer and customer no longer applies. It has not led to a request yet.",
		Sends:   connector.SendsNothing,
		Inputs:  []Input{InputReason, InputCustomer}, Role: Operator, Final: "You can make the decision again."},
	connector.ActTakeField: {Title: "Write to the field again",
		Becomes: "payersync writes the status of the mandate into the payer's field again. A value that somebody else wrote there, or a refusal, no longer counts. The next run of the write-back reads the field first, if it can, and the limits apply.",
		Sends:   connector.SendsNothing, Inputs: []Input{InputReason}, Role: Operator,
		Final: "If somebody changes the field later, payersync leaves it alone again."},
	connector.ActTakeOver: {Title: "Same payer under a new number",
		Becomes: "The new record keeps the customer and the mandate, so the payer does not sign again. payersync writes the new number on the customer.",
		Sends:   connector.SendsNextSync, Sent: theKey, Inputs: []Input{InputReason, InputRecord}, Role: Operator,
		Final: "The customer stays with the new record."},
	connector.ActTakeTheirs: {Title: "Keep their value",
		Becomes: "The customer keeps these values until the record's values change.", Sends: connector.SendsNothing,
		Inputs: []Input{InputReason}, Role: Operator, Final: "You can send our value later."},
	connector.ActTakeUp: {Title: "Undo giving up", Becomes: "The next run treats this payer like any other.",
		Sends: connector.SendsNextSync, Sent: "the changes in its plan", Inputs: []Input{InputReason}, Role: Operator,
		Final: "You can give the payer up again."},
	connector.ActTellApart: {Title: "Two payers",
		Becomes: "The two records are two payers. payersync creates a separate customer for this one.",
		Sends:   connector.SendsNextSync, Sent: "a new customer with the record's values",
		Inputs: []Input{InputRecord}, Role: Operator, Final: "You can merge the two records later."},
	connector.ActUndo: {Title: "Put it back before our last update",
		Becomes: "The customer gets the values that it had before our update. They stay until the record's values change.",
		Sends:   connector.SendsNextSync, Sent: "the earlier values of the customer",
		Inputs: []Input{InputReason}, Role: Operator, Final: "You can send our value later."},
	connector.ActUnforget: {Title: "Not the forgotten payer",
		Becomes: "The record is another payer, or the payer is back. The next run reads it again.",
		Sends:   connector.SendsNextSync, Sent: "the changes in its plan",
		Inputs: []Input{InputReason}, Role: Operator, Final: "You can forget the payer again."},
	connector.ActUnlink: {Title: "Unlink the customer",
		Becomes: "payersync removes our number from the customer. You then choose the right customer. A mandate stays with the old customer.", Sends: connector.SendsNextSync, Sent: "the customer without our number",
		Inputs: []Input{InputReason}, Role: Operator, Undo: connector.ActKeep, Early: true},
}

// Preview is the effect of an act, for the person who decides on it.
type Preview struct {
	Act      connector.Act
	Title    string
	Becomes  string
	Warnings []string
	Notes    []string
	Changes  []connector.FieldChange // of the customer: From is the present value, To the new one
	Compares bool                    // Changes holds the customer's and the record's values instead, and nothing changes
	When     connector.Sends
	Sends    string // what is sent to whom, and when
	Undo     string // how to take it back, or why nothing does
}

// Preview returns the effect of the act. The commands and the pages show it before the act.
func (p Proposal) Preview() Preview {
	f := Acts[p.Act]
	v := Preview{
		Act: p.Act, Title: f.Title, Becomes: f.Becomes, Warnings: p.successors(), Notes: p.notes(), Changes: p.Diff(),
		When: f.Sends, Undo: f.Final,
		Compares: p.Act == connector.ActTakeTheirs || p.Act == connector.ActIgnore,
	}
	if p.second {
		v.Becomes, v.When = "The customer "+p.Customer+" there is another payer. Both customers stay as they are.",
			connector.SendsNothing
	}
	if p.Customer == "" && p.Act == connector.ActAdopt {
		v.When = connector.SendsNothing
	}
	v.Sends = sentence(v.When, f.Sent)
	switch {
	case f.Undo != "" && f.Early && !p.second:
		v.Undo = fmt.Sprintf("Before the next run, you can take it back: “%s”.", Acts[f.Undo].Title)
	case f.Undo != "":
		v.Undo = fmt.Sprintf("You can take it back: “%s”.", Acts[f.Undo].Title)
	case f.Final != "":
		v.Undo = "No action takes it back. " + f.Final
	}
	return v
}

// sentence says what is sent to whom, and when.
func sentence(when connector.Sends, sent string) string {
	switch when {
	case connector.SendsNothing:
		return "Nothing is sent to anybody."
	case connector.SendsNextSync:
		return "The next run sends to the billing service: " + sent +
			". Its plan lists the change, and the limits apply. Nothing is sent now."
	}
	return "payersync sends to the billing service now: " + sent + "."
}

// By is the person who performs an act. The person at a terminal is an Admin.
type By struct {
	syncer.Operator
	Role Role
}

// ActResult is the result of an act.
type ActResult struct {
	News      bool   // the very same was not done before
	MandateID string // of the payer, after acts on findings; "" for none
	Mandate   connector.Mandate
	Says      string // what the billing service answered, in words; "" for nothing
	Key       string // of the delivery
	Count     int    // of the stops that ended
	Later     bool   // another process was reading, so the files are cleaned later
}

// ErrRole means a person's role does not include an act.
var ErrRole = errors.New("the role does not include this")

// Perform performs the act for a person, with the reason in the audit log.
func (p Proposal) Perform(ctx context.Context, by By) (ActResult, error) {
	out := ActResult{News: true}
	f, known := Acts[p.Act]
	switch {
	case !known || p.perform == nil:
		return out, ErrNoDecision
	case !by.Role.May(f.Role):
		return out, ErrRole
	case f.Asks(InputReason) && strings.TrimSpace(by.Reason) == "":
		return out, fmt.Errorf("%s: %w", strings.ToLower(f.Title), syncer.ErrReasonNeeded)
	}
	err := p.perform(ctx, by.Operator, &out)
	return out, err
}

// Perform proposes an act, and performs it.
func (a *Attention) Perform(ctx context.Context, d Decision, by By) (ActResult, error) {
	p, err := a.Propose(ctx, d)
	if err != nil {
		return ActResult{}, err
	}
	return p.Perform(ctx, by)
}

// successors warns before the end of a payer that may be there under a new number.
func (p Proposal) successors() (out []string) {
	for _, of := range p.Successors {
		id := strings.TrimSpace(of.SourceID + " " + of.Name)
		if p.Act == connector.ActCancel {
			out = append(out, fmt.Sprintf("The record %s may be this payer under a new number. After the cancellation the payer has to sign a new mandate.", id))
		} else {
			out = append(out, fmt.Sprintf("The record %s is on hold: it gets no customer until you decide that the two are different payers.", id))
		}
	}
	return out
}

// findSuccessors names the records that may be the payer under a new number.
func (a *Attention) findSuccessors(ctx context.Context, p *Proposal) error {
	found, err := a.Ledger.RenumberingsOf(ctx, p.Record)
	for _, r := range found {
		if r.Old != p.Record {
			continue
		}
		known, err := a.Ledger.LabelsOf(ctx, []state.RecordID{r.New})
		if err != nil {
			return err
		}
		p.Successors = append(p.Successors, Successor{r.New, known[r.New].Name})
	}
	return err
}

// notes lists facts to know before the act, besides the changed fields.
func (p Proposal) notes() (notes []string) {
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	moves := func(m *syncer.Move) {
		say("The customer %s carries the number %s, and would carry %s.", m.From.BillingID, m.From.Key, m.Key)
		if len(m.Elsewise) > 0 {
			say("The customer %s already has that number. The payer is on hold until that changes.",
				strings.Join(m.Elsewise, " and "))
		}
		if m.Mandate != "" {
			say("Its mandate stays with it: %s.", m.Mandate.Label())
		}
	}
	switch {
	case p.Field != nil:
		say("The field shows the status %s, for all that payersync knows. The status is now %s.", p.Field.Applied, p.Field.To)
		if p.Field.Why != "" {
			notes = append(notes, p.Field.Why)
		}
	case p.Move != nil:
		moves(p.Move)
	case p.Merge != nil:
		say("The record %s is excluded, and %s stands for both.", p.Record.SourceID, p.Other.SourceID)
		if p.Merge.Move != nil {
			moves(p.Merge.Move)
		} else if of := p.Merge.Payer; of != nil && of.BillingID != "" {
			say("Its customer %s stays in the billing service. payersync no longer changes it.", of.BillingID)
			if m := p.Merge.Mandate; m != "" && m != connector.MandateCancelled {
				say("So does its mandate: %s. Cancel it if the payer has another.", m.Label())
			}
		}
	case p.Unlink != nil:
		notes = unlinkNotes(*p.Unlink)
	case p.Undo != nil && p.Undo.Adoption != nil:
		say("Our change linked this customer. The next run would unlink it, and take back the values that we wrote since.")
		notes = append(notes, unlinkNotes(*p.Undo.Adoption)...)
	case p.Holder != nil && len(p.Holder.Against) > 0:
		say("The two differ: %s.", strings.Join(p.Holder.Against, ", "))
	case p.Drift != nil && len(p.Drift.Fields) == 0:
		say("The customer has our values again.")
	case p.Forget != nil:
		say("payersync erases the record, its texts in lists, and its hashes for matches. Ids, statuses, times and the audit log stay.")
		notes = append(notes, p.Forget.Elsewhere...)
	}
	if p.holds {
		say("The payer is on hold while that customer has its number. Remove the number in the billing service.")
	}
	return notes
}

func unlinkNotes(u syncer.Unlink) (notes []string) {
	notes = append(notes, "The linked customer is "+u.Payer.BillingID+".")
	if u.Missing {
		notes = append(notes, "The customer no longer exists in the billing service.")
	}
	if u.Mandate != "" {
		notes = append(notes, "Its mandate stays with the customer: "+u.Mandate.Label()+". If this payer gave it, cancel it first.")
	}
	if len(u.Kept) > 0 {
		notes = append(notes, "Others changed these since, so they stay: "+strings.Join(u.Kept, ", ")+".")
	}
	return notes
}
