//go:build unix

package state

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/internal/longtest"
)

// A ledger with one flipped bit is refused, reported by the integrity check,
// refuses to open the value, or holds what it held. PAYERSYNC_STATE_FLIPS sets
// the number of bits.
//
// covers F63
func TestAFlippedBitIsNeverAWrongAnswer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(24)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	sound := readFile(t, d.opts.Path)
	l := d.another()
	want, err := dump(t.Context(), l)
	if err := errors.Join(err, readAll(t.Context(), l), l.Integrity(t.Context()), l.Close()); err != nil {
		t.Fatalf("the sound ledger: %v", err)
	}

	const seed = 20261123
	random := rand.New(rand.NewPCG(seed, 0))
	found := map[string]int{}
	flips := times(t, "PAYERSYNC_STATE_FLIPS", longtest.Number(8, 80))
	lacks := func() bool { return flips >= 80 && (found["refused"] == 0 || found["reported"] == 0) }
	for n := 0; n < flips || n < 5*flips && lacks(); n++ { // how much of the file is empty depends on the schema
		at, bit := random.IntN(len(sound)), random.IntN(8)
		if random.IntN(8) == 0 {
			at = random.IntN(200) // the header and the schema's root deserve more than their share
		}
		broken := slices.Clone(sound)
		broken[at] ^= 1 << bit
		opts := d.opts
		opts.Path = filepath.Join(t.TempDir(), "payersync.db")
		if err := os.WriteFile(opts.Path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		how, differ := judge(t, opts, want)
		found[how]++
		if wrong := unlisted(differ); len(wrong) > 0 {
			t.Errorf("seed %d: byte %d, bit %d: %v differ and nothing says so", seed, at, bit, wrong)
		}
	}
	t.Logf("seed %d: %v", seed, found)
	if lacks() {
		t.Errorf("no flip was refused, or none was reported by the integrity check: %v", found)
	}
}

// judge opens a damaged ledger and says how the damage showed, and which
// columns differ although nothing shows it.
func judge(t *testing.T, opts Options, want map[string][]string) (how string, differ []string) {
	t.Helper()
	l, err := Open(t.Context(), opts)
	if err != nil {
		return "refused", nil
	}
	defer func() { _ = l.Close() }()
	if l.WaitForIntegrity(t.Context()) != nil {
		if err := l.Ping(t.Context()); err == nil {
			t.Error("a damaged ledger was written to")
		}
		return "refused", nil
	}
	if err := l.Integrity(t.Context()); err != nil {
		return "reported", nil
	}
	got, err := dump(t.Context(), l)
	if err != nil || readAll(t.Context(), l) != nil {
		return "unreadable", nil
	}
	for name := range want {
		if !slices.Equal(want[name], got[name]) {
			differ = append(differ, name)
		}
	}
	if slices.Sort(differ); differ != nil {
		return "in an unchecked column", differ
	}
	return "intact", nil
}

// places returns where each table keeps what its columns hold.
func places(t *testing.T, l *Ledger, file []byte) map[string]map[string][]kept {
	t.Helper()
	type column struct {
		table, name string
		root        int
		number      bool // of the row, in a table that has them
	}
	columns, err := list(t.Context(), l,
		`SELECT m.name, c.name, m.rootpage, NOT l.wr AND c.pk > 0 AND c.type = 'INTEGER' AND count() FILTER (WHERE c.pk > 0) OVER (PARTITION BY m.name) = 1
		FROM sqlite_master m JOIN pragma_table_list l ON l.name = m.name, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'goose_%'
		ORDER BY m.name, CASE WHEN l.wr AND c.pk > 0 THEN c.pk ELSE 1000 + c.cid END`,
		nil, func(c *column) []any { return []any{&c.table, &c.name, &c.root, &c.number} })
	if err != nil {
		t.Fatal(err)
	}
	trees, roots, out := map[string]leaves{}, map[string]int{}, map[string]map[string][]kept{}
	for _, c := range columns {
		name, tree := c.table+"."+c.name, trees[c.table]
		tree.file, tree.columns = file, append(tree.columns, name)
		if c.number {
			tree.rowID = name
		}
		if out[c.table] == nil {
			out[c.table] = map[string][]kept{}
		}
		trees[c.table], roots[c.table], out[c.table][name] = tree, c.root, nil
	}
	for table, tree := range trees {
		tree.each(roots[table], func(row []kept) {
			for _, k := range row {
				out[table][k.column] = append(out[table][k.column], k)
			}
		})
	}
	return out
}

