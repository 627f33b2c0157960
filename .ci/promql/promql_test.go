// Package promql checks the alert rules and dashboards of this repository with the parsers of Prometheus
// itself, against payersync's table of metrics. It is a separate module, because those parsers have 250
// modules as dependencies.
package promql

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	tableFile     = "../../configs/prometheus/metrics.md"
	rulesFile     = "../../configs/prometheus/payersync.rules.yaml"
	dashboardFile = "../../configs/grafana/payersync.json"
)

// everywhere are the labels that Prometheus itself adds to what it reads.
var everywhere = []string{"job", "instance"}

// table is the labels of each metric.
type table map[string][]string

func readTable(t *testing.T) table {
	t.Helper()
	text, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	known := table{ // of others: Prometheus itself, the Go runtime, the process
		"up": nil, "process_start_time_seconds": nil, "process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil,
		"process_open_fds": nil, "go_goroutines": nil, "go_memstats_heap_inuse_bytes": nil,
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+) \\| (.*?) \\|").FindAllStringSubmatch(string(text), -1) {
		var labels []string
		for _, l := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[3], -1) {
			labels = append(labels, l[1])
		}
		if row[2] == "histogram" {
			known[row[1]+"_bucket"] = append(slices.Clone(labels), "le")
			known[row[1]+"_sum"], known[row[1]+"_count"] = labels, labels
			continue
		}
		known[row[1]] = labels
	}
	if len(known) < 50 {
		t.Fatalf("%d metrics are in the table: it cannot be read", len(known))
	}
	return known
}

// problems returns what is wrong with an expression, and the labels that its result may
// have.
func (k table) problems(expr string) (problems, labels []string) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}, nil
	}
	var of func(node parser.Node) []string
	of = func(node parser.Node) (may []string) {
		if v, ok := node.(*parser.VectorSelector); ok {
			own, known := k[v.Name]
			if !known {
				problems = append(problems, fmt.Sprintf("there is no metric %q", v.Name))
				return everywhere
			}
			may = append(slices.Clone(own), everywhere...)
			for _, m := range v.LabelMatchers {
				if m.Name != model.MetricNameLabel && !slices.Contains(may, m.Name) {
					problems = append(problems, fmt.Sprintf("%s has no label %q", v.Name, m.Name))
				}
			}
			return may
		}
		for child := range parser.ChildrenIter(node) {
			may = append(may, of(child)...)
		}
		if b, ok := node.(*parser.BinaryExpr); ok && b.VectorMatching != nil &&
			(len(b.VectorMatching.MatchingLabels) > 0 || b.VectorMatching.On) {
			for _, l := range b.VectorMatching.MatchingLabels {
				if !slices.Contains(may, l) {
					problems = append(problems, fmt.Sprintf("nothing that is matched has the label %q", l))
				}
			}
		}
		a, ok := node.(*parser.AggregateExpr)
		if !ok {
			return may
		}
		for _, l := range a.Grouping {
			if !slices.Contains(may, l) {
				problems = append(problems, fmt.Sprintf("nothing that is added up has the label %q", l))
			}
		}
		if a.Without {
			return slices.DeleteFunc(may, func(l string) bool { return slices.Contains(a.Grouping, l) })
		}
		return a.Grouping
	}
	return problems, of(parsed)
}

// labelUse finds the labels that a template or a legend shows.
var labelUse = regexp.MustCompile(`\{\{[^}]*?\$labels\.(\w+)|\{\{\s*(\w+)\s*\}\}`)

func unknownLabels(text string, labels []string) (problems []string) {
	for _, m := range labelUse.FindAllStringSubmatch(text, -1) {
		if name := m[1] + m[2]; !slices.Contains(labels, name) {
			problems = append(problems, fmt.Sprintf("the result has no label %q for %q", name, text))
		}
	}
	return problems
}

// ruleProblems returns what is wrong with a file of rules.
func (k table) ruleProblems(content []byte) (problems []string, rules int) {
	groups, errs := rulefmt.Parse(content, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	for _, err := range errs {
		problems = append(problems, err.Error())
	}
	if len(errs) > 0 {
		return problems, 0
	}
	seen := map[string]bool{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			rules++
			name := r.Alert + r.Record
			if seen[name] {
				problems = append(problems, name+" is there twice")
			}
			seen[name] = true
			wrong, labels := k.problems(r.Expr)
			if r.Record != "" {
				k[r.Record] = labels
			}
			if r.Alert != "" {
				if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
					wrong = append(wrong, "it has no severity")
				}
				for _, a := range []string{"summary", "description", "action"} {
					if len(r.Annotations[a]) < 10 {
						wrong = append(wrong, "it has no "+a)
					}
					wrong = append(wrong, unknownLabels(r.Annotations[a], labels)...)
				}
			}
			for _, w := range wrong {
				problems = append(problems, name+": "+w)
			}
		}
	}
	return problems, rules
}

func TestTheRulesUseMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	problems, rules := readTable(t).ruleProblems(content)
	for _, p := range problems {
		t.Error(p)
	}
	if rules < 25 {
		t.Errorf("%d rules were looked at", rules)
	}
	t.Logf("%d rules", rules)
}

