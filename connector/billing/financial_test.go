package billing_test

import (
	"net/http"
	"strings"
	"testing"

	"payersync/connector/billing"
	"payersync/connector/sandbox"
)

func TestAFinancialStatusIsAWordAtItsPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ path, answer, want string }{
		{"", `{"id":"c1","financialStatus":"OVERDUE"}`, ""},
		{"financialStatus", `{"id":"c1","financialStatus":"OVERDUE"}`, "OVERDUE"},
		{"financialDetails.financialStatus", `{"id":"c1","financialDetails":{"financialStatus":"fully-paid"}}`, "fully-paid"},
		{"financialDetails.financialStatus", `{"id":"c1","financialDetails":{"balance":"1.00"}}`, ""},
		{"financialDetails.financialStatus", `{"id":"c1","financialDetails":[1]}`, ""},
		{"financialDetails.balance", `{"id":"c1","financialDetails":{"balance":"12.50"}}`, ""},
		{"financialDetails.account", `{"id":"c1","financialDetails":{"account":"GB33BUKB20201555555555"}}`, ""},
		{"financialDetails.note", `{"id":"c1","financialDetails":{"note":"Jane owes us"}}`, ""},
		{"financialStatus", `{"id":"c1","financialStatus":null}`, ""},
	} {
		cfg := config(answers(http.StatusOK, "application/json", tt.answer))
		cfg.Dialect.FinancialStatus = tt.path
		if cfg.Dialect.FinancialQuery = ""; tt.path != "" {
			cfg.Dialect.ReadOnly = append(cfg.Dialect.ReadOnly, strings.Split(tt.path, ".")[0])
		}
		got, err := newClient(t, cfg).Customer(t.Context(), "c1")
		if err != nil || got.Financial != tt.want || string(got.Raw) != tt.answer {
			t.Errorf("%s in %s: %q, %v; raw %s", tt.path, tt.answer, got.Financial, err, got.Raw)
		}
	}
}

func TestAPathOfTheFinancialStatusIsChecked(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"a..b": "is no path", ".a": "is no path", "a b": "is no path",
		"name": "holds something else", "people.name": "holds something else",
		"directDebitMandate.status": "holds something else",
		"financialStatus":           "", "details.status": "", "": "",
	} {
		d := billing.Standard()
		d.FinancialStatus = path
		if err := d.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	d := billing.Standard()
	d.FinancialStatus, d.FinancialQuery = "details.status", ""
	if err := d.Validate(); err == nil || !strings.Contains(err.Error(), "dialect.read_only") {
		t.Errorf("one that comes unasked and would be sent back: %v", err)
	}
	d.ReadOnly = append(d.ReadOnly, "details")
	d.List.FinancialQuery = "Page"
	if err := d.Validate(); err == nil || !strings.Contains(err.Error(), "another parameter") ||
		strings.Contains(err.Error(), "read_only") {
		t.Errorf("a parameter that is taken: %v", err)
	}
}

// Reads for updates do not request data beside a customer, so it is not sent back.
func TestOnlyThoseWhoLookAskForTheFinancialStatus(t *testing.T) {
	t.Parallel()
	dialect := billing.Standard()
	dialect.FinancialStatus, dialect.List.FinancialQuery = "financialDetails.financialStatus",
		"includeCustomerFinancialDetails"
	box, client := newSandbox(t, sandbox.Switches{}, dialect)
	made, err := client.CreateCustomer(t.Context(), []byte(`{"name":"A"}`))
	if err != nil || box.SetFinancialStatus(made.ID, "OVERDUE") != nil {
		t.Fatal(err)
	}
	writes, errWrites := client.Customer(t.Context(), made.ID)
	looks, errLooks := billing.Watcher{Client: client}.Customer(t.Context(), made.ID)
	for _, err := range client.Customers(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if errWrites != nil || errLooks != nil || writes.Financial != "" || looks.Financial != "OVERDUE" ||
		strings.Contains(string(writes.Raw), "financial") {
		t.Errorf("who writes sees %q in %s, %v; who looks %q, %v", writes.Financial, writes.Raw, errWrites, looks.Financial,
			errLooks)
	}
	listed := 0
	for _, c := range box.Requests() {
		if c.Method == http.MethodGet && c.Path == "/api/customers" &&
			strings.Contains(c.RawQuery, "includeCustomerFinancialDetails=true") {
			listed++
		}
	}
	if listed == 0 {
		t.Error("the list was not asked")
	}

	dialect.FinancialStatus = ""
	box, client = newSandbox(t, sandbox.Switches{}, dialect)
	_, err = billing.Watcher{Client: client}.Customer(t.Context(), "c1")
	for _, c := range box.Requests() {
		if strings.Contains(c.RawQuery, "inancial") {
			t.Errorf("nobody wants it, and it is asked for: %s, %v", c.RawQuery, err)
		}
	}
}
