package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// accepted is what a listener on pipes accepts, with the other ends.
type accepted struct {
	t   *testing.T
	ln  *pipes
	l   *sharedListener
	srv *http.Server
}

func newAccepted(t *testing.T, c Connections) *accepted {
	a := &accepted{t: t, ln: newPipes(), srv: new(http.Server)}
	a.l = c.share(a.ln, a.srv)
	return a
}

// from accepts a connection from an address.
func (a *accepted) from(addr string) net.Conn {
	a.t.Helper()
	ours, theirs := net.Pipe()
	go func() { a.ln.conns <- addressed{theirs, addr} }()
	conn, err := a.l.Accept()
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _, _ = ours.Close(), conn.Close() })
	return conn
}

// addressed is a pipe with a remote address.
type addressed struct {
	net.Conn
	addr string
}

func (c addressed) RemoteAddr() net.Addr { return address(c.addr) }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

func open(conn net.Conn) bool {
	c := conn.(*sharedConn)
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return !c.closed
}

func (a *accepted) expectOpen(want bool, conns ...net.Conn) {
	a.t.Helper()
	for i, conn := range conns {
		if got := open(conn); got != want {
			a.t.Errorf("connection %d of %s: open is %t, want %t", i, conn.RemoteAddr(), got, want)
		}
	}
}

// covers F111
func TestTheClientWithMostConnectionsLosesTheOneThatWaitedLongest(t *testing.T) {
	t.Parallel()
	a := newAccepted(t, Connections{Most: 5, Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	small := a.from("203.0.113.1:1")
	proxy := []net.Conn{a.from("10.0.0.1:1"), a.from("10.0.0.1:2")}
	first, second := a.from("198.51.100.1:1"), a.from("198.51.100.200:2")
	a.expectOpen(true, small, proxy[0], proxy[1], first, second)

	a.srv.ConnState(first, http.StateActive) // it makes progress, so the second has waited longest
	third := a.from("192.0.2.1:1")
	a.expectOpen(false, second)
	fourth := a.from("192.0.2.1:2") // of three clients with one each, any gives way, but no proxy
	a.expectOpen(true, proxy...)
	left := 0
	for _, conn := range []net.Conn{small, first, third} {
		if open(conn) {
			left++
		}
	}
	if left != 2 || !open(fourth) {
		t.Errorf("%d of 3 are left beside the newest, want 2", left)
	}
}

// covers F111
func TestAProxysConnectionsGiveWayToEachOther(t *testing.T) {
	t.Parallel()
	a := newAccepted(t, Connections{Most: 2, Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}})
	first, second := a.from("10.0.0.1:1"), a.from("10.0.0.1:2")
	third := a.from("10.0.0.1:3")
	a.expectOpen(false, first)
	a.expectOpen(true, second, third)
}

// covers F40, F111
func TestAConnectionWithAVerifiedDeliveryDoesNotGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAccepted(t, Connections{Most: 1})
		first := a.from("203.0.113.1:1")
		keepConnection(a.srv.ConnContext(t.Context(), first))
		got := make(chan net.Conn)
		go func() { got <- a.from("198.51.100.1:1") }()
		synctest.Wait()
		a.expectOpen(true, first)

		a.srv.ConnState(first, http.StateIdle) // answered
		shut(t, first)
		shut(t, first) // a second close makes no second place
		second := <-got
		a.expectOpen(true, second)
		keepConnection(a.srv.ConnContext(t.Context(), second))
		failed := make(chan error, 1)
		go a.ln.dial()
		go func() {
			_, err := a.l.Accept()
			failed <- err
		}()
		synctest.Wait()
		shut(t, a.l)
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept on a closed listener: %v, want %v", err, net.ErrClosed)
		}
		if n := len(a.l.holders); n != 1 {
			t.Errorf("%d clients are remembered, want the one with a connection", n)
		}
	})
}

// 2,200 connections on which nothing comes are more than there is room for, and
// nothing but a newcomer ends them here.
//
// covers F15, F111
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	const idle = 2200
	patient := func(srv *http.Server) { srv.ReadHeaderTimeout, srv.ReadTimeout, srv.IdleTimeout = 0, 0, 0 }
	for name, begin := range map[string]string{"silent": "", "with half a request": "POST " + hookPath +
		" HTTP/1.1\r\nHost: a\r\n", "kept alive": "GET / HTTP/1.1\r\nHost: a\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t, bodyOnly())
			address := e.listen(patient)
			from := sender{local: "127.0.7.2"}
			for range idle {
				l := from.line(t, address)
				if l.conn == nil {
					t.Fatal("a connection was not accepted")
				}
				defer l.close()
				if _, err := io.WriteString(l.conn, begin); err != nil {
					t.Fatal(err)
				}
			}
			for i, who := range []sender{{local: "127.0.8.1"}, {local: "127.0.7.1"}, from} {
				l := who.line(t, address)
				body := fmt.Sprintf(`{"type":"customer","eventId":"ev-%d","customerId":"cus_1"}`, i)
				if got := l.send(signed(body), ""); got != http.StatusOK {
					t.Errorf("beside %d idle connections a delivery from %s was answered %d", idle, who.local, got)
				}
				l.close()
			}
			if _, err := get(t, "http://"+address+HealthPath); err != nil {
				t.Errorf("health: %v", err)
			}
		})
	}
}

// covers F111
func TestLargeBodiesThatNeverEndKeepNoDeliveryOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, bodyOnly())
		defer shut(t, e.ledger)
		slow, end := context.WithCancel(t.Context())
		var senders sync.WaitGroup
		for range 2 * maxLarge {
			body := io.MultiReader(bytesOf(smallBody), never{slow})
			senders.Go(func() {
				r := delivery("")
				r.Body, r.ContentLength = io.NopCloser(body), -1
				e.serve(r)
			})
		}
		synctest.Wait()
		if n := len(e.large); n != maxLarge {
			t.Errorf("%d large bodies are held, want %d", n, maxLarge)
		}
		e.expect(200, delivery(sampleBody))
		w := e.serve(delivery(`{"type":"customer","customerId":"cus_1","pad":"` + pad(smallBody) + `"}`))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("a large delivery that has to wait too long was answered %d with %v, want 503 and Retry-After", w.Code,
				w.Header())
		}
		end()
		senders.Wait()
		if n := len(e.large); n != 0 {
			t.Errorf("%d large bodies are held after all have ended", n)
		}
		e.expect(200, delivery(`{"type":"customer","customerId":"cus_1","pad":"`+pad(smallBody)+`"}`))
	})
}

func bytesOf(n int) io.Reader { return io.LimitReader(zeros{}, int64(n)) }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// never is a reader on which nothing comes.
type never struct{ ctx context.Context }

func (n never) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, io.ErrUnexpectedEOF
}

func pad(n int) string { return fmt.Sprintf("%0*d", n, 0) }

// signed is a delivery as the service sends it.
func signed(body string) request {
	return request{http.MethodPost, body, "Content-Type: application/json\r\nX-Signature: " + mac(hookNew, body) + "\r\n"}
}

// A sender that gives up while its body is awaited takes the room with it at once.
func TestAPeerThatHangsUpIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ln := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		srv := NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		served := make(chan error, 1)
		go func() { served <- Connections{Most: 1}.Serve(ctx, ln, srv) }()
		for range 3 {
			conn := ln.dial()
			go func() { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") }()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("answered %v, %v", resp, err)
			}
			resp.Body.Close()
			shut(t, conn)
			time.Sleep(time.Second)
		}
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}
