package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"payersync/state"
)

// stopWithin is how long requests under way have to finish when a server stops.
const stopWithin = 20 * time.Second

const defaultArrive = 10 * time.Second // for a request to arrive whole

// NewHTTPServer returns a server for h with limits against slow or greedy peers (fault F15): every phase of a
// request has a deadline, and its header is at most 16 kB. It speaks HTTP/1 only, so a connection is one
// request at a time. Callers set TLSConfig and ErrorLog if they need them.
func NewHTTPServer(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		Protocols:         protocols,
	}
	ArriveWithin(srv, defaultArrive)
	return srv
}

// ArriveWithin gives each request to srv so long to arrive whole, before it serves.
func ArriveWithin(srv *http.Server, d time.Duration) {
	srv.ReadHeaderTimeout, srv.ReadTimeout = min(srv.ReadHeaderTimeout, d), d
	srv.WriteTimeout = d + storeWait + 2*state.BusyTimeout // the last arrival gets its turn, too, after a waiting one
}

// Serve is Connections.Serve with the usual number of connections.
func Serve(ctx context.Context, ln net.Listener, srv *http.Server) error {
	return Connections{}.Serve(ctx, ln, srv)
}

// Serve serves on ln, over TLS when srv has a TLSConfig, until ctx ends. Requests
// under way then have 20 s to finish. It closes ln and returns nil after an
// orderly stop.
func (c Connections) Serve(ctx context.Context, ln net.Listener, srv *http.Server) error {
	served := make(chan error, 1)
	shared := c.share(ln, srv)
	go func() {
		if srv.TLSConfig != nil {
			served <- srv.ServeTLS(shared, "", "")
		} else {
			served <- srv.Serve(shared)
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
