package syncer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/heap"
	"payersync/connector/syncer"
	"payersync/state/statetest"
)

// The environment by which BenchmarkWire starts its own binary as the service: how long it takes over a write.
const childLatency = "PAYERSYNC_BENCH_LATENCY"

var wireCustomers = flag.Int("wire-customers", 400,
	"customers of one round of BenchmarkWire; the figures of the README are of 20000 and more")

// BenchmarkWire compares a backfill, from the first page read to the end of the run, with a bare loop of HTTP
// requests, in turns. The loop posts the same bytes with as many in flight and stores nothing. The service is
// a minimal process of its own.
//
// Each figure is the median over the rounds: share_of_bare by wall time, share_sending from the first write that
// reached the service to the last, before_us/customer until the first, after_us/customer from the last. The
// processor's time and the bytes written are those of the backfill alone, its requests included, and without a
// database server's. With -engine postgres the ledger is in a server.
//
//	go test -run '^$' -bench Wire -benchtime 5x ./connector/syncer -wire-customers 20000
func BenchmarkWire(b *testing.B) {
	heap.Pace() // as the program does
	for _, w := range []wire{
		{latency: 5 * time.Millisecond, inFlight: 8},
		{latency: 5 * time.Millisecond, inFlight: 32},
		{latency: 5 * time.Millisecond, inFlight: 32, links: true},
		{inFlight: 32},
	} {
		b.Run(w.String(), w.benchmark)
	}
}

// wire is what a round goes through.
type wire struct {
	latency  time.Duration
	inFlight int
	links    bool // a signing link is asked for each customer
}

func (w wire) String() string {
	what := "create"
	if w.links {
		what = "create and link"
	}
	return fmt.Sprintf("%s, %v, %d in flight", what, w.latency, w.inFlight)
}

func (w wire) mapping() string {
	if w.links {
		return benchMapping + "mandate: {request: 'true'}\n"
	}
	return benchMapping
}

func (w wire) benchmark(b *testing.B) {
	figures := map[string][]float64{}
	for b.Loop() {
		for name, value := range w.round(b, *wireCustomers) {
			figures[name] = append(figures[name], value)
		}
	}
	for name, values := range figures {
		b.ReportMetric(median(values), name)
	}
}

// round plays both, and returns the figures of it.
func (w wire) round(b *testing.B, customers int) map[string]float64 {
	writes := customers
	if w.links {
		writes *= 2
	}
	service := w.serve(b)
	p := w.plant(b, service, customers)
	bodies := must[[][]byte](b)(p.bodies())
	bare := w.post(b, service, bodies)
	service.expect(b, writes)
	service.stop(b)

	service = w.serve(b)
	ours := w.plant(b, service, customers)
	runtime.GC()
	began, before := time.Now(), usedSoFar(b)
	res := must[syncer.Result](b)(ours.run(b.Context(), connector.RunBackfill))
	ended, after := time.Now(), usedSoFar(b)
	if res.Counts.Created != customers {
		b.Fatalf("%+v, want %d created", res.Counts, customers)
	}
	saw := service.expect(b, writes)
	service.stop(b)
	if err := errors.Join(p.close(), ours.close()); err != nil {
		b.Fatal(err)
	}
	n := float64(customers)
	return map[string]float64{
		"bare_customers/s":   n / bare.Seconds(),
		"customers/s":        n / ended.Sub(began).Seconds(),
		"share_of_bare":      bare.Seconds() / ended.Sub(began).Seconds(),
		"share_sending":      bare.Seconds() / saw.Last.Sub(saw.First).Seconds(),
		"before_us/customer": float64(saw.First.Sub(began).Microseconds()) / n,
		"after_us/customer":  float64(ended.Sub(saw.Last).Microseconds()) / n,
		"cpu_us/customer":    float64((after.cpu - before.cpu).Microseconds()) / n,
		"written_B/customer": float64(after.written-before.written) / n,
	}
}

// plant makes a connector with a new ledger, on the engine of the flag -engine.
func (w wire) plant(b *testing.B, service *lean, customers int) *plant {
	b.Helper()
	folder := b.TempDir()
	statetest.New(b, filepath.Join(folder, "payersync.db"))
	p := must[*plant](b)(openPlant(b.Context(), folder, service.address, nil, customers, w.inFlight))
	p.mapping = w.mapping()
	return p
}

// used is what this process has used of the machine.
type used struct {
	cpu     time.Duration // user and system
	written int64         // bytes given to the system, to disks and to the network
}

func usedSoFar(b *testing.B) used {
	b.Helper()
	var of syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &of); err != nil {
		b.Fatal(err)
	}
	io := string(must[[]byte](b)(os.ReadFile("/proc/self/io")))
	var read, written int64
	if _, err := fmt.Sscanf(io, "rchar: %d\nwchar: %d", &read, &written); err != nil {
		b.Fatalf("/proc/self/io: %v", err)
	}
	return used{time.Duration(of.Utime.Nano() + of.Stime.Nano()), written}
}

// post posts the bodies as a bare loop does, and asks for the links of what was made.
func (w wire) post(b *testing.B, service *lean, bodies [][]byte) time.Duration {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: w.inFlight}}
	defer client.CloseIdleConnections()
	send := func(method, path string, body []byte) (answer []byte, err error) {
		req, err := http.NewRequestWithContext(b.Context(), method, service.address+"/api/customers"+path,
			bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		return io.ReadAll(resp.Body)
	}
	made := make([]struct{ ID string }, len(bodies))
	runtime.GC()
	began := time.Now()
	w.each(len(bodies), func(i int) {
		answer, err := send(http.MethodPost, "", bodies[i])
		if err = errors.Join(err, json.Unmarshal(answer, &made[i])); err != nil {
			b.Error(err)
		}
	})
	if w.links {
		w.each(len(bodies), func(i int) {
			if _, err := send(http.MethodPut, "/"+made[i].ID+"/directdebitmandates", []byte("{}")); err != nil {
				b.Error(err)
			}
		})
	}
	return time.Since(began)
}

