package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/readiness"
	"payersync/mapping"
	"payersync/state"
)

// Payer holds all facts about one record: its content, the mapped customer, its history, and its state.
type Payer struct {
	Connection string              `json:"connection"`
	SourceID   string              `json:"source_id"`
	Key        connector.Key       `json:"key"`
	LinkState  connector.LinkState `json:"link_state,omitempty"` // "" for a record that is no payer
	BillingID  string              `json:"billing_id,omitempty"`
	MandateID  string              `json:"mandate_id,omitempty"`
	state.Financial

	Record StoredRecord `json:"record"`
	// that the rules are of; "" when they could not be tried
	Mapping  string              `json:"mapping_version,omitempty"`
	Rules    []Rule              `json:"rules"`
	Customer *connector.Customer `json:"customer,omitempty"` // made by the rules
	// its paths that the dialect cannot write into a new customer
	NotSent []string            `json:"not_sent,omitempty"`
	Applied *connector.Customer `json:"applied,omitempty"` // the values sent last, or linked
	// the customer's differing values at the last read; nil before the first
	Read *state.Read `json:"read,omitempty"`
	// fields in which the customer may differ, by a person's decision
	Accepted  []string             `json:"accepted,omitempty"`
	Ignored   []string             `json:"ignored,omitempty"` // parts left to the billing service
	Changes   []state.PastChange   `json:"changes"`
	History   []state.HistoryRow   `json:"history"`
	Attention []state.AttentionRow `json:"attention"`
	Stands    string               `json:"stands"`
	Next      string               `json:"next"`
	Steps     []connector.Step     `json:"-"` // behind Next
}

// StoredRecord is a record as it was read last.
type StoredRecord struct {
	State   connector.RecordState `json:"state"` // of a forgotten payer's record, "forgotten"
	Origin  string                `json:"origin"`
	Problem string                `json:"problem,omitempty"`
	Decided state.Verdict         `json:"decided,omitempty"` // by the last plan
	Fields  []Field               `json:"fields"`
}

// Field is a field of a record, and its value as it may be shown.
type Field struct {
	Field string `json:"field"`
	Value string `json:"value"`
}

// Rule is a rule of the mapping with its result for the record.
type Rule struct {
	Path    string  `json:"path"`
	Line    int     `json:"line"`
	Text    string  `json:"text"`
	Inputs  []Field `json:"inputs"`
	Value   string  `json:"value"`
	Error   string  `json:"error,omitempty"`
	Skipped bool    `json:"skipped"`
}

// Explainer explains a payer; the zero value explains none.
type Explainer struct {
	Mapping *mapping.Mapping                  // nil if it cannot be tried
	NotSent func(connector.Customer) []string // the unsendable paths of a new customer
}

// PayerOf returns the facts about a record, with its values as they may be shown.
func PayerOf(ctx context.Context, ledger *state.Ledger, id state.RecordID, by Explainer, p Privacy) (Payer, error) {
	m, version := by.Mapping, ""
	if m != nil {
		version = m.Version()
	}
	stored, err := ledger.StoredRecord(ctx, id.Connection, id.SourceID, version)
	if err != nil {
		return Payer{}, err
	}
	r := Payer{Connection: id.Connection, SourceID: id.SourceID, Mapping: version, Rules: []Rule{},
		Record: p.record(stored)}
	var x mapping.Explanation
	if m != nil && stored.Record.State == connector.RecordActive && stored.Record.Problem == "" {
		x = m.Explain(stored.Record)
		p.banks = bankEntries(x.Rules)
		r.Rules = p.rules(x.Rules)
		if x.Err == nil && x.Result.Included {
			r.Customer = p.customer(x.Result.Customer)
			r.NotSent = by.NotSent(x.Result.Customer)
			r.Key = x.Result.Key
		}
	}
	if stored.Payer != nil {
		r.Key = stored.Payer.Key
	}
	if err := r.addHistory(ctx, ledger, stored, p); err != nil {
		return Payer{}, err
	}
	r.whereItStands(stored, x)
	return r, nil
}

// addHistory adds the ledger's other facts about the record.
func (r *Payer) addHistory(ctx context.Context, ledger *state.Ledger, stored state.StoredRecord, p Privacy) error {
	var err, read, mandates, money, attention error
	r.Changes, err = ledger.ChangesOf(ctx, r.Connection, r.SourceID)
	for i := range r.Changes {
		r.Changes[i].Diff = p.Diff(r.Changes[i].Diff)
	}
	r.History = []state.HistoryRow{}
	if payer := stored.Payer; payer != nil {
		r.LinkState, r.BillingID, r.MandateID = payer.LinkState, payer.BillingID, payer.MandateID
		if payer.Applied != nil {
			r.Applied = p.customer(*payer.Applied)
		}
		if r.Read, read = ledger.LastRead(ctx, *payer); r.Read != nil {
			r.Read.Differs = p.Diff(r.Read.Differs)
		}
		for _, d := range payer.Accepted {
			if d.Ignored {
				r.Ignored = append(r.Ignored, d.Path)
			} else {
				r.Accepted = append(r.Accepted, d.Path)
			}
		}
		if payer.BillingID != "" {
			r.History, mandates = ledger.History(ctx, payer.BillingID)
			r.Financial, money = ledger.Financial(ctx, payer.BillingID)
		}
	}
	r.Attention, attention = ledger.AttentionOf(ctx, r.Connection, r.SourceID)
	return errors.Join(err, read, mandates, money, attention)
}

// Held is a field of a customer as the billing service was last read to hold it.
type Held struct {
	Path, Value string
	Sent        string // what was sent instead; "" where the value is that
	Otherwise   bool   // it holds another value than was sent
}

