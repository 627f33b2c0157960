package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/config"
	"payersync/connector"
	"payersync/state"
)

var (
	nodeAccounts = flag.Int("node-accounts", 0, "how many accounts two nodes serve together; 0 leaves that test out")
	nodeLarge    = flag.Int("node-large", 20000, "how many payers one more account of them has")
	nodeLeave    = flag.Bool("node-leave", false, "end while that one is still at work: one of a million takes hours")
	nodeWatch    = flag.Duration("node-watch", 4*time.Minute, "for how long webhooks and schedules of them are watched")
)

// The longest waits of accounts, whatever the trouble of others.
const (
	webhookWithin  = 5 * time.Second // of 99 of 100
	scheduleWithin = 30 * time.Second
)

// troubled are accounts beside the many, by what ails them.
const (
	hangs  = "hangs"  // the books of which never answer
	breaks = "breaks" // the mapping of which panics in every record
	large  = "large"
)

// Two nodes serve very many accounts beside one whose books hang, one whose mapping panics and a large one: each payer
// is made once, and of the many a webhook is reflected soon and no time is missed.
//
// covers F183, F196
func TestNodesServeVeryManyAccounts(t *testing.T) {
	t.Parallel()
	if *nodeAccounts == 0 {
		t.Skip("it takes minutes: run with -node-accounts N")
	}
	many := map[string]int{}
	for i := range *nodeAccounts {
		many[fmt.Sprintf("account%04d", i)] = 2
	}
	c := newCluster(t, 2, withTroubled(many))
	c.trouble()
	lap := laps(t)
	c.apply()
	lap("to apply their files")
	nodes := []*process{c.serve(0), c.serve(1)}
	t.Cleanup(func() {
		for i, p := range nodes {
			p.complaints(i)
		}
	})
	lap("to open them on both nodes")
	for name, n := range many {
		patiently(t, "the payers of "+name, func() bool { return len(c.accounts[name].box.Customers()) == n })
	}
	lap("to make the payers of the many")
	from, given := c.watch(seeded(t), many)
	c.expectInTime(many, from, given)
	if *nodeLeave {
		t.Logf("the large one has read %d records and made %d payers", c.held(large), len(c.accounts[large].box.Customers()))
	} else {
		c.awaitLarge()
		lap("until the large one was made")
	}
	c.expectOnce(many)
	c.expectTrouble()
	for _, p := range nodes {
		t.Logf("a node has %s", p.memory())
		p.signal(syscall.SIGTERM)
		if r := p.wait(); r.code != exitDone {
			t.Errorf("a node ended with %d", r.code)
		}
	}
}

// complaints logs a node's latest warnings and errors if the test failed.
func (p *process) complaints(node int) {
	if !p.t.Failed() {
		return
	}
	var lines []string
	for line := range strings.Lines(p.errOut.String()) {
		if !strings.Contains(line, `"level":"debug"`) && !strings.Contains(line, `"level":"info"`) {
			lines = append(lines, line)
		}
	}
	p.t.Logf("node %d complained %d times, at last:\n%s", node, len(lines),
		strings.Join(lines[max(0, len(lines)-40):], ""))
}

// laps returns what logs how long something took.
func laps(t *testing.T) func(what string) {
	clock := time.Now()
	return func(what string) {
		t.Logf("%s took %v", what, time.Since(clock).Round(time.Millisecond))
		clock = time.Now()
	}
}

func withTroubled(many map[string]int) map[string]int {
	all := map[string]int{hangs: 1, breaks: 5, large: *nodeLarge}
	for name, n := range many {
		all[name] = n
	}
	return all
}

// trouble gives the troubled accounts what ails them.
func (c *cluster) trouble() {
	c.t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // whose callers are never answered
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = silent.Close() })
	c.edit(hangs, "account.yaml",
		"kind: csv, path: "+filepath.Join(c.dir, "books", hangs, "customers.csv")+", id: [AccountNumber]",
		fmt.Sprintf("kind: sql, driver: postgres, host: 127.0.0.1, port: %d, database: books, user: reader, password: file:client.secret, tls: off, table: customers, id: [AccountNumber]", silent.Addr().(*net.TCPAddr).Port))
	c.edit(hangs, "mapping.yaml", "source: csv", "source: sql")
	// the depot is an empty text
	c.edit(breaks, "mapping.yaml", "name: trim(Name)", "name: '(7 % len(Depot) == 0) ? Name : trim(Name)'")
}

// edit replaces text in a file of an account's folder.
func (c *cluster) edit(name, file, old, text string) {
	c.t.Helper()
	path := filepath.Join("accounts", name, file)
	before := c.read(path)
	if !strings.Contains(before, old) {
		c.t.Fatalf("%s does not hold %q", path, old)
	}
	c.write(path, strings.Replace(before, old, text, 1))
}

// watch sends webhooks of the many accounts for a while, to the nodes in turns. It returns the start, and the
// number of webhooks.
func (c *cluster) watch(random *rand.Rand, many map[string]int) (from time.Time, given int) {
	c.t.Helper()
	tokens := map[string]string{}
	server := c.server()
	for _, row := range server.infos {
		token, err := server.HookToken(c.t.Context(), row)
		c.any().must(err)
		tokens[row.Name] = hooksPath + token
	}
	names := slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return many[name] == 0 })
	from = time.Now()
	tick := time.NewTicker(max(*nodeWatch/5000, 50*time.Millisecond))
	defer tick.Stop()
	for range tick.C {
		if time.Since(from) > *nodeWatch {
			break
		}
		name := names[random.IntN(len(names))]
		w := c.accounts[name]
		customers := w.box.Customers()
		one := customers[random.IntN(len(customers))]
		if len(one.Mandates) == 0 {
			continue
		}
		if m := one.Mandates[0]; m.Status == connector.MandateCreated {
			w.must(w.box.Sign(m.ID))
		}
		if got := c.deliver(given%2, tokens[name],
			w.delivery(event(fmt.Sprint("evt-", given), one.ID))); got != http.StatusOK {
			c.t.Errorf("a webhook of %s was answered %d", name, got)
		}
		given++
	}
	return from, given
}

