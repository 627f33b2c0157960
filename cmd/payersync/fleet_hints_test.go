package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/pages"
	"payersync/connector/worker"
)

// takeNoAccount are the commands of all accounts, of nodes, and of no ledger.
var takeNoAccount = []string{"accounts", "nodes", "serve", "healthcheck", "init", "demo", "sandbox", "source",
	"version", "man", "help", "completion"}

// readNoConfiguration are the commands without a configuration.
var readNoConfiguration = []string{"init", "demo", "sandbox", "source", "version", "man", "help", "completion"}

// TestHintsKnowEveryCommandOfAnAccount fails for a command that connector.NameAccount does not know, and for one that it
// knows and that takes no account.
func TestHintsKnowEveryCommandOfAnAccount(t *testing.T) {
	t.Parallel()
	for _, c := range commandsBelow(newRoot()) {
		if c.HasSubCommands() && !slices.Contains([]string{"payersync pages", "payersync payers drift",
			"payersync payers match"}, c.CommandPath()) {
			continue // it only holds others
		}
		want := c.CommandPath()
		if !slices.Contains(takeNoAccount, strings.Fields(want)[1]) {
			want += " --account acme"
		}
		if got := connector.NameAccount(c.CommandPath(), "acme"); got != want {
			t.Errorf("%s is shown as %q, want %q", c.CommandPath(), got, want)
		}
		want = c.CommandPath()
		if !slices.Contains(readNoConfiguration, strings.Fields(want)[1]) {
			want += " --config acme.yaml"
		}
		if got := connector.NameConfig(c.CommandPath(), "acme.yaml"); got != want {
			t.Errorf("%s is shown as %q, want %q", c.CommandPath(), got, want)
		}
	}
}

// A person who named the configuration can run each printed command line as it stands.
func TestHintsNameTheConfigurationThatThePersonNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(30))
	for _, args := range [][]string{{"status"}, {"status", "--output", "json"}, {"backfill"}, {"plan", "list"},
		{"attention", "list"}} {
		r := w.commandIn(t.Context(), append(args, "--config", w.path("payersync.yaml"))...)
		for _, found := range regexp.MustCompile(`payersync (?:status|approve|plan show|backfill|sync|attention (?:list|show))\b.{0,12}`).FindAllString(r.out+r.errOut, -1) {
			if !strings.Contains(found, " --config ") {
				t.Errorf("%v prints %q", args, found)
			}
		}
		if args[0] == "backfill" && !strings.Contains(r.out+r.errOut, "--config "+w.path("payersync.yaml")) {
			t.Errorf("%v names no configuration:\n%s%s", args, r.out, r.errOut)
		}
	}
}

