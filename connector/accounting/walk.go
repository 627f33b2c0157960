package accounting

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"

	"payersync/connector"
)

// Pager says how one listing is walked. Its lower bound is fixed before the walk
// and its order is one that an edit does not change, such as by id: then a
// customer that is edited meanwhile is met twice at worst, and never missed
// (sources.md section 1, rule 2).
type Pager struct {
	// Fetch returns page n of the listing, counted from 0. A page 0 begins a new
	// pass: what an adapter keeps between pages starts anew with it.
	Fetch func(ctx context.Context, n int) (Sheet, error)

	// Twice walks the listing again until a pass finds no id that is new. It is
	// for listings whose order may shift under the walk (fault F46).
	Twice bool

	MaxPages  int // of one pass; more is an error; 0 for 20,000
	MaxPasses int // with Twice; without an agreement by then it is an error; 0 for 6
}

// Sheet is one page as an adapter fetched it.
type Sheet struct {
	Records []connector.Record
	Last    bool // nothing comes after it
}

const (
	defaultMaxPages  = 20_000
	defaultMaxPasses = 6
)

// Walk yields every record of a listing: the union over its pages and passes. A
// record that comes again is yielded again only when it changed meanwhile. Two
// pages in a row that hold no id which is new to the pass are an error, since a
// listing that repeats itself never ends; so is one that is longer than
// MaxPages. Each page carries what it adds to the proof of a complete read. The
// sequence ends after the first error.
func Walk(ctx context.Context, p Pager) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		w := &walk{pager: p.withDefaults(), yield: yield, seen: map[string]sight{}}
		if err := w.passes(ctx); err != nil && !w.stopped {
			yield(connector.Page{}, err)
		}
	}
}

func (p Pager) withDefaults() Pager {
	if p.MaxPages <= 0 {
		p.MaxPages = defaultMaxPages
	}
	if p.MaxPasses <= 0 {
		p.MaxPasses = defaultMaxPasses
	}
	return p
}

// walk is one walk under way.
type walk struct {
	pager   Pager
	yield   func(connector.Page, error) bool
	seen    map[string]sight // by id, over all passes: all that is kept of a list that may be very long
	passed  int              // passes begun
	met     int              // ids of this pass
	stopped bool             // the consumer has enough
}

// sight is how a record was met last.
type sight struct {
	hash [sha256.Size]byte
	pass int
}

// passes walks the listing once, or until a pass finds no id that is new.
func (w *walk) passes(ctx context.Context) error {
	for n := 1; ; n++ {
		before := len(w.seen)
		if err := w.pass(ctx); err != nil || w.stopped {
			return err
		}
		switch {
		case !w.pager.Twice, n > 1 && len(w.seen) == before:
			return nil
		case n >= w.pager.MaxPasses:
			return unsettled("its list of customers changed in each of %d passes", n)
		}
	}
}

// pass walks the listing from its first page to its last.
func (w *walk) pass(ctx context.Context) error {
	w.passed, w.met = w.passed+1, 0
	stale := 0 // pages in a row without an id that is new to the pass
	for n := range w.pager.MaxPages {
		if err := ctx.Err(); err != nil {
			return err
		}
		sheet, err := w.pager.Fetch(ctx, n)
		if err != nil {
			return err
		}
		before := w.met
		page := w.page(sheet.Records)
		if n == 0 {
			page.Proof.Passes = 1
		}
		if !w.yield(page, nil) {
			w.stopped = true
			return nil
		}
		if sheet.Last {
			return nil
		}
		if stale++; w.met > before {
			stale = 0
		}
		if stale == 2 {
			return unsettled("pages %d and %d of its list of customers hold nothing that came not before", n, n+1)
		}
	}
	return unsettled("its list of customers does not end after %d pages", w.pager.MaxPages)
}

// page keeps the records that are new to the walk, or changed, and counts those
// that the pass met before.
func (w *walk) page(records []connector.Record) connector.Page {
	page := connector.Page{Proof: connector.Proof{Pages: 1}}
	for _, r := range records {
		last, known := w.seen[r.SourceID]
		now := sight{pass: w.passed}
		_, _ = hex.Decode(now.hash[:], []byte(r.Hash())) // it is the hex of a SHA-256
		w.seen[r.SourceID] = now
		if last.pass == now.pass {
			page.Proof.Repeats++
		} else {
			w.met++
		}
		if !known || last.hash != now.hash {
			page.Records = append(page.Records, r)
		}
	}
	return page
}

// unsettled is a listing that cannot be believed now and may be well later.
func unsettled(format string, args ...any) error {
	return &connector.RemoteError{
		Op: "read the accounting system", Fault: connector.FaultUnavailable, Detail: fmt.Sprintf(format, args...),
	}
}
