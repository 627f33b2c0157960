package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/health"
	"payersync/connector/readiness"
	"payersync/state"
)

// ItemKind is a kind of items that need somebody.
type ItemKind string

// The kinds, in display order.
const (
	KindCondition ItemKind = "condition" // a problem of the installation
	KindMatch     ItemKind = "match"     // records that may be existing customers
	KindPlan      ItemKind = "plan"      // that wait for approval
	KindFinding   ItemKind = "finding"   // about records
	KindPayer     ItemKind = "payer"     // payers without a finding, with a task for somebody
	KindLetter    ItemKind = "letter"
	KindWriteback ItemKind = "writeback"
	KindDelivery  ItemKind = "delivery" // in quarantine
)

var kinds = []ItemKind{KindCondition, KindMatch, KindPlan, KindFinding, KindPayer, KindLetter, KindWriteback, KindDelivery}

// Line counts the items of one kind that need somebody for the same cause. Status and the overview show the same
// lines in the same order.
type Line struct {
	Kind       ItemKind      `json:"kind"`
	Subject    string        `json:"subject"`    // the reason, the task, or the code of the condition
	Connection string        `json:"connection"` // "" where it is of none, or of all
	Title      string        `json:"title"`      // of each item, in a few words
	Detail     string        `json:"detail,omitempty"`
	Count      int           `json:"count"`
	Who        connector.Who `json:"who"` // must act
	Next       string        `json:"next"`
	Otherwise  string        `json:"otherwise"`      // what happens if nobody acts
	Since      time.Time     `json:"since,omitzero"` // of the oldest item
	Urgent     bool          `json:"urgent"`

	Plan       int64              `json:"-"` // the only one that waits; 0 for several
	Conditions []health.Condition `json:"-"` // about its items
}

// whos are the parties to act, in display order.
var whos = []connector.Who{connector.WhoYou, connector.WhoBooks, connector.WhoService, connector.WhoOperator,
	connector.WhoNobody}

// compare orders the urgent lines first, then by who must act, by kind, and by number.
func (l Line) compare(o Line) int {
	late := map[bool]int{true: 0, false: 1}
	return cmp.Or(cmp.Compare(late[l.Urgent], late[o.Urgent]),
		cmp.Compare(slices.Index(whos, l.Who), slices.Index(whos, o.Who)),
		cmp.Compare(slices.Index(kinds, l.Kind), slices.Index(kinds, o.Kind)), cmp.Compare(o.Count, l.Count),
		cmp.Compare(l.Subject, o.Subject), cmp.Compare(l.Connection, o.Connection))
}

// ListedConditions are the conditions that List takes. The others are about records, and List counts their findings.
var ListedConditions = slices.DeleteFunc(slices.Clone(health.Codes), func(c health.Code) bool {
	return c == health.Attention || c == health.MandateCancelled || c == health.MandateUnknown
})

// List returns everything that needs somebody: what the count found, and these conditions of the installation.
// It takes plans of the connections that has accepts; nil accepts all.
func (c *Count) List(found []health.Condition, has func(string) bool) []Line {
	lines := []Line{}
	for _, r := range c.Reasons {
		if r.Count > 0 {
			l := lineOfReason(r)
			if r.Reason == connector.ReasonLeftWithMandate {
				l.Detail = strings.Join(c.Still(), ", ")
			}
			lines = append(lines, l)
		}
	}
	lines = append(lines, c.taskLines()...)
	if plans := connector.Filter(c.Plans,
		func(p state.Plan) bool { return has == nil || has(p.Connection) }); len(plans) > 0 {
		lines = append(lines, lineOfPlans(plans))
	}
	for _, f := range found {
		if slices.Contains(ListedConditions, f.Code) {
			lines = addCondition(lines, f)
		}
	}
	slices.SortStableFunc(lines, Line.compare)
	return lines
}

// Items returns how many items of these kinds a list has; of all kinds without any.
func Items(lines []Line, of ...ItemKind) (n int) {
	for _, l := range lines {
		if len(of) == 0 || slices.Contains(of, l.Kind) {
			n += l.Count
		}
	}
	return n
}

// Questions returns how many findings and plans need a person.
func Questions(ctx context.Context, ledger *state.Ledger) (int, error) {
	c := &Count{}
	var err error
	if c.Reasons, err = ledger.ReasonCounts(ctx); err != nil {
		return 0, err
	}
	c.Plans, err = ledger.WaitingPlans(ctx)
	return Items(c.List(nil, nil)), err
}

// countedBy are the lines that count the items of a condition.
var countedBy = map[health.Code]string{
	health.PlanWaits: string(health.PlanWaits), health.Standstill: string(health.PlanWaits),
	health.EventsUnclear:       string(connector.ReasonEventNotUnderstood),
	health.SubscriptionChanged: string(connector.ReasonSubscriptionChanged),
}

// addCondition adds a condition to the line that counts its items, or as a line of its own.
func addCondition(lines []Line, f health.Condition) []Line {
	i := slices.IndexFunc(lines, func(l Line) bool { return l.Subject == countedBy[f.Code] })
	if i < 0 {
		return append(lines, lineOfCondition(f))
	}
	l := &lines[i]
	l.Urgent, l.Detail = l.Urgent || f.Urgent, strings.TrimPrefix(l.Detail+"\n"+f.Sentence, "\n")
	l.Next, l.Conditions = cmp.Or(f.Next, l.Next), append(l.Conditions, f)
	return lines
}

