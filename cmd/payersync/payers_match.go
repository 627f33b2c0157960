package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/match"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) payersMatchCmd() *cobra.Command {
	var connection, file string
	c := &cobra.Command{
		Use:   "match",
		Short: "List matches: records without a customer, and the customers that may be theirs",
		Long: `Reads every customer of the billing service, compares them with the stored records
without a customer, and lists the matches, best first. Each has a score from 0 to 100
with its reasons, and the values of both sides. A plan puts the same records on hold.
This command sends and decides nothing. Note your decisions with payersync payers
same, payersync payers different and payersync payers match --import. The next plan then
links the accepted customers, within the limits, and ignores rejected matches.

With --csv the list goes to a new file for a spreadsheet. Write accept or reject into
the column decision, or new for a record without a customer there. Read it with
payersync payers match --import. The file contains personal data.`,
		Example: "  payersync payers match --limit 20\n  payersync payers match --csv who-is-who.csv",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runPayersMatch(cmd, connection, file) },
	}
	c.Flags().StringVar(&connection, "connection", "", "the records' connection; needed if there are several")
	c.Flags().StringVar(&file, "csv", "", "write the list to a new `FILE` for a spreadsheet")
	limitFlag(c)
	return also(also(c, "import", a.matchImportCmd(&connection)), "finish", a.matchFinishCmd(&connection))
}

func (a *app) runPayersMatch(cmd *cobra.Command, connection, file string) error {
	return a.withReview(cmd.Context(), connection, func(ctx context.Context, s *session.Session, r *review) error {
		limit := a.limitOf(cmd)
		found, err := r.find(ctx)
		switch {
		case err != nil:
			return err
		case file != "":
			return a.writeMatches(ctx, r, file, found)
		case a.JSON():
			shown, err := r.shown(ctx, firstOf(found, limit))
			return errors.Join(err, show.Lines(a.Out, reportsOf(shown)))
		}
		return errors.Join(a.printMatches(ctx, r, found, limit), a.sayStops(ctx, s, r.conn.Name))
	})
}

// review holds the present data for a review list.
type review struct {
	*session.Session
	app     *app
	conn    syncer.Connection
	records []match.Record
	keys    map[string]string // name of a record's key, by record
	words   map[pair]state.PairVerdict

	// For single pairs, see look.
	customers map[string]match.Customer
	linked    map[string]string // customer by record, of this connection
	double    pair              // a linked record and its apparent second customer
}

// pair is a record and a customer.
type pair struct{ record, customer string }

func (p pair) String() string { return p.record + " = " + p.customer }

// withReview opens everything and passes on the data of a review list.
func (a *app) withReview(ctx context.Context, connection string,
	do func(context.Context, *session.Session, *review) error) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := s.Config.One(connection)
	if err != nil {
		return err
	}
	conn, err := a.stored(ctx, s, c)
	if err != nil {
		return err
	}
	r := &review{Session: s, app: a, conn: conn, keys: map[string]string{}, words: map[pair]state.PairVerdict{}}
	if err := r.read(ctx); err != nil {
		return err
	}
	if len(r.records) == 0 {
		linked, err := s.Ledger.Payers(ctx, state.Filter{Connection: conn.Name, Limit: 1})
		if err != nil {
			return err
		}
		if len(linked) == 0 {
			a.nothingStored(c)
		}
	}
	return do(ctx, s, r)
}

// read reads the records without a customer, and the decisions on pairs.
func (r *review) read(ctx context.Context) error {
	unlinked, err := r.Syncer.Unlinked(ctx, r.conn)
	if err != nil {
		return err
	}
	for _, u := range unlinked {
		r.records = append(r.records, match.Record{ID: u.SourceID, Want: u.Want})
		r.keys[u.SourceID] = u.Key.Name
	}
	said, err := r.Ledger.PairDecisions(ctx, r.conn.Name)
	for _, w := range said {
		r.words[pair{w.SourceID, w.BillingID}] = w.Word
	}
	return err
}

// list reads the service's customers, page by page.
func (r *review) list(ctx context.Context) iter.Seq2[[]match.Customer, error] {
	return func(yield func([]match.Customer, error) bool) {
		progress, done := show.NewProgress(r.app.ErrOut, r.app.now), 0
		defer progress.End()
		for page, err := range r.Billing.Customers(ctx) {
			if err != nil {
				yield(nil, fmt.Errorf("read the customers of the billing service: %w", err))
				return
			}
			customers := make([]match.Customer, len(page))
			for i, c := range page {
				customers[i].RemoteCustomer = c
			}
			if !yield(customers, nil) {
				return
			}
			done += len(page)
			progress.Show(syncer.Progress{Stage: "list", Done: done})
		}
	}
}

