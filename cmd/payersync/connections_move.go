package main

import (
	"cmp"
	"context"
	"fmt"
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

// mover is one call of `connections move`.
type mover struct {
	*app
	s        *session.Session
	moves    *admin.Moves
	from, to string
	decision
	undo  bool
	above int
	pairs []string // OLDID=NEWID
	close bool     // the person agreed to close the old connection
	stay  bool     // the person keeps the old connection open, so no pair is accepted

	csv, imported string // files of a review list, to write and to read
}

func (a *app) connectionsMoveCmd() *cobra.Command {
	m := &mover{app: a}
	c := &cobra.Command{
		Use:   "move OLD NEW",
		Short: "Move the customers and mandates of a connection to the new accounting system",
		Long: `After a change of the accounting system the same payers appear under new ids in the
connection NEW. This command compares the records of NEW with the payers of OLD, by
the rules of payersync payers match, and proposes matches. You accept all certain
matches at once, and decide on each of the others. OLD may be missing from the
configuration. A run must have read NEW: payersync plan NEW.

If you accept a match, the customer of the payer moves to the new record, with
mandate, history, letters and decisions. No payer signs again. A
question of its own asks whether OLD is closed, because its runs are then refused. This command sends nothing. The next plan of NEW lists the new keys, and
writes them within the limits.

A match is certain from a score of 90. --above lowers that to 60 at least, for example
for an old export without postcodes; connector/match/README.md gives the error rate of
each level. --yes accepts only the certain matches. --pair accepts one match that you
name. --undo takes the whole move back, or with --pair one match. If the new keys were
already sent, the next plan of OLD writes the old ones back. After an interruption,
start the command again.

--csv writes the proposed matches to a new file for a spreadsheet: record_id is an id
of NEW, and customer_id one of OLD. Write accept or reject into the column decision,
or new for a record that continues no payer. Read the file with --import. If anything
in it is wrong or has changed, the command accepts nothing of it. The file contains
personal data.

Exit status 3: some matches still need a decision.`,
		Example: "  payersync connections move acme-csv acme\n  payersync connections move acme-csv acme --yes --reason 'Xero since May'\n  payersync connections move acme-csv acme --pair C0012=4711\n  payersync connections move acme-csv acme --undo --reason 'the wrong company'",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runConnectionsMove(cmd.Context(), args, m)
		},
	}
	m.flags(c)
	c.Flags().BoolVar(&m.undo, "undo", false, "take the move back, or with --pair one match")
	c.Flags().IntVar(&m.above, "above", match.BulkLevel, "from which `SCORE` a match counts as certain")
	c.Flags().StringVar(&m.csv, "csv", "", "write the proposed matches to a new `FILE` for a spreadsheet")
	c.Flags().StringVar(&m.imported, "import", "", "read the decisions of a completed `FILE`")
	c.Flags().StringArrayVar(&m.pairs, "pair", nil, "accept only this match, as `OLDID=NEWID`; may be repeated")
	c.MarkFlagsMutuallyExclusive("undo", "csv", "import")
	c.MarkFlagsMutuallyExclusive("pair", "csv", "import")
	return c
}

func (a *app) runConnectionsMove(ctx context.Context, args []string, m *mover) error {
	if m.above < leastBulk || m.above > 100 {
		return usage.Errorf("--above is a score from %d to 100: below %[1]d something contradicts a match, or another record matches too, so you must decide on each", leastBulk)
	}
	m.from, m.to = args[0], args[1]
	return a.with(ctx, a.mappingSession, func(s *session.Session) error {
		m.s, m.moves = s, a.movesOf(s)
		if m.undo {
			return m.takeBack(ctx)
		}
		return m.move(ctx)
	})
}

// movesOf returns the service for moves between connections.
func (a *app) movesOf(s *session.Session) *admin.Moves {
	return &admin.Moves{Ledger: s.Ledger, Syncer: s.Syncer,
		Stored: func(ctx context.Context, connection string) (syncer.Connection, error) {
			return a.storedAs(ctx, s, connection)
		}}
}

func (m *mover) operator() syncer.Operator {
	return syncer.Operator{Name: actor(), Reason: cmp.Or(m.reason, fmt.Sprintf("the connection moved to %s", m.to))}
}

