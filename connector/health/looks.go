package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// profiles finds the connections whose scheduled runs stopped because the profile of their source was edited.
func (l *look) profiles(ctx context.Context) error {
	edited, err := l.ledger.EditedProfiles(ctx)
	for _, e := range edited {
		if !l.Has(e.Connection) {
			continue
		}
		c := Condition{Code: ProfileEdited, Subject: e.Connection, Connection: e.Connection, Since: e.Since, Urgent: true,
			Sentence: fmt.Sprintf("The profile of the accounting system of %s was edited, by a person or by an upgrade of payersync. Scheduled runs of %[1]s are stopped.", e.Connection),
			Next:     "Make a plan. It checks the profile, reads everything, and shows what would change.", Steps: e.Steps()}
		if e.Plan != 0 {
			c.Next = "Look at the plan. If the changes are right, approve it; else undo the edit."
		}
		l.add(c)
	}
	return err
}

func (l *look) plans(ctx context.Context) error {
	rows, err := l.ledger.WaitingPlans(ctx)
	if err != nil {
		return err
	}
	edited, err := l.ledger.EditedProfiles(ctx)
	for _, p := range rows {
		told := p.WaitsForDecision() || // creates and profiles tell of these
			slices.ContainsFunc(edited, func(e state.EditedProfile) bool { return e.Plan == p.ID })
		if !l.Has(p.Connection) || told && !p.Standstill() {
			continue
		}
		first, since, err := l.ledger.WaitingSince(ctx, p)
		if err != nil {
			return err
		}
		l.add(waiting(p, fmt.Sprintf("plan %d", first), since, l.Time))
	}
	return err
}

// waiting reports a plan waiting for a person. The subject is the plan at the start of the wait, because newer facts
// replace a plan at every run.
func waiting(p state.Plan, subject string, since time.Time, format func(time.Time) string) Condition {
	c := Condition{Code: Standstill, Subject: subject, Connection: p.Connection, Since: since, Urgent: true,
		Sentence: fmt.Sprintf("%s has been at a standstill since %s: %s", p.Connection, format(p.CreatedAt), p.Limits)}
	steps := syncer.StepsOfPlan(p.ID)
	switch {
	case p.Missing > 0:
		c.Next, c.Steps = "If these removals are intended, approve the plan:", steps[1:]
	case p.Lost > 0:
		c.Next, c.Steps = "Look at the records. Correct the mapping or the records; or if it is intended, approve the plan:",
			steps
	default:
		c.Code, c.Sentence, c.Steps = PlanWaits,
			fmt.Sprintf("Plan %d of %s waits for approval: %s", p.ID, p.Connection, p.Limits), steps
	}
	return c
}

// creates finds the connections with creates stopped until a person's decision.
func (l *look) creates(ctx context.Context) error {
	stops, err := l.ledger.CreateStops(ctx, "")
	for _, s := range stops {
		if l.Has(s.Connection) {
			l.add(Condition{Code: CreatesWait, Subject: strings.TrimSpace(s.Connection + " " + s.Other),
				Connection: s.Connection, Since: s.Since, Urgent: true, Count: s.Customers,
				Sentence: s.Connection + ": " + s.Sentence(), Next: s.Next(), Steps: s.Steps()})
		}
	}
	return err
}

func (l *look) rejected(ctx context.Context) error {
	rows, err := l.ledger.RejectedPlans(ctx)
	for _, p := range rows {
		l.add(Condition{Code: PlanRejected, Subject: fmt.Sprintf("plan %d", p.ID), Connection: p.Connection,
			Since:    p.RejectedAt,
			Sentence: p.Connection + ": " + syncer.Rejected(p), Steps: syncer.StepsOfPlan(p.ID)})
	}
	return err
}

// writebacks finds the failed writes of each connection's newest run. Its job reports an early end.
func (l *look) writebacks(ctx context.Context) error {
	runs, err := l.ledger.WritebackRuns(ctx)
	for _, r := range runs {
		if !l.Writes(r.Connection) {
			continue
		}
		if r.Waiting > 0 {
			l.add(Condition{Code: WritebackWaits, Subject: r.Connection, Connection: r.Connection, Since: r.WaitsAt,
				Count: r.Waiting,
				Sentence: fmt.Sprintf("Mandate statuses of %s of %s wait for approval before payersync writes them back.",
					connector.Plural(r.Waiting, "payer"), r.Connection),
				Next:  "Look at the plan of the write-back, and approve it.",
				Steps: []connector.Step{{Do: connector.DoPlanWriteback, Connection: r.Connection}}})
		}
		if r.Stuck > 0 {
			l.add(Condition{Code: WritebackStuck, Subject: r.Connection, Connection: r.Connection, Since: r.StuckAt,
				Count:    r.Stuck,
				Sentence: fmt.Sprintf("payersync does not write back mandate statuses of %s of %s. Someone changed the field, the system refused the value, the field changed too often, or the status is unknown.", connector.Plural(r.Stuck, "payer"), r.Connection),
				Next:     "Look at each record and its reason.",
				Steps:    []connector.Step{{Do: connector.DoListWritebacks, Connection: r.Connection}}})
		}
	}
	return err
}

