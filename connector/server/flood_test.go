package server

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The full numbers are those of -flood 4000. Without it the flood is as
// fast as its few senders are, and ends with the last genuine delivery.
var (
	floodRate = flag.Int("flood", 0,
		"junk requests per second, for the time of -flood-for, with a limit on how long a delivery may wait")
	floodFor = flag.Duration("flood-for", 10*time.Second, "how long each flood of -flood lasts")
)

const (
	genuineRate    = 50                     // deliveries per second
	genuineAtLeast = 25                     // of the short form
	waitAtMost     = 250 * time.Millisecond // of 99 in 100 deliveries, beside -flood 4000
	floodSenders   = 20
)

// flood is junk that comes beside genuine deliveries. All of it comes over real
// connections; every address in 127.0.0.0/8 is this machine's own.
type flood struct {
	name    string
	trusted string               // of our proxies; "" for none
	genuine sender               // who sends genuine deliveries
	junk    func(nth int) sender // who sends junk
	what    func() []request     // in turn
	fewer   int                  // so many times fewer requests than the usual
	hangUp  bool                 // each over a connection of its own
}

// sender is where a request comes from.
type sender struct {
	local     string // our end of the connection
	forwarded string // what the proxy says of it; "" for no proxy
}

type request struct{ method, body, header string }

// mixture is the junk of somebody who has read our documentation: most of it is
// refused for nothing but its signature.
func mixture() []request {
	forged := request{http.MethodPost, sampleBody, "Content-Type: application/json\r\nX-Signature: " +
		mac("not-the-secret-of-this-endpoint", sampleBody) + "\r\n"}
	return append(slices.Repeat([]request{forged}, 7),
		request{method: http.MethodGet},
		request{http.MethodPost, strings.Repeat("x", 20<<10), "Content-Type: text/plain\r\n"},
		request{http.MethodPost, sampleBody, "Content-Type: application/json\r\n"})
}

// bulk is junk that takes as much reading and verifying as a request can.
func bulk() []request {
	return []request{{http.MethodPost, pad(maxBody), "Content-Type: application/json\r\nX-Signature: " +
		mac("not-the-secret-of-this-endpoint", "") + "\r\n"}}
}

func floods() []flood {
	same := func(s sender) func(int) sender { return func(int) sender { return s } }
	direct, proxied := sender{local: "127.0.7.1"}, sender{"127.0.0.1", "203.0.113.1"}
	blocks := func(nth int) sender { return sender{local: fmt.Sprintf("127.0.%d.1", 10+nth)} }
	return []flood{
		{name: "from one block", genuine: direct, junk: same(sender{local: "127.0.7.2"}), what: mixture},
		{name: "from twenty blocks", genuine: direct, junk: blocks, what: mixture},
		{name: "from twenty blocks, hanging up", genuine: direct, junk: blocks, what: mixture, hangUp: true},
		{name: "in bulk from twenty blocks", genuine: direct, junk: blocks, what: bulk, fewer: 20},
		{
			name: "through the proxy from one block", trusted: "127.0.0.0/8",
			genuine: proxied, junk: same(sender{"127.0.0.1", "203.0.113.2"}), what: mixture,
		}, {
			name: "through the proxy from twenty blocks", trusted: "127.0.0.0/8", genuine: proxied,
			junk: func(nth int) sender { return sender{"127.0.0.1", fmt.Sprintf("198.51.%d.1", nth)} }, what: mixture,
		}, {
			name: "through a proxy that nobody trusts, hanging up", genuine: proxied,
			junk: func(nth int) sender { return sender{"127.0.0.1", fmt.Sprintf("198.51.%d.1", nth)} }, what: mixture,
			hangUp: true,
		},
	}
}

// covers F40, F111
func TestGenuineDeliveriesAreTakenInBesideAFlood(t *testing.T) {
	for _, f := range floods() {
		t.Run(f.name, func(t *testing.T) {
			var deliveries, junk outcomes
			began := time.Now()
			waits := f.play(t, &deliveries, &junk)
			perSecond := int(float64(junk.total()) / time.Since(began).Seconds())
			slices.Sort(waits)
			p99 := waits[len(waits)*99/100]
			t.Logf("genuine: %v; half within %v, 99 of 100 within %v, all within %v", &deliveries,
				waits[len(waits)/2].Round(time.Microsecond), p99.Round(time.Microsecond),
				waits[len(waits)-1].Round(time.Microsecond))
			t.Logf("junk: %d a second; %v", perSecond, &junk)
			if n := deliveries.of(http.StatusOK); n != len(waits) {
				t.Errorf("%d of %d genuine deliveries were taken in", n, len(waits))
			}
			if junk.of(http.StatusOK) > 0 || junk.total() < len(waits) {
				t.Errorf("the junk was answered %v; want none taken in and more of it than of deliveries", &junk)
			}
			if *floodRate > 0 && p99 > waitAtMost {
				t.Errorf("99 of 100 deliveries were taken in within %v, want %v", p99, waitAtMost)
			}
			if want := *floodRate / max(f.fewer, 1); perSecond < want*3/4 {
				t.Errorf("the flood came to %d requests a second, want %d: measure on a quieter machine", perSecond, want)
			}
		})
	}
}

