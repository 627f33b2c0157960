package pages_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/pages"
	"payersync/mapping"
	"payersync/state"
)

func TestAPayerIsLeftOutTakenUpAndWrittenToNoMore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	v := h.enter("otto", pages.Operator)
	const at = "/payers/quickstart/HB001"
	before := h.box.Writes()
	holds(t, v.get(at+"/hold", http.StatusOK), "payersync sends nothing for this payer any more",
		"Reason, for the audit log")
	v.post(at+"/hold", http.StatusUnprocessableEntity)
	holds(t, v.post(at+"/hold", http.StatusConflict, "reason", "cash", "mandate", "another"),
		"It changed while you were reading")
	holds(t, v.post(at+"/hold", http.StatusOK, "reason", "pays in cash"), "The payer is given up", "Undo giving up…",
		"Given up: a person decided that payersync sends nothing")
	if log := h.logged(1); !strings.HasPrefix(log, "otto give record up HB001: pays in cash") {
		t.Errorf("the audit log says %q", log)
	}
	v.get(at+"/hold", http.StatusConflict)
	holds(t, v.post(at+"/release", http.StatusOK, "reason", "pays by debit after all"), "no longer given up")
	h.run(true)
	holds(t, v.get(at+"/stop", http.StatusOK), "payersync sends no letter to this payer", "it may stay blank")
	holds(t, v.post(at+"/stop", http.StatusOK, "reason", "asked on the telephone"),
		"Reminders are stopped: a person stopped them", "Allow reminders again…")
	holds(t, v.post(at+"/resume", http.StatusOK), "payersync sends letters to this payer again", "Stop reminders…")
	if log := h.logged(2); !strings.Contains(log, "otto stop letters quickstart/HB001: asked on the telephone") ||
		!strings.Contains(log, "otto let letters go again quickstart/HB001") {
		t.Errorf("the audit log says %q", log)
	}
	v.get(at+"/reinstate", http.StatusConflict)
	v.get(at+"/nonsense", http.StatusNotFound)
	if h.box.Writes() != before {
		t.Error("a word that sends nothing has sent something")
	}
}

func TestAnUpdateIsPutBackAfterItWasShownWhatThatWouldDo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	text := string(must(fs.ReadFile(configs.FS, "quickstart/customers.csv"))(t))
	h.books([]byte(strings.Replace(text, "Crumb & Crust Bakery Ltd", "Crumb and Crust Bakery Ltd", 1)))
	h.run(true)
	v := h.enter("otto", pages.Operator)
	const at = "/payers/quickstart/HB001"
	holds(t, v.get(at, http.StatusOK), "Crumb and Crust Bakery Ltd", "Put back before our last update…",
		"Updated in the billing service")
	page := v.get(at+"/undo", http.StatusOK)
	holds(t, page, "What the billing service has now, and would have", "Crumb and Crust Bakery Ltd",
		"Crumb &amp; Crust Bakery Ltd", "Nothing is sent now")
	_, rest, _ := strings.Cut(page, `name="change" value="`)
	change, _, _ := strings.Cut(rest, `"`)
	v.post(at+"/undo", http.StatusUnprocessableEntity, "change", change)
	v.post(at+"/undo", http.StatusConflict, "reason", "a slip")
	holds(t, v.post(at+"/undo", http.StatusOK, "change", change, "reason", "a slip"),
		"Saved. The next run puts the customer back")
	if log := h.logged(1); !strings.HasPrefix(log, "otto ") || !strings.Contains(log, "a slip") {
		t.Errorf("the audit log says %q", log)
	}
}

func TestWhoLeftTheBooksWithAMandateIsToldAtTheTop(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	text := string(must(fs.ReadFile(configs.FS, "quickstart/customers.csv"))(t))
	lines := strings.SplitAfter(text, "\n")
	h.books([]byte(lines[0] + strings.Replace(lines[1], ",Active,", ",Closed,", 1) + strings.Join(lines[2:], "")))
	h.run(true)
	v := h.enter("otto", pages.Operator)
	const at = "/payers/quickstart/HB001"
	h.recount()
	for path, says := range map[string]string{"/": "1 can still sign",
		"/mandates/report": "1 removed payer: 1 can still sign.", at: "can still sign."} {
		page := v.get(path, http.StatusOK)
		holds(t, page, says)
		lacks(t, page, "can still be debited", "mandate still active")
	}
	holds(t, v.get(at, http.StatusOK), `class="error lead"`, "Removed from the accounting system on",
		`class="button danger primary" href="`+at+`/cancel"`)
	row := must(h.ledger.Records(t.Context(),
		state.RecordFilter{Among: []state.RecordID{{Connection: sample, SourceID: "HB001"}}}))(t)[0]
	h.do(func(tx *state.Tx) error {
		_, err := tx.SaveMandate(connector.Mandate{ID: *row.MandateID, CustomerID: *row.BillingID,
			Status: connector.MandateActive}, connector.CauseSweep, "1")
		return err
	})
	h.recount()
	for path, says := range map[string]string{"/": "1 mandate still active", at: "; mandate still active.</strong>"} {
		page := v.get(path, http.StatusOK)
		holds(t, page, says)
		lacks(t, page, "can still sign.</strong>", "1 can still sign")
	}
	page := v.post(at+"/close", http.StatusOK, "reason", "pays until March")
	holds(t, page, "It stays as it is. Nothing was sent.")
	lacks(t, page, `class="error lead"`)
}

