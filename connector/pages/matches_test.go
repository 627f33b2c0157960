package pages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/connector/syncer"
	"payersync/mapping/strict"
	"payersync/state"
)

// matches returns what decides who is an existing customer.
func (h *house) matches() *admin.Matches {
	ahead := &admin.Ahead{}
	board := &admin.Board{}
	h.t.Cleanup(func() { ahead.Close(); board.Close() })
	h.matcher = &admin.Matches{
		Ledger: h.ledger, Syncer: h.syncer, Connections: []string{sample}, Ahead: ahead, Board: board,
		Stored: func(context.Context, string) (syncer.Connection, error) { return h.conn, nil },
	}
	return h.matcher
}

// alike makes this many records similar to existing customers: the first strongly, every tenth by the e-mail
// address alone. A run puts them on hold.
func (h *house) alike(n int) {
	h.t.Helper()
	books := header
	for i := range n {
		name := fmt.Sprintf("Tideswell Bakery %d Ltd", i)
		books += fmt.Sprintf("M%03d,%s,Ann,accounts%d@tideswell.example,,4 Harbour Street,Whitby,YO21 3CK,,,,Active,\n", i,
			name, i)
		if i%10 == 9 {
			name = fmt.Sprintf("Ashcombe Cakes %d", i)
		}
		h.there(name, fmt.Sprintf("accounts%d@tideswell.example", i))
	}
	h.books([]byte(books))
	h.run(true)
}

// there adds a customer to the billing service, by hand.
func (h *house) there(name, email string) string {
	h.t.Helper()
	raw := must(json.Marshal(map[string]any{"name": name, "people": []map[string]string{{"name": "Desk", "email": email}},
		"addresses": []map[string]string{{"postCode": "LS6 2KM"}}}))(h.t)
	return must(h.box.Add(raw))(h.t)
}

var customerField = regexp.MustCompile(`name="customer" value="([^"]+)"`)

// customerOn returns the customer that a page compares with.
func customerOn(t testing.TB, page string) string {
	t.Helper()
	found := customerField.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page names no customer:\n%s", page)
	}
	return found[1]
}

