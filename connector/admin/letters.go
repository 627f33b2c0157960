package admin

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/connector/syncer"
	"payersync/state"
)

// Letters provides the letters to payers and the actions on them. The desk decides the due letters and their obstacles.
type Letters struct {
	Desk *letters.Desk

	// Example writes a letter with invented data; nil for none.
	Example func(kind letters.Kind, language string) (ExampleLetter, error)

	looks snapshot[looked]

	mu    sync.Mutex
	shown []shownBatch // the newest last
}

// ExampleLetter is a sample letter to a payer.
type ExampleLetter struct{ Subject, Text, HTML string }

// lookWaits is how long people wait to see the result of their act.
const lookWaits = 5 * time.Second

// Latest returns the result of the last look. For many payers a look takes seconds, so it runs in the background;
// people approve by the hash of the result shown. It fails with ErrCounting during the first look.
func (l *Letters) Latest(ctx context.Context) (*letters.Plan, error) {
	found, err := l.looks.latest(ctx, lookWaits, l.look)
	if err != nil {
		return nil, err
	}
	return found.plan, nil
}

// looked is a look, with the place of each payer in it.
type looked struct {
	plan *letters.Plan
	at   map[state.RecordID]int
}

func (l *Letters) look(ctx context.Context) (*looked, error) {
	p, err := l.Desk.Plan(ctx)
	if err != nil {
		return nil, err
	}
	at := make(map[state.RecordID]int, len(p.Next))
	for i, x := range p.Next {
		at[x.RecordID] = i
	}
	return &looked{p, at}, nil
}

// NextOf returns the next letters of these payers from the last look; none for payers with nothing to sign. It fails
// with ErrCounting during the first look.
func (l *Letters) NextOf(ctx context.Context, ids ...state.RecordID) (map[state.RecordID]letters.Next, error) {
	if !l.On() || len(ids) == 0 {
		return nil, nil
	}
	patience := time.Duration(-1)
	if l.looks.kept() == nil {
		patience = 0 // for as long as a small look takes
	}
	found, err := l.looks.latest(ctx, patience, l.look)
	if err != nil {
		return nil, err
	}
	out := make(map[state.RecordID]letters.Next, len(ids))
	for _, id := range ids {
		if at, has := found.at[id]; has {
			out[id] = found.plan.Next[at]
		}
	}
	return out, nil
}

// Renew makes the next Latest look again after an action. The receiver may be nil.
func (l *Letters) Renew() {
	if l != nil {
		l.looks.renew()
	}
}

// Close ends a look at work, and lets no other begin. It may be asked of nil.
func (l *Letters) Close() {
	if l != nil {
		l.looks.close()
	}
}

// On reports whether payersync writes to payers at all. It may be asked of nil.
func (l *Letters) On() bool {
	return l != nil && l.Desk != nil && l.Desk.Settings.Sender == letters.SenderPayersync
}

// NamedLetter is a payer with the next letter, and the payer's display name.
type NamedLetter struct {
	letters.Next
	Label connector.Label
}

// Named returns letters with the labels of their payers.
func (l *Letters) Named(ctx context.Context, next []letters.Next) ([]NamedLetter, error) {
	ids := make([]state.RecordID, len(next))
	for i, x := range next {
		ids[i] = x.RecordID
	}
	labels, err := l.Desk.Ledger.LabelsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]NamedLetter, len(next))
	for i, x := range next {
		out[i] = NamedLetter{x, labels[x.RecordID]}
	}
	return out, nil
}

// mostExamples is how many letters are shown in full before they are approved.
const mostExamples = 3

// Examples returns the letters of a batch to show in full, of as many kinds as possible.
func Examples(batch []letters.Next) (out []letters.Next) {
	kinds := map[letters.Kind]bool{}
	for _, again := range []bool{false, true} {
		for _, x := range batch {
			if len(out) < mostExamples && kinds[x.Kind] == again && !slices.Contains(out, x) {
				kinds[x.Kind] = true
				out = append(out, x)
			}
		}
	}
	return out
}

