package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/mapping"
	"payersync/state"
)

func (a *app) payersShowCmd() *cobra.Command {
	var p privacy
	var connection string
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Explain one payer: record, rules, customer, requests, mandates, what to do",
		Long: `Explains one payer, found by source id, key value, billing id or mandate id: its
record as it was last read, what each rule of the mapping made of it, the customer
that comes out, everything that was done for it with its outcome, its mandates,
where it stands and what to do next. Two connections may have the same id: both are
explained, or the one that --connection names. Reads the ledger, sends nothing.
Personal values are shortened unless --show-values is given; signing links and bank
details are never shown.`,
		Example: "  payersync payers show C0001\n  payersync payers show C0001 --show-values --output json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.mappingSession(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if err := s.Config.Has(connection); err != nil {
				return err
			}
			found, err := s.Ledger.FindRecords(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if connection != "" {
				found = slices.DeleteFunc(found, func(id state.RecordID) bool { return id.Connection != connection })
			}
			if len(found) == 0 {
				return fmt.Errorf("cannot show %q: no record%s has it as source id, key value, billing id or mandate id; payersync payers list --search finds it by name", args[0], of(connection))
			}
			for _, id := range found {
				if err := a.showPayer(cmd.Context(), s, id, p); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the record's connection; all of them when left out")
	p.flag(c)
	return c
}

// of names a connection in a sentence; blank for all of them.
func of(connection string) string {
	if connection == "" {
		return ""
	}
	return " of " + connection
}

// payerReport is what `payers show --output json` prints for a record.
type payerReport struct {
	Connection string              `json:"connection"`
	SourceID   string              `json:"source_id"`
	Key        connector.Key       `json:"key"`
	LinkState  connector.LinkState `json:"link_state,omitempty"` // "" for a record that is no payer
	BillingID  string              `json:"billing_id,omitempty"`
	MandateID  string              `json:"mandate_id,omitempty"`

	Record    recordReport         `json:"record"`
	Mapping   string               `json:"mapping_version,omitempty"` // that the rules are of; "" when they could not be tried
	Rules     []ruleTold           `json:"rules"`
	Customer  *connector.Customer  `json:"customer,omitempty"` // that the rules make
	NotSent   []string             `json:"not_sent,omitempty"` // paths of it that the dialect cannot write into a new customer
	Applied   *connector.Customer  `json:"applied,omitempty"`  // what the customer holds of us
	Accepted  []string             `json:"accepted,omitempty"` // fields in which the customer may differ, on a person's word
	Ignored   []string             `json:"ignored,omitempty"`  // parts that are left to the billing service
	Changes   []state.PastChange   `json:"changes"`
	History   []state.HistoryRow   `json:"history"`
	Attention []state.AttentionRow `json:"attention"`
	Stands    string               `json:"stands"`
	Next      string               `json:"next"`
}

type recordReport struct {
	State   connector.RecordState `json:"state"`
	Origin  string                `json:"origin"`
	Problem string                `json:"problem,omitempty"`
	Decided state.Verdict         `json:"decided,omitempty"` // by the last plan
	Fields  []fieldValue          `json:"fields"`
}

type fieldValue struct {
	Field string `json:"field"`
	Value string `json:"value"`
}

// ruleTold is a rule of the mapping and what it made of the record.
type ruleTold struct {
	Path    string       `json:"path"`
	Line    int          `json:"line"`
	Text    string       `json:"text"`
	Inputs  []fieldValue `json:"inputs"`
	Value   string       `json:"value"`
	Error   string       `json:"error,omitempty"`
	Skipped bool         `json:"skipped"`
}

func (a *app) showPayer(ctx context.Context, s *session.Session, id state.RecordID, p privacy) error {
	m, whyNot := a.mappingOf(ctx, s, id.Connection)
	version := ""
	if m != nil {
		version = m.Version()
	}
	stored, err := s.Ledger.StoredRecord(ctx, id.Connection, id.SourceID, version)
	if err != nil {
		return err
	}
	r := payerReport{Connection: id.Connection, SourceID: id.SourceID, Mapping: version, Rules: []ruleTold{}, Record: p.record(stored)}
	var x mapping.Explanation
	if m != nil && stored.Record.State == connector.RecordActive && stored.Record.Problem == "" {
		x = m.Explain(stored.Record)
		p.banks = bankEntries(x.Rules)
		r.Rules = p.rules(x.Rules)
		if x.Err == nil && x.Result.Included {
			r.Customer = p.customer(x.Result.Customer)
			r.NotSent = s.Config.Billing.Dialect.NotCarried(x.Result.Customer)
			r.Key = x.Result.Key
		}
	}
	if stored.Payer != nil {
		r.Key = stored.Payer.Key
	}
	if err := addHistory(ctx, s, &r, stored, p); err != nil {
		return err
	}
	r.Stands, r.Next = standing(stored, r, x)
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	a.printPayer(r, whyNot)
	return nil
}

// mappingOf loads the mapping that a connection is configured with.
func (a *app) mappingOf(ctx context.Context, s *session.Session, connection string) (*mapping.Mapping, error) {
	conn, err := a.storedAs(ctx, s, connection)
	if err != nil {
		return nil, err
	}
	return conn.Mapping, nil
}

// addHistory adds what the ledger knows beside the record.
func addHistory(ctx context.Context, s *session.Session, r *payerReport, stored state.StoredRecord, p privacy) error {
	var err, mandates, attention error
	r.Changes, err = s.Ledger.ChangesOf(ctx, r.Connection, r.SourceID)
	for i := range r.Changes {
		r.Changes[i].Diff = p.diff(r.Changes[i].Diff)
	}
	r.History = []state.HistoryRow{}
	if payer := stored.Payer; payer != nil {
		r.LinkState, r.BillingID, r.MandateID = payer.LinkState, payer.BillingID, payer.MandateID
		if payer.Applied != nil {
			r.Applied = p.customer(*payer.Applied)
		}
		for _, d := range payer.Accepted {
			if d.Ignored {
				r.Ignored = append(r.Ignored, d.Path)
			} else {
				r.Accepted = append(r.Accepted, d.Path)
			}
		}
		if payer.BillingID != "" {
			r.History, mandates = s.Ledger.History(ctx, payer.BillingID)
		}
	}
	r.Attention, attention = s.Ledger.AttentionOf(ctx, r.Connection, r.SourceID)
	return errors.Join(err, mandates, attention)
}

// bank matches the names of fields that hold bank details: no flag shows them.
var bank = regexp.MustCompile(`(?i)bank|iban|sort ?code|swift|\bbic\b`)

const notShown = "[not shown]"

// hides reports whether a field of a record or a customer, by its name or its
// path, holds bank details.
func (p privacy) hides(name string) bool {
	return bank.MatchString(name) || slices.Contains(p.banks, strings.TrimPrefix(name, "externalData."))
}

// bankEntries returns the names of the externalData entries that rules make of
// bank details.
func bankEntries(rules []mapping.Rule) []string {
	var out []string
	for _, r := range rules {
		name, external := strings.CutPrefix(r.Path, "externalData.")
		if external && slices.ContainsFunc(r.Inputs, func(in mapping.Input) bool { return bank.MatchString(in.Field) }) {
			out = append(out, name)
		}
	}
	return out
}

// field returns a field's value as it may be shown. Bank details inside a block
// or a list are taken out.
func (p privacy) field(name, value string) string {
	if value != "" && p.hides(name) {
		return notShown
	}
	if !strings.HasPrefix(value, "{") && !strings.HasPrefix(value, "[") {
		return p.bare(value)
	}
	var block any
	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.UseNumber()
	if decoder.Decode(&block) != nil {
		return p.bare(value)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(p.block(block)) != nil {
		return notShown
	}
	return strings.TrimSpace(out.String())
}

func (p privacy) block(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if v[name] = p.block(inner); p.hides(name) {
				v[name] = notShown
			}
		}
	case []any:
		for i, inner := range v {
			v[i] = p.block(inner)
		}
	case string:
		return p.bare(v)
	case json.Number:
		return p.bare(v.String())
	}
	return value
}

