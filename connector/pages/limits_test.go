package pages_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/connector/syncer"
	"payersync/internal/longtest"
	"payersync/state"
)

func TestWhoIsLimitedReadsNothingOfAnotherConnection(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	whole := w.enter("boss", pages.Admin)
	whole.post("/payers", http.StatusOK, "text", "Zarquon")
	for _, path := range []string{"/payers?person=any", "/todo/email_malformed", "/plans", "/runs", "/matches",
		"/settings", "/mapping"} { // there is something to hide
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
			for _, query := range []string{"", "connection=" + other, "after=" + other + "/ZZQ001", "after=/matches/" + other +
				"/ZZQ094", "after=99999", "after=awaiting.1.zarbooks/ZZQ001", "person=any&by=name", "later=1", "show=lost",
				"stage=books", "class=awaiting", "group=several", "a=" + w.hash(other)[:12], "customer=x", "other=" + other +
					"/ZZQ001"} {
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
	theirs := w.ledger.LimitedTo([]string{other})
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
	waiting := must((&admin.Matches{Ledger: w.ledger, Syncer: w.syncer, Connections: []string{other},
		Stored: func(context.Context, string) (syncer.Connection, error) { return w.conns[other], nil }}).Now(ctx))(t).Rows
	if len(mandates) == 0 || len(changes) == 0 || len(waiting) == 0 {
		t.Fatalf("the other company has %d mandates, %d changes and %d matches", len(mandates), len(changes), len(waiting))
	}
	customer := waiting[0].Candidates[0].BillingID
	form := url.Values{
		"connection": {other}, "mandate": mandates, "change": changes, "payer": {other + "/ZZQ001"}, "customer": {customer},
		"reason": {"a try"}, "on": {"2026-01-05"},
		"id": {other + "\x1fZZQ094\x1f" + customer, other + "/ZZQ001", other + "/ZZQ091", "/webhooks", "/event:zarq#1",
			"/matches/" + other + "/ZZQ094?customer=" + url.QueryEscape(customer)},
		"who": {"all"}, "letter": {"1"}, "word": {"again"}, "text": {"version: 1\n"}, "opened": {w.hash(other)},
		"count": {"1"}, "name": {"eve"}, "role": {"admin"}, "shown": {"x"}, "other": {other + "/ZZQ001"}, "part": {"name"},
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
	same := []string{"Explain", "Hosts", "Secure", "Valid", "Report", "Starter", "Rate", "Approvers", "FourEyes", "Design",
		"Door", "Guides", "Provider", "Network", "Systems"}
	cut := []string{"Ledger", "Lists", "Connections", "Expected", "Letters", "Mandates", "Deliveries", "Attention",
		"Matches", "Nudge", "Jobs", "Settings", "Standings", "Fetcher", "Mappings", "Moves", "Writebacks"}
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
	for name, v := range map[string]*visitor{"who is limited": w.limited("limited", pages.Admin),
		"who sees all": w.enter("eve", pages.Admin), "the same person in another browser": w.knows("ida", goodPassword)} {
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
	page := v.post(path, http.StatusForbidden, "text", typed, "opened", opened(t, v.get(path, http.StatusOK)), "do",
		"save", "reason", "capitals")
	holds(t, page, "Problem: nothing was saved, because the file is the mapping of connections that you do not see, too.",
		"A user who sees all connections can save it", "Nothing was changed.", "upper(trim(Name))")
	if said := marked(page); said != "" {
		t.Errorf("it says %s", said)
	}
	if now := string(must(os.ReadFile(w.mappingOf(ours)))(t)); now != was || w.saves() != 0 {
		t.Errorf("%d times saved, the file is:\n%s", w.saves(), now)
	}
	boss := w.knows("ida", goodPassword)
	holds(t, boss.post(path, http.StatusOK, "text", typed, "opened", opened(t, boss.get(path, http.StatusOK)), "do",
		"save", "reason", "capitals"), "Saved as version", "It is the mapping of zarbooks, too.")
}

// Two connections have the same mapping. A person who saved it for one cannot approve a plan of the other,
// even if limits hide the first.
func TestWhoSavedTheMappingOfAnotherConnectionDoesNotApproveAPlanByIt(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	plan := must(w.ledger.LimitedTo([]string{ours}).WaitingPlans(context.Background()))(t)[0]
	w.do(func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: "Lea", Action: state.MappingSaved, Subject: other + " none → " +
			plan.Mapping[:state.MappingMark], Reason: "a test"})
	})
	w.do(func(tx *state.Tx) error { // and somebody else after her
		return tx.Audit(state.Entry{Actor: "tom", Action: state.MappingSaved, Subject: ours + " none → " +
			plan.Mapping[:state.MappingMark], Reason: "a test"})
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
