package pages_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/pages"
	"payersync/connector/syncer"
	"payersync/state"
)

// movedBooks makes an installation whose sample books were read as old-csv, and are read under other
// numbers as the configured connection.
func (h *house) movedBooks() {
	h.t.Helper()
	text := must(fs.ReadFile(configs.FS, "quickstart/customers.csv"))(h.t)
	h.conn.Name = "old-csv"
	h.run(true)
	h.books(bytes.ReplaceAll(text, []byte("HB0"), []byte("NB0")))
	must(h.syncer.Run(h.t.Context(), h.conn,
		syncer.RunOptions{Kind: connector.RunPlan, Trigger: "manual", Actor: "tester", Holder: "test"}))(h.t)
}

// movePairs returns the form that accepts so many of the pairs HB… = NB….
func movePairs(ids ...string) (form []string) {
	for _, id := range ids {
		form = append(form, "id", "HB"+id+"\x1fNB"+id)
	}
	return append(form, "old", "old-csv", "new", sample)
}

// covers F231
func TestBooksAreMovedOnThePages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.movedBooks()
	customers := len(h.box.Customers())
	v := h.enter("olga", pages.Operator)
	holds(t, v.get("/matches", http.StatusOK), `href="/connections/move"`)
	holds(t, v.get("/connections/move", http.StatusOK), "<option>old-csv</option>", "Compare")
	const path = "/connections/move?old=old-csv&new=" + sample
	page := v.get(path, http.StatusOK)
	holds(t, page, "Certain matches", "Matches to check", "The Proving Drawer", ">HB002<", ">NB002<",
		"asks whether old-csv is to be closed", `<td data-label="Mandate">`, "HB020")
	const at = "/connections/move"
	all := movePairs("002", "003")
	holds(t, v.post(at, http.StatusUnprocessableEntity, append(all, "act", "certain", "count", "2")...),
		"A reason is missing")
	holds(t, v.post(at, http.StatusUnprocessableEntity,
		append(all, "act", "certain", "count", "3", "reason", "Xero since May")...), "not the number of selected matches: 2")
	accept := append(all, "act", "certain", "count", "2", "reason", "Xero since May")
	for _, form := range [][]string{accept, append(movePairs("020"), "act", "pair")} {
		page = v.post(at, http.StatusOK, form...)
		holds(t, page, "<h1>Close <bdi>old-csv</bdi>?</h1>", "Undecided so far: 3", "payers of old-csv, 3",
			"records of "+sample)
		if moved, err := h.ledger.MovedTo(t.Context(), "old-csv"); err != nil || moved != nil {
			t.Fatalf("it is closed without a yes: %+v, %v", moved, err)
		}
	}
	page = v.post(at, http.StatusOK, append(accept, "close", "yes")...)
	holds(t, page, "2 pairs accepted. Nothing was sent yet", "old-csv</bdi> is closed", "with the next run",
		"Take the move back")
	if got := h.logged(1); !strings.HasPrefix(got, "olga move customer old-csv/HB003 quickstart/NB003") ||
		!strings.HasSuffix(got, ": Xero since May") {
		t.Errorf("the audit log says %q", got)
	}
	holds(t, v.post(at, http.StatusConflict, append(all, "act", "pair")...), "changed since the page was made")
	holds(t, v.post(at, http.StatusOK, append(movePairs("020"), "act", "pair")...), "1 pair accepted")
	holds(t, v.post(at, http.StatusOK, append(movePairs("003"), "act", "back")...), "1 pair taken back")
	holds(t, v.post(at, http.StatusOK, append(movePairs("004"), "act", "not")...), "Rejected")

	var rest []string
	for i := range 40 {
		if id := fmt.Sprintf("%03d", i+1); strings.Contains(v.get(path, http.StatusOK), "Accept NB"+id+"<") {
			rest = append(rest, id)
		}
	}
	page = v.post(at, http.StatusOK,
		append(movePairs(rest...), "act", "certain", "count", fmt.Sprint(len(rest)), "reason", "the rest")...)
	holds(t, page, connector.Plural(len(rest), "pair")+" accepted.")
	h.run(true)
	if n := len(h.box.Customers()); n != customers+1 { // the one that was kept apart is a payer of its own
		t.Errorf("there are %d customers, and were %d", n, customers)
	}
	holds(t, v.get(path, http.StatusOK), "written")
	holds(t, v.post(at, http.StatusUnprocessableEntity, "act", "undo", "old", "old-csv", "new", sample),
		"A reason is missing")
	holds(t, v.post(at, http.StatusOK, "act", "undo", "old", "old-csv", "new", sample, "reason", "too early"),
		"old-csv is open again")
	if moved, err := h.ledger.MovedTo(t.Context(), "old-csv"); err != nil || moved != nil {
		t.Errorf("it is still moved: %+v, %v", moved, err)
	}
}

func TestAMoveThatCannotBeMadeSaysWhy(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("olga", pages.Operator)
	holds(t, v.get("/connections/move?old=nobody&new="+sample, http.StatusConflict),
		"Choose an old connection that has run before")
	h.movedBooks()
	if err := h.ledger.Do(t.Context(), func(tx *state.Tx) error {
		_, err := tx.DecideConnections(state.ConnectionDecision{Old: "old-csv", New: sample, Decision: state.BooksSeparate,
			Actor: "ann", Reason: "two shops"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	holds(t, v.post("/connections/move", http.StatusConflict, append(movePairs("002"), "act", "pair", "close", "yes")...),
		"Another decision about these connections stands")
}
