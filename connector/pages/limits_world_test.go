package pages_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting/csvfile"
	"payersync/connector/admin"
	"payersync/connector/billing"
	"payersync/connector/health"
	"payersync/connector/pages"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
	"payersync/state/statetest"
)

// The two companies of a town. The other one's values are marked.
const (
	ours  = "alder"
	other = "zarbooks"
)

var marks = []string{"zarq", "zzq", other}

// town is an installation of two companies in one ledger.
type town struct {
	*house
	conns map[string]syncer.Connection
}

func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{house: newHouse(t), conns: map[string]syncer.Connection{}}
	w.field = &field{}
	books := func(connection, number, name, mail string, people int, more string) {
		text := header
		for i := 1; i <= people; i++ {
			text += fmt.Sprintf("%s%03d,%s Bakery %d Ltd,%s Person %d,p%d@%s.example,01632 9%05d,%d %s Road,%s Town,LS6 2KM,,,,Active,\n", number, i, name, i, name, i, i, mail, i, i, name, name)
		}
		w.open(connection, text+more)
	}
	shared := "%s,Shared Name Ltd,Ann,shared@both.example,,4 Harbour Street,Whitby,YO21 3CK,,,,Active,\n"
	odd := "%s,%s Cakes,Ann,nobody(at)nowhere,,4 Harbour Street,Whitby,YO21 3CK,,,,Active,\n%s,,Ann,x@%s.example,,4 Harbour Street,Whitby,YO21 3CK,,,,Active,\n"
	alike := "%s,%s Lookalike Ltd,Ann,look@%s.example,,4 Harbour Street,Whitby,YO21 3CK,,,,Active,\n"
	w.there("Zarquon Lookalike Ltd", "look@zarquon.example")
	w.there("Alder Lookalike Ltd", "look@alder.example")
	zarq, alder := fmt.Sprintf(alike, "ZZQ094", "Zarquon", "zarquon"), fmt.Sprintf(alike, "AN094", "Alder", "alder")
	zarq += fmt.Sprintf(shared, "ZZQ090") + fmt.Sprintf(odd, "ZZQ091", "Zarquon", "ZZQ092", "zarquon")
	alder += fmt.Sprintf(shared, "AN090") + fmt.Sprintf(odd, "AN091", "Alder", "AN092", "alder")
	books(other, "ZZQ", "Zarquon", "zarquon", 60, zarq)
	w.loseLinks()
	books(ours, "AN", "Alder", "alder", 60, alder)
	w.run(true)
	books(other, "ZZQ", "Zarquon New", "new.zarquon", 60, zarq+fmt.Sprintf(shared, "ZZQ093"))
	w.run(false)
	books(ours, "AN", "Alder New", "new.alder", 60, alder+fmt.Sprintf(shared, "AN093"))
	w.run(false)
	w.receive(state.Delivery{Key: "event:zarq#1", Type: "odd", State: connector.InboxQuarantined,
		Detail: "It names no customer.", Body: []byte(`{"name":"Zarquon"}`)})
	w.server.Config.Handler = w.shown()
	w.user("ida", pages.Admin) // who looks after users
	return w
}

// open makes these the books of a connection, and the connection the one that runs.
func (w *town) open(name, text string) {
	w.t.Helper()
	file := filepath.Join(filepath.Dir(w.file), name+".csv")
	w.write(file, text)
	source := must(csvfile.New(csvfile.Config{Path: file, ID: []string{"AccountNumber"}}))(w.t)
	info := must(source.Describe(context.Background()))(w.t)
	info.Organisation = name + "-organisation"
	rules, _, _ := strings.Cut(string(must(fs.ReadFile(configs.FS, "quickstart/mapping.yaml"))(w.t)),
		"# Rows and what must become")
	w.write(w.mappingOf(name), rules)
	w.conn = syncer.Connection{Name: name, Source: source, Info: info,
		Mapping: must(mapping.Load("mapping.yaml", []byte(rules), info))(w.t)}
	w.conns[name] = w.conn
}

func (w *town) mappingOf(name string) string {
	return filepath.Join(filepath.Dir(w.file), name+".yaml")
}

// shown returns the pages of both, as edit has them.
func (w *town) shown(edit ...func(*pages.Config)) *pages.Pages {
	w.t.Helper()
	names := []string{ours, other}
	conn := func(_ context.Context, name string) (syncer.Connection, error) { return w.conns[name], nil }
	ahead, board, kept := &admin.Ahead{}, &admin.Board{}, &admin.Tallies{}
	w.t.Cleanup(func() { ahead.Close(); board.Close(); kept.Close() })
	starter := w.starter()
	starter.Run = func(context.Context, string, string, func(int64), func(syncer.Progress)) error { return nil }
	cfg := pages.Config{
		Ledger: w.ledger, Connections: names, Standings: w.standings, Fetcher: w.fetcher, Report: w.report, Mandates: w.acts,
		Rate:      5,
		Expected:  func() health.Expected { return health.Expected{Webhooks: true} },
		Attention: &admin.Attention{Ledger: w.ledger, Syncer: w.syncer, Stored: conn},
		Matches: &admin.Matches{Ledger: w.ledger, Syncer: w.syncer, Connections: names, Ahead: ahead, Board: board,
			Stored: conn},
		Writebacks: &admin.Writebacks{Ledger: w.ledger, Open: w.writer},
		Explain: func(_ context.Context, name string) (admin.Explainer, error) {
			return admin.Explainer{Mapping: w.conns[name].Mapping, NotSent: billing.Standard().NotCarried}, nil
		},
		Jobs: func(context.Context) ([]pages.JobTimes, error) {
			return []pages.JobTimes{{JobRow: state.JobRow{Name: "sync " + ours}}, {JobRow: state.JobRow{Name: "sync " + other}},
				{JobRow: state.JobRow{Name: "sweep", Problem: "Zarquon"}}}, nil
		},
		Settings: func() []pages.Setting { return []pages.Setting{{Group: "Odd", Name: "Address", Value: other}} },
		Starter:  starter,
		Mappings: &admin.Mappings{
			Ledger: w.ledger, Syncer: &syncer.Syncer{Ledger: w.ledger, Reconciler: w.reader, Settings: w.syncer.Settings},
			Tally: kept, Read: os.ReadFile, Parse: mapping.Load,
			Files: []admin.MappingFile{{Connection: ours, Path: w.mappingOf(ours)},
				{Connection: other, Path: w.mappingOf(other)}},
			Source: func(_ context.Context, name string) (syncer.Connection, error) {
				c := w.conns[name]
				c.Mapping = nil
				return c, nil
			},
		},
	}
	for _, f := range edit {
		f(&cfg)
	}
	w.pages = must(pages.New(cfg))(w.t)
	return w.pages
}

