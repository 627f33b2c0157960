package credentials

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"payersync/connector"
)

// Listen opens the port of a redirect address on this machine: a plain http address of loopback with a port.
func Listen(ctx context.Context, redirect string) (net.Listener, error) {
	u, err := url.Parse(redirect)
	if err != nil || u.Scheme != "http" || u.Port() == "" || !connector.IsLoopback(u.Hostname()) {
		return nil, connector.Advise(fmt.Errorf("the redirect address %s is not one of this machine. Use the form http://localhost:8484/callback, or paste the address of the answer", redirect), connector.Step{Do: connector.DoConnectByPaste})
	}
	host := u.Hostname()
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, u.Port()))
	if err != nil {
		return nil, connector.Advise(fmt.Errorf("cannot wait for the consent: %w. Stop what uses that port, or paste the address of the answer", err), connector.Step{Do: connector.DoConnectByPaste})
	}
	return listener, nil
}

// Await serves the redirect address until the answer to the consent comes, and returns its parameters. It
// refuses all other requests without effect, so nobody can spoil a consent by guessing. It closes the
// listener and waits for its goroutines.
func (c *Consent) Await(ctx context.Context, listener net.Listener) (url.Values, error) {
	ctx, cancel := context.WithTimeout(ctx, c.ends.Sub(c.now()))
	defer cancel()
	answers := make(chan answer, 1)
	srv := &http.Server{
		Handler: c.handler(answers), ReadTimeout: 10 * time.Second, ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
	}
	served := make(chan error, 1)
	go func() {
		defer close(served)
		served <- srv.Serve(listener)
	}()
	defer func() {
		stop, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer done()
		if srv.Shutdown(stop) != nil {
			_ = srv.Close()
		}
		for range served { // until it has stopped
		}
	}()
	select {
	case a := <-answers:
		return a.query, a.err
	case err := <-served:
		return nil, fmt.Errorf("wait for the consent: %w", err)
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, &RedirectError{Why: fmt.Sprintf("it did not come within %s", ConsentLife), Final: true}
		}
		return nil, ctx.Err()
	}
}

type answer struct {
	query url.Values
	err   error
}

// handler answers the redirect. Its pages are fixed texts: nothing of a request
// is ever shown.
func (c *Consent) handler(answers chan<- answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Connection", "close")
		if r.Method != http.MethodGet {
			h.Set("Allow", http.MethodGet)
			http.Error(w, "Only a browser's redirect is expected here.", http.StatusMethodNotAllowed)
			return
		}
		query, err := c.Accept(&url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath,
			RawQuery: r.URL.RawQuery})
		var refused *RedirectError
		if errors.As(err, &refused) {
			http.Error(w, "This is not the answer to the consent that payersync waits for.", http.StatusBadRequest)
		} else {
			_, _ = fmt.Fprintln(w, "payersync has the consent. You can close this page and go back to the terminal.")
		}
		if err == nil || refused != nil && refused.Final {
			select {
			case answers <- answer{query, err}:
			default: // the first answer counts
			}
		}
	})
}
