package credentials_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/credentials"
	"payersync/state"
)

// ask begins a consent with a listener on a free port.
func (d *desk) ask() (*credentials.Consent, net.Listener) {
	d.t.Helper()
	listener, err := credentials.Listen(d.t.Context(), "http://localhost:0/callback")
	if err != nil {
		d.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	d.vendor.Redirect = "http://localhost:" + port + "/callback"
	return credentials.Ask(d.provider(), d.vendor.Redirect, d.clock.now), listener
}

// agree opens the consent page as a browser would, and returns where it sends
// the browser.
func (d *desk) agree(c *credentials.Consent) *url.URL {
	d.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(c.URL())
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	to, err := resp.Location()
	if err != nil {
		text, _ := io.ReadAll(resp.Body)
		d.t.Fatalf("the vendor's page: %s %s", resp.Status, text)
	}
	return to
}

func TestConsentThroughABrowserIsKeptWithItsOrganisation(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c, listener := d.ask()
	go func() {
		resp, err := http.Get(d.agree(c).String())
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
	}()
	query, err := c.Await(t.Context(), listener)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := c.Redeem(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	to := credentials.ConsentTarget{Name: acme, Provider: d.provider(),
		Tenant: credentials.Tenant{ID: "t1", Name: "Acme Ltd"}, Actor: "tester"}
	by, err := credentials.Keep(t.Context(), d.ledger, to, grant)
	if err != nil || !by.Equal(d.clock.now().Add(60*24*time.Hour)) {
		t.Errorf("reconnect by %s, %v", by, err)
	}
	d.token(d.source())
	if got := d.stored(); got.Tenant != "t1" || got.Generation != 1 {
		t.Errorf("the ledger holds %+v", got)
	}
}

// covers F30
func TestOnlyTheAnswerToThisConsentIsTaken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.vendor.Redirect = "https://app.example.com/connected"
	with := func(key, value string) func(*url.URL) {
		return func(u *url.URL) {
			q := u.Query()
			q.Set(key, value)
			if value == "" {
				q.Del(key)
			}
			u.RawQuery = q.Encode()
		}
	}
	tests := []struct {
		name  string
		twist func(*url.URL)
		want  string
		final bool
	}{
		{"no state", with("state", ""), "another request", false},
		{"another consent's state", with("state", strings.Repeat("A", 26)), "another request", false},
		{"another path", func(u *url.URL) { u.Path = "/connected/" }, "another address", false},
		{"another host", func(u *url.URL) { u.Host = "evil.example" }, "another address", false},
		{"plain http", func(u *url.URL) { u.Scheme = "http" }, "another address", false},
		{"a user in front of the host", func(u *url.URL) { u.User = url.User("app.example.com") }, "another address", false},
		{"a second code", func(u *url.URL) { u.RawQuery += "&code=stolen" }, "malformed", false},
		{"a broken query", func(u *url.URL) { u.RawQuery += "&%zz" }, "malformed", false},
		{"the person said no", with("error", "access_denied"), "said no", true},
		{"an error of a stranger's making", with("error", "<script>"), "did not spell out", true},
		{"no code", with("code", ""), "no code", true},
		{"too late", func(*url.URL) { d.clock.move(credentials.ConsentLife) }, "later than 10m", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := credentials.Ask(d.provider(), d.vendor.Redirect, d.clock.now)
			to := d.agree(c)
			tt.twist(to)
			_, err := c.Accept(to)
			var refused *credentials.RedirectError
			if !errors.As(err, &refused) || refused.Final != tt.final || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q, final %t", err, tt.want, tt.final)
			}
			if strings.Contains(err.Error(), "script") || strings.Contains(err.Error(), "code-") {
				t.Errorf("the error repeats what a stranger sent: %v", err)
			}
		})
	}
}

func TestRedirectAddressWithoutAPathIsReachedAtItsRoot(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.vendor.Redirect = "https://app.example.com"
	for path, taken := range map[string]bool{"/": true, "//": false, "/x": false} { // browsers write the first
		c := credentials.Ask(d.provider(), d.vendor.Redirect, d.clock.now)
		to := d.agree(c)
		to.Path = path
		if _, err := c.Accept(to); (err == nil) != taken {
			t.Errorf("%s: %v, want it taken: %t", path, err, taken)
		}
	}
}

// covers F30
func TestConsentIsTakenOnceAndItsCodeRedeemedOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.vendor.Redirect = "https://app.example.com/connected"
	c := credentials.Ask(d.provider(), d.vendor.Redirect, d.clock.now)
	to := d.agree(c)
	query, err := c.Accept(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Accept(to); err == nil {
		t.Error("the same redirect was taken twice")
	}
	if _, err := c.Redeem(t.Context(), query); err != nil {
		t.Fatal(err)
	}
	var refused *credentials.RedirectError
	if _, err := c.Redeem(t.Context(), query); !errors.As(err, &refused) {
		t.Errorf("a code was redeemed twice: %v", err)
	}
}