// moveReport is the output of `connections move --output json`.
type moveReport struct {
	Old      string           `json:"old"`
	New      string           `json:"new"`
	Moved    bool             `json:"moved"`    // a person decided that the records moved; the old connection is closed
	Accepted int              `json:"accepted"` // pairs, with those of before
	Certain  int              `json:"certain"`  // pairs certain enough to accept together
	Unsure   int              `json:"unsure"`   // records for a person to check
	OnlyOld  []string         `json:"only_old"` // payers without a similar record
	OnlyNew  []string         `json:"only_new"` // records without a similar payer
	Pairs    []movePairReport `json:"pairs"`
	Left     []moveLeftReport `json:"left"` // pairs neither accepted nor taken back as requested
}

type movePairReport struct {
	OldID   string `json:"old_id"`
	NewID   string `json:"new_id"`
	State   string `json:"state"` // certain, unsure, accepted, written
	Score   int    `json:"score,omitempty"`
	Mandate string `json:"mandate_status,omitempty"`
}

type moveLeftReport struct {
	OldID string `json:"old_id"`
	NewID string `json:"new_id"`
	Why   string `json:"why"`
}

func (m *mover) move(ctx context.Context) error {
	p, err := m.propose(ctx)
	if err != nil {
		return err
	}
	switch {
	case m.csv != "":
		return m.writePairs(p)
	case m.imported != "":
		return m.importPairs(ctx, p)
	case len(m.pairs) > 0:
		pairs, err := m.named(p)
		if err != nil {
			return err
		}
		return m.finish(ctx, pairs, p)
	case m.JSON() && !m.yes:
		return m.Result(reportOfMove(p, nil))
	}
	m.printProposal(p)
	left, err := m.acceptCertain(ctx, p)
	if err != nil {
		return err
	}
	if p, err = m.propose(ctx); err != nil {
		return err
	}
	if !m.yes && m.Unasked() == "" && !m.stay {
		more, err := m.askEach(ctx, p)
		left = append(left, more...)
		if err != nil {
			return err
		}
		if p, err = m.propose(ctx); err != nil {
			return err
		}
	}
	return m.end(p, left)
}

// propose compares the two connections.
func (m *mover) propose(ctx context.Context) (*admin.MoveProposal, error) {
	p, err := m.moves.Propose(ctx, m.from, m.to, m.above)
	if err != nil {
		return nil, notMovedBooks(m.from, m.to, err)
	}
	return p, nil
}

// named returns the pairs of --pair.
func (m *mover) named(p *admin.MoveProposal) ([]state.MovePair, error) {
	var pairs []state.MovePair
	for _, text := range m.pairs {
		oldID, newID, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usage.Errorf("--pair needs an id of each side: --pair C0012=4711, not %q", text)
		}
		if slices.ContainsFunc(p.Accepted,
			func(r admin.MovedRecord) bool { return r.Old.SourceID == oldID && r.New.SourceID == newID }) {
			m.Print("The match %s is accepted already.", show.Visible(text))
			continue
		}
		pair, ok := p.Pair(oldID, newID)
		if !ok {
			return nil, usage.Errorf("%s has no payer %q with a customer, or %s no record %q without one", p.Old, oldID, p.New,
				newID)
		}
		pairs = append(pairs, pair)
	}
	return pairs, nil
}

// finish accepts pairs and prints the new state of the two connections.
func (m *mover) finish(ctx context.Context, pairs []state.MovePair, p *admin.MoveProposal) error {
	left, err := m.accept(ctx, p, pairs)
	if err != nil {
		return err
	}
	return m.tellNow(ctx, left)
}

// accept accepts pairs, unless the old connection is still open and the person keeps it so.
func (m *mover) accept(ctx context.Context, p *admin.MoveProposal, pairs []state.MovePair) ([]state.MoveLeft, error) {
	closes, err := m.closes(ctx, p, pairs)
	if err != nil || !closes {
		return nil, err
	}
	left, err := m.moves.Accept(ctx, p, pairs, m.operator())
	if err != nil {
		return left, notMovedBooks(m.from, m.to, err)
	}
	return left, nil
}

