package accounting

import (
	"context"
	"iter"
	"time"

	"payersync/connector"
)

// Census is a system's own count of a listing. Both are asked for after a pass, when the system has answered.
type Census struct {
	// how many customers the listing holds now; nil for a system that counts nothing
	Total func(ctx context.Context) (int, error)
	Began func() time.Time // when the read began, by the system's clock
}

// WalkCounted walks a listing with pages found by their position. If a customer leaves the listing before the
// page being read, all later ones move one place forward, and the walk misses one of them. The system's count
// then falls as well, or stays the same if another one was added. So neither a count nor a single pass proves
// a listing of several pages. WalkCounted repeats passes until one of these holds:
//
//   - nothing can be hidden between the pages: there is one, or they overlap; and
//     the pass met as many customers as the system counts;
//   - a pass met every customer of the pass before once more, so none of them had
//     left, and none for the first time that was unchanged since the read began.
//
// A pass with the same customer in two places proves nothing. Nor does an empty one if the system counts
// somebody. Customers added or edited since the read began belong to the next one. Records are yielded as by
// Walk, and those of further passes only when they are new or changed.
func WalkCounted(ctx context.Context, p Pager, c Census) iter.Seq2[connector.Page, error] {
	return walking(p, func(w *walk) error {
		w.began = c.Began
		for before := (passed{moved: true}); ; {
			if err := w.pass(ctx); err != nil || w.stopped {
				return err
			}
			total, err := c.total(ctx)
			if err != nil {
				return err
			}
			together := w.pages == 1 || w.pager.Overlaps
			switch {
			case together && !w.moved && w.met >= total:
				return nil
			case !before.moved && w.again == before.met && w.late == 0 && (w.met > 0 || total == 0):
				return nil
			case w.passed == w.pager.MaxPasses:
				return unsettled("its list of customers changed in each of %d passes", w.passed)
			}
			before = passed{met: w.met, moved: w.moved}
		}
	})
}

// total returns the system's count; 0 without one.
func (c Census) total(ctx context.Context) (int, error) {
	if c.Total == nil {
		return 0, nil
	}
	return c.Total(ctx)
}

// passed is a pass's result for the next one to confirm.
type passed struct {
	met   int  // ids
	moved bool // it proves nothing
}
