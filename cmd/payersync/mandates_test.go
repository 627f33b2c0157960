package main

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector/sandbox"
	"payersync/state"
)

// mandateStatus returns a record's mandate status as the ledger has it.
func (w *world) mandateStatus(sourceID string) string {
	w.t.Helper()
	for _, p := range decodeLines[state.PayerRow](w.t, w.expect(exitDone, "payers", "list", "--output", "json")) {
		if p.SourceID == sourceID {
			return show.Value(p.MandateStatus)
		}
	}
	w.t.Fatalf("the ledger has no payer %s", sourceID)
	return ""
}

// must fails the test when an act of the sandbox's people did not work.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// audited reports whether the unsealed audit log contains this text.
func (w *world) audited(text string) bool { return strings.Contains(string(w.ledgerBytes()), text) }

func TestASigningLinkIsShownOnlyOnDemandAndAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	link := w.mandateOf("A00001").URL
	for _, args := range [][]string{
		{"mandates", "list"}, {"mandates", "list", "--output", "json"}, {"mandates", "list", "--export"},
		{"payers", "show", "A00001"},
		{"payers", "show", "A00001", "--output", "json"}, {"status"}, {"sweep"},
	} {
		if r := w.expect(exitDone, args...); strings.Contains(r.out+r.errOut, "/sign/") {
			t.Errorf("%s shows a signing link:\n%s%s", args, r.out, r.errOut)
		}
	}
	if w.audited("show signing links") {
		t.Error("the audit log has somebody look before anybody did")
	}
	for _, args := range [][]string{
		{"mandates", "list", "--links"}, {"mandates", "list", "--links", "--output", "json"},
		{"mandates", "list", "--export", "--links"},
	} {
		if r := w.expect(exitDone, args...); !strings.Contains(r.out, link) {
			t.Errorf("%s does not show %s:\n%s", args, link, r.out)
		}
	}
	if !w.audited("show signing links") {
		t.Error("the audit log does not have who looked at the links")
	}
}

// covers F94, S15
func TestWhyABankCancelledIsShownOnDemandOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2), func(o *sandbox.Options) { o.Switches.FailureReason = "summary" })
	w.expect(exitDone, "sync")
	m := w.mandateOf("A00001")
	w.must(w.box.BankCancel(m.ID, canaryReason))
	said := []result{w.expect(exitDone, "sweep", "--verbose")}
	for _, args := range [][]string{
		{"status"}, {"status", "--output", "json"}, {"payers", "show", "A00001", "--show-values"},
		{"payers", "show", "A00001", "--output", "json"},
		{"mandates", "list", "--output", "json"}, {"mandates", "list", "--export"}, {"attention", "list"},
		{"mandates", "show", m.ID}, {"mandates", "show", m.ID, "--output", "json"},
	} {
		said = append(said, w.expect(exitDone, args...))
	}
	for _, r := range said {
		if strings.Contains(r.out+r.errOut, canaryReason) {
			t.Errorf("unasked for it prints the reason:\n%s%s", r.out, r.errOut)
		}
	}
	if strings.Contains(string(w.ledgerBytes()), canaryReason) || w.audited("show failure reason") {
		t.Error("the ledger holds the reason in the clear, or has somebody look before anybody did")
	}
	if r := w.expect(exitDone, "mandates", "show", m.ID, "--for-support"); !strings.Contains(r.out, canaryReason) ||
		!w.audited("show failure reason") {
		t.Errorf("asked for, it prints the following, audited %t:\n%s", w.audited("show failure reason"), r.out)
	}
	if r := w.expect(exitDone, "mandates", "show", w.mandateOf("A00002").ID, "--failure-reason"); !strings.Contains(r.out,
		"none was given") {
		t.Errorf("of a mandate without one it says:\n%s", r.out)
	}
	if r := w.expect(exitDone, "mandates", "show", m.ID, "--for-support", "--output", "json"); !strings.Contains(r.out,
		`"status":"CANCELLED","code":"`+canaryReason) {
		t.Errorf("the reason is not beside the status that it came with:\n%s", r.out)
	}
	if r := w.expect(exitFailed, "mandates", "show", "m-unknown"); !strings.Contains(r.errOut,
		"payersync mandates list shows all") {
		t.Errorf("of an unknown mandate it says: %s", r.errOut)
	}
}

