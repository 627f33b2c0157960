package accountingtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"payersync/connector"
)

// Trouble is something that a system's answers may suffer.
type Trouble struct {
	Name string // for example "access token expired" or "daily limit reached"

	// Begin lets it begin, best behind the first page of a read, and returns what
	// ends it.
	Begin func() (end func())

	// Passes says that a source gets over it by itself: the read is complete. Else
	// the read must end with an error.
	Passes bool
}

// editsPerPage is how many edits Lost and the checks make behind each page.
const editsPerPage = 20

// Lost reads the company whole while customers are edited behind every page, all
// of them with the same time of last edit at first where the system has such
// times, and returns how many of its customers the read did not give. A sound
// source loses none; a walk in the order of edits loses many.
func Lost(ctx context.Context, c Company) (lost int, err error) {
	before := c.Truth()
	ids := make([]string, len(before))
	for i, r := range before {
		ids[i] = r.SourceID
	}
	if c.Tie != nil {
		c.Tie(ids)
	}
	random := rand.New(rand.NewPCG(3, 4))
	c.Serve(func() {
		for range editsPerPage {
			c.Edit(ids[random.IntN(len(ids))])
		}
	})
	got := read(ctx, c.Source, time.Time{})
	c.Serve(nil)
	if err := errors.Join(got.err, got.violation); err != nil {
		return 0, fmt.Errorf("read under edits: %w", err)
	}
	seen := byID(got.records)
	for _, id := range ids {
		if _, ok := seen[id]; !ok {
			lost++
		}
	}
	return lost, nil
}

func losesNothing(ctx context.Context, c Company) error {
	total := len(c.Truth())
	lost, err := Lost(ctx, c)
	if err == nil && lost > 0 {
		err = fmt.Errorf("%d of %d customers were lost while others were edited", lost, total)
	}
	return err
}

// endsAtAFullDumpUnderFire keeps a copy by reads during which the system changes
// behind every page, and compares it with the system at rest.
func endsAtAFullDumpUnderFire(ctx context.Context, c Company) error {
	random := rand.New(rand.NewPCG(5, 6))
	kept, since := map[string]connector.Record{}, time.Time{}
	for round := range 8 {
		c.pass(17 * time.Minute) // what the overlap forgives must not hide what the walk loses
		started := c.cursor()
		if round < 7 {
			c.Serve(func() { c.change(random) })
		}
		records, err := complete(ctx, c, since)
		c.Serve(nil)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for _, r := range records {
			kept[r.SourceID] = r
		}
		since = started
	}
	if err := equal(c.Truth(), c.lasting(kept)); err != nil {
		return fmt.Errorf("copy kept by reads under changes: %w", err)
	}
	return nil
}

func seesAnErasure(ctx context.Context, c Company) error {
	id := c.Truth()[1].SourceID
	c.Erase(id)
	records, err := complete(ctx, c, time.Time{})
	if err != nil {
		return err
	}
	return equal(c.Truth(), records)
}

// outlivesTrouble goes through every trouble of the system: no read in trouble
// may end as if it were complete and not be, and the read after it is complete.
func outlivesTrouble(ctx context.Context, c Company) error {
	for _, t := range c.Troubles {
		end := t.Begin()
		got := read(ctx, c.Source, time.Time{})
		end()
		if err := t.judge(c, got); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		if err := readsTheTruth(ctx, c); err != nil {
			return fmt.Errorf("after %s: %w", t.Name, err)
		}
	}
	return nil
}

func (t Trouble) judge(c Company, got reading) error {
	switch {
	case got.violation != nil:
		return got.violation
	case t.Passes && got.err != nil:
		return fmt.Errorf("the source did not get over it: %w", got.err)
	case t.Passes:
		return equal(c.Truth(), got.records)
	case got.err == nil:
		return errors.New("the read ended as if it were complete")
	}
	return nil
}

// pass lets time pass in the system, where that can be done.
func (c Company) pass(d time.Duration) {
	if c.Pass != nil {
		c.Pass(d)
	}
}

// lasting returns the kept records but for those that the system no longer has
// and had reported as deleted.
func (c Company) lasting(kept map[string]connector.Record) []connector.Record {
	truth := byID(c.Truth())
	return slices.DeleteFunc(values(kept), func(r connector.Record) bool {
		_, exists := truth[r.SourceID]
		return !exists && r.State == connector.RecordDeleted
	})
}

func lacksServe(_ context.Context, c Company) string {
	return missing("change under a read", c.Serve != nil)
}

func lacksErase(_ context.Context, c Company) string {
	return missing("erase customers", c.Erase != nil)
}

func lacksTroubles(_ context.Context, c Company) string {
	return missing("be in trouble on demand", len(c.Troubles) > 0)
}
