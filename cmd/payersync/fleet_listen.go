package main

import (
	"context"
	"net"
	"net/http"
	"strings"

	"payersync/connector/server"
	"payersync/state"
)

// listen opens the node's listeners. The token in the path identifies a webhook's account, and the host name
// a page's account.
func (f *fleet) listen(ctx context.Context) (*listeners, error) {
	c := f.node.Server
	opened, err := openListeners(ctx, c, f.log, f.deliveries,
		answers{f.webhooks(c.Health == ""), f.health, f.metrics.Handler().ServeHTTP, f.pages})
	if err == nil {
		f.addresses = opened.addresses()
	}
	return opened, err
}

// hooksPath is the path of all accounts' webhooks, each followed by its account's token.
const hooksPath = "/webhooks/"

// webhooks hands a delivery to the endpoint of its account. One of nobody is answered as a false signature is.
func (f *fleet) webhooks(health bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, isHook := strings.CutPrefix(r.URL.Path, hooksPath)
		switch {
		case health && (r.URL.Path == server.HealthPath || r.URL.Path == server.ReadyPath):
			f.health(w, r)
		case isHook:
			f.webhook(w, r, token)
		default:
			f.stop(w, r)
		}
	}
}

// webhook opens the account if need be: it answers once the delivery is durable in the account's ledger.
func (f *fleet) webhook(w http.ResponseWriter, r *http.Request, token string) {
	m, known, err := f.useFor(r,
		func() (int64, bool) { id, known := f.known.byHook[state.HookHash(token)]; return id, known })
	switch {
	case !known:
		f.strangers.ServeHTTP(w, r)
		return
	case err != nil: // nothing is lost if it is sent again
		w.Header().Set("Retry-After", "10")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer f.release(m, true)
	at := m.inForce.Load()
	hook := at.Config.Billing.Webhook
	if hook == nil {
		f.strangers.ServeHTTP(w, r)
		return
	}
	r.URL.Path = hook.EndpointPath()
	at.endpoint.Handler().ServeHTTP(w, r)
}

// stop passes a request to unsubscribe from letters to the account of the link's path.
func (f *fleet) stop(w http.ResponseWriter, r *http.Request) {
	m, known, err := f.useFor(r, func() (int64, bool) { return f.known.ofStop(r.URL.Path) })
	switch {
	case !known:
		w.WriteHeader(http.StatusNotFound)
		return
	case err != nil:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer f.release(m, true)
	m.inForce.Load().endpoint.Handler().ServeHTTP(w, r)
}

// pages answers with the pages of the requested host's account, or of the only account for any host.
func (f *fleet) pages(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	m, known, err := f.useFor(r, func() (int64, bool) {
		id, known := f.known.byHost[strings.ToLower(host)]
		for only := range f.known.byID {
			if f.known.size() == 1 {
				return only, true
			}
			break
		}
		return id, known
	})
	switch {
	case known && err != nil:
		http.Error(w, "The account of this address cannot be opened now. Try again in a moment.",
			http.StatusServiceUnavailable)
		return
	case known:
		defer f.release(m, true)
	}
	if !known || m.inForce.Load().pages == nil {
		http.Error(w, "No account has its pages at this address: each account has its own in server.admin_url.",
			http.StatusNotFound)
		return
	}
	f.mu.Lock()
	m.shown = f.now()
	f.mu.Unlock()
	m.adminHandler()(w, r)
}

// useFor returns the account of a request, like use; known is false if find finds none.
func (f *fleet) useFor(r *http.Request, find func() (int64, bool)) (m *member, known bool, err error) {
	f.mu.RLock()
	id, known := find()
	f.mu.RUnlock()
	if known {
		m, err = f.use(r.Context(), id)
	}
	return m, known, err
}
