package metrics

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payersync/connector"
	"payersync/state"
)

// Facts are the facts of the ledger and the configuration at one time.
type Facts struct {
	state.MonitoringCounts
	Connections []string // configured ones
	LastPass    time.Time
	Plans       []state.Plan // waiting for a person
	Sources     []state.SourceRow
	Mappings    []state.MappingProblem
	Consents    []state.ConsentRow
	Jobs        []Job
	Serving     state.Serving
	Budgets     []Budget
}

// Job is a job of payersync serve, and when it comes next.
type Job struct {
	state.JobRow
	NextAt time.Time
}

// Budget is a connection's remaining requests by its source's limits.
type Budget struct {
	Connection string
	state.Left
}

// Unconfigured is the label of every removed connection in the ledger. Its payers and its findings still
// count, but not its runs, plans and source. It cannot be a connection's name.
const Unconfigured = "(not configured)"

// How often the ledger is counted. All requests for the page together take at most
// a twentieth of one processor's time. A count of
// more than 3 s may take an eighth.
const (
	freshFor    = 5 * time.Second
	restFactor  = 20
	longestRest = time.Minute
	readWithin  = 8 * time.Second // a scrape is given up after 10 s
)

// follower is a collector of a read's facts. One read answers all scrapes for a while.
type follower struct {
	read func(context.Context) (Facts, error)
	now  func() time.Time

	turn  chan struct{} // holds one while somebody reads; the fields below are theirs
	facts Facts
	err   error
	ended time.Time // of the last read; zero before the first
	took  time.Duration
}

func newFollower(read func(context.Context) (Facts, error), now func() time.Time) *follower {
	return &follower{read: read, now: now, turn: make(chan struct{}, 1)}
}

// latest returns the last read's facts, and reads anew when they are too old.
func (f *follower) latest() (facts Facts, took time.Duration, ended time.Time, err error) {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	if age := f.now().Sub(f.ended); f.ended.IsZero() || age < 0 ||
		age >= min(max(freshFor, restFactor*f.took), longestRest) {
		ctx, cancel := context.WithTimeout(context.Background(), readWithin)
		defer cancel()
		began := f.now()
		f.facts, f.err = f.read(ctx)
		f.ended = f.now()
		f.took = f.ended.Sub(began)
	}
	return f.facts, f.took, f.ended, f.err
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("payersync_"+name, help, labels, nil)
}

