package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

const pagesPassword = "seven green bottles hang"

// showOverTLS configures pages over TLS with the certificate of pages.pem, and returns their address.
func (w *world) showOverTLS(certificate tls.Certificate) (address string) {
	w.t.Helper()
	address = freeAddress(w.t)
	w.writePair(certificate, time.Now().Add(-time.Hour))
	w.edit("payersync.yaml", `admin: ""`, fmt.Sprintf("admin: %q, admin_tls: {cert: pages.pem, key: pages.key}", address))
	return address
}

// writePair writes a renewed certificate and its key, with a file time.
func (w *world) writePair(c tls.Certificate, at time.Time) {
	w.t.Helper()
	secret, err := x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey))
	w.must(err)
	w.write("pages.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
	w.write("pages.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})))
	w.must(os.Chtimes(w.path("pages.pem"), at, at))
}

// person is a person with a browser that trusts one authority.
type person struct {
	t    *testing.T
	http *http.Client
	base string
}

func newPerson(t *testing.T, trusted authority, address string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(trusted.text))
	return &person{t, &http.Client{
		Jar: jar, Timeout: patience,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, "https://" + address}
}

// send sends what a browser would, and returns the answer with its page.
func (p *person) send(method, path string, form url.Values) (*http.Response, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp, err := p.http.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp, string(page)
}

// expect is send for an answer with a status.
func (p *person) expect(status int, method, path string, form url.Values) (*http.Response, string) {
	p.t.Helper()
	resp, page := p.send(method, path, form)
	if resp.StatusCode != status {
		p.t.Fatalf("%s %s was answered %d, want %d:\n%s", method, path, resp.StatusCode, status, page)
	}
	return resp, page
}

// invited makes a user, and lets the person choose the password.
func (w *world) invited(p *person, name string) *http.Response {
	w.t.Helper()
	link := strings.TrimSpace(w.expect(exitDone, "pages", "users", "invite", name, "--role", "operator").out)
	path, ours := strings.CutPrefix(link, p.base)
	if !ours {
		w.t.Fatalf("the invitation is %s, want one to %s", link, p.base)
	}
	p.expect(http.StatusOK, http.MethodGet, path, nil)
	resp, _ := p.expect(http.StatusSeeOther, http.MethodPost, path,
		url.Values{"password": {pagesPassword}, "again": {pagesPassword}})
	return resp
}

// loginCookie returns the login's cookie of an answer.
func loginCookie(t *testing.T, resp *http.Response) *http.Cookie {
	t.Helper()
	for _, c := range resp.Cookies() {
		if strings.HasPrefix(c.Name, "__Host-payersync-") && c.Value != "" {
			return c
		}
	}
	t.Fatalf("no login begins: %v", resp.Header.Values("Set-Cookie"))
	return nil
}

// From an invitation to the end of a login, over TLS, with the real process.
func TestSomebodySignsInToThePagesOverTLSAndOut(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t)
	w := newWorld(t, people(1))
	address := w.showOverTLS(authority.issue(t, func(*x509.Certificate) {}))
	serve := w.serve()
	anna := newPerson(t, authority, address)
	w.invited(anna, "anna")

	other := newPerson(t, authority, address) // another browser, without the login of the invitation
	if _, page := other.expect(http.StatusUnauthorized, http.MethodGet, "/runs", nil); strings.Contains(page, "Sign out") {
		t.Errorf("whoever is not signed in sees:\n%s", page)
	}
	resp, _ := other.expect(http.StatusSeeOther, http.MethodPost, "/signin",
		url.Values{"name": {"Anna"}, "password": {pagesPassword}})
	cookie := loginCookie(t, resp)
	if !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" ||
		cookie.Domain != "" {
		t.Errorf("the login's cookie is %s", cookie.Raw)
	}
	resp, page := other.expect(http.StatusOK, http.MethodGet, "/runs", nil)
	if hsts := resp.Header.Get("Strict-Transport-Security"); !strings.HasPrefix(hsts, "max-age=") ||
		strings.HasPrefix(hsts, "max-age=0") {
		t.Errorf("browsers are told of TLS: %q", hsts)
	}
	if !strings.Contains(page, "anna") || !strings.Contains(page, "operator") {
		t.Errorf("who is signed in is not told as whom:\n%s", page)
	}

	other.expect(http.StatusSeeOther, http.MethodPost, "/signout", nil)
	other.expect(http.StatusUnauthorized, http.MethodGet, "/runs", nil)
	thief := newPerson(t, authority, address) // the cookie that the browser has dropped is worth nothing either
	home, err := url.Parse(thief.base)
	w.must(err)
	thief.http.Jar.SetCookies(home, []*http.Cookie{{Name: cookie.Name, Value: cookie.Value, Path: "/", Secure: true}})
	thief.expect(http.StatusUnauthorized, http.MethodGet, "/runs", nil)
	anna.expect(http.StatusOK, http.MethodGet, "/runs", nil) // the login in the first browser is another one

	plain := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := plain.Get("http://" + address + "/signin")
	w.must(err)
	text, err := io.ReadAll(answer.Body)
	w.must(err)
	w.must(answer.Body.Close())
	if answer.StatusCode != http.StatusBadRequest || bytes.Contains(text, []byte("<")) || len(answer.Cookies()) > 0 {
		t.Errorf("without TLS it was answered %d:\n%s", answer.StatusCode, text)
	}
	log := serve.stop().errOut
	for _, secret := range []string{pagesPassword, cookie.Value, "/signin/invited/"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func TestTheSixthWrongPasswordInARowWaits(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t)
	w := newWorld(t, people(1))
	address := w.showOverTLS(authority.issue(t, func(*x509.Certificate) {}))
	w.serve()
	w.invited(newPerson(t, authority, address), "anna")
	guesser := newPerson(t, authority, address)
	for range 5 {
		_, page := guesser.expect(http.StatusUnauthorized, http.MethodPost, "/signin",
			url.Values{"name": {"anna"}, "password": {"seven red bottles hang"}})
		if !strings.Contains(page, "The name or the password is not right.") {
			t.Fatalf("a wrong password is answered with:\n%s", page)
		}
	}
	for _, password := range []string{"seven red bottles hang", pagesPassword} { // the right one waits, too
		resp, page := guesser.expect(http.StatusTooManyRequests, http.MethodPost, "/signin",
			url.Values{"name": {"anna"}, "password": {password}})
		if resp.Header.Get("Retry-After") == "" || !strings.Contains(page, "There were too many wrong passwords.") ||
			!strings.Contains(page, "and type it again.") || len(resp.Cookies()) > 0 {
			t.Errorf("the sixth is answered with %v:\n%s", resp.Header, page)
		}
	}
	if !w.audited("refuse to sign in") {
		t.Error("the audit log holds no refusal")
	}
}

// A renewed certificate needs no restart; a login goes on with the new one.
func TestACertificateThatIsReplacedIsServedWithFromTheNextVisitOn(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t)
	w := newWorld(t, people(1))
	issue := func(number int64) tls.Certificate {
		return authority.issue(t, func(c *x509.Certificate) { c.SerialNumber.SetInt64(number) })
	}
	address := w.showOverTLS(issue(21))
	serve := w.serve()
	anna := newPerson(t, authority, address)
	w.invited(anna, "anna")
	shows := func(number int64) {
		t.Helper()
		resp, _ := anna.expect(http.StatusOK, http.MethodGet, "/runs", nil)
		if got := resp.TLS.PeerCertificates[0].SerialNumber.Int64(); got != number {
			t.Errorf("the pages are shown with certificate %d, want %d", got, number)
		}
	}
	shows(21)
	w.writePair(issue(22), time.Now())
	shows(22)
	w.write("pages.pem", "half a fi")
	shows(22)
	w.writePair(issue(23), time.Now().Add(time.Minute))
	shows(23)
	serve.stop()
}