// limited returns a visitor who sees the one company alone.
func (w *town) limited(name string, role pages.Role) *visitor {
	w.t.Helper()
	w.user(name, role)
	if err := (admin.Users{Ledger: w.ledger}).Limit(context.Background(), name, []string{ours}, "tester",
		false); err != nil {
		w.t.Fatal(err)
	}
	v := w.knows(name, goodPassword)
	v.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return v
}

// paths returns the addresses of a pattern, of a company.
func (w *town) paths(pattern, connection string) []string {
	number := map[string]string{ours: "AN", other: "ZZQ"}[connection]
	_, path, _ := strings.Cut(pattern, " ")
	out := []string{strings.ReplaceAll(path, "{$}", "")}
	fill := func(part string, values ...string) {
		var filled []string
		for _, path := range out {
			for _, value := range values {
				filled = append(filled, strings.Replace(path, part, url.PathEscape(value), 1))
			}
			if !strings.Contains(path, part) {
				filled = append(filled[:len(filled)-len(values)], path)
			}
		}
		out = filled
	}
	var plans, runs []string
	for _, p := range must(w.ledger.LimitedTo([]string{connection}).PlanPage(context.Background(), 0, 100))(w.t) {
		plans = append(plans, fmt.Sprint(p.ID))
	}
	for _, p := range must(w.ledger.LimitedTo([]string{connection}).WaitingPlans(context.Background()))(w.t) {
		plans = append(plans, fmt.Sprint(p.ID))
	}
	for _, r := range must(w.ledger.LimitedTo([]string{connection}).RunPage(context.Background(), 0, 100))(w.t) {
		runs = append(runs, fmt.Sprint(r.RunID))
	}
	fill("{connection}", connection)
	fill("{id}", number+"001", number+"094", number+"090", number+"091")
	fill("{act}", "request", "cancel", "reinstate", "retry", "close", "hold", "release", "stop", "resume", "undo",
		"take-over", "reject", "rekey", "unlink", "two-payers", "merge", "adopt", "link-customer", "take-theirs", "send-ours",
		"ignore", "unforget", "forget", "keep", "separate", "take-back", "revive")
	var reasons []string
	for r := range connector.Reasons {
		reasons = append(reasons, string(r))
	}
	fill("{reason}", slices.Sorted(slices.Values(reasons))...)
	fill("{key}", "event:zarq#1")
	fill("{hash}", w.hash(connection))
	fill("{name}", "limited admin")
	if strings.HasPrefix(path, "/plans") {
		fill("{n}", plans...)
	}
	fill("{n}", runs...)
	return out
}

func (w *town) hash(connection string) string {
	return admin.HashOfMapping(must(os.ReadFile(w.mappingOf(connection)))(w.t))
}

// rows is all that the ledger has of the other company, and of users.
func (w *town) rows() string {
	w.t.Helper()
	path, _ := w.ledger.Path()
	var text strings.Builder
	dump := func(query string) { text.WriteString(statetest.Dump(w.t, path, query)) }
	tables := statetest.Counted(w.t, path,
		"SELECT DISTINCT m.name, 1 FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'connection'")
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		dump("SELECT * FROM " + table + " WHERE connection = '" + other + "'")
	}
	const theirs = " WHERE billing_id IN (SELECT billing_id FROM payers WHERE connection = '" + other + "')"
	dump("SELECT * FROM mandates" + theirs)
	dump("SELECT * FROM handovers WHERE mandate_id IN (SELECT mandate_id FROM mandates" + theirs + ")")
	dump("SELECT name, role, generation, connections FROM users")
	dump("SELECT * FROM inbox")
	fmt.Fprintln(&text, w.hash(other), len(w.box.Customers()))
	return text.String()
}

// marked returns what of the other company stands in an answer, but for what was asked.
func marked(answer string, asked ...string) string {
	text := strings.ToLower(answer)
	for _, a := range asked {
		for _, form := range []string{a, url.QueryEscape(a), url.PathEscape(a), strings.ReplaceAll(a, "&", "&amp;")} {
			if form != "" {
				text = strings.ReplaceAll(text, strings.ToLower(form), "")
			}
		}
	}
	for _, m := range marks {
		if at := strings.Index(text, m); at >= 0 {
			return "…" + text[max(0, at-200):min(len(text), at+80)] + "…"
		}
	}
	return ""
}
