package main

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/session"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/connector/worker"
)

// settlesOnPages performs an act once more, for somebody who has a browser and no terminal.
func settlesOnPages(t *testing.T, row *acted, at int, way connector.Way) {
	s, reason := newStage(t), row.reason
	id := situations[reason](s)
	if before := beforehand[way.Act]; before != nil {
		before(s)
	}
	other := s.untouched()
	why := fmt.Sprintf("settled by way %d of %s", at, reason)
	s.another = s.added(`{"name":"Somebody Else Again","people":[{"name":"Else","email":"else@example.org"}]}`)
	if way.Act == connector.ActLink {
		s.sync() // so that the customer is known
	}
	writes, preview := s.box.Writes(), s.proposed(id, reason, at).Preview()
	s.onPages(func(sign func(pages.Role) *reader) {
		path := pageOf(id, reason)
		if page := sign(pages.Viewer).get(path); strings.Contains(page, "data-act=") {
			t.Errorf("a viewer is offered what a viewer may not do:\n%s", page)
		}
		r := sign(admin.Acts[way.Act].Role)
		page := r.get(path)
		for _, told := range regexp.MustCompile(`(?s)<section class="told">.*?</section>`).FindAllString(page, -1) {
			if strings.Contains(told, "payersync payers ") || strings.Contains(told, "payersync attention ") {
				t.Errorf("the page names a command as what to do:\n%s", told)
			}
		}
		if reason == connector.ReasonLikeness && way.Act != connector.ActGiveUp {
			r.decideMatch(page, way.Act, why)
			row.page = "page of the match"
		} else {
			row.page = r.perform(page, reason, way.Act, why, s.another, preview)
		}
	})
	if n := s.box.Writes() - writes; n > 0 && way.Sends != connector.SendsNow {
		t.Errorf("the page sent %d requests", n)
	}
	if way.Sends != connector.SendsNow && way.Why && !s.audited(why) {
		t.Errorf("the audit log does not say %q", why)
	}
	now := s.box.Writes() - writes
	s.settle(t, reason, id)
	s.sent(t, preview, now, s.box.Writes()-writes)
	if n := s.box.Writes() - writes; n > 0 && way.Sends == connector.SendsNothing {
		t.Errorf("%d requests were sent after a word that sends nothing", n)
	}
	if now := s.untouched(); now != other {
		t.Errorf("the other record was touched:\n%s\nwas\n%s", now, other)
	}
}

// pageOf returns the page on which something is settled.
func pageOf(id string, reason connector.Reason) string {
	switch reason {
	case connector.ReasonEventNotUnderstood:
		return "/webhooks/" + url.PathEscape(id)
	case connector.ReasonSubscriptionChanged:
		return "/webhooks"
	}
	return "/payers/acme/" + id
}

// onPages shows the pages of the installation in this process for as long as use takes.
func (s *stage) onPages(use func(sign func(pages.Role) *reader)) {
	s.t.Helper()
	a := s.app(io.Discard, io.Discard)
	opened, err := a.open(s.t.Context())
	s.must(err)
	defer opened.Close()
	asked, err := worker.New(worker.Config{Drain: func(context.Context) error { return nil }, DrainEvery: time.Hour,
		Now: s.now})
	s.must(err)
	behind := newBehindPages(opened.Ledger, func() *session.Session { return opened }, func() runner { return asked })
	behind.nudge = func() { s.must(drainInbox(s.t.Context(), opened)) }
	defer behind.close()
	shown, err := a.pagesOf(opened, behind, func(c *pages.Config) {
		c.Report = func(e pages.Event) {
			if e.Err != nil {
				s.t.Logf("%s was answered %d: %v", e.Route, e.Status, e.Err)
			}
		}
	})
	s.must(err)
	server := httptest.NewServer(shown)
	defer server.Close()
	use(func(role pages.Role) *reader {
		link := func() string {
			path, err := pages.NewLink(s.t.Context(), opened.Ledger, pages.User{Name: "anna the " + string(role), Role: role},
				"tester")
			s.must(err)
			return path
		}
		jar, err := cookiejar.New(nil)
		s.must(err)
		r := &reader{t: s.t, base: server.URL, http: &http.Client{Jar: jar}, link: link}
		r.send(http.MethodPost, link(), nil)
		return r
	})
}

// reader is a person with a browser without script.
type reader struct {
	t    testing.TB
	base string
	http *http.Client
	link func() string // makes another one that signs the same person in
}

func (r *reader) send(method, path string, form url.Values) string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		r.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s %s %s was answered %d: %v\n%s", method, path, form.Encode(), resp.StatusCode, err, text)
	}
	return string(text)
}

func (r *reader) get(path string) string {
	r.t.Helper()
	return r.send(http.MethodGet, path, nil)
}

var hrefOf, actionOf = regexp.MustCompile(`href="([^"]*)"`), regexp.MustCompile(`action="([^"]*)"`)