func (l *look) mandates(ctx context.Context) error {
	rows, err := l.ledger.LostMandates(ctx)
	for _, m := range rows {
		if !l.Has(m.Connection) {
			continue
		}
		c := Condition{Code: MandateCancelled, Subject: m.MandateID, Connection: m.Connection, Since: m.At, Urgent: m.Moved,
			Records: []state.RecordID{m.RecordID},
			Sentence: fmt.Sprintf("The payer, the bank or a colleague cancelled mandate %s of record %s of %s.", m.MandateID,
				m.SourceID, m.Connection),
			Next: connector.ReasonMandateCancelled.Next()}
		if m.Status != connector.MandateCancelled {
			c.Code, c.Next = MandateUnknown, connector.ReasonStatusUnknown.Next()
			c.Sentence = fmt.Sprintf("The mandate %s of record %s of %s has the unknown status %q.", m.MandateID, m.SourceID,
				m.Connection, string(m.Status))
		}
		c.Steps = []connector.Step{{Do: connector.DoShowPayer, Of: m.SourceID}}
		l.add(c)
	}
	return err
}

// letters finds the obstacles to letters, and letters with an unknown outcome. The ledger has the result of the last
// look for letters.
func (l *look) letters(ctx context.Context) error {
	unclear, first := 0, time.Time{}
	if err := l.ledger.EachLetter(ctx, state.MessageUnclear, func(t state.Letter) error {
		if unclear++; first.IsZero() || t.SendingAt.Before(first) {
			first = t.SendingAt
		}
		return nil
	}); err != nil {
		return err
	}
	if l.Letters {
		if err := l.lettersHeld(ctx); err != nil {
			return err
		}
	}
	if unclear > 0 {
		l.add(Condition{Code: LettersUnclear, Since: first, Count: unclear,
			Sentence: fmt.Sprintf("payersync does not know whether %s arrived, and does not send them again by itself.",
				connector.Plural(unclear, "letter")),
			Next:  "Find out for each whether it arrived, and say so. Or send it again.",
			Steps: []connector.Step{{Do: connector.DoListUnclear}}})
	}
	return nil
}

func (l *look) lettersHeld(ctx context.Context) error {
	desk, err := l.ledger.LetterDesk(ctx)
	if err != nil {
		return err
	}
	if desk.Brake != "" {
		l.add(Condition{Code: LettersHeld, Subject: "hold", Since: desk.BrakeSince, Urgent: true,
			Sentence: "Letters to payers are on hold. " + desk.Brake,
			Next:     "The plan of letters shows what to do.", Steps: []connector.Step{{Do: connector.DoPlanLetters}}})
	}
	stops, err := l.ledger.LetterStops(ctx)
	if err != nil {
		return err
	}
	for _, s := range stops {
		if s.Why == state.StopBrake {
			l.add(Condition{Code: LettersHeld, Subject: fmt.Sprintf("stop %d", s.ID), Since: s.Since, Urgent: true,
				Sentence: "Letters to payers are on hold. " + s.Note,
				Next:     "Find the cause, then resume the letters.", Steps: []connector.Step{{Do: connector.DoResumeLetters}}})
		}
	}
	if desk.Waiting > 0 {
		l.add(Condition{Code: LettersWait, Since: desk.WaitsSince, Count: desk.Waiting,
			Sentence: fmt.Sprintf("%s to payers wait for a decision.", connector.Plural(desk.Waiting, "letter")),
			Next:     "The plan of letters shows the reason for each: approval, or a new signing link.",
			Steps:    []connector.Step{{Do: connector.DoPlanLetters}, {Do: connector.DoApproveLetters}}})
	}
	return nil
}

func (l *look) unanswered(ctx context.Context) error {
	n, first, err := l.ledger.Unanswered(ctx, l.now.Add(-unansweredAfter))
	if err != nil || n == 0 {
		return err
	}
	l.add(Condition{Code: RequestsUnanswered, Since: first, Count: n,
		Sentence: fmt.Sprintf("The outcome of %s to the billing service is unknown. The first was sent on %s.",
			connector.Plural(n, "request"), l.Time(first)),
		Next:  "The next runs check this by themselves. If it stays, look at the findings.",
		Steps: []connector.Step{{Do: connector.DoListFindings, Of: string(connector.ReasonOutcomeUnknown)}}})
	return nil
}

func (l *look) attention(ctx context.Context) error {
	rows, err := l.ledger.ReasonCounts(ctx)
	for _, r := range rows {
		if slices.Contains(toldApart, r.Reason) || r.Count == 0 {
			continue
		}
		l.add(Condition{Code: Attention, Subject: string(r.Reason), Since: r.Oldest, Grown: r.Newest, Count: r.Count,
			Sentence: fmt.Sprintf("%s: %s", connector.Plural(r.Count, "record"), r.Reason.Sentence()), Next: r.Reason.Next(),
			Steps: []connector.Step{{Do: connector.DoListFindings, Of: string(r.Reason)}}})
	}
	return err
}

// ways finds failed ways, so the other ways report them.
func (l *look) ways(ctx context.Context) error {
	rows, err := l.ledger.LastMessages(ctx)
	for _, m := range rows {
		late := l.now.Sub(m.MadeAt) > wayDownAfter
		if !slices.Contains(l.Ways, m.Way) || !m.SentAt.IsZero() || m.Problem == "" || !m.Refused && !late {
			continue
		}
		how := "has not answered"
		if m.Refused {
			how = "has refused messages"
		}
		l.add(Condition{Code: WayFailed, Subject: m.Way, Since: m.MadeAt, Urgent: true,
			Sentence: fmt.Sprintf("The alarm way %s %s since %s: %s.", m.Way, how, l.Time(m.MadeAt), m.Problem),
			Next:     "payersync keeps the alarms and sends them later. Correct the configuration or the receiving server, then test it:", Steps: []connector.Step{{Do: connector.DoTestWay, Of: m.Way}}})
	}
	return err
}
