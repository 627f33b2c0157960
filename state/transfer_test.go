package state

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/state/internal/dbtest"
)

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
			{"before they are kept", func(_, to *Options) func(string) error { return diesCommitting(to, false) },
				carriedNowhere, carriedNowhere},
			{"when they are kept", func(_, to *Options) func(string) error { return diesCommitting(to, true) }, carriedNowhere,
				carriedArriving},
			{"all was told of that", at("arrived"), carriedNowhere, carriedArriving},
			{"before it has left", func(from, _ *Options) func(string) error { return diesCommitting(from, false) },
				carriedNowhere, carriedArriving},
			{"when it has left", func(from, _ *Options) func(string) error { return diesCommitting(from, true) }, carriedLeft,
				carriedArriving},
			{"all was told of that, too", at("left"), carriedLeft, carriedArriving},
			{"before it works there", func(_, to *Options) func(string) error { return diesCommitting(to, false) }, carriedLeft,
				carriedArriving},
			{"when it works there", func(_, to *Options) func(string) error { return diesCommitting(to, true) }, carriedLeft,
				carriedNowhere},
		} {
			from, now := *d, to
			stage := step.dies(&from.opts, &now)
			if _, _, err := from.carry(now, Transfer{Stage: stage}); !errors.Is(err, errDied) {
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
	p, err := readTransfer(t.Context(), l.reader)
	if err != nil {
		t.Fatal(err)
	}
	return p.state
}

func TestALedgerThatWentOnAfterItWasCopiedIsNotCarried(t *testing.T) {
	t.Parallel()
	journeys(t, func(t *testing.T, d *desk, to Options) {
		if _, _, err := d.carry(to, Transfer{Stage: func(s string) error {
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
		if _, _, err := d.carry(to, Transfer{}); !errors.Is(err, ErrGoneOn) {
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
		_, _, err := d.carry(to, Transfer{Stage: func(stage string) error {
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
		if rows := rowsOf(t, empty.reader,
			"SELECT (SELECT count(*) FROM payers) + (SELECT count(*) FROM audit) + commits FROM ledger"); rows[0] != "0" {
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
	rows := [][]any{{nil, nil}, {"", nil}, {nil, ""}, {"", ""}, {[]byte{}, ""}, {[]byte{}, []byte{}}, {"1", ""},
		{[]byte("1"), ""}, {int64(1), ""}, {int64(-1), ""}, {"a", "b"}, {"ab", ""}, {"n", nil}}
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
			if _, _, err := from.carry(to, Transfer{}); !errors.Is(err, want) {
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
		_, err = Transfer{From: d.opts, To: full.opts}.Run(t.Context())
		if !errors.Is(err, ErrServed) {
			t.Errorf("from under letters: %v", err)
		}
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		nothing := &desk{t: t, clock: d.clock, opts: newFile(t, d.clock)}
		nothing.reopen()
		if _, _, err := nothing.carry(newFile(t, d.clock), Transfer{}); !errors.Is(err, ErrNothing) {
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
		if _, _, err := d.carry(to, Transfer{}); err != nil {
			t.Fatal(err)
		}
		var refused *OpenError
		if err := here.Do(t.Context(), note("late")); !errors.As(err, &refused) ||
			!strings.Contains(refused.Why, "it was carried to") {
			t.Errorf("where it was: %v", err)
		}
		if err := there.Do(t.Context(), note("early")); !errors.Is(err, errPutBack) {
			t.Errorf("where it is: %v", err)
		}
		if _, _, err := d.carry(newFile(t, d.clock), Transfer{}); !errors.As(err, &refused) ||
			!strings.Contains(refused.Why, "it was carried to") {
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
		there, _, err := d.carry(ofAccountNew(t, onServer, name, d.clock), Transfer{})
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
		_, out, err := d.carry(to, Transfer{})
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
				err = tx.exec("INSERT INTO labels (connection, source_id, mapping, digest, label) VALUES (?, ?, 'm', 'd', ?)", acme,
					id, d.seal.box([]byte(canaryName), place("labels", "label", acme, id)))
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
	there, out, err := d.carry(ofAccountNew(t, onServer, "acme", d.clock), Transfer{})
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
	back, out, err := there.carry(place, Transfer{})
	if err != nil {
		t.Fatal(err)
	}
	back.carriedAs(held, 1)
	there.refusedHere("it was carried to "+back.path, "works there")
	if back.FoundGeneration() != FoundInStep {
		t.Errorf("the new file's mark says %q", back.FoundGeneration())
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