// closes reports whether the old connection is closed, or a person agrees to close it now. The person decides once, on
// the first pairs that are to be accepted.
func (m *mover) closes(ctx context.Context, p *admin.MoveProposal, pairs []state.MovePair) (bool, error) {
	if m.close || m.stay || p.Decision != nil || m.yes {
		return !m.stay, nil
	}
	closes, err := m.Confirms(ctx, false, m.from+" would be closed",
		fmt.Sprintf("Close %s? A match counts only then, and runs of %[1]s are refused from then on. %s", m.from,
			p.Undecided(pairs)))
	m.close, m.stay = closes && err == nil, !closes && err == nil
	if m.stay {
		m.Print("%s stays open, so no match is accepted.", m.from)
	}
	return closes, err
}

// tellNow prints the present state of the two connections.
func (m *mover) tellNow(ctx context.Context, left []state.MoveLeft) error {
	p, err := m.propose(ctx)
	if err != nil {
		return err
	}
	return m.end(p, left)
}

func (m *mover) printProposal(p *admin.MoveProposal) {
	if m.JSON() {
		return
	}
	var rows [][]string
	for _, s := range p.Certain {
		rows = append(rows, []string{s.Best.Customer, s.Record, fmt.Sprint(s.Best.Score), s.Best.Theirs.Name,
			s.Best.Ours.Name, mandateWord(p.Mandates[s.Best.Customer])})
	}
	if len(rows) > 0 {
		m.Rows([]string{"Old: " + m.from, "New: " + m.to, "Score", "Old name", "New name", "Mandate"}, rows)
	}
	for _, s := range p.Unsure {
		m.printUnsure(s)
	}
	m.Print("Matches: %d certain, %d to look at, %d accepted before.", len(p.Certain), len(p.Unsure), len(p.Accepted))
	if len(p.OnlyOld) > 0 {
		m.Print("%s of %s: no record of %s looks like them.", connector.Plural(len(p.OnlyOld), "payer"), m.from, m.to)
	}
	if len(p.OnlyNew) > 0 {
		m.Print("%s of %s: no payer of %s looks like them. They are new payers.", connector.Plural(len(p.OnlyNew), "record"),
			m.to, m.from)
	}
}

// printUnsure prints the possible predecessors of a doubtful record.
func (m *mover) printUnsure(s match.Suggestion) {
	for _, c := range s.Offered() {
		fmt.Fprintf(m.Out, "%3d  payer %s, record %s: %s\n", c.Score, show.Visible(c.Customer), show.Visible(c.Record),
			show.Visible(c.Why()))
		m.printBeside("Old: "+m.from, "New: "+m.to, *c.Theirs, *c.Ours)
	}
}

func mandateWord(status string) string {
	if status == "" {
		return "none"
	}
	return connector.MandateStatus(status).Label()
}

// acceptCertain asks once about all certain pairs.
func (m *mover) acceptCertain(ctx context.Context, p *admin.MoveProposal) ([]state.MoveLeft, error) {
	pairs := p.CertainPairs()
	if len(pairs) == 0 && (p.Decision == nil || !m.yes) { // with --yes an interrupted move goes on
		return nil, nil
	}
	if len(pairs) > 0 {
		sure, err := m.Confirms(ctx, m.yes,
			fmt.Sprintf("%s would be accepted, and %s closed", connector.Plural(len(pairs), "pair"), m.from),
			fmt.Sprintf("Accept the %s?", connector.Plural(len(pairs), "certain match")))
		if err != nil || !sure {
			return nil, err
		}
	}
	return m.accept(ctx, p, pairs)
}

// askEach asks about each doubtful record.
func (m *mover) askEach(ctx context.Context, p *admin.MoveProposal) (left []state.MoveLeft, err error) {
	taken := map[string]bool{}
	for _, s := range p.Unsure {
		offered := slices.DeleteFunc(s.Offered(), func(c match.Pair) bool { return taken[c.Customer] })
		if len(offered) == 0 {
			continue
		}
		chosen, err := m.chooseFor(ctx, s.Record, offered)
		if err != nil {
			return left, err
		}
		switch {
		case chosen == 0:
		case chosen <= len(offered):
			pair, _ := p.Pair(offered[chosen-1].Customer, s.Record)
			some, err := m.accept(ctx, p, []state.MovePair{pair})
			if err != nil || m.stay {
				return left, err
			}
			left, taken[pair.Old.SourceID] = append(left, some...), true
		default:
			for _, c := range offered {
				if pair, ok := p.Pair(c.Customer, s.Record); ok {
					if err := m.moves.Reject(ctx, pair, m.operator()); err != nil {
						return left, err
					}
				}
			}
		}
	}
	return left, nil
}

