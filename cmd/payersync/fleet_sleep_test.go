package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/state"
	"payersync/state/statetest"
)

// sleep is a cluster with a pause of the first node in one stage of its run for acme.
type sleep struct {
	*cluster
	payers  map[string]int
	w       *world // acme's
	sleeper *process
	other   *process // nil before it is there
	up      chan struct{}
	asleep  chan struct{}
	since   time.Time
	fall    func() // asleep, once
}

// sleepStages are the stages of a run for a node's pause.
var sleepStages = []struct {
	name   string
	payers int
	before func(s *sleep)      // the nodes serve
	at     func(s *sleep) bool // whether a node that stands still does so in the stage; nil where before sees to it
	then   func(s *sleep)      // what else is to be seen meanwhile; nil for nothing
}{
	{name: "while it reads the books", payers: 1500, at: func(s *sleep) bool {
		return s.ask("SELECT EXISTS (SELECT FROM main.runs WHERE finished_at IS NULL) AND NOT EXISTS (SELECT FROM main.source_records)") == "true"
	}},
	{name: "while it plans", payers: 5000, at: func(s *sleep) bool {
		return s.ask("SELECT EXISTS (SELECT FROM main.plans WHERE hash = '')") == "true"
	}},
	{name: "between the commit of a frozen change and its request", payers: 100, before: func(s *sleep) {
		s.edit("acme", "account.yaml", "rate_per_second: 100000", "rate_per_second: 5")
	}, at: (*sleep).freezes},
	{name: "while a request is at the service", payers: 100, before: func(s *sleep) {
		s.catch(func(http.ResponseWriter, *http.Request) bool { s.fall(); return false })
	}},
	{name: "after the answer and before it is recorded", payers: 100, before: func(s *sleep) {
		s.catch(func(rw http.ResponseWriter, r *http.Request) bool {
			answer := httptest.NewRecorder()
			s.w.box.ServeHTTP(answer, r)
			s.fall()
			rw.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			rw.WriteHeader(answer.Code)
			_, _ = rw.Write(answer.Body.Bytes()) // the node may be gone
			return true
		})
	}},
	{name: "inside a transaction", payers: 600, before: func(s *sleep) {
		s.edit("acme", "account.yaml", "rate_per_second: 100000", "rate_per_second: 40")
	}, at: (*sleep).writes, then: (*sleep).othersMoveOn},
}

// A node stands still for longer than its run's lease, in each stage of a run, while another takes over: each payer is
// made once, with one mandate, the other's run comes to its end, and the one that wakes up says that it lost its own.
//
// covers F184, F199
func TestANodeThatSleepsInAnyStageOfARunDoesNothingTwice(t *testing.T) {
	t.Parallel()
	if !*nodeSleeps {
		t.Skip("it takes minutes: run with -node-sleeps")
	}
	for _, stage := range sleepStages {
		t.Run(stage.name, func(t *testing.T) {
			t.Parallel()
			s := newSleep(t, stage.payers)
			if stage.before != nil {
				stage.before(s)
			}
			s.apply()
			s.sleeper = s.serve(0)
			close(s.up)
			if stage.then != nil {
				s.awaitMandates(map[string]int{"beta": s.payers["beta"]})
				s.other = s.serve(1)
			}
			if stage.at != nil {
				s.fallIn(func() bool { return stage.at(s) })
			}
			<-s.asleep
			t.Logf("the node stood still when %d customers were made", len(s.w.box.Customers()))
			if s.other == nil {
				s.other = s.serve(1)
			}
			if stage.then != nil {
				stage.then(s)
			}
			s.wakes()
		})
	}
}

func newSleep(t *testing.T, payers int) *sleep {
	t.Helper()
	s := &sleep{payers: map[string]int{"acme": payers, "beta": 3}, up: make(chan struct{}), asleep: make(chan struct{})}
	s.cluster = newCluster(t, 2, s.payers)
	s.w = s.accounts["acme"]
	s.fall = sync.OnceFunc(func() {
		<-s.up
		s.stand()
		s.since = time.Now()
		close(s.asleep)
	})
	return s
}

// ask returns what a query gives in acme's ledger.
func (s *sleep) ask(query string) string {
	s.t.Helper()
	return s.askOf("acme", query)
}

func (s *sleep) askOf(account, query string) string {
	s.t.Helper()
	return statetest.Ask(s.t, s.read("database"), account, query)
}

var stands = regexp.MustCompile(`(?m)^State:\s+T`)

// stand lets the sleeper stand still, and returns when it does.
func (s *sleep) stand() {
	s.sleeper.signal(syscall.SIGSTOP)
	eventually(s.t, "the node to stand still", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.sleeper.cmd.Process.Pid))
		return err == nil && stands.Match(status)
	})
}

