package state

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// pull is one run of acme that reads a snapshot, to its end or not.
type pull struct {
	shows  string // ids, with a "!" behind one whose content changed
	breaks bool   // before its end
}

// read makes the run, as syncer does, and closes it.
func (d *desk) read(r pull) {
	d.t.Helper()
	run := d.run(acme)
	for _, id := range strings.Fields(r.shows) {
		id, changed := strings.CutSuffix(id, "!")
		d.save(run, acme, record(id, fmt.Sprint("as it was", map[bool]int64{true: run}[changed])))
	}
	if !r.breaks {
		d.readWhole(run)
		d.do(func(tx *Tx) error { return tx.DropMissing(run, acme) })
	}
	d.closeRun(run, connector.RunIncomplete)
}

// gone returns the records of acme that count as gone.
func (d *desk) gone() string {
	d.t.Helper()
	found, err := d.ids(context.Background(), "SELECT source_id FROM source_records WHERE unseen = 1 ORDER BY source_id")
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.Join(found, " ")
}

// covers F44, F45
func TestARecordIsGoneWhenAReadingThatCameToItsEndDidNotShowIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		readings []pull
		want     string
	}{
		"shown again":                             {[]pull{{shows: "a b"}, {shows: "a b"}}, ""},
		"not shown":                               {[]pull{{shows: "a b"}, {shows: "a"}}, "b"},
		"not shown by a reading that breaks off":  {[]pull{{shows: "a b"}, {shows: "a", breaks: true}}, ""},
		"back as it was":                          {[]pull{{shows: "a b"}, {shows: "a"}, {shows: "a b"}}, ""},
		"back and changed":                        {[]pull{{shows: "a b"}, {shows: "a"}, {shows: "a b!"}}, ""},
		"back in a reading that breaks off":       {[]pull{{shows: "a b"}, {shows: "a"}, {shows: "b", breaks: true}}, ""},
		"still away":                              {[]pull{{shows: "a b"}, {shows: "a"}, {shows: "a"}}, "b"},
		"still away in a reading that breaks off": {[]pull{{shows: "a b"}, {shows: "a"}, {shows: "a", breaks: true}}, "b"},
		"away again": {[]pull{{shows: "a b"}, {shows: "a"}, {shows: "a b"}, {shows: "a"}},
			"b"},
		"met by a reading that broke off before":    {[]pull{{shows: "a b"}, {shows: "b", breaks: true}, {shows: "a"}}, "b"},
		"changed in a reading that broke off":       {[]pull{{shows: "a b"}, {shows: "b!", breaks: true}, {shows: "a"}}, "b"},
		"all of them":                               {[]pull{{shows: "a b"}, {}}, "a b"},
		"all of them, and one is back":              {[]pull{{shows: "a b"}, {}, {shows: "b"}}, "a"},
		"new in a reading that broke off, and away": {[]pull{{shows: "a"}, {shows: "c", breaks: true}, {shows: "a"}}, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			for _, r := range c.readings {
				d.read(r)
			}
			if got := d.gone(); got != c.want {
				t.Errorf("gone are %q, want %q", got, c.want)
			}
		})
	}
}

// What was asked by the number of the run that had met a record last is answered as it was
// then, whatever readings came before.
//
// covers F44, F45, F61
func TestWhatARunMissedIsWhatItDidNotMeet(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	random := rand.New(rand.NewPCG(5, 8))
	last := map[string]int64{} // the run that met a record last
	whole := int64(0)          // the newest that came to its end
	for round := range 60 {
		run := d.run(acme)
		for n := range 12 {
			id := fmt.Sprint("r", n)
			if random.IntN(4) == 0 || round < 3 && n > 6 {
				continue
			}
			d.save(run, acme, record(id, fmt.Sprint("as it was", max(0, random.IntN(8)-6))))
			last[id] = run
		}
		if random.IntN(3) > 0 {
			d.readWhole(run)
			var missed []string
			for id, by := range last {
				if by != run {
					missed = append(missed, id)
				}
			}
			slices.Sort(missed)
			got, err := d.ids(t.Context(), "SELECT source_id FROM source_records WHERE missed = 1 ORDER BY source_id")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(missed, got); diff != "" {
				t.Fatalf("round %d: missed are (-want +got):\n%s", round, diff)
			}
			if random.IntN(4) > 0 { // otherwise it came to a standstill
				d.do(func(tx *Tx) error { return tx.DropMissing(run, acme) })
				whole = run
			}
		}
		var there []string
		for id, by := range last {
			if by >= whole {
				there = append(there, id)
			}
		}
		slices.Sort(there)
		candidates, err := d.Candidates(t.Context(), acme, mapping, true, "", 100)
		if diff := cmp.Diff(there, ids(candidates)); err != nil || diff != "" {
			t.Fatalf("round %d: there are (-want +got, %v):\n%s", round, err, diff)
		}
		met := 0
		for _, by := range last {
			if by == run {
				met++
			}
		}
		if counts, _ := d.closeRun(run, connector.RunIncomplete); counts.Pulled != met {
			t.Fatalf("round %d: the run counts %d records, want %d", round, counts.Pulled, met)
		}
	}
}

