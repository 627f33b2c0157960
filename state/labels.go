package state

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"payersync/connector"
)

// NewLabel is a record's new label.
type NewLabel struct {
	SourceID string
	Label    connector.Label
	Keep     bool // only if it has none yet: the record no longer names the payer

	box    []byte // the label, sealed; nil until boxLabel
	digest string
}

// RecordID names a source record.
type RecordID struct {
	Connection string
	SourceID   string
}

// payer returns the payer of the record, with nothing but its id.
func (r RecordID) payer() Payer { return Payer{Connection: r.Connection, SourceID: r.SourceID} }

// labelForm precedes a label's mapping. It changes with the content of labels, so the next reading renews the
// old ones.
const labelForm = "2 "

// SaveLabels stores the labels of records, as this mapping version makes them. An equal label keeps
// its number, and also its row if the mapping is the same.
func (tx *Tx) SaveLabels(connection, mapping string, labels []NewLabel) error {
	if len(labels) == 0 {
		return nil
	}
	var last int64
	if err := tx.row([]any{&last}, "SELECT coalesce(max(number), 0) FROM labels"); err != nil {
		return fmt.Errorf("look for the newest label: %w", err)
	}
	for part := range untilRepeated(labels, func(n NewLabel) string { return n.SourceID }) {
		var keep, renew []any
		for _, n := range part {
			sealed, err := tx.l.boxLabel(connection, n)
			if err != nil {
				return err
			}
			last++
			rows := &renew
			if n.Keep {
				rows = &keep
			}
			*rows = append(*rows, last, n.SourceID, sealed.digest, sealed.box)
		}
		const into, row = "INSERT INTO labels AS b (connection, mapping, number, source_id, digest, label) VALUES ",
			"(?1, ?2, ?, ?, ?, ?)"
		if err := errors.Join(
			tx.insertRows(into, row, keep, " ON CONFLICT (connection, source_id) DO NOTHING", connection,
				labelForm+mappingTag(mapping)),
			tx.insertRows(into, row, renew,
				` ON CONFLICT (connection, source_id) DO UPDATE SET mapping = excluded.mapping, digest = excluded.digest,
			  number = CASE WHEN b.digest = excluded.digest THEN b.number ELSE excluded.number END,
			  label = CASE WHEN b.digest = excluded.digest THEN b.label ELSE excluded.label END
			WHERE b.mapping <> excluded.mapping OR b.digest <> excluded.digest`, connection,
				labelForm+mappingTag(mapping))); err != nil {
			return fmt.Errorf("save labels of records: %w", err)
		}
	}
	return nil
}

// boxLabel seals a label that is not sealed yet.
func (l *Ledger) boxLabel(connection string, n NewLabel) (*NewLabel, error) {
	if n.box != nil {
		return &n, nil
	}
	plain, err := json.Marshal(n.Label)
	if err != nil {
		return nil, fmt.Errorf("the label of record %s: %w", n.SourceID, err)
	}
	at := placeOfLabel(RecordID{connection, n.SourceID})
	n.box, n.digest = l.seal.box(plain, at), l.seal.digest(plain, at)
	return &n, nil
}

// digest returns a keyed hash of plain in its place: it reveals a change, and nothing about two rows.
func (s *sealer) digest(plain, place []byte) string {
	var text []byte
	for _, part := range [][]byte{place, plain} {
		text = append(append(strconv.AppendInt(text, int64(len(part)), 10), ' '), part...)
	}
	return hex.EncodeToString(s.sum(text)[:16])
}

func placeOfLabel(id RecordID) []byte { return place("labels", "label", id.Connection, id.SourceID) }

