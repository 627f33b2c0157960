package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/readiness"
	"payersync/state"
)

// Handover selects the payers of a hand-over file: all payers with a stored link, or a part.
type Handover struct {
	Connection string
	NotSent    bool          // only payers without a letter or hand-over
	Older      time.Duration // only payers with an unsigned link for that long; 0 for all
	Lost       bool          // instead, payers with a lost link
	Limit      int           // 0 for no limit
	Valid      time.Duration // how long a link works; 0 if unknown
	Why        string        // the person's own words, for the audit log; may be blank
}

// String describes the choice, for the audit log.
func (h Handover) String() string {
	var parts []string
	if h.Connection != "" {
		parts = append(parts, "connection "+h.Connection)
	}
	if h.NotSent {
		parts = append(parts, "not invited")
	}
	if h.Older > 0 {
		parts = append(parts, fmt.Sprintf("older than %d days", int(h.Older/(24*time.Hour))))
	}
	if h.Lost {
		parts = append(parts, "link lost")
	}
	if parts == nil {
		return "all"
	}
	return strings.Join(parts, ", ")
}

// HandoverRow is a row of a hand-over file: a payer yet to sign, and the link.
type HandoverRow struct {
	Number     string                  `json:"number"`
	Name       string                  `json:"name"`
	Contact    string                  `json:"contact"`
	Email      string                  `json:"email"`
	Phone      string                  `json:"phone"`
	Language   string                  `json:"language"`
	Status     connector.MandateStatus `json:"status"`
	Link       string                  `json:"link"` // blank if lost
	LinkSince  time.Time               `json:"link_since,omitzero"`
	Days       int                     `json:"days"`              // the mandate's wait in days
	Sent       time.Time               `json:"sent,omitzero"`     // when the link was sent first
	Reminded   time.Time               `json:"reminded,omitzero"` // when it was sent last, if more than once
	Next       string                  `json:"next"`
	Note       string                  `json:"note"`
	Connection string                  `json:"connection"`
	MandateID  string                  `json:"mandate_id"`

	source string // the record's id
}

// HandoverFile is a hand-over file noted in the audit log.
type HandoverFile struct {
	More bool // there are more than the limit

	ledger  *state.Ledger
	of      Handover
	at      time.Time
	records []state.RecordID // the records on the list then
}

// MakeHandover selects the payers of a hand-over file, and keeps only their ids. It notes the requester and the number
// in the audit log before anybody can see a link.
func MakeHandover(ctx context.Context, ledger *state.Ledger, h Handover, actor string) (*HandoverFile, error) {
	file := &HandoverFile{ledger: ledger, of: h, at: ledger.Now()}
	err := ledger.EachReadiness(ctx, h.Connection, func(f state.ReadinessFacts) error {
		if _, takes := file.row(f); !takes {
			return nil
		}
		if h.Limit > 0 && len(file.records) == h.Limit {
			file.More = true
			return errEnough
		}
		file.records = append(file.records, f.RecordID)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if err := ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: actor, Action: "write hand-over file",
			Subject: connector.Plural(len(file.records), "mandate"), Reason: strings.TrimSuffix(h.String()+": "+h.Why, ": ")})
	}); err != nil {
		return nil, err
	}
	return file, nil
}

// errEnough ends a reading early.
var errEnough = errors.New("enough was read")

// Each passes the rows of the file, with their links, to do: each in its current state, without payers gone from the
// list since.
func (file *HandoverFile) Each(ctx context.Context, do func(HandoverRow) error) error {
	return file.ledger.EachReadinessOf(ctx, file.records, func(f state.ReadinessFacts) error {
		r, takes := file.row(f)
		if !takes {
			return nil
		}
		if err := r.complete(ctx, file.ledger, file.of.Lost); err != nil {
			return err
		}
		return do(r)
	})
}

// row returns the row of a record but for its link, and whether it is on the list.
func (file *HandoverFile) row(f state.ReadinessFacts) (HandoverRow, bool) {
	f = readiness.WithoutExpired(f, file.at, file.of.Valid)
	s := readiness.Of(f, file.at)
	if !file.of.takes(f, s, file.at) {
		return HandoverRow{}, false
	}
	return handoverRow(f, s, file.at), true
}

func (h Handover) takes(f state.ReadinessFacts, s readiness.Assessment, now time.Time) bool {
	switch {
	case h.Lost:
		return s.Step == readiness.LinkLost && readiness.IsPayer(f)
	case !readiness.CanBeInvited(f):
		return false
	}
	return (!h.NotSent || s.Step == readiness.NotSent) && now.Sub(s.Since) >= h.Older
}

func handoverRow(f state.ReadinessFacts, s readiness.Assessment, now time.Time) HandoverRow {
	r := HandoverRow{Number: f.Key.Value, Status: f.Mandate.Status, Days: s.Days(now), Sent: readiness.FirstSent(f),
		Next: next(s), Note: note(s),
		Connection: f.Connection, MandateID: f.Mandate.ID, source: f.SourceID}
	if f.Label != nil {
		r.Name, r.Contact, r.Email, r.Language = f.Label.Name, f.Label.Contact, f.Label.Email, f.Label.Language
	}
	if s.Step != readiness.LinkLost {
		r.LinkSince = f.Mandate.LinkAt
	}
	if readiness.Times(f) > 1 {
		r.Reminded = readiness.LastSent(f)
	}
	return r
}

// next names the next step of a row in a few words.
func next(s readiness.Assessment) string {
	switch s.Step {
	case readiness.NotSent:
		return "Send the signing link."
	case readiness.LinkLost:
		return "Fetch the signing link."
	}
	return s.Cure
}

func note(s readiness.Assessment) string {
	switch s.Step {
	case readiness.LinkLost:
		return s.Sentence + " " + s.Cure
	case readiness.Bounced, readiness.Stopped:
		return strings.TrimSpace(s.Sentence + " " + s.Note)
	}
	return s.Note
}

// complete adds the link, and the customer's values from us about the person at the address: the telephone, and the
// name if the label has none.
func (r *HandoverRow) complete(ctx context.Context, ledger *state.Ledger, lost bool) (err error) {
	if !lost {
		if r.Link, err = ledger.SigningLink(ctx, r.MandateID); err != nil {
			return err
		}
	}
	p, err := ledger.Payer(ctx, r.Connection, r.source)
	if err != nil || p.Applied == nil {
		return err
	}
	for _, person := range p.Applied.People {
		if r.Email != "" && !strings.EqualFold(person.Email, r.Email) {
			continue
		}
		r.Phone = person.Phone
		r.Contact = cmp.Or(r.Contact, person.Name, strings.TrimSpace(person.FirstName+" "+person.LastName))
		break
	}
	return nil
}
