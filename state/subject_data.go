package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
)

// SubjectData is everything that the ledger holds about one payer, opened, for the payer to be given.
// LeftOut names the omitted data.
type SubjectData struct {
	Connection string          `json:"connection"`
	SourceID   string          `json:"source_id"`
	Forgotten  bool            `json:"forgotten"` // nothing but ids, statuses and times is kept
	Record     SubjectRecord   `json:"record"`
	Label      connector.Label `json:"label"`

	Payer      *SubjectPayer       `json:"payer"` // null while the record never was a payer
	Attention  []AttentionRow      `json:"attention"`
	Changes    []SubjectChange     `json:"changes"`
	Requests   []SubjectRequest    `json:"requests"`
	Mandates   []SubjectMandate    `json:"mandates"`
	Letters    []SubjectLetter     `json:"letters"` // to the payer, and what others sent
	Stops      []SubjectLetterStop `json:"letter_stops"`
	Deliveries []SubjectDelivery   `json:"deliveries"`
	Index      []SubjectCustomer   `json:"index"`        // what is known of its customers, to tell them from others
	Words      []SubjectDecision   `json:"words"`        // people's decisions on the owner of the customer
	Hashes     int                 `json:"keyed_hashes"` // by which it is compared with others
	Audit      []SubjectLogEntry   `json:"audit"`
	LeftOut    []string            `json:"left_out"`

	WrittenBack *SubjectField `json:"written_back,omitempty"` // into the books
}

// SubjectRecord is the record as it was read last.
type SubjectRecord struct {
	State     connector.RecordState `json:"state"`
	UpdatedAt time.Time             `json:"updated_at,omitzero"` // in its own system
	Origin    string                `json:"origin,omitempty"`
	Data      json.RawMessage       `json:"data"`
}

// SubjectPayer is how the record relates to the billing service.
type SubjectPayer struct {
	Key       string               `json:"key"`
	BillingID string               `json:"billing_id,omitempty"`
	Applied   *connector.Customer  `json:"applied"` // what its customer holds of us
	Accepted  []connector.Accepted `json:"accepted"`
	Read      *Read                `json:"read"` // what it was last read to hold otherwise
}

// SubjectChange is one change with its intended content, and the customer before.
type SubjectChange struct {
	PastChange
	Wanted *connector.Customer `json:"wanted,omitempty"`
	Sent   string              `json:"sent,omitempty"`   // the very bytes
	Before string              `json:"before,omitempty"` // the customer as it was read
}

// SubjectRequest is one time that something was sent for the payer.
type SubjectRequest struct {
	SentAt string `json:"sent_at"`
	Action string `json:"action"`
	Ended  string `json:"ended,omitempty"`
}

// SubjectMandate is a mandate with how its status moved.
type SubjectMandate struct {
	MandateRow
	History []HistoryRow `json:"history"`
}

// SubjectLetter is a letter to the payer, or that somebody else sent one.
type SubjectLetter struct {
	MandateID string `json:"mandate_id"`
	Kind      string `json:"kind"` // which template, or "handed over"
	Language  string `json:"language,omitempty"`
	State     string `json:"state"`
	At        string `json:"at"` // when it ended or was made, or the day on which others sent it
	Actor     string `json:"actor,omitempty"`
}

// SubjectLetterStop is a stop of letters to the payer.
type SubjectLetterStop struct {
	Why     string `json:"why"`
	Note    string `json:"note,omitempty"`
	Actor   string `json:"actor"`
	Since   string `json:"since"`
	EndedAt string `json:"ended_at,omitempty"`
}

// SubjectDelivery is a webhook about the payer.
type SubjectDelivery struct {
	InboxRow
	Body string `json:"body,omitempty"`
}

// SubjectCustomer is a customer as the index of the service's customers has it.
type SubjectCustomer struct {
	BillingID    string          `json:"billing_id"`
	ExternalData json.RawMessage `json:"external_data"`
	SeenAt       string          `json:"seen_at"`
	Financial
}

// SubjectDecision is a person's decision about the record and a customer.
type SubjectDecision struct {
	BillingID string `json:"billing_id"`
	Word      string `json:"word"`
	SaidAt    string `json:"said_at"`
}

// SubjectLogEntry is a person's act on the payer.
type SubjectLogEntry struct {
	At     string `json:"at"`
	Actor  string `json:"actor"`
	Action string `json:"action"`
	Reason string `json:"reason,omitempty"`
}

