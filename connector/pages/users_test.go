package pages_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/state"
)

const goodPassword = "correct horse battery"

// user makes a user with a password, by invitation.
func (h *house) user(name string, role pages.Role) {
	h.t.Helper()
	link := must(admin.Users{Ledger: h.ledger}.Invite(context.Background(), name, string(role), nil, "tester"))(h.t)
	v := h.stranger()
	v.get(link, http.StatusOK)
	v.post(link, http.StatusOK, "password", goodPassword, "again", goodPassword)
}

// knows returns a visitor who has signed in with a password.
func (h *house) knows(name, password string) *visitor {
	h.t.Helper()
	v := h.stranger()
	v.post("/signin", http.StatusOK, "name", name, "password", password)
	return v
}

// typed signs in at pages from an address, and returns the answer.
func typed(p http.Handler, from, name, password string) *httptest.ResponseRecorder {
	form := url.Values{"name": {name}, "password": {password}}
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/signin", strings.NewReader(form.Encode()))
	r.Host, r.RemoteAddr = "127.0.0.1:8070", from+":4711"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func TestAnInvitationLetsSomebodyChooseAPasswordOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	admin := h.enter("ida", pages.Admin)
	holds(t, admin.get("/settings/users", http.StatusOK), "No user has a password yet")
	page := admin.post("/settings/users", http.StatusOK, "name", "Anna", "role", "operator")
	_, link, _ := strings.Cut(page, `value="`+h.server.URL)
	link, _, _ = strings.Cut(link, `"`)
	if !strings.HasPrefix(link, "/signin/invited/") {
		t.Fatalf("the page shows no invitation:\n%s", page)
	}
	if again := admin.get("/settings/users", http.StatusOK); strings.Contains(again, "/signin/invited/") ||
		!strings.Contains(again, "Invited") {
		t.Errorf("the invitation is shown twice, or is not told of:\n%s", again)
	}
	anna := h.stranger()
	for range 3 { // a preview, a scanner and the person herself
		holds(t, anna.get(link, http.StatusOK), "anna", "12 characters")
	}
	for _, wrong := range [][]string{{"short", "short"}, {goodPassword, "another one entirely"}, {"", ""},
		{"anna anna anna", "anna anna anna"}} {
		anna.post(link, http.StatusUnprocessableEntity, "password", wrong[0], "again", wrong[1])
	}
	anna.post(strings.Replace(link, "invited", "once", 1), http.StatusGone) // it is no link that signs in
	holds(t, anna.post(link, http.StatusOK, "password", goodPassword, "again", goodPassword), "<bdi>anna</bdi>, operator",
		"Your password is kept")
	anna.get(link, http.StatusGone)
	h.stranger().post(link, http.StatusGone, "password", goodPassword, "again", goodPassword)
	holds(t, h.knows(" ANNA ", goodPassword).get("/runs", http.StatusOK), "<bdi>anna</bdi>, operator")
	log := h.logged(20)
	for _, want := range []string{"ida invite a user anna as operator", "anna choose a password by invitation: ",
		"anna sign in as operator, by invitation", "anna sign in as operator, by password"} {
		if !strings.Contains(log, want) {
			t.Errorf("the audit log lacks %q:\n%s", want, log)
		}
	}
	if files := h.bytes(); bytes.Contains(files, []byte(goodPassword)) || bytes.Contains(files, []byte("argon2id")) ||
		bytes.Contains(files, []byte(strings.TrimPrefix(link, "/signin/invited/"))) {
		t.Error("the ledger holds a password, its hash, or an invitation in the clear")
	}
}

func TestOfManyWhoUseAnInvitationAtOnceOneChooses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	link := must(admin.Users{Ledger: h.ledger}.Invite(context.Background(), "anna", "viewer", nil, "tester"))(t)
	var in, out atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			form := url.Values{"password": {goodPassword}, "again": {goodPassword}}
			r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, link, strings.NewReader(form.Encode()))
			r.Host = "127.0.0.1:8070"
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			h.pages.ServeHTTP(w, r)
			switch {
			case w.Code == http.StatusSeeOther && len(w.Result().Cookies()) == 2: // of the login, and of the device
				in.Add(1)
			case w.Code == http.StatusGone && len(w.Result().Cookies()) == 0:
				out.Add(1)
			}
		})
	}
	all.Wait()
	if in.Load() != 1 || out.Load() != 7 {
		t.Errorf("%d have chosen, and %d are told that it was used", in.Load(), out.Load())
	}
}