func TestAMandateIsCancelledOnlyWithAReasonAndAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	before := w.box.Writes()
	for _, refused := range []result{w.run("mandates", "cancel", "A00001"),
		w.run("mandates", "cancel", "A00001", "--reason", "")} {
		if refused.code != exitUsage || !strings.Contains(refused.errOut, "cancelling a mandate takes a reason") {
			t.Errorf("without a reason it ended with %d: %s", refused.code, refused.errOut)
		}
	}
	if n := w.box.Writes() - before; n != 0 {
		t.Errorf("%d writes without a reason", n)
	}
	w.expect(exitDone, "mandates", "cancel", "A00001", "--reason", "the payer moved away")
	if got := w.mandateOf("A00001").Status; got != "CANCELLED" {
		t.Errorf("the service has the mandate as %s", got)
	}
	if got := w.mandateStatus("A00001"); got != "CANCELLED" {
		t.Errorf("the ledger has the mandate as %s", got)
	}
	if !w.audited("cancel mandate") || !w.audited("the payer moved away") {
		t.Error("the audit log does not have who cancelled and why")
	}
	if other := w.mandateOf("A00002").Status; other != "CREATED" {
		t.Errorf("the other payer's mandate is %s", other)
	}
}

func TestAMandateIsReinstatedByAPersonWhereTheServiceDoesThat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2), func(o *sandbox.Options) { o.Switches.Reinstate = "colon" })
	w.expect(exitDone, "sync")
	reinstate := []string{"mandates", "reinstate", "A00001", "--reason", "the bank was wrong"}
	if got := w.run(reinstate...); got.code != exitUsage || !strings.Contains(got.errOut, "dialect.reinstate is none") {
		t.Errorf("without the setting it ended with %d: %s", got.code, got.errOut)
	}
	w.edit("payersync.yaml", "  profile: sandbox\n", "  profile: sandbox\n  dialect: {reinstate: colon}\n")
	before := w.box.Writes()
	if got := w.run(reinstate...); got.code != exitFailed || !strings.Contains(got.errOut, "not a cancelled one") {
		t.Errorf("while it waits for its signature it ended with %d: %s", got.code, got.errOut)
	}
	if got := w.run("mandates", "reinstate", "A00001"); got.code != exitUsage ||
		!strings.Contains(got.errOut, "takes a reason") {
		t.Errorf("without a reason it ended with %d: %s", got.code, got.errOut)
	}
	if n := w.box.Writes() - before; n != 0 || w.audited("reinstate mandate") {
		t.Errorf("%d writes for what was refused", n)
	}
	w.must(w.box.BankCancel(w.mandateOf("A00001").ID, "OTHER"))
	w.expect(exitDone, reinstate...)
	if there, here := w.mandateOf("A00001").Status, w.mandateStatus("A00001"); there != "ACTIVE" || here != "ACTIVE" {
		t.Errorf("the service has the mandate as %s, the ledger as %s", there, here)
	}
	if !w.audited("reinstate mandate") || !w.audited("the bank was wrong") {
		t.Error("the audit log does not have who reinstated and why")
	}
}

