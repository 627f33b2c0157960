package accountingtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// Trouble is a possible fault of a system's answers.
type Trouble struct {
	Name string // for example "access token expired" or "daily limit reached"

	// Begin lets it begin, best behind the first page of a read, and returns what
	// ends it.
	Begin func() (end func())

	Ends Ending // how a read in this trouble ends
}

// Ending is how a read in trouble must end: what is done about it hangs on the kind
// of its error.
type Ending string

// The endings. With Complete the source gets over it by itself; with all others the
// error must be of the kind.
const (
	Complete     Ending = "complete"
	Parked       Ending = "parked"       // an *accounting.Parked: nothing is asked before its time
	Disconnected Ending = "disconnected" // an *accounting.Disconnected: a person must mend it
	Unavailable  Ending = "unavailable"  // connector.FaultUnavailable: it may be well later
	Refused      Ending = "refused"      // connector.FaultRejected: the request itself is not taken
)

// check returns in what the error of a read is not of the kind.
func (e Ending) check(err error) error {
	var parked *accounting.Parked
	var disconnected *accounting.Disconnected
	ok := false
	switch e {
	case Parked:
		ok = errors.As(err, &parked) && !parked.Until.IsZero()
	case Disconnected:
		ok = errors.As(err, &disconnected) && disconnected.Reason != ""
	case Unavailable:
		ok = connector.FaultOf(err) == connector.FaultUnavailable
	case Refused:
		ok = connector.FaultOf(err) == connector.FaultRejected
	case Complete: // an error is none of it
	}
	if !ok {
		return fmt.Errorf("the read ended with %q; want its end to be %q", fmt.Sprint(err), e)
	}
	return nil
}

// editsPerPage is how many edits Lost and the checks make behind each page.
const editsPerPage = 20

// Lost reads the whole company while customers are edited behind every page, and returns how many customers
// the read missed. At first all have the same time of last edit, if the system has such times. A sound source
// loses none; a walk in the order of edits loses many.
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

// endsAtAFullDumpUnderFire keeps a copy by reads while the system changes behind every page, and compares it
// with the system at rest.
func endsAtAFullDumpUnderFire(ctx context.Context, c Company) error {
	random := rand.New(rand.NewPCG(5, 6))
	kept, since := map[string]connector.Record{}, time.Time{}
	for round := range 8 {
		c.pass(17 * time.Minute) // the overlap must not hide a walk's losses
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
	case t.Ends == Complete && got.err == nil:
		return equal(c.Truth(), got.records)
	case got.err == nil:
		return errors.New("the read ended as if it were complete")
	}
	return t.Ends.check(got.err)
}

// pass advances the system's time, if possible.
func (c Company) pass(d time.Duration) {
	if c.Pass != nil {
		c.Pass(d)
	}
}

// lasting returns the kept records without those deleted in the system and reported as deleted.
func (c Company) lasting(kept map[string]connector.Record) []connector.Record {
	truth := byID(c.Truth())
	return slices.DeleteFunc(values(kept), func(r connector.Record) bool {
		_, exists := truth[r.SourceID]
		return !exists && r.State == connector.RecordDeleted
	})
}

// hidesNobody removes customers before the page being read, alone and beside additions. All later ones may
// move one place forward. A read that ends as complete must return each of them exactly once.
func hidesNobody(ctx context.Context, c Company) error {
	for _, adds := range []bool{false, true} {
		order, err := complete(ctx, c, time.Time{})
		if err != nil {
			return err
		}
		served := 0
		c.Serve(func() {
			if served++; served > 2 {
				return
			}
			c.Leave(order[served].SourceID)
			if adds && c.Add != nil {
				c.Add()
			}
		})
		got := read(ctx, c.Source, time.Time{})
		c.Serve(nil)
		if err := errors.Join(got.err, got.violation); err != nil {
			return fmt.Errorf("read while customers leave: %w", err)
		}
		if err := missesNobody(order, c.Truth(), got.records); err != nil {
			return fmt.Errorf("while customers leave, and others are added: %t: %w", adds, err)
		}
	}
	return nil
}

// missesNobody checks that a read returns, once, every record there both before and after it.
func missesNobody(before, after, got []connector.Record) error {
	there, given := byID(after), map[string]string{}
	for _, r := range got {
		if hash := r.Hash(); given[r.SourceID] == hash {
			return fmt.Errorf("%s was given twice", r.SourceID)
		}
		given[r.SourceID] = r.Hash()
	}
	for _, r := range before {
		if _, ok := there[r.SourceID]; ok && given[r.SourceID] == "" {
			return fmt.Errorf("%s was there all the time, and the read ended as complete without it", r.SourceID)
		}
	}
	return nil
}

func lacksLeave(_ context.Context, c Company) string {
	return missing("lose customers under a read", c.Leave != nil && c.Serve != nil)
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