// SubjectField is the known state of the status field in the accounting system.
type SubjectField struct {
	Says connector.FieldStatus `json:"says"`
	At   string                `json:"since,omitempty"`
	WritebackField
}

// Data that an export of a payer never contains.
const (
	leftLink    = "The signing link, and the text of letters, which holds it: whoever has it can give the mandate. The billing service shows it to the payer."
	leftFailure = "The bank's code for why a mandate failed: it is kept for questions to the billing service alone, which can say what it means. The command that shows a mandate says how to see it, and notes who did."
	leftOthers  = "Values of a customer that was unlinked from this record: they belong to somebody else."
)

// SubjectData returns everything that the ledger holds about a record's payer; ErrNoRecord when
// there is no such record.
func (l *Ledger) SubjectData(ctx context.Context, id RecordID) (SubjectData, error) {
	h := SubjectData{Connection: id.Connection, SourceID: id.SourceID, LeftOut: []string{}}
	var box []byte
	var how Forgotten
	err := l.queryRow(ctx, "SELECT record, forgotten FROM source_records WHERE connection = ? AND source_id = ?",
		id.Connection, id.SourceID).Scan(&box, &how)
	if errors.Is(err, sql.ErrNoRows) {
		return h, ErrNoRecord
	}
	if err != nil {
		return h, fmt.Errorf("read record %s: %w", id.SourceID, err)
	}
	record, err := l.openRecord(id.Connection, id.SourceID, box)
	if err != nil {
		return h, err
	}
	h.Record = SubjectRecord{record.State, record.UpdatedAt, record.Origin, record.Data}
	if h.Forgotten = how != ForgottenNot; h.Forgotten {
		h.Record.State = RecordForgotten
	}
	labels, err := l.LabelsOf(ctx, []RecordID{id})
	if err != nil {
		return h, err
	}
	h.Label = labels[id]
	if h.Attention, err = l.AttentionOf(ctx, id.Connection, id.SourceID); err != nil {
		return h, err
	}
	for _, part := range []func(context.Context, RecordID, *SubjectData) error{l.subjectPayer, l.subjectChanges, l.subjectMandates,
		l.subjectLetters, l.subjectDeliveries, l.subjectCustomers, l.subjectLogEntries, l.subjectField} {
		if err := part(ctx, id, &h); err != nil {
			return h, fmt.Errorf("gather the personal data of record %s: %w", id.SourceID, err)
		}
	}
	return h, nil
}

func (l *Ledger) subjectPayer(ctx context.Context, id RecordID, h *SubjectData) error {
	p, err := l.Payer(ctx, id.Connection, id.SourceID)
	if errors.Is(err, ErrNoPayer) {
		return nil
	}
	if err != nil {
		return err
	}
	h.Payer = &SubjectPayer{Key: p.Key.String(), BillingID: p.BillingID, Applied: p.Applied,
		Accepted: append([]connector.Accepted{}, p.Accepted...)}
	if h.Payer.Read, err = l.LastRead(ctx, p); err != nil {
		return err
	}
	var like likeness
	err = l.queryRow(ctx, "SELECT likeness FROM payers WHERE connection = ? AND source_id = ?", id.Connection,
		id.SourceID).Scan(&like)
	h.Hashes = len(like)
	return err
}

func (l *Ledger) subjectField(ctx context.Context, id RecordID, h *SubjectData) error {
	var f SubjectField
	var setup string
	err := l.queryRow(ctx, "SELECT setup, applied, coalesce(applied_at, '') FROM writebacks WHERE connection = ? AND source_id = ?", id.Connection, id.SourceID).Scan(&setup, &f.Says, &f.At)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		f.WritebackField, err = l.WritebackField(ctx, id, setup)
	}
	h.WrittenBack = &f
	return err
}

