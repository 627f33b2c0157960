package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"payersync/connector"
	"payersync/connector/readiness"
	"payersync/state"
)

// ReadinessCounts caches the states of all records at the last count. Counting runs in the background: callers get
// the last count with its time, and start the next. It is safe for concurrent use. Close it before its
// ledger.
type ReadinessCounts struct {
	Ledger *state.Ledger
	Wait   time.Duration // for the count after an action by a person; 0 means for as long as a small one takes

	counts snapshot[Count]
	valid  atomic.Int64
	parts  parts[ReadinessCounts]
}

// LimitedTo returns the counts of a ledger limited to some connections. They are closed with these.
func (s *ReadinessCounts) LimitedTo(ledger *state.Ledger, connections []string) *ReadinessCounts {
	return s.parts.of(connections, func() *ReadinessCounts {
		part := &ReadinessCounts{Ledger: ledger, Wait: s.Wait}
		if s.counts.isClosed() {
			part.Close()
		}
		return part
	})
}

// SetValid sets the validity of a link after its issue; 0, the default, means unknown.
func (s *ReadinessCounts) SetValid(valid time.Duration) {
	if s.valid.Swap(int64(valid)) != int64(valid) {
		s.counts.renew()
	}
}

// ErrCounting means the first count is still in progress.
var ErrCounting = errors.New("the records are being counted")

// Count is the state of all records at a time. It is immutable.
type Count struct {
	Report
	Desk
	Mandates map[connector.MandateStatus]int // payers by the status of their mandate; "" for none

	places []place // in their order
}

// place is the state of a record at the count.
type place struct {
	state.RecordID
	class    readiness.Class
	step     readiness.Stage
	who      readiness.Who
	since    time.Time
	replaced bool // its mandate is in the place of an earlier one
	acts     bool // somebody must act, or a mandate should have ended
	task     Task
}

// Latest returns the last count. It fails with ErrCounting while there is none yet.
func (s *ReadinessCounts) Latest(ctx context.Context) (*Count, error) {
	return s.counts.latest(ctx, s.Wait, s.count)
}

// AtHand is Latest for callers that do not wait for a count under way.
func (s *ReadinessCounts) AtHand(ctx context.Context) (*Count, error) {
	return s.counts.latest(ctx, -1, s.count)
}

func (s *ReadinessCounts) count(ctx context.Context) (*Count, error) {
	var signing []Signing
	var failed error
	var reading sync.WaitGroup
	reading.Go(func() { signing, failed = daysToSign(ctx, s.Ledger, "", s.Ledger.Now()) })
	c, err := CountNow(ctx, s.Ledger, time.Duration(s.valid.Load()))
	if reading.Wait(); err != nil || failed != nil {
		return nil, errors.Join(err, failed)
	}
	c.Signing = signing
	return c, nil
}

// Renew makes the next Latest count again after an action by a person.
func (s *ReadinessCounts) Renew() { s.counts.renew() }

// Close ends a count at work, and lets no other begin.
func (s *ReadinessCounts) Close() {
	s.counts.close()
	s.parts.each((*ReadinessCounts).Close)
}

// CountNow counts the states of all records. Its numbers equal those of MakeReport with fewer reads, but it does not
// count the days to sign. valid is the validity of a link after its issue, 0 if unknown.
func CountNow(ctx context.Context, ledger *state.Ledger, valid time.Duration) (*Count, error) {
	replacing, err := ledger.Replacing(ctx)
	if err != nil {
		return nil, err
	}
	c, g := &Count{Mandates: map[connector.MandateStatus]int{}}, gather(ledger)
	var desk error
	var reading sync.WaitGroup
	reading.Go(func() { c.Desk, desk = deskOf(ctx, ledger) })
	err = ledger.EachReadinessUnordered(ctx, func(f state.ReadinessFacts) error {
		if f.LinkState != "" {
			c.Mandates[f.Mandate.Status]++
		}
		f = readiness.WithoutExpired(f, g.At, valid)
		s := readiness.Of(f, g.At)
		g.add(s)
		c.places = append(c.places,
			place{f.RecordID, s.Class, s.Step, s.Who, s.Since, replacing[f.Mandate.ID], acts(s), taskOf(f, s)})
		return nil
	})
	slices.SortFunc(c.places, place.compare)
	reading.Wait()
	if err = errors.Join(err, desk); err != nil {
		return nil, err
	}
	g.Bare, err = ledger.Unnamed(ctx)
	c.Report = g.whole()
	return c, err
}