// Text returns a letter as seen by its reader, but only the host of its link.
func (l *Letters) Text(ctx context.Context, x letters.Next) (string, error) {
	message, err := l.Desk.Example(ctx, x)
	if err != nil {
		return "", err
	}
	return letters.Readable(message), nil
}

// HTML returns a letter as mail programs show it, but for its link, as Text does.
func (l *Letters) HTML(ctx context.Context, x letters.Next) (string, error) {
	message, err := l.Desk.Example(ctx, x)
	if err != nil {
		return "", err
	}
	return letters.HTML(message)
}

// LetterCount is how many letters of a kind there are in a language.
type LetterCount struct {
	Kind     letters.Kind
	Language string
	Due      int // they leave by themselves
	Waits    int // for a person
}

// LetterKinds are the letters to payers, in sending order.
var LetterKinds = []letters.Kind{letters.Invitation, letters.Replaced, letters.Reminder, letters.LastCall}

// CountLetters counts the letters due now, by kind and language.
func CountLetters(p *letters.Plan) (out []LetterCount) {
	for _, x := range p.Next {
		if x.What != letters.Due && x.What != letters.Waits {
			continue
		}
		at := slices.IndexFunc(out, func(c LetterCount) bool { return c.Kind == x.Kind && c.Language == x.Language })
		if at < 0 {
			at, out = len(out), append(out, LetterCount{Kind: x.Kind, Language: x.Language})
		}
		if x.What == letters.Due {
			out[at].Due++
		} else {
			out[at].Waits++
		}
	}
	slices.SortFunc(out, func(a, b LetterCount) int {
		return cmp.Or(cmp.Compare(slices.Index(LetterKinds, a.Kind), slices.Index(LetterKinds, b.Kind)),
			cmp.Compare(a.Language, b.Language))
	})
	return out
}

// Pauses returns the pauses of all letters, or of a connection's, that last until somebody takes it back.
func (l *Letters) Pauses(ctx context.Context) ([]state.LetterStop, error) {
	stops, err := l.Desk.Ledger.LetterStops(ctx)
	today := l.Desk.Ledger.Now().Format(time.DateOnly)
	return slices.DeleteFunc(stops, func(s state.LetterStop) bool {
		return s.Scope != state.StopAll && s.Scope != state.StopConnection || !s.Holds(today)
	}), err
}