func (l *Ledger) subjectChanges(ctx context.Context, id RecordID, h *SubjectData) error {
	past, err := l.ChangesOf(ctx, id.Connection, id.SourceID)
	if err != nil {
		return err
	}
	var parted int64
	if err := l.queryRow(ctx, "SELECT coalesce(max(parted), 0) FROM payers WHERE connection = ? AND source_id = ?",
		id.Connection, id.SourceID).Scan(&parted); err != nil {
		return err
	}
	h.Changes = make([]SubjectChange, len(past))
	others := false
	for i, c := range past {
		h.Changes[i].PastChange = c
		var wanted, body, pre []byte
		if err := l.queryRow(ctx, "SELECT wanted, body, pre_image FROM changes WHERE change_id = ?", c.ID).Scan(&wanted,
			&body, &pre); err != nil {
			return err
		}
		if wanted != nil {
			h.Changes[i].Wanted = new(connector.Customer)
		}
		sent, errSent := l.seal.open(body, changePlace("body", c.ID))
		before, errBefore := l.seal.open(pre, changePlace("pre_image", c.ID))
		if err := errors.Join(l.openJSON(wanted, changePlace("wanted", c.ID), h.Changes[i].Wanted), errSent,
			errBefore); err != nil {
			return err
		}
		if c.ID <= parted && c.Action != connector.ActionCreate { // of a customer that was somebody else's
			h.Changes[i].Diff, others = nil, true
			continue
		}
		h.Changes[i].Sent, h.Changes[i].Before = string(sent), string(before)
	}
	if others {
		h.LeftOut = append(h.LeftOut, leftOthers)
	}
	h.Requests, err = list(ctx, l,
		"SELECT sent_at, action, ended FROM attempts WHERE connection = ? AND source_id = ? ORDER BY attempt_id",
		[]any{id.Connection, id.SourceID},
		func(r *SubjectRequest) []any { return []any{&r.SentAt, &r.Action, &r.Ended} })
	return err
}

// subjectLetters adds the letters to the payer. It omits their text, which holds the signing link.
func (l *Ledger) subjectLetters(ctx context.Context, id RecordID, h *SubjectData) (err error) {
	h.Letters, err = list(ctx, l,
		`SELECT mandate_id, kind, language, state, coalesce(ended_at, frozen_at) AS at, '' FROM letters WHERE connection = ?1 AND source_id = ?2
		UNION ALL SELECT o.mandate_id, 'handed over', '', 'sent', o.sent_on, o.actor FROM handovers o JOIN mandates m ON m.mandate_id = o.mandate_id WHERE m.billing_id IN `+customersOf+" ORDER BY at, mandate_id",
		[]any{id.Connection, id.SourceID},
		func(r *SubjectLetter) []any {
			return []any{&r.MandateID, &r.Kind, &r.Language, &r.State, &r.At, &r.Actor}
		})
	if err != nil {
		return err
	}
	h.Stops, err = list(ctx, l,
		"SELECT why, note, actor, since, coalesce(ended_at, '') FROM letter_stops WHERE scope = 'payer' AND connection = ?1 AND source_id = ?2 ORDER BY stop_id",
		[]any{id.Connection, id.SourceID},
		func(r *SubjectLetterStop) []any { return []any{&r.Why, &r.Note, &r.Actor, &r.Since, &r.EndedAt} })
	return err
}

func (l *Ledger) subjectMandates(ctx context.Context, id RecordID, h *SubjectData) error {
	type row struct {
		MandateRow
		link, failure bool
	}
	rows, err := list(ctx, l,
		"SELECT "+mandateColumns+", (SELECT m.link IS NOT NULL FROM mandates m WHERE m.mandate_id = v.mandate_id), EXISTS (SELECT 1 FROM failure_reasons f WHERE f.mandate_id = v.mandate_id) FROM v_mandates v WHERE v.billing_id IN "+customersOf+" ORDER BY first_seen_at, mandate_id",
		[]any{id.Connection, id.SourceID}, func(r *row) []any { return append(r.dest(), &r.link, &r.failure) })
	if err != nil {
		return err
	}
	h.Mandates = []SubjectMandate{}
	link, failure := false, false
	for _, r := range rows {
		link, failure = link || r.link, failure || r.failure
		all, err := l.History(ctx, r.BillingID)
		if err != nil {
			return err
		}
		m := SubjectMandate{MandateRow: r.MandateRow, History: []HistoryRow{}}
		m.History = append(m.History,
			connector.Filter(all, func(moved HistoryRow) bool { return moved.MandateID == r.MandateID })...)
		h.Mandates = append(h.Mandates, m)
	}
	for _, left := range []struct {
		held bool
		said string
	}{{link, leftLink}, {failure, leftFailure}} {
		if left.held {
			h.LeftOut = append(h.LeftOut, left.said)
		}
	}
	return nil
}

