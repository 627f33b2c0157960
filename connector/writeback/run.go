package writeback

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"payersync/connector"
	"payersync/connector/outbox"
	"payersync/state"
)

// Result is the result of a run.
type Result struct {
	Connection string `json:"connection"`
	Written    int    `json:"written"`
	Already    int    `json:"already"` // the field said so already
	Theirs     int    `json:"theirs"`  // found to be somebody else's
	Refused    int    `json:"refused"` // by the system
	Waiting    int    `json:"waiting"` // for a person's approval
	Later      int    `json:"later"`   // written a moment ago, or not reached
	Stuck      int    `json:"stuck"`   // all that a person should check
	Why        string `json:"why"`     // why writes wait
	Batch      string `json:"batch"`   // of them
	Problem    string `json:"problem"` // why the run ended early
	Err        error  `json:"-"`       // the same
}

// Run is one run of a connection's write-back.
type Run struct {
	Target
	Ledger   *state.Ledger
	Progress func(done, of int)

	breaker outbox.Breaker
	result  Result
}

// chunk is how many records are read before they are written to, one by one.
const chunk = 20

// Do performs the due writes. Its error says why the run was impossible, or could not be stored: outbox.ErrBusy while
// another process is writing. The result says if it ended early.
func (r *Run) Do(ctx context.Context) (Result, error) {
	r.result, r.breaker.Rules = Result{Connection: r.Name}, r.rules()
	err := outbox.Locked(r.Ledger, state.MessageWriteback, func() error { return r.run(ctx) })
	return r.result, err
}

func (r *Run) run(ctx context.Context) error {
	end := r.stale(ctx)
	if end == nil {
		end = r.resolveUnfinished(ctx)
	}
	if end == nil {
		end = r.readUnknown(ctx)
	}
	due, fresh, err := r.due(ctx)
	if err != nil {
		return err
	}
	for n := 0; n < len(due) && end == nil; n += chunk {
		end = r.chunk(ctx, due[n:min(n+chunk, len(due))], fresh)
		if r.Progress != nil {
			r.Progress(min(n+chunk, len(due)), len(due))
		}
	}
	after := context.WithoutCancel(ctx)
	p, err := MakePlan(after, r.Ledger, r.Target, nil)
	if err != nil {
		return errors.Join(end, err)
	}
	r.result.Waiting, r.result.Why, r.result.Batch, r.result.Stuck = p.Count(Waits), p.Why, p.Batch, p.Stuck()
	r.result.Later = p.Count(Later) + p.Count(Due) + p.Count(Look) + p.Count(Unclear)
	if r.result.Err = end; end != nil {
		r.result.Problem = connector.ProblemOf(end)
	}
	return r.note(after, func(tx *state.Tx) error {
		return tx.NoteWriteback(state.WritebackRun{Connection: r.Name, Written: r.result.Written, Waiting: r.result.Waiting,
			Stuck: r.result.Stuck, Problem: r.result.Problem})
	})
}

// due returns the source ids of the writes due now, in their order, and those of them not approved yet. It
// keeps only as many of these as may go without approval: if there are more, all of them wait.
func (r *Run) due(ctx context.Context) (due []string, fresh map[string]bool, err error) {
	fresh = map[string]bool{}
	p, err := MakePlan(ctx, r.Ledger, r.Target, func(i Item) {
		if i.Doing != Due {
			return
		}
		if i.Fresh() {
			if len(fresh) == neverLet {
				return
			}
			fresh[i.SourceID] = true
		}
		due = append(due, i.SourceID)
	})
	if p.Batch != "" {
		due = slices.DeleteFunc(due, func(id string) bool { return fresh[id] })
	}
	return due, fresh, err
}

// dueOf returns the items still due, by the ledger's present facts.
func (r *Run) dueOf(ctx context.Context, due []string, fresh map[string]bool) (items []Item, err error) {
	items, err = r.Items(ctx, r.Ledger, due)
	return connector.Filter(items, func(i Item) bool { return i.Doing == Due && (!i.Fresh() || fresh[i.SourceID]) }), err
}

// those returns the items with this task.
func (r *Run) those(ctx context.Context, d Doing) (items []Item, err error) {
	_, err = MakePlan(ctx, r.Ledger, r.Target, func(i Item) {
		if i.Doing == d {
			items = append(items, i)
		}
	})
	return items, err
}

// note writes facts to the ledger, even if the run is stopping.
func (r *Run) note(ctx context.Context, write func(*state.Tx) error) error {
	return outbox.Note(ctx, r.Ledger, write)
}

