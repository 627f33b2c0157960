package letters

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/mail"
	"payersync/connector/outbox"
	"payersync/connector/readiness"
	"payersync/state"
)

// Next is a payer with its next letter, and the decision about it.
type Next struct {
	state.RecordID
	MandateID string
	Verdict
	Recipient string    // keyed hash of the address
	Language  string    // its language
	Setup     string    // hash of the scope of an approval of first letters
	LastAt    time.Time // of the last letter about this mandate; zero for none
	Sent      int       // letters about this mandate that arrived, or may have
	Days      int       // since the first letter or hand-over; 0 before it
}

// Hold keeps all letters from leaving, or those of a connection, until it is gone or a person
// says to go on.
type Hold struct {
	Code       HoldCode
	Connection string // "" for all
	Text       string
	Person     bool // only a person ends it: payersync letters continue
}

// HoldCode is the kind of a hold. It is a public interface: JSON output uses it.
type HoldCode string

// The holds.
const (
	HoldSender   HoldCode = "sender"   // payersync does not write to payers
	HoldTest     HoldCode = "test"     // a test installation without anybody to write to
	HoldRestored HoldCode = "restored" // the ledger was put back
	HoldJournal  HoldCode = "journal"  // the journal is not there, or is not in step with the ledger
	HoldClock    HoldCode = "clock"    // the clock was set, or nothing was looked for in a long time
	HoldUnclear  HoldCode = "unclear"  // of too many letters nobody knows whether they arrived
	HoldSweep    HoldCode = "sweep"    // the service was not read in a long time
	HoldSource   HoldCode = "source"   // the books were not read in a long time
	HoldMapping  HoldCode = "mapping"  // the mapping file has a mistake
	HoldLinks    HoldCode = "links"    // the signing links lead to a host that the configuration does not name
)

// Batch holds the letters that wait for a person together: the letters of one look.
type Batch struct {
	Hash    string   // its hash for approvals
	Letters []Next   // waiting for it
	Why     []Brake  // and why
	Setups  []string // with first letters among them
}

// Brake is why a batch waits.
type Brake struct {
	Why  Why
	Text string
}

// Plan is the result of a look: every payer with an unsigned mandate, and the action for the next letter.
type Plan struct {
	At    time.Time
	Next  []Next
	Holds []Hold
	Batch Batch

	today   map[string]Day        // by connection
	setups  map[string]string     // by connection
	moved   []state.LetterAddress // payers with another address than before
	met     []state.LetterAddress // payers without a stored address before
	sent    int                   // letters sent today
	renewed time.Time             // when old links were last fetched again
	changed bool                  // too many addresses are other ones than before
	words   []state.AddressWord   // ever made
	journal *journal
}

// Count returns how many payers there are with a verdict, for a reason or for any.
func (p *Plan) Count(what What, why Why) (n int) {
	for _, x := range p.Next {
		if x.What == what && (why == "" || x.Why == why) {
			n++
		}
	}
	return n
}

// SentToday returns how many letters left today.
func (p *Plan) SentToday() int { return p.sent }

// waiting returns the number of letters in need of a person: to approve them, fetch their links again, correct their
// addresses, or examine a mail server's refusal.
func (p *Plan) waiting() int {
	n := p.Count(Waits, "")
	for _, why := range []Why{WhyOldLink, WhyNoAddress, WhyRefused, WhyGivenUp} {
		n += p.Count(Stopped, why)
	}
	return n
}

// Alone returns the waiting letters to these payers, for any reason to wait, as a separate batch.
func (p *Plan) Alone(records []state.RecordID) (b Batch) {
	b.Letters = append(b.Letters,
		connector.Filter(p.Next, func(x Next) bool { return x.What == Waits && slices.Contains(records, x.RecordID) })...)
	b.Hash = hashOf(b.Letters)
	return b
}

// holds reports whether nothing leaves to payers of a connection.
func (p *Plan) holds(connection string) bool {
	return slices.ContainsFunc(p.Holds, func(h Hold) bool { return h.Connection == "" || h.Connection == connection })
}