func (p privacy) record(r state.StoredRecord) recordReport {
	out := recordReport{State: r.Record.State, Origin: r.Record.Origin, Problem: r.Record.Problem, Decided: r.Verdict, Fields: []fieldValue{}}
	var fields map[string]json.RawMessage
	if json.Unmarshal(r.Record.Data, &fields) != nil {
		return out // an unreadable record has none; its problem says so
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text := string(fields[name])
		var s string
		if json.Unmarshal(fields[name], &s) == nil {
			text = s
		}
		if text != "" {
			out.Fields = append(out.Fields, fieldValue{name, p.field(name, text)})
		}
	}
	return out
}

func (p privacy) rules(rules []mapping.Rule) []ruleTold {
	out := make([]ruleTold, len(rules))
	for i, r := range rules {
		t := ruleTold{Path: r.Path, Line: r.Line, Text: r.Text, Inputs: []fieldValue{}, Error: r.Err, Skipped: r.Skipped, Value: p.field("", r.Value)}
		for _, in := range r.Inputs {
			t.Inputs = append(t.Inputs, fieldValue{in.Field, p.field(in.Field, in.Value)})
			if bank.MatchString(in.Field) && t.Value != "" {
				t.Value = notShown
			}
		}
		out[i] = t
	}
	return out
}