// load reads the present state of the named pairs.
func (r *review) load(ctx context.Context, named []pair) error {
	r.customers, r.linked = map[string]match.Customer{}, map[string]string{}
	records, ids := map[string]bool{}, map[string]bool{}
	for _, p := range named {
		records[p.record], ids[p.customer] = true, true
	}
	if err := r.Ledger.EachPayer(ctx, state.Filter{Connection: r.conn.Name}, func(p state.PayerRow) error {
		if p.BillingID != nil && records[p.SourceID] {
			r.linked[p.SourceID] = *p.BillingID
		}
		return nil
	}); err != nil {
		return err
	}
	var met []*match.Customer
	for page, err := range r.list(ctx) {
		if err != nil {
			return err
		}
		for _, c := range page {
			if ids[c.ID] {
				c.Raw = nil // it takes the most room, and nobody asks for it
				met = append(met, &c)
			}
		}
	}
	if err := r.Syncer.MarkTaken(ctx, r.conn, met); err != nil {
		return err
	}
	for _, c := range met {
		r.customers[c.ID] = *c
	}
	return nil
}

// othersShown is how many customers of a record are shown besides the proposed one.
const othersShown = 3

// find makes the review list of the undecided records. Plans hold those with a free customer.
func (r *review) find(ctx context.Context) ([]match.Suggestion, error) {
	var short *reconcile.ShortListError
	if err := r.Reconciler.Prove(ctx, r.Ledger.Now()); err != nil && !errors.As(err, &short) {
		return nil, fmt.Errorf("read the customers of the billing service: %w", err)
	}
	if short != nil {
		r.app.Print("The list of customers is not whole: %s", short)
	}
	return r.Syncer.Match(ctx, r.conn)
}

// shown fills in both sides of suggestions, and removes all but a few customers of each record. A free one is
// among them.
func (r *review) shown(ctx context.Context, some []match.Suggestion) ([]match.Suggestion, error) {
	out := slices.Clone(some)
	for i, s := range out {
		others := s.Others[:min(othersShown, len(s.Others))]
		if free := s.Free(); s.Best == nil && len(free) > 0 &&
			!slices.ContainsFunc(others, func(p match.Pair) bool { return p.Taken == "" }) {
			others = append([]match.Pair{free[0]}, others[:min(othersShown-1, len(others))]...)
		}
		out[i].Others = slices.Clone(others)
	}
	return out, r.Syncer.ShowPairs(ctx, r.conn, out)
}

// matchReport is a pair as `payers match --output json` prints it.
type matchReport struct {
	Record   string `json:"record"`
	Customer string `json:"customer"`
	Score    int    `json:"score"`
	// no other customer fits this record better, nor another record this customer
	Proposed bool           `json:"proposed"`
	Taken    string         `json:"taken,omitempty"`
	Carries  string         `json:"carries,omitempty"` // a key without a record; linking the customer replaces it
	Reasons  []match.Reason `json:"reasons"`
	Ours     match.Side     `json:"record_shows"`
	Theirs   match.Side     `json:"customer_shows"`
}

func reportsOf(found []match.Suggestion) []matchReport {
	out := []matchReport{}
	for _, s := range found {
		if s.Best != nil {
			out = append(out, reportOf(*s.Best, true))
		}
		out = append(out, connector.Map(s.Others, func(p match.Pair) matchReport { return reportOf(p, false) })...)
	}
	return out
}

func firstOf(found []match.Suggestion, limit int) []match.Suggestion {
	if limit > 0 {
		return found[:min(limit, len(found))]
	}
	return found
}

func reportOf(p match.Pair, proposed bool) matchReport {
	return matchReport{
		Record: p.Record, Customer: p.Customer, Score: p.Score, Proposed: proposed, Taken: p.Taken, Carries: p.Carries,
		Ours: *p.Ours, Theirs: *p.Theirs, Reasons: append([]match.Reason{}, p.Reasons()...),
	}
}

func (a *app) printMatches(ctx context.Context, r *review, found []match.Suggestion, limit int) error {
	if len(found) == 0 {
		a.Print("There is nobody to match: no record without a customer looks like one of the billing service.")
		return nil
	}
	some, err := r.shown(ctx, firstOf(found, limit))
	if err != nil {
		return err
	}
	for _, s := range some {
		if s.Best != nil {
			a.printPair(*s.Best)
		} else {
			fmt.Fprintf(a.Out, "  –  record %s: nobody is proposed\n", show.Visible(s.Record))
		}
		for _, p := range s.Others {
			fmt.Fprintf(a.Out, "       or %d, customer %s, %s: %s\n", p.Score, show.Visible(p.Customer),
				show.Visible(p.Theirs.Name), show.Visible(p.Why()))
		}
	}
	if limit > 0 && len(found) > limit {
		fmt.Fprintf(a.Out, "  … and more: %s in all (--limit 0 lists every one)\n", connector.Plural(len(found), "record"))
	}
	open, err := r.Ledger.MatchCount(ctx, r.conn.Name)
	if err != nil {
		return err
	}
	groups, err := r.groups(ctx, found)
	if err == nil {
		a.printBulk(found, open, groups)
	}
	return err
}

