package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// aFile is a ledger in a file, also where the tests keep theirs elsewhere.
func aFile(t testing.TB) *desk {
	t.Helper()
	clock := newClock()
	d := &desk{t: t, clock: clock, opts: newOptions(t, clock)}
	d.opts.inFile = true
	d.open1()
	return d
}

// open1 opens the ledger, which shut closes before the test ends.
func (d *desk) open1() {
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
		{"INSERT INTO alarm_messages (message_id, way, made_at, digest, body) VALUES ('a1', 'mail', ?, 'h', ?)", []any{at, box("alarm_messages", "body", "a1")}},
		{"INSERT INTO alarms (way, code, subject, connection, urgent, noticed_at, text, told) VALUES ('mail', 'full', '', '', 1, ?, 'The disk is full: läuft über; ''quoted''', 'a1')", []any{at}},
		{"INSERT INTO apart (connection, source_id, other_id, said_at) VALUES (?, 'c000', 'c001', ?)", []any{acme, at}},
		{"INSERT INTO budgets (scope) VALUES ('acme')", nil},
		{"INSERT INTO foreign_moves (path, change_id) SELECT 'name', min(change_id) FROM changes", nil},
		{"INSERT INTO forget_keys (key_id, key) VALUES ('k1', ?)", []any{box("forget_keys", "key", "k1")}},
		{"INSERT INTO tombstones (record, key_id, holds, marks, said_at, scrubbed) VALUES ('r', 'k1', 1, '[]', ?, 1)", []any{at}},
		{"INSERT INTO handovers (mandate_id, sent_on, noted_at, actor) VALUES ('m000', '2026-03-02', ?, 'ada')", []any{at}},
		{"INSERT INTO jobs (name, begun_at) VALUES ('backup', ?)", []any{at}},
		{"INSERT INTO letter_addresses (connection, source_id, recipient) VALUES (?, 'c000', 'h')", []any{acme}},
		{"INSERT INTO letter_approvals (approval_id, setup, batch, whole, letters, actor, at) VALUES (7, 's', 'b', 1, 3, 'ada', ?)", []any{at}},
		{"INSERT INTO letter_approved (approval_id, mandate_id, step, recipient) VALUES (7, 'm000', 0, 'h')", nil},
		{"INSERT INTO letter_journal (message_id, recipient, at) VALUES ('l1', 'h', ?)", []any{at}},
		{"INSERT INTO letter_stops (scope, why, actor, since) VALUES ('all', 'pause', 'ada', ?)", []any{at}},
		{`INSERT INTO letters (letter_id, mandate_id, step, kind, connection, source_id, recipient, setup, language, message_id, digest, looked_at, frozen_at, state, body)
			VALUES (9007199254740993, 'm000', 0, 'invitation', ?1, 'c000', 'h', 's', 'de', 'l1', 'h', ?2, ?2, 'frozen', ?3)`, []any{acme, at, box("letters", "body", "l1")}},
		{"INSERT INTO likenesses (kind, value, connection, source_id) VALUES ('name', 'h', ?, 'c000')", []any{acme}},
		{"INSERT INTO login_links (token_hash, person, role, made_at, expires_at, connections) VALUES ('t', 'ada', 'admin', ?1, ?1, '[\"acme\"]')", []any{at}},
		{"INSERT INTO logins (token_hash, data, expires_at) VALUES ('t', ?, ?)", []any{box("logins", "data", "t"), at}},
		{"INSERT INTO put_off (connection, source_id, reason, at, until, word) VALUES (?1, 'c000', 'r', ?2, ?2, -1)", []any{acme, at}},
		{"INSERT INTO round_trips (address, way, made_by, at) VALUES ('', 'put', 'person', ?)", []any{at}},
		{"INSERT INTO slots (scope, until) VALUES ('acme', ?)", []any{at}},
		{"INSERT INTO tokens (connection, token, generation) VALUES (?, ?, 1)", []any{acme, box("tokens", "token", acme)}},
		{"INSERT INTO two_way (connection) VALUES (?)", []any{acme}},
		{"INSERT INTO two_way_echoes (connection, source_id, at) VALUES (?, 'c000', ?)", []any{acme, at}},
		{"INSERT INTO users (name, role, generation, made_at, password) VALUES ('ada', 'admin', 1, ?, ?)", []any{at, box("users", "password", "ada")}},
		{"INSERT INTO webhook_refusals (day, reason, requests, first_at, last_at) VALUES ('2026-03-02', 'busy', 1, ?1, ?1)", []any{at}},
		{"INSERT INTO webhook_rotations (rotation_id, begun_at, secret, secret_at) VALUES (3, ?1, ?2, ?1)", []any{at, box("webhook_rotations", "secret", "3")}},
		{"INSERT INTO words (connection, source_id, billing_id, word, ticket, said_at) VALUES (?, 'c000', 'b000', 'reject', 1, ?)", []any{acme, at}},
		{"INSERT INTO writeback_approvals (connection, setup, batch, payers, actor, at) VALUES (?, 's', 'b', 1, 'ada', ?)", []any{acme, at}},
		{"INSERT INTO writeback_runs (connection, at, written, waiting, stuck) VALUES (?, ?, 1, 0, 0)", []any{acme, at}},
		{"INSERT INTO writebacks (connection, source_id, setup, field) VALUES (?, 'c000', 's', ?)", []any{acme, box("writebacks", "field", acme, "c000")}},
		{"UPDATE inbox SET body = x'' WHERE delivery_key = 'evt-000'", nil},
		{"UPDATE source_records SET record = ? WHERE source_id = 'c001'", []any{d.seal.box([]byte(strings.Repeat("ä long one ", 20_000)), place("source_records", "record", acme, "c001"))}},
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
func (d *desk) carry(to Options, how Carrying) (*desk, Carried, error) {
	d.t.Helper()
	_ = d.Close()
	to.KeyFile = d.opts.KeyFile
	how.From, how.To, how.By = d.opts, to, Entry{Actor: "ada", Reason: "ticket 90"}
	out, err := how.Carry(d.t.Context())
	there := &desk{t: d.t, clock: d.clock, opts: to}
	if err == nil {
		there.open1()
	}
	return there, out, err
}

// newFile is a place where no ledger is.
func newFile(t *testing.T, c *clock) Options {
	opts := newOptions(t, c)
	opts.inFile = true
	return opts
}

// ofAccountNew is the place of an account on opts' server.
func ofAccountNew(opts Options, name string, c *clock) Options {
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

func TestALedgerIsCarriedToAServerAndBackWithEveryValue(t *testing.T) {
	t.Parallel()
	_, onServer := aServer(t, 16)
	d := aFile(t)
	d.fillAll(16)
	before := d.values()
	there, out, err := d.carry(ofAccountNew(onServer, "acme", d.clock), Carrying{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Tables != len(before) || out.Rows < 200 || out.Resumed {
		t.Errorf("%+v of %d tables", out, len(before))
	}
	there.carriedAs(before, 1)
	d.refusedHere("it was carried to "+out.To, "Name that place in the configuration")
	there.do(func(tx *Tx) error { // rows get numbers of their own
		_, err := tx.Receive(Delivery{Key: "evt-new", Type: "dd-mandate", State: "received", Body: []byte("{}")})
		return errors.Join(err, tx.Audit(Entry{Actor: "ada", Action: "looked"}))
	})
	held := there.values()
	place := newFile(t, d.clock)
	back, out, err := there.carry(place, Carrying{})
	if err != nil {
		t.Fatal(err)
	}
	back.carriedAs(held, 1)
	there.refusedHere("it was carried to "+back.path, "works there")
	if back.Found() != FoundInStep {
		t.Errorf("the new file's mark says %q", back.Found())
	}
	if list := readFile(t, ForgottenList(back.path)); !strings.Contains(string(list), " r - ") {
		t.Errorf("the new file's list of forgotten payers is %q", list)
	}
	want := []string{"ada: ledger carried here " + out.From, "ada: looked ", "ada: ledger carried here " + d.path}
	if diff := cmp.Diff(want, back.actions(t, 3)); diff != "" {
		t.Error(diff)
	}
	back.do(note("goes on"))
}
