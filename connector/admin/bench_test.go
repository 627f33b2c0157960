package admin_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/health"
	"payersync/connector/readiness"
	"payersync/state"
)

var benchLedger = flag.String("bench-ledger", "",
	"folder of a ledger that BenchmarkPages of package pages has filled: it is counted instead of one that is made for it")

// benchPage is how many records one transaction of a benchmark writes.
const benchPage = 500

// benchRecords is the number of records in a benchmark's ledger. PAYERSYNC_BENCH_RECORDS lowers it for a mere
// test run.
var benchRecords = func() int {
	if n, err := strconv.Atoi(os.Getenv("PAYERSYNC_BENCH_RECORDS")); err == nil && n >= 2*benchPage {
		return n
	}
	return 100_000
}()

// BenchmarkSearch searches a name among many: in the names in memory, and, as a baseline, in labels unsealed
// for every search.
func BenchmarkSearch(b *testing.B) {
	w := newWorld(b)
	for from := 0; from < benchRecords; from += benchPage {
		some := map[string]*connector.Label{}
		for n := from; n < from+benchPage; n++ {
			some[fmt.Sprintf("c-%06d", n)] = &connector.Label{Number: fmt.Sprintf("A%06d", n),
				Name: fmt.Sprintf("Customer %d Limited", n), Email: fmt.Sprintf("accounts%d@example.com", n)}
		}
		w.read("acme", some)
	}
	rare := admin.Query{Text: fmt.Sprintf("limited %d", benchRecords-2)}
	often := admin.Query{Text: "limited", RecordFilter: state.RecordFilter{Limit: 50}}
	search := func(b *testing.B, lists *admin.Lists, q admin.Query) {
		if p, err := lists.Page(context.Background(), q); err != nil || len(p.Rows) == 0 {
			b.Fatalf("%d rows, %v", len(p.Rows), err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	search(b, w.lists, rare)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.Run("in memory", func(b *testing.B) {
		for b.Loop() {
			search(b, w.lists, rare)
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	})
	b.Run("in memory, everybody", func(b *testing.B) {
		for b.Loop() {
			search(b, w.lists, often)
		}
	})
	b.Run("opened each time", func(b *testing.B) {
		for b.Loop() {
			search(b, &admin.Lists{Ledger: w.ledger}, rare)
		}
	})
	b.Run("everybody by name", func(b *testing.B) {
		for b.Loop() {
			search(b, w.lists, admin.Query{RecordFilter: state.RecordFilter{Sort: admin.ByName, Limit: 50}})
		}
	})
}

// crowd returns a world with benchRecords, of which some wait, some are active, and some
// need a person.
func crowd(b *testing.B) *world {
	b.Helper()
	w := newWorld(b)
	run := w.run("acme")
	statuses := []connector.MandateStatus{connector.MandateCreated, connector.MandateCreated, connector.MandatePending,
		connector.MandateActive, connector.MandateCancelled, ""}
	for from := 0; from < benchRecords; from += benchPage {
		w.do(func(tx *state.Tx) error {
			for n := from; n < from+benchPage; n++ {
				p := placed{id: fmt.Sprintf("c-%06d", n), status: statuses[n%len(statuses)], unlinked: n%10 == 0, lost: n%7 == 0,
					reason: oneOf(n%10 == 0, connector.ReasonRejected), topic: oneOf(n%10 == 0, state.TopicLink),
					label: connector.Label{Number: fmt.Sprintf("A%06d", n), Name: fmt.Sprintf("Customer %d Limited", n),
						Email: fmt.Sprintf("accounts%d@example.com", n), Language: "en"}}
				if err := w.bookOne(tx, run, "acme", p); err != nil {
					return err
				}
				if p.status == connector.MandateCreated && !p.unlinked && n%4 == 0 {
					if _, err := tx.NoteHandover("m-"+p.id, w.now, "ada"); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return w
}

// counted returns a world with benchRecords, or that of -bench-ledger as it is.
func counted(b *testing.B) *world {
	b.Helper()
	if *benchLedger == "" {
		return crowd(b)
	}
	w := &world{t: b, path: filepath.Join(*benchLedger, "payersync.db"),
		now: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)}
	w.ledger = w.open(state.Options{KeyFile: w.path + ".key"})
	if err := w.ledger.WaitForIntegrity(b.Context()); err != nil { // the file is looked through first
		b.Fatal(err)
	}
	return w
}

// BenchmarkCount counts where all records stand, as the first page after a start does.
func BenchmarkCount(b *testing.B) {
	w := counted(b)
	for b.Loop() {
		s := &admin.ReadinessCounts{Ledger: w.ledger}
		c, err := s.Latest(b.Context())
		for errors.Is(err, admin.ErrCounting) {
			c, err = s.Latest(b.Context())
		}
		if err != nil || c.Records == 0 {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkReport puts all records into their classes, names and all, and counts the days to
// sign of three mandates in four.
func BenchmarkReport(b *testing.B) {
	w := crowd(b)
	var before, after runtime.MemStats
	b.ResetTimer()
	for b.Loop() {
		n, most := 0, uint64(0)
		runtime.GC()
		runtime.ReadMemStats(&before)
		r, err := admin.MakeReport(context.Background(), w.ledger, admin.ReportOn{}, func(admin.ReportRow) error {
			if n++; n%(benchRecords/10) == 0 {
				runtime.ReadMemStats(&after)
				most = max(most, after.HeapAlloc)
			}
			return nil
		})
		if err != nil || r.Records != benchRecords || n != benchRecords {
			b.Fatalf("%d records, %d rows, %v", r.Records, n, err)
		}
		b.ReportMetric(float64(most-before.HeapAlloc)/1e6, "MB")
	}
}

// BenchmarkStandings asks for the count of all records as every page does once there is one.
func BenchmarkStandings(b *testing.B) {
	w := crowd(b)
	s := &admin.ReadinessCounts{Ledger: w.ledger}
	defer s.Close()
	for _, err := s.Latest(b.Context()); err != nil; _, err = s.Latest(b.Context()) {
		if !errors.Is(err, admin.ErrCounting) {
			b.Fatal(err)
		}
	}
	b.Run("latest", func(b *testing.B) {
		for b.Loop() {
			c, err := s.Latest(b.Context())
			if err != nil || c.Reached(admin.InBooks) != benchRecords ||
				c.Number(admin.Which{Class: readiness.Awaiting, Days: 14}) != 0 {
				b.Fatal(err)
			}
		}
	})
	b.Run("to do", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.ledger.ReasonCounts(b.Context()); err != nil {
				b.Fatal(err)
			}
			if rows, err := w.ledger.AttentionPage(b.Context(), state.Filter{State: string(connector.ReasonRejected), Limit: 51},
				state.AttentionRow{}); err != nil || len(rows) != 51 {
				b.Fatal(len(rows), err)
			}
		}
	})
}

// BenchmarkStatus reads what the status, the overview and the metrics read, part by part.
func BenchmarkStatus(b *testing.B) {
	w := crowd(b)
	counter := w.ledger.NewCounter()
	for _, part := range []struct {
		name string
		read func(context.Context) error
	}{
		{"standings", func(ctx context.Context) error { _, err := admin.CountNow(ctx, w.ledger, 0); return err }},
		{"funnel", func(ctx context.Context) error { _, err := w.ledger.Funnel(ctx); return err }},
		{"reasons", func(ctx context.Context) error { _, err := w.ledger.ReasonCounts(ctx); return err }},
		{"conditions", func(ctx context.Context) error {
			_, err := health.Present(ctx, w.ledger, health.Expected{Webhooks: true})
			return err
		}},
		{"metrics", func(ctx context.Context) error { _, err := counter.Count(ctx); return err }},
	} {
		b.Run(part.name, func(b *testing.B) {
			for b.Loop() {
				if err := part.read(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// oneOf returns a value where something is so, and else none.
func oneOf[T ~string](so bool, value T) T {
	if so {
		return value
	}
	return ""
}
