package state

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
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
		{"INSERT INTO alarm_messages (message_id, way, made_at, digest, body) VALUES ('a1', 'mail', ?, 'h', ?)", []any{at, box("alarm_messages", "body", "a1")}},
		{"INSERT INTO alarms (way, code, subject, connection, urgent, noticed_at, text, told) VALUES ('mail', 'full', '', '', 1, ?, 'The disk is full: läuft über; ''quoted''', 'a1')", []any{at}},
		{"INSERT INTO apart (connection, source_id, other_id, said_at) VALUES (?, 'c000', 'c001', ?)", []any{acme, at}},
		{"INSERT INTO budgets (scope) VALUES ('acme')", nil},
		{"INSERT INTO connection_decisions (old_connection, new_connection, decision, actor, reason, decided_at) VALUES (?, 'beta', 'separate', 'ada', 'ä reason', ?)", []any{acme, at}},
		{"INSERT INTO move_pairs (old_connection, old_id, new_connection, new_id, billing_id, old_key_name, old_key_value, actor, decided_at) VALUES (?1, 'c000', ?1, 'c001', 'b000', 'no', 'c000', 'ada', ?2)", []any{acme, at}},
		{"INSERT INTO match_candidates (connection, source_id, billing_id, score, reasons) VALUES (?, 'c000', 'b000', 62, 'name_typo')", []any{acme}},
		{"INSERT INTO duplicate_customers (billing_id, other_id, score, reasons, since) VALUES ('b000', 'b001', 75, 'name_typo', ?)", []any{at}},
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
		{"INSERT INTO likenesses (hash, payer_id) SELECT -9223372036854775800, payer_id FROM payers WHERE connection = ? AND source_id = 'c000'", []any{acme}},
		{"INSERT INTO login_links (token_hash, person, role, made_at, expires_at, connections) VALUES ('t', 'ada', 'admin', ?1, ?1, '[\"acme\"]')", []any{at}},
		{"INSERT INTO logins (token_hash, data, expires_at) VALUES ('t', ?, ?)", []any{box("logins", "data", "t"), at}},
		{"INSERT INTO put_off (connection, source_id, reason, at, until, word) VALUES (?1, 'c000', 'r', ?2, ?2, -1)", []any{acme, at}},
		{"INSERT INTO round_trips (address, way, made_by, at) VALUES ('', 'put', 'person', ?)", []any{at}},
		{"INSERT INTO sign_in_attempts (counter, kind, wrong, wait_until, expires_at) VALUES ('h', 'stranger', 3, ?1, ?1)", []any{at}},
		{"INSERT INTO slots (scope, until) VALUES ('acme', ?)", []any{at}},
		{"INSERT INTO tokens (connection, token, generation) VALUES (?, ?, 1)", []any{acme, box("tokens", "token", acme)}},
		{"INSERT INTO two_way (connection) VALUES (?)", []any{acme}},
		{"INSERT INTO create_stops (connection, cause, since) VALUES (?, 'first_matching', ?)", []any{acme, at}},
		{"INSERT INTO unclaimed_keys (connection, billing_id, key, ticket) VALUES (?, 'b000', 'customerNo=K1', 1)", []any{acme}},
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

var errDied = errors.New("the process died")

// Of the two, never both work, and the same call goes on.
//
// covers F188
func TestALedgerThatIsCarriedDiesOnTheWayAndGoesOn(t *testing.T) {
	t.Parallel()
	journeys(t, func(t *testing.T, d *desk, to Options) {
		before := d.values()
		at := func(stage string) func(_, _ *Options) func(string) error {
			return func(_, _ *Options) func(string) error {
				return func(s string) error {
					if s == stage {
						return errDied
					}
					return nil
				}
			}
		}
		for _, step := range []struct {
			name        string
			dies        func(from, to *Options) func(stage string) error
			here, there string // how the two stand then
		}{
			{"nothing was done", at("begun"), carriedNowhere, carriedNowhere},
			{"the rows were written", at("brought"), carriedNowhere, carriedNowhere},
			{"before they are kept", func(_, to *Options) func(string) error { return diesCommitting(to, false) }, carriedNowhere, carriedNowhere},
			{"when they are kept", func(_, to *Options) func(string) error { return diesCommitting(to, true) }, carriedNowhere, carriedArriving},
			{"all was told of that", at("arrived"), carriedNowhere, carriedArriving},
			{"before it has left", func(from, _ *Options) func(string) error { return diesCommitting(from, false) }, carriedNowhere, carriedArriving},
			{"when it has left", func(from, _ *Options) func(string) error { return diesCommitting(from, true) }, carriedLeft, carriedArriving},
			{"all was told of that, too", at("left"), carriedLeft, carriedArriving},
			{"before it works there", func(_, to *Options) func(string) error { return diesCommitting(to, false) }, carriedLeft, carriedArriving},
			{"when it works there", func(_, to *Options) func(string) error { return diesCommitting(to, true) }, carriedLeft, carriedNowhere},
		} {
			from, now := *d, to
			stage := step.dies(&from.opts, &now)
			if _, _, err := from.carry(now, Carrying{Stage: stage}); !errors.Is(err, errDied) {
				t.Fatalf("%s: %v", step.name, err)
			}
			if here, there := passageOf(t, d.opts), passageOf(t, withKey(to, d)); here != step.here || there != step.there {
				t.Errorf("%s: it is %q here and %q there", step.name, here, there)
			}
		}
		d.refusedHere("it was carried to")
		there := &desk{t: t, clock: d.clock, opts: withKey(to, d)}
		there.reopen()
		there.carriedAs(before, 1)
		there.do(note("goes on"))
	})
}

