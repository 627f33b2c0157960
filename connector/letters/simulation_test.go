package letters_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	netmail "net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/connector/mail"
	"payersync/internal/longtest"
	"payersync/state"
)

var (
	simSeeds = longtest.Int("letter-seeds", 2, 8, "how many seeds TestNoSeedSendsALetterThatMustNotBeSent plays")
	simFrom  = flag.Uint64("letter-from", 1, "the first of them")
)

// simulation is a desk in a random world drawn from a seed. Payers sign, cancel and move; colleagues edit. A
// mail server accepts, refuses, defers and falls silent. A process dies at any commit and step. Ledgers are
// put back with and without their mark, journals are lost, mappings have mistakes, clocks change. A person
// approves, continues, and settles unclear letters.
//
// It judges every letter at the moment the mail server accepts it.
type simulation struct {
	*world
	seed    uint64
	drawn   *rand.Rand
	variant variant
	skew    time.Duration // of the clock to the true time
	wrong   bool          // the mapping takes the addresses of others
	version string        // of the mapping, as it is now
	dead    bool          // the process died: nothing it does has an effect
	dies    int           // commits and steps until it dies; negative for not
	old     *older        // the ledger as it was once
	trust   trust
	took    []taken
	truths  []truth
	again   map[string]int // how often a person said that a message may be sent once more
	story   []string
	faults  []string
	counts  map[string]int // what happened, and how often
}

// variant is a desk that is weaker than the one there is.
type variant string

const (
	sound     variant = ""
	blind     variant = "no look before a letter"
	forgetful variant = "the journal is put back with the ledger"
	stubborn  variant = "what is unclear is sent again"
)

// older is a ledger that can be put back, with what was true then.
type older struct {
	ledger   []byte
	journal  []byte
	took     int
	approved map[string]bool
	paused   bool
}

// trust is what a person has said, and what was lost for which no desk can answer.
type trust struct {
	approved map[string]bool // setups of which a person has read the first letters
	restored bool            // put back, and nobody said to go on
	reset    bool            // the clock was set forward, and nobody said to go on
	caughtUp time.Time       // until when by the clock it is earlier than it was
	paused   bool
	lost     map[string]bool // messages that neither the ledger nor the journal can know of
}

// taken is a letter that the mail server took.
type taken struct {
	message, to, link, name string
	at, clock               time.Time // the true time, and that of the clock
}

// truth is what the service had of a customer from a moment on.
type truth struct {
	from            time.Time
	no, mandate     string
	emails, link    string
	status          connector.MandateStatus
	customerIsThere bool
}

func newSimulation(t testing.TB, seed uint64, v variant) *simulation {
	s := &simulation{world: newWorld(t), seed: seed, drawn: rand.New(rand.NewPCG(seed, 7)), variant: v, dies: -1,
		again: map[string]int{}, counts: map[string]int{}}
	s.trust.lost, s.trust.approved = map[string]bool{}, map[string]bool{}
	s.commit = func(done bool) error { return s.passes(fmt.Sprintf("commit, done %v", done)) }
	s.arm()
	return s
}

// arm makes the desk of a new process that of the simulation.
func (s *simulation) arm() {
	s.dead, s.dies = false, -1
	s.desk.Settings.Post = (*wire)(s)
	s.desk.Settings.PerMinute, s.desk.Settings.PerDay = 60, 50
	s.desk.Step = func(at letters.Point) error { return s.passes(string(at)) }
	s.desk.Wait = func(_ context.Context, d time.Duration) error { s.pass(d); return nil }
	s.desk.Report = nil
	if s.variant == blind {
		s.desk.Reader = remembering{s}
	}
}

var errDied = errors.New("the process died")

// passes reports whether the process lives on at a point.
func (s *simulation) passes(at string) error {
	switch {
	case s.dead:
		return errDied
	case s.dies == 0:
		s.dead = true
		s.counts["crashes"]++
		s.tell("the process dies at %s", at)
		return errDied
	case s.dies > 0:
		s.dies--
	}
	return nil
}

