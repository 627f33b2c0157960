package state

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"payersync/internal/longtest"
)

// firstRows returns statements that fill a ledger of the first schema: a linked payer with a mandate and its
// history, a sent change and an unsent one, deliveries, a consent, and a person's act.
func firstRows(s *sealer) (statements []string, args [][]any) {
	const at = "2026-03-02T09:00:00.000Z"
	add := func(statement string, values ...any) {
		statements, args = append(statements, statement), append(args, values)
	}
	box := func(table, column string, key ...string) []byte {
		return s.box([]byte(`{"name":"`+canaryName+`"}`), place(table, column, key...))
	}
	moved, _ := link("", "m1", "b1", "", "CREATED", "", at, "link", "run 1")
	acted, _ := link("", at, "ada", "show link", "m1", "asked by phone")
	add("UPDATE ledger SET key_check = ?, ticket = 3", s.box([]byte("payersync"), place("ledger", "key_check")))
	add("INSERT INTO connections (name, source_kind, updated_at) VALUES (?, 'csv', ?)", acme, at)
	add("INSERT INTO mapping_versions (hash, text, author, saved_at) VALUES ('v1', 'version: 1', 'ada', ?)", at)
	add("INSERT INTO runs (run_id, connection, kind, trigger, mapping_version, holder, lease_until, started_at, finished_at, outcome) VALUES (1, ?, 'sync', 'manual', 'v1', 'test', ?2, ?2, ?2, 'complete')", acme, at)
	for _, id := range []string{"c1", "c2"} {
		add("INSERT INTO source_records (connection, source_id, content_hash, record, state, last_seen_run, decision, updated_at) VALUES (?, ?, 'h', ?, 'active', 1, 'included', ?)",
			acme, id, box("source_records", "record", acme, id), at)
	}
	add("INSERT INTO payers (connection, source_id, key_name, key_value, billing_id, link_state, applied_hash, applied, mandate_id, updated_at) VALUES (?, 'c1', 'acct', 'c1', 'b1', 'linked', 'h', ?, 'm1', ?)",
		acme, box("payers", "applied", acme, "c1"), at)
	add("INSERT INTO payers (connection, source_id, key_name, key_value, updated_at) VALUES (?, 'c2', 'acct', 'c2', ?)",
		acme, at)
	add("INSERT INTO attention (connection, source_id, topic, reason, detail, since) VALUES (?, 'c1', 'mandate', 'link_lost', '', ?)", acme, at)
	add("INSERT INTO plans (plan_id, connection, run_id, hash, mapping_version, created_at, state) VALUES (1, ?, 1, 'h', 'v1', ?, 'applied')", acme, at)
	add(`INSERT INTO changes (change_id, plan_id, run_id, connection, source_id, lane, action, change_hash, wanted, diff, body, body_sha256, state, attempts, frozen_at, updated_at)
		VALUES (1, 1, 1, ?1, 'c1', 'customer', 'create', 'h', ?2, ?3, ?4, 'h', 'done', 1, ?5, ?5)`,
		acme, box("changes", "wanted", "1"), box("changes", "diff", "1"), box("changes", "body", "1"), at)
	add("INSERT INTO changes (change_id, plan_id, run_id, connection, source_id, lane, action, change_hash, wanted, state, updated_at) VALUES (2, 1, 1, ?, 'c2', 'customer', 'create', 'h', ?, 'pending', ?)",
		acme, box("changes", "wanted", "2"), at)
	add("INSERT INTO passes (pass_id, started_at, finished_at) VALUES (1, ?1, ?1)", at)
	add(`INSERT INTO remote_customers (billing_id, key_values, digest, seen_pass, listed_at, ticket) VALUES ('b1', '{"acct":"c1"}', 'd', 1, ?, 2)`, at)
	add("INSERT INTO remote_traits (kind, value, billing_id) VALUES ('key', 'acct=c1', 'b1')")
	add("INSERT INTO mandates (mandate_id, billing_id, status, status_since, first_seen_at, last_seen_at, link) VALUES ('m1', 'b1', 'CREATED', ?1, ?1, ?1, ?2)", at, box("mandates", "link", "m1"))
	add(`INSERT INTO mandate_history (mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause, cause_id, prev_hash, hash)
		VALUES ('m1', 'b1', '', 'CREATED', '', ?, 'link', 'run 1', '', ?)`, at, moved)
	add("INSERT INTO inbox (delivery_key, received_at, event_type, billing_id, body, state) VALUES ('evt-1', ?, 'dd-mandate', 'b1', ?, 'reflected')", at, box("inbox", "body", "evt-1"))
	add("INSERT INTO tokens (connection, token, generation) VALUES (?, ?, 1)", acme, box("tokens", "token", acme))
	add(insertAudit, at, "ada", "show link", "m1", "asked by phone", "", acted)
	return statements, args
}

