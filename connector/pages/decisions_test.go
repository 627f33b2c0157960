package pages_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/pages"
	"payersync/state"
)

// renumber makes books in which HB001 became HB901, after its mandate was signed.
func (h *house) renumber() {
	h.t.Helper()
	h.run(true)
	h.sign("HB001")
	h.books(sampleBooks(h.t, "HB001,", "HB901,"))
	h.run(true)
	h.recount()
}

// sign makes the mandate of a payer active, as the payer and the bank do.
func (h *house) sign(id string) {
	h.t.Helper()
	p := must(h.ledger.Payer(h.t.Context(), sample, id))(h.t)
	if err := h.box.SetStatus(p.MandateID, connector.MandateActive); err != nil {
		h.t.Fatal(err)
	}
	h.do(func(tx *state.Tx) error {
		_, err := tx.SaveMandate(connector.Mandate{ID: p.MandateID, CustomerID: p.BillingID, Status: connector.MandateActive},
			connector.CauseSweep, "1")
		return err
	})
}

// hidden returns a hidden field of a form.
func hidden(t testing.TB, page, name string) string {
	t.Helper()
	found := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no field %s:\n%s", name, page)
	}
	return found[1]
}

const (
	oldRecord, newRecord = "/payers/quickstart/HB001", "/payers/quickstart/HB901"
	takeOver             = newRecord + "/take-over?other=quickstart%2FHB001"
)

// covers F260
func TestARenumberedPayerIsOneTaskWithBothRecordsSideBySide(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.renumber()
	v := h.enter("olga", pages.Operator)
	h.recount()
	page := v.get("/", http.StatusOK)
	holds(t, page, `<span class="many">1</span><div><strong><a href="/todo/renumbered">May be a removed payer under a new number</a>`)
	lacks(t, page, "/todo/left_with_mandate")
	page = v.get("/todo/left_with_mandate", http.StatusOK)
	holds(t, page, "1 more payer may be in the accounting system under a new number.", `href="/todo/renumbered"`)
	if len(ticked(page)) > 0 {
		t.Errorf("the old record is a task of its own:\n%s", page)
	}
	for _, path := range []string{"/todo/renumbered", oldRecord, newRecord} {
		page := v.get(path, http.StatusOK)
		holds(t, page, "Removed from the accounting system", "In the accounting system", "<bdi>HB001</bdi>",
			"<bdi>HB901</bdi>", "Crumb &amp; Crust Bakery Ltd", "accounts@crumbandcrust.example", "Active",
			`class="button primary" href="`+takeOver+`"`, "Two different payers…", "Removed for good…")
		if i, j := strings.Index(page, takeOver), strings.Index(page, oldRecord+"/cancel"); j >= 0 && j < i {
			t.Errorf("%s offers to cancel the mandate first:\n%s", path, page)
		}
		lacks(t, page, "danger primary", "payersync payers moved RECORD", "Keep the mandate, or cancel it?")
	}
	holds(t, v.get(oldRecord+"/cancel", http.StatusOK),
		"The record HB901 Crumb &amp; Crust Bakery Ltd may be this payer under a new number.", takeOver)
	page = h.enter("vera", pages.Viewer).get(newRecord, http.StatusOK)
	holds(t, page, "Removed from the accounting system", "<bdi>HB001</bdi>")
	lacks(t, page, "data-act", "accounts@crumbandcrust.example")
}

func TestARenumberedPayerKeepsItsCustomerAndMandate(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.renumber()
	before := must(h.ledger.Payer(t.Context(), sample, "HB001"))(t)
	writes := h.box.Writes()
	v := h.enter("olga", pages.Operator)
	page := v.get(takeOver, http.StatusOK)
	holds(t, page, "so the payer does not sign again", "Its mandate stays with it", "HB001", "HB901",
		"Reason, for the audit log")
	form := []string{"other", "quickstart/HB001", "reason", "new numbers since March"}
	v.post(newRecord+"/take-over", http.StatusConflict, form...) // nobody was shown what it does
	holds(t, v.post(newRecord+"/take-over", http.StatusConflict, append([]string{"seen", "0"}, form...)...),
		"It changed while you were reading")
	v.post(newRecord+"/take-over", http.StatusUnprocessableEntity, "other", "quickstart/HB001", "seen",
		hidden(t, page, "seen"))
	v.get(newRecord+"/take-over?other=quickstart%2FHB002", http.StatusConflict)
	h.enter("vera", pages.Viewer).post(newRecord+"/take-over", http.StatusForbidden, form...)
	holds(t, v.post(newRecord+"/take-over", http.StatusOK, append([]string{"seen", hidden(t, page, "seen")}, form...)...),
		"Saved. The next run sends it. Nothing was sent yet.")
	if log := h.logged(1); !strings.Contains(log, "olga move customer HB001 HB901") ||
		!strings.Contains(log, "new numbers since March") {
		t.Errorf("the audit log says %q", log)
	}
	if n := h.box.Writes() - writes; n != 0 {
		t.Errorf("the page sent %d requests", n)
	}
	h.run(true)
	after := must(h.ledger.Payer(t.Context(), sample, "HB901"))(t)
	if after.BillingID != before.BillingID || after.MandateID != before.MandateID {
		t.Errorf("HB901 has customer %s and mandate %s, want %s and %s", after.BillingID, after.MandateID, before.BillingID,
			before.MandateID)
	}
	h.recount()
	lacks(t, v.get("/", http.StatusOK), "/todo/renumbered", "/todo/left_with_mandate")
}

func TestTwoPayersThatLookLikeARenumberedOneAreToldApartAndThatIsTakenBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.renumber()
	v := h.enter("olga", pages.Operator)
	customer := must(h.ledger.Payer(t.Context(), sample, "HB001"))(t).BillingID
	reject := newRecord + "/reject"
	page := v.get(reject+"?customer="+customer, http.StatusOK)
	holds(t, v.post(reject, http.StatusOK, "customer", customer, "seen", hidden(t, page, "seen"), "reason",
		"another company"), "Saved.", "Take the decision back…")
	page = v.get(newRecord+"/take-back?customer="+customer, http.StatusOK)
	holds(t, v.post(newRecord+"/take-back", http.StatusOK, "customer", customer, "seen", hidden(t, page, "seen"), "reason",
		"the same after all"), "Nothing was sent.")
	holds(t, v.get("/todo/renumbered", http.StatusOK), takeOver)
	page = v.get(reject+"?customer="+customer, http.StatusOK)
	v.post(reject, http.StatusOK, "customer", customer, "seen", hidden(t, page, "seen"), "reason", "another company")
	h.run(true)
	h.recount()
	page = v.get("/", http.StatusOK)
	holds(t, page, "/todo/left_with_mandate")
	lacks(t, page, "/todo/renumbered")
	if p := must(h.ledger.Payer(t.Context(), sample, "HB901"))(t); p.BillingID == "" || p.BillingID == customer {
		t.Errorf("HB901 has customer %q", p.BillingID)
	}
}