func (s *simulation) tell(format string, args ...any) {
	s.story = append(s.story, fmt.Sprintf("%s %s", s.true().Format("01-02 15:04"), fmt.Sprintf(format, args...)))
}

func (s *simulation) fault(format string, args ...any) {
	s.tell("WRONG: "+format, args...)
	s.faults = append(s.faults, s.story[len(s.story)-1])
}

// true returns the true time, whatever the clock says.
func (s *simulation) true() time.Time { return s.clock().Add(-s.skew) }

// pass lets time go by.
func (s *simulation) pass(d time.Duration) { s.advance(d) }

// wire is the way to the mail server.
type wire simulation

// Send takes a letter, or does not, and says so, or does not.
func (p *wire) Send(_ context.Context, _, to string, message []byte) (string, error) {
	s := (*simulation)(p)
	if s.dead {
		return "", errDied
	}
	roll := s.drawn.IntN(100)
	switch {
	case roll < 3:
		return "", &mail.RefusedError{Stage: mail.AtRecipient, Answer: mail.Answer{Code: 550, Enhanced: "5.7.1", Text: "no"}}
	case roll < 8:
		return "", &mail.DeferredError{Stage: mail.AtRecipient,
			Answer: mail.Answer{Code: 451, Enhanced: "4.3.0", Text: "later"}}
	case roll < 11:
		return "", &mail.NotSentError{Stage: mail.AtConnection, Err: errors.New("cut")}
	case roll < 14:
		s.tell("the mail server falls silent before it took a letter")
		return "", &mail.UnclearError{Err: errors.New("silence")}
	}
	s.takes(to, message)
	switch {
	case roll < 20:
		s.tell("the mail server took it and falls silent")
		return "", &mail.UnclearError{Err: errors.New("silence")}
	case roll < 24:
		s.dead = true
		s.counts["crashes"]++
		s.tell("the process dies before it hears that it was taken")
		return "", errDied
	}
	return "250 taken", nil
}

// takes judges a letter that the mail server takes.
func (s *simulation) takes(to string, message []byte) {
	m, err := netmail.ReadMessage(strings.NewReader(string(message)))
	if err != nil {
		s.fault("a letter that cannot be read: %v", err)
		return
	}
	var text strings.Builder
	if _, err := fmt.Fprint(&text, readAll(m)); err != nil {
		return
	}
	words := strings.Split(strings.TrimSpace(text.String()), ", ")
	got := taken{message: m.Header.Get("Message-Id"), to: to, name: words[0], link: words[len(words)-1], at: s.true(),
		clock: s.clock()}
	s.tell("a letter to %s about %s, %s", got.to, got.link, m.Header.Get("Subject"))
	s.judge(got)
	s.took = append(s.took, got)
}

