package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/readiness"
	"payersync/connector/safecsv"
	"payersync/state"
)

func (a *app) reportCmd() *cobra.Command {
	var connection, class, task string
	c := &cobra.Command{
		Use:   "report",
		Short: "List who can be debited, who cannot yet, the reasons, and who must act",
		Long: `Puts every record into exactly one class, so that the totals add up to the number of
records, and says who must act:

` + classLines() + `
A table shows the time that records have spent in each class. Below it are the records
that need attention, the oldest first; with --class, all of that class. With --task, it
has the records of one line of payersync status. CSV and JSON have every record, in the
order of connections and ids. Times are local in tables, and UTC in JSON and CSV. JSON
is one object. It has at, connection, and rows (without names, as it goes into logs).
Its totals go by class and step, with ages of up to 7, 14, 30, 60 and more days.
signing counts the days from the signing link to the signature, in groups of ten or
more. There are notes, and not_asked: payers not asked for a mandate, by rule of the
mapping.

With billing.dialect.financial_status, rows end with the customer's financial status
in the service's own word, and CSV and JSON have the time when payersync last read it.
payersync does nothing else with it.

A payer that can be debited has a mandate approved by a bank; this says nothing about
collected money.`,
		Example: "  payersync report\n  payersync report --class D --connection acme\n  payersync report --output csv > report.csv",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runReport(cmd, connection, class, task) },
	}
	c.Flags().StringVar(&connection, "connection", "", "only this connection")
	c.Flags().StringVar(&class, "class", "", "only the records of this class: "+joined(readiness.Classes))
	c.Flags().StringVar(&task, "task", "", "only the records with this task: "+joined(admin.Tasks))
	limitFlag(c)
	return asCSV(c)
}

func (a *app) runReport(cmd *cobra.Command, connection, class, named string) error {
	class, task := strings.ToUpper(class), admin.TaskNamed(named)
	if err := errors.Join(oneOf("class", class, readiness.Classes...),
		oneOf("task", string(task), admin.Tasks...)); err != nil {
		return err
	}
	r := reporting{on: admin.ReportOn{Connection: connection}, class: readiness.Class(class), task: task,
		limit: a.limitOf(cmd)}
	return a.with(cmd.Context(), a.openReport, func(s *session.Session) error {
		r.on.Valid = s.Config.Billing.LinkValid.Length()
		return a.printReport(cmd.Context(), s, &r)
	})
}

// classLines lists the classes for people.
func classLines() string {
	var out strings.Builder
	for _, c := range readiness.Classes {
		fmt.Fprintf(&out, "  %s  %s\n", c, c.Title())
	}
	return out.String()
}

// reporting is a requested report, with its kept rows.
type reporting struct {
	on    admin.ReportOn
	class readiness.Class
	task  admin.Task
	limit int // 0 for none

	kept []keptRow // of a table
	more bool
}

// keptRow is the kept part of a row until a table is in order.
type keptRow struct {
	state.RecordID
	left             bool // its class comes first
	named, financial bool // it has something in these columns
	days             int
}

// lists reports whether a row is listed.
func (r *reporting) lists(row admin.ReportRow, table bool) bool {
	if r.class != "" || r.task != "" || !table {
		return (r.class == "" || row.Class == r.class) && (r.task == "" || row.Task == r.task)
	}
	return row.Who != readiness.Nobody || row.Class == readiness.LeftBehind
}

func (a *app) printReport(ctx context.Context, s *session.Session, r *reporting) error {
	if err := s.Config.Has(r.on.Connection); err != nil {
		return err
	}
	var whole admin.Report
	var err error
	switch {
	case a.JSON():
		whole, err = a.reportJSON(ctx, s, r)
	case a.CSV():
		whole, err = a.reportCSV(ctx, s, r)
	default:
		whole, err = admin.MakeReport(ctx, s.Ledger, r.on, r.keep)
		if err == nil {
			err = a.showReport(ctx, s, whole, r)
		}
	}
	if err != nil {
		return err
	}
	a.printMore(r.more, r.limit)
	a.warnNameless(s, whole.Sealed, whole.Bare)
	return nil
}

// upToLimit passes on the listed rows, up to the limit.
func (r *reporting) upToLimit(do func(admin.ReportRow) error) func(admin.ReportRow) error {
	n := 0
	return func(row admin.ReportRow) error {
		if !r.lists(row, false) {
			return nil
		}
		if r.limit > 0 && n == r.limit {
			r.more = true
			return nil
		}
		n++
		return do(row)
	}
}

