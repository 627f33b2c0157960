package credentials_test

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/credentials"
	"payersync/connector/credentials/credentialstest"
	"payersync/connector/transport"
	"payersync/state"
	"payersync/state/statetest"
)

const acme = "acme"

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// desk is a ledger, a vendor's authorisation server, and a consent between them.
type desk struct {
	t      *testing.T
	clock  *clock
	vendor *credentialstest.Server
	http   *httptest.Server
	ledger *state.Ledger
	path   string
	full   func(done bool) error // the ledger's Commit hook; nil for a healthy disk
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, clock: &clock{at: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}}
	d.vendor = credentialstest.New(d.clock.now)
	d.http = httptest.NewServer(d.vendor)
	t.Cleanup(d.http.Close)
	d.path = filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, d.path)
	d.ledger = d.open()
	return d
}

func (d *desk) open() *state.Ledger {
	d.t.Helper()
	l, err := state.Open(context.Background(), state.Options{
		Path: d.path, KeyFile: d.path + ".key", Now: d.clock.now,
		Commit: func(done bool) error {
			if d.full == nil {
				return nil
			}
			return d.full(done)
		},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = l.Close() })
	return l
}

func provider(server string, now func() time.Time) credentials.Provider {
	client := transport.New(transport.Options{Retries: -1, Now: now, Timeout: 5 * time.Second})
	return credentials.Provider{
		OAuth: oauth2.Config{
			ClientID: credentialstest.ClientID, ClientSecret: credentialstest.ClientSecret, Scopes: []string{"offline_access"},
			Endpoint: oauth2.Endpoint{AuthURL: server + "/authorize", TokenURL: server + "/token"},
		},
		HTTP: client.HTTPClient(transport.IfNoEffect), IdleLife: 60 * 24 * time.Hour,
	}
}

func (d *desk) provider() credentials.Provider { return provider(d.http.URL, d.clock.now) }

// consent stores the tokens of a new consent.
func (d *desk) consent() {
	d.t.Helper()
	access, refresh := d.vendor.Grant()
	d.store(state.Token{
		Connection: acme, Access: connector.NewSecret(access), Refresh: connector.NewSecret(refresh),
		RefreshedAt: d.clock.now(), ExpiresAt: d.clock.now().Add(30 * time.Minute),
	})
}

func (d *desk) store(t state.Token) {
	d.t.Helper()
	if err := d.ledger.Do(context.Background(), func(tx *state.Tx) error { return tx.ConnectToken(t) }); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) source() *credentials.Source {
	return credentials.New(d.ledger, acme, d.provider())
}

// token returns a token that must be live.
func (d *desk) token(s *credentials.Source) string {
	d.t.Helper()
	got, err := s.TokenContext(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	if !d.vendor.Accepts(got.AccessToken) {
		d.t.Errorf("the token %s is not live", got.AccessToken)
	}
	return got.AccessToken
}

func (d *desk) stored() state.Token {
	d.t.Helper()
	got, err := d.ledger.Token(d.t.Context(), acme)
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

// requests fails the test unless the token endpoint had so many requests.
func (d *desk) requests(want int) {
	d.t.Helper()
	if got := d.vendor.Requests(); got != want {
		d.t.Errorf("the token endpoint had %d requests, want %d", got, want)
	}
}