// stale fails after a restore until a sweep has read the mandates: what the ledger knows of them is old.
func (r *Run) stale(ctx context.Context) error {
	index, err := r.Ledger.Index(ctx, 0)
	if err != nil || index.Doubted().IsZero() {
		return err
	}
	swept, err := r.Ledger.LastPass(ctx)
	if err == nil && !swept.After(index.Doubted()) {
		err = connector.Advise(errors.New("the ledger was put back or restored, and how mandates stand was not read since. A sweep reads it"), connector.Step{Do: connector.DoSweep})
	}
	return err
}

// resolveUnfinished finds the outcomes of unfinished writes.
func (r *Run) resolveUnfinished(ctx context.Context) error {
	items, err := r.those(ctx, Unclear)
	if err != nil {
		return err
	}
	return connector.Each(items, func(i Item) error { return r.settleOne(ctx, i) })
}

func (r *Run) settleOne(ctx context.Context, i Item) error {
	switch i.step {
	case outbox.Freeze: // it never left
		return r.note(ctx, func(tx *state.Tx) error { return tx.WriteDropped(i.RecordID, i.WriteID, true) })
	case outbox.Send: // the system cannot be read: it gets the same bytes again
		body, err := r.Ledger.WritebackRequest(ctx, i.RecordID)
		if err != nil {
			return err
		}
		return r.send(ctx, i, i.Wanted, body, state.WritebackField{})
	case outbox.Wait:
		return nil
	}
	held, err := r.read(ctx, []Item{i})
	if err != nil {
		return err
	}
	field, err := r.Ledger.WritebackField(ctx, i.RecordID, r.SetupHash())
	if err != nil {
		return err
	}
	now := held[i.SourceID].Value
	wrote, before := r.Writer.Value(i.Wanted, deref(field.Earlier)), deref(field.Earlier)
	if field.Holds != nil {
		before = *field.Holds
	}
	switch now {
	case wrote:
		field.Holds = &now
		r.result.Written++
		return r.note(ctx, func(tx *state.Tx) error { return tx.WriteApplied(i.RecordID, i.WriteID, field) })
	case before: // it was not made, or is under way: a later write sets the same field
		return r.note(ctx, func(tx *state.Tx) error { return tx.WriteDropped(i.RecordID, i.WriteID, false) })
	}
	return r.yield(ctx, i, field, now, "")
}

// readUnknown reads the fields of unknown content, and stores it. It writes to no field.
func (r *Run) readUnknown(ctx context.Context) error {
	items, err := r.those(ctx, Look)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(items, chunk) {
		held, err := r.read(ctx, some)
		if err != nil {
			return err
		}
		if err := connector.Each(some, func(i Item) error { return r.saveValue(ctx, i, held) }); err != nil {
			return err
		}
	}
	return nil
}

// saveValue stores a field's value.
func (r *Run) saveValue(ctx context.Context, i Item, held map[string]connector.WrittenField) error {
	found, there := held[i.SourceID]
	if why := closed(found, there); why != "" {
		return r.refuse(ctx, i, why)
	}
	field, err := r.Ledger.WritebackField(ctx, i.RecordID, r.SetupHash())
	if err != nil {
		return err
	}
	r.breaker.Note(state.MessageSent)
	says, ours := r.statusOf(i, field, found.Value)
	switch {
	case ours && field.Earlier == nil && !i.Taken && says != i.To:
		return r.yield(ctx, i, field, found.Value,
			"The field says "+string(says)+", and since the ledger was put back nobody knows whether that was write-back or a person.")
	case ours:
		field.Earlier, field.Holds = cmp.Or(field.Earlier, &found.Value), &found.Value
	case i.Taken || i.Applied == connector.FieldNone: // nothing of ours is in it
		field.Earlier, field.Holds = &found.Value, nil
	default:
		return r.yield(ctx, i, field, found.Value, "")
	}
	if field.Foreign = nil; says == i.To && i.Applied != i.To {
		r.result.Already++
	}
	return r.note(ctx, func(tx *state.Tx) error { return tx.FieldSays(i.RecordID, r.SetupHash(), says, field) })
}

