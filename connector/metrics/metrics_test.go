package metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/connector/server"
	"payersync/connector/transport"
	"payersync/state"
)

var update = flag.Bool("update", false, "write the table of metrics anew")

var began = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func number(n int) *int { return &n }

// whole holds the facts of a ledger with every event once, of two connections and a removed one.
func whole() Facts {
	return Facts{
		MonitoringCounts: state.MonitoringCounts{
			Runs: []state.RunCount{{Connection: "acme", Kind: "sync", Outcome: "complete", N: 7},
				{Connection: "gone", Kind: "sync", Outcome: "failed", N: 9}},
			LastEnded: []state.RunSpan{
				{Connection: "acme", Outcome: "failed", StartedAt: began, FinishedAt: began.Add(time.Minute)},
				{Connection: "gone", Outcome: "failed", StartedAt: began, FinishedAt: began},
			},
			LastComplete: []state.RunSpan{{Connection: "acme", Outcome: "complete", StartedAt: began,
				FinishedAt: began.Add(90 * time.Second)}},
			OpenRuns: []state.RunSpan{{Connection: "bravo", Outcome: "running", StartedAt: began}},
			Sent: []state.SentCount{{Connection: "acme", Action: connector.ActionCreate, End: state.AttemptAnswered,
				N: 40}, {Connection: "gone", Action: connector.ActionLink, End: state.AttemptRefused, N: 2}},
			Unanswered: []state.UnansweredCount{{Connection: "acme", Action: connector.ActionUpdate, N: 3, Since: began},
				{Connection: "acme", Action: connector.ActionCreate, N: 1, Since: began.Add(-time.Hour)}},
			Payers: []state.PayerCount{{Connection: "acme", State: "linked", N: 40},
				{Connection: "gone", State: "linked", N: 5}, {Connection: "lost", State: "linked", N: 6}},
			Mandates: map[string]int{"ACTIVE": 30, "CREATED": 10},
			Attention: []state.AttentionCount{{Connection: "acme", Reason: "rejected", N: 2},
				{Connection: "", Reason: "event_not_understood", N: 1}, {Connection: "gone", Reason: "rejected", N: 4}},
			Waiting: map[string]int{"received": 2, "quarantined": 1}, OldestWaits: began,
			Size: 1 << 20, WAL: 1 << 10,
		},
		Connections: []string{"acme", "bravo"},
		LastPass:    began,
		Plans: []state.Plan{{Connection: "acme", CreatedAt: began}, {Connection: "bravo", CreatedAt: began, Missing: 3},
			{Connection: "gone", CreatedAt: began}},
		Sources:  []state.SourceRow{{Connection: "acme", State: "parked"}, {Connection: "gone", State: "active"}},
		Mappings: []state.MappingProblem{{Connection: "bravo", Problem: "a mistake"}},
		Consents: []state.ConsentRow{{Connection: "bravo", ReconnectBy: began.AddDate(0, 0, 60), Broken: "refused"}},
		Serving:  state.Serving{Problem: "a mistake", Restart: []string{"server.webhooks", "server.health"}},
		Jobs: []Job{
			{state.JobRow{Name: "sweep", BegunAt: began, EndedAt: began.Add(time.Second), DoneAt: began.Add(time.Second),
				Outcome: "done"}, began.Add(time.Hour)},
			{JobRow: state.JobRow{Name: "sync acme", BegunAt: began}},
		},
		Budgets: []Budget{{Connection: "bravo",
			Left: state.Left{Minute: number(12), Day: number(900), ParkedUntil: began.Add(time.Hour)}}, {Connection: "acme"}},
	}
}

// busy returns metrics of a process in which everything has happened once.
func busy() *Metrics {
	m := New("1.2.3", "abc")
	m.Follow(func(context.Context) (Facts, error) { return whole(), nil })
	m.Webhook(server.SignatureFailed)
	m.Reflected(time.Second)
	m.Swept(reconcile.SweepResult{Repaired: 2, Drifted: 1, Missing: 3, Unlisted: 4, Doubled: 5})
	m.Requests(Billing, "", "")(transport.CallAttempt{Operation: "create customer", Status: 201, Took: time.Second})
	m.Requests(Source, "bravo", "get token")(transport.CallAttempt{Reason: transport.ReasonTimeout, Took: 30 * time.Second})
	m.Committing()(nil)
	m.Committing()(errors.New("full"))
	return m
}

