// Package writeback writes the state of a payer's mandate into one field of its record in the accounting
// system, or sends it to another system. It goes one way: the field is never a source of data. It writes what
// reads of the billing service have shown, never the content of a webhook.
//
//	mandates as reads showed them ─▶ wanted ─┐
//	                                         ├─▶ plan ─▶ approved? ─▶ read ─▶ freeze ─▶ send ─▶ noted
//	what was written last ─────────▶ applied ┘             │           │                 │
//	                                                     waits    somebody else's      unclear:
//	                                                              value stays          read back first
//
// The wanted value is computed, and the ledger stores what was written. A write is frozen before it leaves.
// It sets a field to a value, so a write of unknown outcome may be repeated. If the system supports reading,
// the field is read first.
//
// # Ownership of the field
//
// The field is ours while it holds our last value. Somebody else's value stays, and is shown, until a person
// gives the field back. After a restore, the ledger may not know our last value: then it reads the field
// before any decision.
//
// # Against storms
//
// The first writes of a setup wait for a person, and so does a run with many writes. Two writes to one record
// are ten minutes apart and six a day at most. A run ends with the first answer about something other than
// its record.
//
// Each system's writer decides the format.
package writeback

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"payersync/connector"
	"payersync/connector/outbox"
	"payersync/state"
)

// Writer writes one field of records in one system.
type Writer interface {
	// Setup describes the system and the field in words. Different words mean another field, which needs a
	// new approval.
	Setup() string
	// Says are the standings with a value of their own in the field. The others count as none.
	Says() []connector.FieldStatus
	// Value returns the field's value for a standing. earlier is the value before our first write; it is ""
	// if that was one of ours.
	Value(to connector.FieldStatus, earlier string) string
	// Freeze returns the bytes of a write, as they leave however often they do.
	Freeze(w connector.Write) ([]byte, error)
	// Send sends frozen bytes. Its errors are ErrStale, ErrNotWritten and WriteRefusedError of package
	// connector; any other means an unknown outcome.
	Send(ctx context.Context, id string, frozen []byte) error
}

// Reader is a writer of a system with a readable field.
type Reader interface {
	// Read returns the field's value of these records. A missing record does not exist there.
	Read(ctx context.Context, sourceIDs []string) (map[string]connector.WrittenField, error)
}

// Target is a connection with a writer.
type Target struct {
	Name   string
	Writer Writer
}

// SetupHash returns the ledger's hash of the field's setup.
func (c Target) SetupHash() string { return hashOf(c.Writer.Setup()) }

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// The limits of write-back.
const (
	perDay     = 6  // writes to one record
	alwaysLet  = 5  // so many writes never wait, once a setup was approved
	neverLet   = 50 // more always do
	letPercent = 2  // and more than so many of the payers
)

// Doing is the task for a payer's field.
type Doing string

// The possible tasks.
const (
	Due     Doing = "due"     // is written with the next run
	Waits   Doing = "waits"   // for a person's approval
	Later   Doing = "later"   // it was written a moment ago
	Look    Doing = "look"    // the field's value is unknown: the next run reads it first
	Unclear Doing = "unclear" // whether the last write was made is found out by the next run
	Limit   Doing = "limit"   // written too often today
	Theirs  Doing = "theirs"  // somebody else changed the field
	Refused Doing = "refused" // the system does not write it
	Unknown Doing = "unknown" // the mandate has an undocumented status: nothing is written
)

// Stuck reports whether a person should look at it.
func (d Doing) Stuck() bool { return d == Limit || d == Theirs || d == Refused || d == Unknown }

// Item is a payer with a wrong value in its field, or a field not ours.
type Item struct {
	state.WritebackPayer
	To    connector.FieldStatus // "" for an unknown status
	Doing Doing
	Why   string // a sentence; "" where Doing says it all

	step outbox.NextStep
}

// Plan counts the tasks of a connection's write-back.
type Plan struct {
	Connection string
	Payers     int    // of the connection
	Why        string // why those that wait do; "" for none
	Batch      string // hash of those that wait; "" for none

	counts map[Doing]int
}

// Count returns how many items are to be done so.
func (p Plan) Count(d Doing) int { return p.counts[d] }

// Items returns how many items there are.
func (p Plan) Items() (n int) {
	for _, of := range p.counts {
		n += of
	}
	return n
}

// Stuck returns how many items a person should look at.
func (p Plan) Stuck() (n int) {
	for d, of := range p.counts {
		if d.Stuck() {
			n += of
		}
	}
	return n
}

// MakePlan computes the necessary writes. It sends no requests, writes nothing, and keeps no items: it passes
// them to each in the order of their source ids, unless each is nil. Only after all were counted is it known
// which of them wait for a person, see Item.In.
func MakePlan(ctx context.Context, ledger *state.Ledger, c Target, each func(Item)) (Plan, error) {
	p := Plan{Connection: c.Name, counts: map[Doing]int{}}
	now := ledger.Now()
	fresh, batch := 0, outbox.Batch{}
	batch.Add(c.Name, c.SetupHash())
	err := ledger.EachWriteback(ctx, c.Name, c.SetupHash(), func(payer state.WritebackPayer) error {
		p.Payers++
		item, is := c.itemOf(payer, now)
		if !is {
			return nil
		}
		p.counts[item.Doing]++
		if item.Fresh() {
			fresh++
			batch.Add(item.SourceID, string(item.Applied), string(item.To))
		}
		if each != nil {
			each(item)
		}
		return nil
	})
	if err != nil {
		return p, err
	}
	ever, err := ledger.WritebackApproved(ctx, c.Name, c.SetupHash())
	if err != nil {
		return p, err
	}
	if p.Why = p.brake(fresh, ever); p.Why != "" {
		p.counts[Due] -= fresh
		p.counts[Waits], p.Batch = fresh, batch.Hash()
	}
	return p, nil
}