// covers F84
func TestAfterFiveWrongPasswordsANameWaitsAndLonger(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *state.Ledger, p *pages.Pages) {
		h := &house{t: t, ledger: l, pages: p}
		h.choose("ada", pages.Admin)
		const there, elsewhere = "203.0.113.9", "198.51.100.7"
		for _, name := range []string{"ada", "nobody"} { // and nobody can tell the two
			for i := range 5 {
				if w := typed(p, elsewhere, name, "a wrong password"); w.Code != http.StatusUnauthorized ||
					!strings.Contains(w.Body.String(), "The name or the password is not right") {
					t.Errorf("wrong password %d of %s is answered %d", i+1, name, w.Code)
				}
			}
			w := typed(p, elsewhere, name, goodPassword)
			if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "30" ||
				!strings.Contains(w.Body.String(), "Wait 30 seconds") {
				t.Errorf("the sixth of %s is answered %d, after %q:\n%s", name, w.Code, w.Header().Get("Retry-After"), w.Body)
			}
		}
		for _, want := range []time.Duration{30, 60, 120, 240, 480, 900, 900, 900} {
			time.Sleep(want*time.Second - time.Second)
			if w := typed(p, elsewhere, "ada", goodPassword); w.Code != http.StatusTooManyRequests {
				t.Errorf("before %d seconds have passed the answer is %d", want, w.Code)
			}
			time.Sleep(time.Second)
			if w := typed(p, elsewhere, "ada", "a wrong password"); w.Code != http.StatusUnauthorized {
				t.Errorf("after %d seconds the answer is %d", want, w.Code)
			}
		}
		if w := typed(p, there, "ada", goodPassword); w.Code != http.StatusSeeOther {
			t.Errorf("from another network the right password is answered %d", w.Code)
		}
	})
}

// Somebody attacks a name from the network of its owner. The page says exactly how long a new browser there waits, at
// most 15 minutes, and the right password gets in after that.
func TestANewBrowserInTheNetworkOfAnAttackIsToldExactlyHowLongItWaits(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *state.Ledger, _ *pages.Pages) {
		p := must(pages.New(pages.Config{Ledger: l, Network: func(r *http.Request) string {
			return netip.PrefixFrom(netip.MustParseAddrPort(r.RemoteAddr).Addr(), 24).Masked().String()
		}}))(t)
		h := &house{t: t, ledger: l, pages: p}
		h.choose("ada", pages.Admin)
		for checked := 0; checked < 12; { // the last of them makes the longest wait
			if w := typed(p, "203.0.113.200", "ada", "a wrong password"); w.Code == http.StatusUnauthorized {
				checked++
			}
			time.Sleep(17 * time.Second)
		}
		w := typed(p, "203.0.113.9", "ada", goodPassword)
		left, err := strconv.Atoi(w.Header().Get("Retry-After"))
		if w.Code != http.StatusTooManyRequests || err != nil || left > 15*60 || left < 60 {
			t.Fatalf("during the attack the right password is answered %d, after %q", w.Code, w.Header().Get("Retry-After"))
		}
		if says := fmt.Sprintf("Wait %d minutes and %d seconds, and type it again.", left/60,
			left%60); !strings.Contains(w.Body.String(), says) {
			t.Errorf("the page does not say %q:\n%s", says, w.Body)
		}
		time.Sleep(time.Duration(left) * time.Second)
		if w := typed(p, "203.0.113.9", "ada", goodPassword); w.Code != http.StatusSeeOther {
			t.Errorf("the second try, after %d seconds, is answered %d", left, w.Code)
		}
	})
}

// choose gives somebody a password without a browser.
func (h *house) choose(name string, role pages.Role) {
	h.t.Helper()
	hash := must(admin.NewPasswords().Hash(context.Background(), goodPassword))(h.t)
	h.do(func(tx *state.Tx) error {
		_, err := tx.AddUser(name, string(role))
		_, setting := tx.SetPassword(name, hash)
		return errors.Join(err, setting)
	})
}

func TestANetworkThatTriesManyNamesWaits(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *state.Ledger, p *pages.Pages) {
		for i := range 20 {
			if w := typed(p, "203.0.113.9", fmt.Sprintf("name %d", i), "a wrong password"); w.Code != http.StatusUnauthorized {
				t.Errorf("name %d is answered %d", i, w.Code)
			}
		}
		if w := typed(p, "203.0.113.9", "another", "a wrong password"); w.Code != http.StatusTooManyRequests {
			t.Errorf("the next is answered %d", w.Code)
		}
		if w := typed(p, "198.51.100.7", "another", "a wrong password"); w.Code != http.StatusUnauthorized {
			t.Errorf("another network is answered %d", w.Code)
		}
	})
}

