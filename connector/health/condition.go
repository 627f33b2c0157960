// Package health finds the problems of an installation, since when, and the next step. It computes them from the
// ledger and the expectations of the configuration, sends no requests, and stores nothing. Status and alarms show its
// result, and readiness a part safe for strangers, so they always agree.
//
//	ledger ──────────────┐
//	                     ├─▶ Look ─▶ conditions ─▶ status · /readyz · alarms
//	what is expected ────┘
//
// A condition is identified by its code and its subject. Package alarm decides its recipients and times; the callers
// decide its display.
package health

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/connector/worker"
	"payersync/state"
)

// Condition is a present problem.
type Condition struct {
	Code       Code             `json:"code"`
	Subject    string           `json:"subject"`           // its subject; with the code it identifies the condition
	Connection string           `json:"connection"`        // "" where it is of none, or of all
	Since      time.Time        `json:"since,omitzero"`    // zero if unknown
	Urgent     bool             `json:"urgent"`            // else it is a warning
	Sentence   string           `json:"sentence"`          // the problem, without a payer's name
	Next       string           `json:"next"`              // the next step
	Steps      []connector.Step `json:"-"`                 // for that, or to show more
	Commands   []string         `json:"commands"`          // the steps, as Expected renders them
	Detail     string           `json:"detail,omitempty"`  // more, for who is at the machine; it may quote a record
	Records    []state.RecordID `json:"-"`                 // its records; none if they are too many
	Count      int              `json:"count,omitempty"`   // the number of records, if it counts them
	Grown      time.Time        `json:"grown_at,omitzero"` // when it last grew; zero if it cannot grow
}

// Text returns the problem and the next step, in one line.
func (c Condition) Text() string { return strings.TrimSpace(c.Sentence + " " + c.Next) }

// Expected is the state expected by the configuration.
type Expected struct {
	Jobs     []worker.Job                // the jobs of serve
	From     time.Time                   // the start of this process's jobs; zero if it runs none
	Has      func(string) bool           // whether a connection is configured; nil for every one
	ReliesOn func(string) bool           // whether a consent is needed for anything; nil for every one
	Writes   func(string) bool           // whether a connection writes back; nil for every one
	TwoWay   func(string) bool           // whether a connection is to find out if it links only; nil for every one
	Webhooks bool                        // webhooks are to come
	Knows    func(string) bool           // whether a type of events is known; nil for every one
	Letters  bool                        // payersync writes to payers
	Ways     []string                    // the ways of alarms
	Time     func(time.Time) string      // how a time is written; nil for UTC
	Now      func() time.Time            // nil for the ledger's clock
	Command  func(connector.Step) string // how a step is written, "" for one of the pages alone; nil for not at all
}

// The limits for conditions reported only if they last.
const (
	silentSweeps    = 2              // one sweep may overtake a webhook
	unansweredAfter = 24 * time.Hour // a request can arrive no more by then, and a look was due
	restartable     = 3 * time.Hour  // how long an unfinished run is not urgent: the next one continues it
	wayDownAfter    = 15 * time.Minute
	rotates         = 10 * time.Minute   // the time a person may need to subscribe to webhooks
	putBackShown    = 7 * 24 * time.Hour // until a day after a restore, our values are corrected
)

// look is one look at the ledger.
type look struct {
	Expected
	ledger *state.Ledger
	now    time.Time
	found  []Condition
}

// looks are the functions to find conditions, each with its codes.
var looks = []struct {
	codes []Code
	at    func(*look, context.Context) error
}{
	{[]Code{PutBack}, (*look).putBack},
	{[]Code{WayFailed}, (*look).ways},
	{[]Code{SourceDisconnected, SourceParked}, (*look).sources},
	{[]Code{ConsentBroken, ConsentLapsing}, (*look).consents},
	{[]Code{WebhooksSilent}, (*look).silence},
	{[]Code{SubscriptionChanged}, (*look).subscription},
	{[]Code{RotationUnfinished}, (*look).rotation},
	{[]Code{UpdatesHeld}, (*look).updates},
	{[]Code{EventsUnclear, EventTypeUnknown}, (*look).deliveries},
	{[]Code{TwoWay}, (*look).twoWay},
	{[]Code{RunFailed, RunIncomplete}, (*look).runs},
	{[]Code{JobFailed, JobOverdue}, (*look).jobs},
	{[]Code{ConfigWrong, RestartNeeded}, (*look).serving},
	{[]Code{MappingWrong}, (*look).mappings},
	{[]Code{ProfileEdited}, (*look).profiles},
	{[]Code{Standstill, PlanWaits}, (*look).plans},
	{[]Code{CreatesWait}, (*look).creates},
	{[]Code{PlanRejected}, (*look).rejected},
	{[]Code{WritebackWaits, WritebackStuck}, (*look).writebacks},
	{[]Code{MandateCancelled, MandateUnknown}, (*look).mandates},
	{[]Code{LettersHeld, LettersWait, LettersUnclear}, (*look).letters},
	{[]Code{RequestsUnanswered}, (*look).unanswered},
	{[]Code{Attention}, (*look).attention},
}

