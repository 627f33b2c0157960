package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/match"
	"payersync/connector/syncer"
	"payersync/state"
)

// leastBulk is the lowest score for accepting pairs together.
const leastBulk = 60

// decision holds the flags shared by the commands for decisions on pairs.
type decision struct {
	yes    bool
	reason string
}

func (d *decision) flags(c *cobra.Command) {
	c.Flags().BoolVar(&d.yes, "yes", false, "ask no question")
	c.Flags().StringVar(&d.reason, "reason", "", "why, for the audit log")
}

// differentFlags are what a person says with payers different.
type differentFlags struct {
	decision
	connection string
	record     string
	keep       bool
}

func (a *app) payersDifferentCmd() *cobra.Command {
	var f differentFlags
	c := &cobra.Command{
		Use:   "different RECORD [CUSTOMER]",
		Short: "Say that a record and a customer, or two records, are different payers",
		Long: `RECORD CUSTOMER: the two are not the same. Later lists omit this match. If the record
is on hold only for this match, the next plan creates a new customer for it. The same
applies to a match with a removed payer: name the customer of that payer. You can also
reject a match of a linked record with a second customer; both customers stay.

RECORD --record OTHER: the same for two records of one connection, with or without
customers.

RECORD alone: its linked customer belongs to somebody else. The next run removes the
record's key from the customer, within the limits for plans. The record is unlinked
when a read has confirmed that. All other values of the customer stay, and its mandate
too. To restore its earlier values, undo the change that linked it (payersync payers
undo). The record is then on hold until you decide: payersync payers same links it to
another customer, and payersync payers different with the old customer allows a new
one. Before the run, --keep takes the decision back.`,
		Example: "  payersync payers different C0001 9b2f1c --reason 'father and son' --yes\n" +
			"  payersync payers different C0001 --record C0007 --reason 'two accounts' --yes\n" +
			"  payersync payers different C0001 --reason 'it is their sister company' && payersync sync\n" +
			"  payersync payers different C0001 --keep --reason 'it is theirs after all'",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.different(cmd.Context(), args, f) },
	}
	c.Flags().StringVar(&f.record, "record", "", "the other record's source `ID`, of the same connection")
	c.Flags().BoolVar(&f.keep, "keep", false, "take the unlinking back, before the next run")
	c.Flags().StringVar(&f.connection, "connection", "", "the records' connection; needed if there are several")
	f.flags(c)
	return c
}

// different performs what the arguments and flags of payers different say.
func (a *app) different(ctx context.Context, args []string, f differentFlags) error {
	switch {
	case len(args) == 2 && (f.record != "" || f.keep), f.record != "" && f.keep:
		return usage.Errorf("name a record and a customer, two records, or a linked record: payersync payers different C0001 9b2f1c, payersync payers different C0001 --record C0007, or payersync payers different C0001")
	case len(args) == 2:
		return a.withReview(ctx, f.connection, func(ctx context.Context, s *session.Session, r *review) error {
			return a.rejectOne(ctx, s, r, pair{args[0], args[1]}, f.decision)
		})
	case f.record != "":
		return a.keepApart(ctx, f.connection, args[0], f.record, f.decision)
	case f.reason == "":
		return usage.Errorf("unlinking a customer takes a reason: --reason 'it is their sister company'")
	}
	return a.withPayer(ctx, args[0], func(s *session.Session, p state.Payer) error {
		if f.keep {
			return a.keepCustomer(ctx, s, p, f.decision)
		}
		proposal, err := a.attentionOf(s).Propose(ctx,
			admin.Decision{Act: connector.ActUnlink, Record: state.RecordID{Connection: p.Connection, SourceID: p.SourceID}})
		if err != nil {
			return notUndone("unlink the customer of "+show.Visible(p.SourceID), err)
		}
		return a.unlink(ctx, proposal, *proposal.Unlink, f.decision)
	})
}

func (a *app) matchImportCmd(connection *string) *cobra.Command {
	var d decision
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Read decisions from a completed review list",
		Long: `Reads a list of payersync payers match --csv, with accept, reject or new in the column
decision. new says that the record is none of the existing customers. payersync then
rejects every match with its name or an e-mail address, also those outside the list,
and the next plan creates a customer. The command compares each row with the present
values of the record and the customer. If anything is wrong, it accepts nothing of the
file, and prints each fault with file, line and column. It skips repeated decisions,
so you may read a file twice.`,
		Example: "  payersync payers match --import who-is-who.csv\n  payersync payers match --import who-is-who.csv --reason 'decided with accounting' --yes",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runMatchImport(cmd, args, connection, d) },
	}
	d.flags(c)
	return c
}

func (a *app) runMatchImport(cmd *cobra.Command, args []string, connection *string, d decision) error {
	sheet, err := readMatches(args[0])
	if err != nil {
		return err
	}
	return a.withReview(cmd.Context(), *connection, func(ctx context.Context, s *session.Session, r *review) error {
		if err := r.load(ctx, pairsOf(sheet)); err != nil {
			return err
		}
		said, problems := r.decided(sheet)
		if len(problems) > 0 {
			return wrongFile(args[0], problems)
		}
		if said, err = r.withNew(ctx, s, sheet, said); err != nil {
			return err
		}
		return a.decide(ctx, s, r, said, d)
	})
}