// The metrics computed from the ledger. A label is never called job or instance: Prometheus sets these. Times
// are points in time and not ages, so an age is right at any later reading. A missing fact has no line.
var (
	descUp = desc("ledger_up",
		"1 when the ledger could be read for this page; at 0 nothing is shown that is computed from it.")
	descTook = desc("ledger_count_duration_seconds",
		"How long it took to count the ledger for this page. It is counted again after 5 s, or twenty times as long as it takes, a minute at most.")
	descCounted = desc("ledger_counted_timestamp_seconds", "When the ledger was counted for this page.")
	descSize    = desc("ledger_size_bytes",
		"Size of the ledger file, and of the log of commits that are not in it yet (wal).", "file")

	descRuns = desc("runs_total", "Runs that have ended, of all processes and times.", "connection", "kind",
		"outcome")
	descOpen = desc("run_open_since_timestamp_seconds", "Since when a run of the connection is under way.",
		"connection")
	descOutcome = desc("run_last_outcome", "1 for the outcome of the connection's newest run, except plans.",
		"connection", "outcome")
	descEnded = desc("run_last_ended_timestamp_seconds", "When the connection's newest run ended, except plans.",
		"connection")
	descComplete = desc("run_last_complete_timestamp_seconds",
		"When the newest run of the connection ended that left nothing undone.", "connection")
	descSpan = desc("run_last_complete_duration_seconds", "How long the newest run took that left nothing undone.",
		"connection")
	descSent = desc("changes_total",
		"Requests that change something at the billing service, by what became of them: answered, refused, unsent, or looked (a later look showed that there was no effect).", "connection", "action", "outcome")
	descOpenSent = desc("changes_unanswered",
		"Requests that change something at the billing service and may still take effect: nobody knows what became of them.",
		"connection", "action")
	descOldest = desc("changes_unanswered_oldest_timestamp_seconds",
		"When the oldest request left that may still take effect.", "connection")
	descPlans = desc("plans_waiting",
		"Plans that wait for a person: approval for those above a limit, standstill where too much is missing or would be lost.", "connection", "kind")
	descPlanSince = desc("plans_waiting_oldest_timestamp_seconds", "Since when the oldest plan waits for a person.",
		"connection")

	descPayers = desc("payers", "Payers, by how they are linked to a customer of the billing service.", "connection",
		"state")
	descLeftOut = desc("payers_left",
		"Part of payersync_payers: those whose records were removed or are excluded, by how they are linked.", "connection",
		"state")
	descMandates = desc("mandates",
		"Mandates, by status as the billing service spells it; only ACTIVE ones can be collected. Statuses that it does not document are together in other when there are many, or their name is odd.", "status")
	descAttention = desc("attention",
		"Records, webhooks and subscriptions that need attention now, by reason. Without a connection: those of the webhook endpoint.", "connection", "reason")
	descPutOff = desc("attention_put_off",
		"Records, webhooks and subscriptions that need attention, and that somebody put off until later, by reason.",
		"connection", "reason")

	descInbox = desc("inbox",
		"Webhooks that are not settled: received waits to be reflected, parked for a customer that nobody knows yet, quarantined for a person.", "state")
	descInboxOld = desc("inbox_oldest_timestamp_seconds", "When the oldest webhook came that is received or parked.")
	descPass     = desc("sweep_last_complete_timestamp_seconds",
		"When the newest complete reading of the billing service's customers began.")
	descSource = desc("source_state",
		"1 for how the last run met the connection's source: active, parked (its request limit is used up) or disconnected (it lets nobody in).", "connection", "state")
	descLeft = desc("budget_left",
		"Requests that may still be sent to the connection's source in this minute or day.", "connection", "window")
	descParked = desc("budget_parked_until_timestamp_seconds",
		"Until when the connection's source asked not to be asked.", "connection")
	descLapses = desc("consent_lapses_timestamp_seconds", "When a consent lapses unless it is used.", "connection")
	descBroken = desc("consent_broken", "1 when a consent no longer works and a person must give it anew.",
		"connection")
	descMapping = desc("mapping_wrong",
		"1 when the connection's mapping file has a mistake, so that an earlier version is in force.", "connection")
	descJobBegun = desc("job_last_begun_timestamp_seconds", "When a job of the service last began.", "name")
	descJobEnded = desc("job_last_ended_timestamp_seconds", "When a job of the service last ended.", "name")
	descJobDone  = desc("job_last_success_timestamp_seconds", "When a job of the service last ended well.", "name")
	descJobNext  = desc("job_next_timestamp_seconds", "When a job of the service comes next, or was to come.", "name")
	descConfig   = desc("configuration_wrong",
		"1 when the configuration file cannot be used, so that the one before stays in force.")
	descRestart   = desc("configuration_restart_needed", "How many changed settings wait for a restart.")
	descJobResult = desc("job_last_outcome", "1 for how a job of the service last ended.", "name", "outcome")
)

// Describe implements prometheus.Collector.
func (f *follower) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descUp, descTook, descCounted, descSize,
		descRuns, descOpen, descOutcome, descEnded, descComplete, descSpan, descSent, descOpenSent, descOldest, descPlans,
		descPlanSince,
		descPayers, descLeftOut, descMandates, descAttention, descPutOff,
		descInbox, descInboxOld, descPass, descSource, descLeft, descParked, descLapses, descBroken, descMapping,
		descJobBegun, descJobEnded, descJobDone, descJobResult, descJobNext, descConfig, descRestart,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector. When the ledger cannot be read it says so and
// nothing else: what was true a while ago would look as if it still were.
func (f *follower) Collect(out chan<- prometheus.Metric) {
	facts, took, ended, err := f.latest()
	p := page{out}
	p.flag(descUp, err == nil)
	p.gauge(descTook, took.Seconds())
	if err != nil {
		return
	}
	p.at(descCounted, ended)
	p.gauge(descSize, float64(facts.Size), "ledger")
	p.gauge(descSize, float64(facts.WAL), "wal")
	p.runs(facts)
	p.changes(facts)
	p.holdings(facts)
	p.sources(facts)
	p.jobs(facts)
}

// page is the output of a scrape.
type page struct{ out chan<- prometheus.Metric }

