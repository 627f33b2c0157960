package state

import (
	"errors"
	"strings"
	"testing"
	"time"

	"payersync/state/internal/testdb"
)

// onReplica opens the ledger of d on a replica of its server, which is so far behind.
func onReplica(t *testing.T, d *desk, address string) (l *Ledger, behind time.Duration) {
	t.Helper()
	r, behind, err := d.opts.Server.Replica(t.Context(), address, 4)
	must(t, err)
	t.Cleanup(r.Close)
	opts := d.opts
	opts.Server, opts.Account = r, "acme"
	l, err = Open(t.Context(), opts)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l, behind
}

func TestAReplicaShowsWhatWasDoneJustNowOrSaysHowFarItIsBehind(t *testing.T) {
	t.Parallel()
	pair, d := aPair(t)
	notes := func(l *Ledger) int {
		t.Helper()
		subjects, err := l.ids(t.Context(), "SELECT subject FROM audit WHERE action = 'note'")
		must(t, err)
		return len(subjects)
	}
	for i := range 3 {
		d.do(note("one more"))
		l, behind := onReplica(t, d, pair.Standby())
		if got := notes(l); got != i+1 || behind != 0 {
			t.Errorf("of %d writes it shows %d, and is %v behind", i+1, got, behind)
		}
		if err := l.Do(t.Context(), note("on the replica")); !errors.Is(err, errLooksOn) {
			t.Errorf("a write there ended with %v", err)
		}
	}
	must(t, pair.ManageStandby("SELECT pg_wal_replay_pause()"))
	d.do(note("not there yet"))
	l, behind := onReplica(t, d, pair.Standby())
	if got := notes(l); got != 3 || behind <= 0 || behind > replicaLate {
		t.Errorf("held back it shows %d of 3 writes, and is %v behind", got, behind)
	}
	must(t, pair.ManageStandby("SELECT pg_wal_replay_resume()"))
	patiently(t, "the write to arrive", func() bool { return notes(l) == 4 })
}

func TestWhatIsNoReplicaOfTheDatabaseIsNotReadFrom(t *testing.T) {
	t.Parallel()
	pair, d := aPair(t)
	other, err := testdb.New()
	must(t, err)
	refused := func(name, address, why string) {
		t.Helper()
		if _, _, err := d.opts.Server.Replica(t.Context(), address, 4); !errors.Is(err, ErrReplica) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("another database", other, "takes writes itself")
	refused("another of its databases", strings.Replace(pair.Standby(), "dbname=ledger", "dbname=postgres", 1), "another database of the same server")
	refused("a role that sees all", strings.Replace(pair.Standby(), "user=ledger", "user=postgres", 1), "keep accounts apart")
	must(t, pair.ManageStandby("SELECT pg_wal_replay_pause()"))
	must(t, pair.Manage("SELECT 1")) // the primary is there
	if _, err := d.opts.Server.write.Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)"); err != nil {
		t.Fatal(err)
	}
	refused("one with older tables", pair.Standby(), "still, and those of the primary of 99")
	must(t, pair.Away())
	refused("one that is away", pair.Standby(), "cannot be reached")
	must(t, pair.Back())
	must(t, pair.Lose())
	must(t, pair.Promote())
	patiently(t, "the standby in the primary's place", func() bool { return d.opts.Server.read.Ping(t.Context()) == nil })
	refused("one that was promoted", pair.Standby(), "takes writes itself")
}

// What it says of itself counts only beside what the primary says.
func TestAStandbyIsKnownByItsPrimary(t *testing.T) {
	t.Parallel()
	now := newClock().now()
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	primary := whereabouts{7, 5, "00000002", 1000, &now}
	for name, tt := range map[string]struct {
		standby whereabouts
		behind  time.Duration
		says    string
	}{
		"one that has all":                    {whereabouts{7, 5, "00000002", 1000, ago(time.Hour)}, 0, ""},
		"one that has more by now":            {whereabouts{7, 5, "00000002", 1001, nil}, 0, ""},
		"one that is late":                    {whereabouts{7, 5, "00000002", 999, ago(3 * time.Second)}, 3 * time.Second, ""},
		"one whose newest commit is the same": {whereabouts{7, 5, "00000002", 999, &now}, time.Millisecond, ""},
		"one that cannot say":                 {whereabouts{7, 5, "00000002", 999, nil}, 0, "cannot say how late"},
		"one of another server":               {whereabouts{8, 5, "00000002", 1000, &now}, 0, "another server"},
		"one of another database":             {whereabouts{7, 6, "00000002", 1000, &now}, 0, "another database"},
		"one that follows the old primary":    {whereabouts{7, 5, "00000001", 5000, &now}, 0, "before a promotion"},
	} {
		behind, err := primary.ahead(tt.standby)
		if behind != tt.behind || (err == nil) != (tt.says == "") || err != nil && (!errors.Is(err, ErrReplica) || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, %v", name, behind, err)
		}
	}
	for behind, near := range map[time.Duration]bool{time.Second: true, replicaLate: true, replicaLate + time.Second: false} {
		if err := nearEnough(behind); (err == nil) != near {
			t.Errorf("%v behind: %v", behind, err)
		}
	}
}