// diesCommitting has the process die with the next commit of a ledger, before it or when it was made.
func diesCommitting(of *Options, done bool) func(string) error {
	of.Commit = func(after bool) error {
		if after == done {
			return errDied
		}
		return nil
	}
	return nil
}

func withKey(o Options, d *desk) Options {
	o.KeyFile = d.opts.KeyFile
	return o
}

// passageOf reads how a ledger stands, which need not work.
func passageOf(t *testing.T, o Options) string {
	t.Helper()
	o.carrying = true
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	p, err := readPassage(t.Context(), l.reader)
	if err != nil {
		t.Fatal(err)
	}
	return p.state
}

func TestALedgerThatWentOnAfterItWasCopiedIsNotCarried(t *testing.T) {
	t.Parallel()
	journeys(t, func(t *testing.T, d *desk, to Options) {
		if _, _, err := d.carry(to, Carrying{Stage: func(s string) error {
			if s == "arrived" {
				return errDied
			}
			return nil
		}}); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		arriving := &desk{t: t, clock: d.clock, opts: withKey(to, d)}
		arriving.refusedHere("where it may still be at work", "Copy it again in the same way")
		d.reopen()
		d.do(note("went on"))
		if _, _, err := d.carry(to, Carrying{}); !errors.Is(err, ErrGoneOn) {
			t.Errorf("got %v", err)
		}
		arriving.refusedHere()
		if !works(t, d.opts) {
			t.Error("it works no more where it is")
		}
	})
}

