package accounting

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"time"

	"payersync/connector"
)

// Pager describes the walk of one listing. Its lower bound is fixed before the walk, and edits do not change
// its order, for example by id. Then a customer edited meanwhile is met twice at worst, and never missed
// (accounting/README.md#an-order-that-edits-leave-alone).
type Pager struct {
	// Fetch returns page n of the listing, counted from 0. A page 0 begins a new
	// pass: what an adapter keeps between pages starts anew with it.
	Fetch func(ctx context.Context, n int) (Sheet, error)

	// Overlaps promises that every page but the first begins with a customer already met: then none can be
	// hidden between two pages.
	Overlaps bool

	MaxPages  int // of one pass; more is an error; 0 for 20,000
	MaxPasses int // of WalkCounted; without a proof by then it is an error; 0 for 6
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

// Walk yields every record of a listing in one pass. It is for listings whose pages cannot skip a record,
// whatever is added or removed meanwhile: those continued behind an id, or read from a snapshot. A repeated
// record is yielded again only if it changed meanwhile. Two pages in a row without a new id are an error,
// since a repeating listing never ends; so is a listing longer than MaxPages. Each page carries its part of
// the proof of a complete read. The sequence ends after the first error.
func Walk(ctx context.Context, p Pager) iter.Seq2[connector.Page, error] {
	return walking(p, func(w *walk) error { return w.pass(ctx) })
}

// walking yields the pages of steps.
func walking(p Pager, steps func(*walk) error) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		w := &walk{pager: p.withDefaults(), yield: yield, seen: map[string]met{}}
		if err := steps(w); err != nil && !w.stopped {
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
	seen    map[string]met   // by id, over all passes: the only data kept of a possibly very long list
	began   func() time.Time // when the read began; nil if not needed
	passed  int              // passes begun
	stopped bool             // the consumer has enough

	// The pass under way.
	pages int
	met   int  // ids
	again int  // ids also met by the pass before
	late  int  // ids met for the first time in a later pass, although they were there unchanged when the read began
	moved bool // an id was met in two places
}

// met is how a record was met last.
type met struct {
	hash [sha256.Size]byte
	pass int
}

// pass walks the listing from its first page to its last.
func (w *walk) pass(ctx context.Context) error {
	w.passed++
	w.pages, w.met, w.again, w.late, w.moved = 0, 0, 0, 0, false
	stale := 0 // pages in a row without a new id
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

// page keeps the records new to the walk, or changed, and counts the repeated ones. A page may begin with
// repeated ones: customers added meanwhile push others on. Anywhere else they have moved.
func (w *walk) page(records []connector.Record) connector.Page {
	page := connector.Page{Proof: connector.Proof{Pages: 1}}
	w.pages++
	before := w.met
	for _, r := range records {
		last, known := w.seen[r.SourceID]
		now := met{pass: w.passed}
		_, _ = hex.Decode(now.hash[:], []byte(r.Hash())) // it is the hex of a SHA-256
		w.seen[r.SourceID] = now
		switch {
		case last.pass == now.pass:
			page.Proof.Repeats++
			w.moved = w.moved || w.met > before
		case known && last.pass == now.pass-1:
			w.met++
			w.again++
		default:
			w.met++
			if w.passed > 1 && !known && w.began != nil && r.UpdatedAt.Before(w.began()) {
				w.late++
			}
		}
		if !known || last.hash != now.hash {
			page.Records = append(page.Records, r)
		}
	}
	return page
}

// unsettled returns an error for a listing that is unreliable now, but may be right later.
func unsettled(format string, args ...any) error {
	return &connector.RemoteError{
		Op: "read the accounting system", Fault: connector.FaultUnavailable, Detail: fmt.Sprintf(format, args...),
	}
}