// Items returns the present tasks for the fields of these records, in the order of their source ids.
func (c Target) Items(ctx context.Context, ledger *state.Ledger, sourceIDs []string) (items []Item, err error) {
	payers, err := ledger.WritebacksOf(ctx, c.Name, c.SetupHash(), sourceIDs)
	now := ledger.Now()
	for _, p := range payers {
		if i, is := c.itemOf(p, now); is {
			items = append(items, i)
		}
	}
	return items, err
}

// wanted returns the field's wanted value; "" for an unknown status.
func wanted(status connector.MandateStatus, says []connector.FieldStatus) connector.FieldStatus {
	to, known := status.FieldStatus()
	if known && !slices.Contains(says, to) {
		to = connector.FieldNone
	}
	return to
}

// itemOf returns the task for a payer; false for none.
func (c Target) itemOf(p state.WritebackPayer, now time.Time) (Item, bool) {
	if !c.readable() {
		p.Doubted = false
	}
	i := Item{WritebackPayer: p, To: wanted(p.Status, c.Writer.Says())}
	i.step, _ = c.rules().Next(i.message(), now)
	switch {
	case p.Wanted != "":
		i.Doing, i.Why = Unclear, p.Problem
	case !p.Open:
		return i, false
	case i.To == "":
		i.Doing, i.Why = Unknown, fmt.Sprintf("The status %q is not documented, so nothing is written.", string(p.Status))
	case !p.ForeignAt.IsZero():
		i.Doing, i.Why = Theirs, cmp.Or(p.Problem, "Somebody else changed the field; it is left to them.")
	case p.Applied == i.To && !p.Doubted:
		return i, false
	case p.Refused == i.To && i.step == outbox.Wait:
		i.Doing, i.Why = Refused, p.Problem
	case p.Doubted:
		i.Doing, i.Why = Look, "A person gave the field back, or the ledger was put back: it is read first."
	case p.Day == now.UTC().Format(time.DateOnly) && p.DayWrites >= perDay:
		i.Doing, i.Why = Limit, fmt.Sprintf("It was written %d times today: something changes it to and fro.", p.DayWrites)
	case i.step == outbox.Wait:
		i.Doing = Later
	default:
		i.Doing = Due
	}
	return i, true
}

func (c Target) readable() bool {
	_, is := c.Writer.(Reader)
	return is
}

// rules returns the rules of the outbox: a system without a readable field recognises a repeat by its id.
func (c Target) rules() outbox.Rules {
	if c.readable() {
		return outbox.Fields
	}
	return outbox.Webhooks
}

// message returns the facts about the open write, or about the last one.
func (i Item) message() outbox.Message {
	switch {
	case i.Wanted != "" && i.SentAt.IsZero():
		return outbox.Message{State: state.MessageFrozen}
	case i.Wanted != "":
		return outbox.Message{State: state.MessageUnclear, Attempts: i.Attempts, At: i.SentAt}
	case i.Refused == i.To && i.To != "":
		return outbox.Message{State: state.MessageRefused, At: i.ProblemAt}
	}
	return outbox.Message{At: i.FrozenAt}
}

// brake says why a person must approve the new writes; "" for no reason. ever means that a person approved
// writes of this setup before.
func (p Plan) brake(fresh int, ever bool) string {
	limit := min(neverLet, max(alwaysLet, p.Payers*letPercent/100))
	switch {
	case fresh == 0:
		return ""
	case !ever:
		return "Nothing was written to this field before, so a person looks at the first writes."
	case fresh > limit:
		return fmt.Sprintf("%d payers would be written to, which is more than %d.", fresh, limit)
	}
	return ""
}

// In returns the item's state in the finished plan: unapproved writes wait if the whole plan does.
func (i Item) In(p Plan) Item {
	if i.Fresh() && p.Batch != "" {
		i.Doing = Waits
	}
	return i
}

// Fresh reports whether a due write has no approval yet.
func (i Item) Fresh() bool { return i.Doing == Due && i.Approved != i.To }

// Approve approves the waiting writes, if they are the batch a person has seen, and returns their number. It fails with
// outbox.ErrNothing or outbox.ErrChanged.
func Approve(ctx context.Context, ledger *state.Ledger, c Target, batch, actor, reason string) (int, error) {
	a := state.WritebackApproval{Connection: c.Name, Setup: c.SetupHash(), Batch: batch,
		Writes: map[string]connector.FieldStatus{}, Reason: reason}
	p, err := MakePlan(ctx, ledger, c, func(i Item) {
		if i.Fresh() {
			a.Writes[i.SourceID] = i.To
		}
	})
	if err == nil {
		err = outbox.Check(p.Batch, batch)
	}
	if err != nil {
		return 0, err
	}
	return len(a.Writes), ledger.Do(ctx, func(tx *state.Tx) error { return tx.ApproveWriteback(a, actor) })
}

// TakeField gives the field of a record back to write-back, on a person's word: what somebody else
// wrote there, or the system refused, no longer counts. It reports false for nothing to take.
func TakeField(ctx context.Context, ledger *state.Ledger, c Target, sourceID, actor, reason string) (took bool,
	err error) {
	id := state.RecordID{Connection: c.Name, SourceID: sourceID}
	err = ledger.Do(ctx, func(tx *state.Tx) error {
		if took, err = tx.TakeField(id, c.SetupHash()); err != nil || !took {
			return err
		}
		return tx.Audit(state.Entry{Actor: actor, Action: "take field", Subject: sourceID + " of " + c.Name, Reason: reason})
	})
	return took, err
}