// Plan determines which letters to send, to hold and to skip, and changes nothing.
func (d *Desk) Plan(ctx context.Context) (*Plan, error) {
	now := d.Ledger.Now()
	p := &Plan{At: now, today: map[string]Day{}, setups: map[string]string{}}
	b, err := d.books(ctx, now, p)
	if err != nil {
		return nil, fmt.Errorf("look for letters: %w", err)
	}
	p.Next = make([]Next, 0, len(b.payers))
	for i, f := range b.payers {
		b.payers[i] = nil // its facts are no longer needed
		v := d.Settings.due(f, d.today(p, f.Connection))
		_, days := d.Settings.step(f, d.today(p, f.Connection))
		p.Next = append(p.Next, Next{Days: days, RecordID: f.RecordID, MandateID: f.MandateID, Verdict: v,
			Recipient: f.Recipient, Language: f.Language, Setup: p.setups[f.Connection], LastAt: b.last[f.MandateID],
			Sent: b.sent[f.MandateID]})
	}
	oneADay(p, Due, Waits)
	d.approved(p, b)
	oneADay(p, Due) // for approved ones, too
	d.batch(p, b)
	if err := d.holdLinks(ctx, p); err != nil {
		return nil, fmt.Errorf("look for letters: %w", err)
	}
	return p, nil
}

func (d *Desk) today(p *Plan, connection string) Day {
	day, known := p.today[connection]
	if !known {
		day = DayOf(p.At.In(d.Settings.zone(connection)))
		p.today[connection] = day
	}
	return day
}

// oneADay keeps all but one of the letters to an address from this day, of those with these
// verdicts.
func oneADay(p *Plan, among ...What) {
	taken := map[string]bool{}
	for i := range p.Next {
		x := &p.Next[i]
		if !slices.Contains(among, x.What) {
			continue
		}
		if taken[x.Recipient] && x.What == Due {
			x.What, x.Why, x.On = Later, WhyAddress, x.On.Plus(leastDistance)
		}
		taken[x.Recipient] = true
	}
}

// approved releases letters approved individually, and holds letters of a setup not approved before today.
func (d *Desk) approved(p *Plan, b *books) {
	for i := range p.Next {
		x := &p.Next[i]
		if x.What != Due && !(x.What == Waits && slices.Contains(waitsAlone, x.Why)) {
			continue
		}
		at, known := b.approvals.Letters[state.ApprovedLetter{Setup: x.Setup, MandateID: x.MandateID, Step: x.Step,
			Recipient: x.Recipient}]
		if known && !at.After(p.At) {
			x.What, x.Why = Due, ""
			b.letGo[x.MandateID] = true
			continue
		}
		if x.What == Waits {
			continue
		}
		first, known := b.approvals.Setups[x.Setup]
		if !known || DayOf(first.In(d.Settings.zone(x.Connection))).Since(p.today[x.Connection]) >= 0 {
			x.What, x.Why = Waits, WhyApproval
		}
	}
}

// The brakes of a batch.
const (
	fewChanged    = 5
	shareChanged  = 50 // one of so many
	fewLetters    = 20
	timesAsMany   = 2
	changedWithin = 24 * time.Hour
)

// batch applies the brakes for all letters of a look, and makes the batch to approve.
func (d *Desk) batch(p *Plan, b *books) {
	var brakes []Brake
	known, moved := len(b.addresses), make(map[state.RecordID]bool, len(p.moved))
	for _, a := range p.moved {
		moved[a.RecordID] = true
	}
	changed := len(moved)
	for id, a := range b.addresses {
		if a.ChangedAt.After(p.At.Add(-changedWithin)) && !moved[id] {
			changed++
		}
	}
	if p.changed = changed > max(fewChanged, known/shareChanged); p.changed {
		brakes = append(brakes, Brake{WhyChanged,
			fmt.Sprintf("%d of %d addresses changed since the letters before.", changed, known)})
	}
	due := 0
	for _, x := range p.Next {
		if x.What == Due && !b.letGo[x.MandateID] {
			due++
		}
	}
	if most := max(fewLetters, timesAsMany*b.lastDay); due > 0 && due+b.todays > most {
		brakes = append(brakes, Brake{WhyMany,
			fmt.Sprintf("It would be %d letters today; on the last day with letters there were %d.", due+b.todays, b.lastDay)})
	}
	setups, waiting := map[string]bool{}, 0
	for i := range p.Next {
		x := &p.Next[i]
		if x.What == Due && len(brakes) > 0 && !b.letGo[x.MandateID] {
			x.What, x.Why = Waits, brakes[0].Why
		}
		if x.together() {
			waiting++
		}
		if x.What == Waits && x.Why == WhyApproval {
			setups[x.Setup] = true
		}
	}
	if waiting == 0 {
		return
	}
	p.Batch.Letters = make([]Next, 0, waiting)
	for i := range p.Next {
		if p.Next[i].together() {
			p.Batch.Letters = append(p.Batch.Letters, p.Next[i])
		}
	}
	for setup := range setups {
		p.Batch.Setups = append(p.Batch.Setups, setup)
	}
	slices.Sort(p.Batch.Setups)
	if len(setups) > 0 {
		brakes = append(brakes, Brake{WhyApproval,
			"They are the first with these templates, this sender, this mapping, this connection or this ledger."})
	}
	p.Batch.Why, p.Batch.Hash = brakes, hashOf(p.Batch.Letters)
}

