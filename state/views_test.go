package state

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/state/internal/dbtest"
)

// publicViews are the views and their columns as the architecture documents
// them: an interface for analysts that does not change by accident.
var publicViews = map[string]string{
	"v_payers":          "connection, source_id, key_name, key_value, billing_id, link_state, mandate_id, mandate_status, attention_reason, updated_at, key_scope",
	"v_mandates":        "mandate_id, billing_id, connection, source_id, status, status_since, first_seen_at, last_seen_at",
	"v_mandate_history": "seq, mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause",
	"v_runs": "run_id, connection, kind, trigger, started_at, finished_at, outcome, pulled, unchanged, excluded, created, adopted, updated, " +
		"links_requested, held, failed",
	"v_attention": "connection, source_id, reason, detail, since",
	"v_inbox":     "delivery_key, received_at, event_type, billing_id, state, processed_at",
}

func TestTheViewsHaveExactlyTheirPublicColumns(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's own catalogue")
	d := newDesk(t)
	names, err := list(t.Context(), d.Ledger,
		"SELECT name FROM sqlite_master WHERE type = 'view' AND substr(name, 1, 2) = 'v_'", nil,
		func(s *string) []any { return []any{s} })
	if err != nil || len(names) != len(publicViews) {
		t.Errorf("the views are %v, %v; want the %d documented ones", names, err, len(publicViews))
	}
	for _, view := range names {
		columns := one[string](t, d.Ledger, "SELECT group_concat(name, ', ' ORDER BY cid) FROM pragma_table_info(?)", view)
		if diff := cmp.Diff(publicViews[view], columns); diff != "" {
			t.Errorf("columns of %s (-want +got):\n%s", view, diff)
		}
	}
}

func TestRowsAreNamedAsTheColumnsOfTheirView(t *testing.T) {
	t.Parallel()
	for view, row := range map[string]any{
		"v_payers": PayerRow{}, "v_mandates": MandateRow{}, "v_mandate_history": HistoryRow{}, "v_runs": RunRow{},
		"v_attention": AttentionRow{}, "v_inbox": InboxRow{},
	} {
		var names []string
		for f := range reflect.TypeOf(row).Fields() {
			if name := f.Tag.Get("json"); name != "-" { // which is of no view
				names = append(names, name)
			}
		}
		if diff := cmp.Diff(publicViews[view], strings.Join(names, ", ")); diff != "" {
			t.Errorf("JSON names of %T (-want +got):\n%s", row, diff)
		}
	}
}

// viewText is every row of every view, as text.
func viewText(t *testing.T, l *Ledger) string {
	t.Helper()
	var out strings.Builder
	for view, columns := range publicViews {
		rows, err := list(t.Context(), l, fmt.Sprintf("SELECT concat_ws(' ', %s) FROM %s", columns, view), nil,
			func(s *string) []any { return []any{s} })
		if err != nil || len(rows) == 0 {
			t.Errorf("%s has %d rows to look at, %v", view, len(rows), err)
		}
		out.WriteString(strings.Join(rows, "\n"))
	}
	return out.String()
}

// covers S15, F94
func TestTheViewsShowNothingPersonal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(16)
	text := strings.ToLower(viewText(t, d.Ledger))
	for _, canary := range canaries {
		if strings.Contains(text, strings.ToLower(canary)) {
			t.Errorf("a view shows %q", canary)
		}
	}
}

func TestListsAreNarrowedByFilters(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(16)
	ctx := t.Context()
	count := func(n int, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	payers := func(f Filter) (int, error) { rows, err := d.Payers(ctx, f); return len(rows), err }
	attention := func(f Filter) (int, error) { rows, err := d.Attention(ctx, f); return len(rows), err }
	inbox := func(f Filter) (int, error) { rows, err := d.Inbox(ctx, f); return len(rows), err }
	tests := []struct {
		name string
		list func(Filter) (int, error)
		f    Filter
		want int
	}{
		{"all payers", payers, Filter{}, 16}, {"linked", payers, Filter{State: "linked"}, 4},
		{"creating", payers, Filter{State: "creating"}, 4},
		{"another connection", payers, Filter{Connection: "globex"}, 0},
		{"three", payers, Filter{Connection: acme, Limit: 3}, 3},
		{"an injected state", payers, Filter{State: "linked' OR '1'='1"}, 0},
		{"attention", attention, Filter{State: "link_lost"}, 8}, {"inbox", inbox, Filter{State: "received", Limit: 5}, 5},
	}
	for _, tt := range tests {
		if got := count(tt.list(tt.f)); got != tt.want {
			t.Errorf("%s: %d rows, want %d", tt.name, got, tt.want)
		}
	}
	runs, err := d.LatestRuns(ctx)
	if err != nil || len(runs) != 1 || runs[0].Outcome != "running" {
		t.Errorf("the latest runs are %+v, %v", runs, err)
	}
}

func TestPagesOfAttentionHaveEachRowOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(16)
	want, err := d.Attention(t.Context(), Filter{State: "link_lost"})
	if err != nil || len(want) != 8 {
		t.Fatalf("%d rows, %v", len(want), err)
	}
	for _, limit := range []int{1, 3, 8, 9} {
		got, after := []AttentionRow{}, AttentionRow{}
		for {
			rows, err := d.AttentionPage(t.Context(), Filter{State: "link_lost", Limit: limit}, after)
			if err != nil || len(rows) > limit {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			if len(rows) == 0 {
				break
			}
			got, after = append(got, rows...), rows[len(rows)-1]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %d (-want +got):\n%s", limit, diff)
		}
	}
}

func TestTheLastReadOfAConnectionIsOneThatCameToItsEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(4)
	if reads, err := d.LastReads(t.Context()); err != nil || len(reads) != 0 {
		t.Errorf("before any read came to its end: %+v, %v", reads, err)
	}
	run := one[int64](t, d.Ledger, "SELECT max(run_id) FROM runs")
	d.do(func(tx *Tx) error { return tx.RecordRead(run, false, connector.Proof{Pages: 1}) })
	reads, err := d.LastReads(t.Context())
	if err != nil || len(reads) != 1 || reads[0].Connection != acme || reads[0].At.IsZero() {
		t.Errorf("%+v, %v", reads, err)
	}
}

