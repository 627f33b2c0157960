package pages

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"payersync/connector"
	"payersync/connector/condition"
	"payersync/connector/office"
	"payersync/connector/standing"
	"payersync/state"
)

// warned are the conditions above the headline. Payers and plans waiting for a person are counted below it.
var warned = slices.DeleteFunc(slices.Clone(condition.Codes), func(c condition.Code) bool {
	switch c {
	case condition.Attention, condition.MandateCancelled, condition.MandateUnknown, condition.PlanWaits:
		return true
	}
	return false
})

// settled are the pages to examine or settle a condition.
var settled = map[condition.Code]leads{
	condition.WebhooksSilent: {"/webhooks", "Look at the webhooks"}, condition.SubscriptionChanged: {"/webhooks", "Look at the webhooks"},
	condition.RotationUnfinished: {"/webhooks", "Look at the webhooks"}, condition.EventsUnclear: {"/webhooks", "Look at the webhooks"}, condition.EventTypeUnknown: {"/webhooks", "Look at the webhooks"},
	condition.SourceDisconnected: {"/settings", "Look at the connections"}, condition.ConsentBroken: {"/settings", "Look at the connections"}, condition.ConsentLapsing: {"/settings", "Look at the connections"},
	condition.JobFailed: {"/settings", "Look at the schedules"}, condition.JobOverdue: {"/settings", "Look at the schedules"}, condition.ConfigWrong: {"/settings", "Look at the settings"},
	condition.RunFailed: {"/runs", "Look at the runs"}, condition.RunIncomplete: {"/runs", "Look at the runs"},
	condition.Standstill: {"/plans", "Look at the plan"}, condition.PlanRejected: {"/plans", "Look at the plan"}, condition.CreatesWait: {"/matches", "Match the customers"},
	condition.MappingWrong: {"/mapping", "Look at the mapping"}, condition.TwoWay: {"/todo/two_way", "Look at the payers"},
	condition.LettersHeld: {"/mandates/letters", "Look at the letters"}, condition.LettersWait: {"/mandates/letters", "Look at the letters"}, condition.LettersUnclear: {"/mandates/letters", "Look at the letters"},
	condition.RequestsUnanswered: {"/todo/outcome_unknown", "Look at the payers"},
}

// leads is a link in words.
type leads struct{ Path, Label string }

