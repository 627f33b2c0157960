package pages

import (
	"fmt"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// listedPart shows the outcome of a plan's changes no longer waiting to be sent by it.
type listedPart struct {
	Count int
	Words string // the numbers by outcome; "" for too many
	Rows  []listedRow
	Shown int    // changes in these rows
	More  string // leads to the next page; "" on the last one
	First string // leads to the first page; "" on it
}

// listedShown is how many rows of these changes a page shows.
const listedShown = 16

// mostCounted is how many changes a page counts by outcome. More would take seconds, and their runs have the numbers.
const mostCounted = 20_000

// listedRow is a plan's change with its outcome.
type listedRow struct {
	Who    payerName
	Does   string
	Ended  chip
	Later  int64 // a later plan with it; 0 for none
	Run    int64 // the last run with it
	Why    string
	Fields []fieldRow
	Made   bool       // it makes a customer: nothing was there before
	Asks   bool       // it requests a signing link, and has no fields
	Erased string     // why its values are not shown; "" while they are kept
	Link   *listedRow // the request for a signing link that follows for the same payer; nil for none
}

// AsOne reports whether the request for a signing link has the same outcome as the change before it.
func (r listedRow) AsOne() bool {
	return r.Link != nil && r.Link.Ended == r.Ended && r.Link.Later == r.Later && r.Link.Run == r.Run && r.Link.Why == r.Why
}

// takes reports whether a change belongs into the row before it.
func (r listedRow) takes(next listedRow) bool {
	return next.Asks && !r.Asks && r.Link == nil && next.Who == r.Who && (next.Erased == "" || next.Erased == r.Erased)
}

// listedPart returns a page of the outcomes of a plan's changes. The address selects the page.
func (v *visit) listedPart(p admin.PlanProgress) (part listedPart, err error) {
	ctx, ledger := v.Context(), v.ledger()
	if part.Count = p.Settled(); part.Count <= mostCounted {
		counts, err := ledger.OutcomeCounts(ctx, p.Plan)
		if err != nil {
			return part, err
		}
		part.Words, part.Count = admin.OutcomesOf(counts), 0
		for _, n := range counts {
			part.Count += n
		}
	}
	var at state.PlanPlace
	if n, _ := fmt.Sscanf(v.URL.Query().Get("listed"), "%d.%d", &at.Plan, &at.Change); n == 2 {
		part.First = fmt.Sprintf("/plans/%d", p.ID)
	}
	changes, err := ledger.ListedChanges(ctx, p.Plan, at, 2*listedShown+1) // a row has two changes at most
	if err != nil {
		return part, err
	}
	ids := make([]state.RecordID, len(changes))
	for i, c := range changes {
		ids[i] = state.RecordID{Connection: c.Connection, SourceID: c.SourceID}
	}
	labels, err := ledger.LabelsOf(ctx, ids)
	for i, c := range changes {
		row, n := v.listedRow(p.Plan, c, labels[ids[i]].Name), len(part.Rows)
		switch {
		case n > 0 && part.Rows[n-1].takes(row):
			part.Rows[n-1].Link = &row
		case n == listedShown:
			last := changes[i-1].Place()
			part.More = fmt.Sprintf("/plans/%d?listed=%d.%d", p.ID, last.Plan, last.Change)
			return part, err
		default:
			part.Rows = append(part.Rows, row)
		}
		part.Shown++
	}
	return part, err
}

func (v *visit) listedRow(p state.Plan, c state.ListedChange, name string) listedRow {
	row := listedRow{
		Who: payerName{c.Connection, c.SourceID, name}, Does: does[c.Action], Ended: outcomeChip(c.Outcome), Run: c.RunID,
		Why: v.whyOf(c.PastChange), Fields: v.fieldRows(c.Action, c.Diff, c.Key.Name), Erased: c.Erased.Sentence(),
		Made: c.Action == connector.ActionCreate, Asks: c.Action == connector.ActionLink,
	}
	if c.Plan > p.ID {
		row.Later = c.Plan
	}
	return row
}

// whyOf explains a change's outcome. Details beyond the reason may contain personal values, so only operators see them.
func (v *visit) whyOf(c state.PastChange) string {
	if !v.User.Role.May(Operator) {
		c.Detail = ""
	}
	return admin.WhyOf(c)
}

var outcomeChips = map[state.ChangeOutcome][2]string{
	state.OutcomeSent: {"✓", good}, state.OutcomeUnchanged: {"✓", good}, state.OutcomeNoAnswer: {"◷", waits},
	state.OutcomeWaiting: {"◷", waits},
	state.OutcomePutOff:  {"◷", waits}, state.OutcomeRefused: {"✕", stopped}, state.OutcomeFailed: {"✕", stopped},
	state.OutcomeReplaced: {"–", none},
}

// outcomeChip returns the chip of a change's outcome.
func outcomeChip(o state.ChangeOutcome) chip {
	word := []rune(admin.OutcomeWord(o))
	word[0] += 'A' - 'a'
	return chip{outcomeChips[o][0], string(word), outcomeChips[o][1]}
}