// opened is the cluster's database as the test looks into it.
type opened struct {
	*state.Server
	infos []state.AccountInfo
}

func (c *cluster) server() opened {
	c.t.Helper()
	node, err := config.LoadNode(filepath.Join(c.dir, "node0.yaml"), os.LookupEnv)
	if err != nil {
		c.t.Fatal(err)
	}
	server, err := state.OpenServer(c.t.Context(), node.Options())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(server.Close)
	infos, err := server.Accounts(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return opened{server, infos}
}

// ledger looks into the ledger of an account.
func (o opened) ledger(t testing.TB, name string, look func(l *state.Ledger)) {
	t.Helper()
	l, err := state.Open(t.Context(), state.Options{Server: o.Server, Account: name, Keyless: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	look(l)
}

// expectInTime fails unless the webhooks of the many were reflected soon, and each minute had its run.
func (c *cluster) expectInTime(many map[string]int, from time.Time, given int) {
	c.t.Helper()
	var waits, late []time.Duration
	until, server := time.Now(), c.server()
	for name := range many {
		server.ledger(c.t, name, func(l *state.Ledger) {
			waits = append(waits, c.reflected(l, name)...)
			late = append(late, c.lateness(l, name, from, until)...)
		})
	}
	if len(waits) != given {
		c.t.Errorf("of %d webhooks that were acknowledged %d are there", given, len(waits))
	}
	for _, of := range []struct {
		what      string
		all       []time.Duration
		per, most time.Duration
	}{{"from a webhook to its status", waits, 99, webhookWithin}, {"a time came late by", late, 100, scheduleWithin}} {
		slices.Sort(of.all)
		at := func(per time.Duration) time.Duration {
			return of.all[max(0, len(of.all)*int(per)/100-1)].Round(time.Millisecond)
		}
		c.t.Logf("%s: %d, half within %v, 99 of 100 within %v, all within %v", of.what, len(of.all), at(50), at(99), at(100))
		if at(of.per) > of.most {
			c.t.Errorf("%s: %d of 100 within %v, want %v", of.what, of.per, at(of.per), of.most)
		}
	}
}

// reflected returns how long each webhook of an account waited.
func (c *cluster) reflected(l *state.Ledger, name string) (waits []time.Duration) {
	c.t.Helper()
	patiently(c.t, "the webhooks of "+name, func() bool {
		rows, err := l.Inbox(c.t.Context(), state.Filter{})
		c.any().must(err)
		waits = waits[:0]
		for _, row := range rows {
			if row.ProcessedAt == nil {
				return false
			}
			waits = append(waits, c.moment(*row.ProcessedAt).Sub(c.moment(row.ReceivedAt)))
		}
		return true
	})
	return waits
}

// lateness returns how much more than a minute passed between runs of an account, and until the end.
func (c *cluster) lateness(l *state.Ledger, name string, from, until time.Time) (late []time.Duration) {
	c.t.Helper()
	runs, err := l.Runs(c.t.Context(), state.Filter{})
	c.any().must(err)
	next := until
	for _, run := range runs { // the newest first
		began := c.moment(run.StartedAt)
		if began.After(until) {
			continue
		}
		late = append(late, max(0, next.Sub(began)-time.Minute))
		if next = began; began.Before(from) {
			break
		}
	}
	if len(late) == 0 {
		c.t.Errorf("%s had no run", name)
	}
	return late
}

func (c *cluster) moment(text string) time.Time {
	c.t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	c.any().must(err)
	return at
}

// awaitLarge waits until the large account is done, up to its limit.
func (c *cluster) awaitLarge() {
	c.t.Helper()
	w, made := c.accounts[large], -1
	for made < *nodeLarge {
		before := made
		patiently(c.t, fmt.Sprintf("more payers of the large account than %d", before), func() bool {
			made = len(w.box.Customers())
			return made > before
		})
	}
	c.server().ledger(c.t, large, func(l *state.Ledger) {
		patiently(c.t, "the mandates of the large account", func() bool {
			funnel, err := l.Funnel(c.t.Context())
			c.any().must(err)
			n := 0
			for _, of := range funnel.Mandates {
				n += of
			}
			return n == *nodeLarge
		})
	})
	c.expectOnce(map[string]int{large: *nodeLarge})
}

// held returns how many records the ledger of an account holds.
func (c *cluster) held(name string) (n int) {
	c.t.Helper()
	c.server().ledger(c.t, name, func(l *state.Ledger) {
		var err error
		n, err = l.CountRecords(c.t.Context(), state.RecordFilter{})
		c.any().must(err)
	})
	return n
}

// expectTrouble fails unless the troubled accounts say what ails them, and nothing was made of it.
func (c *cluster) expectTrouble() {
	c.t.Helper()
	for _, name := range []string{hangs, breaks} {
		if n := len(c.accounts[name].box.Customers()); n > 0 {
			c.t.Errorf("%d customers were made of %s", n, name)
		}
		r := decode[statusReport](c.t, c.expect(exitDone, "status", "--account", name, "--output", "json"))
		if len(r.Conditions) == 0 && len(r.Attention) == 0 {
			c.t.Errorf("of %s nobody is told", name)
		}
		for _, cond := range r.Conditions {
			c.t.Logf("%s: %s", name, cond.Sentence)
		}
		c.t.Logf("%s: attention %v", name, r.Attention)
	}
}
