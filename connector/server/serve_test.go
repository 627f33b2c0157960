package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func shut(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, url string) (string, error) {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

// covers F67
func TestServeLetsRequestsUnderWayFinish(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	ln := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, ln, NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-leave
			_, _ = io.WriteString(w, "whole")
		})))
	}()
	var body string
	var err error
	var asked sync.WaitGroup
	asked.Go(func() { body, err = get(t, "http://"+ln.Addr().String()) })
	<-entered
	stop()
	close(leave)
	asked.Wait()
	if err != nil || body != "whole" {
		t.Errorf("the request under way got %q, %v", body, err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := get(t, "http://"+ln.Addr().String()); err == nil {
		t.Error("a request after the stop was answered")
	}
}

// covers F67
func TestServeCutsOffWhatDoesNotFinishInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ln := newPipes()
		entered, leave := make(chan struct{}), make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- Serve(ctx, ln, NewHTTPServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				close(entered)
				<-leave
			})))
		}()
		conn := ln.dial()
		defer shut(t, conn)
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-entered
		began := time.Now()
		stop()
		if err := <-served; !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "requests were cut off") {
			t.Errorf("Serve: %v, want it to say that requests were cut off", err)
		}
		if took := time.Since(began); took != stopWithin {
			t.Errorf("stopping took %s, want %s", took, stopWithin)
		}
		close(leave)
	})
}

func TestServeSpeaksTLSWhenItIsGivenACertificate(t *testing.T) {
	t.Parallel()
	lender := httptest.NewTLSServer(nil) // lends its certificate, and a client that trusts it
	defer lender.Close()
	ln := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	srv := NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_,
			_ = io.WriteString(w, r.Proto)
	}))
	srv.TLSConfig = &tls.Config{Certificates: lender.TLS.Certificates}
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, srv) }()
	client := lender.Client()
	client.Timeout = 5 * time.Second
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+ln.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || string(body) != "HTTP/1.1" {
		t.Errorf("got %q, %v; want one request per connection at a time, HTTP/1.1", body, err)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestServeReportsAListenerThatFails(t *testing.T) {
	t.Parallel()
	ln := listen(t)
	shut(t, ln)
	if err := Serve(t.Context(), ln, NewHTTPServer(nil)); !errors.Is(err, net.ErrClosed) ||
		!strings.Contains(err.Error(), "serve on 127.0.0.1") {
		t.Errorf("Serve: %v, want the closed listener by its address", err)
	}
}

// pipes is a listener without a network, so that it can be used on fake time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// drip writes text one byte per second until it is hung up on, and returns how
// long that took.
func drip(conn net.Conn, text string) time.Duration {
	began := time.Now()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for i := range len(text) {
		if _, err := conn.Write([]byte(text[i : i+1])); err != nil {
			break
		}
		time.Sleep(time.Second)
	}
	return time.Since(began)
}

// covers F15
func TestSlowPeersAreHungUpOn(t *testing.T) {
	t.Parallel()
	const head = "POST /webhooks/billing HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n"
	tests := []struct {
		name, atOnce, slowly string
		most                 time.Duration
	}{
		{"slow header", "", head + strings.Repeat("X-Pad: 1\r\n", 100), 6 * time.Second},
		{"slow body", head + "\r\n", strings.Repeat("x", 1000), 11 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ln := newPipes()
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() {
					served <- Serve(ctx, ln, NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if _, err := io.ReadAll(r.Body); err != nil {
							w.WriteHeader(http.StatusBadRequest)
						}
					})))
				}()
				conn := ln.dial()
				defer shut(t, conn)
				if _, err := io.WriteString(conn, tt.atOnce); err != nil {
					t.Fatal(err)
				}
				if took := drip(conn, tt.slowly); took > tt.most {
					t.Errorf("hung up after %s, want at most %s", took, tt.most)
				}
				stop()
				if err := <-served; err != nil {
					t.Errorf("Serve: %v", err)
				}
			})
		})
	}
}
