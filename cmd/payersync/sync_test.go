package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/state"
)

// covers F12
func TestASecondSyncOverUnchangedDataSendsNothing(t *testing.T) {
	t.Parallel()
	rows := people(12)
	w := newWorld(t, rows)
	w.expect(exitDone, "sync")
	w.expectOnePerRow(rows)
	w.box.ResetRequests()

	again := w.expect(exitDone, "sync")
	if !strings.Contains(again.out, "12 read: 12 unchanged, 0 created") {
		t.Errorf("the second run says:\n%s", again.out)
	}
	for _, r := range w.requests(isWrite) {
		t.Errorf("the second run sent %s %s", r.Method, r.Path)
	}
}

// covers F12
func TestASecondSyncWithHeldRecordsSendsNothingButReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(people(3), row{ID: "B1", Email: "nameless@example.org"}))
	w.expect(exitAttention, "sync")
	w.box.ResetRequests()

	w.expect(exitAttention, "sync")
	for _, r := range w.requests(isWrite) {
		t.Errorf("the second run sent %s %s", r.Method, r.Path)
	}
}

func TestASyncSendsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	rows := people(5)
	w := newWorld(t, rows)
	w.expect(exitDone, "sync")
	w.box.ResetRequests()

	rows[2].Phone = "01632 960999"
	w.export(rows...)
	w.expect(exitDone, "sync")
	writes := w.requests(isWrite)
	if len(writes) != 1 || writes[0].Method != "PUT" || !strings.Contains(string(writes[0].Body), "01632 960999") {
		t.Errorf("%d writes, want the one update:\n%+v", len(writes), writes)
	}
	w.expectOnePerRow(rows)
}

func TestAPlanSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(25))
	plan := w.expect(exitApproval, "plan", "--limit", "2")
	for _, want := range []string{"25 to create", "create  A00001", `people[0].email: "payer1@example.org"`,
		"… and more: 50 changes", "Above the limits: 25 customers would be created (the limit is 20)."} {
		if !strings.Contains(plan.out, want) {
			t.Errorf("the plan does not say %q:\n%s", want, plan.out)
		}
	}
	if got := len(decode[planReport](t, w.expect(exitApproval, "plan", "--output", "json")).Changes); got != 50 {
		t.Errorf("the plan as JSON has %d changes, want all 50", got)
	}
	for _, r := range w.requests(isWrite) {
		t.Errorf("planning sent %s %s", r.Method, r.Path)
	}
}

// A plan above the limits waits, whoever made it, until it is approved or facts or
// limits change.
//
// covers F74
func TestAPlanAboveTheLimitsIsAmongThoseThatWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(25))
	waiting := func() []state.Plan {
		return decode[statusReport](t, w.expect(exitDone, "status", "--output", "json")).Approvals
	}
	if got := waiting(); got == nil || len(got) != 0 {
		t.Errorf("before any plan these wait: %#v; want an empty list, not null", got)
	}
	w.expect(exitApproval, "plan")
	w.expect(exitApproval, "sync") // over the same facts: the same plan
	if got := waiting(); len(got) != 1 || got[0].ID != 1 || got[0].Creates != 25 {
		t.Fatalf("these wait: %+v; want plan 1", got)
	}
	w.edit("payersync.yaml", "max_creates: 20", "max_creates: 25")
	w.expect(exitDone, "plan")
	if got := waiting(); len(got) != 0 {
		t.Errorf("within the limits these wait: %+v", got)
	}
	w.edit("payersync.yaml", "max_creates: 25", "max_creates: 20")
	plan := decode[planReport](t, w.expect(exitApproval, "plan", "--output", "json")).Plan
	w.expect(exitDone, "plan", "approve", fmt.Sprint(plan.ID))
	w.expect(exitDone, "plan")
	if got := waiting(); len(got) != 0 {
		t.Errorf("after the approval these wait: %+v", got)
	}
	if sent := w.expect(exitDone, "sync"); !strings.Contains(sent.out, "25 created") {
		t.Errorf("the sync did not send the approved plan:\n%s", sent.out)
	}
}

