package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"payersync/connector"
	"payersync/state"
)

// Lists lists the records of all sources. It is safe for concurrent use.
type Lists struct {
	Ledger *state.Ledger
	Once   bool // a single search, not worth storing the names for

	names names
	parts parts[Lists]
}

// LimitedTo returns the lists of a ledger limited to some connections. They are closed with these.
func (l *Lists) LimitedTo(ledger *state.Ledger, connections []string) *Lists {
	return l.parts.of(connections, func() *Lists {
		part := &Lists{Ledger: ledger}
		if l.names.ahead.isClosed() {
			part.Close()
		}
		return part
	})
}

// Prepare begins to load the names in the background, so that the first search need not wait for all of them.
func (l *Lists) Prepare(ctx context.Context) { l.names.prepare(ctx, l.Ledger) }

// Close ends the loading of names. Close the lists before their ledger.
func (l *Lists) Close() {
	l.names.ahead.close()
	l.parts.each((*Lists).Close)
}

// ByName is the order of folded names; records without a name come last. No other order loads all names into memory.
const ByName state.RecordSort = "name"

// MostFound is the maximum number of search results.
const MostFound = 500

// Query selects and orders the listed records.
type Query struct {
	state.RecordFilter
	Text string // words that must all occur in the number, the name, the e-mail address or an id; "" for all
}

// Page is a piece of a list.
type Page struct {
	Rows   []state.RecordRow
	More   bool // there are rows after these
	Cut    bool // a search found more than MostFound, and gives the first of them
	Sealed bool // the names are left out: the ledger was opened without its key
	Bare   int  // records still without a name, among these rows or all searched ones
}

// ErrSealed means a search or an order by name needs the sealing key.
var ErrSealed = errors.New("the names are sealed, and the sealing key is not here")

// Page returns the records of a query. A limit of 0 means no limit. A search covers the first MostFound results, by
// connection and id or by name.
func (l *Lists) Page(ctx context.Context, q Query) (Page, error) {
	if q.Text != "" {
		return l.search(ctx, q)
	}
	f := q.RecordFilter
	if f.Limit > 0 {
		f.Limit++ // one more tells whether there are more
	}
	records := l.Ledger.Records
	if f.Sort == ByName {
		records = l.byName
	}
	rows, err := records(ctx, f)
	if err != nil {
		return Page{}, err
	}
	return l.pageOf(rows, q.Limit), nil
}

// PageOfAll is how many rows of a list without a limit are read at a time: each as it is then.
const PageOfAll = 1000

// Each passes the page of a query to do. Without a limit and a text it passes several parts, and keeps only the ids of
// all rows in memory.
func (l *Lists) Each(ctx context.Context, q Query, do func(Page) error) error {
	all := q.Text == "" && q.Limit == 0
	if all && q.Sort != "" && q.Sort != state.ByRecord {
		return l.eachSorted(ctx, q.RecordFilter, do)
	}
	if all {
		q.Limit = PageOfAll
	}
	for {
		p, err := l.Page(ctx, q)
		if err == nil {
			err = do(p)
		}
		if err != nil || !all || !p.More {
			return err
		}
		q.After = &p.Rows[len(p.Rows)-1]
	}
}