// readMatches reads a filled review list.
func readMatches(file string) (match.Sheet, error) {
	f, err := os.Open(file) //nolint:gosec // the person at the keyboard names it; it is only read
	if err != nil {
		return match.Sheet{}, usage.Errorf("the review list cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	sheet, err := match.ReadCSV(f)
	var problems match.CSVError
	if errors.As(err, &problems) {
		return sheet, wrongFile(file, problems)
	}
	return sheet, err
}

// wrongFile lists all mistakes of a file, of which nothing counts.
func wrongFile(file string, problems match.CSVError) error {
	lines := connector.Map(problems, func(p match.Problem) string { return show.Visible(file + ", " + p.String()) })
	return usage.Errorf("nothing of the file was taken:\n%s", strings.Join(lines, "\n"))
}

// saying is a decision on a pair.
type saying struct {
	pair
	says state.PairVerdict
}

// pairsOf returns the decided pairs of a list.
func pairsOf(sheet match.Sheet) (pairs []pair) {
	for _, row := range sheet.Rows {
		if row.Decision != match.Undecided {
			pairs = append(pairs, pair{row.Record, row.Customer})
		}
	}
	return pairs
}

// decided returns the decisions in a file's rows, and their mistakes by now.
func (r *review) decided(sheet match.Sheet) (said []saying, problems match.CSVError) {
	for i, row := range sheet.Rows {
		w := saying{pair{row.Record, row.Customer}, state.WordReject}
		switch row.Decision {
		case match.Undecided:
			continue
		case match.Accept:
			w.says = state.WordAccept
		}
		if r.doneBefore(w) {
			said = append(said, w)
			continue
		}
		record, customer, column, problem := r.pick(w)
		if problem != "" {
			problems = append(problems, match.Problem{Line: sheet.Lines[i], Column: column, Text: problem})
			continue
		}
		for _, name := range sheet.Differing(i, record, customer) {
			problems = append(problems,
				match.Problem{Line: sheet.Lines[i], Column: name,
					Text: "it is something else by now, so the decision may be too; make a new list with payersync payers match --csv"})
		}
		said = append(said, w)
	}
	return said, problems
}

// withNew adds a rejection of every other match for records declared new.
func (r *review) withNew(ctx context.Context, s *session.Session, sheet match.Sheet, said []saying) ([]saying, error) {
	has, seen := map[pair]bool{}, map[string]bool{}
	for _, w := range said {
		has[w.pair] = true
	}
	for _, row := range sheet.Rows {
		record, open := r.record(row.Record)
		if row.Decision != match.New || !open || seen[row.Record] {
			continue
		}
		seen[row.Record] = true
		alike, err := s.Ledger.AllAlike(ctx, record.Want, r.keys[row.Record], r.conn.Name, row.Record, -1)
		if err != nil {
			return nil, err
		}
		candidates, err := s.Ledger.MatchCandidates(ctx, r.conn.Name, row.Record)
		if err != nil {
			return nil, err
		}
		alike = append(alike, connector.Map(candidates, func(c state.MatchCandidate) string { return c.BillingID })...)
		for _, id := range slices.Compact(slices.Sorted(slices.Values(alike))) {
			if p := (pair{row.Record, id}); !has[p] {
				said = append(said, saying{p, state.WordReject})
			}
		}
	}
	return said, nil
}

// doneBefore reports whether a word was said, or carried out, before.
func (r *review) doneBefore(w saying) bool {
	linked, is := r.linked[w.record]
	return r.words[w.pair] == w.says || is && r.double != w.pair && (linked == w.customer) == (w.says == state.WordAccept)
}

// pick returns both present sides of a pair; or the wrong column, with the reason.
func (r *review) pick(w saying) (ours, theirs match.Side, column, problem string) {
	record, has := r.record(w.record)
	if !has {
		if linked := r.linked[w.record]; linked != "" {
			return ours, theirs, "record_id", fmt.Sprintf("record %q is linked to customer %s", w.record, linked)
		}
		return ours, theirs, "record_id",
			fmt.Sprintf("no record %q waits for a customer; payersync payers match lists the records that do", w.record)
	}
	customer, has := r.customers[w.customer]
	if !has {
		return ours, theirs, "customer_id", fmt.Sprintf("the billing service has no customer %q", w.customer)
	}
	if customer.Taken != "" && w.says == state.WordAccept {
		return ours, theirs, "customer_id",
			fmt.Sprintf("customer %q is %s", w.customer, strings.Replace(customer.Taken, "carries", "taken: it carries", 1))
	}
	ours, theirs = match.Sides(record, customer)
	return ours, theirs, "", ""
}

// rejectOne notes that a record and a customer are different payers.
func (a *app) rejectOne(ctx context.Context, s *session.Session, r *review, p pair, d decision) error {
	if err := r.load(ctx, []pair{p}); err != nil {
		return err
	}
	w := saying{p, state.WordReject}
	second, err := r.second(ctx, w)
	switch {
	case err != nil:
		return err
	case second != "":
		if r.double = p; !a.JSON() {
			fmt.Fprintln(a.Out, show.Visible(second))
		}
	case !r.doneBefore(w):
		ours, theirs, _, problem := r.pick(w)
		if problem != "" {
			return fmt.Errorf("cannot reject %s: %s", show.Visible(p.String()), show.Visible(problem))
		}
		if !a.JSON() {
			a.printSides(ours, theirs)
		}
	}
	if r.doneBefore(w) {
		return a.printDecided(decisionReport{Before: 1}, r.conn.Name, false)
	}
	_, sure, err := a.act(ctx, s,
		admin.Decision{Act: connector.ActReject, Record: state.RecordID{Connection: r.conn.Name, SourceID: p.record},
			Customer: p.customer}, asksAlways, d.reason, d.yes)
	if not := (*admin.PairNotSaid)(nil); errors.As(err, &not) {
		return fmt.Errorf("cannot reject %s, so nothing was decided: %w", show.Visible(not.String()), not.Err)
	}
	if err != nil || !sure {
		return err
	}
	return a.printDecided(decisionReport{Rejected: 1}, r.conn.Name, true)
}

// second returns the finding about a probable second customer of a linked record, when that one is rejected;
// "" for any other pair.
func (r *review) second(ctx context.Context, w saying) (string, error) {
	if w.says != state.WordReject || r.linked[w.record] == "" {
		return "", nil
	}
	open, err := r.Ledger.OpenDuplicates(ctx, state.RecordID{Connection: r.conn.Name, SourceID: w.record})
	for _, d := range open {
		if d.OtherID == w.customer {
			return d.Detail, err
		}
	}
	return "", err
}

// acceptAbove accepts every proposed pair with a score or more.
func (a *app) acceptAbove(ctx context.Context, s *session.Session, r *review, score int, d decision) error {
	found, err := r.find(ctx)
	if err != nil {
		return err
	}
	groups, err := r.groups(ctx, found)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(f match.Suggestion) bool { return !together(f, groups) || f.Best.Score < score })
	if found, err = r.shown(ctx, found); err != nil {
		return err
	}
	var said []saying
	for _, f := range found {
		said = append(said, saying{pair{f.Best.Record, f.Best.Customer}, state.WordAccept})
		if !a.JSON() && !d.yes {
			a.printPair(*f.Best)
		}
	}
	d.reason = cmp.Or(d.reason, fmt.Sprintf("score %d or more", score))
	return a.decide(ctx, s, r, said, d)
}

// decisionReport is the result of decisions.
type decisionReport struct {
	Accepted int `json:"accepted"`
	Rejected int `json:"rejected"`
	Before   int `json:"decided_before"`
}

// decide asks, and notes what is said in one transaction, with an entry in the audit log
// for each pair.
func (a *app) decide(ctx context.Context, s *session.Session, r *review, said []saying, d decision) error {
	var report decisionReport
	var fresh []saying
	for _, w := range said {
		switch {
		case r.doneBefore(w):
			report.Before++
			continue
		case w.says == state.WordAccept:
			report.Accepted++
		default:
			report.Rejected++
		}
		fresh = append(fresh, w)
	}
	if len(fresh) > 0 {
		sure, err := a.Confirms(ctx, d.yes,
			fmt.Sprintf("%d would be accepted and %d rejected", report.Accepted, report.Rejected),
			fmt.Sprintf("Accept %d and reject %d?", report.Accepted, report.Rejected))
		if err != nil {
			return err
		}
		if !sure {
			a.Print("Nothing was decided.")
			return nil
		}
	}
	var words []admin.PairWord
	for _, w := range fresh {
		words = append(words, admin.PairWord{SourceID: w.record, BillingID: w.customer, Says: w.says})
	}
	if err := admin.SayOfPairs(ctx, s.Ledger, r.conn.Name, words,
		syncer.Operator{Name: actor(), Reason: d.reason}); err != nil {
		var not *admin.PairNotSaid
		if errors.As(err, &not) {
			return fmt.Errorf("cannot %s %s, so nothing was decided: %w", not.Says, show.Visible(not.String()), not.Err)
		}
		return err
	}
	return a.printDecided(report, r.conn.Name, len(fresh) > 0)
}

// printDecided prints the results of decisions.
func (a *app) printDecided(report decisionReport, connection string, fresh bool) error {
	if a.JSON() {
		return show.JSON(a.Out, report)
	}
	fmt.Fprintf(a.Out, "%d accepted, %d rejected, %d decided before.\n", report.Accepted, report.Rejected, report.Before)
	if fresh {
		a.Print("Nothing is sent yet. To see the next run: payersync plan %s", connection)
	}
	return nil
}
