package pages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/condition"
	"payersync/connector/office"
	"payersync/connector/standing"
	"payersync/state"
)

// warned are the conditions that stand above the headline. What waits for a person by itself,
// payers and plans, is counted below it.
var warned = slices.DeleteFunc(slices.Clone(condition.Codes), func(c condition.Code) bool {
	switch c {
	case condition.Attention, condition.MandateCancelled, condition.MandateUnknown, condition.PlanWaits:
		return true
	}
	return false
})

// settled are the pages on which a condition is looked into, or settled.
var settled = map[condition.Code]leads{
	condition.WebhooksSilent: {"/webhooks", "Look at the webhooks"}, condition.SubscriptionChanged: {"/webhooks", "Look at the webhooks"},
	condition.RotationUnfinished: {"/webhooks", "Look at the webhooks"}, condition.EventsUnclear: {"/webhooks", "Look at the webhooks"}, condition.EventTypeUnknown: {"/webhooks", "Look at the webhooks"},
	condition.SourceDisconnected: {"/settings", "Look at the connections"}, condition.ConsentBroken: {"/settings", "Look at the connections"}, condition.ConsentLapsing: {"/settings", "Look at the connections"},
	condition.JobFailed: {"/settings", "Look at the schedules"}, condition.JobOverdue: {"/settings", "Look at the schedules"}, condition.ConfigWrong: {"/settings", "Look at the settings"},
	condition.RunFailed: {"/runs", "Look at the runs"}, condition.RunIncomplete: {"/runs", "Look at the runs"},
	condition.Standstill: {"/plans", "Look at the plan"}, condition.PlanRejected: {"/plans", "Look at the plan"},
	condition.MappingWrong: {"/mapping", "Look at the mapping"}, condition.TwoWay: {"/todo/two_way", "Look at the payers"},
	condition.LettersHeld: {"/mandates/letters", "Look at the letters"}, condition.LettersWait: {"/mandates/letters", "Look at the letters"}, condition.LettersUnclear: {"/mandates/letters", "Look at the letters"},
	condition.RequestsUnanswered: {"/todo/outcome_unknown", "Look at the payers"},
}

// leads is a link in words.
type leads struct{ Path, Label string }

// warning is something that is the matter, and where that is settled.
type warning struct {
	condition.Condition
	On leads // zero where a command alone settles it
}

// stage is a bar of the funnel.
type stage struct {
	Title string
	Count int
	Path  string
	Share string // of those in the books
	Y     int
	Width int
	TextY int
}

// connectionRow is how a connection stands.
type connectionRow struct {
	Name  string
	State chip
	Read  time.Time // when its books were last read to their end
	Run   *state.RunRow
	Next  time.Time
}

// setUp is a step on the way to the first payer.
type setUp struct {
	Done    bool
	Title   string
	Next    string
	Command string
}

// The size of the funnel: a bar and its numbers below each other, so that it fits the narrowest
// screen.
const (
	funnelWidth = 320
	funnelStep  = 40
)

// overview answers whether it works, who cannot be debited, and what waits.
func (v *visit) overview() error {
	c, err := v.counted()
	if c == nil {
		return err
	}
	found, err := v.pages.look(v.Context(), warned...)
	if err != nil {
		return err
	}
	content := struct {
		Counted      time.Time
		Records, Can int
		Cannot       int
		Most         string
		Left         int
		Warnings     []warning
		Stages       []stage
		Height       int
		Description  string
		Waiting      []leads
		Others       []string // how many each of the others can end
		ToDo         int
		Connections  []connectionRow
		Steps        []setUp
	}{Counted: c.At, Records: c.Records, Can: c.Reached(office.Active), Left: c.Left, Height: len(office.Stages) * funnelStep}
	content.Cannot = c.Records - content.Can
	content.Most = mostWords(c, content.Cannot)
	content.Warnings = v.warnings(found)
	content.Stages = funnel(c)
	for _, s := range content.Stages {
		content.Description += fmt.Sprintf("%s: %s. ", s.Title, number(s.Count))
	}
	by := map[connector.Who]int{}
	for _, r := range c.Reasons {
		by[r.Reason.Who()] += r.Count - r.PutOff
		content.ToDo += r.Count - r.PutOff
	}
	paired, err := v.ledger().CountTold(v.Context(), pairedLeavers)
	if err != nil {
		return err
	}
	content.ToDo -= paired
	content.Waiting = v.waiting(c, by[connector.WhoYou]-paired, paired)
	for _, who := range helpers {
		if n := by[who]; n > 0 && who != connector.WhoYou && who != connector.WhoNobody {
			content.Others = append(content.Others, strings.ToLower(whoActs[who])+" "+number(n))
		}
	}
	if content.Connections, err = v.connections(c); err != nil {
		return err
	}
	if c.Reached(office.InService) == 0 {
		if content.Steps, err = v.setUp(c); err != nil {
			return err
		}
	}
	return v.show("overview", "Overview", content)
}