// each calls do for each of n, as many at a time as there are requests in flight.
func (w wire) each(n int, do func(i int)) {
	var next atomic.Int64
	var loops sync.WaitGroup
	for range w.inFlight {
		loops.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	loops.Wait()
}

// lean is a service in a process of its own. It makes whatever it is asked for, and lists it.
type lean struct {
	address string
	cmd     *exec.Cmd
	in      io.Closer // ends it
}

// sighting is what a lean service saw.
type sighting struct {
	Writes      int
	First, Last time.Time
}

func (w wire) serve(b *testing.B) *lean {
	b.Helper()
	self := must[string](b)(os.Executable())
	s := &lean{cmd: exec.CommandContext(b.Context(), self)}
	s.cmd.Env = append(os.Environ(), childLatency+"="+w.latency.String())
	s.cmd.Stderr = os.Stderr
	s.in = must[io.WriteCloser](b)(s.cmd.StdinPipe())
	out := must[io.ReadCloser](b)(s.cmd.StdoutPipe())
	if err := s.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	line := make([]byte, 100)
	n := must[int](b)(out.Read(line))
	s.address = "http://" + strings.TrimSpace(string(line[:n]))
	return s
}

// expect fails unless the service saw so many writes.
func (s *lean) expect(b *testing.B, writes int) sighting {
	b.Helper()
	resp := must[*http.Response](b)(http.Get(s.address + "/seen"))
	defer resp.Body.Close()
	var saw sighting
	if err := json.NewDecoder(resp.Body).Decode(&saw); err != nil {
		b.Fatal(err)
	}
	if saw.Writes != writes {
		b.Fatalf("the service saw %d writes, want %d", saw.Writes, writes)
	}
	return saw
}

func (s *lean) stop(b *testing.B) {
	b.Helper()
	if err := errors.Join(s.in.Close(), s.cmd.Wait()); err != nil {
		b.Fatal(err)
	}
}

// leanChild is the service, until its input ends. It writes its address.
func leanChild(out io.Writer) error {
	latency, err := time.ParseDuration(os.Getenv(childLatency))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	routes := (&leanService{latency: latency}).routes()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		routes.ServeHTTP(w, r)
	}), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends when it is shut
	fmt.Fprintln(out, listener.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, server.Shutdown(context.Background()))
}

type leanService struct {
	latency time.Duration
	mu      sync.Mutex
	made    [][]byte // customers, as they are listed
	linked  []bool
	saw     sighting
}

func (s *leanService) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/oauth2/token", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"access_token":"t","token_type":"Bearer","expires_in":86400}`)
	})
	mux.HandleFunc("POST /api/customers", s.create)
	mux.HandleFunc("GET /api/customers", s.list)
	mux.HandleFunc("GET /api/customers/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = w.Write(s.shown(nil, s.number(r)))
	})
	mux.HandleFunc("PUT /api/customers/{id}/directdebitmandates", s.link)
	mux.HandleFunc("GET /seen", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s.saw)
	})
	return mux
}

// write notes a write under the lock, and lets it take its time.
func (s *leanService) write(do func()) {
	arrived := time.Now()
	time.Sleep(s.latency)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saw.Writes == 0 || arrived.Before(s.saw.First) {
		s.saw.First = arrived
	}
	do()
	s.saw.Writes++
	s.saw.Last = time.Now()
}

func (s *leanService) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) < 2 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var customer []byte
	s.write(func() {
		customer = fmt.Appendf(nil, `{"id":"c-%d",%s`, len(s.made), body[1:])
		s.made, s.linked = append(s.made, customer), append(s.linked, false)
	})
	_, _ = w.Write(customer)
}

func (s *leanService) link(w http.ResponseWriter, r *http.Request) {
	n := s.number(r)
	s.write(func() { s.linked[n] = true })
	_, _ = fmt.Fprintf(w, `{"id":"m-%[1]d","status":"CREATED","customer":{"id":"c-%[1]d"},"url":"https://sign.example.com/m-%[1]d"}`, n)
}

func (s *leanService) number(r *http.Request) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(r.PathValue("id"), "c-"))
	return n
}

func (s *leanService) list(w http.ResponseWriter, r *http.Request) {
	page, _ := strconv.Atoi(r.FormValue("Page"))
	size, _ := strconv.Atoi(r.FormValue("Size"))
	s.mu.Lock()
	defer s.mu.Unlock()
	from := min(max(page, 0)*size, len(s.made))
	out := []byte(`{"customers":[`)
	for n := from; n < min(from+size, len(s.made)); n++ {
		if n > from {
			out = append(out, ',')
		}
		out = s.shown(out, n)
	}
	_, _ = w.Write(fmt.Appendf(out, `],"pagination":{"totalElements":%d}}`, len(s.made)))
}

// shown appends a customer as it is shown.
func (s *leanService) shown(out []byte, n int) []byte {
	if !s.linked[n] {
		return append(out, s.made[n]...)
	}
	out = append(out, s.made[n][:len(s.made[n])-1]...)
	return fmt.Appendf(out, `,"directDebitMandate":{"id":"m-%d","status":"CREATED"}}`, n)
}
