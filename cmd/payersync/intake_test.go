package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/server"
	"payersync/state"
)

var intake = flag.Int("intake", 2000,
	"how many webhooks are sent to a serve as it is shipped; the figures of BenchmarkIntake are those of 200000")

const (
	intakeSenders = 64
	intakePayers  = 500 // that the webhooks tell of, in turn
)

// BenchmarkIntake sends webhooks to payersync serve with a minimal configuration. It is a process of its own,
// its ledger is in the folder for temporary files (set TMPDIR to a disk), its log is written, and it reads
// the webhooks' customers meanwhile. The senders have one connection each, come from one proxy, and send the
// next webhook after each acknowledgement.
//
// The bare endpoint is the baseline on any machine: the same senders before a process that only verifies each
// signature. The senders share the machine's cores with both.
func BenchmarkIntake(b *testing.B) {
	w := newWorld(b, people(intakePayers))
	w.edit("payersync.yaml", "max_creates: 20", fmt.Sprintf("max_creates: %d", intakePayers))
	w.expect(exitDone, "sync")
	w.edit("payersync.yaml", fmt.Sprintf("max_creates: %d", intakePayers), "max_creates: 20")
	w.asShipped()
	s := &sending{world: w}
	for _, c := range w.box.Customers() {
		s.customers = append(s.customers, c.ID)
	}
	b.Run("bare", func(b *testing.B) { s.measure(b, exec.CommandContext(b.Context(), "bare-endpoint", w.hooks)) })
	b.Run("serve", func(b *testing.B) {
		before, commits := s.inLedger()
		s.measure(b, w.process("serve").cmd)
		after, committed := s.inLedger()
		if after-before != b.N**intake {
			b.Errorf("the ledger has %d of the %d webhooks that were acknowledged", after-before, b.N**intake)
		}
		b.ReportMetric(float64(after-before)/float64(committed-commits), "deliveries/commit")
	})
}

// Nobody is told apart by an address: all come from one, the junk among them.
//
// covers F40, F111
func TestServeAsItIsShippedTakesInEveryGenuineWebhookBesideJunk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.asShipped()
	serve := w.serve()
	s := &sending{world: w, customers: []string{"nobody"}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var junk sync.WaitGroup
	var refused, limited, other atomic.Int64
	for range 4 {
		l := s.line()
		junk.Go(func() {
			defer l.Close()
			for ctx.Err() == nil {
				switch l.answer(bytes.Replace(s.request(), []byte("X-Signature: "), []byte("X-Signature: 0"), 1)) {
				case http.StatusUnauthorized:
					refused.Add(1)
				case http.StatusTooManyRequests:
					limited.Add(1)
				default:
					other.Add(1)
				}
			}
		})
	}
	waits := make([]time.Duration, *intake)
	s.send(waits)
	stop()
	junk.Wait()
	serve.stop()
	t.Logf("beside %d genuine webhooks, junk was refused %d times and answered %d times that it is too many", len(waits),
		refused.Load(), limited.Load())
	if stored, _ := s.inLedger(); stored != len(waits) {
		t.Errorf("the ledger has %d of the %d webhooks that were acknowledged", stored, len(waits))
	}
	if refused.Load() == 0 || other.Load() > 0 {
		t.Errorf("junk was refused %d times and answered otherwise %d times", refused.Load(), other.Load())
	}
}

// asShipped removes all optional parts of the configuration.
func (w *world) asShipped() {
	w.t.Helper()
	for _, set := range []string{
		"  rate_per_second: 100000\n", "guards: {max_creates: 20}\n", `, admin: "", metrics: ""`,
		"log: {level: debug, format: json}\n",
	} {
		w.edit("payersync.yaml", set, "")
	}
}

// bareEndpoint is a process that verifies and answers webhooks, and stores none.
func bareEndpoint() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	verifier, err := billing.NewVerifier(billing.Signature{Header: "x-signature", Algorithm: "hmac-sha256",
		Encoding: "hex", Signed: "{body}", Secrets: []connector.Secret{connector.NewSecret(webhookSecret)}})
	if err != nil {
		panic(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", os.Args[1])
	if err != nil {
		panic(err)
	}
	err = server.Serve(ctx, listener, server.NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, err := body.ReadFrom(r.Body)
		if err == nil {
			_, err = verifier.Verify(r.Header, body.Bytes(), time.Now())
		}
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})))
	if err != nil {
		panic(err)
	}
}