func TestARawRecordIsForAdminsAndInTheAuditLogFirst(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	const at = "/payers/quickstart/HB001"
	operator, admin := h.enter("otto", pages.Operator), h.enter("ada", pages.Admin)
	page := operator.get(at, http.StatusOK)
	holds(t, page, "trim(Name)", "The record", "4 Harbour Street")
	lacks(t, page, "as it was read")
	operator.post(at+"/raw", http.StatusForbidden)
	holds(t, admin.get(at, http.StatusOK), "Show the record as it was read")
	holds(t, admin.post(at+"/raw", http.StatusOK), "&#34;Name&#34;", "Crumb &amp; Crust")
	if log := h.logged(1); log != "ada show raw record quickstart/HB001" &&
		!strings.HasPrefix(log, "ada show raw record quickstart/HB001") {
		t.Errorf("the audit log says %q", log)
	}
	admin.post("/payers/quickstart/none/raw", http.StatusNotFound)
	page = h.enter("vera", pages.Viewer).get(at, http.StatusOK)
	lacks(t, page, "trim(Name)", "Fields of the record", "Give up", "Try again", "Cancel the mandate", "/link",
		"4 Harbour Street", "Maureen")
}

// hostile are books with names and ids that somebody may have made to do harm.
func hostile() (books []byte, ids []string) {
	ids = []string{"A/1", "A|2", "A 3", "A%2F4", "A?5#x", "<b>6", "a//7", "ü&8", "=1+1", ".", "..", "~9", "a/../b", "10"}
	names := []string{"<script>alert(1)</script>", "\u202egnik", strings.Repeat("W", 255), "=1+1", "🧁 cakes", "'; DROP",
		"</title>", "javascript:x", "@SUM(A1)", "-2+3", "Do\x1b[2Jts\u200f", "+cmd", "Up", "Plain"}
	text := header
	for i, id := range ids {
		text += `"` + id + `","` + names[i] + `",Jo,jo` + string(rune('a'+i)) + `@x.example,,` + string(rune('1'+i%9)) +
			` Road,Leeds,LS1 1AA,,,,Active,` + "\n"
	}
	return []byte(text), ids
}

func TestHostileNamesAndIdsAreShownAsTheyAreAndExportedHarmless(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	books, ids := hostile()
	h.books(books)
	h.run(true)
	v := h.enter("ada", pages.Admin)
	page := v.get("/payers", http.StatusOK)
	lacks(t, page, "<script>alert", "<b>6", "</title>W")
	seen := map[string]bool{}
	for _, part := range strings.Split(page, `<th scope="row"><a class="name" href="`)[1:] {
		at, _, _ := strings.Cut(part, `"`)
		at = html.UnescapeString(at)
		seen[at] = true
		page := v.get(at, http.StatusOK)
		lacks(t, page, "<script>alert", "<b>6")
		v.post(at+"/raw", http.StatusOK)
		v.post(at+"/hold", http.StatusOK, "reason", "a test")
		holds(t, v.post(at+"/release", http.StatusOK, "reason", "no test"), "no longer given up")
	}
	if len(seen) != len(ids) {
		t.Errorf("%d of %d have a page of their own: %v", len(seen), len(ids), seen)
	}
	rows := must(csv.NewReader(strings.NewReader(strings.TrimPrefix(v.post("/payers/export", http.StatusOK),
		"\ufeff"))).ReadAll())(t)
	if len(rows) != len(ids)+1 {
		t.Errorf("the export has %d rows", len(rows))
	}
	for _, row := range rows {
		for _, cell := range row {
			if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@") {
				t.Errorf("a spreadsheet would compute %q", cell)
			}
			if strings.ContainsFunc(cell, func(r rune) bool { return connector.Harmless(r) != r }) {
				t.Errorf("a terminal would obey %q", cell)
			}
		}
	}
	var plain []map[string]string
	if err := json.Unmarshal([]byte(v.post("/payers/export", http.StatusOK, "format", "json")), &plain); err != nil ||
		len(plain) != len(ids) {
		t.Errorf("the JSON has %d rows, %v", len(plain), err)
	}
}

