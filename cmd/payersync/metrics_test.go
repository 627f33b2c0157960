package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"payersync/connector/metrics"
	"payersync/connector/sandbox"
	"payersync/internal/longtest"
	"payersync/state"
)

// measured lets serve show its metrics, and returns the address.
func (w *world) measured() (address string) {
	w.t.Helper()
	address = freeAddress(w.t)
	w.edit("payersync.yaml", `metrics: ""`, fmt.Sprintf("metrics: %q", address))
	return address
}

// scrape returns what is shown at an address, as it comes and line by line: the part of
// a name behind payersync_ with its labels, and the value.
func scrape(t testing.TB, address string) (text string, values map[string]float64) {
	t.Helper()
	resp, err := client.Get("http://" + address + metrics.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the metrics are answered with %d, %v", resp.StatusCode, err)
	}
	values = map[string]float64{}
	for line := range strings.Lines(string(data)) {
		name, ours := strings.CutPrefix(line, "payersync_")
		space := strings.LastIndex(name, " ")
		if !ours || space < 0 {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(name[space:]), 64)
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		values[name[:space]] = value
	}
	return string(data), values
}

// byLabel returns the values of a metric by the value of one label, added up over all
// others, without those that are 0.
func byLabel(values map[string]float64, metric, label string) map[string]int {
	out := map[string]int{}
	of := regexp.MustCompile(`^` + metric + `\{(?:.*,)?` + label + `="([^"]*)"`)
	for line, v := range values {
		if m := of.FindStringSubmatch(line); m != nil && v != 0 {
			out[m[1]] += int(v)
		}
	}
	return out
}

