package syncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/state"
)

// stream names the reading position of a source's customers.
const stream = "customers"

// pull saves the source's records page by page, unless the ledger already holds the same reading. The reading position
// is the run's start minus an overlap. It moves only after a complete read. An incomplete read ends the run, so no
// conclusion is drawn from half a source. After an undecided read the run continues with the records read, and is not
// complete.
func (r *run) pull(ctx context.Context) error {
	since, err := r.since(ctx)
	if err != nil {
		return err
	}
	full := since.IsZero()
	as, err := r.reading(ctx, full)
	if err != nil {
		return err
	}
	proof := connector.Proof{Passes: 1} // one pass with nothing to fetch
	if !as.Known() {
		proof, as, err = r.readAll(ctx, since, as)
	}
	if errors.Is(err, accounting.ErrUndecided) {
		r.undecided = true
		r.addNote(sentence(err))
		return nil
	}
	if err != nil {
		return err
	}
	r.proof = proof
	if full {
		if err := r.guardMissing(ctx); err != nil {
			return err
		}
	}
	if full && !r.conn.Info.Snapshot && !r.conn.Info.Partial {
		if err := r.takeMissing(ctx); err != nil {
			return err
		}
	}
	if err := r.finishPull(ctx, full, proof, as); err != nil {
		return err
	}
	if full {
		r.met = nil // the ledger has it
	}
	return r.reportMissing(ctx)
}

// reading returns the known facts about a reading before it starts. If the source cannot announce its content, this is
// nothing: the reading itself reports the cause.
func (r *run) reading(ctx context.Context, full bool) (state.Reading, error) {
	mark := ""
	if source, tells := r.conn.Source.(accounting.Marker); tells && full && r.conn.Info.Snapshot {
		if told, err := source.Mark(ctx); err == nil && told != "" {
			mark = fmt.Sprintf("%q %q", told, r.conn.Info.Written) // removed from its records
		}
	}
	return r.Ledger.Reading(ctx, r.id, r.conn.Name, mark, r.conn.Mapping.Version())
}

// readAll reads the source, and notes the records missing from a full reading. It returns the reading to remember:
// empty if the source changed during the read.
func (r *run) readAll(ctx context.Context, since time.Time, as state.Reading) (connector.Proof, state.Reading, error) {
	proof, err := r.read(ctx, since)
	if err != nil || !since.IsZero() {
		return proof, as, err
	}
	missed, err := r.Ledger.MarkMissing(ctx, r.id, r.conn.Name, r.met)
	if err != nil {
		return proof, as, err
	}
	r.allMet = missed == 0
	now, err := r.reading(ctx, true)
	return proof, as.IfStill(now), err
}

// sentence returns an error as a person reads it.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// read saves the changes since, and returns the proof of the read.
func (r *run) read(ctx context.Context, since time.Time) (proof connector.Proof, err error) {
	r.first = &firstPass{run: r, ids: map[string]bool{}}
	defer func() {
		if flushed := r.first.flush(ctx); err == nil { // what was read is kept, also of a reading that ended early
			err = flushed
		}
		r.first.closed = true
	}()
	pulled := 0
	for page, err := range r.conn.Source.Customers(ctx, since) {
		if err != nil {
			return proof, err
		}
		if err := r.savePage(ctx, findable(page.Records)); err != nil {
			return proof, err
		}
		page.Proof.Pages = max(1, page.Proof.Pages) // a source may keep no proof
		proof = proof.Plus(page.Proof)
		pulled += len(page.Records)
		r.progress("pull", pulled, 0)
	}
	proof.Passes = max(1, proof.Passes)
	return proof, nil
}

// findable returns records with searchable ids. A record with an unsearchable id is on hold, and does not
// stop the others.
func findable(records []connector.Record) []connector.Record {
	out := slices.Clone(records)
	for i := range out {
		r := &out[i]
		id := connector.Indexed(r.SourceID)
		switch {
		case id == r.SourceID:
		case len(r.SourceID) > connector.MaxIndexed:
			r.Problem = cmp.Or(r.Problem,
				fmt.Sprintf("The id has more than %d bytes; give the record a shorter one.", connector.MaxIndexed))
		default:
			r.Problem = cmp.Or(r.Problem, "The id holds characters that are no text; write it anew.")
		}
		r.SourceID, r.MergedInto = id, connector.Indexed(r.MergedInto)
	}
	return out
}

