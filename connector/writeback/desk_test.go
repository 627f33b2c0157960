package writeback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/writeback"
	"payersync/state"
	"payersync/state/statetest"
)

// books are a readable system with one field of ours and other fields.
type books struct {
	field   map[string]string
	other   map[string]string // what nobody may touch
	version map[string]int
	closed  map[string]string
	says    []connector.FieldStatus
	setup   string

	writes, reads int
	before        func(id string)       // called before a write is made
	answer        func(id string) error // the answer in place of a good one, after the write was made
	refuse        func(id string) error // the answer in place of a write
}

func newBooks(n int) *books {
	b := &books{field: map[string]string{}, other: map[string]string{}, version: map[string]int{},
		closed: map[string]string{}, says: connector.FieldStatuses, setup: "field dd_status"}
	for i := range n {
		b.field[sourceID(i)], b.other[sourceID(i)] = "", "a colleague's"
	}
	return b
}

func sourceID(i int) string { return fmt.Sprintf("C%04d", i) }

func (b *books) Setup() string                 { return b.setup }
func (b *books) Says() []connector.FieldStatus { return b.says }
func (b *books) Value(to connector.FieldStatus, earlier string) string {
	if to == connector.FieldNone {
		if strings.HasPrefix(earlier, "dd ") {
			return ""
		}
		return earlier
	}
	return "dd " + string(to)
}

func (b *books) Read(_ context.Context, ids []string) (map[string]connector.WrittenField, error) {
	b.reads++
	out := map[string]connector.WrittenField{}
	for _, id := range ids {
		if value, is := b.field[id]; is {
			out[id] = connector.WrittenField{Value: value, Version: fmt.Sprint(b.version[id]), Closed: b.closed[id]}
		}
	}
	return out, nil
}

type request struct{ ID, Value, Version string }

func (b *books) Freeze(w connector.Write) ([]byte, error) {
	return json.Marshal(request{w.SourceID, w.Value, w.Field.Version})
}

func (b *books) Send(_ context.Context, _ string, frozen []byte) error {
	var r request
	if err := json.Unmarshal(frozen, &r); err != nil {
		return err
	}
	if b.before != nil {
		b.before(r.ID)
	}
	if b.refuse != nil {
		if err := b.refuse(r.ID); err != nil {
			return err
		}
	}
	if r.Version != fmt.Sprint(b.version[r.ID]) {
		return connector.ErrStale
	}
	b.field[r.ID] = r.Value
	b.version[r.ID]++
	b.writes++
	if b.answer != nil {
		return b.answer(r.ID)
	}
	return nil
}

// edit is what a colleague does.
func (b *books) edit(id, value string) {
	b.field[id] = value
	b.version[id]++
}

// desk is a ledger with linked payers, and the books they come from.
type desk struct {
	t      testing.TB
	path   string
	ledger *state.Ledger
	books  *books
	now    time.Time
	name   string
	commit func(done bool) error
}

func newDesk(t testing.TB, n int) *desk {
	t.Helper()
	d := &desk{t: t, path: filepath.Join(t.TempDir(), "payersync.db"), books: newBooks(n),
		now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), name: "acme"}
	statetest.New(t, d.path)
	d.start()
	d.fill("acme", n)
	return d
}