func readAll(m *netmail.Message) string {
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := m.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

// setup names the scope of an approval: the mapping, and the ledger's last restore.
func (s *simulation) setup() string {
	desk, err := s.ledger.LetterDesk(context.Background())
	if err != nil {
		return "" // the process died
	}
	return fmt.Sprint(s.wrong, desk.RestoredAt, desk.GoneOnAt)
}

const lookIsGood = 15 * time.Minute

func (s *simulation) judge(got taken) {
	if !s.trust.approved[s.setup()] {
		s.fault("nobody has read letters like it")
	}
	if s.trust.restored || s.trust.reset || s.trust.paused || s.clock().Before(s.trust.caughtUp) {
		s.fault("it left although letters wait for a person: put back %v, clock set %v, paused %v", s.trust.restored,
			s.trust.reset, s.trust.paused)
	}
	same, today := 0, 0
	for _, t := range s.took {
		if t.message == got.message {
			same++
		}
		if got.at.Sub(t.at) < 24*time.Hour {
			today++
		}
		// a clock that a person has said to go on by counts
		days := max(daysBetween(t.at, got.at), daysBetween(t.clock, got.clock))
		if t.to == got.to && t.message != got.message && days < 3 && !s.trust.lost[t.message] && s.again[t.message] == 0 {
			s.fault("the address had one %d days before", days)
		}
	}
	if same > s.again[got.message] && !s.trust.lost[got.message] {
		s.fault("it came %d times", same+1)
	}
	if today >= s.desk.Settings.PerDay {
		s.fault("it is the %dth of a day", today+1)
	}
	s.record()
	if !slices.ContainsFunc(s.truths, func(t truth) bool {
		return t.link == got.link && strings.Contains(t.emails, " "+got.to+" ") && t.status == connector.MandateCreated &&
			t.customerIsThere && s.until(t).After(got.at.Add(-lookIsGood))
	}) {
		s.fault("within %s the service had no open mandate with this link and the address %s", lookIsGood, got.to)
	}
}

func daysBetween(a, b time.Time) int {
	return int(b.Truncate(24*time.Hour).Sub(a.Truncate(24*time.Hour)) / (24 * time.Hour))
}

// until returns when a truth was over.
func (s *simulation) until(t truth) time.Time {
	for _, u := range s.truths {
		if u.no == t.no && u.from.After(t.from) {
			return u.from
		}
	}
	return s.true().Add(time.Second)
}

// record notes what the service has now.
func (s *simulation) record() {
	for _, c := range s.service.Customers() {
		now := truth{from: s.true(), no: c.ExternalData["customerNo"], customerIsThere: true}
		var raw struct {
			People []struct{ Email string } `json:"people"`
		}
		if json.Unmarshal(c.Raw, &raw) == nil {
			for _, person := range raw.People {
				now.emails += " " + strings.ToLower(person.Email) + " "
			}
		}
		if n := len(c.Mandates); n > 0 {
			m := c.Mandates[n-1]
			now.mandate, now.status, now.link = m.ID, m.Status, m.URL
		}
		last := -1
		for i, t := range s.truths {
			if t.no == now.no {
				last = i
			}
		}
		if last >= 0 {
			was := s.truths[last]
			was.from = now.from
			if was == now {
				continue
			}
		}
		s.truths = append(s.truths, now)
	}
}

// remembering is a reader that shows what the ledger knows.
type remembering struct{ *simulation }

func (r remembering) Read(ctx context.Context, billingID string, _ connector.Cause,
	_ string) (out *connector.RemoteCustomer, err error) {
	err = r.ledger.EachReadiness(ctx, "", func(f state.ReadinessFacts) error {
		if f.BillingID == billingID && f.Label != nil {
			out = &connector.RemoteCustomer{ID: billingID, Emails: []string{f.Label.Email}, ExternalData: f.Key.Pairs(),
				Mandate: &connector.Mandate{ID: f.Mandate.ID, Status: f.Mandate.Status}}
		}
		return nil
	})
	return out, err
}

func TestNoSeedSendsALetterThatMustNotBeSent(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	for seed := *simFrom; seed < *simFrom+uint64(simSeeds()); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newSimulation(t, seed, sound)
			s.play(60)
			counts["letters"] += len(s.took)
			for what, n := range s.counts {
				counts[what] += n
			}
			if testing.Verbose() && len(s.faults) == 0 {
				t.Log(strings.Join(s.story, "\n"))
			}
			if len(s.faults) > 0 {
				t.Errorf("seed %d: %s\n%s", seed, strings.Join(s.faults, "\n"), strings.Join(s.story, "\n"))
			}
		})
	}
	t.Logf("%d seeds: %v", simSeeds(), counts)
	if counts["letters"] < simSeeds() || counts["crashes"] == 0 {
		t.Errorf("too little happened: %v", counts)
	}
}

func TestTheSimulationCatchesWeakerDesks(t *testing.T) {
	longtest.Story(t, longtest.Computing)
	t.Parallel()
	const most = 300 // ids are random, so a seed does not tell the same story twice
	for _, v := range []variant{blind, forgetful, stubborn} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= most; seed++ {
				s := newSimulation(t, seed, v)
				s.play(60)
				if len(s.faults) > 0 {
					t.Logf("caught by seed %d: %s", seed, s.faults[0])
					return
				}
			}
			t.Errorf("%d seeds do not catch it", most)
		})
	}
}
