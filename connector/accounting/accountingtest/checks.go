package accountingtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"payersync/connector"
)

// patience is how long a source may take to notice a cancelled context.
const patience = 5 * time.Second

func describesItself(ctx context.Context, c Company) error {
	first, err := c.Source.Describe(ctx)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	second, err := c.Source.Describe(ctx)
	if err != nil {
		return fmt.Errorf("describe again: %w", err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		return fmt.Errorf("two descriptions differ (-first +second):\n%s", diff)
	}
	if first.Kind == "" {
		return errors.New("the description has no kind")
	}
	return wellFormed(first.Fields)
}

func holdsDeclaredFields(ctx context.Context, c Company) error {
	info, err := c.Source.Describe(ctx)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	records, err := complete(ctx, c, time.Time{})
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := conforms(r.Data, info.Fields); err != nil {
			return fmt.Errorf("data of %s: %w", r.SourceID, err)
		}
	}
	return nil
}

func givesIDs(ctx context.Context, c Company) error {
	info, err := c.Source.Describe(ctx)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	records, err := complete(ctx, c, time.Time{})
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, r := range records {
		if strings.TrimSpace(r.SourceID) == "" {
			return fmt.Errorf("the record at %q has a blank id", r.Origin)
		}
		if info.Snapshot && seen[r.SourceID] {
			return fmt.Errorf("id %s comes twice in one snapshot", r.SourceID)
		}
		seen[r.SourceID] = true
	}
	return nil
}

func readsTheTruth(ctx context.Context, c Company) error {
	records, err := complete(ctx, c, time.Time{})
	if err != nil {
		return err
	}
	return equal(c.Truth(), records)
}

func ignoresSince(ctx context.Context, c Company) error {
	records, err := complete(ctx, c, c.now().Add(time.Hour))
	if err != nil {
		return err
	}
	return equal(c.Truth(), records)
}

func seesAnEdit(ctx context.Context, c Company) error {
	before := c.Truth()[1]
	r, err := after(ctx, c, before.SourceID, func() { c.Edit(before.SourceID) })
	if err != nil {
		return err
	}
	if equal([]connector.Record{before}, c.Truth()[1:2]) == nil {
		return fmt.Errorf("the harness changed nothing of %s", before.SourceID)
	}
	return equal(c.Truth()[1:2], []connector.Record{r})
}

func seesAnAddition(ctx context.Context, c Company) error {
	since := c.cursor()
	id := c.Add()
	r, err := find(ctx, c, since, id)
	if err != nil {
		return err
	}
	return equal([]connector.Record{byID(c.Truth())[id]}, []connector.Record{r})
}

func reportsArchived(ctx context.Context, c Company) error {
	id := c.Truth()[1].SourceID
	return reports(ctx, c, connector.Record{SourceID: id, State: connector.RecordArchived}, func() { c.Archive(id) })
}

func reportsDeleted(ctx context.Context, c Company) error {
	id := c.Truth()[1].SourceID
	return reports(ctx, c, connector.Record{SourceID: id, State: connector.RecordDeleted}, func() { c.Delete(id) })
}

func reportsMerged(ctx context.Context, c Company) error {
	loser, survivor := c.Truth()[1].SourceID, c.Truth()[2].SourceID
	want := connector.Record{SourceID: loser, State: connector.RecordMerged, MergedInto: survivor}
	return reports(ctx, c, want, func() { c.Merge(loser, survivor) })
}

// reports makes a change and compares the record's state in the next read.
func reports(ctx context.Context, c Company, want connector.Record, change func()) error {
	r, err := after(ctx, c, want.SourceID, change)
	if err != nil {
		return err
	}
	if r.State != want.State || r.MergedInto != want.MergedInto {
		return fmt.Errorf("%s is reported as %q into %q, want %q into %q", r.SourceID, r.State, r.MergedInto, want.State,
			want.MergedInto)
	}
	return nil
}

func hashesAlike(ctx context.Context, c Company) error {
	before, err := complete(ctx, c, time.Time{})
	if err != nil {
		return err
	}
	edited := c.Truth()[0].SourceID
	c.Edit(edited)
	after, err := complete(ctx, c, time.Time{})
	if err != nil {
		return err
	}
	old := byID(before)
	for id, r := range byID(after) {
		if alike := r.Hash() == old[id].Hash(); alike == (id == edited) {
			return fmt.Errorf("hash of %s: equal %t, edited %t", id, alike, id == edited)
		}
	}
	return nil
}

