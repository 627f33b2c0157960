package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"payersync/connector"
)

const benchWriters = 64

// benchDelivery is a webhook of usual size.
func benchDelivery(n int64) Delivery {
	return Delivery{
		Key: fmt.Sprintf("evt-%012d", n), Type: "dd-mandate", BillingID: fmt.Sprintf("cust-%06d", n*2654435761%5000),
		State: connector.InboxReceived,
		Body:  fmt.Appendf(nil, `{"eventType":"dd-mandate","customerId":"cust-%06d","mandateId":"mandate-%06d","status":"ACTIVE","occurredAt":"2026-03-02T09:00:00Z"}`, n%5000, n%5000),
	}
}

// hammer shares b.N calls of insert among 64 goroutines and reports rows/s.
func hammer(b *testing.B, insert func(n int64) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range benchWriters {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if err := insert(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkInboxInsert is the ledger's own way: 64 writers, one commit for all
// that arrived together.
func BenchmarkInboxInsert(b *testing.B) {
	d := newDesk(b)
	hammer(b, func(n int64) error {
		_, err := d.StoreDelivery(context.Background(), benchDelivery(n))
		return err
	})
	if got := one[int](b, d.Ledger, "SELECT count(*) FROM inbox"); got != b.N {
		b.Fatalf("%d rows of %d are there", got, b.N)
	}
	b.ReportMetric(float64(b.N)/one[float64](b, d.Ledger, "SELECT commits FROM ledger"), "rows/commit")
}

// BenchmarkInboxInsertOneCommitEach is what it is compared with: the same rows
// into the same table by the same 64 writers, one durable commit for each.
func BenchmarkInboxInsertOneCommitEach(b *testing.B) {
	d := newDesk(b)
	db := d.writerPool(b)
	stmt, err := db.PrepareContext(context.Background(),
		`INSERT INTO inbox (delivery_key, received_at, event_type, billing_id, body, state, detail)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (delivery_key) DO NOTHING`)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = stmt.Close() }()
	hammer(b, func(n int64) error {
		v := benchDelivery(n)
		_, err := stmt.ExecContext(context.Background(), v.Key, stamp(d.Now()), v.Type, v.BillingID,
			d.seal.box(v.Body, place("inbox", "body", v.Key)), v.State, v.Detail)
		return err
	})
	if got := one[int](b, d.Ledger, "SELECT count(*) FROM inbox"); got != b.N {
		b.Fatalf("%d rows of %d are there", got, b.N)
	}
}

// writerPool opens the file with the ledger's own settings, outside its queue.
func (d *desk) writerPool(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite",
		"file:"+d.opts.Path+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_pragma=trusted_schema(0)"+
			"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=secure_delete(1)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

const benchPage = 500

// benchRecords is the number of records in a benchmark's ledger. PAYERSYNC_BENCH_RECORDS lowers it for a mere
// test run.
var benchRecords = func() int {
	if n, err := strconv.Atoi(os.Getenv("PAYERSYNC_BENCH_RECORDS")); err == nil && n >= 2*benchPage {
		return n
	}
	return 100_000
}()

// benchBook is a ledger that holds 100,000 planned records, and those records
// in pages as a source gives them.
func benchBook(b *testing.B) (d *desk, run int64, pages [][]connector.Record) {
	b.Helper()
	d = newDesk(b)
	run = d.run(acme)
	for from := 0; from < benchRecords; from += benchPage {
		page := make([]connector.Record, benchPage)
		for i := range page {
			page[i] = benchRecord(from + i)
		}
		pages = append(pages, page)
		d.do(func(tx *Tx) error { return tx.SavePage(run, acme, page) })
		decisions := make([]Decision, len(page))
		for i, r := range page {
			decisions[i] = Decision{SourceID: r.SourceID, ContentHash: r.Hash(), Verdict: Included,
				Key: connector.Key{Name: "acct", Value: r.SourceID}}
		}
		d.do(func(tx *Tx) error { return tx.SaveDecisions(run, acme, mapping, decisions...) })
	}
	return d, run, pages
}

func benchRecord(n int) connector.Record {
	data, _ := json.Marshal(map[string]any{
		"ContactID": fmt.Sprintf("c-%06d", n), "Name": fmt.Sprintf("Customer %d Limited", n),
		"EmailAddress":  fmt.Sprintf("accounts%d@example.com", n),
		"ContactStatus": "ACTIVE", "IsCustomer": true, "DefaultCurrency": "GBP", "AccountNumber": fmt.Sprintf("A%06d", n),
		"Addresses": []map[string]string{{"AddressType": "POBOX", "AddressLine1": fmt.Sprintf("%d High Street", n),
			"City": "Leeds", "PostalCode": "LS1 1AA"}},
	})
	return connector.Record{SourceID: fmt.Sprintf("c-%06d", n), State: connector.RecordActive, Data: data,
		Origin: "contacts"}
}

// BenchmarkUnchangedRead pulls 100,000 unchanged records again, as a run does, and says how
// much is written to the log for each.
func BenchmarkUnchangedRead(b *testing.B) {
	d, last, pages := benchBook(b)
	for _, page := range pages {
		labels := make([]NewLabel, len(page))
		for i, r := range page {
			labels[i] = called(r.SourceID, "Customer Limited")
		}
		d.label(acme, mapping, labels...)
	}
	d.closeRun(last, connector.RunComplete)
	before := d.logSize(b)
	for b.Loop() {
		run := d.run(acme)
		met := d.metBy(run)
		for _, page := range pages {
			news, err := d.PageChanges(b.Context(), acme, mapping, page, nil)
			if err != nil || len(news.Unlabelled) > 0 {
				b.Fatalf("%d without a label, %v", len(news.Unlabelled), err)
			}
			if len(news.Records) > 0 {
				d.do(func(tx *Tx) error { return tx.SavePage(run, acme, news.Records) })
			}
			for _, r := range page {
				met.Add(r.SourceID)
			}
		}
		if _, err := d.MarkMissing(b.Context(), run, acme, met); err != nil {
			b.Fatal(err)
		}
		d.do(func(tx *Tx) error {
			return errors.Join(tx.RecordRead(run, true, connector.Proof{}), tx.DropMissing(run, acme))
		})
		if counts, _ := d.closeRun(run, connector.RunComplete); counts.Pulled != benchRecords {
			b.Fatalf("the run counts %d records", counts.Pulled)
		}
	}
	records := float64(b.N * benchRecords)
	b.ReportMetric(float64(d.logSize(b)-before)/records, "log-B/record")
	b.ReportMetric(records/b.Elapsed().Seconds(), "records/s")
}

// logSize returns the length of the log. A reader keeps a file's log from being restarted, so it only grows
// until the test ends. A server's counts all writes ever made.
func (d *desk) logSize(b *testing.B) (bytes int64) {
	b.Helper()
	if !d.below.isFile() {
		if err := d.reader.QueryRowContext(b.Context(),
			"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").Scan(&bytes); err != nil {
			b.Fatal(err)
		}
		return bytes
	}
	if d.holdsLog == nil {
		holds, err := d.writerPool(b).Conn(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		d.holdsLog = holds
		b.Cleanup(func() { _ = holds.Close() })
		for _, s := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "BEGIN DEFERRED", "SELECT count(*) FROM ledger"} {
			if _, err := holds.ExecContext(b.Context(), s); err != nil {
				b.Fatal(err)
			}
		}
	}
	info, err := os.Stat(d.opts.Path + "-wal")
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

// BenchmarkLastPage lists the last 50 of 100,000 payers, with names: from where the page
// before ended, and by counting them off.
func BenchmarkLastPage(b *testing.B) {
	d, _, pages := benchBook(b)
	for _, page := range pages {
		labels := make([]NewLabel, len(page))
		for i, r := range page {
			labels[i] = called(r.SourceID, "Customer Limited")
		}
		d.label(acme, mapping, labels...)
	}
	after := &RecordRow{PayerRow: PayerRow{Connection: acme, SourceID: benchRecord(benchRecords - 51).SourceID}}
	b.Run("keyset", func(b *testing.B) {
		for b.Loop() {
			if rows, err := d.Records(b.Context(), RecordFilter{After: after, Limit: 50}); err != nil || len(rows) != 50 ||
				rows[0].Label == nil {
				b.Fatalf("%d rows, %v", len(rows), err)
			}
		}
	})
	b.Run("offset", func(b *testing.B) {
		for b.Loop() {
			rows, err := d.ids(b.Context(),
				"SELECT connection FROM ("+listedColumns+recordRows+"ORDER BY r.connection, r.source_id LIMIT 50 OFFSET ?)",
				benchRecords-50)
			if err != nil || len(rows) != 50 {
				b.Fatalf("%d rows, %v", len(rows), err)
			}
		}
	})
	b.Run("changed last", func(b *testing.B) {
		for b.Loop() {
			if rows, err := d.Records(b.Context(), RecordFilter{Sort: ByChanged, Limit: 50}); err != nil || len(rows) != 50 {
				b.Fatalf("%d rows, %v", len(rows), err)
			}
		}
	})
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			if n, err := d.CountRecords(b.Context(), RecordFilter{}); err != nil || n != benchRecords {
				b.Fatalf("%d rows, %v", n, err)
			}
		}
	})
}

// BenchmarkCandidatesUnchanged finds out that of 100,000 records none needs
// planning: the database side of a run over unchanged data.
func BenchmarkCandidatesUnchanged(b *testing.B) {
	d, _, _ := benchBook(b)
	for b.Loop() {
		n, err := d.UnlinkedCandidates(b.Context(), acme, mapping, false)
		if err != nil || n != 0 {
			b.Fatalf("%d candidates, %v", n, err)
		}
		found, err := d.Candidates(b.Context(), acme, mapping, false, "", benchPage)
		if err != nil || len(found) != 0 {
			b.Fatalf("%d candidates, %v", len(found), err)
		}
	}
	b.ReportMetric(float64(b.N*benchRecords)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkCount counts a ledger of 100,000 payers with three requests and webhooks for each,
// and 50,000 runs: for the first time in a process, and once more.
func BenchmarkCount(b *testing.B) {
	d := newDesk(b)
	run := d.run(acme)
	db := d.writerPool(b)
	for _, fill := range []struct {
		rows int
		as   string
	}{
		{benchRecords, `INSERT INTO source_records (connection, source_id, content_hash, record, state, updated_at)
			SELECT 'acme', 'c-' || n, hex(randomblob(32)), randomblob(900), 'active', ?3 FROM s`},
		{benchRecords, `INSERT INTO payers (payer_id, connection, source_id, key_name, key_value, billing_id, link_state, applied, mandate_id, updated_at, seen_at)
			SELECT n, 'acme', 'c-' || n, 'acct', 'A' || n, 'cust-' || n, 'linked', randomblob(600), 'm-' || n, ?3, ?2 FROM s`},
		{benchRecords, `INSERT INTO mandates (mandate_id, billing_id, status, status_since, first_seen_at, last_seen_at, link)
			SELECT 'm-' || n, 'cust-' || n, CASE n % 3 WHEN 0 THEN 'CREATED' ELSE 'ACTIVE' END, ?3, ?3, ?3, randomblob(200 * ?2) FROM s`},
		{3 * benchRecords, `INSERT INTO attempts (action, connection, source_id, key_name, key_value, billing_id, ticket, sent_at, ended)
			SELECT CASE n % 2 WHEN 0 THEN 'link' ELSE 'create' END, 'acme', 'c-' || n, 'acct', 'A' || n, 'cust-' || n, ?2, ?3, CASE n % 1000 WHEN 0 THEN '' ELSE 'answered' END FROM s`},
		{3 * benchRecords, `INSERT INTO inbox (delivery_key, received_at, event_type, billing_id, body, state)
			SELECT 'event:' || n, ?3, 'dd-mandate', 'cust-' || n, randomblob(300 * ?2), CASE n % 1000 WHEN 0 THEN 'received' ELSE 'reflected' END FROM s`},
		{2, `INSERT INTO inbox_counts (event_type, state, deliveries, first_at, last_at)
			SELECT 'dd-mandate', state, count(*), ?3, ?3 FROM inbox JOIN s ON n = ?2 GROUP BY state`},
		{benchRecords / 2, `INSERT INTO runs (connection, kind, trigger, mapping_version, holder, lease_until, started_at, finished_at, outcome)
			SELECT connection, kind, trigger, mapping_version, holder, ?3, ?3, ?3, 'complete' FROM runs JOIN s WHERE run_id = ?2`},
	} {
		if _, err := db.ExecContext(b.Context(),
			"WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < ?1) "+fill.as, fill.rows, run,
			stamp(d.Now())); err != nil {
			b.Fatal(err)
		}
	}
	again := d.NewCounter()
	for _, bench := range []struct {
		name    string
		counter func() *Counter
	}{{"first", d.NewCounter}, {"again", func() *Counter { return again }}} {
		if _, err := again.Count(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				n, err := bench.counter().Count(b.Context())
				if err != nil || len(n.Payers) != 1 || n.Payers[0].N != benchRecords ||
					n.Waiting["received"] != 3*benchRecords/1000 {
					b.Fatalf("%+v, %v", n.Payers, err)
				}
			}
		})
	}
}

// BenchmarkStandingOf asks where one record stands, as it is asked before each letter, beside
// 20,000 letters and a thousand stops and cancellations of others.
func BenchmarkStandingOf(b *testing.B) {
	d := newDesk(b)
	const payers, steps = 5000, 4
	run := d.run(acme)
	body := make([]byte, 6000)
	d.do(func(tx *Tx) error {
		for i := range payers {
			id := fmt.Sprintf("c%05d", i)
			r := connector.Record{SourceID: id, State: connector.RecordActive, Data: []byte(`{}`)}
			if err := errors.Join(tx.SavePage(run, acme, []connector.Record{r}),
				tx.SaveDecisions(run, acme, mapping,
					Decision{SourceID: id, ContentHash: r.Hash(), Verdict: Included, Key: key(id)}),
				tx.LinkPayer(Payer{Connection: acme, SourceID: id, Key: key(id)}, "b"+id, true)); err != nil {
				return err
			}
			m := connector.Mandate{ID: "m" + id, CustomerID: "b" + id, Status: connector.MandateCreated}
			if _, err := tx.SaveMandate(m, connector.CauseSweep, "1"); err != nil {
				return err
			}
			if err := tx.SetMandate(acme, id, m.ID); err != nil {
				return err
			}
			for step := range steps {
				if err := tx.FreezeLetter(Letter{MandateID: m.ID, Step: step, Kind: "invitation", RecordID: RecordID{acme, id},
					Recipient: "r" + id, Setup: "s",
					Language: "en", MessageID: fmt.Sprintf("%s-%d", m.ID, step), Body: body, LookedAt: tx.now,
					FrozenAt: tx.now}); err != nil {
					return err
				}
			}
			if i%5 != 0 {
				continue
			}
			if err := errors.Join(tx.AddLetterStop(LetterStop{Scope: StopAddress, Recipient: "r" + id, Why: StopBounced,
				Actor: "mail server"}),
				tx.Audit(Entry{Actor: "ada", Action: "cancel mandate", Subject: "old" + id, Reason: "asked to"})); err != nil {
				return err
			}
		}
		return tx.exec("UPDATE letters SET state = 'sent', sending_at = frozen_at, ended_at = frozen_at")
	})
	b.ResetTimer()
	for n := 0; b.Loop(); n++ {
		s, err := d.ReadinessOf(b.Context(), RecordID{acme, fmt.Sprintf("c%05d", n*7%payers)})
		if err != nil || s == nil || s.Letters.Sent != steps {
			b.Fatal(s, err)
		}
	}
}