// A certificate that browsers would refuse is refused first, with a visible message.
func TestPagesAreNotShownWithACertificateThatDoesNotHold(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t)
	good := func(*x509.Certificate) {}
	tests := []struct {
		name  string
		spoil func(*x509.Certificate)
		key   bool // is of another certificate
		why   string
	}{
		{"expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }, false, "ran out on " +
			time.Now().Add(-time.Hour).UTC().Format(time.DateOnly)},
		{"another key", good, true, "private key does not match public key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, people(1))
			c := authority.issue(t, tt.spoil)
			if tt.key {
				c.PrivateKey = newKey(t)
			}
			w.showOverTLS(c)
			served, checked := w.expect(exitUsage, "serve"), w.expect(exitFailed, "check")
			for command, said := range map[string]string{"serve": served.errOut, "check": checked.out} {
				for _, part := range []string{"cannot show the pages over TLS: ", tt.why,
					"; put the certificate and its key at the paths in server.admin_tls"} {
					if !strings.Contains(said, part) {
						t.Errorf("%s does not say %q:\n%s", command, part, said)
					}
				}
			}
			if !strings.Contains(checked.out, "FAIL  pages") {
				t.Errorf("check says:\n%s", checked.out)
			}
			w.writePair(authority.issue(t, good), time.Now())
			w.expect(exitDone, "check")
			w.serve().stop()
		})
	}
}