func (p page) gauge(d *prometheus.Desc, v float64, labels ...string) {
	p.out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (p page) counter(d *prometheus.Desc, v int, labels ...string) {
	p.out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func (p page) flag(d *prometheus.Desc, on bool, labels ...string) {
	v := 0.
	if on {
		v = 1
	}
	p.gauge(d, v, labels...)
}

// at writes a point in time, unless there is none.
func (p page) at(d *prometheus.Desc, t time.Time, labels ...string) {
	if !t.IsZero() {
		p.gauge(d, float64(t.UnixMilli())/1000, labels...)
	}
}

// oneOf writes a line for each of the values, and 1 for the one that is.
func (p page) oneOf(d *prometheus.Desc, name, is string, values []string) {
	for _, v := range values {
		p.flag(d, v == is, name, v)
	}
}

var (
	runKinds    = []string{string(connector.RunSync), string(connector.RunBackfill), string(connector.RunPlan)}
	runOutcomes = []string{string(connector.RunComplete), string(connector.RunIncomplete),
		string(connector.RunAwaitingApproval), string(connector.RunFailed)}
	lastOutcomes = append(slices.Clone(runOutcomes), string(connector.RunInterrupted))
	actions      = []string{string(connector.ActionCreate), string(connector.ActionAdopt), string(connector.ActionUpdate),
		string(connector.ActionLink)}
	sendEnds = []string{string(state.AttemptAnswered), string(state.AttemptRefused), string(state.AttemptUnsent),
		string(state.AttemptLooked)}
	linkStates = []string{string(connector.LinkNew), string(connector.LinkCreating), string(connector.LinkLinked),
		string(connector.LinkMissing), string(connector.LinkConflict), string(connector.LinkHeld)}
	inboxStates = []string{string(connector.InboxReceived), string(connector.InboxParked),
		string(connector.InboxQuarantined)}
	sourceStates = []string{state.SourceActive, state.SourceParked, state.SourceDisconnected}
	jobOutcomes  = []string{"done", "failed", "panicked", "interrupted", "parked"}
)

// key is the labels of a line.
type key [3]string

// sums adds up the values of one line. A counter without events is 0, so its first event shows as an
// increase.
type sums map[key]int

// zeros puts a 0 where every combination of the values is.
func (s sums) zeros(first, second, third []string) {
	for _, a := range first {
		for _, b := range second {
			for _, c := range third {
				s[key{a, b, c}] += 0
			}
		}
	}
}

var none = []string{""}

func (p page) runs(f Facts) {
	sum := sums{}
	sum.zeros(f.Connections, runKinds, runOutcomes)
	for _, r := range f.Runs {
		if f.configured(r.Connection) {
			sum[key{r.Connection, r.Kind, r.Outcome}] += r.N
		}
	}
	for k, n := range sum {
		p.counter(descRuns, n, k[:]...)
	}
	for _, r := range f.OpenRuns {
		if f.configured(r.Connection) {
			p.at(descOpen, r.StartedAt, r.Connection)
		}
	}
	for _, r := range f.LastEnded {
		if f.configured(r.Connection) {
			p.oneOf(descOutcome, r.Connection, r.Outcome, lastOutcomes)
			p.at(descEnded, r.FinishedAt, r.Connection)
		}
	}
	for _, r := range f.LastComplete {
		if f.configured(r.Connection) {
			p.at(descComplete, r.FinishedAt, r.Connection)
			p.gauge(descSpan, r.FinishedAt.Sub(r.StartedAt).Seconds(), r.Connection)
		}
	}
}

func (p page) changes(f Facts) {
	sent, open, oldest := sums{}, sums{}, map[string]time.Time{}
	sent.zeros(f.Connections, actions, sendEnds)
	for _, s := range f.Sent {
		sent[key{f.label(s.Connection), string(s.Action), string(s.End)}] += s.N
	}
	open.zeros(f.Connections, actions, none)
	for _, u := range f.Unanswered {
		connection := f.label(u.Connection)
		open[key{connection, string(u.Action)}] += u.N
		oldest[connection] = earlier(oldest[connection], u.Since)
	}
	for k, n := range sent {
		p.counter(descSent, n, k[:]...)
	}
	for k, n := range open {
		p.gauge(descOpenSent, float64(n), k[:2]...)
	}
	for connection, since := range oldest {
		p.at(descOldest, since, connection)
	}
	p.plans(f)
}

func (p page) plans(f Facts) {
	waiting, oldest := sums{}, map[string]time.Time{}
	waiting.zeros(f.Connections, []string{"approval", "standstill"}, none)
	for _, plan := range f.Plans {
		if !f.configured(plan.Connection) {
			continue
		}
		kind := "approval"
		if plan.Standstill() {
			kind = "standstill"
		}
		waiting[key{plan.Connection, kind}]++
		oldest[plan.Connection] = earlier(oldest[plan.Connection], plan.CreatedAt)
	}
	for k, n := range waiting {
		p.gauge(descPlans, float64(n), k[:2]...)
	}
	for connection, since := range oldest {
		p.at(descPlanSince, since, connection)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (p page) holdings(f Facts) {
	payers, left, attention, off, inbox := sums{}, sums{}, sums{}, sums{}, sums{}
	payers.zeros(f.Connections, linkStates, none)
	for _, c := range f.Payers {
		payers[key{f.label(c.Connection), c.State}] += c.N
		left[key{f.label(c.Connection), c.State}] += c.Left
	}
	for _, a := range f.Attention {
		attention[key{f.label(a.Connection), a.Reason}] += a.N
		off[key{f.label(a.Connection), a.Reason}] += a.PutOff
	}
	inbox.zeros(inboxStates, none, none)
	for s, n := range f.Waiting {
		inbox[key{s}] += n
	}
	for k, n := range payers {
		p.gauge(descPayers, float64(n), k[:2]...)
		p.gauge(descLeftOut, float64(left[k]), k[:2]...)
	}
	for k, n := range attention {
		p.gauge(descAttention, float64(n), k[:2]...)
		p.gauge(descPutOff, float64(off[k]), k[:2]...)
	}
	for k, n := range inbox {
		p.gauge(descInbox, float64(n), k[0])
	}
	p.at(descInboxOld, f.OldestWaits)
	p.at(descPass, f.LastPass)
	for status, n := range statuses(f.Mandates) {
		p.gauge(descMandates, float64(n), status)
	}
}

// maxStatuses is how many undocumented statuses have a label of their own.
const maxStatuses = 16

// statusShape is what a status looks like that is shown by its name. A service may write anything else
// there, even a person's name.
var statusShape = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)

// statuses counts mandates by status, in a bounded number of them.
func statuses(counted map[string]int) map[string]int {
	out := map[string]int{}
	for _, known := range []connector.MandateStatus{connector.MandateCreated, connector.MandatePending,
		connector.MandateActive, connector.MandateCancelled} {
		out[string(known)] = 0
	}
	bound := len(out) + maxStatuses
	often := func(a, b string) int { return cmp.Or(cmp.Compare(counted[b], counted[a]), cmp.Compare(a, b)) }
	for _, status := range slices.SortedFunc(maps.Keys(counted), often) {
		name := status
		if !connector.MandateStatus(status).Known() && (len(out) >= bound || !statusShape.MatchString(status)) {
			name = other
		}
		out[name] += counted[status]
	}
	return out
}

func (p page) sources(f Facts) {
	for _, s := range f.Sources {
		if f.configured(s.Connection) {
			p.oneOf(descSource, s.Connection, s.State, sourceStates)
		}
	}
	for _, b := range f.Budgets {
		if b.Minute != nil {
			p.gauge(descLeft, float64(*b.Minute), b.Connection, "minute")
		}
		if b.Day != nil {
			p.gauge(descLeft, float64(*b.Day), b.Connection, "day")
		}
		p.at(descParked, b.ParkedUntil, b.Connection)
	}
	for _, c := range f.Consents {
		p.at(descLapses, c.ReconnectBy, c.Connection)
		p.flag(descBroken, c.Broken != "", c.Connection)
	}
	for _, name := range f.Connections {
		p.flag(descMapping, slices.ContainsFunc(f.Mappings,
			func(m state.MappingProblem) bool { return m.Connection == name }), name)
	}
}

func (p page) jobs(f Facts) {
	p.flag(descConfig, f.Serving.Problem != "")
	p.gauge(descRestart, float64(len(f.Serving.Restart)))
	for _, j := range f.Jobs {
		p.at(descJobNext, j.NextAt, j.Name)
		p.at(descJobBegun, j.BegunAt, j.Name)
		p.at(descJobEnded, j.EndedAt, j.Name)
		p.at(descJobDone, j.DoneAt, j.Name)
		if j.Outcome != "" {
			p.oneOf(descJobResult, j.Name, j.Outcome, jobOutcomes)
		}
	}
}

func (f Facts) configured(connection string) bool { return slices.Contains(f.Connections, connection) }

// label returns how a connection of the ledger is called; "" is none.
func (f Facts) label(connection string) string {
	if connection == "" || f.configured(connection) {
		return connection
	}
	return Unconfigured
}
