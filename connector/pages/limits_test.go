package pages_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting/csvfile"
	"payersync/connector/billing"
	"payersync/connector/condition"
	"payersync/connector/office"
	"payersync/connector/pages"
	"payersync/connector/syncer"
	"payersync/internal/longtest"
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
	w.receive(state.Delivery{Key: "event:zarq#1", Type: "odd", State: connector.InboxQuarantined, Detail: "It names no customer.", Body: []byte(`{"name":"Zarquon"}`)})
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
	rules, _, _ := strings.Cut(string(must(fs.ReadFile(configs.FS, "quickstart/mapping.yaml"))(w.t)), "# Rows and what must become")
	w.write(w.mappingOf(name), rules)
	w.conn = syncer.Connection{Name: name, Source: source, Info: info, Mapping: must(mapping.Load("mapping.yaml", []byte(rules), info))(w.t)}
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
	ahead, board, kept := &office.Ahead{}, &office.Board{}, &office.Tallies{}
	w.t.Cleanup(func() { ahead.Close(); board.Close(); kept.Close() })
	starter := w.starter()
	starter.Run = func(context.Context, string, string, func(int64), func(syncer.Progress)) error { return nil }
	cfg := pages.Config{
		Ledger: w.ledger, Connections: names, Standings: w.standings, Fetcher: w.fetcher, Report: w.report, Mandates: w.acts, Rate: 5,
		Expected:  func() condition.Expected { return condition.Expected{Webhooks: true} },
		Attention: &office.Attention{Ledger: w.ledger, Syncer: w.syncer, Stored: conn},
		Matches:   &office.Matches{Ledger: w.ledger, Syncer: w.syncer, Connections: names, Ahead: ahead, Board: board, Stored: conn},
		Explain: func(_ context.Context, name string) (office.Explainer, error) {
			return office.Explainer{Mapping: w.conns[name].Mapping, NotSent: billing.Standard().NotCarried}, nil
		},
		Jobs: func(context.Context) ([]pages.Job, error) {
			return []pages.Job{{JobRow: state.JobRow{Name: "sync " + ours}}, {JobRow: state.JobRow{Name: "sync " + other}}, {JobRow: state.JobRow{Name: "sweep", Problem: "Zarquon"}}}, nil
		},
		Settings: func() []pages.Setting { return []pages.Setting{{Group: "Odd", Name: "Address", Value: other}} },
		Starter:  starter,
		Mappings: &office.Mappings{
			Ledger: w.ledger, Syncer: &syncer.Syncer{Ledger: w.ledger, Reconciler: w.reader, Settings: w.syncer.Settings}, Tally: kept, Read: os.ReadFile, Parse: mapping.Load,
			Files: []office.MappingFile{{Connection: ours, Path: w.mappingOf(ours)}, {Connection: other, Path: w.mappingOf(other)}},
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
	if err := (office.Users{Ledger: w.ledger}).Limit(context.Background(), name, []string{ours}, "tester", false); err != nil {
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
	for _, p := range must(w.ledger.Only([]string{connection}).PlanPage(context.Background(), 0, 100))(w.t) {
		plans = append(plans, fmt.Sprint(p.ID))
	}
	for _, p := range must(w.ledger.Only([]string{connection}).WaitingPlans(context.Background()))(w.t) {
		plans = append(plans, fmt.Sprint(p.ID))
	}
	for _, r := range must(w.ledger.Only([]string{connection}).RunPage(context.Background(), 0, 100))(w.t) {
		runs = append(runs, fmt.Sprint(r.RunID))
	}
	fill("{connection}", connection)
	fill("{id}", number+"001", number+"094", number+"090", number+"091")
	fill("{act}", "request", "cancel", "reinstate", "retry", "close", "hold", "release", "stop", "resume", "undo",
		"take-over", "reject", "rekey", "unlink", "two-payers", "merge", "adopt", "link-customer", "take-theirs", "send-ours", "ignore", "unforget", "forget", "keep", "separate", "take-back", "revive")
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
	return office.HashOfMapping(must(os.ReadFile(w.mappingOf(connection)))(w.t))
}

// rows is all that the ledger has of the other company, and of users.
func (w *town) rows() string {
	w.t.Helper()
	path, _ := w.ledger.Path()
	var text strings.Builder
	dump := func(query string) { text.WriteString(statetest.Dump(w.t, path, query)) }
	tables := statetest.Counted(w.t, path, "SELECT DISTINCT m.name, 1 FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'connection'")
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

func TestWhoIsLimitedReadsNothingOfAnotherConnection(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	whole := w.enter("boss", pages.Admin)
	whole.post("/payers", http.StatusOK, "text", "Zarquon")
	for _, path := range []string{"/payers?person=any", "/todo/email_malformed", "/plans", "/runs", "/matches", "/settings", "/mapping"} { // there is something to hide
		if marked(whole.get(path, http.StatusOK)) == "" {
			t.Errorf("who sees all sees nothing of the other company at %s", path)
		}
	}
	for _, role := range longtest.Sample(pages.Roles, 1) {
		v := w.limited("limited "+string(role), role)
		answers := map[int]int{}
		for pattern, need := range pages.Routes() {
			method, _, _ := strings.Cut(pattern, " ")
			if method != http.MethodGet {
				continue
			}
			for _, query := range []string{"", "connection=" + other, "after=" + other + "/ZZQ001", "after=/matches/" + other + "/ZZQ094", "after=99999", "after=awaiting.1.zarbooks/ZZQ001", "person=any&by=name", "later=1", "show=lost", "stage=books", "class=awaiting", "group=several", "a=" + w.hash(other)[:12], "customer=x", "other=" + other + "/ZZQ001"} {
				paths := w.paths(pattern, ours)
				switch {
				case query != "" && role != pages.Admin: // who may see most tries most
					continue
				case query != "": // which is of lists, more than of what an address names
					paths = paths[:1]
				}
				for _, path := range paths {
					status, body := v.send(method, path+"?"+query, nil)
					answers[status]++
					asked := slices.Concat(slices.Collect(maps.Values(must(url.ParseQuery(query))(t)))...)
					if found := marked(body, append(asked, path)...); found != "" {
						t.Errorf("%s, GET %s?%s is answered %d with %s", role, path, query, status, found)
					}
					if status >= 500 {
						t.Errorf("%s, GET %s?%s is answered %d: %v", role, path, query, status, w.events[len(w.events)-1].Err)
					}
				}
			}
			for _, path := range w.paths(pattern, other) {
				if slices.Contains(w.paths(pattern, ours), path) {
					continue
				}
				want := http.StatusNotFound
				if !role.May(need) || strings.Contains(pattern, " /mandates/letters") { // letters are of all connections together
					want = http.StatusForbidden
				}
				status, body := v.send(method, path, nil)
				if found := marked(body); status != want || found != "" {
					t.Errorf("%s, GET %s is answered %d, want %d: %s", role, path, status, want, found)
				}
			}
		}
		if answers[http.StatusOK] < 40 {
			t.Errorf("%s was answered %v: the test looks at next to nothing", role, answers)
		}
	}
}

func TestWhoIsLimitedChangesNothingOfAnotherConnection(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	ctx := context.Background()
	theirs := w.ledger.Only([]string{other})
	var mandates, changes []string
	for _, m := range must(theirs.Mandates(ctx, state.Filter{}))(t) {
		mandates = append(mandates, m.MandateID)
	}
	plan := must(theirs.WaitingPlans(ctx))(t)[0]
	for _, kind := range state.PlanGroups {
		for _, c := range must(theirs.PlanGroupChanges(ctx, plan, kind, 0, 100))(t) {
			changes = append(changes, fmt.Sprint(c.ID))
		}
	}
	waiting := must((&office.Matches{Ledger: w.ledger, Syncer: w.syncer, Connections: []string{other}, Stored: func(context.Context, string) (syncer.Connection, error) { return w.conns[other], nil }}).Now(ctx))(t).Rows
	if len(mandates) == 0 || len(changes) == 0 || len(waiting) == 0 {
		t.Fatalf("the other company has %d mandates, %d changes and %d matches", len(mandates), len(changes), len(waiting))
	}
	customer := waiting[0].Candidates[0].BillingID
	form := url.Values{
		"connection": {other}, "mandate": mandates, "change": changes, "payer": {other + "/ZZQ001"}, "customer": {customer}, "reason": {"a try"}, "on": {"2026-01-05"},
		"id":  {other + "\x1fZZQ094\x1f" + customer, other + "/ZZQ001", other + "/ZZQ091", "/webhooks", "/event:zarq#1", "/matches/" + other + "/ZZQ094?customer=" + url.QueryEscape(customer)},
		"who": {"all"}, "letter": {"1"}, "word": {"again"}, "text": {"version: 1\n"}, "opened": {w.hash(other)}, "count": {"1"}, "name": {"eve"}, "role": {"admin"}, "shown": {"x"}, "other": {other + "/ZZQ001"}, "part": {"name"},
	}
	for _, role := range longtest.Sample(pages.Roles, 1) {
		v := w.limited("limited "+string(role), role)
		before := w.rows()
		for pattern := range pages.Routes() {
			method, _, _ := strings.Cut(pattern, " ")
			if method != http.MethodPost {
				continue
			}
			for _, path := range slices.Compact(append(w.paths(pattern, other), w.paths(pattern, ours)...)) {
				dos := []string{""}
				switch {
				case strings.HasPrefix(path, "/plans/"):
					dos = []string{"all", "some", "reject"}
				case strings.HasPrefix(path, "/mapping/"):
					dos = []string{"save", "count", "again"}
				case strings.HasPrefix(path, "/settings/users/"):
					dos = []string{"limit", "role", "remove", "invite"}
				case strings.HasPrefix(path, "/todo/"), strings.HasPrefix(path, "/matches/"):
					dos = []string{"retry-all", "retry", "close", "give-up", "later", "now", "same", "not", "back"}
				}
				for _, do := range dos {
					sent := maps.Clone(form)
					sent.Set("do", do)
					sent.Set("act", do)
					if n, ok := strings.CutPrefix(path, "/plans/"); ok {
						var id int64
						_, _ = fmt.Sscan(n, &id)
						sent.Set("reads", w.reads(id))
					}
					status, body := v.send(method, path, sent)
					if found := marked(body, path, other+"/ZZQ001"); found != "" || status >= 500 {
						t.Errorf("%s, POST %s (%s) is answered %d with %s", role, path, do, status, found)
					}
				}
			}
		}
		if after := w.rows(); after != before {
			t.Errorf("the role %s changed something of the other company", role)
			b, a := strings.Split(before, "\n"), strings.Split(after, "\n")
			for _, line := range a {
				if !slices.Contains(b, line) {
					t.Logf("new: %.600s", line)
				}
			}
		}
	}
	for range 200 { // what was begun in the background is over
		if !w.fetcher.Lot().AtWork() {
			break
		}
		time.Sleep(time.Millisecond)
	}
}

func TestEveryThingThatPagesAreMadeOfIsCutOrTheSameForAll(t *testing.T) {
	t.Parallel()
	same := []string{"Explain", "Hosts", "Secure", "Valid", "Report", "Starter", "Rate", "Approvers", "FourEyes", "Design", "Door", "Guides", "Provider", "Network"}
	cut := []string{"Ledger", "Lists", "Connections", "Expected", "Letters", "Mandates", "Deliveries", "Attention", "Matches", "Nudge", "Jobs", "Settings", "Standings", "Fetcher", "Mappings", "Moves"}
	for f := range reflect.TypeFor[pages.Config]().Fields() {
		if slices.Contains(same, f.Name) == slices.Contains(cut, f.Name) {
			t.Errorf("it is not said what Config.%s is to who is limited", f.Name)
		}
	}
}

func TestAChangeOfTheLimitsEndsTheLoginsOfThatPerson(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.user("bob", pages.Operator)
	boss := w.knows("ida", goodPassword)
	for _, to := range []struct {
		form []string
		note string
		sees bool // what is of the other company
	}{
		{[]string{"connection", ours}, "bob now sees only alder, and must sign in again.", false},
		{nil, "bob now sees all connections, and must sign in again.", true},
	} {
		first, second := w.knows("bob", goodPassword), w.knows("bob", goodPassword)
		first.get("/plans", http.StatusOK)
		second.get("/plans", http.StatusOK)
		holds(t, boss.post("/settings/users/bob", http.StatusOK, append([]string{"do", "limit"}, to.form...)...), to.note)
		for _, v := range []*visitor{first, second} {
			v.get("/plans", http.StatusUnauthorized)
			v.post("/payers", http.StatusUnauthorized, "text", "Zarquon")
		}
		again := w.knows("bob", goodPassword)
		if sees := marked(again.get("/plans", http.StatusOK)) != ""; sees != to.sees {
			t.Errorf("bob, who %s sees of the other company: %v", to.note, sees)
		}
		boss.get("/settings/users", http.StatusOK) // another person's login goes on
	}
}

var savedSearch = regexp.MustCompile(`[?;&]s=([0-9a-f]{8})`)

func TestWhatSomebodyElseSearchedForIsNobodysToOpen(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	boss := w.knows("ida", goodPassword)
	page := boss.post("/payers?person=any", http.StatusOK, "text", "Zarquon Lookalike")
	found := savedSearch.FindStringSubmatch(page)
	if found == nil || !strings.Contains(page, "ZZQ094") {
		t.Fatalf("no search is kept:\n%s", page)
	}
	path := "/payers?person=any&s=" + found[1]
	holds(t, boss.get(path, http.StatusOK), "ZZQ094")
	for name, v := range map[string]*visitor{"who is limited": w.limited("limited", pages.Admin), "who sees all": w.enter("eve", pages.Admin), "the same person in another browser": w.knows("ida", goodPassword)} {
		for method, path := range map[string]string{http.MethodGet: path, http.MethodPost: "/payers/export?s=" + found[1]} {
			status, page := v.send(method, path, nil)
			if status != http.StatusGone {
				t.Errorf("%s is answered %d at %s", name, status, path)
			}
			holds(t, page, "This search is over", "Search again.")
			if said := marked(page); said != "" {
				t.Errorf("to %s %s says %s", name, path, said)
			}
		}
	}
	w.stranger().get(path, http.StatusUnauthorized)
}

func TestAMappingThatIsAnotherConnectionsTooIsNotSavedByWhoIsLimited(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	if err := errors.Join(os.Remove(w.mappingOf(other)), os.Symlink(w.mappingOf(ours), w.mappingOf(other))); err != nil {
		t.Fatal(err)
	}
	was := string(must(os.ReadFile(w.mappingOf(ours)))(t))
	v, path := w.limited("limited", pages.Admin), "/mapping/"+ours
	typed := inCapitals(was)
	page := v.post(path, http.StatusForbidden, "text", typed, "opened", opened(t, v.get(path, http.StatusOK)), "do", "save", "reason", "capitals")
	holds(t, page, "Problem: nothing was saved, because the file is the mapping of connections that you do not see, too.", "A user who sees all connections can save it", "Nothing was changed.", "upper(trim(Name))")
	if said := marked(page); said != "" {
		t.Errorf("it says %s", said)
	}
	if now := string(must(os.ReadFile(w.mappingOf(ours)))(t)); now != was || w.saves() != 0 {
		t.Errorf("%d times saved, the file is:\n%s", w.saves(), now)
	}
	boss := w.knows("ida", goodPassword)
	holds(t, boss.post(path, http.StatusOK, "text", typed, "opened", opened(t, boss.get(path, http.StatusOK)), "do", "save", "reason", "capitals"), "Saved as version", "It is the mapping of zarbooks, too.")
}

// Two connections have the same mapping. A person who saved it for one cannot approve a plan of the other,
// even if limits hide the first.
func TestWhoSavedTheMappingOfAnotherConnectionDoesNotApproveAPlanByIt(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	plan := must(w.ledger.Only([]string{ours}).WaitingPlans(context.Background()))(t)[0]
	w.do(func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: "Lea", Action: state.MappingSaved, Subject: other + " none → " + plan.Mapping[:state.MappingMark], Reason: "a test"})
	})
	w.do(func(tx *state.Tx) error { // and somebody else after her
		return tx.Audit(state.Entry{Actor: "tom", Action: state.MappingSaved, Subject: ours + " none → " + plan.Mapping[:state.MappingMark], Reason: "a test"})
	})
	w.server.Config.Handler = w.shown(func(c *pages.Config) { c.FourEyes = true })
	path, form := fmt.Sprintf("/plans/%d", plan.ID), url.Values{"reads": {w.reads(plan.ID)}, "do": {"all"}}
	for _, name := range []string{"lea", "tom"} {
		status, page := w.limited(name, pages.Operator).send(http.MethodPost, path, form)
		if status != http.StatusForbidden {
			t.Errorf("%s, who saved it, is answered %d", name, status)
		}
		holds(t, page, "You saved the mapping version", "Nothing was approved")
		if said := marked(page); said != "" {
			t.Errorf("it says %s", said)
		}
	}
	if status, page := w.limited("max", pages.Operator).send(http.MethodPost, path, form); status != http.StatusSeeOther {
		t.Errorf("somebody else is answered %d:\n%s", status, page)
	}
}