// sending are webhooks about the customers of a world, each another one.
type sending struct {
	*world
	customers []string
	sent      atomic.Int64
}

// inLedger returns how many webhooks the ledger has, and how many commits it counts.
func (s *sending) inLedger() (webhooks int, commits int64) {
	s.t.Helper()
	l, err := state.Open(s.t.Context(), state.Options{Path: s.path("payersync.db"), KeyFile: s.path("payersync.key")})
	s.must(err)
	funnel, err := l.Funnel(s.t.Context())
	s.must(err)
	commits, err = l.Commits(s.t.Context())
	s.must(errors.Join(err, l.Close()))
	for _, count := range funnel.Inbox {
		webhooks += count
	}
	return webhooks, commits
}

// measure starts an endpoint, sends it b.N times as many webhooks as -intake says, and reports how fast it was.
func (s *sending) measure(b *testing.B, endpoint *exec.Cmd) {
	b.Helper()
	b.StopTimer()
	logged, err := os.Create(s.path("endpoint.log"))
	s.must(err)
	defer logged.Close()
	endpoint.Stderr = logged
	for name, value := range s.env {
		endpoint.Env = append(endpoint.Environ(), name+"="+value)
	}
	s.must(endpoint.Start())
	s.listens(endpoint)
	waits := make([]time.Duration, b.N**intake)
	b.StartTimer()
	s.send(waits)
	b.StopTimer()
	s.must(errors.Join(endpoint.Process.Signal(syscall.SIGTERM), endpoint.Wait()))
	slices.Sort(waits)
	used := endpoint.ProcessState.UserTime() + endpoint.ProcessState.SystemTime()
	b.ReportMetric(float64(len(waits))/b.Elapsed().Seconds(), "deliveries/s")
	b.ReportMetric(waits[len(waits)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(waits[len(waits)*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(float64(used.Microseconds())/float64(len(waits)), "cpu-µs/delivery")
}

// send sends as many webhooks as there are waits, and notes how long each waited to be acknowledged.
func (s *sending) send(waits []time.Duration) {
	s.t.Helper()
	var next atomic.Int64
	var senders sync.WaitGroup
	for range intakeSenders {
		l := s.line()
		senders.Go(func() {
			defer l.Close()
			for n := next.Add(1) - 1; n < int64(len(waits)) && !s.t.Failed(); n = next.Add(1) - 1 {
				request, began := s.request(), time.Now()
				if status := l.answer(request); status != http.StatusOK {
					s.t.Errorf("a genuine webhook was answered %d", status)
				}
				waits[n] = time.Since(began)
			}
		})
	}
	senders.Wait()
}

// request is the next webhook as a proxy hands it on.
func (s *sending) request() []byte {
	n := s.sent.Add(1)
	body := event(fmt.Sprintf("event-%d", n), s.customers[n%int64(len(s.customers))])
	return fmt.Appendf(nil, "POST /webhooks/billing HTTP/1.1\r\nHost: hooks.example.com\r\nX-Forwarded-For: 203.0.113.7\r\n"+
		"Content-Type: application/json\r\nX-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", signature(body), len(body), body)
}

// line is a connection for sequential requests. An HTTP client would use more processor time than the
// measured work.
type line struct {
	net.Conn
	answers *bufio.Reader
}

func (s *sending) line() line {
	s.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", s.hooks)
	s.must(err)
	return line{conn, bufio.NewReader(conn)}
}

// answer sends a request and returns the status of its answer without a body; 0 for none.
func (l line) answer(request []byte) (status int) {
	if _, err := l.Write(request); err != nil {
		return 0
	}
	first, err := l.answers.ReadString('\n')
	for rest := []byte(nil); err == nil && len(rest) != len("\r\n"); {
		rest, err = l.answers.ReadSlice('\n')
	}
	_, code, _ := strings.Cut(first, " ") // HTTP/1.1 200 OK
	if err == nil {
		status, err = strconv.Atoi(code[:min(len("200"), len(code))])
	}
	if err != nil {
		return 0
	}
	return status
}

// listens waits until an endpoint answers.
func (s *sending) listens(endpoint *exec.Cmd) {
	s.t.Helper()
	eventually(s.t, endpoint.String()+" to listen", func() bool {
		resp, err := client.Get("http://" + s.hooks + "/healthz")
		return err == nil && resp.Body.Close() == nil
	})
}
