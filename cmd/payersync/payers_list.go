package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

var linkStates = []connector.LinkState{
	connector.LinkNew, connector.LinkCreating, connector.LinkLinked, connector.LinkMissing, connector.LinkConflict,
	connector.LinkHeld,
}

// payerColumn is a column of payers list.
type payerColumn struct {
	show.Column[payerRow]
	personal bool
}

// labelled returns a column of a record's label.
func labelled(name, title string, of func(connector.Label) string) payerColumn {
	return payerColumn{column(name, title, func(r payerRow) string {
		if r.Label == nil {
			return ""
		}
		return of(*r.Label)
	}).Column, true}
}

func column(name, title string, of func(payerRow) string) payerColumn {
	return payerColumn{Column: show.Column[payerRow]{Name: name, Title: title, Cell: of}}
}

func timed(name, title string, of func(payerRow) string) payerColumn {
	return payerColumn{Column: show.StoredMoment(name, title, of)}
}

var payerColumns = []payerColumn{
	column("connection", "Connection", func(r payerRow) string { return r.Connection }),
	column("record", "Record", func(r payerRow) string { return r.SourceID }),
	labelled("name", "Name", func(l connector.Label) string { return l.Name }),
	labelled("email", "E-mail", func(l connector.Label) string { return l.Email }),
	labelled("language", "Language", func(l connector.Label) string { return l.Language }),
	column("key", "Key", func(r payerRow) string {
		if r.KeyName == "" {
			return ""
		}
		return r.KeyName + "=" + r.KeyValue
	}),
	{Column: show.Column[payerRow]{Name: "link", Title: "Link", Cell: func(r payerRow) string {
		if r.Left && r.LinkState != "" {
			return r.LinkState + ", left"
		}
		return r.LinkState
	}, Stored: func(r payerRow) string { return r.LinkState }}},
	column("customer", "Customer", func(r payerRow) string { return show.Value(r.BillingID) }),
	column("mandate", "Mandate", func(r payerRow) string { return show.Value(r.MandateStatus) }),
	timed("since", "Since", func(r payerRow) string { return r.MandateSince }),
	column("attention", "Attention", func(r payerRow) string {
		if r.GivenUp && r.AttentionReason == nil {
			return "given up"
		}
		return show.Value(r.AttentionReason)
	}),
	column("decision", "Decision", func(r payerRow) string {
		if r.GivenUp {
			return "given up"
		}
		return r.Decision
	}),
	column("left", "Left", func(r payerRow) string { return map[bool]string{true: "yes"}[r.Left] }),
	column("state", "In the accounting system", func(r payerRow) string { return r.RecordState }),
	timed("changed", "Changed", func(r payerRow) string { return r.ChangedAt }),
	{Column: show.Column[payerRow]{Name: "financial", Title: "Financial status",
		Cell: func(r payerRow) string { return r.RecordRow.Financial.Status }}, personal: true},
}

// usualColumns are the columns of a list when nobody says.
var usualColumns = []string{"connection", "record", "name", "key", "link", "customer", "mandate", "attention"}

var payerSorts = []state.RecordSort{state.ByRecord, admin.ByName, state.ByKey, state.ByLink, state.ByMandate,
	state.BySince, state.ByChanged}

// payerListing is the request of payers list.
type payerListing struct {
	admin.Query
	all          bool
	columns      []string
	since, until string
}

