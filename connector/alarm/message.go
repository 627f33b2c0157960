package alarm

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/health"
	"payersync/state"
)

// Kind is the purpose of a message.
type Kind string

// The kinds of messages.
const (
	KindAlarms Kind = "alarms"
	KindTest   Kind = "test"
)

// Message holds the alarms sent to one way together. Its JSON is the body of an outgoing webhook, and its
// keys are public.
type Message struct {
	ID           string    `json:"id"`
	Kind         Kind      `json:"kind"`
	At           time.Time `json:"at"`
	Installation string    `json:"installation"`
	Begun        []Notice  `json:"begun"`
	Over         []Notice  `json:"over"`

	when    func(time.Time) string
	account string // that its command lines name; "" for none
	list    string // the command that lists the current alarms; "" for none
}

// Notice is a condition in a message.
type Notice struct {
	Code       health.Code      `json:"code"`
	Subject    string           `json:"subject"`
	Connection string           `json:"connection"`
	Urgent     bool             `json:"urgent"`
	Since      time.Time        `json:"since,omitzero"`
	OverAt     time.Time        `json:"over_at,omitzero"`
	Sentence   string           `json:"sentence"`
	Next       string           `json:"next,omitempty"`
	Commands   []string         `json:"commands,omitempty"`
	Records    []AffectedRecord `json:"records,omitempty"`
}

// AffectedRecord is a record affected by a condition.
type AffectedRecord struct {
	Connection string `json:"connection"`
	SourceID   string `json:"source_id"`
	Name       string `json:"name,omitempty"` // for ways with names
}

// compose writes a message to one way.
func (t *Notifier) compose(ctx context.Context, w Way, items []item) (Message, error) {
	m := Message{ID: rand.Text(), Kind: KindAlarms, At: t.Ledger.Now(), Installation: t.Installation, when: t.Time,
		account: t.Account, list: t.list()}
	var names map[state.RecordID]connector.Label
	if w.Names {
		var asked []state.RecordID
		for _, it := range items {
			if it.holds != nil {
				asked = append(asked, it.holds.Records...)
			}
		}
		var err error
		if names, err = t.Ledger.LabelsOf(ctx, asked); err != nil {
			return m, err
		}
	}
	for _, it := range items {
		if it.over {
			m.Over = append(m.Over, t.noticeFor(w, it, names))
		} else {
			m.Begun = append(m.Begun, t.noticeFor(w, it, names))
		}
	}
	return m, nil
}

// list returns the command that lists the current alarms; "" if nobody says how it is written.
func (t *Notifier) list() string {
	if t.Command == nil {
		return ""
	}
	return t.Command(connector.Step{Do: connector.DoListAlarms})
}

// noticeFor returns a condition in the form for a way.
func (t *Notifier) noticeFor(w Way, it item, names map[state.RecordID]connector.Label) Notice {
	clean := func(s string) string {
		return connector.NameAccount(connector.OneLine(t.Clean(s, w.Names)), t.Account)
	}
	a := it.alarm
	out := Notice{Code: health.Code(a.Code), Subject: clean(a.Subject), Connection: a.Connection, Urgent: a.Urgent,
		Since: a.Since, OverAt: a.OverAt, Sentence: clean(a.Text)}
	if c := it.holds; c != nil {
		out.Code, out.Subject, out.Connection, out.Urgent = c.Code, clean(c.Subject), c.Connection, c.Urgent
		out.Since, out.Sentence, out.Next = c.Since, clean(c.Sentence), clean(c.Next)
		out.Commands = append(out.Commands,
			connector.Map(c.Commands, func(command string) string { return clean(command) })...)
		for _, r := range c.Records {
			out.Records = append(out.Records, AffectedRecord{r.Connection, clean(r.SourceID), clean(names[r].Name)})
		}
	}
	if out.Since.IsZero() {
		out.Since = a.NoticedAt
	}
	return out
}

// Subject returns the subject of a message: the kinds and numbers of conditions, and the connections. It names no
// record and no payer.
func (m Message) Subject() string {
	lead := strings.TrimSpace("payersync " + connector.OneLine(m.Installation))
	switch {
	case m.Kind == KindTest:
		return lead + ": test message"
	case len(m.Begun) == 0:
		return lead + ": over: " + summary(m.Over)
	}
	return lead + ": " + summary(m.Begun)
}

// summary describes the news in a few words: the kinds, numbers, and places.
func summary(told []Notice) string {
	const most = 3
	var parts []string
	groups := grouped(told, func(a, b Notice) bool { return a.Code == b.Code && a.Connection == b.Connection })
	for _, g := range groups[:min(most, len(groups))] {
		part := g[0].Code.Title()
		if g[0].Connection != "" {
			part += ", " + connector.OneLine(g[0].Connection)
		}
		if len(g) > 1 {
			part += fmt.Sprintf(" (%d times)", len(g))
		}
		parts = append(parts, part)
	}
	if more := len(groups) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// grouped groups similar alarms, in the order of the first of each group.
func grouped(told []Notice, alike func(a, b Notice) bool) (groups [][]Notice) {
	for _, one := range told {
		i := slices.IndexFunc(groups, func(g []Notice) bool { return alike(g[0], one) })
		if i < 0 {
			groups = append(groups, []Notice{one})
			continue
		}
		groups[i] = append(groups[i], one)
	}
	return groups
}

// mostOfAKind is how many of one kind a mail lists; the rest is counted.
const mostOfAKind = 20

// Text returns a message for people, line by line and readable aloud.
func (m Message) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("This is %s, on %s.", strings.TrimSpace("payersync "+connector.OneLine(m.Installation)), m.when(m.At))
	if m.Kind == KindTest {
		line("\nThis is a test message. Alarms reach you. You need not do anything.")
		return b.String()
	}
	for _, part := range []struct {
		heading string
		told    []Notice
		over    bool
	}{{"New alarms", m.Begun, false}, {"Ended alarms", m.Over, true}} {
		if len(part.told) == 0 {
			continue
		}
		line("\n%s", part.heading)
		for _, g := range grouped(part.told,
			func(a, b Notice) bool { return a.Code == b.Code && a.Connection == b.Connection && a.Next == b.Next }) {
			m.group(line, g, part.over)
		}
	}
	line("\nYou get one message when an alarm begins, and one when it ends.")
	if m.list != "" {
		line("Current alarms: %s", m.list)
	}
	return connector.NameAccount(b.String(), m.account)
}

func (m Message) group(line func(string, ...any), g []Notice, over bool) {
	count := ""
	if len(g) > 1 {
		count = fmt.Sprintf(": %d times", len(g))
	}
	line("\n%s%s", g[0].Code.Title(), count)
	for _, one := range g[:min(mostOfAKind, len(g))] {
		line("- %s", one.Sentence)
		for _, r := range one.Records {
			if r.Name != "" {
				line("  Record %s is %s.", r.SourceID, r.Name)
			}
		}
		switch {
		case over:
			line("  It began on %s and ended on %s.", m.when(one.Since), m.when(one.OverAt))
		case !one.Since.IsZero():
			line("  Since %s.", m.when(one.Since))
		}
	}
	if more := len(g) - mostOfAKind; more > 0 {
		line("- %s", strings.TrimSuffix(fmt.Sprintf("and %d more alarms of this kind: %s", more, m.list), ": "))
	}
	if over {
		return
	}
	if g[0].Next != "" || len(g[0].Commands) > 0 {
		line("  What to do: %s", cmp.Or(g[0].Next, "run this command:"))
	}
	if len(g) == 1 {
		for _, command := range g[0].Commands {
			line("    %s", command)
		}
	}
}
