package health

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"payersync/connector"
	"payersync/state"
)

// The limits for unknown event types.
const (
	typesTold   = 20 // one condition each; the others are one together
	typeShown   = 60 // characters
	streakTells = 3  // this many unreadable deliveries in a row are no accident
)

// deliveries reports the deliveries not understood, as one condition, and each unknown type once for any number of
// deliveries.
func (l *look) deliveries(ctx context.Context) error {
	types, err := l.ledger.EventTypes(ctx)
	if err != nil {
		return err
	}
	unclear, others, told := state.EventType{}, state.EventType{}, 0
	for _, t := range types {
		if t.Type == "" || l.Knows(t.Type) {
			unclear.Quarantined += t.Quarantined
			unclear.QuarantinedAt = earlier(unclear.QuarantinedAt, t.QuarantinedAt)
			unclear.Last = later(unclear.Last, t.QuarantinedLast)
			continue
		}
		if told++; told <= typesTold {
			l.add(l.unknownType(t))
			continue
		}
		others.Count += t.Count
		others.First = earlier(others.First, t.First)
	}
	if told > typesTold {
		l.add(Condition{Code: EventTypeUnknown, Since: others.First, Count: others.Count,
			Sentence: fmt.Sprintf("%s of other unknown types arrived.", connector.Plural(others.Count, "delivery")),
			Next:     "So many different values may not be types. Check that billing.webhook.event_paths.type points to the type.", Steps: []connector.Step{{Do: connector.DoShapes}}})
	}
	if unclear.Quarantined == 0 {
		return nil
	}
	return l.unclear(ctx, unclear)
}

func (l *look) unknownType(t state.EventType) Condition {
	does := "payersync reads the customers named in them."
	next, steps := "If the type is correct, add it to billing.webhook.known_types. Then this alarm ends.",
		[]connector.Step{{Do: connector.DoListDeliveries}}
	if t.Quarantined > 0 {
		does = "payersync keeps them, and cannot use deliveries without a customer or mandate."
		next = "If the type does not concern customers or mandates, add it to billing.webhook.known_types, and replay them. Otherwise look at their form."
		steps = []connector.Step{{Do: connector.DoReplay}, {Do: connector.DoShapes}}
	}
	return Condition{Code: EventTypeUnknown, Subject: t.Type, Since: t.First, Count: t.Count,
		Sentence: fmt.Sprintf("%s of the unknown type %q arrived, the first on %s, the last on %s. %s",
			connector.Plural(t.Count, "delivery"), shownType(t.Type), l.Time(t.First), l.Time(t.Last), does),
		Next: next, Steps: steps}
}

// unclear reports deliveries without a known subject. It is urgent if no delivery is understood any more: webhooks
// arrive without effect.
func (l *look) unclear(ctx context.Context, t state.EventType) error {
	c := Condition{Code: EventsUnclear, Since: t.QuarantinedAt, Grown: t.Last, Count: t.Quarantined,
		Sentence: fmt.Sprintf("payersync could not read %s, and read no customer for them. The sweep finds the changes.",
			connector.Plural(t.Quarantined, "delivery")),
		Next:  "Look at their form and the place of their ids. Correct billing.webhook.event_paths or known_types, then replay them.",
		Steps: []connector.Step{{Do: connector.DoShapes}, {Do: connector.DoReplay}}}
	streak, since, err := l.ledger.NotUnderstoodSince(ctx,
		func(eventType string) bool { return eventType == "" || l.Knows(eventType) })
	if streak >= streakTells {
		c.Urgent = true
		c.Sentence = fmt.Sprintf("payersync has not been able to read any delivery since %s: %s are in quarantine. The sweep finds the changes.", l.Time(since), connector.Plural(t.Quarantined, "delivery"))
	}
	l.add(c)
	return err
}

// shownType is a type as it is shown: strangers have named it.
func shownType(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '�'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > typeShown {
		return string(runes[:typeShown]) + "…"
	}
	return text
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
