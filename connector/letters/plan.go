package letters

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/mail"
	"payersync/connector/outbox"
	"payersync/connector/standing"
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
	b.Letters = append(b.Letters, connector.Filter(p.Next, func(x Next) bool { return x.What == Waits && slices.Contains(records, x.RecordID) })...)
	b.Hash = hashOf(b.Letters)
	return b
}

// holds reports whether nothing leaves to payers of a connection.
func (p *Plan) holds(connection string) bool {
	return slices.ContainsFunc(p.Holds, func(h Hold) bool { return h.Connection == "" || h.Connection == connection })
}

// Look determines which letters to send, to hold and to skip, and changes nothing.
func (d *Desk) Look(ctx context.Context) (*Plan, error) {
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
		p.Next = append(p.Next, Next{Days: days, RecordID: f.RecordID, MandateID: f.MandateID, Verdict: v, Recipient: f.Recipient, Language: f.Language, Setup: p.setups[f.Connection], LastAt: b.last[f.MandateID], Sent: b.sent[f.MandateID]})
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
		if x.What != Due && !(x.What == Waits && slices.Contains(held, x.Why)) {
			continue
		}
		at, known := b.approvals.Letters[state.ApprovedLetter{Setup: x.Setup, MandateID: x.MandateID, Step: x.Step, Recipient: x.Recipient}]
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
		brakes = append(brakes, Brake{WhyChanged, fmt.Sprintf("%d of %d addresses changed since the letters before.", changed, known)})
	}
	due := 0
	for _, x := range p.Next {
		if x.What == Due && !b.letGo[x.MandateID] {
			due++
		}
	}
	if most := max(fewLetters, timesAsMany*b.lastDay); due > 0 && due+b.todays > most {
		brakes = append(brakes, Brake{WhyMany, fmt.Sprintf("It would be %d letters today; on the last day with letters there were %d.", due+b.todays, b.lastDay)})
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
		brakes = append(brakes, Brake{WhyApproval, "They are the first with these templates, this sender, this mapping, this connection or this ledger."})
	}
	p.Batch.Why, p.Batch.Hash = brakes, hashOf(p.Batch.Letters)
}

// together reports whether the letter waits for a person together with others.
func (x *Next) together() bool { return x.What == Waits && !slices.Contains(held, x.Why) }

// hashOf returns the hash for the approval of letters: its sender has seen exactly these.
func hashOf(letters []Next) string {
	sorted := make([]*Next, len(letters))
	for i := range letters {
		sorted[i] = &letters[i]
	}
	slices.SortFunc(sorted, func(a, b *Next) int {
		return cmp.Or(strings.Compare(a.Setup, b.Setup), strings.Compare(a.MandateID, b.MandateID), cmp.Compare(a.Step, b.Step))
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
		templates, d.Settings.From, d.Settings.ReplyTo, fmt.Sprint(d.Settings.Test), d.Settings.TestTo, connection, s.Source, s.Mapping, desk.RestoredAt.String(), desk.GoneOnAt.String(),
	}, "\x00")))
	return hex.EncodeToString(sum[:])[:32]
}

// history holds the earlier letters, ours and others'.
type history struct {
	letters   map[string]map[int]*state.Letter // by mandate and step
	first     map[string]Day                   // by mandate
	last      map[state.RecordID]Day           // by payer
	lastThere map[string]Day                   // by recipient
	mandates  map[state.RecordID][]string      // with letters sent
	told      map[string]state.ToldLetter      // by message, known only from the journal
	toldAll   []state.ToldLetter
	sent      []*state.Letter
	today     int // sent today
}

// reached notes a day on which a letter reached a payer, or may have.
func (h *history) reached(mandate string, id state.RecordID, on Day) {
	if first, known := h.first[mandate]; !known || on.Since(first) < 0 {
		h.first[mandate] = on
	}
	if last, known := h.last[id]; !known || on.Since(last) > 0 {
		h.last[id] = on
	}
	if !slices.Contains(h.mandates[id], mandate) {
		h.mandates[id] = append(h.mandates[id], mandate)
	}
}

func (h *history) there(recipient string, on Day) {
	if last, known := h.lastThere[recipient]; !known || on.Since(last) > 0 {
		h.lastThere[recipient] = on
	}
}