// keep stores the rows of a table in order: removed records first, then the longest in their class. It holds
// at most twice the limit in memory.
func (r *reporting) keep(row admin.ReportRow) error {
	if r.lists(row, true) {
		r.kept = append(r.kept, keptRow{state.RecordID{Connection: row.Connection, SourceID: row.SourceID},
			row.Class == readiness.LeftBehind, row.Name != "", row.Status != "", row.Days})
	}
	if r.limit > 0 && len(r.kept) > 2*r.limit {
		r.cut()
	}
	return nil
}

func (r *reporting) cut() {
	slices.SortStableFunc(r.kept, func(a, b keptRow) int {
		if a.left != b.left {
			if a.left {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.days, a.days)
	})
	if r.limit > 0 && len(r.kept) > r.limit {
		r.kept, r.more = r.kept[:r.limit], true
	}
}

// noteOfReport counts records with a note; its keys are public.
type noteOfReport struct {
	Note    string `json:"note"`
	Records int    `json:"records"`
}

func notesOf(whole admin.Report) (out []noteOfReport) {
	for _, n := range []noteOfReport{
		{"removed or excluded, with a mandate that still holds", whole.Left},
		{fmt.Sprintf("waiting for the bank for more than %d working days", readiness.BankDays), whole.Late},
		{fmt.Sprintf("can be debited, without news for %d months or more: banks drop unused instructions",
			readiness.DormantAfter), whole.Dormant},
	} {
		if n.Records > 0 {
			out = append(out, n)
		}
	}
	return out
}

func (a *app) reportJSON(ctx context.Context, s *session.Session, r *reporting) (whole admin.Report, err error) {
	out := show.NewList(a.Out)
	out.Open(struct {
		At         time.Time `json:"at"`
		Connection string    `json:"connection"`
	}{s.Ledger.Now(), r.on.Connection})
	out.List("rows", func() (err error) {
		whole, err = admin.MakeReport(ctx, s.Ledger, r.on,
			r.upToLimit(func(row admin.ReportRow) error { return out.Element(withCommand(row)) }))
		return err
	})
	listOf(out, "totals", whole.Totals)
	listOf(out, "signing", whole.Signing)
	listOf(out, "notes", notesOf(whole))
	if err == nil {
		out.List("not_asked", func() error {
			return a.eachNotAsked(ctx, s, r.on.Connection, func(n admin.NotAsked) error { return out.Element(n) })
		})
	}
	return whole, out.Close()
}

func listOf[T any](out *show.List, key string, all []T) {
	out.List(key, func() error {
		for _, v := range all {
			if err := out.Element(v); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) reportCSV(ctx context.Context, s *session.Session, r *reporting) (admin.Report, error) {
	out := safecsv.New(a.Out, ',')
	if err := out.Row(admin.ReportHeader); err != nil {
		return admin.Report{}, err
	}
	whole, err := admin.MakeReport(ctx, s.Ledger, r.on,
		r.upToLimit(func(row admin.ReportRow) error { return out.Row(withCommand(row).Cells()) }))
	if err != nil {
		return whole, err
	}
	return whole, out.Close()
}

func (a *app) showReport(ctx context.Context, s *session.Session, whole admin.Report, r *reporting) error {
	fmt.Fprintf(a.Out, "%s of the accounting system, by class, %s\n", connector.Plural(whole.Records, "record"),
		show.Time(whole.At))
	fmt.Fprintln(a.Out, payersLine(whole))
	for i, n := range notesOf(whole) {
		line := fmt.Sprintf("%s: %s.", connector.Plural(n.Records, "record"), n.Note)
		if i == 0 && whole.Left > 0 {
			line = a.Toned(show.Bad, line)
		}
		fmt.Fprintln(a.Out, line)
	}
	if err := a.printNotAsked(ctx, s, r.on.Connection); err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	show.Table(a.Out, append([]string{"Class", "", "Records"}, ageTitles()...), totalCells(whole))
	fmt.Fprintf(a.Out, "\nWho must act: %s\n", actsLine(whole))
	if len(whole.Signing) > 0 {
		fmt.Fprintln(a.Out, "\nDays from the signing link to the signature, and the share signed so many days after it was first sent")
		show.Table(a.Out, []string{"Mandates", "", "Of them signed", "Half of those by day", "Nine of ten by", "Day 1", "3",
			"7", "14", "30"}, signingCells(whole.Signing))
	}
	r.cut()
	if len(r.kept) == 0 {
		a.Print("Nobody has to act on any of them.")
		return nil
	}
	fmt.Fprintln(a.Out)
	return a.reportTable(ctx, s, whole.At, r)
}

// reportTable prints the kept rows, some at a time. It omits a row that changed meanwhile and is no longer
// listed.
func (a *app) reportTable(ctx context.Context, s *session.Session, at time.Time, r *reporting) error {
	var blank []string // columns
	if !slices.ContainsFunc(r.kept, func(k keptRow) bool { return k.named }) {
		blank = append(blank, "Name")
	}
	if !slices.ContainsFunc(r.kept, func(k keptRow) bool { return k.financial }) {
		blank = append(blank, "Financial status")
	}
	records := make([]state.RecordID, len(r.kept))
	for i, k := range r.kept {
		records[i] = k.RecordID
	}
	var table show.PagedTable
	var page []admin.ReportRow
	write := func() {
		header, rows := reportCells(page)
		for _, title := range blank {
			header, rows = withoutColumn(title, header, rows)
		}
		for _, title := range []string{"Connection", "Financial status", "Last letter", "Letters", "Mandate", "Since",
			"What to do"} {
			if show.Fits(a.Out, header, rows) {
				break
			}
			header, rows = withoutColumn(title, header, rows)
		}
		table.Write(a.Out, header, rows)
		page = page[:0]
	}
	err := admin.EachReportRow(ctx, s.Ledger, r.on, at, records, func(row admin.ReportRow) error {
		if r.lists(row, true) {
			page = append(page, row)
		}
		if len(page) == admin.PageOfAll {
			write()
		}
		return nil
	})
	if err == nil && len(page) > 0 {
		write()
	}
	return err
}

func ageTitles() []string {
	from, out := 0, []string{}
	for _, to := range admin.Ages {
		out = append(out, fmt.Sprintf("%d–%d days", from, to))
		from = to + 1
	}
	return append(out, fmt.Sprintf("over %d", from-1))
}

// totalCells returns the totals other than zero, and their sum.
func totalCells(whole admin.Report) (rows [][]string) {
	sum := admin.Total{Title: "together"}
	for _, t := range append(slices.Clone(whole.Totals), sum) {
		if t.Class == "" {
			t = sum
		}
		if t.Records == 0 && t.Class != "" {
			continue
		}
		row := []string{string(t.Class), t.Title, fmt.Sprint(t.Records)}
		for i, n := range t.Ages {
			row = append(row, fmt.Sprint(n))
			sum.Ages[i] += n
		}
		sum.Records += t.Records
		rows = append(rows, row)
	}
	return rows
}

// payersLine says how many records count as payers, and can be debited.
func payersLine(whole admin.Report) string {
	line := fmt.Sprintf("%d of %s can be debited.", whole.Reached(admin.Active), connector.Plural(whole.Payers, "payer"))
	if others := whole.Records - whole.Payers; others > 0 {
		line += fmt.Sprintf(" %s removed or excluded, and not counted.", connector.Plural(others, "record"))
	}
	return line
}

// actsLine prints the number of records waiting for each party, the most first.
func actsLine(whole admin.Report) string {
	waits := whole.Acts()
	var parts []string
	for _, who := range slices.SortedFunc(maps.Keys(waits),
		func(a, b readiness.Who) int { return cmp.Or(waits[b]-waits[a], cmp.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%s %d", who, waits[who]))
	}
	return cmp.Or(strings.Join(parts, ", "), "nobody")
}

func signingCells(all []admin.Signing) (rows [][]string) {
	for _, s := range all {
		row := []string{s.By, s.Group, fmt.Sprintf("%d of %d", s.Signed, s.Mandates), fmt.Sprintf("%.1f", s.Median),
			fmt.Sprintf("%.1f", s.P90)}
		shares := map[int]string{}
		for _, share := range s.Shares {
			shares[share.Day] = fmt.Sprintf("%d %%", share.Percent())
		}
		row = append(row, connector.Map([]int{1, 3, 7, 14, 30}, func(day int) string { return shares[day] })...)
		rows = append(rows, row)
	}
	return rows
}

// withCommand adds the commands of its next steps to a row.
func withCommand(row admin.ReportRow) admin.ReportRow {
	row.Cure = withSteps(row.Cure, row.Steps(state.RecordID{Connection: row.Connection, SourceID: row.SourceID}))
	return row
}

func reportCells(some []admin.ReportRow) (header []string, rows [][]string) {
	header = []string{"Class", "Record", "Name", "Mandate", "Since", "Days", "Who must act", "Finding", "What to do",
		"Letters", "Last letter", "Connection", "Financial status"}
	for _, row := range some {
		rows = append(rows, []string{string(row.Class), row.Number, row.Name, string(row.Mandate), admin.DayOf(row.Since),
			fmt.Sprint(row.Days), string(row.Who), row.Sentence, withCommand(row).Cure,
			fmt.Sprint(row.Letters), admin.DayOf(row.LastLetter), row.Connection, show.Visible(row.Status)})
	}
	return header, rows
}