func TestWrongPasswordsAreALineAMinuteOfTheAuditLog(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *state.Ledger, p *pages.Pages) {
		h := &house{t: t, ledger: l, pages: p}
		h.choose("ada", pages.Admin)
		for range 40 {
			typed(p, "203.0.113.9", "ada", "a wrong password")
			typed(p, "203.0.113.9", "my secret password, typed into the wrong field", "ada")
		}
		time.Sleep(time.Minute) // and with it each line is written
		typed(p, "203.0.113.9", "ada", "a wrong password")
		synctest.Wait()
		log := h.logged(20)
		if n := strings.Count(log, "somebody refuse to sign in ada"); n != 2 ||
			!strings.Contains(log, "wrong password; 40 times since the line before") {
			t.Errorf("%d lines of ada:\n%s", n, log)
		}
		if n := strings.Count(log, "a name that is nobody"); n != 1 || strings.Contains(log, "typed into") {
			t.Errorf("%d lines of nobody:\n%s", n, log)
		}
	})
}

func TestRefusalsByRoleAreALineAMinuteOfTheAuditLog(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("vera", pages.Viewer)
	for range 5 {
		v.get("/settings/users", http.StatusForbidden)
	}
	if log := h.logged(20); strings.Count(log, "vera refuse GET /settings/users: it needs the role admin") != 1 {
		t.Errorf("the audit log says:\n%s", log)
	}
}

func TestAnotherRoleOrPasswordEndsAllOtherLogins(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.user("ida", pages.Admin)
	h.user("anna", pages.Admin)
	ida := h.knows("ida", goodPassword)
	for what, do := range map[string]func(){
		"a role":     func() { ida.post("/settings/users/anna", http.StatusOK, "do", "role", "role", "operator") },
		"a password": func() { h.choose("anna", pages.Operator) },
	} {
		anna, link := h.knows("anna", goodPassword), h.enter("anna", pages.Operator)
		anna.get("/runs", http.StatusOK)
		do()
		for _, v := range []*visitor{anna, link} {
			if page := v.get("/runs", http.StatusUnauthorized); !strings.Contains(page, `action="/signin"`) {
				t.Errorf("after %s the page lets nobody in:\n%s", what, page)
			}
		}
	}
	one, other := h.knows("anna", goodPassword), h.knows("anna", goodPassword)
	one.post("/settings/password", http.StatusUnprocessableEntity, "current", "a wrong password", "password",
		"another good password", "again", "another good password")
	one.post("/settings/password", http.StatusUnprocessableEntity, "current", goodPassword, "password",
		"another good password", "again", "another bad password")
	holds(t, one.post("/settings/password", http.StatusOK, "current", goodPassword, "password", "another good password",
		"again", "another good password"), "Your password is changed")
	one.get("/runs", http.StatusOK)
	other.get("/runs", http.StatusUnauthorized)
	h.stranger().post("/signin", http.StatusUnauthorized, "name", "anna", "password", goodPassword)
	h.knows("anna", "another good password").get("/runs", http.StatusOK)
	ida.post("/settings/users/anna", http.StatusOK, "do", "remove")
	one.get("/runs", http.StatusUnauthorized)
	h.stranger().post("/signin", http.StatusUnauthorized, "name", "anna", "password", "another good password")
	page := ida.post("/settings/users/ida", http.StatusConflict, "do", "remove")
	holds(t, page, "The last admin stays", "Nothing was changed")
	ida.post("/settings/users/ida", http.StatusConflict, "do", "role", "role", "viewer")
	ida.get("/runs", http.StatusOK)
}