func TestTheListIsNarrowedAndTakenAwayAsItIs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	v := h.enter("otto", pages.Operator)
	page := v.get("/payers", http.StatusOK)
	lacks(t, page, `id="connection"`)
	for query, want := range map[string][]string{
		"mandate=CREATED": {`<option value="CREATED" selected>`, "HB001"}, "service=none": {"Excluded"},
		"person=any": {"Needs attention"}, "person=email_malformed": {"email_malformed"}, "service=linked&days=3": nil,
	} {
		page := v.get("/payers?"+query, http.StatusOK)
		holds(t, page, want...)
		file := v.post("/payers/export?"+query, http.StatusOK)
		if shown, written := strings.Count(page, `<th scope="row"`), strings.Count(file, "\n")-1; shown != written {
			t.Errorf("%s: %d are shown and %d exported", query, shown, written)
		}
		if log := h.logged(1); !strings.HasPrefix(log, "otto export payers ") ||
			!strings.HasSuffix(log, ": "+firstOf(query)) {
			t.Errorf("%s: the audit log says %q", query, log)
		}
	}
	lacks(t, v.get("/payers?person=any", http.StatusOK), "<bdi>HB001</bdi>")
	page = v.post("/payers", http.StatusOK, "text", "crust")
	_, rest, _ := strings.Cut(page, `action="/payers/export?s=`)
	id, _, _ := strings.Cut(rest, `"`)
	if file := v.post("/payers/export?s="+url.QueryEscape(id), http.StatusOK); strings.Count(file, "\n") != 2 {
		t.Errorf("the export of a search is %q", file)
	}
	if log := h.logged(1); !strings.HasSuffix(log, "1 record: search") {
		t.Errorf("the audit log says %q", log)
	}
	v.post("/payers/export?s=00000000", http.StatusGone)
	viewer := h.enter("vera", pages.Viewer)
	lacks(t, viewer.get("/payers", http.StatusOK), "Export")
	viewer.post("/payers/export", http.StatusForbidden)
	n := must(h.ledger.CountRecords(context.Background(), state.RecordFilter{Told: true}))(t)
	if shown := strings.Count(v.get("/payers?person=any", http.StatusOK), `<th scope="row"`); shown != n {
		t.Errorf("%d of %d who need a person are shown", shown, n)
	}
}

// firstOf returns the codes of a query as the audit log has them.
func firstOf(query string) string { return strings.ReplaceAll(query, "&", " ") }

// The page shows what the service holds, and not what was sent to it.
func TestAPayersPageShowsWhatTheServiceWasLastReadToHold(t *testing.T) {
	t.Parallel()
	const at = "/payers/quickstart/HB001"
	h := newHouse(t)
	text := string(must(fs.ReadFile(configs.FS, "quickstart/mapping.yaml"))(t))
	h.conn.Mapping = must(mapping.Load("mapping.yaml",
		[]byte(strings.ReplaceAll(text, `city: trim(City), `, `city: trim(City), country: "GB", `)), h.conn.Info))(t)
	h.run(true)
	h.run(true)
	olaf := h.enter("olaf", pages.Operator)
	page := olaf.get(at, http.StatusOK)
	holds(t, page, "last read ",
		`data-label="Service"><bdi>–</bdi></td><td data-label="Accounting system"><bdi>GB</bdi></td>`,
		"On hold: the billing service has no field for it")
	lacks(t, page, "We sent")
	c := h.box.Customers()[0]
	edited := bytes.ReplaceAll(c.Raw, []byte("01632 960101"), []byte("01632 960199"))
	if bytes.Equal(edited, c.Raw) {
		t.Fatalf("the first customer is %s", c.Raw)
	}
	if err := h.box.Edit(c.ID, edited); err != nil {
		t.Fatal(err)
	}
	if _, err := h.reader.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	page = olaf.get(at, http.StatusOK)
	holds(t, page, `data-label="Service"><bdi>01632 960199</bdi></td>`, "We sent 01632 960101")
	lacks(t, h.enter("vera", pages.Viewer).get(at, http.StatusOK), "960199", "960101")
}
