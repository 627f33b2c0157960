package main

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/session"
	"payersync/connector/accounting"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/quickbooks"
	"payersync/connector/accounting/quickbooks/quickbookstest"
	"payersync/connector/accounting/xero"
	"payersync/connector/accounting/xero/xerotest"
	"payersync/connector/transport"
	"payersync/state"
	"payersync/state/statetest"
)

// asked is a connection whose accounting system counts the requests for its organisation.
type asked struct {
	*testing.T
	now    time.Time
	ledger *state.Ledger
	model  interface {
		http.RoundTripper
		Requests() []*http.Request
	}
	open func(p accounting.Proof, http *transport.Client) (accounting.Source, error)
	path string // of the question
}

// run reads the source as a run of a process of its own does, and returns how often it asked.
func (a *asked) run(by string) (asked int, err error) {
	a.Helper()
	ctx := context.Background()
	before := len(a.model.Requests())
	source, err := a.open(session.NewProof(a.ledger, "books", by),
		transport.New(transport.Options{Base: a.model, Retries: -1}))
	if err != nil {
		a.Fatal(err)
	}
	info, err := source.Describe(ctx)
	if err == nil {
		err = a.ledger.Do(ctx, func(tx *state.Tx) error {
			return tx.PinConnection(state.Connection{Name: "books", Info: info})
		})
	}
	if err == nil {
		for _, wrong := range source.Customers(ctx, time.Time{}) {
			err = errors.Join(err, wrong)
		}
	}
	for _, r := range a.model.Requests()[before:] {
		if strings.HasPrefix(r.URL.Path, a.path) {
			asked++
		}
	}
	return asked, err
}

func (a *asked) wantAsked(times int, when, by string) {
	a.Helper()
	if n, err := a.run(by); n != times || err != nil {
		a.Errorf("%s: it asked %d times, want %d: %v", when, n, times, err)
	}
}

// covers F28
func TestTheOrganisationIsAskedForOnceADay(t *testing.T) {
	t.Parallel()
	books, company := xerotest.New(time.Now), quickbookstest.New(time.Now)
	books.Add(3)
	company.Add(3)
	limiter := &accountingtest.Limiter{}
	for name, a := range map[string]*asked{
		"xero": {model: books, path: "/connections",
			open: func(p accounting.Proof, http *transport.Client) (accounting.Source, error) {
				return xero.New(xero.Config{Tenant: books.Tenants[0].ID},
					xero.Deps{HTTP: http, Token: books, Limiter: limiter, Proof: p, Now: time.Now})
			}},
		"quickbooks": {model: company, path: "/v3/company/" + quickbookstest.Realm + "/companyinfo/",
			open: func(p accounting.Proof, http *transport.Client) (accounting.Source, error) {
				return quickbooks.New(quickbooks.Config{Company: quickbookstest.Realm},
					quickbooks.Deps{HTTP: http, Token: company, Limiter: limiter, Proof: p, Now: time.Now})
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a.T, a.now = t, time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)
			path := filepath.Join(t.TempDir(), "payersync.db")
			statetest.New(t, path)
			var err error
			if a.ledger, err = state.Open(t.Context(),
				state.Options{Path: path, KeyFile: path + ".key", Now: func() time.Time { return a.now }}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = a.ledger.Close() })
			a.wantAsked(1, "the first run", "ours")
			for range 9 {
				a.now = a.now.Add(2 * time.Hour)
				a.wantAsked(0, "a run of the same day", "ours")
			}
			a.now = a.now.Add(6 * time.Hour)
			a.wantAsked(1, "the next day", "ours")
			a.wantAsked(1, "other credentials", "others")
			a.wantAsked(0, "the same ones again", "others")
			if err := a.ledger.Do(t.Context(), func(tx *state.Tx) error {
				return tx.ConnectToken(state.Token{Connection: "books", Tenant: tenantOf(t, a.ledger)})
			}); err != nil {
				t.Fatal(err)
			}
			a.wantAsked(1, "a new consent", "others")
		})
	}
}

func tenantOf(t *testing.T, l *state.Ledger) string {
	t.Helper()
	info, err := l.SourceInfo(t.Context(), "books")
	if err != nil {
		t.Fatal(err)
	}
	return info.Tenant
}

// A consent that covers another organisation is found by the first request that it refuses, and
// told in the words of the answer to the question.
//
// covers F28
func TestARefusalHasTheOrganisationAskedForAnew(t *testing.T) {
	t.Parallel()
	model := xerotest.New(time.Now)
	model.Add(3)
	tenant := model.Tenants[0].ID
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	l, err := state.Open(t.Context(), state.Options{Path: path, KeyFile: path + ".key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	a := &asked{T: t, ledger: l, model: model, path: "/connections",
		open: func(p accounting.Proof, http *transport.Client) (accounting.Source, error) {
			return xero.New(xero.Config{Tenant: tenant},
				xero.Deps{HTTP: http, Token: model, Limiter: &accountingtest.Limiter{}, Proof: p, Now: time.Now})
		}}
	a.wantAsked(1, "the first run", "ours")
	model.Reach(xerotest.Tenant{ID: "99999999-9999-4999-8999-999999999999", Name: "Another", Type: "ORGANISATION"})
	for range 2 {
		n, err := a.run("ours")
		var out *accounting.Disconnected
		if n != 1 || !errors.As(err, &out) ||
			!strings.Contains(err.Error(), "the access does not cover organisation "+tenant) {
			t.Errorf("it asked %d times: %v", n, err)
		}
	}
}
