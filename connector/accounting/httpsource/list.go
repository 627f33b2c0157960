package httpsource

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// maxRows bounds a page, as a multiple of the asked size.
const maxRows = 10

// listing is one read of the list.
type listing struct {
	source *Source
	reader *reader
	vars   map[string]any // of the next request
	next   string         // the address of the next page
	last   string         // the id before the next page, of a walk behind a key
	first  time.Time      // the system's time at the first page
	date   string         // the Date of the last answer
	total  int
	short  bool // the last page came before as many records as the system counts

	details map[[sha256.Size]byte]connector.Record // by the listed row, over all passes
}

const opList = "read customers"

// fetch reads page n, counted from 0.
func (l *listing) fetch(ctx context.Context, n int) (accounting.Sheet, error) {
	s, p := l.source, l.source.profile
	if n == 0 {
		l.next, l.last, l.short, l.vars["after"], l.vars["cursor"], l.vars["offset"] = "", "", false, nil, nil, 0
	}
	if l.short {
		return accounting.Sheet{},
			s.unusable(opList, fmt.Sprintf("it counts %d records, and its last page comes after %d", l.total, l.vars["offset"]))
	}
	if err := l.join(ctx); err != nil {
		return accounting.Sheet{}, err
	}
	l.vars["page"] = n
	req, err := l.request(ctx)
	if err != nil {
		return accounting.Sheet{}, s.unbuilt(opList, err)
	}
	a, err := s.ask(ctx, opList, req, string(p.file.List.Records), l.vars)
	l.date = a.Header.Get("Date")
	if l.first.IsZero() {
		if l.first = a.Date(); l.first.IsZero() {
			l.first = s.now()
		}
	}
	if errors.Is(err, errEmpty) {
		l.total = l.vars["offset"].(int)
		return accounting.Sheet{Last: true}, nil
	}
	if err != nil {
		return accounting.Sheet{}, err
	}
	if len(a.rows) > maxRows*s.size {
		return accounting.Sheet{},
			s.unusable(opList, fmt.Sprintf("it holds %d records, and %d were asked for", len(a.rows), s.size))
	}
	if err := l.refuse(a); err != nil {
		return accounting.Sheet{}, err
	}
	return l.sheet(ctx, a)
}

func (l *listing) request(ctx context.Context) (*http.Request, error) {
	if l.next != "" {
		return l.source.follow(ctx, l.source.profile.list, l.next, l.vars)
	}
	return l.source.build(ctx, l.source.profile.list, l.vars)
}

// refuse returns the error of an answer that proves nothing.
func (l *listing) refuse(a answer) error {
	for i, r := range l.source.profile.refuse {
		yes, err := r.is(a.env)
		if err != nil {
			return l.source.unusable(opList, err.Error())
		}
		if yes {
			return l.source.unusable(opList, l.source.profile.file.List.Refuse[i].Say)
		}
	}
	return nil
}

// sheet turns an answer into a page, and notes what leads to the next one.
func (l *listing) sheet(ctx context.Context, a answer) (sheet accounting.Sheet, err error) {
	sheet.Records = make([]connector.Record, len(a.rows))
	for i, raw := range a.rows {
		if l.source.profile.file.List.Detail == nil {
			sheet.Records[i] = l.reader.record(raw)
		} else if sheet.Records[i], err = l.detailed(ctx, raw); err != nil {
			return accounting.Sheet{}, err
		}
	}
	if sheet.Last, err = l.lead(a); err == nil {
		err = l.count(a)
	}
	if err == nil && l.source.profile.walk == Keyset {
		err = l.ascends(sheet.Records)
	}
	if err == nil && !sheet.Last && l.source.profile.after != nil {
		err = l.noteNextKey(a.rows)
	}
	l.vars["offset"] = l.vars["offset"].(int) + len(a.rows)
	if err != nil {
		return accounting.Sheet{}, l.source.unusable(opList, err.Error())
	}
	if l.short = sheet.Last && l.source.profile.total != nil && l.source.profile.after == nil &&
		l.vars["offset"].(int) < l.total; l.short {
		sheet.Last = false // what was read is good, and the read ends as incomplete
	}
	return sheet, nil
}

// lead notes the address or the cursor of the next page and says whether there is none.
func (l *listing) lead(a answer) (last bool, err error) {
	p := l.source.profile
	if p.next != nil {
		v, err := p.next.run(a.env)
		if err != nil {
			return false, err
		}
		l.next = wordsOf(v)
		if l.next == "" && v != nil && v != "" {
			return false, errors.New("the address of the next page is no text")
		}
	}
	ends := p.next == nil || l.next == ""
	if p.cursor != nil {
		if ends, err = l.noteCursor(a); err != nil {
			return false, err
		}
	}
	if p.last == nil {
		return ends, nil
	}
	if last, err = p.last.is(a.env); err == nil && !last && p.cursor != nil && ends {
		err = errors.New("it gives no cursor, and is not the last page")
	}
	return last, err
}

// noteCursor notes the cursor of the next page and says whether there is none.
func (l *listing) noteCursor(a answer) (ends bool, err error) {
	v, err := l.source.profile.cursor.run(a.env)
	if err != nil {
		return false, err
	}
	words := wordsOf(v)
	switch {
	case words == "" && v != nil && v != "":
		return false, errors.New("the cursor of the next page is no text")
	case words == "":
		v = nil
	case words == wordsOf(l.vars["cursor"]):
		return false, errors.New("the cursor of the next page is its own")
	}
	l.vars["cursor"] = v
	return words == "", nil
}

func (l *listing) count(a answer) error {
	if l.source.profile.total == nil {
		return nil
	}
	v, err := l.source.profile.total.run(a.env)
	if err != nil {
		return err
	}
	n, ok := v.(int)
	if !ok || n < 0 {
		return errors.New("it does not say how many records there are")
	}
	l.total = n
	return nil
}

// noteNextKey notes the key of the last record: the next page goes on behind it.
func (l *listing) noteNextKey(rows []json.RawMessage) error {
	if len(rows) == 0 {
		return errors.New("it is an empty page, and not the last")
	}
	if r := l.reader.record(rows[len(rows)-1]); r.SourceID == "" || r.SourceID == unnamed(rows[len(rows)-1]) {
		return errors.New("its last record has no id, so nothing leads to the next page")
	}
	key, err := l.source.profile.after.run(l.reader.env) // of the record read last
	if err != nil || key == nil {
		return errors.New("its last record has no key, so nothing leads to the next page")
	}
	l.vars["after"] = key
	return nil
}

// ascends checks that the ids of a walk behind a key go up. Otherwise a page could skip records.
func (l *listing) ascends(records []connector.Record) error {
	for i, r := range records {
		if isUnnamed(r) {
			continue
		}
		if l.last != "" && i == 0 && !less(l.last, r.SourceID) {
			return errors.New("its pages are not in the order of the ids, as the profile says they are")
		}
		l.last = r.SourceID
	}
	return nil
}

// less compares two ids: as numbers if both are whole numbers, else as texts, without the case of letters.
func less(a, b string) bool {
	x, isX := new(big.Int).SetString(a, 10)
	y, isY := new(big.Int).SetString(b, 10)
	if isX && isY {
		return x.Cmp(y) < 0
	}
	return a != b // the collation of texts and GUIDs differs between databases
}

func (l *listing) counted(context.Context) (int, error) { return l.total, nil }

func (l *listing) began() time.Time { return l.first }