func (a *app) payersListCmd() *cobra.Command {
	var l payerListing
	var sort string
	c := &cobra.Command{
		Use:   "list",
		Short: "List payers by name and state, or search for one",
		Long: `Lists payers with their names and states. With --all it lists every record, also
excluded and unreadable ones.

--search finds records with all the given words, in any order and in part, in the
name, the number, the e-mail address or an id. It ignores case and accents, and prints
500 records at most. Names are sealed: without the sealing key the list omits them. A
narrow terminal omits the customer, the key and the connection.

--columns takes names of columns, separated by commas:
` + strings.Join(columnNames()[:8], ", ") + ",\n" + strings.Join(columnNames()[8:], ", ") +
			`. JSON has all columns. It has those about persons (name, email, language, financial)
only if --columns names them. Times are local in tables, and UTC in JSON and CSV.
Cells of the CSV that look like a formula get a leading apostrophe.`,
		Example: `  payersync payers list --search 'bakery leeds'
  payersync payers list --mandate CREATED --sort since --columns record,name,email,since
  payersync payers list --all --output csv > books.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runPayersList(cmd, l, sort) },
	}
	f := c.Flags()
	f.StringVar(&l.Connection, "connection", "", "only this connection")
	f.BoolVar(&l.all, "all", false, "every record, also excluded ones")
	f.StringVar(&l.Text, "search", "", "only records with these `WORDS` in name, number, e-mail address or id")
	f.StringVar(&l.Link, "state", "", "only this state (new, creating, linked, missing, conflict, held)")
	f.StringVar(&l.Mandate, "mandate", "", "only this mandate status, for example CREATED, or none")
	f.StringVar(&l.Reason, "reason", "", "only records that need attention for this reason code")
	f.StringVar(&l.since, "since", "",
		"only records changed since this `DATE` or time, or so long ago: 2026-11-20, 36h, 14d")
	f.StringVar(&l.until, "until", "", "only records changed before this `DATE` or time")
	f.StringVar(&sort, "sort", string(state.ByRecord), "the order: "+joined(payerSorts))
	f.StringSliceVar(&l.columns, "columns", nil,
		"the columns, separated by commas (default "+strings.Join(usualColumns, ",")+")")
	limitFlag(c)
	return asCSV(c)
}

func (a *app) runPayersList(cmd *cobra.Command, l payerListing, sort string) error {
	l.Sort, l.Limit = state.RecordSort(sort), a.limitOf(cmd)
	if err := l.check(a.now()); err != nil {
		return err
	}
	return a.with(cmd.Context(), a.openReport, func(s *session.Session) error {
		return a.listPayers(cmd.Context(), s, l)
	})
}

func columnNames() []string {
	out := make([]string, len(payerColumns))
	for i, c := range payerColumns {
		out[i] = c.Name
	}
	return out
}

func joined[T ~string](names []T) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = string(n)
	}
	return strings.Join(out, ", ")
}

// check completes the request, and returns its mistakes.
func (l *payerListing) check(now time.Time) error {
	if slices.Contains(l.columns, "") {
		return usage.Errorf("--columns has a blank name in it; write the names with one comma between them")
	}
	l.Payers = !l.all && l.Text == ""
	var since, until error
	l.Since, since = moment("since", l.since, now)
	l.Until, until = moment("until", l.until, now)
	errs := []error{oneOf("state", l.Link, linkStates...), oneOf("reason", l.Reason, reasons()...),
		oneOf("sort", string(l.Sort), payerSorts...), since, until}
	errs = append(errs, connector.Map(l.columns,
		func(name string) error { return oneOf("columns", name, columnNames()...) })...)
	return errors.Join(errs...)
}

// moment reads a date, a time, or how long ago.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", time.DateTime, time.RFC3339} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	ago, err := time.ParseDuration(text)
	var days int
	if n, scanErr := fmt.Sscanf(text, "%dd", &days); scanErr == nil && n == 1 && text == fmt.Sprintf("%dd", days) {
		ago, err = time.Duration(days)*24*time.Hour, nil
	}
	if err != nil || ago < 0 {
		return time.Time{}, usage.Errorf("--%s is no date, no time and no length of time: %q; write it as 2026-11-20, as \"2026-11-20 15:04\", as 36h or as 14d", flag, text)
	}
	return now.Add(-ago), nil
}

func (a *app) listPayers(ctx context.Context, s *session.Session, l payerListing) error {
	if err := s.Config.Has(l.Connection); err != nil {
		return err
	}
	var err error
	if l.Mandate, err = parseStatus(ctx, s.Ledger, "mandate", l.Mandate); err != nil {
		return err
	}
	lists := &admin.Lists{Ledger: s.Ledger, Once: true}
	list := show.Listing[payerRow]{Paged: true}
	list.On(a.Console)
	if l.Text != "" {
		list.Empty = "No record has all these words in its name, number, e-mail address or id."
	}
	if len(l.columns) == 0 {
		list.Narrow = firstToGo
	}
	var last admin.Page
	err = lists.Each(ctx, l.Query, func(p admin.Page) error {
		p.Bare += last.Bare
		last = p
		list.Columns = l.shownColumns(p.Sealed)
		return list.Write(payerReports(p.Rows, l.columns))
	})
	if errors.Is(err, admin.ErrSealed) {
		return fmt.Errorf("cannot search or sort by name: the names are sealed, and the sealing key %s cannot be read here; put it back, or look for one record by its id with payersync payers show", s.Config.Ledger.KeyFile)
	}
	if err == nil {
		err = list.End()
	}
	if err != nil {
		return err
	}
	a.printPage(ctx, s, last, l)
	return nil
}

// payerRow is a record in the JSON of payers list; personal values only on request.
type payerRow struct {
	state.RecordRow
	Name     *string `json:"name,omitempty"`
	Email    *string `json:"email,omitempty"`
	Language *string `json:"language,omitempty"`

	*state.Financial
}

func payerReports(rows []state.RecordRow, columns []string) []payerRow {
	out := make([]payerRow, len(rows))
	for i, r := range rows {
		out[i].RecordRow = r
		if slices.Contains(columns, "financial") {
			out[i].Financial = &out[i].RecordRow.Financial
		}
		if r.Label == nil {
			continue
		}
		for column, into := range map[string]struct {
			to   **string
			text *string
		}{"name": {&out[i].Name, &r.Label.Name}, "email": {&out[i].Email, &r.Label.Email},
			"language": {&out[i].Language, &r.Label.Language}} {
			if slices.Contains(columns, column) {
				*into.to = into.text
			}
		}
	}
	return out
}

// shownColumns are the columns of a listing, without the personal ones if names are sealed.
func (l payerListing) shownColumns(sealed bool) (columns []show.Column[payerRow]) {
	names := l.columns
	if len(names) == 0 {
		names = usualColumns
		if !l.Payers {
			names = append(slices.Clone(names), "decision")
		}
	}
	for _, name := range names {
		if c := payerColumns[slices.Index(columnNames(), name)]; !sealed || !c.personal {
			columns = append(columns, c.Column)
		}
	}
	return columns
}

// firstToGo are the columns dropped on a narrow terminal, in order.
var firstToGo = []string{"Customer", "Key", "Connection"}

// printPage describes the rows the list does not show.
func (a *app) printPage(ctx context.Context, s *session.Session, page admin.Page, l payerListing) {
	switch {
	case page.More && l.Text != "":
		a.Print("There are more: these are the first %d. Narrow the search with another word, or list more with --limit.",
			l.Limit)
	case page.Cut:
		a.Print("There are more: a search gives %d at most. Narrow it with another word.", admin.MostFound)
	case page.More:
		if n, err := s.Ledger.CountRecords(ctx, l.RecordFilter); err == nil {
			a.Print("These are %d of %d: --limit 0 lists every one.", l.Limit, n)
		}
	}
	wantsNames := !a.JSON() ||
		slices.ContainsFunc(l.columns,
			func(name string) bool { return name == "name" || name == "email" || name == "language" })
	if wantsNames {
		a.warnNameless(s, page.Sealed, page.Bare)
	}
	if l.Payers && a.Output == "table" {
		others := l.RecordFilter
		others.Payers, others.Others = false, true
		if n, err := s.Ledger.CountRecords(ctx, others); err == nil && n > 0 {
			a.Print("%s excluded besides: payersync payers list --all lists every record.", connector.Plural(n, "record"))
		}
	}
}
