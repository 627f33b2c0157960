package pages_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/pages"
	"payersync/internal/longtest"
	"payersync/state"
)

// request is a request with what tells where it comes from; blank headers are not sent.
type request struct {
	method, path, host, origin, site string
	cookie                           *http.Cookie
	form                             string // "" for one that gives a reason
}

// to sends the request.
func (q request) to(t testing.TB, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	address, err := url.ParseRequestURI(q.path)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(context.Background(), q.method, "/",
		strings.NewReader(cmp.Or(q.form, "reason=because")))
	r.URL, r.RequestURI, r.Host = address, q.path, q.host
	if q.host == "" {
		r.Host = "127.0.0.1:8070"
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range map[string]string{"Origin": q.origin, "Sec-Fetch-Site": q.site} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if q.cookie != nil {
		r.AddCookie(q.cookie)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// cookieOf signs somebody in at pages, and returns the cookie.
func cookieOf(t testing.TB, l *state.Ledger, p http.Handler, role pages.Role, before *http.Cookie) *http.Cookie {
	t.Helper()
	link := must(pages.NewLink(context.Background(), l, pages.User{Name: "anna", Role: role}, "tester"))(t)
	w := request{method: http.MethodPost, path: link, site: "same-origin", cookie: before}.to(t, p)
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("signing in was answered %d with %d cookies:\n%s", w.Code, len(cookies), w.Body)
	}
	return cookies[0]
}

// tokenHash is under what the ledger keeps a login.
func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// expire ends a login by its time, as if it had passed.
func (h *house) expire(c *http.Cookie) {
	h.t.Helper()
	data, _, err := h.ledger.Login(context.Background(), tokenHash(c.Value))
	if err != nil || data == nil {
		h.t.Fatalf("the ledger has no such login: %v", err)
	}
	h.do(func(tx *state.Tx) error { return tx.KeepLogin(tokenHash(c.Value), data, time.Now().Add(-time.Second)) })
}

// bytes are the ledger's files as they are on the disk.
func (h *house) bytes() []byte {
	h.t.Helper()
	path, _ := h.ledger.Path()
	var all []byte
	for _, ending := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + ending)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// covers F82, F83, F84, F85, F86
func TestWhatNoPageOfOursSentIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	h, other := newHouse(t), newHouse(t)
	h.receive(state.Delivery{Key: "event:none", Type: "odd", State: connector.InboxQuarantined,
		Body: []byte(`{"who":"nobody"}`)})
	valid, expired, theirs := cookieOf(t, h.ledger, h.pages, pages.Admin, nil),
		cookieOf(t, h.ledger, h.pages, pages.Admin, nil), cookieOf(t, other.ledger, other.pages, pages.Admin, nil)
	h.expire(expired)
	named := func(value string) *http.Cookie { return &http.Cookie{Name: valid.Name, Value: value} }
	cookies := map[string]*http.Cookie{
		"none": nil, "forged": named(base64.RawURLEncoding.EncodeToString(make([]byte, 32))), "odd": named("../../'%00"),
		"valid": valid, "expired": expired,
		"of another ledger": theirs, "of another ledger under our name": named(theirs.Value),
		"our hash": named(tokenHash(valid.Value)),
	}
	ours := map[string]bool{"127.0.0.1": true, "127.0.0.1:8070": true, "localhost": true, "[::1]:8070": true}
	hosts := []string{"127.0.0.1", "127.0.0.1:8070", "localhost", "[::1]:8070", "evil.example", "evil.example:8070",
		"127.0.0.1.evil.example", "localhost.", "10.0.0.1:8070", "0.0.0.0:8070"}

	link := h.link("bob", pages.Admin)
	strangers := map[string]int{ // what is answered to who sends nothing of use
		"/signin": http.StatusUnauthorized, "/signin/invited/none": http.StatusGone, pages.CallbackPath: http.StatusNotFound,
	}
	paths := map[string]string{"POST /signout": "/signout", "POST /signin/once/{token}": link}
	for path := range strangers {
		paths["POST "+path] = path
	}
	for pattern, row := range access {
		if strings.HasPrefix(pattern, "POST ") {
			paths[pattern] = row.path
		}
	}
	before := h.bytes()
	var allowed []request
	var names []string
	refused := 0
	for pattern, path := range paths {
		for _, host := range longtest.Sample(hosts, 4) {
			for name, cookie := range cookies {
				for _, origin := range []string{"", "http://" + host, "http://evil.example:8070x", "http://localhost:3000",
					"null"} {
					for _, site := range []string{"", "same-origin", "same-site", "cross-site", "none"} {
						want := 0
						switch {
						case !ours[host]:
							want = http.StatusMisdirectedRequest
						case site == "same-site", site == "cross-site", site == "" && origin != "" && origin != "http://"+host:
							want = http.StatusForbidden
						case strangers[path] != 0 && strangers[path] != http.StatusUnauthorized:
							want = strangers[path]
						case pattern != "POST /signout" && path != link && name != "valid" && strangers[path] == 0:
							want = http.StatusUnauthorized
						}
						q := request{method: http.MethodPost, path: path, host: host, origin: origin, site: site, cookie: cookie}
						if want == 0 {
							allowed, names = append(allowed, q), append(names, name)
							continue
						}
						refused++
						w := q.to(t, h.pages)
						if w.Code != want || len(w.Result().Cookies()) != 0 {
							t.Errorf("POST %s to %s from %q, %q, cookie %s: answered %d with %d cookies, want %d", path, host, origin, site,
								name, w.Code, len(w.Result().Cookies()), want)
						}
					}
				}
			}
		}
	}
	if !bytes.Equal(before, h.bytes()) {
		t.Error("the ledger's files have changed by what was refused")
	}
	used, logins, guesses := false, 0, 0
	for i, q := range allowed {
		want := 0
		switch {
		case q.path == link && used:
			want = http.StatusGone
		case q.path == "/signin": // the first are wrong passwords, and then it is to wait
			want = http.StatusUnauthorized
			if guesses++; guesses > 5 {
				want = http.StatusTooManyRequests
			}
		case q.path == link, q.path == "/signout":
			want, used = http.StatusSeeOther, used || q.path == link
		}
		if names[i] == "valid" && (q.path == link || q.path == "/signout") && want != 0 { // which ends it
			logins++
			q.cookie = cookieOf(t, h.ledger, h.pages, pages.Admin, nil)
		}
		w := q.to(t, h.pages)
		if want != 0 && w.Code != want || w.Code == http.StatusForbidden || want == 0 && w.Code == http.StatusUnauthorized ||
			w.Code == http.StatusMisdirectedRequest || w.Code >= 500 {
			t.Errorf("POST %s to %s from %q, %q, cookie %s: answered %d (want %d)\n%s", q.path, q.host, q.origin, q.site,
				names[i], w.Code, want, w.Body)
		}
	}
	if refused < 1000 || len(allowed) < 100 || logins == 0 {
		t.Errorf("%d cells are refused and %d allowed", refused, len(allowed))
	}
	t.Logf("%d cells refused, %d allowed", refused, len(allowed))
}

// carries fails unless an answer says what a browser may do with it.
func carries(t testing.TB, what string, w *httptest.ResponseRecorder, secure bool) {
	t.Helper()
	transport := ""
	if secure {
		transport = "max-age=31536000"
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Strict-Transport-Security":    transport,
	} {
		if got := strings.Join(w.Header().Values(name), "|"); got != want {
			t.Errorf("%s: %s is %q, want %q", what, name, got, want)
		}
	}
	if cache := w.Header().Get("Cache-Control"); cache != "no-store" &&
		(w.Code != http.StatusOK || cache != "public, max-age=31536000, immutable") {
		t.Errorf("%s: Cache-Control is %q", what, cache)
	}
	for _, name := range []string{"Access-Control-Allow-Origin", "Server", "X-Powered-By"} {
		if w.Header().Get(name) != "" {
			t.Errorf("%s: there is %s", what, name)
		}
	}
	for _, c := range w.Result().Cookies() {
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.Secure != secure ||
			strings.HasPrefix(c.Name, "__Host-payersync-") != secure || !strings.Contains(c.Name, "payersync-") {
			t.Errorf("%s: the cookie is %s", what, c)
		}
		if c.MaxAge > 0 || c.MaxAge == 0 && !c.Expires.IsZero() {
			t.Errorf("%s: the cookie outlives the browser: %s", what, c)
		}
	}
}

// securePages are pages of a house that are reached over TLS alone, by a name.
func (h *house) securePages() *pages.Pages {
	return must(pages.New(pages.Config{Ledger: h.ledger, Connections: []string{sample}, Hosts: []string{"payers.example"},
		Secure: true}))(h.t)
}

func TestEveryAnswerSaysWhatABrowserMayDoWithIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for secure, p := range map[bool]*pages.Pages{false: h.pages, true: h.securePages()} {
		admin := cookieOf(t, h.ledger, p, pages.Admin, nil)
		asks := map[string]request{
			"sign in": {method: "GET", path: "/signin"}, "once": {method: "GET", path: h.link("bob", pages.Viewer)},
			"a link that is none": {method: "GET", path: "/signin/once/x"},
			"used":                {method: "POST", path: h.link("bob", pages.Viewer)},
			"sign out":            {method: "POST", path: "/signout"},
			"no page":             {method: "GET", path: "/nowhere"},
			"a password":          {method: "POST", path: "/signin"},
			"no invitation":       {method: "GET", path: "/signin/invited/x"},
			"no provider":         {method: "GET", path: "/signin/oidc"},
			"nobody comes back":   {method: "GET", path: pages.CallbackPath + "?error=x"},
			"another method":      {method: "DELETE", path: "/runs", site: "same-origin"},
			"made clean":          {method: "GET", path: "/a/../runs"}, "no asset": {method: "GET", path: "/assets/x"},
			"from elsewhere": {method: "POST", path: "/signout", site: "cross-site"},
			"another name":   {method: "GET", path: "/signin", host: "evil.example"},
			"asked before":   {method: "OPTIONS", path: "/runs", origin: "http://evil.example"},
		}
		page := request{method: "GET", path: "/signin"}.to(t, p).Body.String()
		assets := regexp.MustCompile(`/assets/[a-z0-9.]+`).FindAllString(page, -1)
		if len(assets) < 2 {
			t.Errorf("the page names %q", assets)
		}
		for _, name := range assets {
			asks[name] = request{method: "GET", path: name}
		}
		for pattern, row := range access {
			method, _, _ := strings.Cut(pattern, " ")
			asks[pattern] = request{method: method, path: row.path, cookie: admin, site: "same-origin"}
			asks[pattern+" for nobody"] = request{method: method, path: row.path, site: "same-origin"}
			asks["HEAD of "+pattern] = request{method: "HEAD", path: row.path, cookie: admin}
		}
		for what, q := range asks {
			w := q.to(t, p)
			if what == "asked before" && w.Code < 400 {
				t.Errorf("a browser that asks for another site is answered %d", w.Code)
			}
			carries(t, what, w, secure)
		}
	}
}

