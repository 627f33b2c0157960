package office

import (
	"context"
	"errors"
	"sync"
	"time"

	"payersync/connector"
	"payersync/connector/standing"
	"payersync/state"
)

// ReportRow is where one record of the books stands.
type ReportRow struct {
	standing.Standing
	Number     string                  `json:"number"`  // or its id, where it has none
	Name       string                  `json:"-"`       // JSON goes into logs
	Mandate    connector.MandateStatus `json:"mandate"` // "" for none
	Days       int                     `json:"days"`
	Letters    int                     `json:"letters"` // how often the link was sent, by whomever
	LastLetter time.Time               `json:"last_letter,omitzero"`
	Connection string                  `json:"connection"`
	SourceID   string                  `json:"source_id"`
	state.Financial
	MandateID string `json:"-"`
}

// Ages are the bounds of how many days a record has stood somewhere: up to each of them, and
// beyond the last.
var Ages = [4]int{7, 14, 30, 60}

// Total counts the records of a class, or of a step of it.
type Total struct {
	Class   standing.Class       `json:"class"`
	Step    standing.Step        `json:"step,omitempty"`
	Title   string               `json:"title"`
	Records int                  `json:"records"`
	Ages    [len(Ages) + 1]int   `json:"ages"` // of the records, by Ages
	Who     map[standing.Who]int `json:"who"`  // must act
}

// Report says where all records of the books stand. Its totals add up to the records.
type Report struct {
	At      time.Time
	Records int
	Totals  []Total   // one for each class and step, in the order in which they are told
	Signing []Signing // how many days it took to sign
	Dormant int       // records that can be debited, and of which there was no news for so long that banks may drop their instruction
	Late    int       // records that wait for the bank for longer than it usually takes
	Left    int       // records that left with a live mandate, and of which nobody said that they may stay
	Sealed  bool      // names are left out: the ledger was opened without its key
	Bare    int       // records of which no name was made yet
}

// ReportOn says which records a report is on.
type ReportOn struct {
	Connection string        // "" for all
	Valid      time.Duration // for how long a link works after it was given; 0 where nobody knows
}

// MakeReport makes a report, and hands over where each record stands, in the order of
// connections and ids. It holds none of them in memory.
func MakeReport(ctx context.Context, ledger *state.Ledger, on ReportOn, each func(ReportRow) error) (Report, error) {
	r := Report{At: ledger.Now(), Sealed: ledger.Sealed()}
	type place struct {
		class standing.Class
		step  standing.Step
	}
	totals := map[place]*Total{}
	for _, c := range standing.Classes {
		for _, step := range append([]standing.Step{""}, c.Steps()...) {
			if (step == "") == (c.Steps() == nil) {
				totals[place{c, step}] = &Total{Class: c, Step: step, Title: titleOf(c, step), Who: map[standing.Who]int{}}
			}
		}
	}
	var signing error
	var reading sync.WaitGroup // both take long where there are many
	reading.Go(func() { r.Signing, signing = daysToSign(ctx, ledger, on.Connection, r.At) })
	err := ledger.EachStanding(ctx, on.Connection, func(f state.Standing) error {
		row := reportRow(standing.WithoutExpired(f, r.At, on.Valid), r.At)
		totals[place{row.Class, row.Step}].add(row)
		r.add(row, f.Label == nil)
		return each(row)
	})
	reading.Wait()
	if err = errors.Join(err, signing); err != nil {
		return r, err
	}
	for _, c := range standing.Classes {
		for _, step := range append([]standing.Step{""}, c.Steps()...) {
			if t := totals[place{c, step}]; t != nil {
				r.Totals = append(r.Totals, *t)
			}
		}
	}
	return r, nil
}

func (r *Report) add(row ReportRow, bare bool) {
	r.Records++
	if bare {
		r.Bare++
	}
	if row.Dormant {
		r.Dormant++
	}
	if row.Late {
		r.Late++
	}
	if row.Class == standing.LeftBehind && row.Who != standing.Nobody {
		r.Left++
	}
}

func (t *Total) add(row ReportRow) {
	t.Records++
	t.Who[row.Who]++
	at := 0
	for at < len(Ages) && row.Days > Ages[at] {
		at++
	}
	t.Ages[at]++
}

func reportRow(f state.Standing, now time.Time) ReportRow {
	s := standing.Of(f, now)
	row := ReportRow{Standing: s, Number: f.Key.Value, Mandate: f.Mandate.Status, Days: s.Days(now), Letters: standing.Times(f), LastLetter: standing.LastSent(f),
		Connection: f.Connection, SourceID: f.SourceID, Financial: f.Financial, MandateID: f.Mandate.ID}
	if f.Label != nil {
		row.Name = f.Label.Name
		if row.Number == "" {
			row.Number = f.Label.Number
		}
	}
	if row.Number == "" {
		row.Number = f.SourceID
	}
	return row
}

// titleOf returns a class, and its step, in a few words.
func titleOf(c standing.Class, step standing.Step) string {
	if step == "" {
		return c.Title()
	}
	return c.Title() + ": " + step.Title()
}