// together reports whether the letter waits for a person together with others.
func (x *Next) together() bool { return x.What == Waits && !slices.Contains(waitsAlone, x.Why) }

// hashOf returns the hash for the approval of letters: its sender has seen exactly these.
func hashOf(letters []Next) string {
	sorted := make([]*Next, len(letters))
	for i := range letters {
		sorted[i] = &letters[i]
	}
	slices.SortFunc(sorted, func(a, b *Next) int {
		return cmp.Or(strings.Compare(a.Setup, b.Setup), strings.Compare(a.MandateID, b.MandateID),
			cmp.Compare(a.Step, b.Step))
	})
	batch := outbox.Batch{}
	for _, x := range sorted {
		batch.Add(x.Setup, x.MandateID, strconv.Itoa(x.Step), string(x.Kind), x.Recipient)
	}
	return batch.Hash()
}

// books are the facts of a look.
type books struct {
	payers    []*facts
	approvals state.LetterApprovals
	addresses map[state.RecordID]state.LetterAddress
	desk      state.LetterDesk
	letGo     map[string]bool // mandates with an individually approved letter
	last      map[string]time.Time
	sent      map[string]int
	todays    int // letters sent today
	lastDay   int // letters on the last earlier day with any
	unclear   int // unclear letters of the last days
}

// books reads the facts.
func (d *Desk) books(ctx context.Context, now time.Time, p *Plan) (*books, error) {
	b := &books{letGo: map[string]bool{}, last: map[string]time.Time{}, sent: map[string]int{}}
	var err error
	if b.desk, err = d.Ledger.LetterDesk(ctx); err != nil {
		return nil, err
	}
	p.renewed = b.desk.RenewedAt
	if b.approvals, err = d.Ledger.LetterApprovals(ctx); err != nil {
		return nil, err
	}
	if b.addresses, err = d.Ledger.LetterAddresses(ctx); err != nil {
		return nil, err
	}
	sources, err := d.Ledger.LetterSources(ctx)
	if err != nil {
		return nil, err
	}
	for name, s := range sources {
		p.setups[name] = d.setup(name, s, b.desk)
	}
	h, err := d.history(ctx, p)
	if err != nil {
		return nil, err
	}
	b.count(h, now)
	p.sent = h.today
	if err := d.payers(ctx, now, p, b, h); err != nil {
		return nil, err
	}
	return b, d.findHolds(ctx, p, b, h, sources)
}

// setup returns the hash of the scope of an approval of first letters.
func (d *Desk) setup(connection string, s state.LetterSources, desk state.LetterDesk) string {
	templates := ""
	if d.Settings.Templates != nil {
		templates = d.Settings.Templates.Version()
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{
		templates, d.Settings.From, d.Settings.ReplyTo, fmt.Sprint(d.Settings.Test), d.Settings.TestTo, connection, s.Source,
		s.Mapping, desk.RestoredAt.String(), desk.GoneOnAt.String(),
	}, "\x00")))
	return hex.EncodeToString(sum[:])[:32]
}

// count counts the letters sent today, and on the last earlier day with any.
func (b *books) count(h *history, now time.Time) {
	days := map[Day]int{}
	today := DayOf(now)
	for _, l := range h.sent {
		days[DayOf(l.SendingAt)]++
		if l.State == state.MessageUnclear && l.SendingAt.After(now.Add(-unclearWithin)) {
			b.unclear++
		}
		if l.SendingAt.After(b.last[l.MandateID]) {
			b.last[l.MandateID] = l.SendingAt
		}
		if l.Reached() {
			b.sent[l.MandateID]++
		}
	}
	b.todays = days[today]
	delete(days, today)
	last := Day{}
	for day, n := range days {
		if today.Since(day) > 0 && (last == (Day{}) || day.Since(last) > 0) {
			last, b.lastDay = day, n
		}
	}
}