// withoutAccount returns the command lines of a text that work on one account and do not name acme.
func withoutAccount(text string) (lines []string) {
	var names []string
	for _, c := range commandsBelow(newRoot()) {
		if !slices.Contains(takeNoAccount, strings.Fields(c.CommandPath())[1]) && c.Runnable() && !c.HasSubCommands() {
			names = append(names, regexp.QuoteMeta(strings.TrimPrefix(c.CommandPath(), "payersync ")))
		}
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	line := regexp.MustCompile(`payersync\s+(?:` + strings.Join(names, "|") + `)(?:[^a-z-][^\n]{0,60}|$)`)
	for _, found := range line.FindAllString(text, -1) {
		if !strings.Contains(found, "--account acme") && !strings.Contains(found, "--account NAME") &&
			!strings.Contains(found, " --help") {
			lines = append(lines, found)
		}
	}
	return lines
}

// Two accounts share a database. All command lines that people are shown for one of them name it, and work as they stand.
func TestCommandLinesOnNodesNameTheirAccount(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, map[string]int{"acme": 3, "beta": 1})
	w := c.accounts["acme"]
	for _, name := range c.names {
		c.configure(name, "0 3 1 1 *")
	}
	rows := people(3)
	rows[1].Depot = "2 Dock Road" // two addresses: a finding
	w.export(rows...)
	var told safeText
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told.add(string(body))
	}))
	defer receiver.Close()
	path := filepath.Join("accounts", "acme", "account.yaml")
	c.write(filepath.Join("accounts", "acme", "alert.secret"), alertSecret)
	c.write(path, strings.Replace(c.read(path), "max_creates: 100000", "max_creates: 1", 1)+
		"alerts:\n  name: test\n  ways: [{name: pager, webhook: {url: \""+receiver.URL+"\", secret: \"file:alert.secret\"}}]\n")
	c.apply()

	shown := map[string]string{}
	call := func(code int, args ...string) string {
		t.Helper()
		r := c.expect(code, append(args, "--account", "acme")...)
		shown[strings.Join(args, " ")] = r.out + "\n" + r.errOut
		return r.out + "\n" + r.errOut
	}
	call(exitApproval, "sync")
	approve := regexp.MustCompile(`payersync plan approve --account acme \d+`).FindString(call(exitApproval, "sync"))
	if approve == "" {
		t.Errorf("no line of the plan says how to approve it:\n%s", shown["sync"])
		approve = "payersync plan approve 1 --account acme"
	}
	call(exitDone, "plan", "show", "1")
	call(exitDone, "status")
	call(exitDone, "alerts", "list")
	call(exitDone, "alerts", "list", "--output", "json")
	call(exitDone, "alerts", "send")
	shown["the alarm"] = told.text()
	shown["status of all"] = func() string { r := c.expect(exitDone, "status"); return r.out + r.errOut }()
	shown["status of all, JSON"] = c.expect(exitDone, "status", "--output", "json").out
	c.expect(exitDone, strings.Fields(approve)[1:]...) // as it stands
	call(exitAttention, "sync", "--yes")
	call(exitDone, "attention", "list")
	call(exitDone, "attention", "list", "--output", "json")
	call(exitDone, "attention", "show", "A00002")
	call(exitDone, "attention", "show", "A00002", "--output", "json")
	call(exitDone, "payers", "show", "A00002")
	call(exitFailed, "plan", "approve", "99")
	call(exitDone, "report")
	call(exitDone, "accounts", "list")
	c.expect(exitDone, "accounts", "pause", "acme", "--reason", "a holiday")
	shown["sync of a paused account"] = c.expect(exitFailed, "sync", "--account", "acme").errOut
	c.expect(exitDone, "accounts", "pause", "--undo", "acme")
	c.onPages("acme", func(r *reader) {
		for _, page := range []string{"/", "/payers", "/payers/acme/A00002", "/todo/email_malformed", "/plans", "/plans/1",
			"/runs", "/mapping", "/webhooks", "/settings"} {
			shown["the page "+page] = r.get(page)
		}
	})
	p := c.beginOf("payersync", 0)
	shown["the log of the start"] = p.logged("payersync serves")
	c.deliver(0, c.token("acme"), w.delivery([]byte(`{"nonsense": true}`)))
	shown["the log of a delivery"] = p.errOut.take()
	commands := 0
	for where, text := range shown {
		commands += strings.Count(text, "--account acme")
		for _, line := range withoutAccount(text) {
			t.Errorf("%s does not name the account: %s", where, line)
		}
	}
	if commands < 10 {
		t.Errorf("only %d command lines were looked at: %v", commands, shown)
	}
	giveUp := regexp.MustCompile(`payersync attention close --account acme --give-up A00002`).FindString(shown["attention show A00002"])
	if giveUp == "" {
		t.Fatalf("the finding has no way out:\n%s", shown["attention show A00002"])
	}
	c.expect(exitDone, append(strings.Fields(giveUp)[1:], "--reason", "a test")...)
}

// safeText collects texts of several goroutines.
type safeText struct {
	mu  sync.Mutex
	all strings.Builder
}

func (s *safeText) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all.WriteString(text + "\n")
}

func (s *safeText) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// onPages shows the pages of an account to an administrator for as long as use takes.
func (c *cluster) onPages(account string, use func(*reader)) {
	asked, err := worker.New(worker.Config{Drain: func(context.Context) error { return nil }, DrainEvery: time.Hour,
		Now: time.Now})
	if err != nil {
		c.t.Fatal(err)
	}
	c.onPagesWith(account, func(*session.Session) runner { return asked }, use)
}

// onPagesWith is onPages with what does the requests of people.
func (c *cluster) onPagesWith(account string, by func(*session.Session) runner, use func(*reader)) {
	t := c.t
	a := &app{program: program{Console: &show.Console{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard},
		getenv: func(string) (string, bool) { return "", false }}, now: time.Now, config: c.any().path("payersync.yaml"),
		account: account}
	ctx, cancel := context.WithCancel(t.Context())
	a.interrupt = cancel
	a.node = &node{app: a, ctx: func() context.Context { return ctx }}
	defer a.node.close()
	defer cancel()
	opened, err := a.open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	asked := by(opened)
	behind := newBehindPages(opened.Ledger, func() *session.Session { return opened }, func() runner { return asked })
	defer behind.close()
	pagesShown, err := a.pagesOf(opened, behind, func(*pages.Config) {})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(pagesShown)
	defer server.Close()
	link, err := pages.NewLink(t.Context(), opened.Ledger, pages.User{Name: "anna", Role: pages.Admin}, "tester")
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	r := &reader{t: t, base: server.URL, http: &http.Client{Jar: jar}}
	r.send(http.MethodPost, link, nil)
	use(r)
}