func TestALinkLimitsWhoIsNoUser(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	comes := func(user pages.User) *visitor {
		link := must(pages.NewLink(context.Background(), w.ledger, user, "tester"))(t)
		v := w.stranger()
		holds(t, v.get(link, http.StatusOK), ", who sees <bdi>"+user.Connections[0]+"</bdi> alone. It works once.")
		v.post(link, http.StatusOK)
		return v
	}
	carl := comes(pages.User{Name: "carl", Role: pages.Admin, Connections: []string{ours}})
	for _, path := range []string{"/payers?person=any", "/plans", "/runs", "/mapping", "/todo/email_malformed"} {
		if said := marked(carl.get(path, http.StatusOK)); said != "" {
			t.Errorf("%s says %s", path, said)
		}
	}
	holds(t, carl.get("/plans", http.StatusOK), ours)
	carl.get("/payers/"+other+"/ZZQ001", http.StatusNotFound)
	for _, path := range []string{"/webhooks", "/mandates/letters", "/settings/users", "/audit"} {
		holds(t, carl.get(path, http.StatusForbidden), "You see alder alone.")
	}
	if !w.audited("carl as admin, limited to alder") {
		t.Error("the audit log does not tell of the limits")
	}

	w.limited("dora", pages.Operator) // of ours alone: a link to the others takes no limit away
	dora := comes(pages.User{Name: "dora", Role: pages.Operator, Connections: []string{other}})
	page := dora.get("/payers?person=any", http.StatusOK)
	if said := marked(page); said != "" || strings.Contains(page, "AN001") {
		t.Errorf("who has two limits that have nothing in common sees:\n%s", page)
	}
}