// chooseFor asks for the payer continued by a record: 0 for later, then each offered one, then none.
func (m *mover) chooseFor(ctx context.Context, record string, offered []match.Pair) (int, error) {
	options := []string{"decide later"}
	for _, c := range offered {
		m.Print("")
		m.printUnsure(match.Suggestion{Best: &c})
		options = append(options, fmt.Sprintf("%s, %s (%d)", c.Customer, c.Theirs.Name, c.Score))
	}
	options = append(options, "none of them: a new payer")
	return m.Chooses(ctx, fmt.Sprintf("Which payer of %s does record %s continue?", m.from, record), options...)
}

// end prints the state of the two connections, and the next step.
func (m *mover) end(p *admin.MoveProposal, left []state.MoveLeft) error {
	m.printLeft(left)
	report := reportOfMove(p, left)
	switch {
	case !report.Moved:
		m.Print("Nothing was decided.")
	default:
		waiting := 0
		for _, r := range p.Accepted {
			if !r.Written {
				waiting++
			}
		}
		m.Print("%s accepted. %s is closed.", connector.Plural(report.Accepted, "pair"), m.from)
		if waiting > 0 {
			m.Print("%s still to be written: payersync plan %s shows the new keys, payersync sync %[2]s sends them.",
				connector.Plural(waiting, "customer"), m.to)
		}
		if len(p.OnlyOld) > 0 {
			m.Print("payersync reports payers of %s that no record continues and whose mandates still hold: payersync attention list --reason %s", m.from, connector.ReasonLeftWithMandate)
		}
		if report.Unsure+report.Certain > 0 {
			m.Print("%s to look at: at a terminal payersync connections move %s %s asks about each; --pair OLDID=NEWID accepts one.", connector.Plural(report.Unsure+report.Certain, "record"), m.from, m.to)
		}
		m.Print("Take it back with: payersync connections move %s %s --undo", m.from, m.to)
	}
	if err := m.Result(report); err != nil {
		return err
	}
	if report.Moved && report.Unsure+report.Certain+len(left) > 0 {
		return exitError(exitAttention)
	}
	return nil
}

func (m *mover) printLeft(left []state.MoveLeft) {
	for _, l := range left {
		m.Print("Left as it is: %s and %s: %v", show.Visible(l.Old.SourceID), show.Visible(l.New.SourceID), l.Why)
	}
}

func reportOfMove(p *admin.MoveProposal, left []state.MoveLeft) moveReport {
	r := moveReport{Old: p.Old, New: p.New, Moved: p.Decision != nil, Accepted: len(p.Accepted), Certain: len(p.Certain),
		Unsure:  len(p.Unsure),
		OnlyOld: []string{}, OnlyNew: append([]string{}, p.OnlyNew...), Pairs: []movePairReport{}, Left: leftReports(left)}
	r.OnlyOld = append(r.OnlyOld, connector.Map(p.OnlyOld, func(o state.Payer) string { return o.SourceID })...)
	for _, a := range p.Accepted {
		word := "accepted"
		if a.Written {
			word = "written"
		}
		r.Pairs = append(r.Pairs, movePairReport{OldID: a.Old.SourceID, NewID: a.New.SourceID, State: word})
	}
	for _, list := range []struct {
		state string
		of    []match.Suggestion
	}{{"certain", p.Certain}, {"unsure", p.Unsure}} {
		for _, s := range list.of {
			if s.Best != nil {
				r.Pairs = append(r.Pairs,
					movePairReport{s.Best.Customer, s.Record, list.state, s.Best.Score, p.Mandates[s.Best.Customer]})
			}
		}
	}
	return r
}

func leftReports(left []state.MoveLeft) []moveLeftReport {
	out := []moveLeftReport{}
	for _, l := range left {
		out = append(out, moveLeftReport{l.Old.SourceID, l.New.SourceID, l.Why.Error()})
	}
	return out
}
