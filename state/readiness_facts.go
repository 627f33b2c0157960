package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"payersync/connector"
)

// ReadinessFacts holds everything known about a record's readiness for collection. Package readiness puts
// it into words.
type ReadinessFacts struct {
	RecordID
	Label     *connector.Label      // nil where none was made yet, or the ledger has no key
	State     connector.RecordState // in its books, or RecordForgotten
	Decision  Verdict               // of the newest plan; "" before the first
	ChangedAt time.Time             // when the record, or what was planned of it, changed last

	Left      bool // the mapping leaves it out, the books show it no more, or a person said that it is another or no payer
	GivenUp   bool // by a person
	MergedTo  string
	Stays     bool // a person accepted it with its present mandate
	Succeeded bool // another record may be the payer under a new number
	LetBe     bool // a person said that nothing is to be done about the mandate as it is
	Unlinking bool // a person said that the customer is not its own
	Contested bool // another record has its key

	// what people are told, of the record, the link, the mandate, and a second customer
	Told   [4]Reported
	PutOff map[connector.Reason]time.Time // the reasons that a person put off until later, and when; nil for none

	Key       connector.Key
	LinkState connector.LinkState
	BillingID string
	InOrder   bool                  // reads have shown the customer with its key, and nobody else with it
	Missing   bool                  // the newest read said that the customer does not exist
	Sending   connector.ChangeState // of the open change of its customer; "" for none
	Asking    connector.ChangeState // of the open request for a link; "" for none
	Unasked   Unasked               // why the newest plan asks for none
	// until when a request for a link without an answer waits, in words; "" where that is not known
	Awaited string

	Mandate   ReadinessMandate
	Letters   SentLetters // about this mandate
	Handed    Handed      // about this mandate
	Financial Financial   // of the customer, for people to read; zero too where the ledger has no key
	Stop      *LetterStop // of the payer, that holds
	Barred    *LetterStop // the stop of the first e-mail address, if in force; also nil if the ledger has no key
}

// ReportedDuplicate is the place in ReadinessFacts.Told of a second customer in the billing service.
const ReportedDuplicate = 3

// Reported is a reported reason, and since when.
type Reported struct {
	Reason connector.Reason // "" for none
	Since  time.Time
}

// ReadinessMandate is the payer's current mandate; zero where it has none.
type ReadinessMandate struct {
	ID        string
	Status    connector.MandateStatus
	Since     time.Time // of the status
	FirstSeen time.Time
	LastSeen  time.Time // by a sweep or any other read
	HasLink   bool
	LinkAt    time.Time // when the link was given to us
	Ended     Ended     // of a cancelled one
}

// Ended is how a mandate came to be cancelled, as far as it is known.
type Ended struct {
	Cause connector.Cause // by which it was observed; CauseCancel for our own act
	Actor string          // whose act it was; "" for others
	Why   string          // in the actor's words
}

// SentLetters counts the letters about a mandate.
type SentLetters struct {
	Sent        int
	First, Last time.Time // when the first and the last left; zero where none did
	Unclear     int       // that left, and nobody knows whether they arrived
}

// Handed counts the links of a mandate sent by other people.
type Handed struct {
	Times       int
	First, Last time.Time // days
}