// A story with two connections, refusals, a finding, webhooks of all kinds and a job: the metrics agree with
// status and the events.
func TestTheMetricsSayTheSameAsTheStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(12))
	address := w.measured()
	w.edit("payersync.yaml", "mapping: mapping.yaml}\n", "mapping: mapping.yaml, organisation: one}\n"+
		"  - {name: bravo, source: {kind: csv, path: bravo.csv, id: [AccountNumber]}, mapping: mapping.yaml, organisation: two}\n")
	w.write("bravo.csv", "AccountNumber,Name,Email,Phone,Street,Depot\nB1,Bo,bo@example.org,,1 Quay,\nB2,Bea,not(at)example.org,,2 Quay,\n")
	w.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Method: http.MethodPost, Path: "/api/customers", Count: 2})
	w.run("sync", "acme")
	w.expect(exitDone, "sync", "acme")
	w.expect(exitAttention, "sync", "bravo")
	w.expect(exitDone, "plan", "acme")
	serve := w.serve()
	first := w.mandateOf("A00001")
	w.must(w.box.Sign(first.ID))
	for _, body := range [][]byte{event("ev-1", first.CustomerID), event("ev-2", "a customer nobody knows"),
		[]byte("not JSON")} {
		if status, _ := post(t, w.delivery(body)); status != http.StatusOK {
			t.Fatalf("a delivery was answered %d", status)
		}
	}
	unsigned := w.delivery(event("ev-3", first.CustomerID))
	unsigned.Header.Del("x-signature")
	post(t, unsigned)
	w.reflected(1)
	var text string
	var got map[string]float64
	eventually(t, "a job and the drain to be shown", func() bool {
		text, got = scrape(t, address)
		return got[`job_last_outcome{name="keep-alive",outcome="done"}`] == 1 && got[`inbox{state="parked"}`] == 1
	})
	status := decode[statusReport](t, w.expect(exitDone, "status", "--output", "json"))

	for _, same := range []struct {
		what, metric, label string
		want                map[string]int
	}{
		{"payers", "payers", "state", status.Payers},
		{"mandates", "mandates", "status", status.Mandates},
		{"attention", "attention", "reason", status.Attention},
	} {
		if diff := cmp.Diff(same.want, byLabel(got, same.metric, same.label)); diff != "" || len(same.want) == 0 {
			t.Errorf("%s (-status +metrics):\n%s", same.what, diff)
		}
	}
	waiting := maps.Clone(status.Inbox)
	maps.DeleteFunc(waiting, func(state string, _ int) bool {
		return state == "reflected" || state == "superseded" || state == "ignored"
	})
	if diff := cmp.Diff(waiting, byLabel(got, "inbox", "state")); diff != "" || len(waiting) != 2 {
		t.Errorf("inbox (-status +metrics):\n%s", diff)
	}
	writes := len(w.requests(func(r sandbox.Request) bool {
		return r.Method == http.MethodPost &&
			r.Path == "/api/customers"
	}))
	if creates, open := byLabel(got, "changes_total", "action")["create"],
		byLabel(got, "changes_unanswered", "action")["create"]; creates+open != writes || creates != 13 || open != 2 {
		t.Errorf("%d creates were sent; %d that ended and %d that may still take effect are shown", writes, creates, open)
	}
	for line, want := range map[string]float64{
		`ledger_up`: 1,
		`webhook_requests_total{outcome="accepted"}`: 3, `webhook_requests_total{outcome="signature_failed"}`: 1,
		`webhook_requests_total{outcome="too_many"}`: 0,
		`webhook_reflect_duration_seconds_count`:     1, `run_last_outcome{connection="acme",outcome="complete"}`: 1,
		`mapping_wrong{connection="acme"}`: 0, `source_state{connection="bravo",state="active"}`: 1,
		`payers{connection="bravo",state="linked"}`:                                                            1,
		`request_duration_seconds_count{connection="",operation="get customer",status="2xx",system="billing"}`: 1,
	} {
		if have, ok := got[line]; !ok || have < want || have > want && !strings.HasPrefix(line, "request_") {
			t.Errorf("%s is %v (there: %t), want %v", line, have, ok, want)
		}
	}
	if got[`ledger_commit_duration_seconds_count`] == 0 || got[`ledger_size_bytes{file="ledger"}`] == 0 ||
		!strings.Contains(text, "process_resident_memory_bytes") || !strings.Contains(text, "go_goroutines") {
		t.Errorf("commits, sizes or the process are missing:\n%s", text)
	}
	expectInTable(t, text)
	serve.stop()
	runs := map[string]int{}
	for _, r := range w.allRuns() {
		runs[r.Connection+" "+r.Kind+" "+r.Outcome]++
	}
	for key, n := range runs {
		part := strings.Fields(key)
		if line := fmt.Sprintf(`runs_total{connection=%q,kind=%q,outcome=%q}`, part[0], part[1],
			part[2]); got[line] != float64(n) {
			t.Errorf("%s is %v, the ledger has %d", line, got[line], n)
		}
	}
}

// allRuns returns every run of the ledger, closed elsewhere.
func (w *world) allRuns() []state.RunRow {
	w.t.Helper()
	l, err := state.Open(w.t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		w.t.Fatal(err)
	}
	runs, err := l.Runs(w.t.Context(), state.Filter{})
	if err := errors.Join(err, l.Close()); err != nil || len(runs) == 0 {
		w.t.Fatalf("%d runs, %v", len(runs), err)
	}
	return runs
}

// expectInTable fails for metrics and labels missing in the table for checking rules and dashboards.
func expectInTable(t *testing.T, text string) {
	t.Helper()
	table, err := os.ReadFile("../../configs/prometheus/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+) \\| (.*?) \\|").FindAllStringSubmatch(string(table), -1) {
		known[row[1]] = row[3]
		if row[2] == "histogram" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				known[row[1]+part] = row[3] + "`le`"
			}
		}
	}
	seen := 0
	for line := range strings.Lines(text) {
		m := regexp.MustCompile(`^(payersync_\w+)(?:\{(.*)\})? `).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		seen++
		labels, ok := known[m[1]]
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[2], -1) {
			ok = ok && strings.Contains(labels, "`"+l[1]+"`")
		}
		if !ok {
			t.Errorf("configs/prometheus/metrics.md does not have %s", line)
		}
	}
	if seen < 100 {
		t.Errorf("%d lines were looked at", seen)
	}
}