func TestAPlanAboveTheLimitsIsSentOnlyAfterItsApproval(t *testing.T) {
	t.Parallel()
	rows := people(25)
	w := newWorld(t, rows)
	held := w.expect(exitApproval, "sync")
	if !strings.Contains(held.out, "25 customers would be created (the limit is 20).") ||
		!strings.Contains(held.out, "payersync plan approve ") {
		t.Errorf("the run that waits says:\n%s", held.out)
	}
	if n := w.box.Writes(); n != 0 {
		t.Errorf("%d writes before the approval", n)
	}
	plans := decode[statusReport](t, w.expect(exitDone, "status", "--output", "json")).Approvals
	if len(plans) != 1 || plans[0].Creates != 25 {
		t.Fatalf("plans that wait = %+v", plans)
	}

	w.expect(exitDone, "plan", "approve", plans[0].Hash[:12])
	if n := w.box.Writes(); n != 0 {
		t.Errorf("%d writes by the approval alone", n)
	}
	w.expect(exitDone, "sync")
	w.expectOnePerRow(rows)
	if again := w.expect(exitFailed, "plan", "approve",
		strconv.FormatInt(plans[0].ID, 10)); !strings.Contains(again.errOut, "payersync status lists the waiting plans") {
		t.Errorf("a second approval says: %s", again.errOut)
	}
}

func TestAnApprovalDoesNotCoverWhatALaterPlanAdds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(25))
	w.expect(exitApproval, "sync")
	w.expect(exitDone, "plan", "approve", "1")
	rows := people(60)
	w.export(rows...)
	w.expect(exitApproval, "sync")
	w.expectOnePerRow(rows[:25]) // 35 of the creates were approved by nobody
	w.expect(exitDone, "sync", "--yes")
	w.expectOnePerRow(rows)
}

func TestYesApprovesThePlanOfItsOwnRun(t *testing.T) {
	t.Parallel()
	rows := people(25)
	w := newWorld(t, rows)
	w.expect(exitDone, "backfill", "--yes")
	w.expectOnePerRow(rows)
	if w.mandateOf("A00025").Status != "CREATED" {
		t.Error("the last payer has no signing link")
	}
}

// covers F53, F54, F79, V2
func TestRecordsThatCannotBeSentStopNobodyElse(t *testing.T) {
	t.Parallel()
	good := people(4)
	wrong := []row{
		{ID: "B1", Email: "nameless@example.org", Street: "1 Row"},
		{ID: "B2", Name: "Malformed", Email: "malformed(at)example.org", Street: "2 Row"},
		{ID: "B3", Name: "Two Addresses", Email: "two@example.org", Street: "3 Row", Depot: "4 Quay"},
		{ID: "B4", Name: "Twin", Email: "twin@example.org"}, {ID: "B4", Name: "Other Twin", Email: "other@example.org"},
	}
	w := newWorld(t, slices.Concat(good, wrong))
	run := w.expect(exitAttention, "sync")
	if !strings.Contains(run.out, "complete") || !strings.Contains(run.out, "4 created") ||
		!strings.Contains(run.out, "4 on hold") {
		t.Errorf("the run says:\n%s", run.out)
	}
	w.expectOnePerRow(good)

	said := map[string]string{}
	for _, a := range decodeLines[state.AttentionRow](t, w.expect(exitDone, "attention", "list", "--output", "json")) {
		said[a.SourceID] = a.Reason + ": " + a.Detail
	}
	want := map[string]string{
		"B1": "name_missing: The customer has no name.",
		"B2": "email_malformed: The e-mail address of contact 1 is not well formed.",
		"B3": "too_many_addresses: The customer has 2 addresses, and the billing service accepts 1.",
		"B4": "record_unreadable: Lines 9 and 10 have the same AccountNumber; each customer needs its own row and its own AccountNumber.",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("v_attention differs (-want +got):\n%s", diff)
	}

	mended := []row{
		{ID: "B1", Name: "Named", Email: "nameless@example.org"}, {ID: "B2", Name: "Malformed", Email: "well@example.org"},
		{ID: "B3", Name: "Two Addresses", Email: "two@example.org", Street: "3 Row"},
		{ID: "B4", Name: "Twin", Email: "twin@example.org"},
	}
	all := slices.Concat(good, mended)
	w.export(all...)
	w.expect(exitDone, "sync")
	w.expectOnePerRow(all)
	if left := w.expect(exitDone, "attention", "list", "--output", "json").out; left != "" {
		t.Errorf("after the rows were mended there is still:\n%s", left)
	}
}

func TestJSONOutputHasItsPublicKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(people(3), row{ID: "B1"}))
	runKeys := []string{"attention", "connection", "counts", "kind", "news", "outcome", "plan", "proof", "run_id"}
	expectKeys(t, w.expect(exitAttention, "plan", "--output", "json"), append(runKeys, "changes", "held", "not_asked"))
	expectKeys(t, w.expect(exitAttention, "sync", "--output", "json"), runKeys)
	expectKeys(t, w.expect(exitDone, "payers", "list", "--output", "json"), []string{
		"connection", "source_id", "key_name", "key_value", "billing_id", "link_state", "mandate_id", "mandate_status",
		"attention_reason", "updated_at", "key_scope",
		"record_state", "decision", "given_up", "left", "mandate_since", "changed_at",
	})
	expectKeys(t, w.expect(exitDone, "payers", "show", "A00001", "--output", "json"), []string{
		"connection", "source_id", "key", "link_state", "billing_id", "mandate_id", "applied", "history", "attention",
		"record", "mapping_version", "rules", "customer", "changes", "stands", "next", "read",
	})
	expectKeys(t, w.expect(exitDone, "mapping", "fields", "--output", "json"),
		[]string{"connection", "records", "fields", "functions"})
	expectKeys(t, w.expect(exitAttention, "mapping", "check", "--output", "json"), []string{
		"connection", "file", "mapping_version", "ok", "mistakes", "records", "rules", "not_understood", "shared", "not_sent",
	})
	expectKeys(t, w.expect(exitDone, "mapping", "preview", "--output", "json"), []string{
		"connection", "mapping_version", "records", "linked", "creates", "adopts", "updates", "unchanged", "excluded", "held",
		"in_flight", "links",
		"limits", "fields", "blanked", "groups", "included", "dropped", "mended", "failures", "key_changes", "customers",
		"not_asked",
	})
	expectKeys(t, w.expect(exitDone, "mapping", "check", "--coverage", "--output", "json"), []string{
		"connection", "mapping_version", "records", "included", "failed", "rules", "never_fired", "unused_fields",
		"not_understood", "shared",
	})
	expectKeys(t, w.expect(exitDone, "mapping", "history", "--output", "json"),
		[]string{"connection", "file", "file_hash", "versions"})
	expectKeys(t, w.expect(exitDone, "attention", "list", "--output", "json"),
		[]string{"connection", "source_id", "reason", "detail", "since"})
	matter := w.expect(exitDone, "attention", "show", "B1", "--output", "json")
	expectKeys(t, matter, []string{"connection", "source_id", "told", "evidence", "closed"})
	told := decode[struct{ Told []map[string]any }](t, matter).Told
	expectSameKeys(t, "told", told[0], []string{"reason", "detail", "since", "next", "ways"})
	way, isObject := told[0]["ways"].([]any)[0].(map[string]any)
	if !isObject {
		t.Fatalf("the ways are %v", told[0]["ways"])
	}
	expectSameKeys(t, "ways", way, []string{"command", "does", "sends"})
	expectKeys(t, w.expect(exitDone, "sweep", "--output", "json"), []string{
		"customers", "repaired", "drifted", "missing", "unlisted", "doubled", "duplicates", "drained", "subscription",
	})
	mandate := []string{"mandate_id", "billing_id", "connection", "source_id", "status", "status_since", "first_seen_at",
		"last_seen_at"}
	for _, listed := range []string{"list", "export"} {
		expectKeys(t, w.expect(exitDone, "mandates", listed, "--output", "json"), mandate)
	}
	expectKeys(t, w.expect(exitDone, "attention", "retry", "A00001", "--output", "json"), []string{"source_id"})
	word := []string{"connection", "source_id", "mandate_id", "said_before"}
	expectKeys(t, w.expect(exitDone, "attention", "close", "--give-up", "B1", "--reason", "a test", "--output", "json"),
		word)
	expectKeys(t, w.expect(exitDone, "attention", "list", "--closed", "--output", "json"),
		[]string{"kind", "connection", "source_id", "at", "by", "why"})
	expectKeys(t, w.expect(exitDone, "mandates", "cancel", "A00001", "--reason", "asked to", "--output", "json"),
		[]string{"source_id", "mandate_id"})
	held := []string{
		"exported_at", "connection", "source_id", "forgotten", "record", "label", "payer", "attention", "changes", "requests",
		"mandates", "letters", "letter_stops", "deliveries", "index", "words", "keyed_hashes", "audit", "left_out",
	}
	expectKeys(t, w.expect(exitDone, "ledger", "export", "A00002", "--output", "json"), held)
	expectKeys(t, w.expect(exitDone, "ledger", "retain", "--dry-run", "--output", "json"),
		[]string{"webhook_bodies", "change_details", "letter_texts", "letters", "failure_reasons", "letter_approvals",
			"letters_told", "webhook_refusals", "webhook_bodies_days", "change_details_days", "dry_run"})
	forgotten := []string{"connection", "source_id", "billing_id", "mandate_id", "mandate_status", "erases", "alike",
		"elsewhere", "forgotten", "files_later", "said_before"}
	expectKeys(t, w.expect(exitDone, "ledger", "forget", "A00002", "--mandate-stays", "--reason", "ticket 88", "--yes",
		"--output", "json"), forgotten)
	expectKeys(t, w.expect(exitDone, "ledger", "forget", "--undo", "A00002", "--reason", "a mistake", "--output", "json"),
		[]string{"connection", "source_id", "said_before"})
	expectKeys(t, w.expect(exitDone, "ledger", "rekey", "--yes", "--output", "json"),
		[]string{"sealed_values", "resumed", "key_file", "old_key_file", "rekeyed"})
	expectKeys(t, w.expect(exitDone, "version", "--output", "json"), []string{"version", "commit", "go"})
	expectKeys(t, w.expect(exitDone, "check", "--output", "json"), []string{"check", "ok", "warning", "detail", "next"})

	facts := []string{"ledger", "commits", "schema", "records", "payers", "mandates", "deliveries", "acts", "audit_hash"}
	backup := w.expect(exitDone, "ledger", "backup", t.TempDir(), "--output", "json")
	expectKeys(t, backup, append(facts, "path", "bytes", "encrypted", "removed", "warnings", "key_file"))
	expectKeys(t, w.expect(exitDone, "ledger", "verify", "--output", "json"),
		append(facts, "file", "encrypted", "ok", "damage"))
	expectKeys(t, w.expect(exitDone, "ledger", "restore", decode[backupReport](t, backup).Path, "--dry-run", "--output",
		"json"),
		append(facts, "file", "path", "dry_run", "done", "there", "lost_commits", "kept", "finished"))

	status := w.expect(exitDone, "status", "--output", "json")
	expectKeys(t, status, []string{"payers", "mandates", "attention", "runs", "approvals", "inbox", "closed", "put_off",
		"left", "mappings", "problems", "rejected", "sources", "consents", "silence", "subscription", "webhook_refusals",
		"config", "jobs", "conditions", "served", "standing", "not_asked", "list"})
	for _, line := range decode[struct{ List []map[string]any }](t, status).List {
		for _, key := range []string{"kind", "subject", "connection", "title", "count", "who", "next", "otherwise", "urgent",
			"commands"} {
			if _, has := line[key]; !has {
				t.Errorf("a line of the list has no %s: %v", key, line)
			}
		}
	}
	var runs struct{ Runs []map[string]any }
	if err := json.Unmarshal([]byte(status.out), &runs); err != nil || len(runs.Runs) != 1 {
		t.Fatalf("%d runs, want the last of the one connection (%v)", len(runs.Runs), err)
	}
	columns := []string{ // of v_runs
		"run_id", "connection", "kind", "trigger", "started_at", "finished_at", "outcome", "pulled", "unchanged", "excluded",
		"created", "adopted", "updated", "links_requested", "held", "failed",
	}
	expectSameKeys(t, "runs", runs.Runs[0], columns)
}