// seenOn is the hash of the effect that a page shows.
func seenOn(t testing.TB, page string) string {
	t.Helper()
	found := regexp.MustCompile(`name="seen" value="([0-9a-f]+)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page shows no effect:\n%s", page)
	}
	return found[1]
}

func TestMatchesAreGroupedByHowSureItIsAndShowNoAddressToAViewer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("vera", pages.Viewer)
	holds(t, v.get("/matches", http.StatusOK), "No payer waits for a decision")
	h.there("Tideswell Bakery 1 Ltd", "other@tideswell.example") // a second one for M001
	h.alike(60)
	page := v.get("/matches", http.StatusOK)
	holds(t, page, "60 payers match existing customers", `Likely the same <span class="count">53</span>`,
		`Unclear <span class="count">6</span>`, `Several matches <span class="count">1</span>`, "same name; same e-mail",
		`rel="next"`)
	for _, path := range []string{"/matches/quickstart/M000", "/matches/quickstart/M009"} {
		page += v.get(path, http.StatusOK)
	}
	if strings.Contains(page, "@tideswell") || strings.Contains(page, "YO21") || strings.Contains(page, `name="act"`) {
		t.Errorf("a viewer sees or may do too much:\n%s", page)
	}
	holds(t, h.enter("olga", pages.Operator).get("/matches/quickstart/M001", http.StatusOK), "Match 2")
}

func TestAPairIsLinkedKeptApartPutOffAndTakenBackAndNothingIsSent(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.alike(5)
	h.box.ResetRequests()
	v, writes := h.enter("olga", pages.Operator), h.box.Writes()
	page := v.get("/matches/quickstart/M000", http.StatusOK)
	holds(t, page, "accounts0@tideswell.example", "LS6 2KM", "✕", ">Street<", "After linking",
		"What the next run would change", "1 of 5", "Accept: link",
		html.EscapeString(admin.Acts[connector.ActAccept].Becomes),
		"The next run sends to the billing service: the record&#39;s number",
		"you can take it back: “Take the decision back”.",
		"After rejecting", admin.Acts[connector.ActReject].Becomes)
	customer, seen := customerOn(t, page), seenOn(t, page)
	holds(t, v.post("/matches/quickstart/M000", http.StatusUnprocessableEntity, "act", "same", "customer", customer,
		"keep", "yes"), "A reason is missing", `action="/matches/quickstart/M000"`, `name="reason" required`,
		"checked> Use this reason")
	holds(t, v.post("/matches/quickstart/M000", http.StatusUnprocessableEntity, "act", "not", "customer", customer),
		"A reason is missing", `action="/matches/quickstart/M000"`)
	page = v.post("/matches/quickstart/M000", http.StatusOK, "act", "same", "customer", customer, "reason", "same office",
		"keep", "yes", "seen", seen)
	holds(t, page, "Linked. Nothing was sent yet", "M001", `value="same office"`, "1 of 4")
	if got := h.logged(1); got != "olga accept match quickstart/M000 = "+customer+": same office" {
		t.Errorf("the audit log says %q", got)
	}
	holds(t, v.get("/matches/quickstart/M000", http.StatusNotFound), "needs no decision")
	holds(t, v.post("/matches/quickstart/M000", http.StatusOK, "act", "back"), "Taken back. Nothing was sent.", "of 5")
	holds(t, v.post("/matches/quickstart/M000", http.StatusOK, "act", "later"), "Moved to the end of the list", "M001",
		"1 of 5")
	holds(t, v.get("/matches/quickstart/M000", http.StatusOK), "5 of 5")
	other := customerOn(t, v.get("/matches/quickstart/M001", http.StatusOK))
	holds(t, v.post("/matches/quickstart/M001", http.StatusOK, "act", "not", "customer", other, "reason", "sisters"),
		"Rejected.", "of 4")
	if h.box.Writes() != writes {
		t.Errorf("deciding sent something")
	}
	h.run(true)
	holds(t, v.post("/matches/quickstart/M001", http.StatusConflict, "act", "back"), "Nothing was decided")
}

func TestAMatchThatWasDecidedOrChangedMeanwhileIsNotDecidedAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.alike(3)
	anna, bo := h.enter("anna", pages.Operator), h.enter("bo", pages.Operator)
	page := bo.get("/matches/quickstart/M000", http.StatusOK)
	customer := customerOn(t, page)
	if err := h.box.Edit(customer, json.RawMessage(`{"name":"Tideswell Bakery 0 Ltd","people":[]}`)); err != nil {
		t.Fatal(err)
	}
	changed := anna.post("/matches/quickstart/M000", http.StatusConflict, "act", "same", "customer", customer, "reason",
		"same", "seen", seenOn(t, page))
	holds(t, changed, "changed while you were reading. Nothing was decided.", `value="same"`)
	if seenOn(t, changed) == seenOn(t, page) {
		t.Error("the page shows the earlier effect")
	}
	anna.post("/matches/quickstart/M000", http.StatusOK, "act", "same", "customer", customer, "reason", "same", "seen",
		seenOn(t, changed))
	holds(t, bo.post("/matches/quickstart/M000", http.StatusConflict, "act", "not", "customer", customer),
		"Somebody decided on it", "Nothing was changed")
	holds(t, bo.post("/matches/quickstart/M000", http.StatusConflict, "act", "back"), "already taken back")

	customer = customerOn(t, bo.get("/matches/quickstart/M001", http.StatusOK))
	if err := h.box.Edit(customer,
		json.RawMessage(`{"name":"Tideswell Bakery 1 Ltd","people":[],"externalData":{"accountNumber":"OTHER"}}`)); err != nil {
		t.Fatal(err)
	}
	bo.post("/matches/quickstart/M001", http.StatusConflict, "act", "same", "customer", customer, "reason", "same")
	customer = customerOn(t, bo.get("/matches/quickstart/M002", http.StatusOK))
	if err := h.box.Delete(customer); err != nil {
		t.Fatal(err)
	}
	bo.post("/matches/quickstart/M002", http.StatusConflict, "act", "same", "customer", customer, "reason", "same")
	if got := h.logged(1); !strings.HasPrefix(got, "anna accept match") {
		t.Errorf("something was decided after all: %s", got)
	}
}

func TestTheLikelyOnesAreLinkedTogetherWhenTheirNumberIsTypedIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.alike(12)
	v := h.enter("olga", pages.Operator)
	var form []string
	for _, id := range ticked(v.get("/matches/likely", http.StatusOK)) {
		form = append(form, "id", id)
	}
	if len(form) != 22 {
		t.Fatalf("%d can be ticked", len(form)/2)
	}
	holds(t, v.post("/matches/likely", http.StatusUnprocessableEntity,
		append(form, "count", "10", "reason", "migrated")...), "The number that you typed")
	holds(t, v.post("/matches/likely", http.StatusOK, append(form, "count", "11", "reason", "migrated")...),
		"11 payers linked. Nothing was sent yet", "1 payer matches")
	if lines := h.logged(11); strings.Count(lines, "olga accept match quickstart/M0") != 11 {
		t.Errorf("the audit log says %s", lines)
	}
	holds(t, v.post("/matches/likely", http.StatusConflict, append(form, "count", "11", "reason", "again")...),
		"Nothing was linked")
}

func TestHostileNamesOnBothSidesOfAMatchAreText(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	name := "<script>alert(1)</script>\u202e" + strings.Repeat("ä", 200)
	h.there(name, "a@x.example")
	h.books([]byte(header + "=1+1," + name + ",Ann,a@x.example,,,,,,,,Active,\n"))
	h.run(true)
	v := h.enter("olga", pages.Operator)
	page := v.get("/matches", http.StatusOK)
	page += v.get("/matches/quickstart/=1+1", http.StatusOK)
	if strings.Contains(page, "<script>alert") {
		t.Errorf("a name is part of the page:\n%s", page)
	}
	holds(t, page, "&lt;script&gt;alert(1)")
}

func TestMatchesReachEveryIDAndLeaveOutWhatIsPutOffOrNotConfigured(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.there("Tideswell Bakery Ltd", "accounts@tideswell.example")
	h.there("Ashcombe Cakes", "info@ashcombe.example")
	h.books([]byte(header + "..,Tideswell Bakery Ltd,Ann,accounts@tideswell.example,,4 Harbour Street,Whitby,YO21 3CK,,,,Active,\n" +
		"A/2,Ashcombe Cakes,Bea,info@ashcombe.example,,5 Harbour Street,Whitby,YO21 3CK,,,,Active,\n"))
	h.run(true)
	v := h.enter("olaf", pages.Operator)
	page := v.get("/matches", http.StatusOK)
	holds(t, page, "2 payers match", `href="/matches/quickstart/~.."`, `href="/matches/quickstart/A%2F2"`)
	holds(t, v.get("/matches/quickstart/~..", http.StatusOK), "Is <bdi>Tideswell Bakery Ltd</bdi>", "Postcode</bdi>")
	long := strings.Repeat("x", admin.LongestReason+1)
	holds(t, v.post("/matches/quickstart/~..", http.StatusUnprocessableEntity, "act", "not", "customer",
		customerOn(t, page+v.get("/matches/quickstart/~..", http.StatusOK)), "reason", long), "The reason is too long")
	h.do(func(tx *state.Tx) error {
		_, err := tx.PutOff(state.RecordID{Connection: sample, SourceID: ".."}, connector.ReasonLikeness,
			h.ledger.Now().Add(time.Hour), state.Entry{Actor: "olaf", Action: "put off"})
		return err
	})
	holds(t, v.get("/matches", http.StatusOK), "1 payer matches")
	m := h.matches()
	m.Connections = nil
	m.Stored = func(context.Context, string) (syncer.Connection, error) {
		return syncer.Connection{}, errors.New("it is not configured any more")
	}
	if waiting, err := m.Waiting(context.Background()); err != nil || len(waiting.Rows) != 0 {
		t.Errorf("of a connection that is gone %d wait, %v", len(waiting.Rows), err)
	}
}

func TestAPairSaysThatItsNamesAreEqualApartFromTheLegalForm(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.there("Tideswell Bakery Limited", "accounts@tideswell.example")
	h.there("Ashcombe Cakes LLP", "info@ashcombe.example")
	h.books([]byte(header + "M1,Tideswell Bakery Ltd,Ann,accounts@tideswell.example,,4 Harbour Street,Whitby,YO21 3CK,,,,Active,\n" +
		"M2,Ashcombe Cakes Ltd,Bea,info@ashcombe.example,,5 Harbour Street,Whitby,YO21 3CK,,,,Active,\n"))
	h.run(true)
	v := h.enter("olga", pages.Operator)
	holds(t, v.get("/matches/quickstart/M1", http.StatusOK), "apart from “Ltd”")
	if page := v.get("/matches/quickstart/M2", http.StatusOK); strings.Contains(page, "apart from") {
		t.Errorf("two companies have one name:\n%s", page)
	}
}

func TestLinksAreTakenBackTogetherForAsLongAsNothingWasSent(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.alike(4)
	anna, bo := h.enter("anna", pages.Operator), h.enter("bo", pages.Operator)
	link := func() (form []string) {
		t.Helper()
		var likely []string
		ids := ticked(anna.get("/matches/likely", http.StatusOK))
		for _, id := range ids {
			likely = append(likely, "id", id)
		}
		anna.post("/matches/likely", http.StatusOK, append(likely, "count", fmt.Sprint(len(ids)), "reason", "migrated")...)
		for _, id := range ticked(anna.get("/matches/linked", http.StatusOK)) {
			form = append(form, "id", id)
		}
		return form
	}
	form := link()
	if len(form) != 8 {
		t.Fatalf("%d links can be taken back", len(form)/2)
	}
	holds(t, anna.get("/matches", http.StatusOK), "4 linked, waiting for a run")
	holds(t, bo.post("/matches/linked", http.StatusOK, form[:2]...), "1 link taken back. Nothing was sent by this.")
	holds(t, anna.post("/matches/linked", http.StatusOK, append(form, "reason", "too soon")...), "3 links taken back.",
		"1 link had been taken back before.", "No decision waits")
	if log := h.logged(3); strings.Count(log, "anna take match back quickstart/M00") != 3 ||
		strings.Count(log, ": too soon") != 3 {
		t.Errorf("the audit log says %s", log)
	}
	holds(t, anna.get("/matches", http.StatusOK), "4 payers match")

	form = link()
	h.run(true)
	holds(t, anna.post("/matches/linked", http.StatusOK, form...), "0 links taken back.",
		"4 links left, because something was sent since: M000, M001, M002, M003.")
	holds(t, anna.post("/matches/linked", http.StatusUnprocessableEntity), "No payer was selected")
}

// Two people decide differently on one pair while the customer is read. The first decision stays, and the
// second person is told, unless the decisions agree.
func TestOfTwoWhoDecideOtherwiseOnAPairTheFirstHasIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.alike(3)
	m, ctx := h.matcher, context.Background()
	anna, bo := syncer.Operator{Name: "anna", Reason: "same"}, syncer.Operator{Name: "bo"}
	pair := func(i int) (state.RecordID, string) {
		l := must(m.Now(ctx))(t).Rows[i]
		return l.RecordID, l.Candidates[0].BillingID
	}
	id, customer := pair(0)
	if err := m.Apart(ctx, id, []string{customer}, bo); err != nil {
		t.Fatal(err)
	}
	if err := m.Link(ctx, id, must(m.Again(ctx, id, customer))(t), anna); !errors.Is(err, state.ErrDecidedMeanwhile) || !admin.NotHad(err) {
		t.Errorf("linked after they were kept apart: %v", err)
	}
	if err := m.SayAll(ctx, map[string][]admin.PairWord{sample: {{SourceID: id.SourceID, BillingID: customer,
		Says: state.WordAccept}}}, anna); !errors.Is(err, state.ErrDecidedMeanwhile) {
		t.Errorf("linked in bulk after they were kept apart: %v", err)
	}
	id, customer = pair(0)
	for range 2 { // pressed twice
		if err := m.Link(ctx, id, must(m.Again(ctx, id, customer))(t), anna); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Apart(ctx, id, []string{customer}, bo); !errors.Is(err, state.ErrDecidedMeanwhile) {
		t.Errorf("kept apart after they were linked: %v", err)
	}
	if log := h.logged(50); strings.Count(log, "reject match") != 1 || strings.Count(log, "accept match") != 1 {
		t.Errorf("the audit log says %s", log)
	}
}

// Of two people the first takes a link back, and the other is told; the audit log has each once.
func TestLinksThatTwoTakeBackAtOnceAreTakenBackOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.alike(8)
	people := []*visitor{h.enter("anna", pages.Operator), h.enter("bo", pages.Operator)}
	var form []string
	ids := ticked(people[0].get("/matches/likely", http.StatusOK))
	for _, id := range ids {
		form = append(form, "id", id)
	}
	people[0].post("/matches/likely", http.StatusOK, append(form, "count", fmt.Sprint(len(ids)), "reason", "migrated")...)
	form = nil
	for _, id := range ticked(people[0].get("/matches/linked", http.StatusOK)) {
		form = append(form, "id", id)
	}
	told := make([]string, len(people))
	var group sync.WaitGroup
	for i, p := range people {
		group.Go(func() { told[i] = p.post("/matches/linked", http.StatusOK, form...) })
	}
	group.Wait()
	n := len(form) / 2
	back, before := fmt.Sprintf("%d links taken back.", n), fmt.Sprintf("%d links had been taken back before.", n)
	if first := strings.Contains(told[0], back); first == strings.Contains(told[1], back) ||
		!strings.Contains(told[0]+told[1], before) {
		t.Errorf("one is told\n%s\nand the other\n%s", told[0], told[1])
	}
	if log := h.logged(50); strings.Count(log, "take match back") != n {
		t.Errorf("the audit log says %s", log)
	}
	holds(t, people[1].get("/matches", http.StatusOK), fmt.Sprintf("%d payers match", n))
}

func TestAConnectionWhoseMappingHasAMistakeIsNamedAndStopsNobodyElses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.alike(3)
	m := h.matcher
	m.Stored = func(context.Context, string) (syncer.Connection, error) {
		return syncer.Connection{},
			strict.NewError([]strict.Problem{{File: "mapping.yaml", Line: 3, Message: "there is no field Nmae"}})
	}
	waiting, err := m.Waiting(context.Background())
	if err != nil || len(waiting.Rows) != 0 || len(waiting.Unread) != 1 || waiting.Unread[0].Connection != sample ||
		waiting.Unread[0].Line != 3 {
		t.Fatalf("%+v, %v", waiting, err)
	}
	holds(t, h.enter("olga", pages.Operator).get("/matches", http.StatusOK),
		"<bdi>quickstart</bdi>'s matches are not shown: the mapping has a mistake, line 3. See", `href="/mapping/quickstart"`)
}

// covers F220
func TestMatchingIsFinishedOnThePageOfMatches(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.syncer.Settings.Guards.FirstMatching = true
	h.there("Somebody Else Ltd", "else@example.org")
	h.run(true)
	for _, path := range []string{"/", "/matches"} {
		holds(t, h.enter("vera", pages.Viewer).get(path, http.StatusOK),
			"1 customer exists in the billing service that belongs to no record yet",
			"No customer is created until matching is finished")
	}
	lacks(t, h.enter("vera", pages.Viewer).get("/matches", http.StatusOK), "/matches/finish")
	v := h.enter("olga", pages.Operator)
	plan := must(h.ledger.WaitingPlans(t.Context()))(t)[0]
	page := v.get(fmt.Sprintf("/plans/%d", plan.ID), http.StatusOK)
	holds(t, page, "until matching is finished")
	holds(t, v.post(fmt.Sprintf("/plans/%d", plan.ID), http.StatusConflict, "do", "all", "reads",
		fields(page, "reads")[0]), "New customers wait")

	holds(t, v.get("/matches", http.StatusOK), "/matches/finish")
	v.post("/matches/finish", http.StatusUnprocessableEntity, "connection", sample)
	v.post("/matches/finish", http.StatusNotFound, "connection", "nobody", "reason", "compared")
	holds(t, v.post("/matches/finish", http.StatusOK, "connection", sample, "reason", "compared"),
		"Matching of quickstart is finished")
	lacks(t, v.get("/matches", http.StatusOK), "until matching is finished")
	holds(t, v.get(fmt.Sprintf("/plans/%d", plan.ID), http.StatusOK), "The next run decides on the new customers")
}

// A record may look like a customer and be held for another reason: the page lists whom payers match lists.
func TestThePageListsTheRecordsThatTheCommandLists(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.books([]byte(header + "M000,Tideswell Bakery Ltd,Ann,accounts@tideswell.example,,4 Harbour Street,Whitby,YO21 3CK,,,,Active,\n"))
	h.run(true)
	u := must(h.syncer.UnlinkOf(t.Context(), must(h.ledger.Payer(t.Context(), sample, "M000"))(t), 0))(t)
	if err := h.syncer.SayUnlink(t.Context(), u, syncer.Operator{Name: "olga", Reason: "another bakery"}); err != nil {
		t.Fatal(err)
	}
	h.run(true)
	h.there("Tideswell Bakery Limited", "accounts@tideswell.example")
	h.books([]byte(header + "M000,Tideswell Bakery Ltd,Ann,accounts@tideswell.example,,4 Harbour Street,Whitby,YO21 3CK,,,,Active,\n" +
		"M001,Ashcombe Cakes Ltd,Ann,office@ashcombe.example,,1 Quay,Hull,HU1 1AA,,,,Active,\nM002,Ashcombe Cakes Ltd,Ann,office@ashcombe.example,,1 Quay,Hull,HU1 1AA,,,,Active,\n"))
	h.there("Ashcombe Cakes Ltd", "office@ashcombe.example")
	must(h.syncer.Reconciler.Sweep(t.Context()))(t)
	h.run(true)
	told := map[string]string{}
	for _, r := range must(h.ledger.Attention(t.Context(), state.Filter{}))(t) {
		told[r.SourceID] = r.Reason
	}
	if told["M000"] != string(connector.ReasonUnlinked) {
		t.Fatalf("the records are told as %v", told)
	}
	var command, page []string
	for _, s := range must(h.syncer.Match(t.Context(), h.conn))(t) {
		if len(s.Free()) > 0 {
			command = append(command, s.Record)
		}
	}
	for _, l := range must(h.matcher.Now(t.Context()))(t).Rows {
		page = append(page, l.SourceID)
	}
	slices.Sort(command)
	slices.Sort(page)
	if n := must(h.ledger.MatchCount(t.Context(), sample))(t); !slices.Equal(command, page) || len(command) != 3 ||
		n != 3 {
		t.Errorf("the command lists %v, the page %v, and %d are counted; want all three", command, page, n)
	}
	holds(t, h.enter("vera", pages.Viewer).get("/matches", http.StatusOK), "Tideswell Bakery Ltd")
}
