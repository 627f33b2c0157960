package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/state/internal/dbtest"
)

// aFile is a ledger in a file, also where the tests keep theirs elsewhere.
func aFile(t testing.TB) *desk {
	t.Helper()
	clock := newClock()
	d := &desk{t: t, clock: clock, opts: newOptions(t, clock)}
	d.opts.inFile = true
	d.reopen()
	return d
}

// reopen opens the ledger, also one that was closed before.
func (d *desk) reopen() {
	d.t.Helper()
	l, err := Open(d.t.Context(), d.opts)
	if err != nil {
		d.t.Fatal(err)
	}
	d.Ledger = l
	d.t.Cleanup(func() { _ = l.Close() })
}

// fillAll writes a row into every table, and values of every type that look alike: of no bytes and
// NULL, long, in other letters, and below zero.
func (d *desk) fillAll(payers int) {
	d.t.Helper()
	d.fill(payers)
	d.closeRun(one[int64](d.t, d.Ledger, "SELECT max(run_id) FROM runs"), connector.RunComplete)
	const at = "2026-03-02T09:00:00.000Z"
	box := func(table, column string, key ...string) []byte {
		return d.seal.box([]byte(canaryName), place(table, column, key...))
	}
	for _, row := range []struct {
		statement string
		values    []any
	}{
		{"INSERT INTO alarm_messages (message_id, way, made_at, digest, body) VALUES ('a1', 'mail', ?, 'h', ?)",
			[]any{at, box("alarm_messages", "body", "a1")}},
		{"INSERT INTO alarms (way, code, subject, connection, urgent, noticed_at, text, told) VALUES ('mail', 'full', '', '', 1, ?, 'The disk is full: läuft über; ''quoted''', 'a1')", []any{at}},
		{"INSERT INTO apart (connection, source_id, other_id, said_at) VALUES (?, 'c000', 'c001', ?)", []any{acme, at}},
		{"INSERT INTO budgets (scope) VALUES ('acme')", nil},
		{"INSERT INTO connection_decisions (old_connection, new_connection, decision, actor, reason, decided_at) VALUES (?, 'beta', 'separate', 'ada', 'ä reason', ?)", []any{acme, at}},
		{"INSERT INTO move_pairs (old_connection, old_id, new_connection, new_id, billing_id, old_key_name, old_key_value, actor, decided_at) VALUES (?1, 'c000', ?1, 'c001', 'b000', 'no', 'c000', 'ada', ?2)", []any{acme, at}},
		{"INSERT INTO match_candidates (connection, source_id, billing_id, score, reasons) VALUES (?, 'c000', 'b000', 62, 'name_typo')", []any{acme}},
		{"INSERT INTO duplicate_customers (billing_id, other_id, score, reasons, since) VALUES ('b000', 'b001', 75, 'name_typo', ?)", []any{at}},
		{"INSERT INTO foreign_moves (path, change_id) SELECT 'name', min(change_id) FROM changes", nil},
		{"INSERT INTO forget_keys (key_id, key) VALUES ('k1', ?)", []any{box("forget_keys", "key", "k1")}},
		{"INSERT INTO tombstones (record, key_id, holds, marks, said_at, scrubbed) VALUES ('r', 'k1', 1, '[]', ?, 1)",
			[]any{at}},
		{"INSERT INTO handovers (mandate_id, sent_on, noted_at, actor) VALUES ('m000', '2026-03-02', ?, 'ada')", []any{at}},
		{"INSERT INTO jobs (name, begun_at) VALUES ('backup', ?)", []any{at}},
		{"INSERT INTO letter_addresses (connection, source_id, recipient) VALUES (?, 'c000', 'h')", []any{acme}},
		{"INSERT INTO letter_approvals (approval_id, setup, batch, whole, letters, actor, at) VALUES (7, 's', 'b', 1, 3, 'ada', ?)", []any{at}},
		{"INSERT INTO letter_approved (approval_id, mandate_id, step, recipient) VALUES (7, 'm000', 0, 'h')", nil},
		{"INSERT INTO letter_journal (message_id, recipient, at) VALUES ('l1', 'h', ?)", []any{at}},
		{"INSERT INTO letter_stops (scope, why, actor, since) VALUES ('all', 'pause', 'ada', ?)", []any{at}},
		{`INSERT INTO letters (letter_id, mandate_id, step, kind, connection, source_id, recipient, setup, language, message_id, digest, looked_at, frozen_at, state, body)
			VALUES (9007199254740993, 'm000', 0, 'invitation', ?1, 'c000', 'h', 's', 'de', 'l1', 'h', ?2, ?2, 'frozen', ?3)`,
			[]any{acme, at, box("letters", "body", "l1")}},
		{"INSERT INTO likenesses (hash, payer_id) SELECT -9223372036854775800, payer_id FROM payers WHERE connection = ? AND source_id = 'c000'", []any{acme}},
		{"INSERT INTO login_links (token_hash, person, role, made_at, expires_at, connections) VALUES ('t', 'ada', 'admin', ?1, ?1, '[\"acme\"]')", []any{at}},
		{"INSERT INTO logins (token_hash, data, expires_at) VALUES ('t', ?, ?)", []any{box("logins", "data", "t"), at}},
		{"INSERT INTO put_off (connection, source_id, reason, at, until, word) VALUES (?1, 'c000', 'r', ?2, ?2, -1)",
			[]any{acme, at}},
		{"INSERT INTO round_trips (address, way, made_by, at) VALUES ('', 'put', 'person', ?)", []any{at}},
		{"INSERT INTO sign_in_attempts (counter, kind, wrong, wait_until, expires_at) VALUES ('h', 'stranger', 3, ?1, ?1)",
			[]any{at}},
		{"INSERT INTO slots (scope, until) VALUES ('acme', ?)", []any{at}},
		{"INSERT INTO tokens (connection, token, generation) VALUES (?, ?, 1)", []any{acme, box("tokens", "token", acme)}},
		{"INSERT INTO two_way (connection) VALUES (?)", []any{acme}},
		{"INSERT INTO create_stops (connection, cause, since) VALUES (?, 'first_matching', ?)", []any{acme, at}},
		{"INSERT INTO unclaimed_keys (connection, billing_id, key, ticket) VALUES (?, 'b000', 'customerNo=K1', 1)",
			[]any{acme}},
		{"INSERT INTO two_way_echoes (connection, source_id, at) VALUES (?, 'c000', ?)", []any{acme, at}},
		{"INSERT INTO users (name, role, generation, made_at, password) VALUES ('ada', 'admin', 1, ?, ?)",
			[]any{at, box("users", "password", "ada")}},
		{"INSERT INTO webhook_refusals (day, reason, requests, first_at, last_at) VALUES ('2026-03-02', 'busy', 1, ?1, ?1)",
			[]any{at}},
		{"INSERT INTO webhook_rotations (rotation_id, begun_at, secret, secret_at) VALUES (3, ?1, ?2, ?1)",
			[]any{at, box("webhook_rotations", "secret", "3")}},
		{"INSERT INTO words (connection, source_id, billing_id, word, ticket, said_at) VALUES (?, 'c000', 'b000', 'reject', 1, ?)", []any{acme, at}},
		{"INSERT INTO writeback_approvals (connection, setup, batch, payers, actor, at) VALUES (?, 's', 'b', 1, 'ada', ?)",
			[]any{acme, at}},
		{"INSERT INTO writeback_runs (connection, at, written, waiting, stuck) VALUES (?, ?, 1, 0, 0)", []any{acme, at}},
		{"INSERT INTO writebacks (connection, source_id, setup, field) VALUES (?, 'c000', 's', ?)",
			[]any{acme, box("writebacks", "field", acme, "c000")}},
		{"UPDATE inbox SET body = x'' WHERE delivery_key = 'evt-000'", nil},
		{"UPDATE source_records SET record = ? WHERE source_id = 'c001'",
			[]any{d.seal.box([]byte(strings.Repeat("ä long one ", 20_000)), place("source_records", "record", acme, "c001"))}},
	} {
		d.do(func(tx *Tx) error { return tx.exec(row.statement, row.values...) })
	}
	for table, values := range d.values() {
		if len(values) == 0 {
			d.t.Errorf("%s has no row, so nothing shows that its rows are carried", table)
		}
	}
}

