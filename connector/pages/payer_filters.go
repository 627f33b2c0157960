package pages

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// narrows are the filter fields of an address, in the order of an export's file name.
var narrows = []string{"connection", "mandate", "service", "person", "days"}

// Filter values in addition to the ledger's own.
const (
	anything = "any"  // any finding
	nowhere  = "none" // no payer
)

// inService are the states of a payer in the billing service, in words.
var inService = []option{
	{Value: string(connector.LinkLinked), Label: "There"}, {Value: string(connector.LinkNew), Label: "Waiting to be sent"},
	{Value: string(connector.LinkCreating), Label: "Being sent"},
	{Value: string(connector.LinkHeld), Label: "On hold: needs attention"},
	{Value: string(connector.LinkConflict), Label: "Customer uncertain"},
	{Value: string(connector.LinkMissing), Label: "Customer missing"}, {Value: nowhere, Label: "Excluded"},
}

// stood are the selectable numbers of days.
var stood = []int{3, 7, 14, 30, 60}

// filter is a choice of the form to narrow the list.
type filter struct {
	Name, Label, All string
	Options          []option
}

// option is an entry of it.
type option struct {
	Value, Label string
	Here         bool
}

// payerFilter returns the address's filter for payers.
func (v *visit) payerFilter() state.RecordFilter {
	f := state.RecordFilter{Mandate: v.filled("mandate"), Link: v.filled("service"), Reason: v.filled("person"),
		Sort: cmp.Or(payerOrders[v.filled("by")], state.ByKey)}
	if c := v.filled("connection"); slices.Contains(v.pages.cfg.Connections, c) {
		f.Connection = c
	}
	if f.Link == nowhere {
		f.Link, f.Others = "", true
	}
	if f.Reason == anything {
		f.Reason, f.Told = "", true
	}
	if days, err := strconv.Atoi(v.filled("days")); err == nil && slices.Contains(stood, days) {
		f.Stood = v.pages.now().AddDate(0, 0, -days)
	}
	return f
}

// narrowed returns what narrows the list as codes, for the audit log: what was searched for is
// not in it.
func (v *visit) narrowed() string {
	var codes []string
	for _, name := range narrows {
		if value := v.filled(name); value != "" {
			codes = append(codes, name+"="+value)
		}
	}
	return strings.Join(codes, " ")
}

// filters returns the choices of the form, with those of the address chosen.
func (v *visit) filters() (out []filter, err error) {
	if all := v.pages.cfg.Connections; len(all) > 1 {
		books := filter{Name: "connection", Label: "Connection", All: "All"}
		books.Options = append(books.Options,
			connector.Map(all, func(name string) option { return option{Value: name, Label: name} })...)
		out = append(out, books)
	}
	mandates := filter{Name: "mandate", Label: "Mandate", All: "All"}
	for _, status := range append(slices.Clone(connector.MandateStatuses), state.NoMandate) {
		label := mandate(string(status)).Word
		if status == state.NoMandate {
			label = "No mandate"
		}
		mandates.Options = append(mandates.Options, option{Value: string(status), Label: label})
	}
	person := filter{Name: "person", Label: "Needs attention", All: "All",
		Options: []option{{Value: anything, Label: "Yes, any finding"}}}
	counts, err := v.ledger().ReasonCounts(v.Context())
	for _, c := range counts {
		if c.Reason == connector.ReasonEventNotUnderstood || c.Reason == connector.ReasonSubscriptionChanged {
			continue // they are of no record
		}
		if c.Count == 0 {
			continue // they were put off, or are told with another record
		}
		person.Options = append(person.Options,
			option{Value: string(c.Reason), Label: admin.ReasonTitle(c.Reason) + " (" + number(c.Count) + ")"})
	}
	days := filter{Name: "days", Label: "Unchanged for", All: "Any time"}
	for _, n := range stood {
		days.Options = append(days.Options, option{Value: strconv.Itoa(n), Label: strconv.Itoa(n) + " days or more"})
	}
	out = append(out, mandates,
		filter{Name: "service", Label: "In the service", All: "All", Options: slices.Clone(inService)}, person, days)
	for _, f := range out {
		for i := range f.Options {
			f.Options[i].Here = f.Options[i].Value == v.filled(f.Name)
		}
	}
	return out, err
}

// byMandate returns the choices by the status of mandates, with the numbers of the last count.
func (v *visit) byMandate() (out []choiceOf, err error) {
	c, err := v.pages.cfg.Standings.Latest(v.Context())
	if errors.Is(err, admin.ErrCounting) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	add := func(status, label string, n int) {
		if here := v.filled("mandate") == status; n > 0 || here {
			out = append(out, choiceOf{label, v.with("mandate", status, "after", ""), n, here})
		}
	}
	add("", "All", c.Records)
	for _, status := range connector.MandateStatuses {
		add(string(status), mandate(string(status)).Word, c.Mandates[status])
	}
	add(state.NoMandate, "No mandate", c.Mandates[""])
	return out, nil
}

// sorts returns the links to the list in each order.
func (v *visit) sorts() (out []choice) {
	for _, by := range []choice{{Label: "number"}, {Label: "name", Path: "name"}, {Label: "mandate", Path: "mandate"},
		{Label: "longest unchanged", Path: "days"}} {
		out = append(out, choice{Label: by.Label, Path: v.with("by", by.Path, "after", ""), Here: v.filled("by") == by.Path})
	}
	return out
}