// Undecided returns the letters with an outcome for a person to state, newest first. These are the unclear ones, and
// letters refused by the mail server and blocking their payers.
func (l *Letters) Undecided(ctx context.Context, p *letters.Plan) (out []state.Letter, err error) {
	stuck := map[string]int{}
	for _, x := range p.Next {
		if x.Why == letters.WhyRefused || x.Why == letters.WhyGivenUp {
			stuck[x.MandateID] = x.Step
		}
	}
	for _, in := range []state.MessageState{state.MessageUnclear, state.MessageRefused, state.MessageDeferred} {
		if in != state.MessageUnclear && len(stuck) == 0 {
			break
		}
		if err := l.Desk.Ledger.EachLetter(ctx, in, func(t state.Letter) error {
			if step, is := stuck[t.MandateID]; in == state.MessageUnclear || is && step == t.Step {
				out = append(out, t)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b state.Letter) int { return cmp.Compare(b.ID, a.ID) })
	return out, nil
}

// Pause stops all letters, or those of a connection, until a day; a zero day is for ever.
func (l *Letters) Pause(ctx context.Context, connection string, until letters.Day, by syncer.Operator) error {
	return l.Desk.Pause(ctx, connection, until, letterEntry(by, "pause letters", cmp.Or(connection, "all")))
}

// Resume takes back the pauses of all letters, or of a connection, and the brakes. It returns how many it
// took back.
func (l *Letters) Resume(ctx context.Context, connection string, by syncer.Operator) (int, error) {
	return l.Desk.Resume(ctx, connection, letterEntry(by, "resume letters", cmp.Or(connection, "all")))
}

// Continue resumes letters after a restore, a lost journal or a clock change. It returns the number of letters added to
// the ledger, and fails with letters.ErrBusy.
func (l *Letters) Continue(ctx context.Context, by syncer.Operator) (int, error) {
	return l.Desk.Continue(ctx, letterEntry(by, "continue letters", "all"))
}

// DecideOnLetter stores a person's decision on a letter: state.WordArrived or state.WordAgain. It fails with
// state.ErrNotUnclear.
func (l *Letters) DecideOnLetter(ctx context.Context, letter int64, word string, by syncer.Operator) error {
	return l.Desk.DecideOnLetter(ctx, letter, word, letterEntry(by, "letter "+word, strconv.FormatInt(letter, 10)))
}

// Approve releases exactly the letters of the waiting batch. shown is the hash of the batch shown to the person. It
// fails with letters.ErrNothing or letters.ErrChanged.
func (l *Letters) Approve(ctx context.Context, shown string, by syncer.Operator) (int, error) {
	return l.Desk.Approve(ctx, shown, letterEntry(by, "", ""))
}

// ApproveAlone releases the letters to these payers, for any reason to wait. named is the payers' name in the audit
// log. It fails with letters.ErrNothing or letters.ErrChanged.
func (l *Letters) ApproveAlone(ctx context.Context, ids []state.RecordID, shown, named string, by syncer.Operator) (int,
	error) {
	return l.Desk.ApproveAlone(ctx, ids, shown, letterEntry(by, "approve letters", "to "+named))
}

func letterEntry(by syncer.Operator, action, subject string) state.Entry {
	return state.Entry{Actor: by.Name, Action: action, Subject: subject, Reason: by.Reason}
}

// shownBatch is a batch shown to a person: a hash for each letter, in order.
type shownBatch struct {
	hash    string
	letters []uint64
}

// mostShown is the number of batches to remember. Viewers of an older batch see the waiting letters without marks for
// new ones.
const mostShown = 8

func letterMark(x letters.Next) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(x.Setup + "\x00" + x.MandateID + "\x00" + strconv.Itoa(x.Step) + "\x00" + string(x.Kind) +
		"\x00" + x.Recipient))
	return h.Sum64()
}

func letterMarks(b letters.Batch) []uint64 {
	out := make([]uint64, len(b.Letters))
	for i, x := range b.Letters {
		out[i] = letterMark(x)
	}
	slices.Sort(out)
	return out
}

// Remember keeps a batch shown to a person in memory.
func (l *Letters) Remember(b letters.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.Hash == "" || slices.ContainsFunc(l.shown, func(s shownBatch) bool { return s.hash == b.Hash }) {
		return
	}
	if len(l.shown) == mostShown {
		l.shown = slices.Delete(l.shown, 0, 1)
	}
	l.shown = append(l.shown, shownBatch{b.Hash, letterMarks(b)})
}

// News returns the letters of a batch missing from the batch shown, and the number of letters gone since. known is
// false for a batch not remembered.
func (l *Letters) News(shown string, b letters.Batch) (fresh []letters.Next, gone int, known bool) {
	l.mu.Lock()
	at := slices.IndexFunc(l.shown, func(s shownBatch) bool { return s.hash == shown })
	var before []uint64
	if at >= 0 {
		before = l.shown[at].letters
	}
	l.mu.Unlock()
	if at < 0 {
		return nil, 0, false
	}
	for _, x := range b.Letters {
		if _, was := slices.BinarySearch(before, letterMark(x)); !was {
			fresh = append(fresh, x)
		}
	}
	return fresh, len(before) - (len(b.Letters) - len(fresh)), true
}