// A cancelled mandate is replaced only when a person says why: not by a sync,
// not by a changed record, not by a request without a reason.
func TestACancelledMandateIsReplacedOnlyByAPersonWithAReason(t *testing.T) {
	t.Parallel()
	rows := people(1)
	w := newWorld(t, rows)
	w.expect(exitDone, "sync")
	w.must(w.box.Sign(w.mandateOf("A00001").ID))
	w.must(w.box.BankCancel(w.mandateOf("A00001").ID, "ACCOUNT_CLOSED"))
	w.expect(exitDone, "sweep")
	rows[0].Phone = "01632 960555"
	w.export(rows...)
	w.run("sync")
	w.run("backfill", "--yes")
	if refused := w.expect(exitUsage, "mandates", "request", "A00001"); !strings.Contains(refused.errOut,
		"--reason 'changed bank'") {
		t.Errorf("a request without a reason says: %s", refused.errOut)
	}
	if got := w.mandateOf("A00001").Status; got != "CANCELLED" {
		t.Fatalf("the newest mandate is %s: somebody asked again", got)
	}

	asked := decode[map[string]string](t,
		w.expect(exitDone, "mandates", "request", "A00001", "--reason", "changed bank", "--output", "json"))
	fresh := w.mandateOf("A00001")
	if fresh.Status != "CREATED" || asked["mandate_id"] != fresh.ID || asked["link"] != fresh.URL ||
		asked["status"] != "CREATED" {
		t.Errorf("the service has %s %s, the command says %v", fresh.ID, fresh.Status, asked)
	}
	if got := w.mandateStatus("A00001"); got != "CREATED" {
		t.Errorf("the ledger has the mandate as %s", got)
	}
	if !w.audited("request signing link") || !w.audited("changed bank") {
		t.Error("the audit log does not have who asked and why")
	}
}

// covers F33
func TestStatusTellsWhenWebhooksStoppedWhileSweepsFindChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	for i, id := range []string{"A00001", "A00002"} {
		w.must(w.box.Sign(w.mandateOf(id).ID))
		w.expect(exitDone, "sweep")
		told := strings.Contains(w.expect(exitDone, "status").out,
			"No delivery has ever arrived, while 2 sweeps found 2 changes of mandates.")
		if told != (i == 1) {
			t.Errorf("after %d sweeps that found a change, status tells of silence: %t", i+1, told)
		}
	}
}

func TestASignedMandateIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	w.must(w.box.Sign(w.mandateOf("A00001").ID))
	w.expect(exitDone, "sweep")
	before := w.box.Writes()
	if refused := w.expect(exitFailed, "mandates", "request", "A00001"); !strings.Contains(refused.errOut,
		"the payer has signed a mandate already") {
		t.Errorf("it says: %s", refused.errOut)
	}
	if n := w.box.Writes() - before; n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if unknown := w.expect(exitFailed, "mandates", "request", "A9"); !strings.Contains(unknown.errOut,
		`no payer has "A9"`) {
		t.Errorf("an unknown payer says: %s", unknown.errOut)
	}
}

// covers F58, V2
func TestALostSigningLinkIsShownAndFetchedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Path: "/api/customers/*/directdebitmandates", Count: 1})
	w.run("sync")
	w.box.ClearFaults()
	var lost string
	for _, a := range decodeLines[state.AttentionRow](t, w.expect(exitDone, "attention", "list", "--output", "json")) {
		if a.Reason == "link_lost" {
			lost = a.SourceID
		}
	}
	if lost == "" {
		t.Fatal("the ledger does not say that a signing link was lost")
	}
	if r := w.expect(exitDone, "mandates", "request", lost); !strings.Contains(r.out, w.mandateOf(lost).URL) {
		t.Errorf("fetching the link again prints:\n%s", r.out)
	}
	if left := w.expect(exitDone, "attention", "list", "--output", "json").out; left != "" {
		t.Errorf("the link is there and still:\n%s", left)
	}
	for _, c := range w.box.Customers() {
		if len(c.Mandates) != 1 {
			t.Errorf("%s has %d mandates", c.Name, len(c.Mandates))
		}
	}
}

