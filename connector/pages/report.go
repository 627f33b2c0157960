package pages

import (
	"slices"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/readiness"
	"payersync/state"
)

// reportRow is the state of one payer.
type reportRow struct {
	admin.ReadinessOfRecord
	Path  string // of the payer's page
	Class chip
	Held  chip   // its mandate
	Next  string // the next step on these pages
}

// totalRow is a line of the totals.
type totalRow struct {
	Class   readiness.Class
	Title   string
	Records int
	Ages    []int
	Path    string
	Here    bool
}

// actsRow is how many records wait for somebody.
type actsRow struct {
	leads
	Here bool
}

// printedRows is how many rows of a report a printed page has at most. The exported file has all.
const printedRows = 500

// paper leads to a list with the rows for paper, or is one.
type paper struct {
	On    bool   // it has the rows for paper
	Print string // the address of the list for paper; "" if the page shows all
	Back  string // the address of the list for the screen
	Most  int
	limit int
}

// paper returns how many rows a list of this length shows.
func (v *visit) paper(listed int) paper {
	if v.filled("print") != "" {
		return paper{On: true, Back: v.with("print", "", "after", ""), Most: printedRows, limit: printedRows}
	}
	p := paper{Most: printedRows, limit: wideRowsShown}
	if listed > p.limit {
		p.Print = v.with("print", "1", "after", "")
	}
	return p
}

// whichOf reads which payers the report is to list. Without a choice it lists those that somebody must see to.
func whichOf(v *visit) (admin.Which, error) {
	class, step, ok := classOf(v)
	w := admin.Which{Class: class, Step: step, Stage: admin.Stage(v.filled("stage")), Who: readiness.Who(v.filled("who")),
		Task: admin.TaskNamed(v.filled("task"))}
	if !ok || w.Task != "" && !slices.Contains(admin.Tasks, w.Task) || w.Who != "" && !slices.Contains(actors, w.Who) ||
		w.Stage != "" && !slices.Contains(admin.Stages, w.Stage) {
		return w, notFound
	}
	w.Acts = w.Class == "" && w.Stage == "" && w.Who == "" && w.Task == ""
	return w, nil
}

// report lists debitable and other payers, with the reason and since when.
func (v *visit) report() error {
	which, err := whichOf(v)
	if err != nil {
		return err
	}
	c, err := v.counted()
	if c == nil {
		return err
	}
	content := struct {
		Counted          time.Time
		Records, Can     int
		Payers           int
		Acts             []actsRow
		Who              readiness.Who
		Totals           []totalRow
		Sum              totalRow
		Ages             []string
		Chart            *chart
		Class            readiness.Class
		Step             readiness.Stage
		Stage            admin.Stage
		Task             admin.Task
		Title            string // of the list
		Listed           int
		NotAsked         []admin.NotAsked
		Rows             []reportRow
		Pager            pager
		Several          bool // connections
		Operator         bool
		Left, Late       int
		Dormant, Bare    int
		BankDays, Months int
		Still            []string
		Paper            paper
	}{Counted: c.At, Records: c.Records, Payers: c.Payers, Can: c.Reached(admin.Active), Who: which.Who,
		Ages: boundLabels(admin.Ages[:], ">"), Class: which.Class, Step: which.Step, Stage: which.Stage,
		Task: which.Task, Several: len(v.pages.cfg.Connections) > 1, Operator: v.User.Role.May(Operator),
		Left: c.Number(admin.Which{Class: readiness.LeftBehind, Who: readiness.You}), Late: c.Late, Dormant: c.Dormant,
		Bare: c.Bare, BankDays: readiness.BankDays, Months: readiness.DormantAfter, Still: c.Still()}
	var cannot []int
	content.Totals, content.Sum, cannot = v.totals(c, which.Class, which.Step)
	if content.Title = listTitle(which.Class, which.Step, which.Stage, which.Who); which.Task != "" {
		content.Title = which.Task.Title()
	}
	content.Acts = v.acting(c, which.Who)
	content.Listed = c.Number(which)
	about := "Days in the same state, for payers that cannot be debited."
	if which.Class != "" {
		about = "Days in this state: " + content.Title + "."
	}
	if which.Class == readiness.Unasked {
		if content.NotAsked, err = v.notAsked(""); err != nil {
			return err
		}
	}
	content.Chart = newChart("Since when", about, "Days", "Payers", content.Ages, cannot)
	content.Paper = v.paper(content.Listed)
	rows, next, err := v.pages.cfg.Standings.Page(v.Context(), c, which, v.filled("after"), content.Paper.limit)
	if err != nil {
		return err
	}
	content.Rows = connector.Map(rows, func(r admin.ReadinessOfRecord) reportRow {
		return reportRow{r, payerPath(state.RecordID{Connection: r.Connection, SourceID: r.SourceID}), classChip(r.Assessment),
			mandate(string(r.Mandate)), nextOf(r)}
	})
	content.Pager = v.page(next).of(len(rows), content.Listed)
	return v.show("report", "Report", content)
}