// eachSorted is Each for an order without an index: it sorts once, using ids.
func (l *Lists) eachSorted(ctx context.Context, f state.RecordFilter, do func(Page) error) error {
	records, err := l.sorted(ctx, f)
	if err != nil {
		return err
	}
	for from := 0; from == 0 || from < len(records); from += PageOfAll {
		rows, err := l.inOrder(ctx, f, records[from:min(from+PageOfAll, len(records))])
		if err == nil {
			err = do(l.pageOf(rows, 0))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sorted returns the records in the filter's order. By name it may include records outside the filter.
func (l *Lists) sorted(ctx context.Context, f state.RecordFilter) ([]state.RecordID, error) {
	if f.Sort != ByName {
		return l.Ledger.RecordIDs(ctx, f)
	}
	named, err := l.named(ctx)
	if err != nil {
		return nil, err
	}
	bare, err := l.Ledger.RecordIDs(ctx, afterNamed(f, 0))
	return append(named, bare...), err
}

// named returns the records with a name, by name.
func (l *Lists) named(ctx context.Context) ([]state.RecordID, error) {
	if l.Ledger.Sealed() {
		return nil, ErrSealed
	}
	return l.find(ctx, Query{RecordFilter: state.RecordFilter{Sort: ByName}}, 0)
}

// pageOf returns as many rows as are wanted as a page; 0 is all.
func (l *Lists) pageOf(rows []state.RecordRow, limit int) Page {
	p := Page{Rows: rows, Sealed: l.Ledger.Sealed()}
	p.cut(limit)
	for _, r := range p.Rows {
		if r.Label == nil && !p.Sealed {
			p.Bare++
		}
	}
	return p
}

// cut leaves as many rows as are wanted; 0 is all.
func (p *Page) cut(limit int) {
	if p.More = limit > 0 && len(p.Rows) > limit; p.More {
		p.Rows = p.Rows[:limit]
	}
}

// search returns the page of a query with a text. The ledger first applies the filter to the results, then reads only
// the page.
func (l *Lists) search(ctx context.Context, q Query) (Page, error) {
	if l.Ledger.Sealed() {
		return Page{}, ErrSealed
	}
	f, most := q.RecordFilter, 0
	if !f.Narrows() && f.Sort != ByName {
		most = MostFound + 1 // more matches are not needed
	}
	found, err := l.find(ctx, q, most)
	if err != nil {
		return Page{}, err
	}
	if found, err = l.withID(ctx, found, q.Text); err != nil {
		return Page{}, err
	}
	if found, err = l.passing(ctx, f, found); err != nil {
		return Page{}, err
	}
	bare, err := l.Ledger.Unnamed(ctx)
	if err != nil {
		return Page{}, err
	}
	p := Page{Bare: bare, Cut: len(found) > MostFound}
	found = found[:min(len(found), MostFound)]
	if f.Limit > 0 {
		f.Limit++ // one more tells whether there are more
	}
	at := -1
	if f.After != nil {
		if at = slices.Index(found, f.After.ID()); at < 0 {
			return Page{}, moved(*f.After)
		}
	}
	switch {
	case len(found) == 0: // to Records, an Among of nobody is none
		p.Rows = []state.RecordRow{}
	case f.Sort == "" || f.Sort == ByName:
		f.After = nil
		p.Rows, err = l.inOrder(ctx, f, found[at+1:])
	default:
		f.Among = found
		p.Rows, err = l.Ledger.Records(ctx, f)
	}
	p.cut(q.Limit)
	return p, err
}

// find returns records with all words of a query in their name: at most most of them, 0 for all.
func (l *Lists) find(ctx context.Context, q Query, most int) ([]state.RecordID, error) {
	if l.Once {
		return lookThrough(ctx, l.Ledger, q.Text, q.Sort == ByName, most)
	}
	return l.names.find(ctx, l.Ledger, q.Text, q.Sort == ByName, most)
}

// passing returns the first records allowed by the filter, in their order: one more than MostFound if there are more.
func (l *Lists) passing(ctx context.Context, f state.RecordFilter, records []state.RecordID) ([]state.RecordID, error) {
	if !f.Narrows() {
		return records[:min(len(records), MostFound+1)], nil
	}
	var out []state.RecordID
	for some := range slices.Chunk(records, MostFound+1) {
		f.Among = some
		pass, err := l.Ledger.RecordsAmong(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, id := range some {
			if pass[id] {
				if out = append(out, id); len(out) > MostFound {
					return out, nil
				}
			}
		}
	}
	return out, nil
}

// moved is the error of a page after a place no longer in the list.
func moved(after state.RecordRow) error {
	return fmt.Errorf("the list has changed: record %s is in it no more; begin again at its first page", after.SourceID)
}

// withID adds the records identified by the text as an id, at their place.
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

// byName returns the rows of named records by name, then those of unnamed ones.
func (l *Lists) byName(ctx context.Context, f state.RecordFilter) ([]state.RecordRow, error) {
	named, err := l.named(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := l.inOrder(ctx, f, named)
	if err != nil || f.Limit > 0 && len(rows) == f.Limit {
		return rows, err
	}
	bare, err := l.Ledger.Records(ctx, afterNamed(f, len(rows)))
	return append(rows, bare...), err
}

// afterNamed returns the filter for unnamed records: they follow the n rows of named ones.
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

// inOrder returns the rows of records in their order, as far as the filter lets them through.
func (l *Lists) inOrder(ctx context.Context, f state.RecordFilter, records []state.RecordID) ([]state.RecordRow,
	error) {
	switch {
	case f.After != nil && f.After.Label == nil:
		return nil, nil
	case f.After != nil:
		at := slices.Index(records, f.After.ID())
		if at < 0 {
			return nil, moved(*f.After)
		}
		records = records[at+1:]
	}
	limit := f.Limit
	f.After, f.Limit, f.Sort = nil, 0, state.ByRecord
	rows := []state.RecordRow{}
	for some := range slices.Chunk(records, cmp.Or(limit, PageOfAll)) {
		f.Among = some
		found, err := l.Ledger.Records(ctx, f)
		if err != nil {
			return nil, err
		}
		by := connector.By(found, state.RecordRow.ID)
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
