package letters_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
)

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
		text = strings.Replace(text, "{name: trim(Name), email: lower(trim(Email))}",
			"name: trim(Name)\n      email: '\"other\" + lower(trim(Email))'", 1)
	}
	m, err := mapping.Load("mapping.yaml", []byte(text), s.books.info())
	if err != nil {
		s.t.Fatal(err)
	}
	s.version = m.Version()
	ctx := context.Background()
	for range 2 {
		if _, err := s.syncer.Run(ctx, syncer.Connection{Name: "acme", Source: s.books, Info: s.books.info(), Mapping: m},
			syncer.RunOptions{
				Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test",
				Approve: func(state.Plan) (bool, error) { return !s.wrong, nil },
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
			return s.desk.DecideOnLetter(context.Background(), l.ID, state.WordAgain, byAda)
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
	p, err := s.desk.Plan(ctx)
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
	s.old = &older{ledger: s.backup(), journal: journal, took: len(s.took), approved: maps.Clone(s.trust.approved),
		paused: s.trust.paused}
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
	_ = s.ledger.EachLetter(ctx, state.MessageUnclear,
		func(l state.Letter) error { unclear = append(unclear, l); return nil })
	if len(unclear) == 0 {
		return
	}
	l := unclear[s.drawn.IntN(len(unclear))]
	word := []string{state.WordArrived, state.WordAgain}[s.drawn.IntN(2)]
	if s.desk.DecideOnLetter(ctx, l.ID, word, byAda) == nil {
		s.tell("of step %d about %s a person says %s", l.Step, l.MandateID, word)
		if word == state.WordAgain {
			s.again["<"+l.MessageID+"@harbour.io>"]++
		}
	}
}