// finishPull draws the conclusions reserved for a complete read, and notes the reading with them. If the reading shows
// nothing new, its notes wait for the plan or the end of the run and need no commit of their own. After a crash before
// then, the next run reads from the older position.
func (r *run) finishPull(ctx context.Context, full bool, proof connector.Proof, as state.Reading) error {
	last, err := r.Ledger.LastFullRead(ctx, r.conn.Name)
	if err != nil {
		return err
	}
	notes, noted := r.notesOf(full, proof, as), false
	err = r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		noted = r.saved || full && last.IsZero() // a plan goes by whether the books were ever read whole
		if r.conn.Info.Snapshot && !r.allMet {
			if err := tx.DropMissing(r.id, r.conn.Name); err != nil {
				return err
			}
		}
		if full {
			if err := tx.EndMissing(r.conn.Name); err != nil {
				return err
			}
		}
		changed, err := tx.Changed()
		if noted = noted || changed; err != nil || !noted {
			return err
		}
		return notes(tx)
	})
	if err == nil && !noted {
		r.notes = notes
	}
	return err
}

// notesOf returns the write that stores a complete reading, and the position of the next one.
func (r *run) notesOf(full bool, proof connector.Proof, as state.Reading) func(*state.Tx) error {
	return func(tx *state.Tx) error {
		if err := tx.RecordRead(r.id, full, proof); err != nil {
			return err
		}
		if err := tx.EndReading(r.id, r.conn.Name, as); err != nil {
			return err
		}
		position := r.started.Add(-r.Settings.Overlap).Format(time.RFC3339Nano)
		return tx.SetCursor(r.conn.Name, stream, position, r.id)
	}
}

// noteReading writes the waiting notes of the reading.
func (r *run) noteReading(tx *state.Tx) error {
	if r.notes == nil {
		return nil
	}
	return r.notes(tx)
}

func (r *run) savePage(ctx context.Context, records []connector.Record) error {
	if len(records) == 0 {
		return nil
	}
	if len(r.conn.Info.Written) > 0 {
		records = slices.Clone(records)
		for i := range records { // so our own writes are no changes
			records[i] = records[i].Without(r.conn.Info.Written)
		}
	}
	page := records
	barred, err := r.Ledger.Barred(ctx, r.conn.Name, records, r.conn.Mapping.Label)
	if err != nil {
		return err
	}
	if len(barred) > 0 {
		records = slices.DeleteFunc(slices.Clone(records),
			func(c connector.Record) bool { return barred[c.SourceID] != state.ForgottenNot })
	}
	if err := r.first.storeRepeated(ctx, records); err != nil {
		return err
	}
	news, err := r.Ledger.PageChanges(ctx, r.conn.Name, r.conn.Mapping.Version(), records, barred)
	if err != nil {
		return err
	}
	taken, err := r.first.decidePage(ctx, news.First)
	if err != nil {
		return err
	}
	if len(taken) > 0 {
		r.saved = true
		isTaken := func(c connector.Record) bool { return taken[c.SourceID] }
		news.Records, news.Unlabelled = slices.DeleteFunc(news.Records, isTaken), slices.DeleteFunc(news.Unlabelled, isTaken)
	}
	if len(news.Records)+len(news.Bars)+len(news.Unlabelled) > 0 {
		if err := r.saveNews(ctx, news); err != nil {
			return err
		}
	}
	for i := range page {
		r.met.Add(page[i].SourceID)
	}
	return nil
}