func TestWhatCannotBeUndoneAsksForThePasswordAgain(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *state.Ledger, p *pages.Pages) {
		h := &house{t: t, ledger: l, pages: p}
		h.choose("ida", pages.Admin)
		h.choose("anna", pages.Viewer)
		c, linked := typed(p, "192.0.2.1", "ida", goodPassword).Result().Cookies()[0], cookieOf(t, l, p, pages.Admin, nil)
		post := func(path string, form url.Values) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, strings.NewReader(form.Encode()))
			r.Host = "127.0.0.1:8070"
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.AddCookie(c)
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			return w
		}
		role := url.Values{"do": {"role"}, "role": {"operator"}}
		time.Sleep(16 * time.Minute)
		w := post("/settings/users/anna", role)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `href="/again"`) {
			t.Errorf("after 16 minutes the answer is %d:\n%s", w.Code, w.Body)
		}
		own := c
		c = linked // who came by a link has no password to type
		if w := post("/settings/users/anna", role); w.Code != http.StatusForbidden ||
			!strings.Contains(w.Body.String(),
				"Make a new link on the machine that runs payersync, open the pages with it, and do it then.") {
			t.Errorf("by a link the answer is %d:\n%s", w.Code, w.Body)
		}
		c = own
		if w := post("/again", url.Values{"password": {"a wrong password"}}); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("a wrong password is answered %d", w.Code)
		}
		w = post("/again", url.Values{"password": {goodPassword}})
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/settings/users/anna" ||
			len(w.Result().Cookies()) != 2 || w.Result().Cookies()[0].Value == c.Value {
			t.Fatalf("the right one is answered %d, to %q:\n%s", w.Code, w.Header().Get("Location"), w.Body)
		}
		old := c
		c = w.Result().Cookies()[0]
		if got := status(t, p, old); got != http.StatusUnauthorized {
			t.Errorf("the token of before is answered %d", got)
		}
		if w := post("/settings/users/anna", role); w.Code != http.StatusSeeOther {
			t.Errorf("afterwards the answer is %d:\n%s", w.Code, w.Body)
		}
	})
}

func TestNobodyIsSentElsewhereAfterSigningIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.choose("ida", pages.Admin)
	for _, more := range []string{"?next=//evil.example", "?back=https://evil.example", "?to=/\\evil.example"} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/signin"+more,
			strings.NewReader(url.Values{"name": {"ida"}, "password": {goodPassword}, "next": {"//evil.example"},
				"back": {"//evil.example"}}.Encode()))
		r.Host = "127.0.0.1:8070"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.pages.ServeHTTP(w, r)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
			t.Errorf("%s leads to %q (%d)", more, w.Header().Get("Location"), w.Code)
		}
	}
}

func TestWhoSavedAMappingVersionDoesNotApproveItsPlan(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(false) // by tester, the first who used the version
	p := must(pages.New(pages.Config{Ledger: h.ledger, Connections: []string{sample}, FourEyes: true}))(t)
	plan := must(h.ledger.WaitingPlans(context.Background()))(t)[0]
	whole := must(admin.PlanOf(context.Background(), h.ledger, plan))(t)
	judge := func(p http.Handler, name string) *httptest.ResponseRecorder {
		link := h.link(name, pages.Admin)
		c := request{method: http.MethodPost, path: link}.to(t, p).Result().Cookies()[0]
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, fmt.Sprintf("/plans/%d", plan.ID),
			strings.NewReader(url.Values{"reads": {whole.Reads}, "do": {"all"}}.Encode()))
		r.Host = "127.0.0.1:8070"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(c)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w
	}
	w := judge(p, "Tester")
	holds(t, w.Body.String(), "You saved the mapping version", "Nothing was approved")
	if w.Code != http.StatusForbidden {
		t.Errorf("who saved it is answered %d", w.Code)
	}
	version := must(h.ledger.FindMapping(context.Background(), plan.Mapping))(t)
	h.do(func(tx *state.Tx) error { // and so is who saved it on the page, and another person's run used first
		return tx.Audit(state.Entry{Actor: "sam", Action: state.MappingSaved, Subject: sample + " none to " +
			version.Hash[:state.MappingMark], Reason: "a test"})
	})
	if w := judge(p, "Sam"); w.Code != http.StatusForbidden {
		t.Errorf("who saved it on the page is answered %d", w.Code)
	}
	if w := judge(p, "ida"); w.Code != http.StatusSeeOther {
		t.Errorf("somebody else is answered %d:\n%s", w.Code, w.Body)
	}
}

func TestABrowserThatWentAwayIsNoError(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := cookieOf(t, h.ledger, h.pages, pages.Viewer, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/runs", nil)
	r.Host = "127.0.0.1:8070"
	r.AddCookie(c)
	h.pages.ServeHTTP(httptest.NewRecorder(), r)
	if len(h.events) != 0 {
		t.Errorf("reported was %v", h.events)
	}
}