// start opens the ledger as a new process would.
func (d *desk) start() {
	d.t.Helper()
	if d.ledger != nil {
		_ = d.ledger.Close()
	}
	l, err := state.Open(context.Background(),
		state.Options{Path: d.path, KeyFile: d.path + ".key", Now: func() time.Time { return d.now },
			Commit: func(done bool) error {
				if d.commit == nil {
					return nil
				}
				return d.commit(done)
			}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.ledger = l
	d.t.Cleanup(func() { _ = l.Close() })
}

func (d *desk) do(fn func(*state.Tx) error) {
	d.t.Helper()
	if err := d.ledger.Do(context.Background(), fn); err != nil {
		d.t.Fatal(err)
	}
}

// fill links n payers of a connection to customers.
func (d *desk) fill(connection string, n int) {
	d.t.Helper()
	d.do(func(tx *state.Tx) error {
		if err := errors.Join(tx.PinConnection(state.Connection{Name: connection, Info: connector.SourceInfo{Kind: "books"}}),
			tx.SaveMapping("m1", "version: 1", "tester")); err != nil {
			return err
		}
		run, err := tx.OpenRun(state.NewRun{Connection: connection, Kind: connector.RunSync, Trigger: "manual", Mapping: "m1",
			Holder: "test"})
		if err != nil {
			return err
		}
		for i := range n {
			r := connector.Record{SourceID: sourceID(i), State: connector.RecordActive, Data: []byte(`{}`)}
			key := connector.Key{Name: "number", Value: connection + r.SourceID}
			if err := errors.Join(tx.SavePage(run, connection, []connector.Record{r}),
				tx.SaveDecisions(run, connection, "m1",
					state.Decision{SourceID: r.SourceID, ContentHash: r.Hash(), Verdict: state.Included, Key: key}),
				tx.LinkPayer(state.Payer{Connection: connection, SourceID: r.SourceID, Key: key}, customer(connection, i),
					true)); err != nil {
				return err
			}
		}
		_, _, err = tx.CloseRun(run, connection, connector.RunComplete, "", connector.NewIDs())
		return err
	})
}

func customer(connection string, i int) string { return connection + "-cus-" + sourceID(i) }

// observed notes what a read showed of payers' mandates.
func (d *desk) observed(status connector.MandateStatus, payers ...int) {
	d.t.Helper()
	d.do(func(tx *state.Tx) error {
		for _, i := range payers {
			m := connector.Mandate{ID: "man-" + d.name + sourceID(i), CustomerID: customer(d.name, i), Status: status}
			_, err := tx.SaveMandate(m, connector.CauseSweep, "1")
			if err := errors.Join(err, tx.SetMandate(d.name, sourceID(i), m.ID)); err != nil {
				return err
			}
		}
		return nil
	})
}

func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func (d *desk) connection() writeback.Target {
	return writeback.Target{Name: d.name, Writer: d.books}
}

func (d *desk) plan() writeback.Plan {
	d.t.Helper()
	p, err := writeback.MakePlan(context.Background(), d.ledger, d.connection(), nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

func (d *desk) run() writeback.Result {
	d.t.Helper()
	r, err := (&writeback.Run{Target: d.connection(), Ledger: d.ledger}).Do(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// approve lets go what waits.
func (d *desk) approve() {
	d.t.Helper()
	if _, err := writeback.Approve(context.Background(), d.ledger, d.connection(), d.plan().Batch, "ada",
		"tried it"); err != nil {
		d.t.Fatal(err)
	}
}

// settled makes the first writes of a desk be things of the past.
func (d *desk) settled(status connector.MandateStatus, payers ...int) {
	d.t.Helper()
	d.observed(status, payers...)
	d.approve()
	if r := d.run(); r.Err != nil || r.Written != len(payers) {
		d.t.Fatalf("the first run: %+v", r)
	}
	d.now = d.now.Add(time.Hour)
}

// doing returns what is to be done, by record.
func (d *desk) doing() map[string]writeback.Doing {
	out := map[string]writeback.Doing{}
	var items []writeback.Item
	p, err := writeback.MakePlan(context.Background(), d.ledger, d.connection(),
		func(i writeback.Item) { items = append(items, i) })
	if err != nil {
		d.t.Fatal(err)
	}
	counts := map[writeback.Doing]int{}
	for _, i := range items {
		out[i.SourceID] = i.In(p).Doing
		counts[i.In(p).Doing]++
	}
	for doing, n := range counts {
		if n != p.Count(doing) {
			d.t.Errorf("%d of %d are counted as %s", p.Count(doing), n, doing)
		}
	}
	if len(items) != p.Items() {
		d.t.Errorf("%d items, %d counted", len(items), p.Items())
	}
	return out
}

func (d *desk) expect(what string, want map[string]writeback.Doing) {
	d.t.Helper()
	if diff := cmp.Diff(want, d.doing()); diff != "" {
		d.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (d *desk) untouched() {
	d.t.Helper()
	for id, value := range d.books.other {
		if value != "a colleague's" {
			d.t.Errorf("%s: a field of others became %q", id, value)
		}
	}
}
