package syncer_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/reconcile"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/connector/transport"
	"payersync/mapping"
	"payersync/state"
)

// The sizes of the benchmarks. Every round of a benchmark is a whole run, so
// give the number of rounds, for example -benchtime 7x.
var (
	benchCustomers = flag.Int("bench-customers", 4_000, "customers of one round of BenchmarkBackfill")
	benchRows      = flag.Int("bench-rows", 100_000, "rows of BenchmarkPlanUnchanged and BenchmarkBackfillMemory")
)

// maxInFlight is how many requests are in flight, of the connector and of the
// bare loop it is compared with.
const maxInFlight = 8

// The environment for starting the benchmark's own binary as the process of the backfill.
const (
	childAddress = "PAYERSYNC_BENCH_ADDRESS"
	childFolder  = "PAYERSYNC_BENCH_FOLDER"
	childRows    = "PAYERSYNC_BENCH_ROWS"
	childWork    = "PAYERSYNC_BENCH_WORK" // preview or match; a backfill when it is not set
)

func TestMain(m *testing.M) {
	work := backfillChild
	switch {
	case os.Getenv(childLatency) != "":
		work = leanChild
	case os.Getenv(childAddress) == "":
		os.Exit(m.Run())
	case os.Getenv(childWork) == "preview":
		work = previewChild
	case os.Getenv(childWork) == "match":
		work = matchChild
	}
	if err := work(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// register is an accounting system of so many customers. It makes them page by
// page, so that it weighs nothing itself.
type register struct {
	rows int
	read time.Time // when the last page was taken
}

func (g *register) info() connector.SourceInfo { return (&books{}).info() }

func (g *register) record(n int) connector.Record {
	return connector.Record{
		SourceID: fmt.Sprintf("C%06d", n), State: connector.RecordActive, Origin: fmt.Sprintf("customers.csv line %d", n+2),
		Data: fmt.Appendf(nil, `{"No":"C%06[1]d","Name":"Customer %[1]d Limited","Email":"Accounts%[1]d@example.com","Postcode":"LS1 4AP","Group":"payer"}`, n),
	}
}

func (g *register) Customers(context.Context, time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		for from := 0; from < g.rows; from += 500 {
			page := make([]connector.Record, min(500, g.rows-from))
			for i := range page {
				page[i] = g.record(from + i)
			}
			if !yield(connector.Page{Records: page}, nil) {
				return
			}
		}
		g.read = time.Now()
	}
}

const benchMapping = `version: 1
source: books
key: {customerNo: No}
include: Group == "payer"
customer:
  name: trim(Name)
  people:
    - {name: trim(Name), email: lower(trim(Email))}
  addresses:
    - {line1: '"1 Quay St"', postCode: Postcode}
`

// plant is a connector as cmd wires it, with real clocks and real HTTP.
type plant struct {
	register *register
	mapping  string
	ledger   *state.Ledger
	http     *transport.Client
	billing  *billing.Client
	syncer   *syncer.Syncer
}

// newPlant makes a connector with a new ledger in folder. base is what speaks to
// the service; nil for the transport's own.
func newPlant(ctx context.Context, folder, address string, base http.RoundTripper, rows, inFlight int) (*plant, error) {
	path := filepath.Join(folder, "payersync.db")
	if err := state.CreateKey(path + ".key"); err != nil {
		return nil, err
	}
	return openPlant(ctx, folder, address, base, rows, inFlight)
}

// openPlant is newPlant over the ledger that lies in folder.
func openPlant(ctx context.Context, folder, address string, base http.RoundTripper, rows, inFlight int) (*plant,
	error) {
	p := &plant{register: &register{rows: rows}, mapping: benchMapping}
	path := filepath.Join(folder, "payersync.db")
	var err error
	if p.ledger, err = state.Open(ctx, state.Options{Path: path, KeyFile: path + ".key"}); err != nil {
		return nil, err
	}
	p.http = transport.New(transport.Options{Base: base, MaxInFlight: inFlight})
	if p.billing, err = billing.New(billing.Config{
		BaseURL: address + "/api", AuthURL: "/oauth2/token", ClientID: "sandbox",
		ClientSecret: connector.NewSecret("sandbox-secret"),
		RedirectURL:  "https://app.example.com/signed", Dialect: billing.Standard(), HTTP: p.http, Now: time.Now,
	}); err != nil {
		return nil, errors.Join(err, p.ledger.Close())
	}
	p.syncer = &syncer.Syncer{
		Ledger: p.ledger, Billing: p.billing,
		Reconciler: &reconcile.Reconciler{
			Ledger: p.ledger, Billing: p.billing, Lookup: reconcile.Lookup{MaxAge: 24 * time.Hour, Quarantine: 15 * time.Minute},
		},
		Settings: syncer.Settings{
			Workers: 8 * inFlight, ProbeAfter: 15 * time.Minute, Overlap: 5 * time.Minute, Grace: 20 * time.Second,
		},
	}
	return p, nil
}

func (p *plant) close() error {
	p.http.Close()
	return p.ledger.Close()
}

// run makes one run that approves its own plan; anything but a complete one is
// an error.
func (p *plant) run(ctx context.Context, kind connector.RunKind) (syncer.Result, error) {
	m, err := mapping.Load("mapping.yaml", []byte(p.mapping), p.register.info())
	if err != nil {
		return syncer.Result{}, err
	}
	res, err := p.syncer.Run(ctx, syncer.Connection{
		Name: "acme", Source: p.register, Info: p.register.info(), Mapping: m,
	}, syncer.RunOptions{
		Kind: kind, Trigger: "manual", Actor: "bench", Holder: "bench",
		Approve: func(state.Plan) (bool, error) { return true, nil },
	})
	if err == nil && res.Outcome != connector.RunComplete {
		err = fmt.Errorf("the run ended %s with %+v: %w", res.Outcome, res.Counts, res.Err)
	}
	return res, err
}

// bodies returns what a backfill posts.
func (p *plant) bodies() ([][]byte, error) {
	m, err := mapping.Load("mapping.yaml", []byte(p.mapping), p.register.info())
	if err != nil {
		return nil, err
	}
	out := make([][]byte, p.register.rows)
	for i := range out {
		rendered, err := m.Apply(p.register.record(i))
		if err != nil {
			return nil, err
		}
		if out[i], err = p.billing.CreateBody(rendered.Customer); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// serve serves a new, empty sandbox on 127.0.0.1.
func serve(b *testing.B, latency time.Duration) (*sandbox.Sandbox, string) {
	b.Helper()
	service := sandbox.New(sandbox.Options{Seed: 1, Latency: latency, DiscardRequests: true})
	server := httptest.NewServer(service)
	b.Cleanup(server.Close)
	return service, server.URL
}

func must[T any](b *testing.B) func(T, error) T {
	return func(v T, err error) T {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
}

// BenchmarkBackfill runs a whole backfill, from the first page read to the last customer verified. In turns,
// it runs a bare HTTP client as the lower bound, with the same bodies and concurrency and no storage.
// share_of_bare is the median over the rounds; the goal is 0.85 at 5 ms, faster than most services.
//
//	go test -run '^$' -bench Backfill$ -benchtime 7x ./connector/syncer
func BenchmarkBackfill(b *testing.B) {
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		b.Run(fmt.Sprintf("latency=%v", latency), func(b *testing.B) { benchmarkBackfill(b, latency) })
	}
}

func benchmarkBackfill(b *testing.B, latency time.Duration) {
	var shares, bare, ours []float64
	for b.Loop() {
		p := must[*plant](b)(newPlant(b.Context(), b.TempDir(), "http://localhost", nil, *benchCustomers, maxInFlight))
		bodies := must[[][]byte](b)(p.bodies())
		direct := timeBare(b, latency, bodies)
		whole := timeBackfill(b, latency)
		shares = append(shares, direct.Seconds()/whole.Seconds())
		bare = append(bare, float64(len(bodies))/direct.Seconds())
		ours = append(ours, float64(len(bodies))/whole.Seconds())
		if err := p.close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(median(shares), "share_of_bare")
	b.ReportMetric(median(bare), "bare_customers/s")
	b.ReportMetric(median(ours), "customers/s")
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func timeBackfill(b *testing.B, latency time.Duration) time.Duration {
	b.Helper()
	service, address := serve(b, latency)
	p := must[*plant](b)(newPlant(b.Context(), b.TempDir(), address, nil, *benchCustomers, maxInFlight))
	runtime.GC()
	start := time.Now()
	res := must[syncer.Result](b)(p.run(b.Context(), connector.RunBackfill))
	took := time.Since(start)
	if n := len(service.Customers()); n != *benchCustomers || res.Counts.Created != n {
		b.Fatalf("%d customers were made and %d counted, want %d", n, res.Counts.Created, *benchCustomers)
	}
	if err := p.close(); err != nil {
		b.Fatal(err)
	}
	return took
}

func timeBare(b *testing.B, latency time.Duration, bodies [][]byte) time.Duration {
	b.Helper()
	service, address := serve(b, latency)
	token := service.IssueToken(sandbox.ClientCredentials, time.Hour)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxInFlight}}
	defer client.CloseIdleConnections()
	runtime.GC()
	start := time.Now()
	var next atomic.Int64
	var loops sync.WaitGroup
	for range maxInFlight {
		loops.Go(func() {
			for i := next.Add(1); i <= int64(len(bodies)); i = next.Add(1) {
				if err := postBare(b.Context(), client, address+"/api/customers", token, bodies[i-1]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	loops.Wait()
	took := time.Since(start)
	if n := len(service.Customers()); n != len(bodies) {
		b.Fatalf("the bare loop made %d customers, want %d", n, len(bodies))
	}
	return took
}

func postBare(ctx context.Context, client *http.Client, url, token string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the bare loop was answered %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// BenchmarkPlanUnchanged runs over 100,000 linked, unchanged customers. In the first kind no record changed
// since it was planned. The second has an edited mapping, so every record is mapped and compared.
// plan_ns/record covers the work after the last page: plan, an empty apply, the counts.
func BenchmarkPlanUnchanged(b *testing.B) {
	service := sandbox.New(sandbox.Options{Seed: 1, DiscardRequests: true})
	p := must[*plant](b)(newPlant(b.Context(), b.TempDir(), "http://localhost", service.RoundTripper(), *benchRows,
		maxInFlight))
	defer p.close()
	must[syncer.Result](b)(p.run(b.Context(), connector.RunBackfill))
	before, edits := service.Writes(), 0
	b.Run("same mapping", func(b *testing.B) { p.benchmarkUnchanged(b, func() {}) })
	b.Run("edited mapping", func(b *testing.B) {
		p.benchmarkUnchanged(b, func() {
			edits++
			p.mapping = fmt.Sprintf("%s# edit %d\n", benchMapping, edits)
		})
	})
	if n := service.Writes() - before; n != 0 {
		b.Errorf("%d writes were sent for customers that are unchanged", n)
	}
}

func (p *plant) benchmarkUnchanged(b *testing.B, edit func()) {
	var plan time.Duration
	for b.Loop() {
		edit()
		res := must[syncer.Result](b)(p.run(b.Context(), connector.RunSync))
		plan += time.Since(p.register.read)
		if res.Counts.Unchanged != *benchRows {
			b.Fatalf("%+v, want %d unchanged", res.Counts, *benchRows)
		}
	}
	records := float64(b.N) * float64(*benchRows)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/records, "ns/record")
	b.ReportMetric(float64(plan.Nanoseconds())/records, "plan_ns/record")
}

// maxPeak is the goal for the memory of a backfill of 100,000 rows, in MiB.
const maxPeak = 256

// BenchmarkBackfillMemory makes a backfill in a process of its own, with the
// sandbox in this one, and reports the largest resident set it had. A peak above
// the goal is a failure.
func BenchmarkBackfillMemory(b *testing.B) {
	self := must[string](b)(os.Executable())
	var peaks []float64
	for b.Loop() {
		service, address := serve(b, 0)
		cmd := exec.CommandContext(b.Context(), self)
		cmd.Env = append(os.Environ(), childAddress+"="+address, childFolder+"="+b.TempDir(),
			childRows+"="+strconv.Itoa(*benchRows))
		cmd.Stderr = os.Stderr
		out := must[[]byte](b)(cmd.Output())
		if n := len(service.Customers()); n != *benchRows {
			b.Fatalf("%d customers were made, want %d", n, *benchRows)
		}
		peaks = append(peaks, must[float64](b)(strconv.ParseFloat(strings.TrimSpace(string(out)), 64))/1024)
	}
	peak := slices.Max(peaks)
	b.ReportMetric(peak, "peak_MiB")
	if peak > maxPeak {
		b.Errorf("the backfill took %.0f MiB at its peak, the goal is %d", peak, maxPeak)
	}
}

// backfillChild makes the backfill that its environment describes and writes its
// peak memory in KiB.
func backfillChild(out io.Writer) error {
	rows, err := strconv.Atoi(os.Getenv(childRows))
	if err != nil {
		return err
	}
	ctx := context.Background()
	p, err := newPlant(ctx, os.Getenv(childFolder), os.Getenv(childAddress), nil, rows, maxInFlight)
	if err != nil {
		return err
	}
	if _, err = p.run(ctx, connector.RunBackfill); err != nil {
		return errors.Join(err, p.close())
	}
	peak, err := peakMemory()
	fmt.Fprintln(out, peak)
	return errors.Join(err, p.close())
}

// peakMemory returns the largest resident set of this process in KiB. Linux only:
// getrusage counts the process that started this one too.
func peakMemory() (string, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return "", errors.New("this system does not tell a process's peak memory")
	}
	return fields[0], nil
}
