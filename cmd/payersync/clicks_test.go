package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/internal/longtest"
	"payersync/state"
)

// The long mode: PAYERSYNC_LONG=1 go test ./cmd/payersync -run RandomClicks -clicks 10000 -kills 50
var clicks = flag.Int("clicks", 300, "how many links and buttons of the pages are pressed at random")

// An admin presses random controls on the pages while their process is killed again and again. No signing
// link ever reaches the browser without a line in the audit log, whatever the moment of the kill.
func TestRandomClicksShowNoSigningLinkThatTheLogDoesNotKnow(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	w := newWorld(t, people(30))
	w.finish("backfill", "--yes")
	random := seeded(t)
	shown, pressed, killed, statuses := map[string]int{}, 0, 0, map[int]int{}
	for pressed < *clicks || len(shown) == 0 && pressed < 20*(*clicks) {
		b := w.openPages(random)
		until := pressed + *clicks/kills() + 1
		if random.IntN(2) == 0 { // some are killed while they answer
			wait := time.Duration(random.Int64N(int64(300 * time.Millisecond)))
			time.AfterFunc(wait, func() { _ = b.process.cmd.Process.Kill() })
		}
		for pressed < until {
			status, page, err := b.press()
			if os.IsTimeout(err) {
				t.Fatalf("%s was not answered: %v\n%s", b.last, err, &b.process.errOut)
			}
			if err != nil {
				break // killed
			}
			pressed++
			statuses[status]++
			if status >= 500 && status != http.StatusServiceUnavailable && status != http.StatusBadGateway {
				t.Errorf("%s was answered %d:\n%s", b.last, status, page)
			}
			links := signingLinks.FindAllString(page, -1)
			if strings.HasPrefix(b.last, "POST /mandates/handover ") && len(links) > 0 {
				shown[handedOver]++ // one line tells of all of a file
				continue
			}
			for _, link := range links {
				shown[link[strings.LastIndex(link, "/")+1:]]++
			}
		}
		b.process.signal(syscall.SIGKILL)
		b.process.wait()
		killed++
	}
	known, logged := w.shownInLog(), 0
	for mandate, n := range shown {
		if logged += known[mandate]; known[mandate] < n {
			t.Errorf("the link of %s was shown %d times, and the log knows of %d", mandate, n, known[mandate])
		}
	}
	t.Logf("%d clicks, %d kills, answers %v; links of %d mandates were shown, %d times by the log", pressed, killed,
		statuses, len(shown), logged)
	if len(shown) == 0 {
		t.Error("no link was shown, so the test shows nothing")
	}
	w.expectWholeLedger()
}

// handedOver stands for the mandates of a hand-over file.
const handedOver = "a hand-over file"

// signingLinks matches the signing links of the sandbox's payers.
var signingLinks = regexp.MustCompile(`http://[^"<\s]+/sign/[A-Za-z0-9_-]+`)

// shownInLog returns the audit log's counts of shown links, by mandate or for a file.
func (w *world) shownInLog() map[string]int {
	w.t.Helper()
	known := map[string]int{}
	for _, line := range w.auditLog() {
		switch line.Action {
		case "show signing links":
			known[line.Subject]++
		case "write hand-over file":
			known[handedOver]++
		}
	}
	return known
}

// auditLog returns the lines of the audit log.
func (w *world) auditLog() []state.LoggedEntry {
	w.t.Helper()
	l, err := state.Open(context.Background(),
		state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		w.t.Fatal(err)
	}
	lines, err := l.Log(context.Background(), state.LogFilter{Limit: -1})
	if err := errors.Join(err, l.Close()); err != nil {
		w.t.Fatal(err)
	}
	return lines
}

// browser presses what pages have.
type browser struct {
	process *process
	http    *http.Client
	base    string
	random  *rand.Rand
	page    string // that is open
	last    string // what was pressed
}

