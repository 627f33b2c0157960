package writeback

import (
	"context"
	"fmt"

	"payersync/connector"
	"payersync/state"
)

// Shown is an item with the value of its field before and after the next run.
type Shown struct {
	Item
	Holds   *string // the present value; nil if it was not read
	Becomes *string // the new value; nil if the field was not read, or nothing is known to be written
}

// Show reads the fields of items, if the system supports reading, and finds what a run would write now. It writes
// nothing.
func (c Target) Show(ctx context.Context, ledger *state.Ledger, items []Item) ([]Shown, error) {
	out := connector.Map(items, func(i Item) Shown { return Shown{Item: i} })
	held, err := c.read(ctx, items)
	if held == nil || err != nil {
		return out, err
	}
	for n, i := range items {
		field, err := ledger.WritebackField(ctx, i.RecordID, c.SetupHash())
		if err != nil {
			return out, err
		}
		found, there := held[i.SourceID]
		if there {
			out[n].Holds = &found.Value
		}
		if i.Doing != Due && i.Doing != Waits && i.Doing != Later {
			continue
		}
		switch m := c.effectOn(i, field, found, there); {
		case m.refused != "":
			out[n].Why = m.refused
		case m.theirs:
			out[n].Why = "Somebody else changed the field since, so it is left to them."
		default:
			out[n].Becomes = &m.value
		}
	}
	return out, nil
}

// read returns the values of the fields; nil if they cannot be read.
func (c Target) read(ctx context.Context, items []Item) (map[string]connector.WrittenField, error) {
	reader, can := c.Writer.(Reader)
	if !can || len(items) == 0 {
		return nil, nil
	}
	held, err := reader.Read(ctx, connector.Map(items, func(i Item) string { return i.SourceID }))
	if err != nil {
		return nil, fmt.Errorf("read the fields: %w", err)
	}
	if held == nil {
		held = map[string]connector.WrittenField{}
	}
	return held, nil
}

// meeting is what a write does with the value that it finds in the field.
type meeting struct {
	refused string               // why the record cannot be written to; "" if it can
	field   state.WritebackField // with the value before our first write
	value   string               // the new value
	already bool                 // the field holds it
	theirs  bool                 // somebody else changed the field
}

// effectOn decides what a write does with the field's present value.
func (c Target) effectOn(i Item, field state.WritebackField, found connector.WrittenField, there bool) meeting {
	if why := closed(found, there); why != "" {
		return meeting{refused: why}
	}
	if field.Earlier == nil || i.Applied == connector.FieldNone &&
		(field.Holds == nil || *field.Holds == *field.Earlier) { // nothing of ours is in it
		field.Earlier, field.Holds = &found.Value, nil
	}
	m := meeting{field: field, value: c.Writer.Value(i.To, *field.Earlier)}
	m.already = found.Value == m.value
	m.theirs = !m.already && field.Holds != nil && found.Value != *field.Holds
	return m
}

// closed returns why a record cannot be written to; "" if it can.
func closed(found connector.WrittenField, there bool) string {
	switch {
	case !there:
		return "The record is not there any more."
	case found.Closed != "":
		return "The record cannot be written to: " + found.Closed + "."
	}
	return ""
}