// payers gathers the facts about each payer with an unsigned mandate.
func (d *Desk) payers(ctx context.Context, now time.Time, p *Plan, b *books, h *history) error {
	stops, err := d.stops(ctx)
	if err != nil {
		return err
	}
	sharing, live := map[string]int{}, map[string]int{}
	err = d.Ledger.EachReadiness(ctx, "", func(s state.ReadinessFacts) error {
		address, language := "", ""
		if s.Label != nil {
			address, language = strings.TrimSpace(s.Label.Email), s.Label.Language
		}
		recipient := ""
		if mail.CheckAddress(address) == nil {
			recipient = d.Ledger.RecipientHash(address)
		}
		if recipient != "" && readiness.IsPayer(s) {
			sharing[recipient]++
		}
		if recipient != "" && (readiness.HoldsLink(s.Mandate) || lives(s.Mandate.Status)) {
			live[recipient]++
		}
		if readiness.Of(s, now).Class != readiness.Awaiting {
			return nil
		}
		f := &facts{
			RecordID: s.RecordID, MandateID: s.Mandate.ID, Recipient: recipient, Address: address, Can: readiness.CanBeInvited(s),
			LetBe:    s.LetBe,
			Language: d.language(language, d.Settings.Language[s.Connection]), LinkAt: s.Mandate.LinkAt,
			Stops: stops.of(s.RecordID, recipient), Steps: h.letters[s.Mandate.ID],
		}
		d.addJournal(f, h)
		f.First, f.Last, f.LastThere = h.first[f.MandateID], h.last[f.RecordID], h.lastThere[recipient]
		f.Before = slices.ContainsFunc(h.mandates[f.RecordID], func(m string) bool { return m != f.MandateID })
		b.payers = append(b.payers, f)
		now := state.LetterAddress{RecordID: f.RecordID, Recipient: recipient}
		switch known, was := b.addresses[f.RecordID]; {
		case recipient == "":
		case !was:
			p.met = append(p.met, now)
		case known.Recipient != recipient:
			p.moved = append(p.moved, now)
		}
		return nil
	})
	for _, f := range b.payers {
		f.Sharing, f.Also = sharing[f.Recipient], live[f.Recipient] > 1
	}
	return err
}

// lives reports whether a mandate was signed and not cancelled since.
func lives(s connector.MandateStatus) bool {
	return s.Underway() || s == connector.MandateActive
}

// addJournal adds letters about the payer's mandate that only the journal knows.
func (d *Desk) addJournal(f *facts, h *history) {
	if len(h.told) == 0 {
		return
	}
	for step := range MostSteps {
		t, known := h.told[d.Ledger.LetterID(f.MandateID, step)]
		if !known || f.Steps[step] != nil && f.Steps[step].Reached() {
			continue
		}
		if f.Steps == nil {
			f.Steps = map[int]*state.Letter{}
		}
		f.Steps[step] = &state.Letter{MandateID: f.MandateID, Step: step, RecordID: f.RecordID, Recipient: t.Recipient,
			State: state.MessageUnclear, SendingAt: t.At}
		h.reached(f.MandateID, f.RecordID, DayOf(t.At.In(d.Settings.zone(f.Connection))))
	}
}

// stopIndex finds the stops of a payer.
type stopIndex struct {
	all         []state.LetterStop
	connections map[string][]state.LetterStop
	payers      map[state.RecordID][]state.LetterStop
	addresses   map[string][]state.LetterStop
}

func (d *Desk) stops(ctx context.Context) (x stopIndex, err error) {
	x = stopIndex{connections: map[string][]state.LetterStop{}, payers: map[state.RecordID][]state.LetterStop{},
		addresses: map[string][]state.LetterStop{}}
	stops, err := d.Ledger.LetterStops(ctx)
	for _, s := range stops {
		switch s.Scope {
		case state.StopAll:
			x.all = append(x.all, s)
		case state.StopConnection:
			x.connections[s.Connection] = append(x.connections[s.Connection], s)
		case state.StopPayer:
			x.payers[s.RecordID] = append(x.payers[s.RecordID], s)
		case state.StopAddress:
			x.addresses[s.Recipient] = append(x.addresses[s.Recipient], s)
		}
	}
	return x, err
}

func (x stopIndex) of(id state.RecordID, recipient string) []state.LetterStop {
	if len(x.all)+len(x.connections)+len(x.payers)+len(x.addresses) == 0 {
		return nil
	}
	return slices.Concat(x.payers[id], x.addresses[recipient], x.connections[id.Connection], x.all)
}