// warnings returns what is the matter, what is urgent first.
func (v *visit) warnings(found []condition.Condition) (out []warning) {
	for _, c := range found {
		w := warning{Condition: c}
		if on, ok := settled[c.Code]; ok && (v.pages.served[on.Path] || len(on.Path) > len("/todo/") && on.Path[:6] == "/todo/") {
			w.On = on
		}
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(a, b warning) int {
		switch {
		case a.Urgent == b.Urgent:
			return 0
		case a.Urgent:
			return -1
		}
		return 1
	})
	return out
}

// mostWords says why most of those that cannot be debited cannot.
func mostWords(c *office.Count, cannot int) string {
	most := c.Most()
	words := map[standing.Class]string{
		standing.Unlooked: "could be when they were looked at last", standing.Signed: "wait for the bank", standing.Awaiting: "wait for a signature",
		standing.Cancelled: "have cancelled", standing.Unasked: "were not asked for a mandate", standing.Absent: "are not in the billing service yet",
		standing.Conflict: "may be another customer there", standing.Unknown: "have an unknown status", standing.LeftBehind: "have left the books",
	}[most.Class]
	if most.Step == standing.NoPayer {
		words = "are no payers, or have left the books"
	}
	switch {
	case words == "":
		return ""
	case most.Records == cannot:
		return "all " + words
	case 2*most.Records > cannot:
		return "most " + words
	}
	return number(most.Records) + " " + words
}

// funnel returns the stages as bars.
func funnel(c *office.Count) (out []stage) {
	for i, s := range office.Stages {
		n := c.Reached(s)
		b := stage{Title: s.Title(), Count: n, Path: "/mandates/report?stage=" + string(s), TextY: i*funnelStep + 14, Y: i*funnelStep + 20}
		if s == office.InBooks {
			b.Path = "/payers"
		}
		if c.Records > 0 {
			b.Width, b.Share = n*funnelWidth/c.Records, fmt.Sprintf("%d %%", n*100/c.Records)
		}
		if n > 0 {
			b.Width = max(b.Width, 2) // few are not none
		}
		out = append(out, b)
	}
	return out
}

// unsignedFor is for how many days somebody has not signed before that waits for a person.
const unsignedFor = 14

// waiting returns what waits for whoever reads, the first of it first; yours is how many things of
// the list to do that person can end, and paired how many left the books and may be there under a
// new number.
func (v *visit) waiting(c *office.Count, yours, paired int) (out []leads) {
	add := func(n int, words, path string) {
		if n > 0 {
			out = append(out, leads{path, words})
		}
	}
	left := c.Left - paired // which are told with their new records
	add(left, fmt.Sprintf("%s left the books and can still be debited", number(left)), "/mandates/report?class="+string(standing.LeftBehind))
	plans, changes := 0, 0
	for _, p := range c.Plans {
		if slices.Contains(v.pages.cfg.Connections, p.Connection) {
			plans, changes = plans+1, changes+p.Creates+p.Adopts+p.Updates+p.Links
		}
	}
	to := "/todo"
	if v.pages.served["/plans"] {
		to = "/plans"
	}
	verb := "wait"
	if plans == 1 {
		verb = "waits"
	}
	add(plans, fmt.Sprintf("%s %s (%s)", connector.Plural(plans, "plan"), verb, connector.Plural(changes, "change")), to)
	alike := c.For(connector.ReasonLikeness)
	to = "/todo/" + string(connector.ReasonLikeness)
	if v.pages.served["/matches"] {
		to = "/matches"
	}
	add(alike, fmt.Sprintf("%s like an existing customer", lookWords(alike)), to)
	renumbered := c.For(connector.ReasonRenumbered)
	add(renumbered, fmt.Sprintf("%s under a new number, perhaps", number(renumbered)), todoPath(connector.ReasonRenumbered))
	yours -= alike + renumbered + c.For(connector.ReasonLeftWithMandate) - paired
	add(yours, fmt.Sprintf("%s for you to decide", number(yours)), "/todo")
	late := c.Number(office.Which{Class: standing.Awaiting, Days: unsignedFor})
	add(late, fmt.Sprintf("%s unsigned for %d days", number(late), unsignedFor), "/mandates?show=14")
	return out
}

