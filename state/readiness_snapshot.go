package state

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
)

// readSnapshot is the ledger at one moment, for queries that must agree while others write.
type readSnapshot struct {
	l  *Ledger
	tx *sql.Tx
}

// atOneSnapshot reads the ledger as it is at one moment.
func (l *Ledger) atOneSnapshot(ctx context.Context, read func(readSnapshot) error) error {
	tx, err := l.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	return read(readSnapshot{l, tx})
}

// rows puts every row of a query into dest, one after the other. It is for many rows: nothing is
// made anew for each.
func (m readSnapshot) rows(ctx context.Context, query string, args, dest []any, do func() error) error {
	args, err := bound(args)
	if err != nil {
		return err
	}
	rows, err := m.tx.QueryContext(ctx, m.l.limited(query), args...)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return fmt.Errorf("read the ledger: %w", err)
		}
		if err := do(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// mandateFacts are the facts about a mandate.
type mandateFacts struct {
	status                  connector.MandateStatus
	since, lastSeen, linkAt millis
	hasLink                 bool
	sent, unclear, handed   int32
}

// EachReadinessUnordered passes on the readiness of each record, like [Ledger.EachReadiness]. It returns its class and
// step, since when, and the party to act. It is for counting, and omits all descriptive data: the label, the
// key, the state in the accounting system, merges, requests for the customer, ends of mandates, letter times
// and the financial status. The records come in no order. It reads each table once, in file order, and joins
// the mandates to their payers in memory: lookups one by one would take longer than everything else.
func (l *Ledger) EachReadinessUnordered(ctx context.Context, do func(ReadinessFacts) error) error {
	stops, err := l.holdingStops(ctx)
	if err != nil {
		return err
	}
	told, err := l.journalOnlyLetters(ctx)
	if err != nil {
		return err
	}
	later, err := l.putOffs(ctx)
	if err != nil {
		return err
	}
	succeeded, err := l.succeeded(ctx)
	if err != nil {
		return err
	}
	doubled, err := l.doubled(ctx)
	if err != nil {
		return err
	}
	return l.atOneSnapshot(ctx, func(m readSnapshot) error {
		mandates, err := m.mandates(ctx)
		if err != nil {
			return err
		}
		barred, err := m.barred(ctx, stops)
		if err != nil {
			return err
		}
		return m.records(ctx, func(s *ReadinessFacts) error {
			if o, has := mandates[s.Mandate.ID]; has {
				s.Mandate.Status, s.Mandate.HasLink = o.status, o.hasLink
				s.Mandate.Since, s.Mandate.LastSeen, s.Mandate.LinkAt = o.since.time(), o.lastSeen.time(), o.linkAt.time()
				s.Letters.Sent, s.Letters.Unclear, s.Handed.Times = int(o.sent), int(o.unclear), int(o.handed)
			} else {
				s.Mandate.ID = ""
			}
			s.Stop, s.Barred = stops.payers[s.RecordID], barred[s.RecordID]
			s.PutOff, s.Succeeded, s.Told[ReportedDuplicate] = later[s.RecordID], succeeded[s.RecordID], doubled[s.RecordID]
			l.addJournalLetters(s, told)
			return do(*s)
		})
	})
}

// mandates returns all mandates, with how often their links were sent.
func (m readSnapshot) mandates(ctx context.Context) (map[string]*mandateFacts, error) {
	out := map[string]*mandateFacts{}
	statuses := interned{}
	var id, status string
	var since, lastSeen, linkAt sql.NullString
	var hasLink bool
	err := m.rows(ctx, "SELECT m.mandate_id, m.status, m.status_since, "+lastSeenOf("m",
		"last_seen_at")+", m.link_at, m.link IS NOT NULL FROM mandates m", nil,
		[]any{&id, &status, &since, &lastSeen, &linkAt, &hasLink}, func() (err error) {
			o := &mandateFacts{status: connector.MandateStatus(statuses.of(status)), hasLink: hasLink}
			out[id] = o
			if o.since, err = millisOf(since); err != nil {
				return err
			}
			if o.lastSeen, err = millisOf(lastSeen); err != nil {
				return err
			}
			o.linkAt, err = millisOf(linkAt)
			return err
		})
	if err != nil {
		return nil, err
	}
	count := func(query string, add func(*mandateFacts)) error {
		return m.rows(ctx, query, nil, []any{&id}, func() error {
			if o, has := out[id]; has {
				add(o)
			}
			return nil
		})
	}
	if err := count("SELECT mandate_id FROM letters WHERE state = 'sent'", func(o *mandateFacts) { o.sent++ }); err != nil {
		return nil, err
	}
	if err := count("SELECT mandate_id FROM letters WHERE state = 'unclear' OR state = 'sending'",
		func(o *mandateFacts) { o.unclear++ }); err != nil {
		return nil, err
	}
	return out, count("SELECT mandate_id FROM handovers", func(o *mandateFacts) { o.handed++ })
}

// barred returns the stops that hold of the addresses of records.
func (m readSnapshot) barred(ctx context.Context, of stops) (map[RecordID]*LetterStop, error) {
	if len(of.addresses) == 0 || m.l.Sealed() { // a hash each is worth making only where one can be met
		return nil, nil
	}
	out := map[RecordID]*LetterStop{}
	err := m.labels(ctx, "", func(id RecordID, label *connector.Label) {
		if label.Email == "" {
			return
		}
		if stop, is := of.addresses[m.l.RecipientHash(label.Email)]; is {
			out[id] = stop
		}
	})
	return out, err
}

// labels passes on the labels of one connection, or of all for "", in no order.
func (m readSnapshot) labels(ctx context.Context, connection string, do func(RecordID, *connector.Label)) error {
	if m.l.Sealed() {
		return nil
	}
	var id RecordID
	var box []byte
	return m.rows(ctx, "SELECT connection, source_id, label FROM labels WHERE connection = ?1 OR ?1 = ''",
		[]any{connection}, []any{&id.Connection, &id.SourceID, &box}, func() error {
			label, err := m.l.openLabel(id, box)
			if err == nil {
				do(id, label)
			}
			return err
		})
}

// findings returns the reports on records, in the order of ReadinessFacts.Told, without second customers.
func (m readSnapshot) findings(ctx context.Context) (map[RecordID]*[4]Reported, error) {
	out := map[RecordID]*[4]Reported{}
	var id RecordID
	var topic int
	var reason string
	var since sql.NullString
	err := m.rows(ctx, "SELECT connection, source_id, CASE topic WHEN 'record' THEN 0 WHEN 'link' THEN 1 ELSE 2 END, reason, since FROM attention", nil,
		[]any{&id.Connection, &id.SourceID, &topic, &reason, &since}, func() (err error) {
			told := out[id]
			if told == nil {
				told = new([4]Reported)
				out[id] = told
			}
			told[topic].Reason = connector.Reason(reason)
			told[topic].Since, err = parseTime(since)
			return err
		})
	return out, err
}

// asking returns the open requests for links.
func (m readSnapshot) asking(ctx context.Context) (map[RecordID]connector.ChangeState, error) {
	out := map[RecordID]connector.ChangeState{}
	var id RecordID
	var state string
	err := m.rows(ctx, "SELECT connection, source_id, state FROM changes WHERE lane = 'mandate' AND (state = 'pending' OR state = 'frozen' OR state = 'unknown')", nil,
		[]any{&id.Connection, &id.SourceID, &state}, func() error { out[id] = connector.ChangeState(state); return nil })
	return out, err
}

// bits is an expression that packs conditions into one number: the first as 1, the next as 2, and
// so on.
func bits(conditions ...string) string {
	var sum []string
	for i, c := range conditions {
		sum = append(sum, fmt.Sprintf("CASE WHEN %s THEN %d ELSE 0 END", c, 1<<i))
	}
	return strings.Join(sum, " + ")
}

// records passes on all records, with the ids of their mandates.
func (m readSnapshot) records(ctx context.Context, do func(*ReadinessFacts) error) error {
	tells, err := m.findings(ctx)
	if err != nil {
		return err
	}
	asking, err := m.asking(ctx)
	if err != nil {
		return err
	}
	var id RecordID
	var decision, link, customer, mandate string
	var unasked Unasked
	var changed sql.NullString
	var is int64
	var s ReadinessFacts
	names := interned{}
	return m.rows(ctx, `SELECT r.connection, r.source_id, CASE r.decision WHEN 'none' THEN '' ELSE r.decision END, r.updated_at,
		`+bits(isNoPayer, "r.contested <> 0", "coalesce(p.stays_at, 0) <> 0 AND p.stays_with = coalesce(p.mandate_id, '')",
		letBe,
		"coalesce(p.unlink_at, 0) <> 0", "p.billing_id IS NOT NULL AND "+inOrder,
		"p.billing_id IS NOT NULL AND "+isMissing)+`,
		coalesce(p.link_state, ''), coalesce(p.billing_id, ''), coalesce(p.mandate_id, ''), r.not_asked, r.not_asked_line, r.not_asked_condition
		FROM source_records r LEFT JOIN payers p ON p.connection = r.connection AND p.source_id = r.source_id`,
		nil, []any{&id.Connection, &id.SourceID, &decision, &changed, &is, &link, &customer, &mandate, &unasked.Why,
			&unasked.Line, &unasked.Condition}, func() (err error) {
			s = ReadinessFacts{RecordID: RecordID{names.of(id.Connection), id.SourceID}, Decision: Verdict(decision),
				LinkState: connector.LinkState(link), BillingID: customer, Asking: asking[id], Unasked: unasked}
			s.Left, s.Contested, s.Stays, s.LetBe, s.Unlinking, s.InOrder, s.Missing = is&1 > 0, is&2 > 0, is&4 > 0, is&8 > 0,
				is&16 > 0, is&32 > 0, is&64 > 0
			s.Mandate.ID = mandate
			if told := tells[id]; told != nil {
				s.Told = *told
			}
			if s.ChangedAt, err = parseTime(changed); err != nil {
				return err
			}
			return do(&s)
		})
}

// interned are texts of which there are few, each kept once.
type interned map[string]string

func (k interned) of(text string) string {
	if known, is := k[text]; is {
		return known
	}
	k[text] = text
	return text
}

// millis is a time as it takes little room: the milliseconds of the epoch, 0 for none.
type millis int64

func millisOf(text sql.NullString) (millis, error) {
	t, err := parseTime(text)
	if err != nil || t.IsZero() {
		return 0, err
	}
	return millis(t.UnixMilli()), nil
}

func (m millis) time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m)).UTC()
}
