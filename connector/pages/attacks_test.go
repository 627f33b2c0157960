package pages_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"payersync/connector/pages"
	"payersync/internal/longtest"
	"payersync/state"
	"payersync/state/statetest"
)

// front is the sign-in behind a proxy that names the origin of requests, over real HTTP.
type front struct {
	*house
	door   *pages.Door
	server *httptest.Server
}

// newFront returns pages that several users with passwords sign in to.
func newFront(t *testing.T, users ...string) *front {
	t.Helper()
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	f := &front{house: &house{t: t,
		ledger: must(state.Open(context.Background(), state.Options{Path: path, KeyFile: path + ".key"}))(t)}}
	t.Cleanup(func() { _ = f.ledger.Close() })
	for _, name := range users {
		f.choose(name, pages.Admin)
	}
	f.restart()
	t.Cleanup(func() { f.server.Close(); f.door.Close() })
	return f
}

// restart serves other pages of the same ledger, as the program does that is started again.
func (f *front) restart() {
	if f.server != nil {
		f.server.Close()
		f.door.Close()
	}
	f.door = pages.NewDoor(f.ledger)
	f.pages = must(pages.New(pages.Config{Ledger: f.ledger, Door: f.door, Network: func(r *http.Request) string {
		from, _ := netip.MustParseAddr(r.Header.Get("X-Forwarded-For")).Prefix(24)
		return from.String()
	}}))(f.t)
	f.server = httptest.NewServer(f.pages)
}

// browser is one that keeps cookies and follows no redirects.
func (f *front) browser() *http.Client {
	return &http.Client{
		Jar:           must(cookiejar.New(nil))(f.t),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// tries sends a name and a password from an address, and returns the status.
func (f *front) tries(client *http.Client, from, name, password string) int {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
		"http://"+f.server.Listener.Addr().String()+"/signin",
		strings.NewReader(url.Values{"name": {name}, "password": {password}}.Encode()))
	if err != nil {
		f.t.Error(err)
		return 0
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Forwarded-For", from)
	resp, err := client.Do(r)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// getsIn fails unless somebody with the right password gets in within two tries, five times over.
func (f *front) getsIn(what string, client func() *http.Client, from string) {
	f.t.Helper()
	for i := range 5 {
		browser := client()
		first := f.tries(browser, from, "anna", goodPassword)
		if first == http.StatusSeeOther {
			continue
		}
		if second := f.tries(browser, from, "anna", goodPassword); second != http.StatusSeeOther {
			f.t.Errorf("%s is answered %d and %d at sign-in %d", what, first, second, i+1)
		}
	}
}

// attack sends wrong passwords from many at once until the test calls what it returns. attacker gives
// the address and the name of the n-th try. It begins once some were refused.
func (f *front) attack(attacker func(n int) (from, name string)) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var n, refused atomic.Int64
	var all sync.WaitGroup
	begun := make(chan struct{})
	for range 60 {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				from, name := attacker(int(n.Add(1)))
				if status := f.tries(client, from, name, "a wrong password"); (status == http.StatusTooManyRequests ||
					status == http.StatusServiceUnavailable) && refused.Add(1) == 20 {
					close(begun)
				}
			}
		})
	}
	<-begun
	return func() { stop(); all.Wait() }
}

// covers F84
func TestStrangersKeepNobodyOutOfThePages(t *testing.T) {
	longtest.Story(t, longtest.Computing) // the attacks take all processors
	t.Parallel()
	const home, clean = "203.0.113.9", "192.0.2.7"
	far := func(n int) string { return fmt.Sprintf("198.%d.%d.7", 18+n%2, n/2%100) }
	for what, attacker := range map[string]func(n int) (from, name string){
		"wrong passwords of one name from elsewhere, after a restart": func(n int) (string, string) { return far(n), "anna" },
		"wrong names from the same network": func(n int) (string, string) {
			return "203.0.113.200",
				fmt.Sprintf("name %d", n)
		},
		"many tries a second from many networks": func(n int) (string, string) {
			return far(n),
				fmt.Sprintf("name %d", n)
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFront(t, "anna")
			annas := f.browser()
			if status := f.tries(annas, home, "anna", goodPassword); status != http.StatusSeeOther {
				t.Fatalf("before the attack the right password is answered %d", status)
			}
			f.restart()
			defer f.attack(attacker)()
			f.getsIn("a browser that anna has signed in with before", func() *http.Client { return annas }, home)
			f.getsIn("a new browser at a clean address", f.browser, clean)
		})
	}
}