// customer returns a customer with its values as they may be shown.
func (p privacy) customer(c connector.Customer) *connector.Customer {
	out := connector.Customer{Name: p.bare(c.Name), ExternalData: map[string]string{}}
	for _, person := range c.People {
		out.People = append(out.People, connector.Person{
			Name: p.bare(person.Name), FirstName: p.bare(person.FirstName), LastName: p.bare(person.LastName), Email: p.bare(person.Email), Phone: p.bare(person.Phone),
		})
	}
	for _, place := range c.Addresses {
		out.Addresses = append(out.Addresses, connector.Address{
			Line1: p.bare(place.Line1), City: p.bare(place.City), PostCode: p.bare(place.PostCode), Country: p.bare(place.Country),
		})
	}
	for name, value := range c.ExternalData {
		out.ExternalData[name] = p.field(name, value)
	}
	return &out
}

// standing says in two sentences where a record stands and what to do next. What
// needs a person comes first.
func standing(stored state.StoredRecord, r payerReport, x mapping.Explanation) (stands, next string) {
	if len(r.Attention) > 0 {
		first := r.Attention[0]
		return first.Detail, connector.Reason(first.Reason).Next()
	}
	waiting := slices.IndexFunc(r.Changes, func(c state.PastChange) bool { return c.State == connector.ChangePending })
	switch {
	case stored.InFlight:
		return "A request was sent and its outcome is not known yet.", "Nothing: the next sync finds out by itself."
	case waiting >= 0 && !r.Changes[waiting].Approved:
		return fmt.Sprintf("Its %s is planned.", r.Changes[waiting].Action), "Run payersync sync; if the plan is above the limits, payersync status names it."
	case waiting >= 0:
		return fmt.Sprintf("Its %s is planned and may be sent.", r.Changes[waiting].Action), "Run payersync sync, or wait for the schedule."
	case stored.Facts.Words.Unlink != 0:
		return "A person said that its customer is not its own.", "Run payersync sync, which takes the record's key off it; payersync payers unlink --keep takes the word back."
	case stored.Merged:
		return fmt.Sprintf("A person said that it is the same payer as %s, which stands for both.", stored.Record.MergedInto), "Nothing; payersync payers merge --separate takes that back."
	case stored.Facts.Words.Leave != 0:
		return "Its record has left, and somebody has said that it may stay as it is.", "Nothing. It is told again when it returns and leaves once more, or gets another mandate."
	case stored.Verdict == state.Excluded:
		return "The mapping leaves it out: it is no payer.", "Nothing; or edit include in the mapping, and look with payersync mapping preview."
	case stored.Verdict == "" || stored.Payer == nil:
		return "It is not planned yet.", "Run payersync plan."
	}
	return standingOfMandate(r, x)
}

// standingOfMandate is standing for a payer of whom nothing is left to be sent.
func standingOfMandate(r payerReport, x mapping.Explanation) (stands, next string) {
	if r.LinkState != connector.LinkLinked {
		return fmt.Sprintf("Its link is %s.", r.LinkState), "Run payersync sync."
	}
	status := connector.MandateStatus("")
	if len(r.History) > 0 {
		status = connector.MandateStatus(r.History[len(r.History)-1].ToStatus)
	}
	stands = fmt.Sprintf("It is linked; its mandate is %s.", status.Label())
	switch status {
	case connector.MandateActive:
		return stands, "Nothing."
	case connector.MandateCreated:
		return stands, "The payer has to sign: payersync mandates export writes the links to send out."
	case connector.MandatePending:
		return stands, "Nothing: the bank decides."
	case "":
		if x.Err == nil && x.Result.Included && !x.Result.RequestMandate {
			return "It is linked, and the mapping asks for no mandate.", "Nothing; or ask for one with payersync mandates request."
		}
		return "It is linked and has no mandate.", "Run payersync sync, or ask for one with payersync mandates request."
	}
	return stands, "Ask the billing service what this status means."
}