// expectKeys fails unless every JSON object that a command printed has exactly
// these keys.
func expectKeys(t *testing.T, r result, want []string) {
	t.Helper()
	objects := decodeLines[map[string]any](t, r)
	if len(objects) == 0 {
		t.Errorf("nothing was printed; want objects with the keys %v", want)
	}
	for _, o := range objects {
		expectSameKeys(t, r.out, o, want)
	}
}

func expectSameKeys(t *testing.T, what string, object map[string]any, want []string) {
	t.Helper()
	got := slices.Sorted(maps.Keys(object))
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), got); diff != "" {
		t.Errorf("keys differ (-want +got):\n%s\nin %s", diff, what)
	}
}

// covers F74, F109
func TestAMappingEditThatHoldsEverybodyIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(50))
	w.expect(exitDone, "sync", "--yes")
	w.write("mapping.yaml", strings.Replace(worldMapping, "lower(trim(Email))", `'"none"'`, 1))
	const why = "50 of 50 payers would be on hold, which leaves none."
	if r := w.expect(exitDone, "mapping", "preview"); !strings.Contains(r.out, why) {
		t.Errorf("mapping preview says\n%s", r.out)
	}
	log := new(bytes.Buffer)
	s := w.served(log)
	defer s.Close()
	if err := syncNow(t.Context(), s, s.Config.Connections[0], "schedule"); err != nil {
		t.Errorf("the job failed: %v", err)
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, `"level":"warning"`) &&
			!(strings.Contains(line, why) && strings.Contains(line, `"lost":50`)) {
			t.Errorf("the log warns of %s", line)
		}
	}
	if strings.Count(log.String(), `"level":"warning"`) != 1 {
		t.Errorf("the log says\n%s", log)
	}
	for _, command := range [][]string{{"sync"}, {"plan"}} {
		if r := w.expect(exitStandstill, command...); !strings.Contains(r.out, why) ||
			!strings.Contains(r.out, "payersync plan approve") {
			t.Errorf("%s says\n%s%s", command, r.out, r.errOut)
		}
	}
	var status statusReport
	if err := json.Unmarshal([]byte(w.expect(exitDone, "status", "--output", "json").out), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Approvals) != 1 || status.Approvals[0].Lost != 50 || status.Approvals[0].Limits != why {
		t.Errorf("approvals %+v", status.Approvals)
	}
	plan := fmt.Sprint(status.Approvals[0].ID)
	for _, command := range [][]string{{"plan", "reject", plan, "--yes"}, {"plan", "approve", plan, "--only", "update"}} {
		if r := w.expect(exitFailed, command...); !strings.Contains(r.errOut, "standstill") {
			t.Errorf("%s says %s", command, r.errOut)
		}
	}
	w.write("mapping.yaml", worldMapping)
	w.expect(exitDone, "sync")
	if r := w.expect(exitDone, "status"); strings.Contains(r.out, "standstill") {
		t.Errorf("after the edit was taken back status says\n%s", r.out)
	}
}
