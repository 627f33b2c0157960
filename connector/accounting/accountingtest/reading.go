package accountingtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/accounting"
)

// overlap is subtracted from the start of a read to give the since of the next
// (accounting/README.md#the-position-is-the-start-of-the-run).
const overlap = 5 * time.Minute

func (c Company) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

func (c Company) cursor() time.Time { return c.now().Add(-overlap) }

func (c Company) held() int {
	if c.Held == nil {
		return 0
	}
	return c.Held()
}

// reading is what one read gave.
type reading struct {
	records   []connector.Record
	err       error // how the read ended
	violation error // something came after that
}

func read(ctx context.Context, s accounting.Source, since time.Time) reading {
	var got reading
	for page, err := range s.Customers(ctx, since) {
		switch {
		case got.err != nil:
			got.violation = fmt.Errorf("the sequence went on after its error %w", got.err)
			return got
		case err != nil:
			got.err = err
		default:
			got.records = append(got.records, page.Records...)
		}
	}
	return got
}

// complete returns the records of a read, after checking it for completeness and the rules.
func complete(ctx context.Context, c Company, since time.Time) ([]connector.Record, error) {
	got := read(ctx, c.Source, since)
	if err := errors.Join(got.err, got.violation); err != nil {
		return nil, fmt.Errorf("read since %v: %w", since, err)
	}
	for _, r := range got.records {
		if !lawful(r.State) {
			return nil, fmt.Errorf("record %s has the state %q, which is none of the record states", r.SourceID, r.State)
		}
	}
	return got.records, nil
}

func lawful(s connector.RecordState) bool {
	return slices.Contains([]connector.RecordState{connector.RecordActive, connector.RecordArchived,
		connector.RecordDeleted, connector.RecordMerged, connector.RecordUnknown}, s)
}

// find returns one record of a read.
func find(ctx context.Context, c Company, since time.Time, id string) (connector.Record, error) {
	records, err := complete(ctx, c, since)
	if err != nil {
		return connector.Record{}, err
	}
	r, ok := byID(records)[id]
	if !ok {
		return r, fmt.Errorf("%s changed, but the next read does not have it", id)
	}
	return r, nil
}

// after does a change to a customer and returns its record from the next read.
func after(ctx context.Context, c Company, id string, change func()) (connector.Record, error) {
	since := c.cursor()
	change()
	return find(ctx, c, since, id)
}

// byID returns records by their id; the last of several counts.
func byID(records []connector.Record) map[string]connector.Record {
	out := map[string]connector.Record{}
	for _, r := range records {
		out[r.SourceID] = r
	}
	return out
}

// fact is what counts when records are compared.
type fact struct {
	State      connector.RecordState
	MergedInto string
	Problem    string
	Data       any
}

// equal returns how two sets of records differ, nil when they do not.
func equal(want, got []connector.Record) error {
	wanted, err := facts(want)
	if err != nil {
		return fmt.Errorf("the truth: %w", err)
	}
	found, err := facts(got)
	if err != nil {
		return err
	}
	if diff := gocmp.Diff(wanted, found); diff != "" {
		return fmt.Errorf("records differ from the truth (-truth +read):\n%s", diff)
	}
	return nil
}

func facts(records []connector.Record) (map[string]fact, error) {
	out := map[string]fact{}
	for _, r := range records {
		decoder := json.NewDecoder(bytes.NewReader(r.Data))
		decoder.UseNumber()
		f := fact{State: r.State, MergedInto: r.MergedInto, Problem: r.Problem}
		if err := decoder.Decode(&f.Data); err != nil {
			return nil, fmt.Errorf("data of %s: %w", r.SourceID, err)
		}
		out[r.SourceID] = f
	}
	return out, nil
}

// wellFormed checks a declaration of fields.
func wellFormed(fields []connector.Field) error {
	names := map[string]bool{}
	for _, f := range fields {
		if f.Name == "" || names[strings.ToLower(f.Name)] {
			return fmt.Errorf("field %q is blank or declared twice", f.Name)
		}
		names[strings.ToLower(f.Name)] = true
		if scalar := startOf[f.Type] != ""; !scalar && f.Type != connector.TypeObject && f.Type != connector.TypeList {
			return fmt.Errorf("field %q has the type %q, which is none of the field types", f.Name, f.Type)
		}
		if f.Type == connector.TypeObject && len(f.Fields) == 0 {
			return fmt.Errorf("field %q is an object without fields", f.Name)
		}
		if err := wellFormed(f.Fields); err != nil {
			return fmt.Errorf("in %s: %w", f.Name, err)
		}
	}
	return nil
}

// startOf holds the possible first bytes of a scalar's JSON. A number's digits may stand for text: some
// systems print their ids so.
var startOf = map[connector.FieldType]string{
	connector.TypeText:   `"-0123456789`,
	connector.TypeNumber: "-0123456789",
	connector.TypeFlag:   "tf",
}

// conforms checks that data is one JSON object of declared fields.
func conforms(data json.RawMessage, fields []connector.Field) error {
	declared := map[string]connector.Field{}
	for _, f := range fields {
		declared[f.Name] = f
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return errors.Join(errors.New("it is not an object"), err)
	}
	seen := map[string]bool{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		name := key.(string) // a key of an object is nothing else
		field, ok := declared[name]
		if !ok || seen[name] {
			return fmt.Errorf("field %q is not declared or comes twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
		if err := fits(value, field); err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
	}
	return ends(decoder)
}

// ends checks the end of an object, without anything behind it.
func ends(decoder *json.Decoder) error {
	if _, err := decoder.Token(); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

// fits checks a value against its declaration; null fits every type.
func fits(value json.RawMessage, f connector.Field) error {
	if string(value) == "null" {
		return nil
	}
	switch f.Type {
	case connector.TypeObject:
		return conforms(value, f.Fields)
	case connector.TypeList:
		return listFits(value, f)
	}
	if !strings.ContainsRune(startOf[f.Type], rune(value[0])) {
		return fmt.Errorf("it is declared as %s, but is %.20s", f.Type, value)
	}
	return nil
}

// listFits checks a list: of objects when its elements' fields are declared, else
// of texts.
func listFits(value json.RawMessage, f connector.Field) error {
	var elements []json.RawMessage
	if err := json.Unmarshal(value, &elements); err != nil {
		return fmt.Errorf("it is declared as a list: %w", err)
	}
	element := connector.Field{Type: connector.TypeText}
	if len(f.Fields) > 0 {
		element = connector.Field{Type: connector.TypeObject, Fields: f.Fields}
	}
	for i, e := range elements {
		if err := fits(e, element); err != nil {
			return fmt.Errorf("element %d: %w", i+1, err)
		}
	}
	return nil
}

func values(records map[string]connector.Record) []connector.Record {
	return slices.SortedFunc(maps.Values(records),
		func(a, b connector.Record) int { return cmp.Compare(a.SourceID, b.SourceID) })
}