// In every column with a value a flipped bit is noticed, unless the column is listed as unchecked; and listed
// ones are really unchecked. The bit is flipped in the table, not in an index.
//
// covers F63
func TestEveryColumnIsVouchedForOrKnownNotToBe(t *testing.T) {
	longtest.Story(t, longtest.Computing)
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's own catalogue")
	d := newDesk(t)
	sound := d.fullest()
	l := d.another()
	tables := places(t, l, sound)
	want, err := dump(t.Context(), l)
	if err := errors.Join(err, readAll(t.Context(), l), l.Integrity(t.Context()), l.Close()); err != nil {
		t.Fatalf("the sound ledger: %v", err)
	}
	if !bytes.Equal(sound, readFile(t, d.opts.Path)) {
		t.Fatal("to read the ledger has written to it: the places are not the file's")
	}
	for _, name := range unchecked {
		table, _, _ := strings.Cut(name, ".")
		if _, is := tables[table][name]; !is {
			t.Errorf("%s is listed, and no column", name)
		}
	}
	for table, columns := range tables {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			flip := func(bits ...kept) (how string, differ []string) {
				opts := d.opts
				opts.Path = filepath.Join(t.TempDir(), "payersync.db")
				broken := slices.Clone(sound)
				for _, b := range bits {
					broken[b.at] ^= 1
				}
				if err := os.WriteFile(opts.Path, broken, 0o600); err != nil {
					t.Fatal(err)
				}
				how, differ = judge(t, opts, want)
				if how == "intact" {
					t.Errorf("%v: flipped, and nothing differs", bits)
				}
				return how, differ
			}
			var together []kept
			for name, bits := range columns {
				switch {
				case len(bits) == 0:
					t.Logf("%s holds nothing here", name)
				case slices.Contains(unchecked, name):
					together = append(together, bits[0])
				default:
					for _, b := range slices.Compact([]kept{bits[0], bits[len(bits)-1]}) {
						_, differ := flip(b)
						if wrong := unlisted(differ); len(wrong) > 0 {
							t.Errorf("%s, byte %d: %v differ and nothing says so", name, b.at, wrong)
							break
						}
					}
				}
			}
			if together == nil {
				return
			}
			if _, differ := flip(together...); len(differ) == len(together) {
				return
			}
			for _, b := range together {
				bits := columns[b.column]
				if !slices.ContainsFunc(bits, func(b kept) bool { _, differ := flip(b); return len(differ) > 0 }) {
					t.Errorf("%s is listed, and something vouches for it", b.column)
				}
			}
		})
	}
}

// covers F63
func TestATruncatedLedgerIsNeverTakenForAWholeOne(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it cuts the file")
	d := newDesk(t)
	d.fill(8)
	want, err := dump(t.Context(), d.Ledger)
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	sound := readFile(t, d.opts.Path)
	for _, keep := range []int{1, 99, 100, 511, 512, 4095, 4096, len(sound) / 2, len(sound) - 4096} {
		if err := os.WriteFile(d.opts.Path, sound[:keep], 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, d.opts, "backup")
	}
	for _, lost := range []int{1, 40, 400} { // less than a page: the rest of the page reads as zeros
		if err := os.WriteFile(d.opts.Path, sound[:len(sound)-lost], 0o600); err != nil {
			t.Fatal(err)
		}
		how, differ := judge(t, d.opts, want)
		if wrong := unlisted(differ); len(wrong) > 0 {
			t.Errorf("%d bytes are lost: %s, %v differ and nothing says so", lost, how, wrong)
		}
	}
}

// A copy made by SQLite itself is a ledger, with everything in it.
//
// covers F65
func TestABackupByVacuumIntoOpensAndIsWhole(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a backup is a file")
	d := newDesk(t)
	d.fill(8)
	want, err := dump(t.Context(), d.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	opts := d.opts
	opts.Path += ".backup"
	raw(t, d.opts.Path, "VACUUM INTO '"+opts.Path+"'")
	chmod(t, opts.Path, 0o600)
	if how, differ := judge(t, opts, want); how != "intact" {
		t.Errorf("the backup is %s, %v differ", how, differ)
	}
}

// A power cut leaves the write-ahead log cut at any byte, or its end filled with something else. Writes
// committed before the cut are there, and no write is there by half. PAYERSYNC_STATE_CUTS sets the number of
// cuts.
//
// covers F68, S10, S16
func TestATornWriteAheadLogKeepsWholeCommits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const writes = 30
	var lengths []int // of the log after each commit
	for i := range writes {
		d.do(func(tx *Tx) error { return storePair(tx, fmt.Sprintf("k%02d", i)) })
		lengths = append(lengths, len(readFile(t, d.opts.Path+"-wal")))
	}
	db, wal := readFile(t, d.opts.Path), readFile(t, d.opts.Path+"-wal")

	const seed = 20261123
	random := rand.New(rand.NewPCG(seed, 0))
	for range times(t, "PAYERSYNC_STATE_CUTS", longtest.Number(5, 25)) {
		cut := random.IntN(len(wal) + 1)
		torn := slices.Clone(wal[:cut])
		if random.IntN(2) == 0 { // the file had grown, the data had not arrived
			torn = append(torn, make([]byte, len(wal)-cut)...)
		}
		committed := 0
		for committed < writes && lengths[committed] <= cut {
			committed++
		}
		opts := d.opts
		opts.Path = filepath.Join(t.TempDir(), "payersync.db")
		if err := errors.Join(os.WriteFile(opts.Path, db, 0o600), os.WriteFile(opts.Path+"-wal", torn, 0o600)); err != nil {
			t.Fatal(err)
		}
		checkTorn(t, opts, committed, fmt.Sprintf("seed %d, cut at byte %d", seed, cut))
	}
}

func checkTorn(t *testing.T, opts Options, committed int, where string) {
	t.Helper()
	l, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	defer func() { _ = l.Close() }()
	if err := l.Integrity(t.Context()); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	rows, err := l.Inbox(t.Context(), Filter{State: string(connector.InboxReceived)})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != committed || one[int](t, l, "SELECT count(*) FROM audit") != committed {
		t.Errorf("%s: %d deliveries and %d entries, want %d whole commits", where, len(rows),
			one[int](t, l, "SELECT count(*) FROM audit"), committed)
	}
}