// Three nodes allow as many wrong passwords together as one node alone.
func TestNodesCountWrongPasswordsTogether(t *testing.T) {
	t.Parallel()
	address, key := statetest.Postgres(t), make([]byte, 32)
	var nodes []*front
	for i := range 3 {
		server := must(state.OpenServer(t.Context(),
			state.ServerOptions{Address: address, Connections: 5, KeyEncryptionKey: key}))(t)
		t.Cleanup(server.Close)
		if i == 0 {
			must(server.Apply(t.Context(),
				state.AccountChange{Name: "acme", Files: map[string][]byte{"account.yaml": []byte("billing: {}")},
					By: state.Entry{Actor: "tester"}}))(t)
		}
		f := &front{house: &house{t: t,
			ledger: must(state.Open(t.Context(), state.Options{Server: server, Account: "acme"}))(t)}}
		t.Cleanup(func() { _ = f.ledger.Close() })
		if i == 0 {
			f.choose("anna", pages.Admin)
		}
		f.restart()
		t.Cleanup(func() { f.server.Close(); f.door.Close() })
		nodes = append(nodes, f)
	}
	const attacker = "198.51.100.7"
	var checked, refused atomic.Int64
	for range 5 {
		var all sync.WaitGroup
		for _, f := range nodes {
			all.Go(func() {
				switch f.tries(f.browser(), attacker, "anna", "a wrong password") {
				case http.StatusUnauthorized:
					checked.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				}
			})
		}
		all.Wait()
	}
	if checked.Load() != 5 || refused.Load() != 10 {
		t.Errorf("three nodes looked at %d wrong passwords and refused %d, want 5 and 10", checked.Load(), refused.Load())
	}
	for i, f := range nodes {
		if status := f.tries(f.browser(), attacker, "anna", goodPassword); status != http.StatusTooManyRequests {
			t.Errorf("node %d answers the right password from the attacker's network with %d", i, status)
		}
		if status := f.tries(f.browser(), "192.0.2.7", "anna", goodPassword); status != http.StatusSeeOther {
			t.Errorf("node %d answers the right password from elsewhere with %d", i, status)
		}
	}
}

func TestCountersOfWrongPasswordsSurviveARestart(t *testing.T) {
	t.Parallel()
	f := newFront(t, "anna")
	const from = "198.51.100.7"
	for range 3 {
		f.tries(f.browser(), from, "anna", "a wrong password")
	}
	f.restart()
	for range 2 {
		f.tries(f.browser(), from, "anna", "a wrong password")
	}
	f.restart()
	if status := f.tries(f.browser(), from, "anna", goodPassword); status != http.StatusTooManyRequests {
		t.Errorf("after five wrong passwords and two restarts the answer is %d", status)
	}
}

