package letters_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	netmail "net/mail"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/connector/mail"
	"payersync/connector/syncer"
	"payersync/internal/longtest"
	"payersync/mapping"
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
	s := &simulation{world: newWorld(t), seed: seed, drawn: rand.New(rand.NewPCG(seed, 7)), variant: v, dies: -1, again: map[string]int{}, counts: map[string]int{}}
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
		return "", &mail.DeferredError{Stage: mail.AtRecipient, Answer: mail.Answer{Code: 451, Enhanced: "4.3.0", Text: "later"}}
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
	got := taken{message: m.Header.Get("Message-Id"), to: to, name: words[0], link: words[len(words)-1], at: s.true(), clock: s.clock()}
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
		s.fault("it left although letters wait for a person: put back %v, clock set %v, paused %v", s.trust.restored, s.trust.reset, s.trust.paused)
	}
	same, today := 0, 0
	for _, t := range s.took {
		if t.message == got.message {
			same++
		}
		if got.at.Sub(t.at) < 24*time.Hour {
			today++
		}
		days := max(daysBetween(t.at, got.at), daysBetween(t.clock, got.clock)) // a clock that a person has said to go on by counts
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
		return t.link == got.link && strings.Contains(t.emails, " "+got.to+" ") && t.status == connector.MandateCreated && t.customerIsThere && s.until(t).After(got.at.Add(-lookIsGood))
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

func (r remembering) Look(ctx context.Context, billingID string, _ connector.Cause, _ string) (out *connector.RemoteCustomer, err error) {
	err = r.ledger.EachStanding(ctx, "", func(f state.Standing) error {
		if f.BillingID == billingID && f.Label != nil {
			out = &connector.RemoteCustomer{ID: billingID, Emails: []string{f.Label.Email}, ExternalData: f.Key.Pairs(), Mandate: &connector.Mandate{ID: f.Mandate.ID, Status: f.Mandate.Status}}
		}
		return nil
	})
	return out, err
}

// play plays so many steps.
func (s *simulation) play(steps int) {
	s.payersOf(3 + s.drawn.IntN(5))
	for range steps {
		s.record()
		s.next()
		s.record()
		if s.dead {
			s.revive()
		}
		if len(s.faults) > 0 {
			return
		}
	}
}

func (s *simulation) payersOf(n int) {
	for i := range n {
		s.books.put(fmt.Sprintf("c%03d", i), fmt.Sprintf("Payer %d", i), fmt.Sprintf("payer%d@bakery%d.io", i, i))
	}
	s.read()
}

func (s *simulation) revive() {
	_ = s.ledger.Close()
	s.commit = nil
	s.open()
	s.commit = func(done bool) error { return s.passes(fmt.Sprintf("commit, done %v", done)) }
	s.arm()
}

// read reads the books and the service, as far as that goes.
func (s *simulation) read() {
	text := s.mapping
	if s.wrong {
		text = strings.Replace(text, "{name: trim(Name), email: lower(trim(Email))}", "name: trim(Name)\n      email: '\"other\" + lower(trim(Email))'", 1)
	}
	m, err := mapping.Load("mapping.yaml", []byte(text), s.books.info())
	if err != nil {
		s.t.Fatal(err)
	}
	s.version = m.Version()
	ctx := context.Background()
	for range 2 {
		if _, err := s.syncer.Run(ctx, syncer.Connection{Name: "acme", Source: s.books, Info: s.books.info(), Mapping: m}, syncer.Options{
			Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test", Approve: func(state.Plan) (bool, error) { return !s.wrong, nil },
		}); err != nil {
			s.tell("the books were not read: %v", err)
		}
	}
	if _, err := s.syncer.Reconciler.Sweep(ctx); err != nil {
		s.tell("no sweep: %v", err)
	}
}

// run sends what is due.
func (s *simulation) run() {
	if s.drawn.IntN(4) == 0 {
		s.dies = s.drawn.IntN(12)
	}
	if s.variant == stubborn {
		_ = s.ledger.EachLetter(context.Background(), state.MessageUnclear, func(l state.Letter) error {
			return s.desk.Say(context.Background(), l.ID, state.WordAgain, byAda)
		})
	}
	if _, err := s.desk.Run(context.Background()); err != nil && !errors.Is(err, errDied) {
		s.tell("the run ended: %v", err)
	}
	s.dies = -1
}

// morning lets the time go on to nine o'clock of the next day.
func (s *simulation) morning() {
	now := s.clock()
	s.pass(now.Truncate(24*time.Hour).AddDate(0, 0, 1).Add(9 * time.Hour).Sub(now))
	s.read()
}

// one draws a customer of the service that has a mandate.
func (s *simulation) one() (id, mandate string, status connector.MandateStatus, ok bool) {
	customers := s.service.Customers()
	if len(customers) == 0 {
		return "", "", "", false
	}
	c := customers[s.drawn.IntN(len(customers))]
	if len(c.Mandates) == 0 {
		return "", "", "", false
	}
	m := c.Mandates[len(c.Mandates)-1]
	return c.ID, m.ID, m.Status, true
}

// next plays one step.
func (s *simulation) next() {
	ctx := context.Background()
	switch roll := s.drawn.IntN(100); {
	case roll < 34:
		s.pass(time.Duration(1+s.drawn.IntN(40)) * time.Minute)
		s.run()
	case roll < 56:
		s.morning()
		s.run()
	case roll < 68:
		s.approves()
	case roll < 72:
		if _, mandate, status, ok := s.one(); ok && status == connector.MandateCreated {
			s.counts["signatures"]++
			s.tell("%s is signed", mandate)
			_ = s.service.Sign(mandate)
		}
	case roll < 74:
		if _, mandate, status, ok := s.one(); ok && status == connector.MandateCreated {
			s.tell("%s is cancelled", mandate)
			_ = s.service.PayerCancel(mandate)
		}
	case roll < 76:
		if id, _, _, ok := s.one(); ok {
			s.tell("customer %s gets another mandate", id)
			_, _ = s.service.Migrate(id)
		}
	case roll < 79:
		s.colleague()
	case roll < 82:
		i := s.drawn.IntN(len(s.books.records))
		no := s.books.records[i].SourceID
		s.tell("the books have another address for %s", no)
		s.books.put(no, "Payer "+no, fmt.Sprintf("payer%d@bakery%s.io", s.drawn.IntN(1000), no))
	case roll < 84:
		s.tell("pause")
		if s.desk.Pause(ctx, "", letters.Day{}, byAda) == nil {
			s.trust.paused = true
		}
	case roll < 88:
		if _, err := s.desk.Resume(ctx, "", byAda); err == nil {
			s.tell("resume")
			s.trust.paused = false
		}
	case roll < 90:
		s.wrong = !s.wrong
		s.counts["mappings edited"]++
		s.tell("the mapping is wrong: %v", s.wrong)
		s.read()
	case roll < 93:
		s.backs()
	case roll < 95:
		s.restores()
	case roll < 96:
		s.counts["lost journals"]++
		s.tell("the journal is lost")
		_ = os.Remove(s.desk.Settings.Journal)
		s.forget(0)
	case roll < 97:
		s.sets()
	default:
		s.words(ctx)
	}
}

// colleague edits a customer in the billing service, perhaps while its letter is written.
func (s *simulation) colleague() {
	id, mandate, status, ok := s.one()
	if !ok {
		return
	}
	c, _ := s.service.Customer(id)
	var raw map[string]any
	if json.Unmarshal(c.Raw, &raw) != nil {
		return
	}
	if people, ok := raw["people"].([]any); ok && len(people) > 0 {
		if person, ok := people[0].(map[string]any); ok {
			person["email"] = fmt.Sprintf("new%d@bakery.io", s.drawn.IntN(1000))
		}
	}
	data, _ := json.Marshal(raw)
	s.tell("a colleague edits the address of %s, whose mandate %s is %s", id, mandate, status)
	_ = s.service.Edit(id, data)
}

// approves is a person who reads what waits: never while the mapping is wrong, or the ledger
// was put back to when it was.
func (s *simulation) approves() {
	ctx := context.Background()
	if sources, err := s.ledger.LetterSources(ctx); err != nil || s.wrong || sources["acme"].Mapping != s.version {
		return
	}
	if s.trust.restored || s.trust.reset || s.clock().Before(s.trust.caughtUp) {
		if _, err := s.desk.Continue(ctx, byAda); err != nil {
			s.tell("letters do not go on: %v", err)
			return
		}
		s.tell("letters go on")
		s.trust.restored, s.trust.reset, s.trust.caughtUp = false, false, time.Time{}
	}
	p, err := s.desk.Look(ctx)
	if err != nil {
		return
	}
	if slices.ContainsFunc(p.Holds, func(h letters.Hold) bool { return h.Person }) {
		if _, err := s.desk.Continue(ctx, byAda); err == nil {
			s.tell("letters go on")
			s.trust.restored, s.trust.reset, s.trust.caughtUp = false, false, time.Time{}
		}
		return
	}
	var alone []state.RecordID
	for _, x := range p.Next {
		if x.What == letters.Waits && s.drawn.IntN(2) == 0 {
			alone = append(alone, x.RecordID)
		}
	}
	if n, err := s.desk.Approve(ctx, p.Batch.Hash, byAda); err == nil {
		s.tell("%d letters are approved", n)
		s.trust.approved[s.setup()] = true
	} else if n, err := s.desk.ApproveAlone(ctx, alone, p.Alone(alone).Hash, byAda); err == nil {
		s.tell("%d letters are approved by themselves", n)
		s.trust.approved[s.setup()] = true
	}
}

// backs makes a backup.
func (s *simulation) backs() {
	journal, _ := os.ReadFile(s.desk.Settings.Journal) // none is as good
	s.old = &older{ledger: s.backup(), journal: journal, took: len(s.took), approved: maps.Clone(s.trust.approved), paused: s.trust.paused}
	s.tell("a backup is made")
}

// restores puts the last backup in the place of the ledger.
func (s *simulation) restores() {
	if s.old == nil {
		return
	}
	mark := s.drawn.IntN(2) == 0
	s.counts["restores"]++
	s.tell("the ledger is put back, with its mark: %v", mark)
	s.commit = nil
	s.putBack(s.old.ledger, mark)
	s.commit = func(done bool) error { return s.passes(fmt.Sprintf("commit, done %v", done)) }
	if s.variant == forgetful {
		_ = os.WriteFile(s.desk.Settings.Journal, s.old.journal, 0o600)
		s.tell("and the journal with it")
	}
	s.arm()
	s.trust.paused, s.trust.approved = s.old.paused, maps.Clone(s.old.approved)
	if len(s.took) > s.old.took {
		s.trust.restored = true
	}
	if _, err := os.Stat(s.desk.Settings.Journal); err != nil {
		s.forget(s.old.took)
	}
}

// forget marks the letters unknown to everybody: missing in a restored ledger, with a lost journal.
func (s *simulation) forget(from int) {
	if !s.trust.restored {
		return
	}
	for _, t := range s.took[min(from, len(s.took)):] {
		s.trust.lost[t.message] = true
	}
}

// sets sets the clock by a year, or right.
func (s *simulation) sets() {
	by := -s.skew
	if by == 0 {
		by = []time.Duration{365, -365, 3, -2}[s.drawn.IntN(4)] * 24 * time.Hour
	}
	s.counts["clocks set"]++
	s.tell("the clock is set by %s", by)
	s.skew += by
	s.advance(by)
	desk, err := s.ledger.LetterDesk(context.Background())
	if err != nil || desk.LookedAt.IsZero() { // before the first look there is no time to tell it by
		return
	}
	s.trust.reset = s.skew > 0
	if before := desk.LookedAt.Add(-5 * time.Minute); before.After(s.trust.caughtUp) { // a clock may be a little off
		s.trust.caughtUp = before
	}
}

// words is a person who finds out what became of an unclear letter.
func (s *simulation) words(ctx context.Context) {
	var unclear []state.Letter
	_ = s.ledger.EachLetter(ctx, state.MessageUnclear, func(l state.Letter) error { unclear = append(unclear, l); return nil })
	if len(unclear) == 0 {
		return
	}
	l := unclear[s.drawn.IntN(len(unclear))]
	word := []string{state.WordArrived, state.WordAgain}[s.drawn.IntN(2)]
	if s.desk.Say(ctx, l.ID, word, byAda) == nil {
		s.tell("of step %d about %s a person says %s", l.Step, l.MandateID, word)
		if word == state.WordAgain {
			s.again["<"+l.MessageID+"@harbour.io>"]++
		}
	}
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