func acts(s readiness.Assessment) bool {
	return s.Who != readiness.Nobody || s.Class == readiness.LeftBehind
}

// compare orders by class like a report, then longest first.
func (p place) compare(o place) int {
	if p.class != o.class {
		return cmp.Compare(slices.Index(readiness.Classes, p.class), slices.Index(readiness.Classes, o.class))
	}
	if c := p.since.Compare(o.since); c != 0 {
		return c
	}
	return compare(p.RecordID, o.RecordID)
}

// Which selects records of a count. Zero fields select all.
type Which struct {
	Class      readiness.Class
	Step       readiness.Stage
	Who        readiness.Who // must act
	Task       Task
	Stage      Stage
	Connection string
	Days       int  // the minimum of days in the class
	Replaced   bool // only those with a replacing mandate
	Acts       bool // only those with a task for somebody, or with a mandate that should have ended
}

func (w Which) takes(p place, now time.Time) bool {
	return (w.Class == "" || p.class == w.Class) && w.Stage.Has(p.class, p.step) && (w.Step == "" || p.step == w.Step) &&
		(w.Who == "" || p.who == w.Who) && (w.Task == "" || p.task == w.Task) &&
		(w.Connection == "" || p.Connection == w.Connection) &&
		(!w.Replaced || p.replaced) && (!w.Acts || p.acts) && now.Sub(p.since) >= time.Duration(w.Days)*24*time.Hour
}

// Number returns how many records are meant.
func (c *Count) Number(w Which) (n int) {
	for _, p := range c.places {
		if w.takes(p, c.At) {
			n++
		}
	}
	return n
}

// ReadinessOfRecord is the present state of a record.
type ReadinessOfRecord struct {
	ReportRow
	Handover HandoverRow // without its link; for unsigned payers
}

// Page returns the selected records after a place in their current state; "" is the beginning. It omits records changed
// since the count. next is the place of the last one, "" if there are no more.
func (s *ReadinessCounts) Page(ctx context.Context, c *Count, w Which, after string, limit int) (rows []ReadinessOfRecord, next string,
	err error) {
	from := 0
	if p, ok := placeOf(after); ok {
		at, found := slices.BinarySearchFunc(c.places, p, place.compare)
		if from = at; found {
			from++
		}
	}
	now, valid := s.Ledger.Now(), time.Duration(s.valid.Load())
	n, last := 0, place{}
	for _, p := range c.places[from:] {
		if !w.takes(p, c.At) {
			continue
		}
		if n == limit {
			return rows, last.String(), nil
		}
		n, last = n+1, p
		f, err := s.Ledger.ReadinessOf(ctx, p.RecordID)
		if err != nil {
			return nil, "", err
		}
		if f == nil {
			continue
		}
		facts := readiness.WithoutExpired(*f, now, valid)
		row := ReadinessOfRecord{ReportRow: reportRow(facts, now)}
		if row.Class != p.class || w.Step != "" && row.Step != w.Step || w.Who != "" && row.Who != w.Who || w.Task != "" &&
			row.Task != w.Task || !w.Stage.Has(row.Class, row.Step) || w.Acts && !acts(row.Assessment) {
			continue
		}
		row.Handover = handoverRow(facts, row.Assessment, now)
		row.Handover.Number = row.Number
		rows = append(rows, row)
	}
	return rows, "", nil
}

// String returns the place for an address.
func (p place) String() string {
	return fmt.Sprintf("%s.%d.%s/%s", p.class, p.since.UnixMilli(), p.Connection, p.SourceID)
}

// placeOf reads a place of an address.
func placeOf(text string) (place, bool) {
	class, rest, _ := strings.Cut(text, ".")
	at, id, _ := strings.Cut(rest, ".")
	millis, err := strconv.ParseInt(at, 10, 64)
	connection, source, ok := strings.Cut(id, "/")
	return place{RecordID: state.RecordID{Connection: connection, SourceID: source}, class: readiness.Class(class),
		since: time.UnixMilli(millis).UTC()}, err == nil && ok
}