// fallIn lets the sleeper stand still again and again until it does so in a stage.
func (s *sleep) fallIn(stage func() bool) {
	s.t.Helper()
	for tries := 1; ; tries++ {
		s.stand()
		if stage() {
			s.t.Logf("hit after %d tries", tries)
			s.fall()
			return
		}
		s.sleeper.signal(syscall.SIGCONT)
		if len(s.w.box.Customers()) == s.payers["acme"] {
			s.t.Fatalf("the run was over before the node stood still in this stage, after %d tries", tries)
		}
		time.Sleep(3 * time.Millisecond)
	}
}

// catch answers the first create at acme's service with answer.
func (s *sleep) catch(answer func(http.ResponseWriter, *http.Request) bool) {
	var first sync.Once
	front := func(rw http.ResponseWriter, r *http.Request) (answered bool) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/customers") {
			first.Do(func() { answered = answer(rw, r) })
		}
		return answered
	}
	s.w.front.Store(&front)
}

// freezes reports whether a frozen create has not left: it has not arrived after a moment, either.
func (s *sleep) freezes() bool {
	if len(s.w.box.Customers()) < 10 {
		return false
	}
	frozen := strings.Fields(s.ask("SELECT coalesce(string_agg(source_id, ' '), '') FROM main.changes WHERE lane = 'customer' AND state = 'frozen'"))
	time.Sleep(200 * time.Millisecond)
	came := s.w.requests(isWrite)
	return slices.ContainsFunc(frozen, func(id string) bool {
		return !slices.ContainsFunc(came,
			func(r sandbox.Request) bool { return strings.Contains(string(r.Body), `"`+id+`"`) })
	})
}

// writes reports whether a stalled transaction keeps other writers of acme waiting.
func (s *sleep) writes() bool {
	if len(s.w.box.Customers()) < 20 {
		return false
	}
	const open = `SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND l.objid = current_setting('payersync.account')::oid AND a.state = 'idle in transaction' AND a.datname = current_database()`
	if s.ask(open) != "true" {
		return false
	}
	time.Sleep(300 * time.Millisecond)
	return s.ask(open+" AND a.state_change < clock_timestamp() - interval '250 ms'") == "true"
}

// othersMoveOn fails unless webhooks of another account are taken and reflected at once, and acme's soon.
func (s *sleep) othersMoveOn() {
	s.t.Helper()
	took := map[string]time.Duration{}
	for _, name := range []string{"beta", "acme"} {
		w := s.accounts[name]
		if got := s.deliver(1, s.token(name), w.delivery(event("evt-"+name, w.box.Customers()[0].ID))); got != http.StatusOK {
			s.t.Errorf("the webhook of %s was answered %d", name, got)
		}
		eventually(s.t, "the webhook of "+name+" to be reflected", func() bool {
			return s.askOf(name, "SELECT EXISTS (SELECT FROM main.inbox WHERE processed_at IS NOT NULL)") == "true"
		})
		took[name] = time.Since(s.since).Round(100 * time.Millisecond)
	}
	s.t.Logf("after the node stood still, a webhook of beta was reflected within %v, one of acme within %v", took["beta"],
		took["acme"])
	if took["beta"] > webhookWithin || took["acme"] > 15*time.Second {
		s.t.Errorf("they took %v, want %v for beta and 15s for acme", took, webhookWithin)
	}
}

// lost matches a node's messages about work taken over by another.
var lost = regexp.MustCompile("another run has taken this connection over|another may go on with the job|the connection to the ledgers' database was lost")

// wakes lets the sleeper go on once the other node has done all, and looks at what became of it.
func (s *sleep) wakes() {
	s.t.Helper()
	patiently(s.t, "the other node to go on", func() bool {
		return time.Since(s.since) > state.Lease+10*time.Second && len(s.w.box.Customers()) == s.payers["acme"]
	})
	s.t.Logf("the other node was done %v after the first stood still", time.Since(s.since).Round(time.Second))
	s.sleeper.signal(syscall.SIGCONT)
	eventually(s.t, "the node that slept to say that it lost its run",
		func() bool { return lost.MatchString(s.sleeper.errOut.String()) })
	for line := range strings.Lines(s.sleeper.errOut.String()) {
		if lost.MatchString(line) {
			s.t.Logf("it said: %s", strings.TrimSpace(line))
		}
	}
	patiently(s.t, "the mandates of acme", func() bool {
		linked := s.linked("acme")
		for _, status := range linked {
			if status == "" {
				return false
			}
		}
		return len(linked) == s.payers["acme"]
	})
	patiently(s.t, "a run of the other node that is complete", func() bool {
		return s.ask("SELECT outcome FROM main.runs ORDER BY run_id DESC LIMIT 1") == string(connector.RunComplete)
	})
	s.t.Logf("runs: %s", s.ask("SELECT string_agg(run_id || ' ' || coalesce(outcome, 'open') || ' created ' || created, ', ' ORDER BY run_id) FROM main.runs"))
	s.expectOnce(s.payers)
	for _, name := range s.names {
		s.expect(exitDone, "ledger", "verify", "--account", name)
	}
	for _, p := range []*process{s.sleeper, s.other} {
		p.signal(syscall.SIGTERM)
		p.wait()
	}
}
