package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// The limits of every listener (faults.md section 6.2).
const (
	maxConnections = 2048
	stopWithin     = 20 * time.Second
)

// NewHTTPServer returns a server for h that no slow or greedy peer can hold on to
// (fault F15): every phase of a request has a deadline and its header is at most
// 16 kB. It speaks HTTP/1 only, so that a connection is one request at a time.
// Callers set TLSConfig and ErrorLog where they need them.
func NewHTTPServer(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		Protocols:         protocols,
	}
}

// Serve serves on ln, over TLS when srv has a TLSConfig, until ctx ends. Requests
// under way then have 20 s to finish. It closes ln and returns nil after an
// orderly stop.
func Serve(ctx context.Context, ln net.Listener, srv *http.Server) error {
	served := make(chan error, 1)
	go func() {
		if capped := capConnections(ln, maxConnections); srv.TLSConfig != nil {
			served <- srv.ServeTLS(capped, "", "")
		} else {
			served <- srv.Serve(capped)
		}
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	err := srv.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("stop serving on %s: requests were cut off: %w", ln.Addr(), errors.Join(err, srv.Close()))
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// cappedListener accepts no more connections than it has slots; others wait in
// the kernel's queue.
type cappedListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	close  sync.Once
}

func capConnections(ln net.Listener, most int) *cappedListener {
	return &cappedListener{Listener: ln, slots: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept waits for a slot, then for a connection.
func (l *cappedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &cappedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close ends Accept, also while it waits for a slot.
func (l *cappedListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// cappedConn gives its slot back when it is closed.
type cappedConn struct {
	net.Conn
	release func()
}

// Close closes the connection and frees its slot, once.
func (c *cappedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
