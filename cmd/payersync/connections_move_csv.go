package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/match"
	"payersync/state"
)

// writeReviewList writes rows to a new file for a spreadsheet. next is the command to read the file with the
// decisions.
func (a *app) writeReviewList(file string, rows []match.Row, next string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the person at the keyboard names it
	if errors.Is(err, os.ErrExist) {
		return usage.Errorf("%s exists already and may hold decisions; name a new file", file)
	}
	if err != nil {
		return fmt.Errorf("write the review list: %w", err)
	}
	if err := errors.Join(match.WriteCSV(f, rows, ','), f.Close()); err != nil {
		return err
	}
	a.Print("%s written to %s. Write accept, reject or new into the column decision, then: %s",
		connector.Plural(len(rows), "pair"), show.Visible(file), show.Visible(next))
	return a.Result(map[string]any{"file": file, "pairs": len(rows)})
}

// writePairs writes the proposed pairs to a review list.
func (m *mover) writePairs(p *admin.MoveProposal) error {
	next := fmt.Sprintf("payersync connections move %s %s --import %s", m.from, m.to, m.csv)
	return m.writeReviewList(m.csv, match.Rows(slices.Concat(p.Certain, p.Unsure), true), next)
}

// importPairs executes the decisions of a filled review list. If anything is wrong with it, nothing counts.
func (m *mover) importPairs(ctx context.Context, p *admin.MoveProposal) error {
	sheet, err := readMatches(m.imported)
	if err != nil {
		return err
	}
	accepts, rejects, problems := m.decided(p, sheet)
	if len(problems) > 0 {
		return wrongFile(m.imported, problems)
	}
	if len(accepts)+len(rejects) == 0 {
		m.Print("The file contains no new decision.")
		return m.end(p, nil)
	}
	what := fmt.Sprintf("%s to accept and %d to reject", connector.Plural(len(accepts), "pair"), len(rejects))
	sure, err := m.Confirms(ctx, m.yes, "nothing was noted of "+what,
		fmt.Sprintf("Take the decisions of the file, %s?", what))
	if err == nil && sure && len(accepts) > 0 {
		sure, err = m.closes(ctx, p, accepts)
	}
	if err != nil || !sure {
		return err
	}
	if err := connector.Each(rejects,
		func(pair state.MovePair) error { return m.moves.Reject(ctx, pair, m.operator()) }); err != nil {
		return notMovedBooks(m.from, m.to, err)
	}
	m.Print("%s rejected.", connector.Plural(len(rejects), "pair"))
	if len(accepts) == 0 {
		return m.tellNow(ctx, nil)
	}
	return m.finish(ctx, accepts, p)
}

// decided returns the new accepted and rejected pairs of a review list, and the list's mistakes by now.
func (m *mover) decided(p *admin.MoveProposal, sheet match.Sheet) (accepts, rejects []state.MovePair,
	problems match.CSVError) {
	const anew = "; make a new list with payersync connections move --csv"
	for i, row := range sheet.Rows {
		if row.Decision == match.Undecided || p.DecidedSo(row.Customer, row.Record, row.Decision == match.Accept) {
			continue
		}
		offered := p.Offered(row.Record)
		at := slices.IndexFunc(offered, func(c match.Pair) bool { return c.Customer == row.Customer })
		if at < 0 {
			problems = append(problems,
				match.Problem{Line: sheet.Lines[i], Column: "record_id", Text: "this match is not proposed any more" + anew})
			continue
		}
		for _, name := range sheet.Differing(i, *offered[at].Ours, *offered[at].Theirs) {
			problems = append(problems,
				match.Problem{Line: sheet.Lines[i], Column: name, Text: "it is something else by now, so the decision may be too" +
					anew})
		}
		switch row.Decision {
		case match.Accept:
			accepts = append(accepts, p.Pairs(offered[at:at+1])...)
		case match.Reject:
			rejects = append(rejects, p.Pairs(offered[at:at+1])...)
		default: // new: it continues none of them
			rejects = append(rejects, p.Pairs(offered)...)
		}
	}
	return accepts, rejects, problems
}