// values are all that a ledger holds, by its tables, but for what a journey notes of itself.
func (d *desk) values() map[string][]string {
	d.t.Helper()
	tables, err := tablesOf(d.t.Context(), d.reader, d.below)
	if err != nil || len(tables) < 50 {
		d.t.Fatalf("%d tables, %v", len(tables), err)
	}
	out := map[string][]string{}
	for _, table := range tables {
		var rows []string
		if _, err := table.read(d.t.Context(), d.reader, func(row []any) error {
			text := make([]string, len(row))
			for i, v := range row {
				text[i] = fmt.Sprintf("%s=%T %.80q", table.columns[i], v, fmt.Sprint(v))
			}
			text = slices.DeleteFunc(text, func(v string) bool {
				return table.name == "ledger" && (strings.HasPrefix(v, "carried") || strings.HasPrefix(v, "commits"))
			})
			rows = append(rows, strings.Join(text, " "))
			return nil
		}); err != nil {
			d.t.Fatal(err)
		}
		out[table.name] = rows
	}
	return out
}

// carriedAs compares what a ledger held with what it holds, where the journeys are noted behind the rest.
func (d *desk) carriedAs(before map[string][]string, notes int) {
	d.t.Helper()
	after := d.values()
	log := after["audit"]
	if len(log) != len(before["audit"])+notes {
		d.t.Fatalf("%d lines of the audit log became %d", len(before["audit"]), len(log))
	}
	after["audit"] = log[:len(log)-notes]
	if diff := cmp.Diff(before, after); diff != "" {
		d.t.Error(diff)
	}
	damages, err := d.Verify(d.t.Context(), nil)
	if err != nil || len(damages) > 0 {
		d.t.Errorf("it is not whole: %v, %v", damages, err)
	}
}