func TestAPanicIsAPageAndIsReported(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var events []pages.Event
	p := must(pages.New(pages.Config{
		Ledger: h.ledger, Settings: func() []pages.Setting { panic("Ada Lovelace") },
		Report: func(e pages.Event) { events = append(events, e) },
	}))(t)
	w := request{method: "GET", path: "/settings", cookie: cookieOf(t, h.ledger, p, pages.Viewer, nil)}.to(t, p)
	carries(t, "a panic", w, false)
	holds(t, w.Body.String(), "Problem: The page could not be made")
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "Ada") ||
		strings.Contains(w.Body.String(), "goroutine") {
		t.Errorf("it was answered %d:\n%s", w.Code, w.Body)
	}
	var panicked *connector.PanicError
	if len(events) != 1 || !errors.As(events[0].Err, &panicked) || events[0].Route != "GET /settings" ||
		strings.Contains(events[0].Err.Error(), "Ada") {
		t.Errorf("reported was %v", events)
	}
}

// FuzzPaths asks for any address, as an admin and as nobody.
func FuzzPaths(f *testing.F) {
	h := newHouse(f)
	h.receive(state.Delivery{Key: "event:none", Type: "odd", State: connector.InboxQuarantined, Body: []byte("\xff{")})
	h.run(true)
	admin := cookieOf(f, h.ledger, h.pages, pages.Admin, nil)
	for _, row := range access {
		f.Add(row.path)
		f.Add(row.path + "?after=-1&state=%ff&who=%00&act='%3b--&check=1")
		f.Add(row.path + "/%2e%2e/%2F/..%00")
	}
	for _, path := range []string{"/", "//evil.example/..", "/\\evil.example", "/signin/once/", "/signin/once/%00",
		"/assets/..%2fpages.go", "/runs?after=99999999999999999999", "/webhooks?after=9223372036854775807", "/webhooks/%ff",
		"/x?%zz;=&a=1;b", "/runs?" + strings.Repeat("a=1&", 2000)} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if address, err := url.ParseRequestURI(path); err != nil || !strings.HasPrefix(path, "/") || address.Host != "" {
			t.Skip("no browser can ask for it")
		}
		for _, cookie := range []*http.Cookie{nil, admin} {
			w := request{method: "GET", path: path, cookie: cookie}.to(t, h.pages)
			if w.Code >= 500 {
				t.Errorf("GET %q was answered %d:\n%s", path, w.Code, w.Body)
			}
			if to := w.Header().Get("Location"); to != "" &&
				(!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.HasPrefix(to, "/\\")) {
				t.Errorf("GET %q leads to %q", path, to)
			}
			carries(t, path, w, false)
		}
	})
}