// groups returns the group of each record, as the page of matches shows it.
func (r *review) groups(ctx context.Context, found []match.Suggestion) (map[string]admin.Likelihood, error) {
	return admin.GroupsOf(ctx, r.Ledger, r.connections(), r.conn.Name, found)
}

// connections returns the names of all configured connections.
func (r *review) connections() (names []string) {
	for _, c := range r.Config.Connections {
		names = append(names, c.Name)
	}
	return names
}

// together reports whether a proposed pair may be accepted with others, without a look at it: nobody else fits.
func together(s match.Suggestion, groups map[string]admin.Likelihood) bool {
	return s.Best != nil && s.Best.Taken == "" && groups[s.Record] != admin.Several
}

// printBulk prints the number of undecided records, the number of pairs to accept together, and the pairs
// just short of that.
func (a *app) printBulk(found []match.Suggestion, open int, groups map[string]admin.Likelihood) {
	bulk, lacking := 0, map[int]int{}
	words := map[int]string{}
	in := map[admin.Likelihood]int{}
	for _, g := range groups {
		in[g]++
	}
	for _, s := range found {
		if !together(s, groups) {
			continue
		}
		if s.Best.Bulk() {
			bulk++
		}
		if lacks := match.Lacks(*s.Best); lacks != "" {
			lacking[s.Best.Score]++
			words[s.Best.Score] = cmp.Or(words[s.Best.Score], lacks)
		}
	}
	fmt.Fprintf(a.Out, "%s, %d of them from %d on: payersync payers same --above %d\n", connector.Plural(open, "record"),
		bulk, match.BulkLevel, match.BulkLevel)
	fmt.Fprintf(a.Out, "Likely the same %d, unclear %d, several matches %d, as on the page Matches.\n", in[admin.Likely],
		in[admin.Unclear], in[admin.Several])
	if taken := len(found) - open; taken > 0 {
		fmt.Fprintf(a.Out, "%s besides: all customers that match have a payer.\n", connector.Plural(taken, "record"))
	}
	for _, score := range slices.Backward(slices.Sorted(maps.Keys(lacking))) {
		verb := "lack"
		if lacking[score] == 1 {
			verb = "lacks"
		}
		fmt.Fprintf(a.Out, "%d at %d %s %s: look, then accept them with --above %d\n", lacking[score], score, verb,
			words[score], score)
	}
}

// printPair prints a proposed pair with both sides beside each other.
func (a *app) printPair(p match.Pair) {
	fmt.Fprintf(a.Out, "%3d  record %s, customer %s: %s\n", p.Score, show.Visible(p.Record), show.Visible(p.Customer),
		show.Visible(p.Why()))
	a.printSides(*p.Ours, *p.Theirs)
}

func (a *app) printSides(ours, theirs match.Side) {
	a.printBeside("Accounting system", "In the billing service", ours, theirs)
}

// printBeside prints two sides with a heading for each.
func (a *app) printBeside(left, right string, ours, theirs match.Side) {
	fmt.Fprintf(a.Out, "       %-7s %-38s | %s\n", "", left, right)
	for _, row := range [][3]string{
		{"name", ours.Name, theirs.Name}, {"e-mail", ours.Email, theirs.Email}, {"phone", ours.Phone, theirs.Phone},
		{"place", join(ours.Postcode, ours.City), join(theirs.Postcode, theirs.City)}, {"number", ours.Number, theirs.Number},
	} {
		if row[1]+row[2] != "" {
			fmt.Fprintf(a.Out, "       %-7s %-38s | %s\n", row[0], show.Visible(row[1]), show.Visible(row[2]))
		}
	}
}

func join(texts ...string) string { return strings.TrimSpace(strings.Join(texts, " ")) }

// writeMatches writes the list to a new file: an existing one may hold decisions.
func (a *app) writeMatches(ctx context.Context, r *review, file string, found []match.Suggestion) error {
	shown, err := r.shown(ctx, found)
	if err != nil {
		return err
	}
	return a.writeReviewList(file, match.Rows(shown, true), "payersync payers match --import "+file)
}

// record returns one of those without a customer.
func (r *review) record(id string) (match.Record, bool) {
	return connector.Find(r.records, func(c match.Record) bool { return c.ID == id })
}
