package accounting

import (
	"context"
	"iter"
	"time"

	"payersync/connector"
)

// Census is what a system itself says about a listing. Both are asked for after
// a pass, when the system has answered.
type Census struct {
	Total func(ctx context.Context) (int, error) // how many customers the listing holds now
	Began func() time.Time                       // when the read began, by the system's clock
}

// WalkCounted walks like Walk and compares what it met with the system's own
// count. It is for listings whose order is believed to be stable and not promised
// to be: a pass that met fewer customers than there are is followed by another,
// until one meets no customer for the first time that was there, unchanged, when
// the read began. What was added or edited since belongs to the next read. Where
// the counts agree, nothing is read twice.
func WalkCounted(ctx context.Context, p Pager, c Census) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		met := map[string]bool{}
		for pass := 1; ; pass++ {
			late := 0 // customers met first in this pass, though they were there before
			for page, err := range Walk(ctx, p) {
				for _, r := range page.Records {
					if !met[r.SourceID] && r.UpdatedAt.Before(c.Began()) {
						late++
					}
					met[r.SourceID] = true
				}
				if !yield(page, err) || err != nil {
					return
				}
			}
			total, err := c.Total(ctx)
			switch {
			case err != nil:
				yield(connector.Page{}, err)
				return
			case len(met) >= total, pass > 1 && late == 0:
				return
			case pass == defaultMaxPasses:
				yield(connector.Page{}, unsettled("its list of customers changed in each of %d passes", pass))
				return
			}
		}
	}
}