// Present returns the present conditions, of these codes or of all: urgent ones first, and then in the order of
// Codes. All displays keep this order. An unwritable ledger is known only to the process with the failed write.
func Present(ctx context.Context, ledger *state.Ledger, e Expected, codes ...Code) ([]Condition, error) {
	l := &look{Expected: e, ledger: ledger, found: []Condition{}}
	setDefault(&l.Has, func(string) bool { return true })
	setDefault(&l.ReliesOn, func(string) bool { return true })
	setDefault(&l.Knows, func(string) bool { return true })
	setDefault(&l.Writes, func(string) bool { return true })
	setDefault(&l.TwoWay, func(string) bool { return true })
	setDefault(&l.Time, func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 MST") })
	if l.Now == nil {
		l.Now = ledger.Now
	}
	l.now = l.Now()
	for _, way := range looks {
		if len(codes) > 0 && !slices.ContainsFunc(way.codes, func(c Code) bool { return slices.Contains(codes, c) }) {
			continue
		}
		if err := way.at(l, ctx); err != nil {
			return nil, fmt.Errorf("check the state of the installation: %w", err)
		}
	}
	found := slices.DeleteFunc(l.found,
		func(c Condition) bool { return len(codes) > 0 && !slices.Contains(codes, c.Code) })
	slices.SortStableFunc(found, func(a, b Condition) int {
		if a.Urgent != b.Urgent {
			return map[bool]int{true: -1, false: 1}[a.Urgent]
		}
		return cmp.Compare(slices.Index(Codes, a.Code), slices.Index(Codes, b.Code))
	})
	return found, nil
}

func setDefault[F func(string) bool | func(time.Time) string](f *F, to F) {
	if *f == nil {
		*f = to
	}
}

func (l *look) add(c Condition) {
	c.Commands = []string{}
	if l.Command != nil {
		for _, s := range c.Steps {
			if command := l.Command(s); command != "" {
				c.Commands = append(c.Commands, command)
			}
		}
	}
	l.found = append(l.found, c)
}

func (l *look) putBack(ctx context.Context) error {
	at, err := l.ledger.RestoredAt(ctx)
	if err != nil || at.IsZero() || l.now.Sub(at) > putBackShown {
		return err
	}
	l.add(Condition{Code: PutBack, Since: at, Urgent: true,
		Sentence: fmt.Sprintf("An older copy of the ledger was restored on %s.", l.Time(at)),
		Next:     "Run a sweep: it finds the requests sent since that copy was made.",
		Steps:    []connector.Step{{Do: connector.DoSweep}}})
	return nil
}

// updates reports the last update format if it lost values. The condition ends after another format, or the same one,
// has been verified.
func (l *look) updates(ctx context.Context) error {
	p, err := l.ledger.LastRoundTrip(ctx)
	doubts := p.Disproved()
	if err != nil || len(doubts) == 0 {
		return err
	}
	lost := state.Paths(doubts)
	l.add(Condition{Code: UpdatesHeld, Since: doubts[len(doubts)-1].At, Urgent: true,
		Sentence: fmt.Sprintf("Updates are on hold: after an update, customers did not show the expected %s.",
			syncer.JoinPaths(lost)),
		Next: syncer.WayOutOfDoubt(lost), Steps: syncer.StepsOutOfDoubt()})
	return nil
}

// twoWay reports connections with two systems writing the same records, as found by a plan. It ends once the
// configuration contains a person's decision.
func (l *look) twoWay(ctx context.Context) error {
	rows, err := l.ledger.LinkOnly(ctx)
	for _, t := range rows {
		if t.Found.IsZero() || !l.Has(t.Connection) || !l.TwoWay(t.Connection) {
			continue
		}
		l.add(Condition{Code: TwoWay, Subject: t.Connection, Connection: t.Connection, Since: t.Since, Urgent: true,
			Sentence: fmt.Sprintf("The billing service itself reads the accounting system of %s: %s. payersync links customers, but creates and changes none.",
				t.Connection, syncer.Evidence(t)),
			Next:  syncer.WayOutOfTwoWay,
			Steps: []connector.Step{{Do: connector.DoListFindings, Of: string(connector.ReasonTwoWay)}}})
	}
	return err
}

func (l *look) sources(ctx context.Context) error {
	rows, err := l.ledger.Sources(ctx)
	for _, s := range rows {
		switch {
		case !l.Has(s.Connection):
		case s.State == state.SourceParked && s.ParkedUntil.After(l.now):
			l.add(Condition{Code: SourceParked, Subject: s.Connection, Connection: s.Connection,
				Sentence: fmt.Sprintf("The accounting system of %s has reached its request limit. payersync asks again on %s.",
					s.Connection, l.Time(s.ParkedUntil))})
		case s.State == state.SourceDisconnected:
			l.add(Condition{Code: SourceDisconnected, Subject: s.Connection, Connection: s.Connection, Urgent: true,
				Sentence: fmt.Sprintf("The accounting system of %s refuses access to payersync.", s.Connection),
				Next:     "The check shows the reason and the next step.", Steps: []connector.Step{{Do: connector.DoCheck}}})
		}
	}
	return err
}

func (l *look) consents(ctx context.Context) error {
	rows, err := l.ledger.Consents(ctx)
	for _, c := range rows {
		if found, bad := Consent(c, l.now); bad && l.ReliesOn(c.Connection) {
			l.add(found)
		}
	}
	return err
}

// Consent returns the problem of a consent; false for none.
func Consent(c state.ConsentRow, now time.Time) (Condition, bool) {
	again := []connector.Step{{Do: connector.DoConnect, Connection: c.Connection}}
	switch {
	case c.Broken != "":
		return Condition{Code: ConsentBroken, Subject: c.Connection, Connection: c.Connection, Urgent: true,
			Sentence: fmt.Sprintf("The consent for %s no longer works: %s.", c.Connection, c.Broken), Next: "Give it again.",
			Steps: again}, true
	case !c.ReconnectBy.IsZero() && now.Sub(c.RefreshedAt) > c.ReconnectBy.Sub(c.RefreshedAt)/2:
		return Condition{Code: ConsentLapsing, Subject: c.Connection, Connection: c.Connection, Urgent: true,
			Since: c.RefreshedAt.Add(c.ReconnectBy.Sub(c.RefreshedAt) / 2),
			Sentence: fmt.Sprintf("The consent for %s was last renewed on %s. Unused, it expires on %s.", c.Connection,
				c.RefreshedAt.Format(time.DateOnly), c.ReconnectBy.Format(time.DateOnly)),
			Next:  "It has not been used for a long time. Start serve, or give the consent again.",
			Steps: append([]connector.Step{{Do: connector.DoServe}}, again...)}, true
	}
	return Condition{}, false
}

func (l *look) silence(ctx context.Context) error {
	if !l.Webhooks {
		return nil
	}
	s, err := l.ledger.Silence(ctx)
	if c, silent := Silence(s); silent && err == nil {
		l.add(c)
	}
	return err
}

// Silence reports a probable stop of webhooks (fault F33); false for none.
func Silence(s state.Silence) (Condition, bool) {
	since, _ := time.Parse(time.RFC3339, s.Since) // the zero time for never
	last := "No delivery has ever arrived"
	if s.Since != "" {
		last = "No delivery has arrived since " + s.Since
	}
	return Condition{Code: WebhooksSilent, Since: since, Urgent: true,
		Sentence: fmt.Sprintf("%s, while %d sweeps found %s of mandates.", last, s.Sweeps,
			connector.Plural(s.Changes, "change")),
		Next:  "Look at the list of deliveries, or subscribe again.",
		Steps: []connector.Step{{Do: connector.DoListDeliveries}, {Do: connector.DoSubscribe}}}, s.Sweeps >= silentSweeps
}

func (l *look) subscription(ctx context.Context) error {
	f, err := l.ledger.Subscription(ctx)
	c, changed := Subscription(f, l.Time)
	if err != nil || !changed {
		return err
	}
	rows, err := l.ledger.ReasonCounts(ctx)
	if slices.ContainsFunc(rows,
		func(r state.ReasonCount) bool { return r.Reason == connector.ReasonSubscriptionChanged && r.Count > 0 }) {
		l.add(c)
	}
	return err
}

// Subscription returns the problem of the webhook subscription; false for none, or for what a person has said
// is known.
func Subscription(f state.SubscriptionFacts, format func(time.Time) string) (Condition, bool) {
	found := ""
	if !f.Since.IsZero() {
		found = " Found on " + format(f.Since) + "."
	}
	return Condition{Code: SubscriptionChanged, Since: f.Since, Sentence: f.Detail + found,
			Next: "Find out who changed it, and subscribe again.", Steps: []connector.Step{{Do: connector.DoSubscribe}}},
		f.Problem != "" && !f.Closed()
}

// rotation reports an interrupted change of the webhook secret. No delivery is lost meanwhile; those without a matching
// secret are requested again and again.
func (l *look) rotation(ctx context.Context) error {
	r, err := l.ledger.OpenRotation(ctx)
	if err == nil && r.ID == 0 {
		return l.secretDoubted(ctx)
	}
	if err != nil || l.now.Sub(r.BegunAt) < rotates {
		return err
	}
	l.add(Condition{Code: RotationUnfinished, Since: r.BegunAt, Urgent: true,
		Sentence: fmt.Sprintf("On %s, %s began to subscribe to webhooks and did not finish. The billing service may sign with a secret that payersync does not have, or send no deliveries.", l.Time(r.BegunAt), r.BegunBy),
		Next:     "Subscribe again. Until then payersync asks the service to repeat deliveries with an unknown signature.",
		Steps:    []connector.Step{{Do: connector.DoSubscribe}}})
	return nil
}

// secretDoubted reports a restored ledger possibly without the webhook secret.
func (l *look) secretDoubted(ctx context.Context) error {
	restored, err := l.ledger.SecretDoubted(ctx)
	if err != nil || restored.IsZero() {
		return err
	}
	l.add(Condition{Code: RotationUnfinished, Since: restored, Urgent: true,
		Sentence: fmt.Sprintf("On %s the ledger was restored or moved. The billing service may sign deliveries with a newer secret, which payersync does not have.", l.Time(restored)),
		Next:     "Subscribe again to get a new secret. Until then payersync asks the service to repeat deliveries with an unknown signature.",
		Steps:    []connector.Step{{Do: connector.DoSubscribe}}})
	return nil
}

// serving finds parts of the configuration that serve could not apply.
func (l *look) serving(ctx context.Context) error {
	s, err := l.ledger.Serving(ctx)
	if s.Problem != "" {
		l.add(Condition{Code: ConfigWrong, Since: s.Since, Detail: s.Problem,
			Sentence: fmt.Sprintf("serve has not been able to use its configuration since %s. The previous one stays in force.",
				l.Time(s.Since)),
			Next:  "Correct the file: the status shows the mistake, and serve then reads it by itself.",
			Steps: []connector.Step{{Do: connector.DoStatus}}})
	}
	if len(s.Restart) > 0 {
		l.add(Condition{Code: RestartNeeded,
			Sentence: fmt.Sprintf("Restart needed: %s.", strings.Join(s.Restart, ", ")),
			Next:     "Until the restart, the values from the last start of serve are in force."})
	}
	return err
}

func (l *look) mappings(ctx context.Context) error {
	rows, err := l.ledger.MappingProblems(ctx)
	for _, m := range rows {
		l.add(Condition{Code: MappingWrong, Subject: m.Connection, Connection: m.Connection, Since: m.Since,
			Sentence: fmt.Sprintf("The mapping of %s has had a mistake since %s. The previous version stays in force.",
				m.Connection, l.Time(m.Since)), Steps: []connector.Step{{Do: connector.DoCheckMapping, Connection: m.Connection}},
			Detail: m.Problem})
	}
	return err
}