// outcomes counts answers by their status; 0 stands for none.
type outcomes [600]atomic.Int64

func (o *outcomes) of(status int) int { return int(o[status].Load()) }

func (o *outcomes) total() (n int) {
	for status := range o {
		n += o.of(status)
	}
	return n
}

func (o *outcomes) String() string {
	var out []string
	for status := range o {
		if n := o.of(status); n > 0 {
			out = append(out, fmt.Sprintf("%d × %d", n, status))
		}
	}
	return strings.Join(out, ", ")
}

// play sends both kinds to an endpoint with its usual limits and returns how long
// the genuine ones waited from the moment at which they were due.
func (f flood) play(t *testing.T, deliveries, junk *outcomes) []time.Duration {
	e := newEndpoint(t, bodyOnly(), func(c *Config) {
		c.Refused, c.Report, c.Nudge = 0, nil, nil
		if f.trusted != "" {
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(f.trusted)}
		}
	})
	address := e.listen()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var senders sync.WaitGroup
	for nth := range floodSenders {
		senders.Go(func() { f.sendJunk(ctx, t, address, nth, junk) })
	}
	waits := f.sendGenuine(ctx, t, address, deliveries, func() bool { return junk.total() > genuineAtLeast })
	stop()
	senders.Wait()
	return waits
}

// listen serves the endpoint on this machine until the test ends.
func (e *endpoint) listen(edit ...func(*http.Server)) (address string) {
	t := e.t.(*testing.T)
	ln := listen(t)
	srv := NewHTTPServer(e.Handler())
	for _, f := range edit {
		f(srv)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Connections{Proxies: e.cfg.TrustedProxies}.Serve(ctx, ln, srv) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// sendJunk sends junk over one connection after the other, its share of -flood, or
// as fast as it is answered.
func (f flood) sendJunk(ctx context.Context, t *testing.T, address string, nth int, answered *outcomes) {
	from := f.junk(nth)
	line := from.line(t, address)
	defer func() { line.close() }()
	pace, junk := newPace(*floodRate/floodSenders/max(f.fewer, 1)), f.what()
	for n := nth; pace.wait(ctx); n++ {
		status := line.send(junk[n%len(junk)], from.forwarded)
		if status == 0 || f.hangUp {
			line.close()
			line = from.line(t, address)
		}
		if ctx.Err() == nil {
			answered[status].Add(1)
		}
	}
}

// line is one connection on which requests follow each other.
type line struct {
	conn   net.Conn
	answer *bufio.Reader
}

func (s sender) line(t *testing.T, address string) line {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(s.local)}, Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return line{}
	}
	return line{conn, bufio.NewReader(conn)}
}

func (l line) close() {
	if l.conn != nil {
		_ = l.conn.Close() // whatever was sent is lost on purpose
	}
}

// send returns the status of the answer, 0 for none.
func (l line) send(r request, forwarded string) int {
	if l.conn == nil {
		return 0
	}
	if forwarded != "" {
		r.header += "X-Forwarded-For: " + forwarded + "\r\n"
	}
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%s\r\n%s", r.method, hookPath, len(r.body),
		r.header, r.body)
	if err := errors.Join(l.conn.SetDeadline(time.Now().Add(20*time.Second)),
		ignoreCount(io.WriteString(l.conn, text))); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(l.answer, nil)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	if resp.Close {
		l.close()
	}
	return resp.StatusCode
}

func ignoreCount(_ int, err error) error { return err }

// sendGenuine sends deliveries at their own pace, whatever becomes of those
// before.
func (f flood) sendGenuine(ctx context.Context, t *testing.T, address string, answered *outcomes,
	begun func() bool) (waits []time.Duration) {
	for !begun() {
		time.Sleep(time.Millisecond) // the flood is real, and so is the time
	}
	n := genuineAtLeast
	if *floodRate > 0 {
		n = int(floodFor.Seconds() * genuineRate)
	}
	waits = make([]time.Duration, n)
	pace := newPace(genuineRate)
	var under sync.WaitGroup
	for i := range waits {
		pace.wait(ctx)
		due := time.Now()
		under.Go(func() {
			body := fmt.Sprintf(`{"type":"customer","eventId":"ev-%d","customerId":"cus_1"}`, i)
			l := f.genuine.line(t, address)
			defer l.close()
			status := l.send(signed(body), f.genuine.forwarded)
			answered[status].Add(1)
			waits[i] = time.Since(due)
		})
	}
	under.Wait()
	return waits
}

// pace hands out moments that are evenly apart, and makes up for those it was
// late for.
type pace struct {
	next  time.Time
	every time.Duration // 0 for at once
}

func newPace(perSecond int) *pace {
	p := &pace{next: time.Now()}
	if perSecond > 0 {
		p.every = time.Second / time.Duration(perSecond)
	}
	return p
}

// wait returns at the next moment, and false when ctx has ended.
func (p *pace) wait(ctx context.Context) bool {
	if p.every > 0 {
		p.next = p.next.Add(p.every)
		select {
		case <-time.After(time.Until(p.next)):
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}