// openLabel returns the label in a box; nil where there is none, or no key to open it with.
func (l *Ledger) openLabel(id RecordID, box []byte) (*connector.Label, error) {
	if box == nil || l.seal.away != nil {
		return nil, nil
	}
	plain, err := l.seal.open(box, placeOfLabel(id))
	if err != nil {
		return nil, fmt.Errorf("the label of record %s: %w", id.SourceID, err)
	}
	if out := plainLabel(string(plain)); out != nil {
		return out, nil
	}
	out := new(connector.Label)
	if err := json.Unmarshal(plain, out); err != nil {
		return nil, fmt.Errorf("the label of record %s: %w", id.SourceID, err)
	}
	return out, nil
}

// plainLabel parses a stored label without escapes, the usual case; nil for any other. All labels
// are opened for a search, and reading them as any JSON would take most of the time.
func plainLabel(text string) *connector.Label {
	if strings.Contains(text, "\\") {
		return nil
	}
	var out connector.Label
	for rest, more := strings.CutPrefix(text, `{"`); more; rest, more = strings.CutPrefix(rest, `,"`) {
		name, value, _ := strings.Cut(rest, `":"`)
		if value, rest, more = strings.Cut(value, `"`); !more {
			return nil
		}
		value = strings.Clone(value) // who keeps one text of a label keeps no others
		switch name {
		case "number":
			out.Number = value
		case "name":
			out.Name = value
		case "email":
			out.Email = value
		case "contact":
			out.Contact = value
		case "language":
			out.Language = value
		default:
			return nil
		}
		if rest == "}" {
			return &out
		}
	}
	return nil
}

// Sealed reports whether labels stay sealed, because the ledger was opened without its key.
func (l *Ledger) Sealed() bool { return l.seal.away != nil }

// Unnamed counts the records without a label that can be opened: without its key a ledger knows no
// names.
func (l *Ledger) Unnamed(ctx context.Context) (int, error) {
	return single[int](l.queryRow(ctx,
		"SELECT (SELECT count(*) FROM source_records) - CASE WHEN ?1 = 1 THEN 0 ELSE (SELECT count(*) FROM labels) END",
		l.Sealed()))
}

// LabelRow is the label of a record.
type LabelRow struct {
	Made int64 // the label's number: higher than all earlier ones
	RecordID
	connector.Label
}

// EachLabel passes on the labels with a number above after, in the order in which they were made. A ledger
// without its key has none to give.
func (l *Ledger) EachLabel(ctx context.Context, after int64, do func(LabelRow) error) error {
	return l.eachLabel(ctx, "WHERE b.number > ? ORDER BY b.number", []any{after}, do)
}

// EachLabelInOrder is EachLabel of every label, by connection and source id.
func (l *Ledger) EachLabelInOrder(ctx context.Context, do func(LabelRow) error) error {
	return l.eachLabel(ctx, "ORDER BY b.connection, b.source_id", nil, do)
}

// LabelsOf returns the labels of these records, as far as there are any.
func (l *Ledger) LabelsOf(ctx context.Context, records []RecordID) (map[RecordID]connector.Label, error) {
	asked, err := json.Marshal(records)
	if err != nil {
		return nil, err
	}
	out := map[RecordID]connector.Label{}
	err = l.eachLabel(ctx, `JOIN json_each(?) j ON b.connection = j.value ->> 'Connection' AND b.source_id = j.value ->> 'SourceID'`, []any{string(asked)},
		func(r LabelRow) error { out[r.RecordID] = r.Label; return nil })
	return out, err
}

func (l *Ledger) eachLabel(ctx context.Context, which string, args []any, do func(LabelRow) error) error {
	if l.Sealed() {
		return nil
	}
	type row struct {
		LabelRow
		box []byte
	}
	return each(ctx, l, "SELECT b.number, b.connection, b.source_id, b.label FROM labels b "+which, args,
		func(r *row) []any { return []any{&r.Made, &r.Connection, &r.SourceID, &r.box} },
		func(r row) error {
			label, err := l.openLabel(r.RecordID, r.box)
			if err != nil {
				return err
			}
			r.Label = *label
			return do(r.LabelRow)
		})
}
