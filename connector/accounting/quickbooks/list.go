package quickbooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// listing is one read of the customers by query. The fields below first belong to one pass.
type listing struct {
	source *Source
	since  time.Time
	first  time.Time // QuickBooks' time at the first page

	met map[string]bool // ids
	at  int             // position of the last row
}

// fetch reads page n, counted from 0. Every page but the first begins with a row already met, so there is no
// gap. If the list moved up meanwhile, for example because a customer was merged, fetch goes back until it
// finds such a row. The list ends with a page without a new row.
func (l *listing) fetch(ctx context.Context, n int) (accounting.Sheet, error) {
	if n == 0 {
		l.met, l.at = map[string]bool{}, 1
	}
	records, err := l.page(ctx)
	for err == nil && n > 0 && l.at > 1 && (len(records) == 0 || !l.met[records[0].SourceID]) {
		l.at = max(1, l.at-max(1, l.source.config.PageSize-1))
		records, err = l.page(ctx)
	}
	if err != nil {
		return accounting.Sheet{}, err
	}
	before := len(l.met)
	for _, r := range records {
		l.met[r.SourceID] = true
	}
	l.at += max(0, len(records)-1)
	return accounting.Sheet{Records: records, Last: len(l.met) == before}, nil
}

// page reads the rows from the position on.
func (l *listing) page(ctx context.Context) ([]connector.Record, error) {
	said, a, err := l.source.query(ctx, l.statement(l.at))
	if err != nil {
		return nil, err
	}
	if l.first.IsZero() {
		l.first = a.Date()
	}
	return l.source.records(ctx, said.Customer)
}

// statement selects the customers from a position, with the inactive ones, omitted by QuickBooks otherwise.
// No edit changes the order.
func (l *listing) statement(start int) string {
	where := everybody
	if !l.since.IsZero() {
		where += " AND MetaData.LastUpdatedTime >= '" + l.since.UTC().Format(time.RFC3339) + "'"
	}
	return fmt.Sprintf("SELECT * FROM Customer WHERE %s ORDERBY Id STARTPOSITION %d MAXRESULTS %d", where, start,
		l.source.config.PageSize)
}

// total is the number of customers for a complete pass: those it met, because its pages overlap. An empty
// full read is trusted if QuickBooks counts nobody.
func (l *listing) total(ctx context.Context) (int, error) {
	if len(l.met) > 0 || !l.since.IsZero() {
		return 0, nil
	}
	said, a, err := l.source.query(ctx, "SELECT COUNT(*) FROM Customer WHERE "+everybody)
	if err == nil && said.TotalCount > 0 {
		err = a.unusable(fmt.Sprintf("it counts %d customers and lists none", said.TotalCount))
	}
	return 0, err
}

// everybody is a condition that includes inactive customers.
const everybody = "Active IN (true,false)"

// queried is the answer to a query.
type queried struct {
	Customer   []json.RawMessage
	TotalCount int `json:"totalCount"`
}

// query sends a statement. An answer without the envelope of a query is an
// error; one without customers is an empty list.
func (s *Source) query(ctx context.Context, statement string) (queried, answer, error) {
	var said struct{ QueryResponse *queried }
	a, err := s.get(ctx, ask{op: "read customers", path: "query", query: url.Values{"query": {statement}}})
	if err != nil {
		return queried{}, a, err
	}
	if err := a.decode(&said); err != nil {
		return queried{}, a, err
	}
	if said.QueryResponse == nil {
		return queried{}, a, a.unusable("it holds no query response")
	}
	return *said.QueryResponse, a, nil
}

// records turns rows into records. Sparse rows and tombstones are looked at
// again by their ids.
func (s *Source) records(ctx context.Context, rows []json.RawMessage) ([]connector.Record, error) {
	out := make([]connector.Record, 0, len(rows))
	for _, raw := range rows {
		r, h := s.record(raw)
		if h.Sparse || h.tombstone() {
			var err error
			if r, err = s.one(ctx, r.SourceID); err != nil {
				return nil, err
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// one reads a customer by its id. A missing one is deleted. A tombstone alone is no proof, since change data
// capture has shown tombstones of living customers.
func (s *Source) one(ctx context.Context, id string) (connector.Record, error) {
	var said struct{ Customer json.RawMessage }
	a, err := s.get(ctx, ask{op: "read one customer", path: "customer/" + url.PathEscape(id)})
	switch {
	case errors.Is(err, errGone):
		return deletedRecord(id), nil
	case err != nil:
		return connector.Record{}, err
	}
	if err := a.decode(&said); err != nil {
		return connector.Record{}, err
	}
	r, h := s.record(said.Customer)
	switch {
	case r.SourceID != id:
		return connector.Record{}, a.unusable("it is not the customer that was asked for")
	case h.tombstone():
		return deletedRecord(id), nil
	case h.Sparse:
		return spoilt(id, "QuickBooks gave only a part of the customer, so it cannot be told which fields are empty."), nil
	}
	return r, nil
}

// The limits of change data capture: how far back it sees, with a day to spare, and the number of objects
// from which its answer may be truncated.
const (
	captureWindow = 29 * 24 * time.Hour
	captureCap    = 1000
)

// changes reads the changes since a time by change data capture, in one request. whole is false if that is
// impossible, and the query is needed.
func (s *Source) changes(ctx context.Context, since time.Time) (page connector.Page, whole bool, err error) {
	if since.IsZero() || s.config.QueryOnly || s.now().Sub(since) > captureWindow {
		return page, false, nil
	}
	var said capture
	changed := url.Values{"entities": {"Customer"}, "changedSince": {since.UTC().Format(time.RFC3339)}}
	a, err := s.get(ctx, ask{op: "read changed customers", path: "cdc", query: changed})
	if err != nil {
		return page, false, err
	}
	if err := a.decode(&said); err != nil {
		return page, false, err
	}
	rows, err := said.rows()
	if err != nil {
		return page, false, a.unusable(err.Error())
	}
	if len(rows) >= captureCap {
		return page, false, nil
	}
	page.Records, err = s.records(ctx, rows)
	page.Proof = connector.Proof{Pages: 1, Passes: 1}
	return page, err == nil, err
}

// capture is an answer of change data capture.
type capture struct {
	CDCResponse []struct {
		QueryResponse []struct {
			Customer []json.RawMessage
			Fault    json.RawMessage
		}
	}
}

// rows returns the customers in the answer. An answer without a response, or with a fault in its place, is an
// error: it does not mean no changes.
func (c capture) rows() ([]json.RawMessage, error) {
	var out []json.RawMessage
	responses := 0
	for _, outer := range c.CDCResponse {
		for _, q := range outer.QueryResponse {
			if q.Fault != nil {
				return nil, errors.New("it holds a fault in place of changes")
			}
			out = append(out, q.Customer...)
			responses++
		}
	}
	if responses == 0 {
		return nil, errors.New("it holds no change data")
	}
	return out, nil
}