func lineOfReason(r state.ReasonCount) Line {
	kind := KindFinding
	switch r.Reason {
	case connector.ReasonLikeness:
		kind = KindMatch
	case connector.ReasonEventNotUnderstood:
		kind = KindDelivery
	}
	return Line{Kind: kind, Subject: string(r.Reason), Title: ReasonTitle(r.Reason), Count: r.Count, Who: r.Reason.Who(),
		Next: r.Reason.Next(), Otherwise: reasonOtherwise(r.Reason), Since: r.Oldest,
		Urgent: r.Reason == connector.ReasonLeftWithMandate || r.Reason == connector.ReasonDuplicateCustomer}
}

func lineOfPlans(plans []state.Plan) Line {
	l := Line{Kind: KindPlan, Subject: string(health.PlanWaits), Title: health.PlanWaits.Title(), Count: len(plans),
		Who: connector.WhoYou, Since: plans[0].CreatedAt,
		Next: "Look at the changes, then approve or reject them.", Otherwise: notApproved}
	if len(plans) == 1 {
		l.Plan = plans[0].ID
	}
	for _, p := range plans {
		if p.CreatedAt.Before(l.Since) {
			l.Since = p.CreatedAt
		}
	}
	return l
}

func lineOfCondition(f health.Condition) Line {
	of := conditionFacts[f.Code]
	l := Line{Kind: cmp.Or(of.kind, KindCondition), Subject: cmp.Or(countedBy[f.Code], string(f.Code)),
		Connection: f.Connection, Title: f.Code.Title(), Detail: f.Sentence, Count: 1, Who: of.who, Next: f.Next,
		Otherwise: of.otherwise, Since: f.Since, Urgent: f.Urgent, Conditions: []health.Condition{f}}
	if l.Kind != KindCondition {
		l.Count = max(1, f.Count)
	}
	return l
}

// Still says how many payers left the accounting system with a mandate that is active, or may become so.
func (c *Count) Still() (out []string) {
	for _, step := range readiness.LeftBehind.Steps() {
		if n := c.Number(Which{Class: readiness.LeftBehind, Step: step, Who: readiness.You}); n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, step.Title()))
		}
	}
	return out
}

// Task is a step or class of readiness in which payers need somebody, although no finding says so.
type Task string

// The tasks on classes of readiness without steps.
const (
	taskCancelled    Task = "cancelled"
	taskUncertain    Task = "customer_uncertain"
	taskUnknown      Task = "unknown_status"
	taskDebitable    Task = "debitable"
	taskUnlooked     Task = "not_read_since"
	taskSigned       Task = "at_bank"
	taskNotInService Task = "not_in_service"
)

// classTasks are the tasks on classes without steps. The letter of the class is a former name of its task.
var classTasks = map[readiness.Class]Task{
	readiness.Cancelled: taskCancelled, readiness.Conflict: taskUncertain, readiness.Unknown: taskUnknown,
	readiness.Debitable: taskDebitable, readiness.Unlooked: taskUnlooked, readiness.Signed: taskSigned,
	readiness.Absent: taskNotInService,
}

// Tasks are all tasks, in display order.
var Tasks = []Task{
	Task(readiness.StillActive), Task(readiness.StillSigned), Task(readiness.CanSign), Task(readiness.NotSent),
	Task(readiness.Stopped), Task(readiness.Bounced), Task(readiness.LinkLost),
	Task(readiness.Refused), Task(readiness.NoEmail), Task(readiness.NotWished), Task(readiness.NoPayer),
	Task(readiness.UnderWay), Task(readiness.Sent), taskCancelled, taskUncertain, taskUnknown, taskDebitable,
	taskUnlooked, taskSigned, taskNotInService,
}

// TaskNamed returns the task with a name, also with a former one.
func TaskNamed(name string) Task { return cmp.Or(classTasks[readiness.Class(name)], Task(name)) }

// Title returns the task in a few words.
func (t Task) Title() string { return cmp.Or(taskFacts[t].title, string(t)) }

// taskOf returns the task on a record; "" if nobody here must act, or a finding says so.
func taskOf(f state.ReadinessFacts, s readiness.Assessment) Task {
	if s.Who != readiness.You && s.Who != readiness.Books && s.Who != readiness.Operator {
		return ""
	}
	for _, told := range f.Told {
		if s.Reason != "" && told.Reason == s.Reason {
			return ""
		}
	}
	return cmp.Or(Task(s.Step), classTasks[s.Class])
}

// taskLines counts the records with a task.
func (c *Count) taskLines() []Line {
	at := map[Task]int{}
	var lines []Line
	for _, p := range c.places {
		if p.task == "" {
			continue
		}
		i, ok := at[p.task]
		if !ok {
			i, at[p.task] = len(lines), len(lines)
			of := taskFacts[p.task]
			lines = append(lines, Line{Kind: KindPayer, Subject: string(p.task), Title: p.task.Title(),
				Who: connector.Who(p.who), Next: of.next, Otherwise: cmp.Or(of.otherwise, notDebited), Since: p.since})
		}
		lines[i].Count++
		if p.since.Before(lines[i].Since) {
			lines[i].Since = p.since
		}
		if who := connector.Who(p.who); slices.Index(whos, who) < slices.Index(whos, lines[i].Who) {
			lines[i].Who = who
		}
	}
	return lines
}