// readinessColumns returns a query for the readiness of the records r in some tables. about restricts the
// mandates for counting letters and handovers; "" means all, the fastest way for all records.
func readinessColumns(records, about string) string {
	return `SELECT r.connection, r.source_id, CASE r.forgotten WHEN '' THEN r.state ELSE 'forgotten' END, CASE r.decision WHEN 'none' THEN '' ELSE r.decision END, r.updated_at,
	` + isNoPayer + `, r.given_up <> 0, r.same_as, coalesce(p.stays_at, 0) <> 0 AND p.stays_with = coalesce(p.mandate_id, ''), ` + letBe + `,
	coalesce(p.unlink_at, 0) <> 0, r.contested,
	coalesce(ar.reason, ''), ar.since, coalesce(al.reason, ''), al.since, coalesce(am.reason, ''), am.since, CASE am.reason WHEN 'outcome_unknown' THEN am.detail ELSE '' END,
	coalesce(p.key_name, ''), coalesce(p.key_value, ''), coalesce(p.link_state, ''), coalesce(p.billing_id, ''), p.billing_id IS NOT NULL AND ` + inOrder + `, p.billing_id IS NOT NULL AND ` + isMissing + `,
	coalesce(cc.state, ''), coalesce(cm.state, ''), r.not_asked, r.not_asked_line, r.not_asked_condition,
	coalesce(m.mandate_id, ''), coalesce(m.status, ''), m.status_since, m.first_seen_at, ` +
		lastSeenOf("m", "last_seen_at") + `, m.link IS NOT NULL, m.link_at,
	coalesce((SELECT h.cause FROM mandate_history h WHERE m.status = 'CANCELLED' AND h.mandate_id = m.mandate_id ORDER BY h.seq DESC LIMIT 1), ''),
	coalesce(t.sent, 0), t.first, t.last, coalesce(t.unclear, 0), coalesce(o.times, 0), o.first, o.last,
	(SELECT b.label FROM labels b WHERE b.connection = r.connection AND b.source_id = r.source_id), fs.status, ` +
		lastSeenOf("fs", "seen_at") + `
	FROM ` + records + `
	LEFT JOIN payers p ON p.connection = r.connection AND p.source_id = r.source_id
	LEFT JOIN attention ar ON ar.connection = r.connection AND ar.source_id = r.source_id AND ar.topic = 'record'
	LEFT JOIN attention al ON al.connection = r.connection AND al.source_id = r.source_id AND al.topic = 'link'
	LEFT JOIN attention am ON am.connection = r.connection AND am.source_id = r.source_id AND am.topic = 'mandate'
	LEFT JOIN changes cc ON cc.connection = r.connection AND cc.source_id = r.source_id AND cc.lane = 'customer' AND (cc.state = 'pending' OR cc.state = 'frozen' OR cc.state = 'unknown')
	LEFT JOIN changes cm ON cm.connection = r.connection AND cm.source_id = r.source_id AND cm.lane = 'mandate' AND (cm.state = 'pending' OR cm.state = 'frozen' OR cm.state = 'unknown')
	LEFT JOIN mandates m ON m.mandate_id = p.mandate_id
	LEFT JOIN financial_statuses fs ON fs.billing_id = p.billing_id
	LEFT JOIN (SELECT mandate_id, count(CASE WHEN state = 'sent' THEN 1 END) AS sent, count(CASE WHEN state = 'unclear' OR state = 'sending' THEN 1 END) AS unclear,
		min(CASE WHEN state = 'sent' OR state = 'unclear' OR state = 'sending' THEN sending_at END) AS first, max(CASE WHEN state = 'sent' OR state = 'unclear' OR state = 'sending' THEN sending_at END) AS last FROM letters` + about + ` GROUP BY mandate_id) t ON t.mandate_id = m.mandate_id
	LEFT JOIN (SELECT mandate_id, count(*) AS times, min(sent_on) AS first, max(sent_on) AS last FROM handovers` + about +
		` GROUP BY mandate_id) o ON o.mandate_id = m.mandate_id`
}

// EachReadiness passes on the readiness of each record, of one connection or of all for "", in the
// order of connections and ids. It reads as it goes.
func (l *Ledger) EachReadiness(ctx context.Context, connection string, do func(ReadinessFacts) error) error {
	add, err := l.besidesRecords(ctx)
	if err != nil {
		return err
	}
	return l.eachReadiness(ctx,
		readinessColumns("source_records r", "")+" WHERE r.connection = ?1 OR ?1 = '' ORDER BY r.connection, r.source_id",
		[]any{connection}, func(s ReadinessFacts) error {
			add(&s)
			return do(s)
		})
}

