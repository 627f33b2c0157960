package pages_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/internal/longtest"
	"payersync/state"
	"payersync/state/statetest"
)

// inTime calls f with pages over a new ledger, in a world whose hours pass at once.
func inTime(t *testing.T, f func(t *testing.T, l *state.Ledger, p *pages.Pages)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	synctest.Test(t, func(t *testing.T) {
		l := must(state.Open(t.Context(), state.Options{Path: path, KeyFile: path + ".key"}))(t)
		defer func() { _ = l.Close() }()
		f(t, l, must(pages.New(pages.Config{Ledger: l}))(t))
	})
}

// status is what a page is answered with to a cookie.
func status(t testing.TB, p http.Handler, c *http.Cookie) int {
	t.Helper()
	return request{method: http.MethodGet, path: "/runs", cookie: c}.to(t, p).Code
}

func TestALoginEndsWhenNobodyIsThere(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *state.Ledger, p *pages.Pages) {
		c := cookieOf(t, l, p, pages.Viewer, nil)
		for range 3 { // each request renews it
			time.Sleep(29 * time.Minute)
			if got := status(t, p, c); got != http.StatusOK {
				t.Errorf("after 29 minutes the answer is %d", got)
			}
		}
		time.Sleep(30 * time.Minute)
		if got := status(t, p, c); got != http.StatusUnauthorized {
			t.Errorf("after 30 minutes the answer is %d", got)
		}
	})
}

func TestALoginEndsAfterTwelveHoursHoweverBusy(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *state.Ledger, p *pages.Pages) {
		c, began := cookieOf(t, l, p, pages.Viewer, nil), time.Now()
		for time.Since(began) < 12*time.Hour-10*time.Minute {
			if got := status(t, p, c); got != http.StatusOK {
				t.Fatalf("after %s the answer is %d", time.Since(began), got)
			}
			time.Sleep(10 * time.Minute)
		}
		if got := status(t, p, c); got != http.StatusOK {
			t.Errorf("after %s the answer is %d", time.Since(began), got)
		}
		time.Sleep(10 * time.Minute)
		if got := status(t, p, c); got != http.StatusUnauthorized {
			t.Errorf("after %s the answer is %d", time.Since(began), got)
		}
	})
}

func TestALinkIsGoodForTenMinutes(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *state.Ledger, p *pages.Pages) {
		link := must(pages.NewLink(t.Context(), l, pages.User{Name: "anna", Role: pages.Viewer}, "tester"))(t)
		time.Sleep(10*time.Minute - time.Second)
		if w := (request{method: "GET", path: link}).to(t, p); w.Code != http.StatusOK {
			t.Errorf("a second before its end it is answered %d", w.Code)
		}
		time.Sleep(time.Second)
		for _, method := range []string{"GET", "POST"} {
			if w := (request{method: method, path: link}).to(t, p); w.Code != http.StatusGone || len(w.Result().Cookies()) != 0 {
				t.Errorf("%s at its end is answered %d", method, w.Code)
			}
		}
	})
}

func TestSigningInTakesANewTokenAndEndsTheOldLogin(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	planted := &http.Cookie{Name: cookieOf(t, h.ledger, h.pages, pages.Viewer, nil).Name,
		Value: "planted-before-she-signed-in"}
	first := cookieOf(t, h.ledger, h.pages, pages.Viewer, planted)
	second := cookieOf(t, h.ledger, h.pages, pages.Admin, first)
	if first.Value == planted.Value || second.Value == first.Value || len(first.Value) < 43 {
		t.Errorf("the tokens are %q and %q", first.Value, second.Value)
	}
	for c, want := range map[*http.Cookie]int{planted: 401, first: 401, second: 200} {
		if got := status(t, h.pages, c); got != want {
			t.Errorf("%q is answered %d, want %d", c.Value, got, want)
		}
	}
}

func TestOfManyWhoUseALinkAtOnceOneIsSignedIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	link := h.link("anna", pages.Viewer)
	var in, out atomic.Int64
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			switch w := (request{method: "POST", path: link}).to(t, h.pages); {
			case w.Code == http.StatusSeeOther && len(w.Result().Cookies()) == 1:
				in.Add(1)
			case w.Code == http.StatusGone && len(w.Result().Cookies()) == 0:
				out.Add(1)
			}
		})
	}
	all.Wait()
	if in.Load() != 1 || out.Load() != 11 {
		t.Errorf("%d are signed in, and %d are told that it was used", in.Load(), out.Load())
	}
	if log := h.logged(20); strings.Count(log, "anna sign in as viewer") != 1 {
		t.Errorf("the audit log says:\n%s", log)
	}
}

func TestARequestUnderWayBringsNoLoginBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.receive(state.Delivery{Key: "event:e1", Type: "odd", State: connector.InboxQuarantined, Body: []byte(`{}`)})
	asked, answer := make(chan struct{}), make(chan struct{})
	p := must(pages.New(pages.Config{Ledger: h.ledger,
		Settings: func() []pages.Setting { close(asked); <-answer; return nil }}))(t)
	c := cookieOf(t, h.ledger, p, pages.Operator, nil)
	if w := (request{method: "POST", path: "/webhooks/event:e1/close", cookie: c}).to(t,
		p); w.Code != http.StatusSeeOther { // whose note waits to be shown
		t.Fatalf("closing is answered %d", w.Code)
	}
	var tab sync.WaitGroup
	tab.Go(func() { _ = request{method: "GET", path: "/settings", cookie: c}.to(t, p) })
	<-asked
	_ = request{method: "POST", path: "/signout", cookie: c}.to(t, p)
	close(answer)
	tab.Wait()
	if got := status(t, p, c); got != http.StatusUnauthorized {
		t.Errorf("after signing out in another tab the answer is %d", got)
	}
}

func TestTokensAreNowhereInTheLedgerTheAuditLogAndReports(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	link := h.link("anna", pages.Viewer)
	token := strings.TrimPrefix(link, "/signin/once/")
	page := request{method: "GET", path: link}.to(t, h.pages)
	c := request{method: "POST", path: link}.to(t, h.pages).Result().Cookies()[0]
	_ = request{method: "POST", path: link}.to(t, h.pages)                     // used
	_ = request{method: "GET", path: link + "/x"}.to(t, h.pages)               // no page
	_ = request{method: "POST", path: link, site: "cross-site"}.to(t, h.pages) // from elsewhere
	if strings.Contains(page.Body.String(), token) || strings.Contains(page.Body.String(), "http") {
		t.Errorf("the page holds the token, or leads elsewhere:\n%s", page.Body)
	}
	if len(h.events) != 3 {
		t.Errorf("%d requests were reported, want 3", len(h.events))
	}
	for _, e := range h.events {
		if strings.Contains(e.Route, token) || e.Err != nil && strings.Contains(e.Err.Error(), token) {
			t.Errorf("the report holds the token: %v", e)
		}
	}
	files := h.bytes()
	for what, secret := range map[string]string{"the link's token": token, "the cookie": c.Value} {
		if bytes.Contains(files, []byte(secret)) || strings.Contains(h.logged(20), secret) {
			t.Errorf("the ledger holds %s", what)
		}
	}
	if !bytes.Contains(files, []byte(tokenHash(c.Value))) {
		t.Error("the login is not where this test looks")
	}
}

// noWrite fails unless nothing can be changed, and says so, and pages are shown.
func noWrite(t *testing.T, p http.Handler, c *http.Cookie, paths ...string) {
	t.Helper()
	for _, path := range paths {
		w := request{method: "POST", path: path, cookie: c}.to(t, p)
		holds(t, w.Body.String(), "Nothing was changed.")
		if w.Code != http.StatusServiceUnavailable || len(w.Result().Cookies()) != 0 {
			t.Errorf("POST %s is answered %d", path, w.Code)
		}
	}
	for _, path := range []string{"/runs", "/webhooks", "/audit", "/settings"} {
		if w := (request{method: "GET", path: path, cookie: c}).to(t, p); w.Code != http.StatusOK {
			t.Errorf("GET %s is answered %d", path, w.Code)
		}
	}
}

// covers F63
func TestPagesOfADamagedLedgerAreShownAndChangeNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.receive(state.Delivery{Key: "event:e1", Type: "odd", State: connector.InboxQuarantined, Body: []byte(`{}`)})
	h.run(true)
	c, link := cookieOf(t, h.ledger, h.pages, pages.Admin, nil), h.link("bob", pages.Viewer)
	path, _ := h.ledger.Path()
	if err := h.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	data := must(os.ReadFile(path))(t)
	const size = 4096
	copy(data[len(data)-size:], bytes.Repeat([]byte{0xA5}, size))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	l := must(state.Open(context.Background(), state.Options{Path: path, KeyFile: path + ".key"}))(t)
	t.Cleanup(func() { _ = l.Close() })
	p := must(pages.New(pages.Config{Ledger: l, Lists: &admin.Lists{Ledger: l}, Connections: []string{sample}}))(t)
	noWrite(t, p, c, "/webhooks/event:e1/close", link, "/signout")
}

func TestPagesOfALockedLedgerAreShownAndChangeNothing(t *testing.T) {
	longtest.Story(t, longtest.Waiting) // a write waits ten seconds for the lock
	t.Parallel()
	h := newHouse(t)
	h.receive(state.Delivery{Key: "event:e1", Type: "odd", State: connector.InboxQuarantined, Body: []byte(`{}`)})
	c := cookieOf(t, h.ledger, h.pages, pages.Operator, nil)
	path, _ := h.ledger.Path()
	other := must(state.Open(context.Background(), state.Options{Path: path, KeyFile: path + ".key"}))(t)
	locked, done := make(chan struct{}), make(chan struct{})
	var holder sync.WaitGroup
	holder.Go(func() {
		_ = other.Do(context.Background(), func(*state.Tx) error { close(locked); <-done; return nil })
	})
	<-locked
	noWrite(t, h.pages, c, "/webhooks/event:e1/close")
	close(done)
	holder.Wait()
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if w := (request{method: "POST", path: "/webhooks/event:e1/close", cookie: c}).to(t,
		h.pages); w.Code != http.StatusSeeOther {
		t.Errorf("when the lock is gone it is answered %d", w.Code)
	}
}