func lookWords(n int) string {
	if n == 1 {
		return "1 looks"
	}
	return number(n) + " look"
}

// connections returns how each connection stands.
func (v *visit) connections(c *office.Count) (out []connectionRow, err error) {
	jobs, err := v.pages.cfg.Jobs(v.Context())
	if err != nil {
		return nil, err
	}
	waiting, err := v.ledger().WaitingPlans(v.Context())
	if err != nil {
		return nil, err
	}
	rejected, err := v.ledger().RejectedPlans(v.Context())
	if err != nil {
		return nil, err
	}
	of := func(plans []state.Plan, name string) bool {
		return slices.ContainsFunc(plans, func(p state.Plan) bool { return p.Connection == name })
	}
	for _, name := range v.pages.cfg.Connections {
		row := connectionRow{Name: name, State: chip{"–", "Not read yet", none}}
		if at := slices.IndexFunc(c.Reads, func(r state.ReadRow) bool { return r.Connection == name }); at >= 0 {
			row.Read = c.Reads[at].At
		}
		if at := slices.IndexFunc(c.Runs, func(r state.RunRow) bool { return r.Connection == name }); at >= 0 {
			row.Run, row.State = &c.Runs[at], outcome(c.Runs[at])
			if connector.RunOutcome(row.Run.Outcome) == connector.RunAwaitingApproval && !of(waiting, name) { // somebody has said a word since
				if row.State = planChip(state.Plan{State: state.PlanApproved}); of(rejected, name) {
					row.State = planChip(state.Plan{State: state.PlanRejected})
				}
			}
		}
		if at := slices.IndexFunc(c.Sources, func(s state.SourceRow) bool { return s.Connection == name }); at >= 0 {
			switch s := c.Sources[at]; {
			case s.State == state.SourceDisconnected:
				row.State = chip{"✕", "Lets nobody in", stopped}
			case s.State == state.SourceParked && s.ParkedUntil.After(v.pages.now()):
				row.State = chip{"◷", "Asked to wait", waits}
			}
		}
		if at := slices.IndexFunc(jobs, func(j Job) bool { return j.Name == "sync "+name }); at >= 0 {
			row.Next = jobs[at].NextAt
		}
		out = append(out, row)
	}
	return out, nil
}

// setUp returns the steps to the first payer, and which are done.
func (v *visit) setUp(c *office.Count) ([]setUp, error) {
	hooks, err := v.ledger().Subscription(v.Context())
	if err != nil {
		return nil, err
	}
	name := "NAME"
	if len(v.pages.cfg.Connections) > 0 {
		name = v.pages.cfg.Connections[0]
	}
	name = cmp.Or(name, "NAME")
	return []setUp{
		{len(v.pages.cfg.Connections) > 0, "Connect the books", "payersync.yaml says where they are.", "payersync init"},
		{c.Records > 0, "Read the books", "Shows what would be sent, and sends nothing.", "payersync plan " + name},
		{hooks.Expected != nil, "Let the billing service tell of changes", "Without it they are found by looking, once in a while.", "payersync webhooks subscribe"},
		{c.Reached(office.InService) > 0, "Send the first payers", "Shows the plan again, and asks before it sends anything.", "payersync backfill " + name},
	}, nil
}