func (a *app) printPayer(r payerReport, whyNot error) {
	fmt.Fprintf(a.Out, "%s, record %s", r.Connection, show.Visible(r.SourceID))
	if r.Key.Value != "" {
		fmt.Fprintf(a.Out, " (%s)", show.Visible(r.Key.String()))
	}
	fmt.Fprintf(a.Out, ": %s\n", orElse(string(r.LinkState), "no payer"))
	if r.BillingID != "" {
		fmt.Fprintf(a.Out, "  customer %s\n", show.Visible(r.BillingID))
	}
	if len(r.Attention) == 0 {
		fmt.Fprintf(a.Out, "  %s %s\n", show.Visible(r.Stands), r.Next)
	}
	for _, n := range r.Attention {
		fmt.Fprintf(a.Out, "  ! %s %s\n", show.Visible(n.Detail), connector.Reason(n.Reason).Next())
	}
	a.printRecord(r.Record)
	a.printRules(r, whyNot)
	a.printCustomerAs("The customer that it becomes", r.Customer, r.NotSent)
	a.printCustomerAs("What the customer holds of us", r.Applied, r.NotSent)
	if len(r.Accepted) > 0 {
		fmt.Fprintf(a.Out, "  it may differ until our value changes: %s\n", show.Visible(strings.Join(r.Accepted, ", ")))
	}
	if len(r.Ignored) > 0 {
		fmt.Fprintf(a.Out, "  left to the billing service: %s\n", strings.Join(r.Ignored, ", "))
	}
	a.printChanges(r.Changes)
	if len(r.History) > 0 {
		fmt.Fprintln(a.Out, "\nMandates")
	}
	for _, h := range r.History {
		fmt.Fprintf(a.Out, "  %s  mandate %s: %s (seen by %s)\n", show.Stored(h.ObservedAt), show.Visible(h.MandateID), show.Visible(connector.MandateStatus(h.ToStatus).Label()), h.Cause)
	}
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (a *app) printRecord(r recordReport) {
	fmt.Fprintf(a.Out, "\nThe record: %s, %s\n", r.State, show.Visible(r.Origin))
	if r.Problem != "" {
		fmt.Fprintf(a.Out, "  %s\n", show.Visible(r.Problem))
	}
	for _, f := range r.Fields {
		fmt.Fprintf(a.Out, "  %s: %s\n", show.Visible(f.Field), show.Visible(f.Value))
	}
}

func (a *app) printRules(r payerReport, whyNot error) {
	if whyNot != nil {
		fmt.Fprintf(a.Out, "\nThe mapping cannot be tried on it:\n%s\n", shownLines(whyNot.Error()))
		return
	}
	if len(r.Rules) == 0 {
		return
	}
	fmt.Fprintf(a.Out, "\nThe rules, of mapping version %s\n", r.Mapping[:shortHash])
	for _, rule := range r.Rules {
		fmt.Fprintf(a.Out, "  line %-3d %s = %s\n", rule.Line, rule.Path, show.Visible(rule.Text))
		var inputs []string
		for _, in := range rule.Inputs {
			inputs = append(inputs, in.Field+" "+orElse(in.Value, "blank"))
		}
		if len(inputs) > 0 {
			fmt.Fprintf(a.Out, "             from %s\n", show.Visible(strings.Join(inputs, ", ")))
		}
		switch {
		case rule.Error != "":
			fmt.Fprintf(a.Out, "             ! %s\n", show.Visible(rule.Error))
		case rule.Skipped:
			fmt.Fprintln(a.Out, "             not reached")
		default:
			fmt.Fprintf(a.Out, "             gives %s\n", show.Visible(orElse(rule.Value, "blank")))
		}
	}
}

func (a *app) printCustomerAs(title string, c *connector.Customer, notSent []string) {
	if c == nil {
		return
	}
	fmt.Fprintf(a.Out, "\n%s\n", title)
	for _, d := range connector.Diff(connector.Customer{}, *c) {
		note := ""
		if slices.Contains(notSent, d.Path) {
			note = "  (not sent: the short spelling of addresses has none)"
		}
		fmt.Fprintf(a.Out, "  %s: %s%s\n", d.Path, show.Visible(d.To), note)
	}
}

func (a *app) printChanges(changes []state.PastChange) {
	if len(changes) == 0 {
		return
	}
	fmt.Fprintln(a.Out, "\nWhat was done")
	for _, c := range changes {
		fmt.Fprintf(a.Out, "  %s  %d: %s %s, run %d", show.Time(c.UpdatedAt), c.ID, c.Action, c.State, c.RunID)
		if c.Attempts > 0 {
			fmt.Fprintf(a.Out, ", %s", show.Plural(c.Attempts, "attempt"))
		}
		fmt.Fprintln(a.Out)
		if c.Reason != "" {
			fmt.Fprintf(a.Out, "      %s\n", show.Visible(orElse(c.Detail, c.Reason.Sentence())))
		}
		if c.Action == connector.ActionCreate || c.Action == connector.ActionLink {
			continue
		}
		for _, d := range c.Diff { // values were made fit to be shown
			fmt.Fprintf(a.Out, "      %s: %s → %s\n", d.Path, orElse(d.From, "blank"), orElse(d.To, "blank"))
		}
	}
}