// carry brings d's ledger to another place and returns the one that is there.
func (d *desk) carry(to Options, how Transfer) (*desk, Transferred, error) {
	d.t.Helper()
	_ = d.Close()
	to.KeyFile = d.opts.KeyFile
	how.From, how.To, how.By = d.opts, to, Entry{Actor: "ada", Reason: "ticket 90"}
	out, err := how.Run(d.t.Context())
	there := &desk{t: d.t, clock: d.clock, opts: to}
	if err == nil {
		there.reopen()
	}
	return there, out, err
}

// newFile is a place where no ledger is.
func newFile(t testing.TB, c *clock) Options {
	opts := newOptions(t, c)
	opts.inFile = true
	return opts
}

// ofAccountNew is the place of an account on opts' server.
func ofAccountNew(t *testing.T, opts Options, name string, c *clock) Options {
	t.Helper()
	if _, err := opts.Server.ensure(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	opts.Account, opts.Now = name, c.now
	return opts
}

func (l *Ledger) actions(t *testing.T, last int) []string {
	t.Helper()
	log, err := l.Log(t.Context(), LogFilter{Limit: last})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range log {
		out = append(out, e.Actor+": "+e.Action+" "+e.Subject)
	}
	return out
}

func (d *desk) refusedHere(says ...string) {
	d.t.Helper()
	l, err := Open(d.t.Context(), d.opts)
	if err == nil {
		_ = l.Close()
	}
	var refused *OpenError
	if !errors.As(err, &refused) {
		d.t.Fatalf("it opens: %v", err)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			d.t.Errorf("%v does not say %q", err, text)
		}
	}
}

// journeys are from a file to a new one, and, where there is a server, to an account of it and back.
func journeys(t *testing.T, do func(t *testing.T, d *desk, to Options)) {
	t.Helper()
	t.Run("to another file", func(t *testing.T) {
		t.Parallel()
		d := aFile(t)
		d.fillAll(8)
		do(t, d, newFile(t, d.clock))
	})
	if !dbtest.OnPostgres() {
		return
	}
	_, onServer := aServer(t, 40)
	t.Run("to a server", func(t *testing.T) {
		t.Parallel()
		d := aFile(t)
		d.fillAll(8)
		do(t, d, ofAccountNew(t, onServer, "acme", d.clock))
	})
	t.Run("back", func(t *testing.T) {
		t.Parallel()
		d := aFile(t)
		d.opts = ofAccountNew(t, onServer, "beta", d.clock)
		d.reopen()
		d.fillAll(8)
		do(t, d, newFile(t, d.clock))
	})
}

// works reports whether a ledger opens and can be written to.
func works(t *testing.T, opts Options) bool {
	t.Helper()
	l, err := Open(t.Context(), opts)
	if err != nil {
		return false
	}
	defer func() { _ = l.Close() }()
	return l.Ping(t.Context()) == nil
}