// What differs is found by reading it back, whatever made it so.
//
// covers F188
func TestADifferenceOnTheWayIsFoundAndNothingIsKept(t *testing.T) {
	t.Parallel()
	journeys(t, func(t *testing.T, d *desk, to Options) {
		before := d.values()
		empty := &desk{t: t, clock: d.clock, opts: withKey(to, d)}
		empty.reopen()
		inFile := empty.below.isFile()
		if !inFile {
			for _, statement := range spoils[inFile] {
				if _, err := empty.writer.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = empty.Close()
		_, _, err := d.carry(to, Carrying{Stage: func(stage string) error {
			if inFile && stage == "begun" { // a file with another schema does not open
				inLedgerFile(t, to.Path, spoils[inFile]...)
			}
			return nil
		}})
		if !errors.Is(err, ErrDiffers) || !strings.Contains(fmt.Sprint(err), "of table payers") {
			t.Errorf("got %v", err)
		}
		if inFile {
			inLedgerFile(t, to.Path, "DROP TRIGGER spoil")
		}
		empty.reopen()
		if rows := rowsOf(t, empty.reader, "SELECT (SELECT count(*) FROM payers) + (SELECT count(*) FROM audit) + commits FROM ledger"); rows[0] != "0" {
			t.Errorf("%s rows and writes were kept", rows[0])
		}
		d.reopen()
		d.carriedAs(before, 0)
		d.do(note("goes on"))
	})
}

// inLedgerFile runs statements on a ledger's file, also where the tests keep their ledgers elsewhere.
func inLedgerFile(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// spoils alter one value of a row that is written, in a file and on a server.
var spoils = map[bool][]string{
	true: {"CREATE TRIGGER spoil AFTER INSERT ON payers WHEN new.source_id = 'c001' BEGIN UPDATE payers SET shows = shows || ' ' WHERE source_id = new.source_id; END"},
	false: {
		"CREATE FUNCTION spoiled() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.source_id = 'c001' THEN NEW.shows := NEW.shows || ' '; END IF; RETURN NEW; END $$",
		"CREATE TRIGGER spoil BEFORE INSERT ON payers FOR EACH ROW EXECUTE FUNCTION spoiled()",
	},
}

func TestValuesOfOtherTypesAreOthers(t *testing.T) {
	t.Parallel()
	rows := [][]any{{nil, nil}, {"", nil}, {nil, ""}, {"", ""}, {[]byte{}, ""}, {[]byte{}, []byte{}}, {"1", ""}, {[]byte("1"), ""}, {int64(1), ""}, {int64(-1), ""}, {"a", "b"}, {"ab", ""}, {"n", nil}}
	seen := map[string][]any{}
	for _, row := range rows {
		var text []byte
		for _, v := range row {
			var err error
			if text, err = appendValue(text, v); err != nil {
				t.Fatal(err)
			}
		}
		if other, known := seen[string(text)]; known {
			t.Errorf("%#v is taken for %#v", row, other)
		}
		seen[string(text)] = row
	}
	if _, err := appendValue(nil, 1.5); err == nil {
		t.Error("a number that no ledger holds is taken")
	}
}

func TestALedgerIsNotCarriedOverAnythingNorFromUnderAnybody(t *testing.T) {
	t.Parallel()
	journeys(t, func(t *testing.T, d *desk, to Options) {
		refused := func(name string, want error, from *desk, to Options) {
			t.Helper()
			if _, _, err := from.carry(to, Carrying{}); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
			from.reopen()
			from.do(note("goes on"))
		}
		full := &desk{t: t, clock: d.clock, opts: withKey(to, d)}
		full.reopen()
		full.do(note("its own"))
		_ = full.Close()
		refused("over another", ErrNotNew, d, full.opts)
		run := d.run("beta")
		refused("from under a run", ErrRunning, d, full.opts)
		d.do(func(tx *Tx) error { _, _, err := tx.CloseRun(run, "beta", connector.RunFailed, "", nil); return err })
		lock, err := d.TryOutbox(MessageLetter)
		if err != nil || lock == nil {
			t.Fatal(lock, err)
		}
		_, err = Carrying{From: d.opts, To: full.opts}.Carry(t.Context())
		if !errors.Is(err, ErrServed) {
			t.Errorf("from under letters: %v", err)
		}
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		nothing := &desk{t: t, clock: d.clock, opts: newFile(t, d.clock)}
		nothing.reopen()
		if _, _, err := nothing.carry(newFile(t, d.clock), Carrying{}); !errors.Is(err, ErrNothing) {
			t.Errorf("nothing: %v", err)
		}
		beside := newFile(t, d.clock)
		if err := os.WriteFile(ForgottenList(beside.Path), []byte("of another"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused("beside what another left", ErrNotNew, d, beside)
	})
}

// A process with either side open learns of it at its next write.
func TestAProcessThatHasALedgerOpenCannotWriteToItOnceItWasCarried(t *testing.T) {
	t.Parallel()
	journeys(t, func(t *testing.T, d *desk, to Options) {
		here, there := d.another(), (&desk{t: t, opts: withKey(to, d)}).another()
		if _, _, err := d.carry(to, Carrying{}); err != nil {
			t.Fatal(err)
		}
		var refused *OpenError
		if err := here.Do(t.Context(), note("late")); !errors.As(err, &refused) || !strings.Contains(refused.Why, "it was carried to") {
			t.Errorf("where it was: %v", err)
		}
		if err := there.Do(t.Context(), note("early")); !errors.Is(err, errPutBack) {
			t.Errorf("where it is: %v", err)
		}
		if _, _, err := d.carry(newFile(t, d.clock), Carrying{}); !errors.As(err, &refused) || !strings.Contains(refused.Why, "it was carried to") {
			t.Errorf("a second time: %v", err)
		}
	})
}

// Numbers of rows are an account's own, and what gives new ones is of all.
func TestLedgersWithTheSameNumbersAreCarriedToOneServer(t *testing.T) {
	t.Parallel()
	_, onServer := aServer(t, 16)
	var all []*desk
	var held []map[string][]string
	for _, name := range []string{"acme", "beta"} {
		d := aFile(t)
		d.fillAll(8)
		held = append(held, d.values())
		there, _, err := d.carry(ofAccountNew(t, onServer, name, d.clock), Carrying{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, there)
	}
	for i, d := range all {
		d.carriedAs(held[i], 1)
	}
	for _, d := range all {
		for range 3 {
			d.do(note("goes on"))
		}
		d.closeRun(d.run(acme), connector.RunComplete)
	}
}

func BenchmarkCarry(b *testing.B) {
	onPostgres := dbtest.OnPostgres()
	rows := 0
	for b.Loop() {
		b.StopTimer()
		d := aFile(b)
		d.fillMany(20_000)
		to := newOptions(b, d.clock)
		to.inFile = !onPostgres
		b.StartTimer()
		_, out, err := d.carry(to, Carrying{})
		if err != nil {
			b.Fatal(err)
		}
		rows += out.Rows
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

// fillMany writes so many records, each with its label.
func (d *desk) fillMany(records int) {
	d.t.Helper()
	d.closeRun(d.run(acme), connector.RunComplete)
	d.do(func(tx *Tx) error {
		for i := range records {
			id := fmt.Sprintf("c%06d", i)
			err := tx.exec("INSERT INTO source_records (connection, source_id, content_hash, record, state, updated_at) VALUES (?, ?, 'h', ?, 'active', ?)", acme, id, d.seal.box([]byte(strings.Repeat("x", 500)), place("source_records", "record", acme, id)), stamp(tx.now))
			if err == nil {
				err = tx.exec("INSERT INTO labels (connection, source_id, mapping, digest, label) VALUES (?, ?, 'm', 'd', ?)", acme, id, d.seal.box([]byte(canaryName), place("labels", "label", acme, id)))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func TestALedgerIsCarriedToAServerAndBackWithEveryValue(t *testing.T) {
	t.Parallel()
	_, onServer := aServer(t, 16)
	d := aFile(t)
	d.fillAll(16)
	before := d.values()
	there, out, err := d.carry(ofAccountNew(t, onServer, "acme", d.clock), Carrying{})
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
