package pages

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/readiness"
	"payersync/state"
)

// needRow is a line of the list of what needs somebody.
type needRow struct {
	admin.Line
	Path     string   // of exactly its items; "" for none
	On       leads    // the page to settle it; zero for none
	Commands []string // where no page does
}

// share is how many payers are in a class of readiness.
type share struct {
	Title    string
	Kind     string // its colour
	Count    int
	Path     string // of exactly these
	X, Width int    // on the bar of all
}

// connectionRow is the state of a connection.
type connectionRow struct {
	Name  string
	State chip
	Read  time.Time // when its books were last read to their end
	Run   *lastRun
	Next  time.Time
	Idle  bool // it has a schedule, and no process keeps it
}

// lastRun is the newest run of a connection.
type lastRun struct{ state.RunRow }

// Needing returns how many records need attention after it.
func (r lastRun) Needing() int { return r.Held + r.Failed }

// setUp is a step on the way to the first payer.
type setUp struct {
	Done    bool
	Title   string
	Next    string
	Command string
	Path    string // of a page that helps; "" for none
}

// barWidth is the width of the bar of all payers.
const barWidth = 1000

// overview shows whether payersync works, the payers not debitable, and the waiting work.
func (v *visit) overview() error {
	c, err := v.counted()
	if c == nil {
		return err
	}
	needs, err := v.needs(c)
	if err != nil {
		return err
	}
	content := struct {
		Counted     time.Time
		Records     int
		Payers, Can int
		Cannot      int
		Most        string
		Needs       []needRow
		PutOff      []leads // findings that people postponed
		Shares      []share
		Connections []connectionRow
		Steps       []setUp
		Startable   []string // connections that the person may run
		Recent      recently
	}{Startable: v.startable(), Counted: c.At, Records: c.Records, Payers: c.Payers, Can: c.Reached(admin.Active), Shares: shares(c), Needs: needs}
	content.Cannot = c.Payers - content.Can
	content.Most = mostWords(c, content.Cannot)
	for _, r := range c.Reasons {
		if r.PutOff > 0 {
			content.PutOff = append(content.PutOff,
				leads{todoPath(r.Reason) + "?later=1", number(r.PutOff) + " " + admin.ReasonTitle(r.Reason)})
		}
	}
	if content.Connections, err = v.connections(c); err != nil {
		return err
	}
	if c.Reached(admin.InService) == 0 {
		if content.Steps, err = v.setUp(c); err != nil {
			return err
		}
	}
	if content.Recent, err = v.recently(); err != nil {
		return err
	}
	return v.show("overview", "Overview", content)
}

// reads reports whether the user sees a connection, and the configuration has it.
func (v *visit) reads(connection string) bool {
	return slices.Contains(v.pages.cfg.Connections, connection)
}

// needs returns the list of what needs somebody, with the page of each line.
func (v *visit) needs(c *admin.Count) ([]needRow, error) {
	found, err := v.pages.look(v.Context(), admin.ListedConditions...)
	if err != nil {
		return nil, err
	}
	rows := connector.Map(c.List(found, v.reads), v.needRow)
	for i, row := range rows {
		if row.Count == 1 && row.Subject == string(connector.ReasonRenumbered) && v.User.Role.May(Operator) &&
			v.pages.cfg.Attention != nil {
			pairs, err := v.ledger().Renumberings(v.Context(), 2)
			if err != nil {
				return nil, err
			}
			if len(pairs) == 1 {
				rows[i].On = leads{pathOf(admin.Decision{Act: connector.ActTakeOver, Record: pairs[0].New, Other: pairs[0].Old}),
					"Compare"}
			}
		}
	}
	return rows, nil
}