func gather(t *testing.T, m *Metrics) []*dto.MetricFamily {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// everything is what busy shows, and what a process shows besides that works for many accounts, by name.
func everything(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	f := NewFleet("1.2.3", "abc")
	f.Follow(func(context.Context) FleetFacts {
		return FleetFacts{
			Nodes: map[string]int{"at_work": 3, "lost": 1}, Accounts: map[string]int{"open": 1, "closed": 7, "not_open": 1},
			Unopened: []string{"beta"},
			Needing:  map[string][]AccountCondition{"acme": {{Code: "run_failed", Urgent: true}}},
		}
	})
	families, err := f.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := gather(t, busy())
	for _, one := range families {
		if !slices.ContainsFunc(all, func(f *dto.MetricFamily) bool { return f.GetName() == one.GetName() }) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// lines returns what is shown as name{label="value",…} and its value; of a histogram the
// number that it has counted.
func lines(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, f := range gather(t, m) {
		for _, one := range f.GetMetric() {
			var labels []string
			for _, l := range one.GetLabel() {
				if l.GetValue() != "" {
					labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				}
			}
			value := one.GetGauge().GetValue() + one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
			out[strings.TrimPrefix(f.GetName(), "payersync_")+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return out
}

func TestWhatIsShownIsWhatHappened(t *testing.T) {
	t.Parallel()
	got := lines(t, busy())
	at := float64(began.Unix())
	want := map[string]float64{
		`ledger_up{}`: 1, `ledger_size_bytes{file="ledger"}`: 1 << 20, `ledger_size_bytes{file="wal"}`: 1 << 10,
		`ledger_commit_duration_seconds{}`: 1, `ledger_commit_failures_total{}`: 1,
		`runs_total{connection="acme",kind="sync",outcome="complete"}`:                 7,
		`runs_total{connection="bravo",kind="plan",outcome="failed"}`:                  0,
		`run_open_since_timestamp_seconds{connection="bravo"}`:                         at,
		`run_last_outcome{connection="acme",outcome="failed"}`:                         1,
		`run_last_outcome{connection="acme",outcome="complete"}`:                       0,
		`run_last_complete_timestamp_seconds{connection="acme"}`:                       at + 90,
		`run_last_complete_duration_seconds{connection="acme"}`:                        90,
		`changes_total{action="create",connection="acme",outcome="answered"}`:          40,
		`changes_total{action="link",connection="bravo",outcome="refused"}`:            0,
		`changes_total{action="link",connection="(not configured)",outcome="refused"}`: 2,
		`changes_unanswered{action="update",connection="acme"}`:                        3,
		`changes_unanswered_oldest_timestamp_seconds{connection="acme"}`:               at - 3600,
		`plans_waiting{connection="acme",kind="approval"}`:                             1,
		`plans_waiting{connection="bravo",kind="standstill"}`:                          1,
		`plans_waiting{connection="bravo",kind="approval"}`:                            0,
		`payers{connection="acme",state="linked"}`:                                     40,
		`payers{connection="(not configured)",state="linked"}`:                         11,
		`payers{connection="bravo",state="held"}`:                                      0,
		`mandates{status="ACTIVE"}`:                                                    30, `mandates{status="CANCELLED"}`: 0,
		`attention{connection="acme",reason="rejected"}`: 2, `attention{reason="event_not_understood"}`: 1,
		`attention{connection="(not configured)",reason="rejected"}`: 4,
		`inbox{state="received"}`:                                    2, `inbox{state="parked"}`: 0,
		`inbox{state="quarantined"}`:                         1,
		`inbox_oldest_timestamp_seconds{}`:                   at,
		`webhook_requests_total{outcome="signature_failed"}`: 1, `webhook_requests_total{outcome="too_many"}`: 0,
		`webhook_reflect_duration_seconds{}`:                                                                  1,
		`request_duration_seconds{operation="create customer",status="2xx",system="billing"}`:                 1,
		`request_duration_seconds{connection="bravo",operation="get token",status="timeout",system="source"}`: 1,
		`budget_left{connection="bravo",window="minute"}`:                                                     12,
		`budget_left{connection="bravo",window="day"}`:                                                        900,
		`budget_parked_until_timestamp_seconds{connection="bravo"}`:                                           at + 3600,
		`consent_lapses_timestamp_seconds{connection="bravo"}`: at +
			60*24*3600, `consent_broken{connection="bravo"}`: 1,
		`source_state{connection="acme",state="parked"}`: 1, `source_state{connection="acme",state="active"}`: 0,
		`mapping_wrong{connection="bravo"}`: 1, `mapping_wrong{connection="acme"}`: 0,
		`sweep_last_complete_timestamp_seconds{}`: at, `sweep_repaired_total{}`: 2, `sweep_drifted_total{}`: 1,
		`sweep_found{finding="doubled"}`:                   5,
		`job_last_success_timestamp_seconds{name="sweep"}`: at + 1, `job_last_outcome{name="sweep",outcome="done"}`: 1,
		`job_last_outcome{name="sweep",outcome="failed"}`: 0,
		`job_next_timestamp_seconds{name="sweep"}`:        at + 3600, `configuration_wrong{}`: 1,
		`configuration_restart_needed{}`:                     2,
		`job_last_begun_timestamp_seconds{name="sync acme"}`: at,
	}
	for line, value := range want {
		if have, ok := got[line]; !ok || have != value {
			t.Errorf("%s is %v (there: %t), want %v", line, have, ok, value)
		}
	}
	for line := range got {
		for _, text := range []string{`"gone"`, `"lost"`, `job_last_success_timestamp_seconds{name="sync acme"}`,
			`budget_left{connection="acme"`, `run_open_since_timestamp_seconds{connection="acme"`} {
			if strings.Contains(line, text) {
				t.Errorf("%s should not be there", line)
			}
		}
	}
}

func TestNamesAndHelpsAreAsPrometheusAsks(t *testing.T) {
	t.Parallel()
	var own []*dto.MetricFamily
	for _, f := range everything(t) {
		if strings.HasPrefix(f.GetName(), "payersync_") {
			own = append(own, f)
		}
	}
	for _, f := range own {
		for _, one := range f.GetMetric() {
			for _, l := range one.GetLabel() {
				if l.GetName() == "job" || l.GetName() == "instance" {
					t.Errorf("%s has the label %s, which Prometheus sets itself", f.GetName(), l.GetName())
				}
			}
		}
	}
	problems, err := promlint.NewWithMetricFamilies(own).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if len(own) < 40 {
		t.Errorf("%d metrics were looked at: the list has lost its subject", len(own))
	}
}

// The table is what operators read, and what rules and dashboards are held against.
func TestTheTableOfMetricsIsWhatIsShown(t *testing.T) {
	t.Parallel()
	const file = "../../configs/prometheus/metrics.md"
	var b strings.Builder
	b.WriteString("# Metrics\n\n`/metrics` at `server.metrics` shows these metrics, and the usual `go_…` and `process_…`. A point in time is in seconds since 1970: its age is `time() - x`. On a node with many accounts, a series about one account has the label `account`.\n\n" +
		"| metric | type | labels | what it says |\n|---|---|---|---|\n")
	for _, f := range everything(t) {
		if !strings.HasPrefix(f.GetName(), "payersync_") {
			continue
		}
		labels := map[string]bool{}
		for _, one := range f.GetMetric() {
			for _, l := range one.GetLabel() {
				labels["`"+l.GetName()+"`"] = true
			}
		}
		var names []string
		for l := range labels {
			names = append(names, l)
		}
		slices.Sort(names)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()),
			strings.Join(names, ", "), f.GetHelp())
	}
	if *update {
		if err := os.WriteFile(filepath.FromSlash(file), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(have)); diff != "" {
		t.Errorf("configs/prometheus/metrics.md (-want +got); go test ./connector/metrics -update writes it:\n%s", diff)
	}
}

// A service may make up as many statuses as it likes, and write what it likes into them.
func TestStatusesOfAServiceAreBoundedAndClean(t *testing.T) {
	t.Parallel()
	counted := map[string]int{"ACTIVE": 1, "Ada Lovelace": 5, "ada@example.org": 5, "": 2, "EXPIRED\n": 1, "a\xffb": 1,
		strings.Repeat("X", 41): 1}
	total := 0
	for i := range 1000 {
		counted[fmt.Sprintf("MADE_UP_%d", i)] = i + 1
	}
	for _, n := range counted {
		total += n
	}
	got := statuses(counted)
	sum := 0
	for _, n := range got {
		sum += n
	}
	if len(got) > 4+maxStatuses+1 || sum != total || got["ACTIVE"] != 1 || got["MADE_UP_999"] != 1000 {
		t.Errorf("%d statuses with %d of %d mandates: %v", len(got), sum, total, got)
	}
	for name := range got {
		if !statusShape.MatchString(name) {
			t.Errorf("the status %q is shown", name)
		}
	}
	few := statuses(map[string]int{"EXPIRED": 3, "CREATED": 2})
	if diff := cmp.Diff(map[string]int{"CREATED": 2, "PENDING": 0, "ACTIVE": 0, "CANCELLED": 0, "EXPIRED": 3},
		few); diff != "" {
		t.Errorf("few statuses (-want +got):\n%s", diff)
	}
}

func TestOperationsAndStatusesOfRequestsAreBounded(t *testing.T) {
	t.Parallel()
	m := New("", "")
	tell := m.Requests(Billing, "", "")
	for i := range 1000 {
		tell(transport.CallAttempt{Operation: fmt.Sprint("get customer ", i), Status: i})
	}
	tell(transport.CallAttempt{Operation: "get customer 3", Status: 429})
	operations, statuses := map[string]bool{}, map[string]bool{}
	for _, f := range gather(t, m) {
		if f.GetName() != "payersync_request_duration_seconds" {
			continue
		}
		for _, one := range f.GetMetric() {
			for _, l := range one.GetLabel() {
				switch l.GetName() {
				case "operation":
					operations[l.GetValue()] = true
				case "status":
					statuses[l.GetValue()] = true
				}
			}
		}
	}
	if len(operations) != maxOperations+1 || !operations[other] {
		t.Errorf("%d operations are told apart, want %d and %s", len(operations), maxOperations, other)
	}
	if diff := cmp.Diff(map[string]bool{"1xx": true, "2xx": true, "3xx": true, "4xx": true, "429": true, "5xx": true,
		other: true}, statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestALedgerThatCannotBeReadLeavesTheLiveMetrics(t *testing.T) {
	t.Parallel()
	m := New("", "")
	m.Webhook(server.NotStored)
	m.Follow(func(context.Context) (Facts, error) {
		return whole(), errors.New("the disk with the ledger is failing")
	})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path, nil))
	text := w.Body.String()
	if w.Code != http.StatusOK || !strings.Contains(text, "\npayersync_ledger_up 0\n") ||
		!strings.Contains(text, `payersync_webhook_requests_total{outcome="not_stored"} 1`) {
		t.Errorf("answered %d:\n%s", w.Code, text)
	}
	for _, stale := range []string{"payersync_payers", "payersync_runs_total", "failing"} {
		if strings.Contains(text, stale) {
			t.Errorf("%s is shown of a ledger that cannot be read", stale)
		}
	}
}

// Any number of scrapes, by anybody, read the ledger no more often than it can bear.
func TestTheLedgerIsCountedOnceForManyScrapes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		takes := 100 * time.Millisecond
		f := newFollower(func(ctx context.Context) (Facts, error) {
			reads.Add(1)
			select {
			case <-time.After(takes):
				return Facts{}, nil
			case <-ctx.Done():
				return Facts{}, ctx.Err()
			}
		}, time.Now)
		together := func(n int) {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() { _, _, _, _ = f.latest() })
			}
			wg.Wait()
		}
		expect := func(what string, want int64) {
			t.Helper()
			if got := reads.Load(); got != want {
				t.Errorf("%s: the ledger was read %d times, want %d", what, got, want)
			}
		}
		together(50)
		expect("50 at once", 1)
		time.Sleep(freshFor - time.Millisecond)
		together(2)
		expect("within 5 s", 1)
		time.Sleep(time.Millisecond)
		takes = 2 * time.Second
		together(2)
		expect("after 5 s", 2)
		time.Sleep(39 * time.Second)
		together(2)
		expect("within 20 times the 2 s that it took", 2)
		time.Sleep(time.Second)
		takes = time.Hour
		began := time.Now()
		if _, _, _, err := f.latest(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != readWithin {
			t.Errorf("a read that hangs ended after %s with %v", time.Since(began), err)
		}
		expect("after 40 s", 3)
		time.Sleep(longestRest - time.Millisecond)
		takes = 0
		if _, _, _, err := f.latest(); err == nil {
			t.Error("a ledger that took 8 s to no end is read again within a minute")
		}
		time.Sleep(time.Millisecond)
		if _, _, _, err := f.latest(); err != nil {
			t.Errorf("the ledger that works again: %v", err)
		}
	})
}

func TestNothingButThePageIsServed(t *testing.T) {
	t.Parallel()
	h := busy().Handler()
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/metrics", 200}, {"HEAD", "/metrics", 200}, {"POST", "/metrics", 405}, {"GET", "/", 404},
		{"GET", "/metrics/", 404},
		{"GET", "/debug/pprof/", 404}, {"GET", "/healthz", 404}, {"GET", "/webhooks/billing", 404},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.want || tt.want != 200 && w.Body.Len() > 0 {
			t.Errorf("%s %s: answered %d with %d bytes, want %d", tt.method, tt.path, w.Code, w.Body.Len(), tt.want)
		}
	}
}

func TestWhoeverHasNoMetricsCountsNothing(t *testing.T) {
	t.Parallel()
	var m *Metrics
	m.Webhook(server.Accepted)
	m.Reflected(time.Second)
	m.Swept(reconcile.SweepResult{Repaired: 1})
	m.Follow(nil)
	if m.Requests(Billing, "", "") != nil {
		t.Error("a transport is to tell nobody")
	}
}