// Holds returns the billing service's values of our fields as last read; without a read, the values sent.
func (r Payer) Holds() []Held {
	if r.Applied == nil {
		return nil
	}
	otherwise := map[string]connector.FieldChange{}
	if r.Read != nil {
		for _, d := range r.Read.Differs {
			otherwise[d.Path] = d
		}
	}
	var out []Held
	for _, d := range connector.Diff(connector.Customer{}, *r.Applied) {
		h := Held{Path: d.Path, Value: d.To}
		if o, differs := otherwise[d.Path]; differs {
			h = Held{d.Path, o.To, d.To, true}
			delete(otherwise, d.Path)
		}
		out = append(out, h)
	}
	for path, o := range otherwise {
		out = append(out, Held{path, o.To, "", true})
	}
	slices.SortFunc(out, func(a, b Held) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// whereItStands describes a record's state and the next step in two sentences. Findings for a person come first.
func (r *Payer) whereItStands(stored state.StoredRecord, x mapping.Explanation) {
	if len(r.Attention) > 0 {
		first := r.Attention[0]
		r.Stands, r.Next = first.Detail, connector.Reason(first.Reason).Next()
		return
	}
	act := func(a connector.Act) connector.Step {
		return connector.Step{Act: a, Of: r.SourceID, Connection: r.Connection}
	}
	run := connector.Step{Do: connector.DoSync}
	takeBack := "If that is intended, nothing. Otherwise, take it back."
	is := func(stands, next string, steps ...connector.Step) { r.Stands, r.Next, r.Steps = stands, next, steps }
	waiting := slices.IndexFunc(r.Changes, func(c state.PastChange) bool { return c.State == connector.ChangePending })
	switch {
	case stored.InFlight:
		is("payersync sent a request, and its outcome is unknown.", "Nothing: the next run checks this by itself.")
	case waiting >= 0 && !r.Changes[waiting].Approved:
		is(fmt.Sprintf("Its %s is planned.", r.Changes[waiting].Action), readiness.Planned, run,
			connector.Step{Do: connector.DoListPlans})
	case waiting >= 0:
		is(fmt.Sprintf("Its %s is planned and may be sent.", r.Changes[waiting].Action),
			"Wait for the schedule, or start a run.", run)
	case stored.Facts.Words.Unlink != 0:
		is("A person said that its customer is not its own.",
			"The next run takes the record's key off it. Start a run, or take the decision back.", run, act(connector.ActKeep))
	case stored.Forgotten != state.ForgottenNot:
		is("Its payer was forgotten: nothing but ids, statuses and times is kept of it, and nothing is sent for it.",
			takeBack, act(connector.ActUnforget))
	case stored.Merged:
		is(fmt.Sprintf("A person merged it into record %s, which stands for both.", stored.Record.MergedInto), takeBack,
			act(connector.ActSeparate))
	case stored.GivenUp:
		is("A person gave it up, so payersync sends nothing for it.", takeBack, act(connector.ActTakeUp))
	case stored.Facts.Words.Leave != 0:
		is("Its record has left, and somebody has said that it may stay as it is.",
			"Nothing. It is told again when it returns and leaves once more, or gets another mandate.")
	case stored.Verdict == state.Excluded:
		is("Excluded: the mapping does not include it.",
			"If that is intended, nothing. Otherwise, edit include in the mapping, and preview it.",
			connector.Step{Do: connector.DoPreviewMapping, Connection: r.Connection})
	case stored.Verdict == "" || stored.Payer == nil:
		is("It is not planned yet.", "Make a plan.", connector.Step{Do: connector.DoPlan, Connection: r.Connection})
	default:
		r.whereMandateStands(is, stored, x)
	}
}

// whereMandateStands is whereItStands for a payer with nothing left to send.
func (r *Payer) whereMandateStands(is func(stands, next string, steps ...connector.Step), stored state.StoredRecord,
	x mapping.Explanation) {
	run := connector.Step{Do: connector.DoSync}
	if r.LinkState != connector.LinkLinked {
		is(fmt.Sprintf("It is not linked to a customer (%s).", r.LinkState), "Start a run.", run)
		return
	}
	status := connector.MandateStatus("")
	if len(r.History) > 0 {
		status = connector.MandateStatus(r.History[len(r.History)-1].ToStatus)
	}
	stands := fmt.Sprintf("It is linked; its mandate is %s.", status.Label())
	switch status {
	case connector.MandateActive:
		is(stands, "Nothing.")
	case connector.MandateCreated:
		is(stands, "The payer has to sign. Send out the signing link.", connector.Step{Do: connector.DoHandOver})
	case connector.MandatePending:
		is(stands, "Nothing: the bank decides.")
	case connector.MandateMigrating:
		is(stands, "Nothing: it is active once it has been moved here.")
	case "":
		if u := unaskedNow(stored, x); u.Why != "" {
			s := readiness.NotAsked(u)
			is("It is linked. "+s.Sentence, s.Cure, s.Steps(state.RecordID{Connection: r.Connection, SourceID: r.SourceID})...)
			return
		}
		is("It is linked and has no mandate.", "Start a run, or request one.", run,
			connector.Step{Act: connector.ActRequest, Of: r.SourceID, Connection: r.Connection})
	default:
		is(stands, "Ask the billing service what this status means.")
	}
}

// unaskedNow says why the payer is not asked by a person's decision, or by the mapping as it is now.
func unaskedNow(stored state.StoredRecord, x mapping.Explanation) state.Unasked {
	switch {
	case stored.Asking == connector.DoNotAsk:
		return state.Unasked{Why: connector.UnaskedPerson}
	case stored.Asking == connector.Ask, x.Err != nil, !x.Result.Included:
		return state.Unasked{}
	}
	return state.Unasked(x.Result.Unasked)
}