func TestAWrongRuleIsFound(t *testing.T) {
	t.Parallel()
	rule := func(expr, summary string) string {
		return "groups: [{name: g, rules: [{alert: A, expr: '" + expr +
			"', labels: {severity: info}, annotations: {summary: '" + summary +
			"', description: long enough, action: look at the status}}]}]"
	}
	for _, tt := range []struct{ name, text, want string }{
		{"no such metric", rule("payersync_payer > 0", "a summary that is right"), `no metric "payersync_payer"`},
		{"a histogram by its bare name", rule("payersync_ledger_commit_duration_seconds > 0", "a summary that is right"),
			"no metric"},
		{"no such label", rule(`payersync_payers{status="linked"} > 0`, "a summary that is right"), `no label "status"`},
		{"a label that was added up", rule("sum by (state) (payersync_payers) > 0", "payers of {{ $labels.connection }}"),
			`no label "connection"`},
		{"a group by no label", rule("sum by (reason) (payersync_payers) > 0", "a summary that is right"), `label "reason"`},
		{"no expression", rule("sum by (", "a summary that is right"), "parse error"},
		{"no severity", strings.Replace(rule("payersync_payers > 0", "a summary that is right"), "info", "high", 1),
			"no severity"},
		{"nothing to do", strings.Replace(rule("payersync_payers > 0", "a summary that is right"), "action", "cure", 1),
			"no action"},
		{"a template that is none", rule("payersync_payers > 0", "payers of {{ $labels.connection"), "template"},
		{"an unknown key", strings.Replace(rule("payersync_payers > 0", "a summary that is right"), "alert: A",
			"alert: A, after: 5m", 1), "after"},
	} {
		problems, _ := readTable(t).ruleProblems([]byte(tt.text))
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, tt.want) }) {
			t.Errorf("%s: found %q, want %s", tt.name, problems, tt.want)
		}
	}
	if problems, n := readTable(t).ruleProblems([]byte(rule("payersync_payers > 0",
		"payers of {{ $labels.connection }}"))); len(problems) > 0 || n != 1 {
		t.Errorf("of a rule that is right: %q", problems)
	}
}

// panel is what is looked at of one.
type panel struct {
	Title, Description string
	Panels             []panel
	Targets            []struct{ Expr, LegendFormat string }
}

// variables are what Grafana puts in for its own.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$__interval", "1m", "$connection", "x",
	"$instance", "x")

// dashboardProblems returns what is wrong with a dashboard.
func (k table) dashboardProblems(content []byte) (problems []string, targets int) {
	var d struct {
		Title, UID string
		Panels     []panel
		Templating struct {
			List []struct {
				Name, Type string
				Query      any
			}
		}
	}
	if err := json.Unmarshal(content, &d); err != nil {
		return []string{err.Error()}, 0
	}
	if d.Title == "" || d.UID == "" {
		problems = append(problems, "it has no title or uid")
	}
	var look func(panels []panel)
	look = func(panels []panel) {
		for _, p := range panels {
			for _, target := range p.Targets {
				targets++
				wrong, labels := k.problems(variables.Replace(target.Expr))
				wrong = append(wrong, unknownLabels(target.LegendFormat, labels)...)
				if strings.Contains(variables.Replace(target.Expr), "$") {
					wrong = append(wrong, "it uses a variable that is not known")
				}
				for _, w := range wrong {
					problems = append(problems, p.Title+": "+w)
				}
			}
			if p.Title == "" || len(p.Targets) > 0 && p.Description == "" {
				problems = append(problems, fmt.Sprintf("the panel %q does not say what it shows", p.Title))
			}
			look(p.Panels)
		}
	}
	look(d.Panels)
	values := regexp.MustCompile(`^label_values\((\w+), ?(\w+)\)$`)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := values.FindStringSubmatch(fmt.Sprint(v.Query))
		if m == nil {
			problems = append(problems, fmt.Sprintf("the variable %s asks for %v", v.Name, v.Query))
			continue
		}
		if own, ok := k[m[1]]; !ok || !slices.Contains(append(slices.Clone(own), everywhere...), m[2]) {
			problems = append(problems, fmt.Sprintf("the variable %s asks for the label %s of %s", v.Name, m[2], m[1]))
		}
	}
	return problems, targets
}

func TestTheDashboardUsesMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	known := readTable(t)
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	known.ruleProblems(rules) // which adds what is recorded
	problems, targets := known.dashboardProblems(content)
	for _, p := range problems {
		t.Error(p)
	}
	if targets < 25 {
		t.Errorf("%d queries were looked at", targets)
	}
	t.Logf("%d queries", targets)
}

func TestAWrongDashboardIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ expr, legend, want string }{
		{"payersync_payer", "", "no metric"}, {"payersync_payers{status=\"x\"}", "", "no label"},
		{"sum(payersync_payers)", "{{state}}", `label "state"`},
		{"rate(payersync_runs_total[$__rate])", "", "variable"}, {"payersync_payers", "", "does not say"},
	} {
		content, err := json.Marshal(map[string]any{"title": "t", "uid": "u", "panels": []any{map[string]any{
			"title": "row", "panels": []any{map[string]any{"title": "p",
				"targets": []any{map[string]any{"expr": tt.expr, "legendFormat": tt.legend}}}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if problems, _ := readTable(t).dashboardProblems(content); !slices.ContainsFunc(problems,
			func(p string) bool { return strings.Contains(p, tt.want) }) {
			t.Errorf("%s: found %q, want %s", tt.expr, problems, tt.want)
		}
	}
}