func (d *Desk) history(ctx context.Context, p *Plan) (*history, error) {
	h := &history{letters: map[string]map[int]*state.Letter{}, first: map[string]Day{}, last: map[state.RecordID]Day{}, lastThere: map[string]Day{}, mandates: map[state.RecordID][]string{}, told: map[string]state.ToldLetter{}}
	err := d.Ledger.EachLetter(ctx, "", func(l state.Letter) error {
		if h.letters[l.MandateID] == nil {
			h.letters[l.MandateID] = map[int]*state.Letter{}
		}
		h.letters[l.MandateID][l.Step] = &l
		if l.Attempts > 0 {
			h.sent = append(h.sent, &l)
			if zone := d.Settings.zone(l.Connection); DayOf(l.SendingAt.In(zone)) == DayOf(p.At.In(zone)) {
				h.today++
			}
		}
		if l.Reached() {
			on := DayOf(l.SendingAt.In(d.Settings.zone(l.Connection)))
			h.reached(l.MandateID, l.RecordID, on)
			h.there(l.Recipient, on)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	handed, err := d.Ledger.HandOvers(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range handed {
		on, err := ParseDay(o.On)
		if err != nil {
			return nil, err
		}
		h.reached(o.MandateID, o.RecordID, on)
	}
	told, err := d.Ledger.ToldLetters(ctx)
	if err != nil {
		return nil, err
	}
	h.toldAll = told
	for _, t := range told {
		h.told[t.MessageID] = t
		h.there(t.Recipient, DayOf(t.At))
	}
	return h, nil
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
	err = d.Ledger.EachStanding(ctx, "", func(s state.Standing) error {
		address, language := "", ""
		if s.Label != nil {
			address, language = strings.TrimSpace(s.Label.Email), s.Label.Language
		}
		recipient := ""
		if mail.CheckAddress(address) == nil {
			recipient = d.Ledger.RecipientHash(address)
		}
		if recipient != "" && standing.IsPayer(s) {
			sharing[recipient]++
		}
		if recipient != "" && (standing.HoldsLink(s.Mandate) || lives(s.Mandate.Status)) {
			live[recipient]++
		}
		if standing.Of(s, now).Class != standing.Awaiting {
			return nil
		}
		f := &facts{
			RecordID: s.RecordID, MandateID: s.Mandate.ID, Recipient: recipient, Address: address, Can: standing.CanBeInvited(s), LetBe: s.LetBe,
			Language: d.language(language, d.Settings.Language[s.Connection]), LinkAt: s.Mandate.LinkAt, Stops: stops.of(s.RecordID, recipient), Steps: h.letters[s.Mandate.ID],
		}
		d.told(f, h)
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

// told adds letters about the payer's mandate that only the journal knows.
func (d *Desk) told(f *facts, h *history) {
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
		f.Steps[step] = &state.Letter{MandateID: f.MandateID, Step: step, RecordID: f.RecordID, Recipient: t.Recipient, State: state.MessageUnclear, SendingAt: t.At}
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
	x = stopIndex{connections: map[string][]state.LetterStop{}, payers: map[state.RecordID][]state.LetterStop{}, addresses: map[string][]state.LetterStop{}}
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

// When something is too long ago, or too much.
const (
	staleAfter    = 26 * time.Hour
	clockForward  = 24 * time.Hour
	clockBack     = 5 * time.Minute
	unclearWithin = 72 * time.Hour
	journalHolds  = 500 * 24 * time.Hour // an older line decides nothing, and its letter may be kept no longer
)

// findHolds finds the holds of all letters, or of a connection's.
func (d *Desk) findHolds(ctx context.Context, p *Plan, b *books, h *history, sources map[string]state.LetterSources) error {
	add := func(code HoldCode, connection string, person bool, format string, args ...any) {
		p.Holds = append(p.Holds, Hold{Code: code, Connection: connection, Text: fmt.Sprintf(format, args...), Person: person})
	}
	s := &d.Settings
	switch {
	case s.Sender != SenderPayersync:
		add(HoldSender, "", false, "payersync does not write to payers: letters.sender says %s.", cmp.Or(string(s.Sender), string(SenderNobody)))
	case s.Test && s.TestTo == "":
		add(HoldTest, "", false, "The billing service is a sandbox, or on this machine, so that no payer is written to, and letters.test_to names nobody else.")
	}
	if !b.desk.RestoredAt.Equal(b.desk.GoneOn) && !b.desk.RestoredAt.IsZero() {
		add(HoldRestored, "", true, "The ledger was put back; what was sent since that copy was made is not in it.")
	}
	if err := d.checkJournal(ctx, p, b, h); err != nil {
		return err
	}
	switch ahead := p.At.Sub(b.desk.LookedAt); {
	case !clockSet(p.At, b.desk.LookedAt):
	case ahead < 0:
		add(HoldClock, "", true, "By the clock it is earlier than when letters were last looked for.")
	default:
		add(HoldClock, "", true, "payersync has not looked for letters for %d hours, or the clock was set.", int(ahead.Hours()))
	}
	if b.unclear >= outbox.Letters.Unclear {
		add(HoldUnclear, "", false, "Of %d letters of the last days nobody knows whether they arrived.", b.unclear)
	}
	swept, err := d.Ledger.LastPass(ctx)
	if err != nil {
		return err
	}
	if p.At.Sub(swept) > staleAfter || swept.After(p.At.Add(clockBack)) {
		add(HoldSweep, "", false, "The billing service's list was not read in %s.", staleAfter)
	}
	for name, of := range sources {
		switch {
		case of.Problem != "":
			add(HoldMapping, name, false, "The mapping of %s has a mistake.", name)
		case of.State == "disconnected", p.At.Sub(of.ReadAt) > staleAfter, of.ReadAt.After(p.At.Add(clockBack)):
			add(HoldSource, name, false, "The records of %s were not read completely in %s.", name, staleAfter)
		}
	}
	slices.SortStableFunc(p.Holds, func(a, b Hold) int { return strings.Compare(a.Connection, b.Connection) })
	return nil
}

// checkJournal compares the journal with the ledger.
func (d *Desk) checkJournal(ctx context.Context, p *Plan, b *books, h *history) error {
	hold := func(format string, args ...any) {
		p.Holds = append(p.Holds, Hold{Code: HoldJournal, Text: fmt.Sprintf(format, args...), Person: true})
	}
	j, err := readJournal(d.Settings.place(), b.desk.Ledger)
	var other *otherJournalError
	unshared := d.findUnshared(b.desk, h, j, err, p.At)
	switch {
	case errors.Is(err, errNoJournal) && b.desk.Journal == "" && len(h.sent) == 0:
		return nil // there was never one
	case unshared != nil:
		p.Holds = append(p.Holds, Hold{Code: HoldJournal, Text: "Letters do not start here: " + unshared.Error() + "."})
		return nil
	case errors.Is(err, errNoJournal):
		hold("The journal of letters is not there: %s.", d.Settings.Journal)
		return nil
	case errors.As(err, &other):
		hold("The journal of letters cannot be used: %v.", err)
		return nil
	case err != nil:
		return err
	}
	p.journal = j
	if p.words, err = d.Ledger.AddressWords(ctx); err != nil {
		return err
	}
	more := 0
	for _, t := range h.unknownIn(j) {
		if t.At.After(p.At.Add(-journalHolds)) {
			more++
		}
	}
	shown, err := d.showsWord(b.desk)
	if err != nil {
		return err
	}
	switch {
	case more > 0:
		hold("The journal tells of %s of which the ledger does not know: it was put back.", connector.Plural(more, "letter"))
	case len(lacking(j.words, p.words)) > 0:
		hold("The journal tells of recipients who want no letters, or do not exist, of which the ledger does not know: it was put back.")
	case h.lacksIn(j, p.At), j.id != b.desk.Journal && b.desk.Journal != "":
		hold("The journal of letters is not the one that was written: it lacks what the ledger knows.")
	case !shown:
		hold("The folder of the journal %s does not show what node %s wrote there at %s: the database was put back, or this folder is a copy of the one that the nodes share.", d.Settings.Journal, b.desk.FolderNode, b.desk.FolderAt.Format(time.RFC3339))
	}
	return nil
}

// lacksIn reports whether a journal lacks a letter noted in the ledger as sent.
func (h *history) lacksIn(j *journal, at time.Time) bool {
	lines := connector.Set(connector.Map(j.lines, func(t state.ToldLetter) string { return t.MessageID }))
	return slices.ContainsFunc(h.sent, func(l *state.Letter) bool {
		return (l.State == state.MessageSent || l.State == state.MessageRefused) && !lines[l.MessageID] && l.SendingAt.After(at.Add(-journalHolds))
	})
}

// lacking returns the words missing from the known ones.
func lacking(words, known []state.AddressWord) (out []state.AddressWord) {
	is := connector.Set(known)
	out = append(out, connector.Filter(words, func(w state.AddressWord) bool { return !is[w] })...)
	return out
}
