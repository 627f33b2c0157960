package main

import (
	"context"
	"net"
	"net/http"
	"strings"

	"payersync/connector/server"
)

// listen opens the node's listeners. Which account a request is for says the token in its path, where it is a
// webhook, and the name of the host that it asks, where it is for pages.
func (f *fleet) listen(ctx context.Context) (*listeners, error) {
	c := f.node.Server
	opened, err := openListeners(ctx, c, f.log, f.deliveries, answers{f.webhooks(c.Health == ""), f.health, f.metrics.Handler().ServeHTTP, f.pages})
	if err == nil {
		f.addresses = opened.addresses()
	}
	return opened, err
}

// hooksPath is below which the addresses of accounts' webhooks are, each with its account's token.
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

func (f *fleet) webhook(w http.ResponseWriter, r *http.Request, token string) {
	m := f.find(func(m *member) bool { return m.info.HookToken == token })
	if m == nil && f.expects(token) { // it is not open here: nothing is lost if it is sent again
		w.Header().Set("Retry-After", "10")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if m != nil {
		at := m.inForce.Load()
		if hook := at.Config.Billing.Webhook; hook != nil {
			r.URL.Path = hook.EndpointPath()
			at.endpoint.Handler().ServeHTTP(w, r)
			return
		}
	}
	f.strangers.ServeHTTP(w, r)
}

// stop hands a request of who wants no more letters to the account whose links begin so.
func (f *fleet) stop(w http.ResponseWriter, r *http.Request) {
	m := f.find(func(m *member) bool {
		path := m.inForce.Load().Config.StopPath()
		return path != "" && strings.HasPrefix(r.URL.Path, path)
	})
	if m == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	m.inForce.Load().endpoint.Handler().ServeHTTP(w, r)
}

// pages answers with the pages of the account whose host is asked; of the only one that has pages, whatever
// the host is called.
func (f *fleet) pages(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	var shown []*member
	m := f.find(func(m *member) bool {
		if m.inForce.Load().pages != nil {
			shown = append(shown, m)
		}
		return m.inForce.Load().pages != nil && strings.EqualFold(m.inForce.Load().Config.Server.AdminHost(), host)
	})
	if m == nil && len(shown) == 1 {
		m = shown[0]
	}
	if m == nil {
		http.Error(w, "No account has its pages at this address: each has its own, which is server.admin_url of its configuration.", http.StatusNotFound)
		return
	}
	m.adminHandler()(w, r)
}

// find returns the account that is open here and fits; nil for none.
func (f *fleet) find(fits func(*member) bool) *member {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, m := range f.members {
		if fits(m) {
			return m
		}
	}
	return nil
}

// expects reports whether the rows name an account that has this token.
func (f *fleet) expects(token string) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, row := range f.known {
		if row.HookToken == token {
			return true
		}
	}
	return false
}