func (r *run) saveNews(ctx context.Context, news state.PageChanges) error {
	r.saved = true
	labels := make([]state.NewLabel, len(news.Unlabelled))
	for i, record := range news.Unlabelled {
		labels[i] = r.label(record)
	}
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		for id, how := range news.Bars {
			if err := tx.Bar(r.conn.Name, id, how); err != nil {
				return err
			}
		}
		if err := tx.SavePage(r.id, r.conn.Name, news.Records); err != nil {
			return err
		}
		return tx.SaveLabels(r.conn.Name, r.conn.Mapping.Version(), labels)
	})
}

// label returns the display name of a record. A deleted or unreadable record may lack a name; then the known name is
// kept.
func (r *run) label(c connector.Record) state.NewLabel {
	made := r.conn.Mapping.Label(c)
	return state.NewLabel{SourceID: c.SourceID, Label: made, Keep: made.Name == "" &&
		(c.State != connector.RecordActive || c.Problem != "")}
}

// since returns the start of the reading. The zero time means everything: for snapshot sources, for backfills, for the
// first run, and if the last complete full reading is too old, because sources do not report all changes
// (accounting/README.md). A standstill also needs a full reading to end. A time in the future was noted by a wrong
// clock and counts as unknown (fault F36).
func (r *run) since(ctx context.Context) (time.Time, error) {
	if r.conn.Info.Snapshot || r.opts.Kind == connector.RunBackfill {
		return time.Time{}, nil
	}
	if held, err := r.Ledger.MissingWait(ctx, r.conn.Name); err != nil || held {
		return time.Time{}, err
	}
	position, err := r.Ledger.Cursor(ctx, r.conn.Name, stream)
	if err != nil || position == "" {
		return time.Time{}, err
	}
	full, err := r.Ledger.LastFullRead(ctx, r.conn.Name)
	if err != nil || r.conn.FullEvery > 0 && r.started.Sub(full) >= r.conn.FullEvery {
		return time.Time{}, err
	}
	since, err := time.Parse(time.RFC3339Nano, position)
	switch {
	case err != nil:
		return since, fmt.Errorf("read the reading position: %w", err)
	case since.After(r.started):
		return time.Time{}, nil
	}
	return since, nil
}

// guardMissing stops the run if a full reading shows far fewer of the known records than the guards allow. A
// permission, a filter or an export without rows is the likelier reason (fault F45). The records are treated as
// removed once a person has approved exactly these, or approves them now.
func (r *run) guardMissing(ctx context.Context) error {
	unseen, known, err := r.Ledger.MissingCount(ctx, r.conn.Name)
	if err != nil {
		return err
	}
	limits := r.Settings.Guards.Missing(unseen, known, r.conn.Info.Partial)
	if limits == "" {
		return nil
	}
	var plan state.Plan
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		plan, err = tx.HoldMissing(r.id, r.conn.Name, r.conn.Mapping.Version(), unseen, limits)
		return err
	}); err != nil {
		return err
	}
	approved := plan.State == state.PlanApproved
	if !approved && r.opts.Approve != nil {
		if approved, err = r.opts.Approve(plan); err != nil {
			return err
		}
		if approved {
			err = r.Ledger.DoAlone(ctx, func(tx *state.Tx) error { return tx.Approve(plan.ID, r.opts.Actor) })
		}
	}
	switch {
	case err != nil:
		return err
	case !approved:
		r.plan = &plan
		return &Standstill{plan}
	}
	r.addNote(fmt.Sprintf("%s They were let go, as plan %d says.", limits, plan.ID))
	return nil
}

// takeMissing marks the records missing from a complete full reading as deleted.
func (r *run) takeMissing(ctx context.Context) error {
	if err := r.Ledger.DoAlone(ctx, func(tx *state.Tx) error { return tx.ReleaseMissing(r.id, r.conn.Name) }); err != nil {
		return err
	}
	for {
		gone, err := r.Ledger.MissingRecords(ctx, r.conn.Name, planPage)
		if err != nil || len(gone) == 0 {
			return err
		}
		for i := range gone {
			gone[i].State, gone[i].Problem = connector.RecordDeleted, ""
		}
		if err := r.savePage(ctx, gone); err != nil {
			return err
		}
	}
}
