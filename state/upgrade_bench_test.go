package state

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	upgradePayers = flag.Int("upgrade-payers", 5000, "how many payers the ledger of BenchmarkUpgrade has")
	upgradeLedger = flag.String("upgrade-ledger", "",
		"a ledger for BenchmarkUpgrade, with its key in a file of that name and .key, in the place of a new one")
)

// manyRows fill a ledger of the first schema with $N payers. One in 50 has a request without an answer, one in
// ten an update in a plan of which a person approved half, and the ledger was restored.
const manyRows = `
INSERT INTO source_records (connection, source_id, content_hash, record, state, last_seen_run, decision, updated_at)
  SELECT 'acme', printf('m%07d', n), hex(randomblob(16)), randomblob(400), 'active', 1, 'included', '2026-03-02T09:00:00.000Z' FROM numbers;
INSERT INTO payers (connection, source_id, key_name, key_value, billing_id, link_state, applied_hash, applied, mandate_id, updated_at)
  SELECT 'acme', printf('m%07d', n), 'acct', printf('m%07d', n), CASE WHEN n % 50 > 0 THEN printf('b%07d', n * 7919 % 9999991) END, CASE WHEN n % 50 > 0 THEN 'linked' ELSE 'creating' END,
    hex(randomblob(16)), randomblob(350), CASE WHEN n % 50 > 0 THEN printf('d%07d', n) END, '2026-03-02T09:00:00.000Z' FROM numbers;
INSERT INTO attention (connection, source_id, topic, reason, detail, since) SELECT 'acme', printf('m%07d', n), 'mandate', 'link_lost', '', '2026-03-02T09:00:00.000Z' FROM numbers WHERE n % 20 = 1;
INSERT INTO plans (plan_id, connection, run_id, hash, mapping_version, created_at, state) VALUES (2, 'acme', 1, 'h2', 'v1', '2026-03-02T09:00:00.000Z', 'waiting');
INSERT INTO changes (plan_id, run_id, connection, source_id, lane, action, change_hash, body, body_sha256, state, attempts, frozen_at, updated_at)
  SELECT 1, 1, 'acme', printf('m%07d', n), 'customer', 'create', hex(randomblob(16)), CASE WHEN n % 50 = 0 THEN randomblob(350) END, CASE WHEN n % 50 = 0 THEN 'h' ELSE '' END, CASE WHEN n % 50 > 0 THEN 'done' ELSE 'frozen' END, 1,
    '2026-03-02T09:00:00.000Z', '2026-03-02T09:00:00.000Z' FROM numbers;
INSERT INTO changes (plan_id, run_id, connection, source_id, lane, action, change_hash, wanted, state, approved, billing_id, updated_at)
  SELECT 2, 1, 'acme', printf('m%07d', n), 'customer', 'update', hex(randomblob(16)), randomblob(350), 'pending', n / 10 % 2, printf('b%07d', n * 7919 % 9999991), '2026-03-02T09:00:00.000Z' FROM numbers WHERE n % 10 = 1;
INSERT INTO remote_customers (billing_id, key_values, digest, seen_pass, listed_at, ticket)
  SELECT printf('b%07d', n * 7919 % 9999991) AS id, '{"acct":"' || printf('m%07d', n) || '"}', hex(randomblob(16)), 1, '2026-03-02T09:00:00.000Z', 2 FROM numbers WHERE n % 50 > 0 ORDER BY id;
INSERT INTO remote_traits (kind, value, billing_id) SELECT 'key', 'acct=' || printf('m%07d', n), printf('b%07d', n * 7919 % 9999991) FROM numbers WHERE n % 50 > 0;
INSERT INTO remote_traits (kind, value, billing_id) SELECT 'name', v, b FROM (SELECT hex(randomblob(16)) AS v, printf('b%07d', n * 7919 % 9999991) AS b FROM numbers WHERE n % 50 > 0) ORDER BY 2;
INSERT INTO mandates (mandate_id, billing_id, status, status_since, first_seen_at, last_seen_at, link)
  SELECT printf('d%07d', n), printf('b%07d', n * 7919 % 9999991), CASE WHEN n % 5 > 0 THEN 'ACTIVE' ELSE 'CREATED' END, '2026-03-02T09:00:00.000Z', '2026-03-02T09:00:00.000Z', '2026-03-02T09:00:00.000Z', randomblob(120) FROM numbers WHERE n % 50 > 0;
INSERT INTO mandate_history (mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause, cause_id, prev_hash, hash)
  SELECT printf('d%07d', n), printf('b%07d', n * 7919 % 9999991), '', 'CREATED', '', '2026-03-02T09:00:00.000Z', 'link', 'run 1', '', printf('%032d', n) FROM numbers WHERE n % 50 > 0;
INSERT INTO inbox (delivery_key, received_at, event_type, billing_id, body, state)
  SELECT printf('evt-m%07d', n), '2026-03-02T09:00:00.000Z', 'dd-mandate', printf('b%07d', n * 7919 % 9999991), randomblob(200), 'reflected' FROM numbers WHERE n % 50 > 0;
UPDATE ledger SET restored_at = '2026-03-02T10:00:00.000Z'`

// manyPayers makes a ledger of the first schema with many payers, or takes one that is there.
func manyPayers(b *testing.B, ready string) *desk {
	b.Helper()
	if ready != "" {
		d := &desk{t: b, opts: newOptions(b, newClock())}
		d.opts.Path, d.opts.KeyFile = ready, ready+".key"
		return d
	}
	d := ofVersion(b, 1)
	db := rawDB(b, d.opts.Path)
	db.SetMaxOpenConns(1)
	for statement := range strings.SplitSeq("PRAGMA synchronous = OFF;\n"+manyRows, ";\n") {
		numbers := fmt.Sprintf("FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < %d) SELECT n FROM c)", *upgradePayers)
		if _, err := db.ExecContext(b.Context(), strings.ReplaceAll(statement, "FROM numbers", numbers)); err != nil {
			b.Fatalf("%s: %v", statement, err)
		}
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	return d
}

// BenchmarkUpgrade reports how long the migrations of a ledger with many payers take, and the most memory.
func BenchmarkUpgrade(b *testing.B) {
	for range b.N {
		d := manyPayers(b, *upgradeLedger)
		resetPeak(b)
		began := time.Now()
		d.opts.Migrating = func(percent int) {
			if took := time.Since(began); took > time.Second || peak(b) > 100 {
				b.Logf("%d %%: %.1f s, peak %d MiB", percent, took.Seconds(), peak(b))
			}
			resetPeak(b)
			began = time.Now()
		}
		l, err := Open(b.Context(), d.opts)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
		info, err := os.Stat(d.opts.Path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/float64(*upgradePayers), "B/payer")
	}
}

// resetPeak forgets the most memory that the process had.
func resetPeak(b *testing.B) {
	b.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Fatal(err)
	}
}

// peak is the most memory that the process has had, in MiB.
func peak(b *testing.B) int {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	kB, err := strconv.Atoi(strings.Fields(text)[0])
	if err != nil {
		b.Fatal(err)
	}
	return kB / 1024
}