// perform presses the button of an act, and does what the pages behind it ask for. It fails unless the page before the
// last button shows the effect.
func (r *reader) perform(page string, reason connector.Reason, act connector.Act, why, customer string,
	shown admin.Preview) string {
	r.t.Helper()
	tag := regexp.MustCompile(fmt.Sprintf(`<(a|form)[^>]*data-act="%s" data-reason="%s"[^>]*>`, act,
		reason)).FindString(page)
	if tag == "" {
		r.t.Fatalf("the page has no button for %s of %s:\n%s", act, reason, page)
	}
	if strings.HasPrefix(tag, "<form") {
		r.sees(page, shown.Becomes+" "+shown.Sends)
		r.submit(page[strings.Index(page, tag):], why)
		return "button"
	}
	path := html.UnescapeString(hrefOf.FindStringSubmatch(tag)[1])
	page = r.get(path)
	if form := regexp.MustCompile(`<form method="get" action="([^"]*)"`).FindStringSubmatch(page); form != nil {
		page = r.get(html.UnescapeString(form[1]) + "?" + url.Values{"customer": {customer}}.Encode())
	}
	asks := "Note, for the audit log; it may stay blank"
	if admin.Acts[act].Asks(admin.InputReason) || act == connector.ActRequest {
		asks = "Reason, for the audit log"
	}
	r.sees(page, append(lines(shown), "Back, change nothing", asks)...)
	_, form, _ := strings.Cut(page, "Back to the payer")
	r.submit(form[strings.Index(form, `<form method="post"`):], why)
	return "page that asks"
}

// sees fails unless a page shows these texts.
func (r *reader) sees(page string, texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		if !strings.Contains(html.UnescapeString(page), text) {
			r.t.Errorf("the page that asks lacks %q:\n%s", text, page)
		}
	}
}

// submit sends the form that text begins with.
func (r *reader) submit(text, why string) {
	r.t.Helper()
	form, _, _ := strings.Cut(text, "</form>")
	path := html.UnescapeString(actionOf.FindStringSubmatch(form)[1])
	fields := url.Values{}
	for _, input := range regexp.MustCompile(`<input[^>]*>`).FindAllString(form, -1) {
		has := map[string]string{}
		for _, a := range attribute.FindAllStringSubmatch(input, -1) {
			has[a[1]] = html.UnescapeString(a[2])
		}
		if has["name"] == "reason" {
			has["value"] = why
		}
		fields.Add(has["name"], has["value"])
	}
	if parts := fields["part"]; len(parts) > 1 {
		fields["part"] = []string{"name"}
	}
	r.send(http.MethodPost, path, fields)
}

// decideMatch compares a payer with the customer that looks like it, and decides.
func (r *reader) decideMatch(page string, act connector.Act, why string) {
	r.t.Helper()
	tag := regexp.MustCompile(`<a[^>]*data-act="accept" data-reason="likeness"[^>]*>`).FindString(page)
	if tag == "" {
		r.t.Fatalf("the page has no button that compares:\n%s", page)
	}
	path := html.UnescapeString(hrefOf.FindStringSubmatch(tag)[1])
	page = r.get(path)
	customer := regexp.MustCompile(`name="customer" value="([^"]+)"`).FindStringSubmatch(page)
	if customer == nil {
		r.t.Fatalf("the page compares nobody:\n%s", page)
	}
	seen := regexp.MustCompile(`name="seen" value="([^"]+)"`).FindStringSubmatch(page)
	r.sees(page, admin.Acts[act].Becomes)
	does := map[connector.Act]string{connector.ActAccept: "same", connector.ActReject: "not"}[act]
	r.send(http.MethodPost, path, url.Values{"customer": {customer[1]}, "act": {does}, "reason": {why}, "seen": seen[1:]})
}

// A decision made on a page can be taken back there, if the command supports that.
func TestADecisionOnThePagesIsTakenBackThere(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason    connector.Reason
		act, undo connector.Act
	}{
		{connector.ReasonEnteredTwice, connector.ActMerge, connector.ActSeparate},
		{connector.ReasonKeyChanged, connector.ActUnlink, connector.ActKeep},
		{connector.ReasonDuplicateCustomer, connector.ActReject, connector.ActTakeBack},
		{connector.ReasonDuplicateCustomer, connector.ActUnlink, connector.ActKeep},
		{connector.ReasonKeyDisputed, connector.ActAdopt, connector.ActTakeBack},
		{connector.ReasonKeyDisputed, connector.ActReject, connector.ActTakeBack},
		{connector.ReasonUnlinked, connector.ActLink, connector.ActTakeBack},
		{connector.ReasonUnlinked, connector.ActReject, connector.ActTakeBack},
		{connector.ReasonEmailMalformed, connector.ActGiveUp, connector.ActTakeUp},
	} {
		t.Run(fmt.Sprintf("%s/%s", test.reason, test.act), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			id := situations[test.reason](s)
			s.another = s.added(`{"name":"Somebody Else Again","people":[{"name":"Else","email":"else@example.org"}]}`)
			s.sync()
			before := s.told(id)
			s.onPages(func(sign func(pages.Role) *reader) {
				r := sign(pages.Operator)
				r.perform(r.get(pageOf(id, test.reason)), test.reason, test.act, "decided in haste", s.another, admin.Preview{})
				r.perform(r.get(pageOf(id, test.reason)), "", test.undo, "decided again", s.another, admin.Preview{})
			})
			if !s.audited("decided again") {
				t.Error("the audit log does not say that it was taken back")
			}
			s.sync()
			if after := s.told(id); !slices.Equal(before, after) {
				t.Errorf("%s is told %v, and was told %v", id, after, before)
			}
		})
	}
}