// A code that an attacker obtained for an own consent and slips into ours is
// bound to another verifier.
//
// covers F30
func TestCodeOfAnotherConsentIsWorthNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.vendor.Redirect = "https://app.example.com/connected"
	attacker := credentials.Ask(d.provider(), d.vendor.Redirect, d.clock.now)
	ours := credentials.Ask(d.provider(), d.vendor.Redirect, d.clock.now)
	stolen, to := d.agree(attacker).Query().Get("code"), d.agree(ours)
	q := to.Query()
	q.Set("code", stolen)
	to.RawQuery = q.Encode()
	query, err := ours.Accept(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Redeem(t.Context(), query); err == nil {
		t.Error("a code of another consent was redeemed")
	}
}

// covers F30
func TestPageForTheRedirectIgnoresStrangersAndShowsNothingOfTheirs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c, listener := d.ask()
	to := d.agree(c)
	type result struct {
		query url.Values
		err   error
	}
	done := make(chan result, 1)
	go func() {
		query, err := c.Await(t.Context(), listener)
		done <- result{query, err}
	}()
	send := func(method, address, host string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		if got := resp.Header.Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'") {
			t.Errorf("content security policy %q", got)
		}
		return resp.StatusCode, string(text)
	}
	for _, stranger := range []struct {
		method, address, host string
		status                int
	}{
		{http.MethodPost, to.String(), "", 405},
		{http.MethodGet, to.String(), "evil.example", 400},
		{http.MethodGet, d.vendor.Redirect + "?error=%3Cscript%3E&state=guess", "", 400},
		{http.MethodGet, d.vendor.Redirect + "?code=stolen&state=", "", 400},
		{http.MethodGet, strings.Replace(to.String(), "/callback", "/other", 1), "", 400},
	} {
		if status, text := send(stranger.method, stranger.address, stranger.host); status != stranger.status ||
			strings.Contains(text, "script") || strings.Contains(text, "stolen") {
			t.Errorf("%s %s: %d %q", stranger.method, stranger.address, status, text)
		}
	}
	if status, text := send(http.MethodGet, to.String(), ""); status != 200 || strings.Contains(text, "code") {
		t.Errorf("the answer itself: %d %q", status, text)
	}
	if r := <-done; r.err != nil || !r.query.Has("code") {
		t.Errorf("got %v, %v", r.query, r.err)
	}
	if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("the port is still open")
	}
}

func TestAwaitEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c, listener := d.ask()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Await(ctx, listener); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestListenRefusesAddressesOfOthers(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	for _, redirect := range []string{"https://localhost:8484/x", "http://example.com:80/x", "http://localhost/x",
		"http://10.0.0.1:80/x", "::", taken.URL + "/x"} {
		if l, err := credentials.Listen(t.Context(), redirect); err == nil {
			_ = l.Close()
			t.Errorf("%s was listened to", redirect)
		}
	}
}

// covers F28
func TestOrganisationIsNeverGuessed(t *testing.T) {
	t.Parallel()
	one, two := credentials.Tenant{ID: "t1", Name: "Acme"}, credentials.Tenant{ID: "t2", Name: "Bolt"}
	tests := []struct {
		name    string
		reached []credentials.Tenant
		wanted  string
		got     credentials.Tenant
		err     string
	}{
		{"the only one", []credentials.Tenant{one}, "", one, ""},
		{"the named one, in any order", []credentials.Tenant{two, one}, "t1", one, ""},
		{"several and none named", []credentials.Tenant{one, two}, "", credentials.Tenant{}, "choose one with --tenant"},
		{"another than the named one", []credentials.Tenant{two}, "t1", credentials.Tenant{}, "does not reach"},
		{"the named one, in capitals", []credentials.Tenant{two, one}, "T1", one, ""},
		{"one without an id, and none named", []credentials.Tenant{one, {Name: "Odd"}}, "", credentials.Tenant{},
			"choose one with --tenant"},
		{"named as it is called", []credentials.Tenant{one, two}, "Acme", credentials.Tenant{}, "does not reach"},
		{"none", nil, "", credentials.Tenant{}, "no organisation"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := credentials.Choose(tt.reached, tt.wanted)
			if got != tt.got || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// covers F28
func TestConsentForAnotherOrganisationIsNotKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if err := d.ledger.Do(t.Context(), func(tx *state.Tx) error {
		return tx.PinConnection(state.Connection{Name: acme, Info: connector.SourceInfo{Kind: "xero", Tenant: "t1"}})
	}); err != nil {
		t.Fatal(err)
	}
	access, refresh := d.vendor.Grant()
	for tenant, kept := range map[string]bool{"t1": true, "t2": false} {
		to := credentials.ConsentTarget{Name: acme, Provider: d.provider(), Tenant: credentials.Tenant{ID: tenant},
			Actor: "tester"}
		_, err := credentials.Keep(t.Context(), d.ledger, to, credentials.Grant{
			Token: &oauth2.Token{AccessToken: access, RefreshToken: refresh}, At: d.clock.now(),
		})
		var other *state.ErrOtherEnvironment
		if (err == nil) != kept || err != nil && !errors.As(err, &other) {
			t.Errorf("%s: %v", tenant, err)
		}
	}
}