func (l *Ledger) subjectDeliveries(ctx context.Context, id RecordID, h *SubjectData) error {
	type row struct {
		InboxRow
		box []byte
	}
	rows, err := list(ctx, l, "SELECT "+inboxColumns+", body FROM inbox i WHERE "+aboutThem+" ORDER BY inbox_id",
		[]any{id.Connection, id.SourceID},
		func(r *row) []any { return append(r.dest(), &r.box) })
	if err != nil {
		return err
	}
	h.Deliveries = make([]SubjectDelivery, len(rows))
	for i, r := range rows {
		h.Deliveries[i].InboxRow = r.InboxRow
		if len(r.box) == 0 {
			continue
		}
		body, err := l.seal.open(r.box, place("inbox", "body", r.DeliveryKey))
		if err != nil {
			return err
		}
		h.Deliveries[i].Body = string(body)
	}
	return nil
}

func (l *Ledger) subjectCustomers(ctx context.Context, id RecordID, h *SubjectData) (err error) {
	type row struct {
		SubjectCustomer
		pairs string
	}
	rows, err := list(ctx, l, `SELECT c.billing_id, c.key_values, `+lastRead+`
		FROM remote_customers c WHERE c.billing_id IN `+customersOf+" ORDER BY c.billing_id",
		[]any{id.Connection, id.SourceID},
		func(r *row) []any { return []any{&r.BillingID, &r.pairs, &r.SubjectCustomer.SeenAt} })
	if err != nil {
		return err
	}
	h.Index = make([]SubjectCustomer, len(rows))
	for i, r := range rows {
		h.Index[i] = r.SubjectCustomer
		h.Index[i].ExternalData = json.RawMessage(r.pairs)
		if h.Index[i].Financial, err = l.Financial(ctx, r.BillingID); err != nil {
			return err
		}
	}
	h.Words, err = list(ctx, l,
		"SELECT billing_id, word, said_at FROM words WHERE connection = ? AND source_id = ? ORDER BY said_at",
		[]any{id.Connection, id.SourceID},
		func(w *SubjectDecision) []any { return []any{&w.BillingID, &w.Word, &w.SaidAt} })
	return err
}

// subjectLogEntries adds the acts of people: an entry names the record, its customer, or a mandate, as
// one word of its subject.
func (l *Ledger) subjectLogEntries(ctx context.Context, id RecordID, h *SubjectData) (err error) {
	h.Audit, err = list(ctx, l, `SELECT at, actor, action, reason FROM audit WHERE EXISTS (
		SELECT 1 FROM (SELECT ?2 AS name UNION SELECT ?1 || '/' || ?2 UNION SELECT billing_id FROM `+customersOf+` of
		  UNION SELECT mandate_id FROM mandates WHERE billing_id IN `+customersOf+`) n
		WHERE n.name <> '' AND instr(' ' || replace(subject, '/', ' ') || ' ', ' ' || replace(n.name, '/', ' ') || ' ') > 0) ORDER BY seq`,
		[]any{id.Connection, id.SourceID}, func(e *SubjectLogEntry) []any { return []any{&e.At, &e.Actor, &e.Action, &e.Reason} })
	return err
}

// Quotes counts the free texts with one of these values: lines of the audit log, and saved mapping
// files. People wrote these texts, and nothing erases them.
func (l *Ledger) Quotes(ctx context.Context, of connector.Label) (entries, mappings int, err error) {
	for _, value := range []string{of.Name, of.Email} {
		if len(value) < 4 {
			continue // too short to mean anything
		}
		var n int
		if err := l.queryRow(ctx, "SELECT count(*) FROM audit WHERE instr(lower(reason), lower(?)) > 0",
			value).Scan(&n); err != nil {
			return 0, 0, fmt.Errorf("look through the audit log: %w", err)
		}
		entries = max(entries, n)
	}
	type row struct {
		hash string
		body []byte
	}
	err = each(ctx, l, "SELECT hash, body FROM mapping_versions", nil,
		func(r *row) []any { return []any{&r.hash, &r.body} }, func(r row) error {
			text, err := l.seal.open(r.body, placeOfMapping(r.hash))
			if err != nil {
				return err
			}
			for _, value := range []string{of.Name, of.Email} {
				if len(value) >= 4 && containsFolded(text, value) {
					mappings++
					break
				}
			}
			return nil
		})
	return entries, mappings, err
}

func containsFolded(text []byte, value string) bool {
	return strings.Contains(strings.ToLower(string(text)), strings.ToLower(value))
}
