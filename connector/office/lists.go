package office

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"payersync/state"
)

// Lists lists the records of all sources. It is safe for concurrent use.
type Lists struct {
	Ledger *state.Ledger

	names names
	parts parts[Lists]
}

// Only returns the lists of a ledger that shows some connections alone.
func (l *Lists) Only(ledger *state.Ledger, connections []string) *Lists {
	return l.parts.of(connections, func() *Lists { return &Lists{Ledger: ledger} })
}

// ByName is the order of names as they are compared in a search; records without one come
// last. It is the only order that takes all names into memory.
const ByName state.RecordSort = "name"

// MostFound is how many records a search gives: who has found more narrows it.
const MostFound = 500

// Query says which records are listed, and in which order.
type Query struct {
	state.RecordFilter
	Text string // words that must all occur in the number, the name, the e-mail address or an id; "" for all
}

// Page is a piece of a list.
type Page struct {
	Rows   []state.RecordRow
	More   bool // there are rows after these
	Cut    bool // because a search gives no more than MostFound
	Sealed bool // the names are left out: the ledger was opened without its key
	Bare   int  // records of which no name was made yet, among these rows, or among all that were searched
}

// ErrSealed means that a search or an order by name needs the sealing key.
var ErrSealed = errors.New("the names are sealed, and the sealing key is not here")

// Page returns the records of a query. A limit of 0 means no limit, but for a search.
func (l *Lists) Page(ctx context.Context, q Query) (Page, error) {
	f := q.RecordFilter
	byText := q.Text != ""
	if byText && (f.Limit == 0 || f.Limit > MostFound) {
		f.Limit = MostFound
	}
	limit := f.Limit
	if limit > 0 {
		f.Limit++ // one more tells whether there are more
	}
	rows, bare, err := l.rows(ctx, f, q.Text)
	if err != nil {
		return Page{}, err
	}
	p := Page{Rows: rows, Sealed: l.Ledger.Sealed(), Bare: bare}
	if p.More = limit > 0 && len(rows) > limit; p.More {
		p.Rows, p.Cut = rows[:limit], byText && limit == MostFound
	}
	if !byText && !p.Sealed {
		for _, r := range p.Rows {
			if r.Label == nil {
				p.Bare++
			}
		}
	}
	return p, nil
}

// rows returns the rows of a query; of a search also how many records have no name yet.
func (l *Lists) rows(ctx context.Context, f state.RecordFilter, text string) (rows []state.RecordRow, bare int, err error) {
	if text == "" && f.Sort != ByName {
		rows, err = l.Ledger.Records(ctx, f)
		return rows, 0, err
	}
	if l.Ledger.Sealed() {
		return nil, 0, ErrSealed
	}
	found, labels, err := l.names.find(ctx, l.Ledger, text, f.Sort == ByName)
	if err != nil {
		return nil, 0, err
	}
	if text == "" {
		rows, err = l.byName(ctx, f, found)
		return rows, 0, err
	}
	if found, err = l.withID(ctx, found, text); err != nil {
		return nil, 0, err
	}
	if f.Sort == "" || f.Sort == state.ByRecord || f.Sort == ByName {
		rows, err = l.inOrder(ctx, f, found)
	} else {
		f.Among = found
		rows, err = l.Ledger.Records(ctx, f)
	}
	if err != nil {
		return nil, 0, err
	}
	n, err := l.Ledger.AllRecords(ctx)
	return rows, n - labels, err
}

// withID returns the records with those that the text names by an id, in their place.
func (l *Lists) withID(ctx context.Context, records []state.RecordID, text string) ([]state.RecordID, error) {
	named, err := l.Ledger.FindRecords(ctx, text)
	for _, id := range named {
		if slices.Contains(records, id) {
			continue
		}
		at, _ := slices.BinarySearchFunc(records, id, compare)
		records = slices.Insert(records, at, id)
	}
	return records, err
}

// byName returns the rows of records that come by name, and then of those that were never named.
func (l *Lists) byName(ctx context.Context, f state.RecordFilter, named []state.RecordID) ([]state.RecordRow, error) {
	rows, err := l.inOrder(ctx, f, named)
	if err != nil || f.Limit > 0 && len(rows) == f.Limit {
		return rows, err
	}
	bare, err := l.Ledger.Records(ctx, afterNamed(f, len(rows)))
	return append(rows, bare...), err
}

// afterNamed returns the filter for the records of which no name was made: they come after
// the n rows of those that have one.
func afterNamed(f state.RecordFilter, n int) state.RecordFilter {
	f.Bare, f.Sort = true, state.ByRecord
	if f.After != nil && f.After.Label != nil {
		f.After = nil
	}
	if f.Limit > 0 {
		f.Limit -= n
	}
	return f
}

// step is how many records are looked up at a time where there is no limit.
const step = 500

// inOrder returns the rows of records in their order, as far as the filter lets them through.
func (l *Lists) inOrder(ctx context.Context, f state.RecordFilter, records []state.RecordID) ([]state.RecordRow, error) {
	switch {
	case f.After != nil && f.After.Label == nil:
		return nil, nil
	case f.After != nil:
		at := slices.Index(records, f.After.ID())
		if at < 0 {
			return nil, fmt.Errorf("the list has changed: record %s is in it no more; begin again at its first page", f.After.SourceID)
		}
		records = records[at+1:]
	}
	limit := f.Limit
	f.After, f.Limit, f.Sort = nil, 0, state.ByRecord
	rows := []state.RecordRow{}
	for some := range slices.Chunk(records, cmp.Or(limit, step)) {
		f.Among = some
		found, err := l.Ledger.Records(ctx, f)
		if err != nil {
			return nil, err
		}
		by := make(map[state.RecordID]state.RecordRow, len(found))
		for _, r := range found {
			by[r.ID()] = r
		}
		for _, id := range some {
			if r, ok := by[id]; ok {
				if rows = append(rows, r); len(rows) == limit {
					return rows, nil
				}
			}
		}
	}
	return rows, nil
}