func isolatesABadRecord(ctx context.Context, c Company) error {
	id := c.Truth()[1].SourceID
	c.Spoil(id)
	records, err := complete(ctx, c, time.Time{})
	if err != nil {
		return fmt.Errorf("a bad record stopped the read: %w", err)
	}
	var good []connector.Record
	problems := 0
	for _, r := range records {
		switch {
		case r.Problem != "":
			problems++
		case r.SourceID == id:
			return fmt.Errorf("the record of %s is spoilt, but comes without a problem", id)
		default:
			good = append(good, r)
		}
	}
	if problems != 1 {
		return fmt.Errorf("one record is spoilt, but %d come with a problem", problems)
	}
	return equal(c.Truth(), good)
}

func failsVisibly(ctx context.Context, c Company) error {
	truth := byID(c.Truth())
	mend := c.Break()
	got := read(ctx, c.Source, time.Time{})
	mend()
	if got.violation != nil {
		return got.violation
	}
	if got.err == nil {
		return errors.New("the system failed, but the read ended as if it were complete")
	}
	for _, r := range got.records {
		if _, exists := truth[r.SourceID]; !exists && r.Problem == "" {
			return fmt.Errorf("the failing read gave a record %s that does not exist", r.SourceID)
		}
	}
	return readsTheTruth(ctx, c)
}

func obeysItsContext(ctx context.Context, c Company) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages, cancelled := 0, time.Time{}
	var last error
	for _, err := range c.Source.Customers(ctx, time.Time{}) {
		if pages++; pages == 1 {
			cancel()
			cancelled = time.Now()
		}
		last = err
	}
	switch late := time.Since(cancelled); {
	case pages == 0:
		return errors.New("the read gave no page")
	case pages > 3: // the first, one that was under way, and the error
		return fmt.Errorf("the read went on for %d pages after it was cancelled", pages-1)
	case !errors.Is(last, context.Canceled):
		return fmt.Errorf("the read was cancelled after its first page and ended with error %v; it must wrap context.Canceled", last)
	case late > patience:
		return fmt.Errorf("the read ended %v after it was cancelled, want at most %v", late, patience)
	}
	if got := read(ctx, c.Source, time.Time{}); !errors.Is(got.err, context.Canceled) || len(got.records) > 0 {
		return fmt.Errorf("a read with a cancelled context gave %d records and error %v", len(got.records), got.err)
	}
	return nil
}

func leaksNothing(ctx context.Context, c Company) error {
	if _, err := complete(ctx, c, time.Time{}); err != nil { // its permanent memory is in use by now
		return err
	}
	running := goleak.IgnoreCurrent()
	held := c.held()
	unused := c.Source.Customers(ctx, time.Time{})
	for range c.Source.Customers(ctx, time.Time{}) {
		break
	}
	if now := c.held(); now > held {
		return fmt.Errorf("the source holds %d files or connections after its consumer stopped, before it held %d", now, held)
	}
	if err := goleak.Find(running); err != nil {
		return fmt.Errorf("after its consumer stopped: %w", err)
	}
	for range unused { // a sequence may also be used late
		break
	}
	return nil
}

// endsAtAFullDump keeps a copy by reads between random changes, as a connector
// does, and compares it with the system at rest.
func endsAtAFullDump(ctx context.Context, c Company) error {
	info, err := c.Source.Describe(ctx)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	kept, since := map[string]connector.Record{}, time.Time{}
	for round := range 12 {
		started := c.cursor()
		records, err := complete(ctx, c, since)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for _, r := range records {
			kept[r.SourceID] = r
		}
		since = started
		if round < 11 {
			c.change(random)
		}
	}
	truth := byID(c.Truth())
	for id, r := range kept {
		if _, exists := truth[id]; !exists && (info.Snapshot || r.State == connector.RecordDeleted) {
			delete(kept, id)
		}
	}
	if err := equal(c.Truth(), values(kept)); err != nil {
		return fmt.Errorf("copy kept by reads between changes: %w", err)
	}
	return nil
}

// change performs up to three of the system's acts.
func (c Company) change(random *rand.Rand) {
	for range 1 + random.IntN(3) {
		active := slices.DeleteFunc(c.Truth(), func(r connector.Record) bool { return r.State != connector.RecordActive })
		pick := func() string { return active[random.IntN(len(active))].SourceID }
		acts := []func(){func() { c.Edit(pick()) }}
		if c.Add != nil {
			acts = append(acts, func() { c.Add() })
		}
		if c.Archive != nil {
			acts = append(acts, func() { c.Archive(pick()) })
		}
		if c.Delete != nil {
			acts = append(acts, func() { c.Delete(pick()) })
		}
		if c.Merge != nil && len(active) > 2 {
			acts = append(acts, func() { c.Merge(active[0].SourceID, active[1].SourceID) })
		}
		if len(active) > 2 {
			acts[random.IntN(len(acts))]()
			continue
		}
		acts[0]()
	}
}