// covers F61
func TestARunThatWasTakenOverMissesNobody(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.read(pull{shows: "a b"})
	older := d.run(acme)
	d.save(older, acme, record("a", "as it was0"))
	d.clock.move(Lease)
	newer := d.run(acme)
	d.save(newer, acme, record("b", "as it was0"))
	if _, err := d.MarkMissing(t.Context(), older, acme, d.metBy(older)); !errors.Is(err, ErrLeaseLost) {
		t.Fatalf("the older run ended its reading: %v", err)
	}
	d.save(newer, acme, record("a", "as it was0"))
	d.readWhole(newer)
	d.do(func(tx *Tx) error { return tx.DropMissing(newer, acme) })
	if _, err := d.MarkMissing(t.Context(), older, acme, d.metBy(older)); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("the older run ended its reading after the newer: %v", err)
	}
	if got := d.gone(); got != "" {
		t.Errorf("%q count as gone", got)
	}
}

// A ledger that is put back holds what was missed when it was copied. The next reading tells.
//
// covers F64
func TestAReadingAfterARestoreTellsWhoIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after, then, want string }{
		"one that has left since the copy":        {"a b", "a", "a", "b"},
		"one that had left, and is back":          {"a", "a b", "a b", ""},
		"one that left since, and is back":        {"a b", "a", "a b", ""},
		"one that is back since, and left again":  {"a", "a b", "a", "b"},
		"one that came after the copy, and stays": {"a b", "a b c", "a b c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.read(pull{shows: "a b"})
			d.read(pull{shows: c.before})
			copied := d.snapshot()
			d.read(pull{shows: c.after})
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d.putBack(copied)
			d.Ledger = d.opens(FoundOlder)
			d.met = nil // a process of its own
			d.read(pull{shows: c.then})
			if got := d.gone(); got != c.want {
				t.Errorf("gone are %q, want %q", got, c.want)
			}
		})
	}
}

func TestAPageHasNewsOfWhatTheLedgerDoesNotHoldAsItIs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.read(pull{shows: "same changed moved unreadable twice away"})
	d.read(pull{shows: "same changed moved unreadable twice"})
	as := func(id string) connector.Record { return record(id, "as it was0") }
	moved, unreadable := as("moved"), as("unreadable")
	moved.Origin, unreadable.Problem = "line 9", "It has too few fields."
	page := []connector.Record{as("same"), record("changed", "otherwise"), moved, unreadable, record("twice", "otherwise"),
		as("twice"), as("away"), as("new")}
	news, err := d.PageChanges(t.Context(), acme, mapping, page, map[string]Forgotten{"barred": ForgottenPayer})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range news.Records {
		got = append(got, r.SourceID)
	}
	if diff := cmp.Diff([]string{"changed", "moved", "unreadable", "twice", "twice", "away", "new"}, got); diff != "" {
		t.Errorf("news (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]Forgotten{"barred": ForgottenPayer}, news.Bars); diff != "" {
		t.Errorf("to bar (-want +got):\n%s", diff)
	}
	d.do(func(tx *Tx) error { return tx.Bar(acme, "barred", ForgottenPayer) })
	for how, want := range map[Forgotten]int{ForgottenPayer: 0, ForgottenOther: 1, ForgottenNot: 1} {
		if news, err := d.PageChanges(t.Context(), acme, mapping, nil, map[string]Forgotten{"barred": how}); err != nil ||
			len(news.Bars) != want {
			t.Errorf("barred as %q there is news of %v (%v), want %d", how, news.Bars, err, want)
		}
	}
}

// covers F70
func TestWhoWasMissedBeforeAnUpgradeIsMissedAfterIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		described string
		unseen    int
		want      string
	}{
		"a snapshot that noted it":                              {`{"Snapshot":true}`, 1, "c2"},
		"a snapshot whose reading knew no other way to note it": {`{"Snapshot":true}`, 0, "c2"},
		"a source that gives changes":                           {`{"Snapshot":false}`, 0, ""},
		"a source that never said what it is":                   {``, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ofVersion(t, 58)
			raw(t, d.opts.Path,
				"INSERT INTO runs (run_id, connection, kind, trigger, mapping_version, holder, lease_until, started_at, finished_at, outcome) SELECT 2, connection, kind, trigger, mapping_version, holder, lease_until, started_at, finished_at, outcome FROM runs WHERE run_id = 1",
				"UPDATE source_records SET last_seen_run = 2 WHERE source_id = 'c1'",
				fmt.Sprintf("UPDATE source_records SET unseen = %d WHERE source_id = 'c2'", c.unseen),
				"UPDATE connections SET tenant_id = 't1', described = '"+c.described+"'",
				"INSERT INTO cursors (connection, stream, value, set_by_run) VALUES ('acme', 'customers', 'x', 2)")
			d.Ledger = d.opens(FoundInStep)
			missed, err := d.ids(t.Context(), "SELECT source_id FROM source_records WHERE missed = 1")
			if got := d.gone(); got != c.want || err != nil || strings.Join(missed, " ") != c.want {
				t.Errorf("gone are %q and missed %q (%v), want %q", got, missed, err, c.want)
			}
			d.read(pull{shows: "c1 c2"})
			if got := d.gone(); got != "" {
				t.Errorf("after a reading that shows both, gone are %q", got)
			}
		})
	}
}