// A backfill of another process writes while the metrics are read again and again: every
// page is whole, and what grows never shrinks.
func TestTheMetricsAreReadWhileABackfillWrites(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	const n = 60
	w := newWorld(t, people(n))
	address := w.measured()
	serve := w.serve()
	release := w.holdCreatesAfter(n / 2)
	backfill := w.start("backfill", "--yes")
	created := func() int {
		_, got := scrape(t, address)
		if got["ledger_up"] != 1 {
			t.Error("the ledger could not be read")
		}
		return byLabel(got, "changes_total", "outcome")["answered"]
	}
	last := 0
	grows := func() int {
		now := created()
		if now < last {
			t.Errorf("%d changes were answered, and before that %d", now, last)
		}
		last = now
		return now
	}
	eventually(t, "half of it to be shown", func() bool { return grows() >= n/2 })
	_, got := scrape(t, address)
	if open := byLabel(got, "changes_unanswered", "action")["create"]; open == 0 ||
		got[`run_open_since_timestamp_seconds{connection="acme"}`] == 0 ||
		got[`changes_unanswered_oldest_timestamp_seconds{connection="acme"}`] == 0 {
		t.Errorf("the run and %d creates without an answer should be shown", open)
	}
	release()
	if r := backfill.wait(); r.code != exitDone {
		t.Errorf("the backfill ended with %d:\n%s", r.code, r.errOut)
	}
	eventually(t, "all of it to be shown", func() bool { return grows() == 2*n }) // each with a signing link
	serve.stop()
}

func TestTheMetricsHaveAnAddressOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	health := freeAddress(t)
	address := w.measured()
	w.edit("payersync.yaml", "server: {", fmt.Sprintf("server: {health: %q, ", health))
	serve := w.start("serve")
	eventually(t, "the metrics", func() bool {
		resp, err := client.Get("http://" + address + metrics.Path)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	for _, other := range []string{w.hooks, health} {
		resp, err := client.Get("http://" + other + metrics.Path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s answers %d for the metrics", other, resp.StatusCode)
		}
	}
	for _, path := range []string{"/", "/healthz", "/readyz", "/webhooks/billing"} {
		resp, err := client.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("the address of the metrics answers %d for %s", resp.StatusCode, path)
		}
	}
	if log := serve.stop().errOut; strings.Contains(log, "other machines") || strings.Contains(log, "have no effect") {
		t.Errorf("nothing is wrong with metrics for this machine:\n%s", log)
	}
}

func TestWhoShowsMetricsToOtherMachinesIsTold(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{":9090": true, "0.0.0.0:9090": true, "[::]:9090": true,
		"192.0.2.1:9090": true, "127.0.0.1:9090": false, "[::1]:9090": false, "localhost:9090": false, "": false} {
		var log bytes.Buffer
		to := logrus.New()
		to.SetOutput(&log)
		warnOfMetrics(to, address)
		if told := strings.Contains(log.String(), "other machines"); told != want {
			t.Errorf("%q: told %t, want %t", address, told, want)
		}
	}
}

// shownMetrics is what a running serve shows, as a command would print it.
func shownMetrics(t testing.TB, address string) showing {
	t.Helper()
	text, got := scrape(t, address)
	if got["ledger_up"] != 1 ||
		!slices.ContainsFunc(slices.Collect(maps.Keys(got)),
			func(line string) bool { return strings.HasPrefix(line, "payers{") }) {
		t.Fatalf("the search would find nothing in\n%s", text)
	}
	return showing{[]string{"metrics"}, result{out: text}}
}