// warning is a condition with the page to settle it.
type warning struct {
	condition.Condition
	On leads // zero if only a command settles it
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

// connectionRow is the state of a connection.
type connectionRow struct {
	Name  string
	State chip
	Read  time.Time // when its books were last read to their end
	Run   *state.RunRow
	Next  time.Time
	Idle  bool // it has a schedule, and no process keeps it
}

// setUp is a step on the way to the first payer.
type setUp struct {
	Done    bool
	Title   string
	Next    string
	Command string
}

// The size of the funnel: each bar has its numbers below it, so the funnel fits the narrowest screen.
const (
	funnelWidth = 320
	funnelStep  = 40
)

// overview shows whether payersync works, the payers not debitable, and the waiting work.
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
		Counted     time.Time
		Records     int
		Payers, Can int
		Cannot      int
		Most        string
		Warnings    []warning
		Stages      []stage
		Height      int
		Description string
		Waiting     []leads
		Others      []leads // on how many records each of the others must act
		ToDo        int
		Connections []connectionRow
		Steps       []setUp
	}{Counted: c.At, Records: c.Records, Payers: c.Payers, Can: c.Reached(office.Active), Height: len(office.Stages) * funnelStep}
	content.Cannot = c.Payers - content.Can
	content.Most = mostWords(c, content.Cannot)
	content.Warnings = v.warnings(found)
	content.Stages = funnel(c)
	for _, s := range content.Stages {
		content.Description += fmt.Sprintf("%s: %s. ", s.Title, number(s.Count))
	}
	content.ToDo = c.Told()
	content.Waiting = v.waiting(c)
	for _, who := range actors[1:] {
		if n := c.Number(office.Which{Who: who}); n > 0 {
			content.Others = append(content.Others, leads{actsPath(who), fmt.Sprintf("%s %s", number(n), actorWords[who])})
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

// warnings returns the conditions in the order found, with the pages to settle them.
func (v *visit) warnings(found []condition.Condition) (out []warning) {
	for _, c := range found {
		w := warning{Condition: c}
		if on, ok := settled[c.Code]; ok && (v.pages.served[on.Path] || len(on.Path) > len("/todo/") && on.Path[:6] == "/todo/") {
			w.On = on
		}
		out = append(out, w)
	}
	return out
}

// mostWords names the main cause of payers not debitable.
func mostWords(c *office.Count, cannot int) string {
	most := c.Most()
	words := map[standing.Class]string{
		standing.Unlooked: "were active when last read", standing.Signed: "wait for the bank", standing.Awaiting: "wait for a signature",
		standing.Cancelled: "have cancelled", standing.Unasked: "have no mandate request", standing.Absent: "are not in the billing service yet",
		standing.Conflict: "are on hold", standing.Unknown: "have an unknown status",
	}[most.Class]
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
		if c.Payers > 0 {
			b.Width, b.Share = n*funnelWidth/c.Payers, fmt.Sprintf("%d %%", n*100/c.Payers)
		}
		if n > 0 {
			b.Width = max(b.Width, 2) // few are not none
		}
		out = append(out, b)
	}
	return out
}

// unsignedFor is the number of days without a signature before a person should act.
const unsignedFor = 14

// actors are the parties to act on payers, in display order.
var actors = []standing.Who{standing.You, standing.Books, standing.Operator, standing.Payer, standing.Bank}

// actorWords are the actors' names after a number.
var actorWords = map[standing.Who]string{
	standing.You: "for you", standing.Books: "for your accounting staff", standing.Operator: "for the operator of payersync", standing.Payer: "for the payer", standing.Bank: "for the bank",
}

// actsPath returns the address of the list of records waiting for a party.
func actsPath(who standing.Who) string { return "/mandates/report?who=" + string(who) }

// yours describes the reader's work by class or step. The text of a step takes precedence over its class.
var yours = map[string]string{
	string(standing.StillActive): "were removed, mandate still active", string(standing.StillSigned): "were removed, mandate may become active",
	string(standing.CanSign): "were removed, and can still sign", string(standing.Debitable): "can be debited, and need a decision",
	string(standing.Unlooked): "were active when last read, and need a decision", string(standing.Signed): "have signed, and need a decision",
	string(standing.LinkLost): "lost their signing link", string(standing.Stopped): "get no letters", string(standing.NotSent): "were not sent their signing link",
	string(standing.Awaiting): "wait for a signature, and need a decision", string(standing.Cancelled): "cancelled their mandate",
	string(standing.NoPayer): "are excluded, and need a decision", string(standing.Unasked): "have no mandate, and need a decision",
	string(standing.Absent): "are not in the billing service, and need a decision", string(standing.Conflict): "may belong to another customer or record",
	string(standing.Unknown): "have an unknown status",
}

// waitingPlans returns the plans of a count that wait for approval, of the reader's connections.
func (v *visit) waitingPlans(c *office.Count) []state.Plan {
	return connector.Filter(c.Plans, func(p state.Plan) bool { return slices.Contains(v.pages.cfg.Connections, p.Connection) })
}

// waiting returns the reader's work, most urgent first. It counts each record in one line.
func (v *visit) waiting(c *office.Count) (out []leads) {
	add := func(n int, words, path string) {
		if n > 0 {
			out = append(out, leads{path, words})
		}
	}
	plans, changes := 0, 0
	for _, p := range v.waitingPlans(c) {
		plans, changes = plans+1, changes+p.Creates+p.Adopts+p.Updates+p.Links
	}
	to := "/todo"
	if v.pages.served["/plans"] {
		to = "/plans"
	}
	verb := "wait"
	if plans == 1 {
		verb = "waits"
	}
	told := false
	for _, t := range c.Totals { // removed ones come first
		if t.Class != standing.LeftBehind && !told {
			told = true
			alike := c.For(connector.ReasonLikeness)
			if v.pages.served["/matches"] { // first, because a plan is approved in full only after the matches
				add(alike, "Compare "+connector.Plural(alike, "payer")+" with existing customers", "/matches")
			}
			add(plans, fmt.Sprintf("%s %s (%s)", connector.Plural(plans, "plan"), verb, connector.Plural(changes, "change")), to)
		}
		path := actsPath(standing.You) + "&class=" + string(t.Class)
		if t.Step != "" {
			path += "&step=" + string(t.Step)
		}
		n := t.Who[standing.You]
		add(n, number(n)+" "+cmp.Or(yours[string(t.Step)], yours[string(t.Class)]), path)
	}
	for _, r := range []connector.Reason{connector.ReasonEventNotUnderstood, connector.ReasonSubscriptionChanged} { // they are of no record
		n := c.For(r)
		add(n, fmt.Sprintf("%s %s", number(n), map[bool]string{true: "deliveries are in quarantine", false: "webhook subscription was changed"}[r == connector.ReasonEventNotUnderstood]), todoPath(r))
	}
	late := c.Number(office.Which{Class: standing.Awaiting, Days: unsignedFor})
	add(late, fmt.Sprintf("%s unsigned for %d days", number(late), unsignedFor), "/mandates?show=14")
	return out
}

// connections returns the state of each connection.
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
				row.State = chip{"✕", "Access refused", stopped}
			case s.State == state.SourceParked && s.ParkedUntil.After(v.pages.now()):
				row.State = chip{"◷", "Request limit used up", waits}
			}
		}
		if at := slices.IndexFunc(jobs, func(j Job) bool { return j.Name == "sync "+name }); at >= 0 {
			row.Next, row.Idle = jobs[at].NextAt, jobs[at].Idle
		}
		out = append(out, row)
	}
	return out, nil
}

// setUp returns the steps to the first payer, with their completion.
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
		{len(v.pages.cfg.Connections) > 0, "Connect the accounting system", "payersync.yaml holds the connection.", "payersync init"},
		{c.Records > 0, "Read the accounting system", "Shows the plan, and sends nothing.", "payersync plan " + name},
		{hooks.Expected != nil, "Subscribe to webhooks", "Without it, only the sweep finds changes.", "payersync webhooks subscribe"},
		{c.Reached(office.InService) > 0, "Send the first payers", "Shows the plan again, and asks before it sends anything.", "payersync backfill " + name},
	}, nil
}