// ofVersion makes a ledger's file as the payersync of a schema version left it: filled by the
// first, and brought as far as that one.
func ofVersion(t testing.TB, version int64) *desk {
	t.Helper()
	onlyOnSQLite(t, "older versions had a file only")
	d := &desk{t: t, opts: newOptions(t, newClock())}
	seal, err := loadKey(d.opts.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	db := rawDB(t, d.opts.Path)
	none := make(chan struct{})
	close(none)
	old := &Ledger{path: d.opts.Path, writer: db, seal: seal, sound: &integrityCheck{known: none}}
	for _, s := range []string{"PRAGMA journal_mode = WAL", fmt.Sprintf("PRAGMA application_id = %d", applicationID)} {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	steps, err := (&sqliteFile{}).steps(old)
	if err == nil {
		_, err = steps.UpTo(t.Context(), 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	statements, args := firstRows(seal)
	for i, s := range statements {
		if _, err := db.ExecContext(t.Context(), s, args[i]...); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if version > 1 {
		if _, err := steps.UpTo(t.Context(), version); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	chmod(t, d.opts.Path, 0o600)
	return d
}

// covers F70
func TestALedgerOfEveryVersionIsOpenedMigratedAndWhole(t *testing.T) {
	t.Parallel()
	newest, err := newestSchema()
	if err != nil {
		t.Fatal(err)
	}
	var versions []int64
	for version := int64(1); version <= newest; version++ {
		versions = append(versions, version)
	}
	for _, version := range longtest.Sample(versions, 4) {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			d := ofVersion(t, version)
			backup := readFile(t, d.opts.Path)
			l := d.opens(FoundInStep)
			d.expectFirstRows(l, newest)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}

			// The same file as a backup takes the place of a newer ledger, and of none.
			r := d.restoring(backup)
			r.Another = true // versions before 6 do not say which ledger they are
			if _, err := Restore(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			restored := d.another()
			d.expectFirstRows(restored, newest)
			x, err := restored.Index(t.Context(), 0)
			if err != nil || x.Restored.IsZero() {
				t.Errorf("restored at %v, %v", x.Restored, err)
			}
		})
	}
}

// expectFirstRows fails unless the ledger is of the newest schema, whole, and holds the first
// rows.
func (d *desk) expectFirstRows(l *Ledger, newest int64) {
	d.t.Helper()
	found, err := l.Verify(d.t.Context(), nil)
	facts, factsErr := l.Facts(d.t.Context())
	if err := errors.Join(err, factsErr, l.Ping(d.t.Context())); err != nil || len(found) > 0 {
		d.t.Errorf("it is damaged: %v, %v", found, err)
	}
	if facts.Schema != newest || facts.Records != 2 || facts.Payers != 2 || facts.Mandates != 1 || facts.Deliveries != 1 ||
		facts.Acts == 0 || facts.Ledger == "" {
		d.t.Errorf("it holds %+v", facts)
	}
	if p, err := l.Payer(d.t.Context(), acme, "c1"); err != nil || p.BillingID != "b1" || p.Applied == nil ||
		p.Applied.Name != canaryName {
		d.t.Errorf("the payer is %+v, %v", p, err)
	}
}

// covers F69
func TestALedgerOfANewerVersionIsRefusedAndLeftAsItIs(t *testing.T) {
	t.Parallel()
	newest, err := newestSchema()
	if err != nil {
		t.Fatal(err)
	}
	d := ofVersion(t, newest)
	raw(t, d.opts.Path, fmt.Sprintf("INSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, 1)", newest+1))
	before := readFile(t, d.opts.Path)
	refused(t, d.opts, fmt.Sprintf("its schema is version %d", newest+1), "a newer one")
	if !bytes.Equal(readFile(t, d.opts.Path), before) {
		t.Error("the file was changed")
	}
	if _, err := Restore(t.Context(), d.restoring(before)); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("version %d", newest+1)) {
		t.Errorf("as a backup it is restored: %v", err)
	}
}