// standingsAtOnce is the number of records whose readiness is read at a time.
const standingsAtOnce = 1000

// EachReadinessOf passes on the readiness of these records in their order, each by its present row; missing
// records are omitted. A slow caller blocks nobody.
func (l *Ledger) EachReadinessOf(ctx context.Context, records []RecordID, do func(ReadinessFacts) error) error {
	add, err := l.besidesRecords(ctx)
	if err != nil {
		return err
	}
	query := readinessColumns("json_each(?1) j CROSS JOIN source_records r ON r.connection = j.value ->> 'Connection' AND r.source_id = j.value ->> 'SourceID'",
		" WHERE mandate_id IN (SELECT p.mandate_id FROM json_each(?1) j CROSS JOIN payers p ON p.connection = j.value ->> 'Connection' AND p.source_id = j.value ->> 'SourceID')")
	for some := range slices.Chunk(records, standingsAtOnce) {
		asked, err := json.Marshal(some)
		if err != nil {
			return err
		}
		found := make(map[RecordID]ReadinessFacts, len(some))
		if err := l.eachReadiness(ctx, query, []any{string(asked)},
			func(s ReadinessFacts) error { found[s.RecordID] = s; return nil }); err != nil {
			return err
		}
		for _, id := range some {
			s, is := found[id]
			if !is {
				continue
			}
			add(&s)
			if err := do(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// besidesRecords returns a function that adds to a readiness everything outside the row of its
// record.
func (l *Ledger) besidesRecords(ctx context.Context) (add func(*ReadinessFacts), err error) {
	stops, err := l.holdingStops(ctx)
	if err != nil {
		return nil, err
	}
	acts, err := l.cancellations(ctx, "")
	if err != nil {
		return nil, err
	}
	told, err := l.journalOnlyLetters(ctx)
	if err != nil {
		return nil, err
	}
	later, err := l.putOffs(ctx)
	if err != nil {
		return nil, err
	}
	doubled, err := l.doubled(ctx)
	if err != nil {
		return nil, err
	}
	succeeded, err := l.succeeded(ctx)
	return func(s *ReadinessFacts) {
		s.PutOff, s.Succeeded, s.Told[ReportedDuplicate] = later[s.RecordID], succeeded[s.RecordID], doubled[s.RecordID]
		recipient := ""
		if len(stops.addresses) > 0 { // a hash each is worth making only where one can be met
			recipient = l.recipientOf(*s)
		}
		s.add(stops, recipient, acts)
		l.addJournalLetters(s, told)
	}, err
}

// ReadinessOf returns the readiness of one record; nil when there is none. It reads no letters, stops and
// cancellations of other payers, because it runs before each letter.
func (l *Ledger) ReadinessOf(ctx context.Context, id RecordID) (out *ReadinessFacts, err error) {
	const about = " WHERE mandate_id = (SELECT mandate_id FROM payers WHERE connection = ?1 AND source_id = ?2)"
	if err := l.eachReadiness(ctx,
		readinessColumns("source_records r", about)+" WHERE r.connection = ?1 AND r.source_id = ?2",
		[]any{id.Connection, id.SourceID}, func(s ReadinessFacts) error { out = &s; return nil }); err != nil || out == nil {
		return nil, err
	}
	recipient := l.recipientOf(*out)
	stops, err := l.holdingStopsOf(ctx, id, recipient)
	if err != nil {
		return nil, err
	}
	var acts map[string]Ended
	if out.Mandate.Ended.Cause == connector.CauseCancel {
		if acts, err = l.cancellations(ctx, out.Mandate.ID); err != nil {
			return nil, err
		}
	}
	out.add(stops, recipient, acts)
	told, err := l.journalOnlyLetters(ctx)
	if err != nil {
		return nil, err
	}
	l.addJournalLetters(out, told)
	doubled, err := l.doubled(ctx, id)
	if err != nil {
		return nil, err
	}
	out.Told[ReportedDuplicate] = doubled[id]
	later, err := l.putOffs(ctx, id)
	if out.PutOff = later[id]; err != nil || !out.Left {
		return out, err
	}
	succeeded, err := l.succeeded(ctx, id)
	out.Succeeded = succeeded[id]
	return out, err
}

// addJournalLetters counts the letters about unsigned mandates known only from the journal.
func (l *Ledger) addJournalLetters(s *ReadinessFacts, told map[string]JournalLetter) {
	for step := 0; step < LetterSteps && len(told) > 0 && s.Mandate.Status == connector.MandateCreated; step++ {
		if t, is := told[l.LetterID(s.Mandate.ID, step)]; is {
			s.Letters.add(t.At)
		}
	}
}

// recipientOf returns the hash of the address of a record's payer; "" for none.
func (l *Ledger) recipientOf(s ReadinessFacts) string {
	if s.Label == nil || s.Label.Email == "" {
		return ""
	}
	return l.RecipientHash(s.Label.Email)
}

// add adds the facts outside the row of a record.
func (s *ReadinessFacts) add(of stops, recipient string, acts map[string]Ended) {
	s.Stop = of.payers[s.RecordID]
	if recipient != "" {
		s.Barred = of.addresses[recipient]
	}
	if s.Mandate.Ended.Cause == connector.CauseCancel {
		act := acts[s.Mandate.ID]
		s.Mandate.Ended.Actor, s.Mandate.Ended.Why = act.Actor, act.Why
	}
}

func (l *Ledger) eachReadiness(ctx context.Context, query string, args []any, do func(ReadinessFacts) error) error {
	return each(ctx, l, query, args, (*readinessRow).dest, func(r readinessRow) (err error) {
		if err := r.times(); err != nil {
			return err
		}
		s := &r.ReadinessFacts
		s.Key = connector.ParseKey(s.Key.Name, s.Key.Value)
		if s.Label, err = l.openLabel(s.RecordID, r.box); err != nil {
			return err
		}
		if s.Financial, err = l.openFinancial(s.BillingID, r.status, r.seen); err != nil {
			return err
		}
		return do(*s)
	})
}

// add counts a sent letter known only from the journal beside the ledger.
func (t *SentLetters) add(at time.Time) {
	t.Unclear++
	if t.First.IsZero() || at.Before(t.First) {
		t.First = at
	}
	if at.After(t.Last) {
		t.Last = at
	}
}

// readinessRow is a row of readinessColumns.
type readinessRow struct {
	ReadinessFacts
	box []byte

	status []byte // financial
	seen   sql.NullString

	text [12]sql.NullString // times, in the order of the columns
}

func (r *readinessRow) dest() []any {
	s, m, t := &r.ReadinessFacts, &r.Mandate, &r.text
	return []any{&s.Connection, &s.SourceID, &s.State, &s.Decision, &t[0], &s.Left, &s.GivenUp, &s.MergedTo, &s.Stays,
		&s.LetBe, &s.Unlinking, &s.Contested,
		&s.Told[0].Reason, &t[1], &s.Told[1].Reason, &t[2], &s.Told[2].Reason, &t[3], &s.Awaited,
		&s.Key.Name, &s.Key.Value, &s.LinkState, &s.BillingID, &s.InOrder, &s.Missing, &s.Sending, &s.Asking, &s.Unasked.Why,
		&s.Unasked.Line, &s.Unasked.Condition,
		&m.ID, &m.Status, &t[4], &t[5], &t[6], &m.HasLink, &t[7], &m.Ended.Cause,
		&s.Letters.Sent, &t[8], &t[9], &s.Letters.Unclear, &s.Handed.Times, &t[10], &t[11], &r.box, &r.status, &r.seen}
}

// times reads the times of a row.
func (r *readinessRow) times() error {
	s, m := &r.ReadinessFacts, &r.Mandate
	for i, to := range []*time.Time{&s.ChangedAt, &s.Told[0].Since, &s.Told[1].Since, &s.Told[2].Since, &m.Since,
		&m.FirstSeen, &m.LastSeen, &m.LinkAt,
		&s.Letters.First, &s.Letters.Last} {
		var err error
		if *to, err = parseTime(r.text[i]); err != nil {
			return err
		}
	}
	for i, to := range []*time.Time{&s.Handed.First, &s.Handed.Last} {
		if text := r.text[10+i]; text.Valid {
			var err error
			if *to, err = time.Parse(time.DateOnly, text.String); err != nil {
				return fmt.Errorf("read a day of the ledger: %w", err)
			}
		}
	}
	return nil
}

// stops are those that hold now, of payers and of addresses.
type stops struct {
	payers    map[RecordID]*LetterStop
	addresses map[string]*LetterStop
}

// holdingStops returns the stops of payers and addresses that hold.
func (l *Ledger) holdingStops(ctx context.Context) (stops, error) {
	all, err := l.LetterStops(ctx)
	return l.holding(all), err
}

// holdingStopsOf returns those of one record and of its address.
func (l *Ledger) holdingStopsOf(ctx context.Context, id RecordID, recipient string) (stops, error) {
	const columns = "SELECT stop_id, scope, recipient, why, coalesce(until_on, '') AS until_on, note, actor, since FROM letter_stops WHERE ended_at IS NULL AND "
	type row struct {
		LetterStop
		since sql.NullString
	}
	rows, err := list(ctx, l,
		columns+"connection = ?1 AND source_id = ?2 AND scope = 'payer' UNION ALL "+columns+"recipient = ?3 AND recipient <> '' ORDER BY stop_id",
		[]any{id.Connection, id.SourceID, recipient}, func(r *row) []any {
			return []any{&r.ID, &r.Scope, &r.Recipient, &r.Why, &r.UntilOn, &r.Note, &r.Actor, &r.since}
		})
	if err != nil {
		return stops{}, fmt.Errorf("read whether record %s is not to be written to: %w", id.SourceID, err)
	}
	all := make([]LetterStop, len(rows))
	for i, r := range rows {
		all[i] = r.LetterStop
		if all[i].Scope == StopPayer {
			all[i].RecordID = id
		}
		if all[i].Since, err = parseTime(r.since); err != nil {
			return stops{}, err
		}
	}
	return l.holding(all), nil
}

// holding returns the stops in force, in order of creation. It reports the newest of several, but a
// nonexistent address comes first.
func (l *Ledger) holding(all []LetterStop) stops {
	out := stops{map[RecordID]*LetterStop{}, map[string]*LetterStop{}}
	today := l.Now().Format(time.DateOnly)
	for i := range all {
		s := &all[i]
		switch {
		case !s.Holds(today):
		case s.Scope == StopPayer:
			out.payers[s.RecordID] = s
		case s.Scope == StopAddress && (out.addresses[s.Recipient] == nil || out.addresses[s.Recipient].Why != StopBounced):
			out.addresses[s.Recipient] = s
		}
	}
	return out
}

// cancellations returns who cancelled each mandate with us and why, by the newest decision; for all
// mandates or one.
func (l *Ledger) cancellations(ctx context.Context, mandate string) (map[string]Ended, error) {
	out := map[string]Ended{}
	type row struct {
		Ended
		mandate string
	}
	err := each(ctx, l, "SELECT subject, actor, reason FROM audit WHERE action = 'cancel mandate' AND (subject = ?1 OR ?1 = '') ORDER BY seq", []any{mandate},
		func(r *row) []any { return []any{&r.mandate, &r.Actor, &r.Why} },
		func(r row) error { out[r.mandate] = r.Ended; return nil })
	return out, err
}