// statusOf returns the standing meant by a value of the field, and whether we write such a value there.
func (r *Run) statusOf(i Item, field state.WritebackField, value string) (connector.FieldStatus, bool) {
	if field.Holds != nil && value == *field.Holds {
		return i.Applied, true
	}
	earlier := deref(field.Earlier)
	for _, standing := range r.Writer.Says() {
		if standing != connector.FieldNone && r.Writer.Value(standing, earlier) == value {
			return standing, true
		}
	}
	return connector.FieldNone, field.Earlier != nil &&
		(value == earlier || value == r.Writer.Value(connector.FieldNone, earlier))
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// chunk writes to some records, right after a read if the system supports reading.
func (r *Run) chunk(ctx context.Context, due []string, fresh map[string]bool) error {
	items, err := r.dueOf(ctx, due, fresh)
	if err != nil || len(items) == 0 {
		return err
	}
	held, err := r.read(ctx, items)
	if err != nil {
		return err
	}
	for _, i := range items {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.write(ctx, i, held, true); err != nil {
			return err
		}
	}
	return nil
}

// write writes to one record, once more if it was edited since the read.
func (r *Run) write(ctx context.Context, i Item, held map[string]connector.WrittenField, again bool) error {
	field, err := r.Ledger.WritebackField(ctx, i.RecordID, r.SetupHash())
	if err != nil {
		return err
	}
	w := connector.Write{
		ID: rand.Text(), Connection: i.Connection, SourceID: i.SourceID, Key: i.Key.Value, BillingID: i.BillingID,
		MandateID: i.MandateID,
		From:      i.Applied, To: i.To,
	}
	if held != nil {
		found, there := held[i.SourceID]
		m := r.effectOn(i, field, found, there)
		switch field = m.field; {
		case m.refused != "":
			return r.refuse(ctx, i, m.refused)
		case m.already:
			field.Holds, field.Foreign = &m.value, nil
			r.result.Already++
			return r.note(ctx, func(tx *state.Tx) error { return tx.FieldSays(i.RecordID, r.SetupHash(), i.To, field) })
		case m.theirs:
			return r.yield(ctx, i, field, found.Value, "")
		}
		w.Field = found
	}
	w.Value = r.Writer.Value(i.To, deref(field.Earlier))
	body, err := r.Writer.Freeze(w)
	if err != nil {
		return fmt.Errorf("prepare the write to record %s: %w", i.SourceID, err)
	}
	frozen := state.FrozenWrite{RecordID: i.RecordID, Setup: r.SetupHash(), ID: w.ID, Wanted: i.To, Field: field,
		Body: body}
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.FreezeWrite(frozen) }); err != nil {
		return err
	}
	i.WriteID = w.ID
	if held != nil {
		field.Holds = &w.Value
	}
	err = r.send(ctx, i, i.To, body, field)
	if !errors.Is(err, connector.ErrStale) {
		return err
	}
	if !again {
		return r.refuse(ctx, i, "The record is edited all the time.")
	}
	if held, err = r.read(ctx, []Item{i}); err != nil {
		return err
	}
	return r.write(ctx, i, held, false)
}

// send sends frozen bytes and stores the outcome. Interrupted before an answer came, the next run finds out.
// Its error ends the run, but for ErrStale.
func (r *Run) send(ctx context.Context, i Item, to connector.FieldStatus, body []byte, field state.WritebackField) error {
	o, err := outbox.Attempt{
		Begin: func(tx *state.Tx) (bool, error) { return true, tx.SendWrite(i.RecordID, i.WriteID) },
		Send:  func(ctx context.Context) (string, error) { return "", r.Writer.Send(ctx, i.WriteID, body) },
		End: func(tx *state.Tx, o outbox.Outcome) error {
			switch o.OfMessage() {
			case state.MessageSent:
				return tx.WriteApplied(i.RecordID, i.WriteID, field)
			case state.MessageRefused:
				return tx.WriteRefused(i.RecordID, r.SetupHash(), to, o.Answer)
			case state.MessageUnclear:
				return tx.WriteUnclear(i.RecordID, i.WriteID, "The answer did not come, or said nothing of it.")
			}
			return tx.WriteDropped(i.RecordID, i.WriteID, true)
		},
	}.Do(ctx, r.Ledger)
	switch o.OfMessage() {
	case state.MessageSent:
		r.breaker.Note(o.State)
		r.result.Written++
		return err
	case state.MessageRefused:
		return errors.Join(r.refused(o.Answer), err)
	case state.MessageUnclear:
		return errors.Join(fmt.Errorf("it is not known whether record %s was written to: %w", i.SourceID, o.Err), err)
	}
	return errors.Join(o.Err, err)
}

// refuse stores a refusal for one record, before anything was sent to it.
func (r *Run) refuse(ctx context.Context, i Item, why string) error {
	return errors.Join(r.refused(why),
		r.note(ctx, func(tx *state.Tx) error { return tx.WriteRefused(i.RecordID, r.SetupHash(), i.To, why) }))
}

// refused counts a refusal. Many in a row are no problem of single records.
func (r *Run) refused(why string) error {
	r.result.Refused++
	if end, _ := r.breaker.Note(state.MessageRefused); end {
		return fmt.Errorf("%d records were refused one after the other, the last because: %s", r.breaker.InRow, why)
	}
	return nil
}

// yield leaves the field to the person who changed it.
func (r *Run) yield(ctx context.Context, i Item, field state.WritebackField, theirs, why string) error {
	field.Foreign = &theirs
	r.result.Theirs++
	return r.note(ctx, func(tx *state.Tx) error { return tx.FieldIsTheirs(i.RecordID, r.SetupHash(), field, why) })
}