// The README names every table, every view with its columns, and examples that
// run.
func TestTheReadmeIsTrue(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's own catalogue")
	d := newDesk(t)
	d.fill(8)
	text := string(readFile(t, "README.md"))
	tables, err := list(t.Context(), d.Ledger,
		"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", nil,
		func(s *string) []any { return []any{s} })
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, table := range tables {
		if !strings.Contains(text, "`"+table+"`") {
			t.Errorf("the README does not name the table %s", table)
		}
	}
	for view, columns := range publicViews {
		if line := fmt.Sprintf("| `%s` | %s |", view, columns); !strings.Contains(text, line) {
			t.Errorf("the README lacks the line %s", line)
		}
	}
	_, rest, found := strings.Cut(text, `sqlite3 payersync.db "UPDATE`)
	restore, _, closed := strings.Cut(rest, "\"\n")
	if !found || !closed {
		t.Fatal("the README does not say how to note a restore")
	}
	raw(t, d.opts.Path, "UPDATE"+restore)
	if x := d.index(0); time.Since(x.Restored).Abs() > time.Minute {
		t.Errorf("after the README's statement the ledger was restored at %v, want now", x.Restored)
	}
	_, rest, found = strings.Cut(text, "```sql\n")
	examples, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		t.Fatal("the README has no SQL examples")
	}
	for example := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(examples), ";"), ";\n") {
		if _, err := d.reader.ExecContext(t.Context(), example); err != nil {
			t.Errorf("%v:\n%s", err, example)
		}
	}
}

// covers F64
func TestTheReadmeSaysHowToNoteARestoreOfAServer(t *testing.T) {
	t.Parallel()
	d := onServer(t)
	_, rest, found := strings.Cut(string(readFile(t, "README.md")), `psql -d payersync -c "`)
	statement, _, closed := strings.Cut(rest, "\"\n")
	if !found || !closed {
		t.Fatal("the README does not say how to note a restore")
	}
	if err := dbtest.Execute(d.opts.Path, strings.ReplaceAll(statement, `\"`, `"`)); err != nil {
		t.Fatal(err)
	}
	if x := d.index(0); time.Since(x.Restored).Abs() > time.Minute {
		t.Errorf("after the README's statement the ledger was restored at %v, want now", x.Restored)
	}
}

// covers F33
func TestSilenceCountsWhatSweepsFoundSinceTheLastWebhook(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	found := func(pass string, status connector.MandateStatus, cause connector.Cause) {
		d.clock.move(time.Minute)
		d.do(func(tx *Tx) error {
			_, err := tx.SaveMandate(connector.Mandate{ID: "m1", CustomerID: "b1", Status: status}, cause, pass)
			return err
		})
	}
	expect := func(want Silence) {
		t.Helper()
		got, err := d.Silence(t.Context())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	expect(Silence{})
	found("1", connector.MandateCreated, connector.CauseSweep) // seen for the first time
	expect(Silence{})
	found("2", connector.MandatePending, connector.CauseSweep)
	found("3", connector.MandateActive, connector.CauseSweep)
	expect(Silence{Sweeps: 2, Changes: 2})
	d.clock.move(time.Minute)
	came := fmt.Sprint(stamp(d.clock.now()))
	d.receive(delivery("d1", "b1"))
	expect(Silence{Since: came})
	found("d1", connector.MandateCancelled, connector.CauseWebhook)
	expect(Silence{Since: came})
	found("4", connector.MandateActive, connector.CauseSweep)
	found("4", connector.MandateCancelled, connector.CauseSweep)
	expect(Silence{Since: came, Sweeps: 1, Changes: 2})
}