func TestTheMandateExportIsSafeInASpreadsheet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []row{{ID: "=1+1", Name: "Formula", Email: "formula@example.org"},
		{ID: "A,1", Name: "Comma", Email: "comma@example.org"}})
	w.expect(exitDone, "sync")
	records, err := csv.NewReader(strings.NewReader(w.expect(exitDone, "mandates", "list", "--export").out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, r := range records[1:] {
		found[r[3]] = true
	}
	if len(records) != 3 || !found["'=1+1"] || !found["A,1"] {
		t.Errorf("exported %q", records)
	}
}

func TestShowTellsAPayersWholeStory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []row{{ID: "A00001", Name: "Northwind", Email: "ada@northwind.example", Street: "1 High St"}})
	w.expect(exitDone, "sync")
	m := w.mandateOf("A00001")
	w.must(w.box.Sign(m.ID))
	w.must(w.box.BankCancel(m.ID, "ACCOUNT_CLOSED"))
	w.expect(exitDone, "sweep")
	for _, id := range []string{"A00001", m.CustomerID, m.ID} {
		told := w.expect(exitDone, "payers", "show", id, "--show-values").out
		for _, want := range []string{
			"acme, record A00001 (accountNumber=A00001): linked", "customer " + m.CustomerID, "name: Northwind",
			"people[0].email: ada@northwind.example",
			"awaiting signature (seen by link)", "cancelled (seen by sweep)",
			"! The payer, the bank or a colleague cancelled the mandate",
		} {
			if !strings.Contains(told, want) {
				t.Errorf("payers show %s does not say %q:\n%s", id, want, told)
			}
		}
		if strings.Contains(told, "ACCOUNT_CLOSED") {
			t.Errorf("payers show %s tells the bank's reason:\n%s", id, told)
		}
	}
	if unknown := w.expect(exitFailed, "payers", "show", "A9"); !strings.Contains(unknown.errOut,
		"payersync payers list --search finds parts of names") {
		t.Errorf("an unknown payer says: %s", unknown.errOut)
	}
}

// covers F33, S9
func TestASweepRepairsWhatNoWebhookTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(4))
	// older than a read may lag behind
	_, err := w.box.Add(json.RawMessage(`{"name":"Payer 4","externalData":{"accountNumber":"A00004"}}`))
	w.must(err)
	w.expect(exitDone, "sync")
	w.must(w.box.Sign(w.mandateOf("A00001").ID))
	w.must(w.box.Sign(w.mandateOf("A00002").ID))
	w.must(w.box.Approve(w.mandateOf("A00002").ID))
	w.must(w.box.SetStatus(w.mandateOf("A00003").ID, "PAUSED_BY_BANK"))
	w.must(w.box.Delete(w.mandateOf("A00004").CustomerID))

	swept := w.expect(exitAttention, "sweep")
	if want := "3 customers in the billing service: 3 mandate statuses repaired, 0 changed by others, 1 missing, 0 not listed, 0 with a doubled key, 0 payers with a second customer\n"; swept.out != want {
		t.Errorf("the sweep says %s", swept.out)
	}
	for id, want := range map[string]string{"A00001": "PENDING", "A00002": "ACTIVE", "A00003": "PAUSED_BY_BANK"} {
		if got := w.mandateStatus(id); got != want {
			t.Errorf("%s is %s in the ledger, want %s", id, got, want)
		}
	}
	reasons := decode[statusReport](t, w.expect(exitDone, "status", "--output", "json")).Attention
	if reasons["status_unknown"] != 1 || reasons["customer_missing"] != 1 {
		t.Errorf("needs attention: %v", reasons)
	}
	again := w.expect(exitDone, "sweep")
	if !strings.Contains(again.out, ": 0 mandate statuses repaired") {
		t.Errorf("a second sweep says %s", again.out)
	}
	w.run("sync")
	if n := len(w.box.Customers()); n != 3 {
		t.Errorf("%d customers: the missing one was made again by itself", n)
	}
}