// openPages starts the pages, and signs in as admin.
func (w *world) openPages(random *rand.Rand) *browser {
	w.t.Helper()
	p := w.process("pages")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	p.cmd.Stderr = &p.errOut
	if err := p.begin(); err != nil {
		w.t.Fatal(err)
	}
	said := make(chan error, 1)
	var line string
	go func() {
		var err error
		line, err = bufio.NewReader(out).ReadString('\n')
		said <- err
	}()
	err = await(w.t, "the address of the pages", said)
	link, parseErr := url.Parse(strings.TrimSpace(line))
	jar, jarErr := cookiejar.New(nil)
	if err := errors.Join(err, parseErr, jarErr); err != nil {
		w.t.Fatalf("the pages say %q: %v\n%s", line, err, &p.errOut)
	}
	b := &browser{process: p, http: &http.Client{Jar: jar, Timeout: patience}, base: "http://" + link.Host, random: random}
	if _, _, err := b.send(http.MethodPost, link.Path, nil); err != nil {
		w.t.Fatal(err)
	}
	return b
}

// send sends a request like a browser, and keeps the answered page.
func (b *browser) send(method, path string, form url.Values) (status int, page string, err error) {
	b.last = method + " " + path + " " + form.Encode()
	r, err := http.NewRequestWithContext(context.Background(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, "", err
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp, err := b.http.Do(r)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	b.page = string(text) // what came before a kill was shown, too
	return resp.StatusCode, b.page, err
}

var (
	anyLink   = regexp.MustCompile(`href="(/[^"]*)"`)
	anyForm   = regexp.MustCompile(`(?s)<form[^>]*method="(post|get)"[^>]*action="([^"]*)"[^>]*>(.*?)</form>`)
	anyField  = regexp.MustCompile(`<(input|button|select|textarea)\b[^>]*>`)
	attribute = regexp.MustCompile(`\b(name|value|type)="([^"]*)"`)
	anyOption = regexp.MustCompile(`<option value="([^"]*)"`)
)

// press follows a random link of the page or sends a random form. Without one, or after a sign-out, it opens
// a page of the menu.
func (b *browser) press() (int, string, error) {
	links, forms := anyLink.FindAllStringSubmatch(b.page, -1), anyForm.FindAllStringSubmatch(b.page, -1)
	if len(forms) > 0 && b.random.IntN(3) == 0 {
		f := forms[b.random.IntN(len(forms))]
		if path := html.UnescapeString(f[2]); path != "/signout" {
			form := b.filled(f[3])
			if f[1] == "get" {
				return b.send(http.MethodGet, path+"?"+form.Encode(), nil)
			}
			return b.send(http.MethodPost, path, form)
		}
	}
	if len(links) == 0 || b.random.IntN(20) == 0 {
		menu := []string{"/", "/payers", "/mandates", "/plans", "/runs", "/webhooks", "/mapping/acme"}
		return b.send(http.MethodGet, menu[b.random.IntN(len(menu))], nil)
	}
	return b.send(http.MethodGet, html.UnescapeString(links[b.random.IntN(len(links))][1]), nil)
}

// filled returns a form with random fitting values, and presses one of its buttons.
func (b *browser) filled(form string) url.Values {
	out, buttons := url.Values{}, [][2]string{}
	for _, place := range anyField.FindAllStringSubmatchIndex(form, -1) {
		tag, kind := form[place[0]:place[1]], form[place[2]:place[3]]
		has := map[string]string{}
		for _, a := range attribute.FindAllStringSubmatch(tag, -1) {
			has[a[1]] = html.UnescapeString(a[2])
		}
		switch rest := form[place[1]:]; {
		case has["name"] == "":
		case kind == "button":
			buttons = append(buttons, [2]string{has["name"], has["value"]})
		case kind == "select":
			inner, _, _ := strings.Cut(rest, "</select>")
			if options := anyOption.FindAllStringSubmatch(inner, -1); len(options) > 0 {
				out.Set(has["name"], html.UnescapeString(options[b.random.IntN(len(options))][1]))
			}
		case kind == "textarea":
			inner, _, _ := strings.Cut(rest, "</textarea>")
			out.Set(has["name"], html.UnescapeString(strings.TrimPrefix(inner, "\n")))
		case has["type"] == "checkbox" || has["type"] == "radio":
			if b.random.IntN(2) == 0 {
				out.Add(has["name"], has["value"])
			}
		case has["value"] != "":
			out.Set(has["name"], has["value"])
		case b.random.IntN(8) > 0:
			out.Set(has["name"], []string{"asked by telephone", "ada", "1", "1+1"}[b.random.IntN(4)])
		}
	}
	if len(buttons) > 0 {
		pressed := buttons[b.random.IntN(len(buttons))]
		out.Set(pressed[0], pressed[1])
	}
	return out
}
