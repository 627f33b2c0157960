package admin

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"payersync/connector"
	"payersync/connector/readiness"
	"payersync/state"
)

// ReportRow is the state of one record.
type ReportRow struct {
	readiness.Assessment
	Number     string                  `json:"number"`  // or its id, if it has none
	Name       string                  `json:"-"`       // JSON goes into logs
	Mandate    connector.MandateStatus `json:"mandate"` // "" for none
	Days       int                     `json:"days"`
	Letters    int                     `json:"letters"` // how often the link was sent, by whomever
	LastLetter time.Time               `json:"last_letter,omitzero"`
	Connection string                  `json:"connection"`
	SourceID   string                  `json:"source_id"`
	state.Financial
	MandateID string `json:"-"`
	Task      Task   `json:"-"` // "" for none
}

// Ages are the bounds of how many days a record has stood somewhere: up to each of them, and
// beyond the last.
var Ages = [4]int{7, 14, 30, 60}

// Total counts the records of a class, or of a step of it.
type Total struct {
	Class   readiness.Class       `json:"class"`
	Step    readiness.Stage       `json:"step,omitempty"`
	Title   string                `json:"title"`
	Records int                   `json:"records"`
	Ages    [len(Ages) + 1]int    `json:"ages"` // of the records, by Ages
	Who     map[readiness.Who]int `json:"who"`  // must act
}

// Report is the state of all records. Its totals add up to the records.
type Report struct {
	At      time.Time
	Records int
	Payers  int       // records that count as payers
	Totals  []Total   // one for each class and step, in the order of display
	Signing []Signing // how many days it took to sign
	Dormant int       // records that can be debited, without news for so long that banks may drop their instruction
	Late    int       // records waiting for the bank longer than usual
	Left    int       // removed records with a live mandate, not accepted by a person
	Sealed  bool      // names are left out: the ledger was opened without its key
	Bare    int       // records still without a name
}

// Acts returns the number of records waiting for each party. They add up to the records.
func (r Report) Acts() map[readiness.Who]int {
	out := map[readiness.Who]int{}
	for _, t := range r.Totals {
		for who, n := range t.Who {
			out[who] += n
		}
	}
	return out
}

// ReportOn selects the records of a report.
type ReportOn struct {
	Connection string        // "" for all
	Valid      time.Duration // how long a link works; 0 if unknown
}

// MakeReport makes a report, and passes the state of each record to each, ordered by connection and id. It keeps none
// of them in memory.
func MakeReport(ctx context.Context, ledger *state.Ledger, on ReportOn, each func(ReportRow) error) (Report, error) {
	g := gather(ledger)
	var signing error
	var reading sync.WaitGroup // both take long for many
	reading.Go(func() { g.Signing, signing = daysToSign(ctx, ledger, on.Connection, g.At) })
	err := ledger.EachReadiness(ctx, on.Connection, func(f state.ReadinessFacts) error {
		row := reportRow(readiness.WithoutExpired(f, g.At, on.Valid), g.At)
		g.add(row.Assessment)
		if f.Label == nil {
			g.Bare++
		}
		return each(row)
	})
	reading.Wait()
	if err = errors.Join(err, signing); err != nil {
		return g.Report, err
	}
	return g.whole(), nil
}

// EachReportRow passes the current state of these records to do, in their order, dated by the report's time. It skips
// records gone since.
func EachReportRow(ctx context.Context, ledger *state.Ledger, on ReportOn, at time.Time, records []state.RecordID,
	do func(ReportRow) error) error {
	return ledger.EachReadinessOf(ctx, records, func(f state.ReadinessFacts) error {
		return do(reportRow(readiness.WithoutExpired(f, at, on.Valid), at))
	})
}

// gathering is a report under construction.
type gathering struct {
	Report
	totals map[position]*Total
}

type position struct {
	class readiness.Class
	step  readiness.Stage
}

// positions returns all positions, in display order.
func positions() (all []position) {
	for _, c := range readiness.Classes {
		if c.Steps() == nil {
			all = append(all, position{c, ""})
		}
		all = append(all, connector.Map(c.Steps(), func(step readiness.Stage) position { return position{c, step} })...)
	}
	return all
}

// gather begins a report.
func gather(ledger *state.Ledger) *gathering {
	g := &gathering{Report{At: ledger.Now(), Sealed: ledger.Sealed()}, map[position]*Total{}}
	for _, p := range positions() {
		g.totals[p] = &Total{Class: p.class, Step: p.step, Title: titleOf(p.class, p.step), Who: map[readiness.Who]int{}}
	}
	return g
}

// whole returns the report once all records were added.
func (g *gathering) whole() Report {
	for _, p := range positions() {
		g.Totals = append(g.Totals, *g.totals[p])
	}
	return g.Report
}

func (g *gathering) add(s readiness.Assessment) {
	g.totals[position{s.Class, s.Step}].add(s, g.At)
	g.Records++
	if s.Counts() {
		g.Payers++
	}
	if s.Dormant {
		g.Dormant++
	}
	if s.Late {
		g.Late++
	}
	if s.Class == readiness.LeftBehind && s.Who != readiness.Nobody {
		g.Left++
	}
}

func (t *Total) add(s readiness.Assessment, now time.Time) {
	t.Records++
	t.Who[s.Who]++
	at, days := 0, s.Days(now)
	for at < len(Ages) && days > Ages[at] {
		at++
	}
	t.Ages[at]++
}

func reportRow(f state.ReadinessFacts, now time.Time) ReportRow {
	s := readiness.Of(f, now)
	row := ReportRow{Assessment: s, Number: f.Key.Value, Mandate: f.Mandate.Status, Days: s.Days(now),
		Letters: readiness.Times(f), LastLetter: readiness.LastSent(f),
		Connection: f.Connection, SourceID: f.SourceID, Financial: f.Financial, MandateID: f.Mandate.ID, Task: taskOf(f, s)}
	if f.Label != nil {
		row.Name = f.Label.Name
		row.Number = cmp.Or(row.Number, f.Label.Number)
	}
	row.Number = cmp.Or(row.Number, f.SourceID)
	return row
}

// titleOf returns a class, and its step, in a few words.
func titleOf(c readiness.Class, step readiness.Stage) string {
	if step == "" {
		return c.Title()
	}
	return c.Title() + ": " + step.Title()
}