// covers F53
func TestARefusedRecordIsTriedAgainOnRequest(t *testing.T) {
	t.Parallel()
	rows := people(3)
	w := newWorld(t, rows)
	w.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Method: http.MethodPost, Path: "/api/customers", Skip: 1,
		Count: 1, Status: http.StatusUnprocessableEntity})
	w.expect(exitAttention, "sync")
	refused := decodeLines[state.AttentionRow](t,
		w.expect(exitDone, "attention", "list", "--reason", "rejected", "--output", "json"))
	if len(refused) != 1 || !strings.Contains(refused[0].Detail, "HTTP 422") {
		t.Fatalf("needs attention: %+v", refused)
	}
	before := w.box.Writes()
	w.run("sync")
	if n := w.box.Writes() - before; n != 0 {
		t.Errorf("%d writes: a refused record was sent again although nothing changed", n)
	}
	w.expect(exitDone, "attention", "retry", refused[0].SourceID)
	w.expect(exitDone, "sync")
	w.expectOnePerRow(rows)
	if unknown := w.expect(exitFailed, "attention", "retry", "A9"); !strings.Contains(unknown.errOut,
		"no record has this source id") {
		t.Errorf("an unknown record says: %s", unknown.errOut)
	}
	if !w.audited("retry record") {
		t.Error("the audit log does not have who asked for another try")
	}
}

// An empty list looks like good news, so an impossible filter is refused.
func TestAMisspeltFilterIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"payers", "list", "--state", "helt"},
			"--state is one of new, creating, linked, missing, conflict, held, not \"helt\""},
		{[]string{"webhooks", "list", "--state", "quarantine"}, "--state is one of received, "},
		{[]string{"attention", "list", "--reason", "email"}, "--reason is one of address_bounced, "},
		{[]string{"payers", "list", "--connection", "acne"}, `there is no connection "acne"; the configuration has acme`},
		{[]string{"mandates", "list", "--connection", "acne"}, `there is no connection "acne"`},
		{[]string{"mandates", "list", "--export", "--connection", "acne"}, `there is no connection "acne"`},
		{[]string{"attention", "list", "--connection", "acne"}, `there is no connection "acne"`},
	} {
		if r := w.expect(exitUsage, tt.args...); !strings.Contains(r.errOut, tt.want) || r.out != "" {
			t.Errorf("%v says %q%q, want %q", tt.args, r.out, r.errOut, tt.want)
		}
	}
	w.expect(exitDone, "payers", "list", "--state", "linked", "--connection", "acme")
	if r := w.expect(exitDone, "mandates", "list", "--state", "created"); !strings.Contains(r.out, "A00001") {
		t.Errorf("a status in small letters finds %q", r.out)
	}
	if r := w.expect(exitDone, "mandates", "list", "--state", "CANCELLED"); r.out != "" ||
		!strings.Contains(r.errOut, "nothing to list") {
		t.Errorf("an empty list prints %q and says %q", r.out, r.errOut)
	}
}

// A customer that carries a record's key and looks like somebody else is left alone until a
// person says that it is the record's.
//
// covers F117
func TestADisputedCustomerIsAdoptedOnAPersonsWordAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	theirs, err := w.box.Add(json.RawMessage(`{"name":"Totally Different Ltd","people":[{"email":"hello@different.example"}],"externalData":{"accountNumber":"A00001"}}`))
	w.must(err)
	linkedTo := func() string {
		id := decode[state.PayerRow](t, w.expect(exitDone, "payers", "list", "--output", "json")).BillingID
		if id == nil {
			return ""
		}
		return *id
	}
	w.expect(exitAttention, "sync")
	// no reason; nobody to ask
	for _, args := range [][]string{{"payers", "same", "A00001"}, {"payers", "same", "A00001", "--reason", "renamed"}} {
		w.expect(exitUsage, args...)
		w.expect(exitAttention, "sync")
		if got := linkedTo(); got != "" {
			t.Fatalf("A00001 is linked to %s, want nobody", got)
		}
	}
	report := decode[adoptReport](t,
		w.expect(exitDone, "payers", "same", "A00001", "--reason", "renamed", "--yes", "--output", "json"))
	if !report.Accepted || report.BillingID != theirs || len(report.Diff) == 0 || len(report.Differs) == 0 {
		t.Errorf("the report is %+v", report)
	}
	if got := linkedTo(); got != "" {
		t.Errorf("the word alone has linked A00001 to %s", got)
	}
	w.expect(exitDone, "sync")
	if got := linkedTo(); got != theirs {
		t.Errorf("A00001 is linked to %q, want %s", got, theirs)
	}
}