// acting leads to the records that wait for each actor; who is the one that the list is narrowed to.
func (v *visit) acting(c *admin.Count, who readiness.Who) (out []actsRow) {
	for _, a := range actors {
		if n := c.Number(admin.Which{Who: a}); n > 0 || a == who {
			path := v.with("who", string(a), "class", "", "step", "", "stage", "", "task", "", "after", "")
			out = append(out, actsRow{leads{path, number(n) + " " + actorWords[a]}, a == who})
		}
	}
	return out
}

// listTitle is the title of a report's list.
func listTitle(class readiness.Class, step readiness.Stage, stage admin.Stage, who readiness.Who) (title string) {
	switch {
	case step != "":
		title = upper(class.Title() + ": " + step.Title())
	case class != "":
		title = upper(class.Title())
	case stage != "":
		title = stage.Title()
	case who != "":
		title = "To act on,"
	default:
		return "Needs action"
	}
	if who != "" {
		title += " " + actorWords[who]
	}
	return title
}

// totals returns the lines of the totals with records, or listed, and their sum. cannot counts the ages of the listed
// records, or else of the records not debitable.
func (v *visit) totals(c *admin.Count, class readiness.Class, step readiness.Stage) (rows []totalRow, sum totalRow,
	cannot []int) {
	sum.Ages, cannot = make([]int, len(admin.Ages)+1), make([]int, len(admin.Ages)+1)
	for _, t := range c.Totals {
		here := class == t.Class && (step == "" || step == t.Step)
		for i, n := range t.Ages {
			sum.Ages[i] += n
			if here || class == "" && t.Class != readiness.Debitable && t.Step != readiness.NoPayer {
				cannot[i] += n
			}
		}
		sum.Records += t.Records
		if t.Records > 0 || here {
			rows = append(rows, totalRow{t.Class, upper(t.Title), t.Records, t.Ages[:],
				v.with("class", string(t.Class), "step", string(t.Step), "stage", "", "who", "", "task", "", "after", ""), here &&
					(step != "" || t.Step == "")})
		}
	}
	return rows, sum, cannot
}

// nextOf returns a payer's next step, without commands that have a button.
func nextOf(r admin.ReadinessOfRecord) string {
	switch {
	case r.Cure == "Nothing.":
		return "Nothing to do."
	case r.Class == readiness.Awaiting:
		return r.Handover.Next
	}
	return r.Cure
}

// classOf returns the requested class and step; false for unknown ones.
func classOf(v *visit) (class readiness.Class, step readiness.Stage, ok bool) {
	class, step = readiness.Class(v.filled("class")), readiness.Stage(v.filled("step"))
	ok = class == "" && step == "" || slices.Contains(readiness.Classes, class) &&
		(step == "" || slices.Contains(class.Steps(), step))
	return class, step, ok
}

// classChip returns the chip for a payer's class.
func classChip(s readiness.Assessment) chip {
	word := upper(s.Class.Title())
	switch s.Class {
	case readiness.Debitable:
		return chip{"✓", word, good}
	case readiness.Signed:
		return chip{"◷", word, bank}
	case readiness.Awaiting:
		return chip{"✎", upper(s.Class.Title() + ", " + s.Step.Title()), waits}
	case readiness.Unasked:
		return chip{"–", word, none}
	case readiness.LeftBehind:
		return chip{"✕", upper("removed, " + s.Step.Title()), stopped}
	case readiness.Cancelled, readiness.Conflict:
		return chip{"✕", word, stopped}
	}
	return chip{"?", word, waits}
}