func TestADeviceCookieHelpsItsUserAlone(t *testing.T) {
	t.Parallel()
	f := newFront(t, "anna", "ben")
	const here = "203.0.113.9"
	annas := f.browser()
	if status := f.tries(annas, here, "anna", goodPassword); status != http.StatusSeeOther {
		t.Fatalf("the right password is answered %d", status)
	}
	var good string
	for _, c := range annas.Jar.Cookies(must(url.Parse(f.server.URL))(t)) {
		if strings.HasSuffix(c.Name, "-device") {
			good = c.Name + "=" + c.Value
		}
	}
	if good == "" {
		t.Fatal("a sign-in gives no device cookie")
	}
	other := newFront(t, "anna")
	theirs := other.browser()
	other.tries(theirs, here, "anna", goodPassword)
	foreign := ""
	for _, c := range theirs.Jar.Cookies(must(url.Parse(other.server.URL))(t)) {
		if strings.HasSuffix(c.Name, "-device") {
			foreign, _, _ = strings.Cut(good, "=")
			foreign += "=" + c.Value
		}
	}
	for range 5 { // from here everybody has to wait now, except for devices
		f.tries(f.browser(), here, "anna", "a wrong password")
		f.tries(f.browser(), here, "ben", "a wrong password")
	}
	name, value, _ := strings.Cut(good, "=")
	parts := strings.Split(value, ".")
	for what, c := range map[string]struct {
		user, cookie string
		want         int
	}{
		"no cookie":                   {"anna", "", http.StatusTooManyRequests},
		"one of another installation": {"anna", foreign, http.StatusTooManyRequests},
		"one of another user":         {"ben", good, http.StatusTooManyRequests},
		"one with another end": {"anna", name + "=" + "9999999999." + parts[1] + "." + parts[2],
			http.StatusTooManyRequests},
		"one with another number": {"anna", name + "=" + parts[0] + ".x" + parts[1] + "." + parts[2],
			http.StatusTooManyRequests},
		"one with no signature":       {"anna", name + "=" + parts[0] + "." + parts[1] + ".", http.StatusTooManyRequests},
		"one behind four others":      {"anna", name + "=a.b.c~a.b.c~a.b.c~a.b.c~" + value, http.StatusTooManyRequests},
		"nonsense":                    {"anna", name + "=~..~", http.StatusTooManyRequests},
		"the right one":               {"anna", good, http.StatusSeeOther},
		"the right one behind others": {"anna", name + "=a.b.c~a~" + value, http.StatusSeeOther},
	} {
		if status := f.withCookie(here, c.user, goodPassword, c.cookie); status != c.want {
			t.Errorf("%s is answered %d, want %d", what, status, c.want)
		}
	}
	for i := range 10 {
		if status := f.withCookie(here, "anna", "a wrong password", good); status != http.StatusUnauthorized {
			t.Errorf("wrong password %d with the cookie is answered %d", i+1, status)
		}
		if i == 5 {
			f.restart()
		}
	}
	if status := f.withCookie(here, "anna", goodPassword, good); status != http.StatusTooManyRequests {
		t.Errorf("after ten wrong passwords a stolen cookie is answered %d", status)
	}
	if status := f.tries(annas, "198.51.100.7", "anna", goodPassword); status != http.StatusSeeOther {
		t.Errorf("its owner is answered %d elsewhere", status)
	}
	if status := f.tries(annas, here, "anna", goodPassword); status != http.StatusSeeOther {
		t.Errorf("with the cookie of that sign-in the answer is %d", status)
	}
	f.choose("anna", pages.Admin) // another password
	if status := f.tries(annas, here, "anna", goodPassword); status != http.StatusTooManyRequests {
		t.Errorf("after the password was changed the cookie is answered %d", status)
	}
}

func (f *front) withCookie(from, name, password, cookie string) int {
	client := f.browser()
	client.Transport = withHeader{"Cookie", cookie}
	return f.tries(client, from, name, password)
}

// withHeader adds a header to each request.
type withHeader struct{ name, value string }

func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set(h.name, h.value)
	return http.DefaultTransport.RoundTrip(r)
}

func TestTwoUsersOfOneBrowserEachHaveTheirDeviceCookie(t *testing.T) {
	t.Parallel()
	f := newFront(t, "anna", "ben")
	const here = "203.0.113.9"
	shared := f.browser()
	for _, name := range []string{"anna", "ben", "anna", "ben"} {
		f.tries(shared, here, name, goodPassword)
	}
	for i := range 25 {
		f.tries(f.browser(), here, fmt.Sprintf("name %d", i), "a wrong password")
	}
	for _, name := range []string{"anna", "ben"} {
		if status := f.tries(shared, here, name, goodPassword); status != http.StatusSeeOther {
			t.Errorf("%s is answered %d", name, status)
		}
	}
}