// needRow returns a line with its page.
func (v *visit) needRow(l admin.Line) needRow {
	row := needRow{Line: l}
	switch l.Kind {
	case admin.KindPayer:
		row.Path = "/mandates/report?task=" + l.Subject
		row.On = leads{row.Path, "Show them"}
		if l.Subject == string(readiness.NotSent) && v.pages.cfg.Letters != nil {
			row.On = leads{"/mandates/letters", "See letters"}
		}
	case admin.KindPlan:
		if row.Path = "/plans?show=waiting"; l.Plan != 0 {
			row.Path = fmt.Sprintf("/plans/%d", l.Plan)
		}
		row.On = leads{row.Path, "Review"}
	case admin.KindFinding, admin.KindMatch, admin.KindDelivery:
		row.Path, row.On = todoPath(connector.Reason(l.Subject)), decided[connector.Reason(l.Subject)]
		if row.On.Path == "" {
			row.On = leads{row.Path, "Show them"}
		}
	default:
		for _, c := range slices.Backward(l.Conditions) {
			row.On = cmp.Or(v.pages.firstPage(c.Steps), row.On)
		}
	}
	if !v.pages.serves(row.On.Path) {
		row.On = leads{}
	}
	if row.Path == "" && row.On.Path == "" {
		for _, c := range l.Conditions {
			row.Commands = append(row.Commands, c.Commands...)
		}
	}
	return row
}

// mostWords names the main cause of payers not debitable.
func mostWords(c *admin.Count, cannot int) string {
	most := c.Most()
	words := map[readiness.Class]string{
		readiness.Unlooked: "were active when last read", readiness.Signed: "wait for the bank",
		readiness.Awaiting:  "wait for a signature",
		readiness.Cancelled: "have cancelled", readiness.Unasked: "have no mandate request",
		readiness.Absent:   "are not in the billing service yet",
		readiness.Conflict: "are on hold", readiness.Unknown: "have an unknown status",
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

// shares returns the classes with payers, as parts of the bar.
func shares(c *admin.Count) (out []share) {
	x := 0
	for _, class := range readiness.Classes {
		n := c.Number(admin.Which{Class: class, Stage: admin.InBooks})
		if n == 0 {
			continue
		}
		kind := classChip(readiness.Assessment{Class: class}).Kind
		if class == readiness.Absent { // amber is the colour of those who have to sign
			kind = stopped
		}
		s := share{Title: class.Title(), Kind: kind, Count: n, Path: "/mandates/report?class=" + string(class) + "&stage=" +
			string(admin.InBooks), X: x, Width: max(n*barWidth/c.Payers-2, 2)}
		x += n * barWidth / c.Payers
		out = append(out, s)
	}
	return out
}

// actors are the parties to act on payers, in display order.
var actors = []readiness.Who{readiness.You, readiness.Books, readiness.Operator, readiness.Payer, readiness.Bank}

// actorWords are the actors' names after a number.
var actorWords = map[readiness.Who]string{
	readiness.You: "for you", readiness.Books: "for your accounting staff",
	readiness.Operator: "for the operator of payersync", readiness.Payer: "for the payer", readiness.Bank: "for the bank",
}

// connections returns the state of each connection.
func (v *visit) connections(c *admin.Count) (out []connectionRow, err error) {
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
			row.Run, row.State = &lastRun{c.Runs[at]}, outcome(c.Runs[at])
			// somebody has said a word since
			if connector.RunOutcome(row.Run.Outcome) == connector.RunAwaitingApproval && !of(waiting, name) {
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
		if at := slices.IndexFunc(jobs, func(j JobTimes) bool { return j.Name == "sync "+name }); at >= 0 {
			row.Next, row.Idle = jobs[at].NextAt, jobs[at].Idle
		}
		out = append(out, row)
	}
	return out, nil
}

// setUp returns the steps to the first payer, with their completion.
func (v *visit) setUp(c *admin.Count) ([]setUp, error) {
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
		{len(v.pages.cfg.Connections) > 0, "Connect the accounting system", "payersync.yaml holds the connection.",
			v.pages.command(connector.DoInit, ""), "/settings/systems"},
		{c.Records > 0, "Read the accounting system", "Shows the plan, and sends nothing.",
			v.pages.command(connector.DoPlan, name), ""},
		{hooks.Expected != nil, "Subscribe to webhooks", "Without it, only the sweep finds changes.",
			v.pages.command(connector.DoSubscribe, ""), ""},
		{c.Reached(admin.InService) > 0, "Send the first payers", "Shows the plan again, and asks before it sends anything.",
			v.pages.command(connector.DoSend, name), ""},
	}, nil
}
