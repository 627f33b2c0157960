package writeback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/outbox"
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
	says    []connector.Standing
	setup   string

	writes, reads int
	before        func(id string)       // called before a write is made
	answer        func(id string) error // the answer in place of a good one, after the write was made
	refuse        func(id string) error // the answer in place of a write
}

func newBooks(n int) *books {
	b := &books{field: map[string]string{}, other: map[string]string{}, version: map[string]int{}, closed: map[string]string{}, says: connector.Standings, setup: "field dd_status"}
	for i := range n {
		b.field[sourceID(i)], b.other[sourceID(i)] = "", "a colleague's"
	}
	return b
}

func sourceID(i int) string { return fmt.Sprintf("C%04d", i) }

func (b *books) Setup() string              { return b.setup }
func (b *books) Says() []connector.Standing { return b.says }
func (b *books) Value(to connector.Standing, earlier string) string {
	if to == connector.StandingNone {
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
	d := &desk{t: t, path: filepath.Join(t.TempDir(), "payersync.db"), books: newBooks(n), now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), name: "acme"}
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
	l, err := state.Open(context.Background(), state.Options{Path: d.path, KeyFile: d.path + ".key", Now: func() time.Time { return d.now }, Commit: func(done bool) error {
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
		if err := errors.Join(tx.PinConnection(state.Connection{Name: connection, Info: connector.SourceInfo{Kind: "books"}}), tx.SaveMapping("m1", "version: 1", "tester")); err != nil {
			return err
		}
		run, err := tx.OpenRun(state.NewRun{Connection: connection, Kind: connector.RunSync, Trigger: "manual", Mapping: "m1", Holder: "test"})
		if err != nil {
			return err
		}
		for i := range n {
			r := connector.Record{SourceID: sourceID(i), State: connector.RecordActive, Data: []byte(`{}`)}
			key := connector.Key{Name: "number", Value: connection + r.SourceID}
			if err := errors.Join(tx.SavePage(run, connection, []connector.Record{r}),
				tx.SaveDecisions(run, connection, "m1", state.Decision{SourceID: r.SourceID, ContentHash: r.Hash(), Verdict: state.Included, Key: key}),
				tx.LinkPayer(state.Payer{Connection: connection, SourceID: r.SourceID, Key: key}, customer(connection, i), true)); err != nil {
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

func (d *desk) connection() writeback.Connection {
	return writeback.Connection{Name: d.name, Writer: d.books}
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
	r, err := (&writeback.Run{Connection: d.connection(), Ledger: d.ledger}).Do(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// approve lets go what waits.
func (d *desk) approve() {
	d.t.Helper()
	if _, err := writeback.Approve(context.Background(), d.ledger, d.connection(), d.plan().Batch, "ada", "tried it"); err != nil {
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
	p, err := writeback.MakePlan(context.Background(), d.ledger, d.connection(), func(i writeback.Item) { items = append(items, i) })
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

// covers F146
func TestAThousandPayersAreWrittenOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1000)
	d.observed(connector.MandateActive, upTo(1000)...)
	if r := d.run(); r.Written != 0 || r.Waiting != 1000 || r.Batch == "" || d.books.reads+d.books.writes != 0 {
		t.Fatalf("before anybody approved: %+v, %d reads, %d writes", r, d.books.reads, d.books.writes)
	}
	if _, err := writeback.Approve(t.Context(), d.ledger, d.connection(), "another", "ada", ""); !errors.Is(err, outbox.ErrChanged) {
		t.Errorf("another batch: %v", err)
	}
	d.approve()
	if r := d.run(); r.Written != 1000 || r.Waiting != 0 || r.Err != nil {
		t.Fatalf("the approved run: %+v", r)
	}
	for id, value := range d.books.field {
		if value != "dd active" {
			t.Errorf("%s holds %q", id, value)
		}
	}
	d.now = d.now.Add(time.Hour)
	if r := d.run(); r.Written != 0 || d.books.writes != 1000 {
		t.Errorf("the second run: %+v, %d writes in all", r, d.books.writes)
	}
	d.untouched()
}

// A few changes go by themselves, as every day has them; many wait, and those that a person let
// go are exactly those that were shown.
//
// covers F147
func TestManyWritesWaitForAPerson(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 400)
	d.settled(connector.MandateCreated, 0)
	d.observed(connector.MandateActive, upTo(8)...)
	if r := d.run(); r.Written != 8 || r.Waiting != 0 {
		t.Errorf("two percent: %+v", r)
	}
	d.now = d.now.Add(time.Hour)
	d.observed(connector.MandateCancelled, upTo(9)...)
	r := d.run()
	if r.Written != 0 || r.Waiting != 9 || !strings.Contains(r.Why, "9 payers would be written to, which is more than 8") {
		t.Errorf("more than that: %+v", r)
	}
	shown := r.Batch
	d.observed(connector.MandateCancelled, 20)
	if _, err := writeback.Approve(t.Context(), d.ledger, d.connection(), shown, "ada", ""); !errors.Is(err, outbox.ErrChanged) {
		t.Errorf("what was not shown was let go: %v", err)
	}
	d.approve()
	d.observed(connector.MandateActive, 0) // what was let go is not what it is now
	if r := d.run(); r.Written != 9 {
		t.Errorf("the approved run: %+v", r)
	}
	if d.books.field[sourceID(0)] != "dd active" {
		t.Errorf("C0000 holds %q", d.books.field[sourceID(0)])
	}
}

func TestAnotherFieldIsApprovedAnew(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 3)
	d.settled(connector.MandateActive, 0, 1, 2)
	d.books.setup = "field another"
	d.expect("with another setup", map[string]writeback.Doing{"C0000": writeback.Waits, "C0001": writeback.Waits, "C0002": writeback.Waits})
	d.approve()
	d.books.field = map[string]string{"C0000": "", "C0001": "dd active", "C0002": ""}
	if r := d.run(); r.Written != 2 || r.Already != 1 {
		t.Errorf("the first run: %+v", r)
	}
}

// A value that somebody put there after us is theirs until a person gives the field back, also
// when the mandate moves on.
//
// covers F148
func TestSomebodyElsesNewerValueStays(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 3)
	d.settled(connector.MandateCreated, 0, 1)
	d.books.edit("C0000", "cheque")
	d.observed(connector.MandateActive, 0, 1)
	if r := d.run(); r.Written != 1 || r.Theirs != 1 || r.Stuck != 1 {
		t.Errorf("the run: %+v", r)
	}
	for range 3 {
		d.now = d.now.Add(time.Hour)
		d.run()
	}
	if d.books.field["C0000"] != "cheque" || d.books.field["C0001"] != "dd active" {
		t.Errorf("the fields hold %v", d.books.field)
	}
	d.expect("what a colleague changed", map[string]writeback.Doing{"C0000": writeback.Theirs})
	if took, err := writeback.Take(t.Context(), d.ledger, d.connection(), "C0000", "ada", "it was a slip"); !took || err != nil {
		t.Errorf("taken %v, %v", took, err)
	}
	if r := d.run(); r.Written != 1 || d.books.field["C0000"] != "dd active" {
		t.Errorf("when it was taken: %+v, %q", r, d.books.field["C0000"])
	}
	if took, err := writeback.Take(t.Context(), d.ledger, d.connection(), "C0001", "ada", ""); err != nil || took && d.books.field["C0001"] == "" {
		t.Errorf("taken %v, %v", took, err)
	}
}

// A colleague's change between our read and our write is detected, because the system reports a newer version
// of the record.
func TestAnEditUnderTheWriteIsRespected(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1)
	d.settled(connector.MandateCreated, 0)
	d.observed(connector.MandateActive, 0)
	once := true
	d.books.before = func(id string) {
		if once {
			once = false
			d.books.edit(id, "cheque")
		}
	}
	if r := d.run(); r.Theirs != 1 || d.books.field["C0000"] != "cheque" {
		t.Errorf("the field was edited: %+v, %q", r, d.books.field["C0000"])
	}
	d = newDesk(t, 1)
	d.settled(connector.MandateCreated, 0)
	d.observed(connector.MandateActive, 0)
	once = true
	d.books.before = func(id string) {
		if once {
			once = false
			d.books.version[id]++ // something else of the record
		}
	}
	if r := d.run(); r.Written != 1 || d.books.field["C0000"] != "dd active" {
		t.Errorf("something else was edited: %+v, %q", r, d.books.field["C0000"])
	}
}

func TestWhatTheFieldHeldBeforeComesBackWhileItIsOurs(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2)
	d.books.says = []connector.Standing{connector.StandingActive}
	d.books.field["C0000"], d.books.field["C0001"] = "cash", "cash"
	d.observed(connector.MandateCreated, 0, 1)
	d.expect("what the field does not tell apart", map[string]writeback.Doing{})
	d.settled(connector.MandateActive, 0, 1)
	d.books.edit("C0001", "cheque")
	d.observed(connector.MandateCancelled, 0, 1)
	if r := d.run(); r.Written != 1 || r.Theirs != 1 || d.books.field["C0000"] != "cash" || d.books.field["C0001"] != "cheque" {
		t.Errorf("after the end: %+v, %v", r, d.books.field)
	}
	d.now = d.now.Add(time.Hour)
	d.books.edit("C0000", "card") // nothing of ours is in it
	d.observed(connector.MandateActive, 0)
	d.run()
	d.now = d.now.Add(time.Hour)
	d.observed(connector.MandateCancelled, 0)
	if d.run(); d.books.field["C0000"] != "card" {
		t.Errorf("after the second end it holds %q", d.books.field["C0000"])
	}
}

func TestStatusesThatAreNotDocumentedAreToldAndNotWritten(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2)
	d.settled(connector.MandateActive, 0)
	d.observed("HALF_SIGNED", 0, 1)
	if r := d.run(); r.Written != 0 || r.Stuck != 2 || d.books.field["C0000"] != "dd active" || d.books.field["C0001"] != "" {
		t.Errorf("the run: %+v, %v", r, d.books.field)
	}
	d.expect("undocumented", map[string]writeback.Doing{"C0000": writeback.Unknown, "C0001": writeback.Unknown})
}

// covers F147
func TestWritesToOneRecordAreApartAndFew(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1)
	d.settled(connector.MandateCreated, 0)
	d.observed(connector.MandateActive, 0)
	d.run()
	d.observed(connector.MandateCreated, 0)
	d.now = d.now.Add(9 * time.Minute)
	if r := d.run(); r.Written != 0 || r.Later != 1 {
		t.Errorf("nine minutes later: %+v", r)
	}
	for range 10 { // somebody, or something, moves it to and fro
		d.now = d.now.Add(11 * time.Minute)
		d.run()
		d.observed(map[bool]connector.MandateStatus{true: connector.MandateActive, false: connector.MandateCreated}[d.books.field["C0000"] == "dd asked"], 0)
	}
	if d.books.writes != 6 {
		t.Errorf("%d writes on one day", d.books.writes)
	}
	d.expect("too often", map[string]writeback.Doing{"C0000": writeback.Limit})
	runs, err := d.ledger.WritebackRuns(t.Context())
	if err != nil || len(runs) != 1 || runs[0].Stuck != 1 || runs[0].StuckAt.IsZero() {
		t.Errorf("the last run is %+v, %v", runs, err)
	}
	d.now = d.now.Add(24 * time.Hour)
	if r := d.run(); r.Written != 1 {
		t.Errorf("the next day: %+v", r)
	}
}

func TestASystemThatIsDownIsAskedOnceARun(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"wrong credentials": connector.ErrNotWritten, "no answer": errors.New("no answer")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, 40)
			d.observed(connector.MandateActive, upTo(40)...)
			d.approve()
			asked := 0
			d.books.refuse = func(string) error { asked++; return cause }
			for n := range 3 {
				if r := d.run(); r.Written != 0 || r.Err == nil || r.Problem == "" || asked != n+1 {
					t.Errorf("run %d: %+v, asked %d times", n, r, asked)
				}
				d.now = d.now.Add(time.Hour)
			}
			d.books.refuse = nil
			if r := d.run(); r.Written != 40 || r.Err != nil {
				t.Errorf("when it is back: %+v", r)
			}
		})
	}
}

func TestRefusalsOfSingleRecordsStopNobodyElse(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 30)
	d.books.closed["C0001"] = "it is archived"
	delete(d.books.field, "C0002")
	d.books.refuse = func(id string) error {
		if id == "C0003" {
			return &connector.WriteRefusedError{Why: "No row has this number."}
		}
		return nil
	}
	d.observed(connector.MandateActive, upTo(30)...)
	d.approve()
	if r := d.run(); r.Written != 27 || r.Refused != 3 || r.Stuck != 3 || r.Err != nil {
		t.Errorf("the run: %+v", r)
	}
	d.expect("refused", map[string]writeback.Doing{"C0001": writeback.Refused, "C0002": writeback.Refused, "C0003": writeback.Refused})
	d.now = d.now.Add(25 * time.Hour)
	d.books.refuse, d.books.closed = nil, map[string]string{}
	if r := d.run(); r.Written != 2 || r.Refused != 1 {
		t.Errorf("a day later: %+v", r)
	}
	d = newDesk(t, 30)
	d.observed(connector.MandateActive, upTo(30)...)
	d.approve()
	d.books.refuse = func(string) error { return &connector.WriteRefusedError{Why: "No such column."} }
	if r := d.run(); r.Refused != 10 || r.Err == nil {
		t.Errorf("when every record is refused: %+v", r)
	}
}

// A process may die at each commit. The next one leaves every field as it should be, and no
// record is written to twice without a read in between.
//
// covers F149
func TestKilledAtEveryCommitEachFieldEndsAsItShould(t *testing.T) {
	t.Parallel()
	const n = 4
	errKilled := errors.New("killed")
	for at := 1; ; at++ {
		d := newDesk(t, n)
		d.observed(connector.MandateActive, upTo(n)...)
		d.approve()
		commits, dead := 0, false
		d.commit = func(done bool) error {
			if !done {
				if dead {
					return errKilled
				}
				if commits++; commits == at {
					dead = true
					return errKilled
				}
			}
			return nil
		}
		d.books.before = func(string) {
			if dead {
				t.Errorf("commit %d failed, and something was sent", at)
			}
		}
		_, err := (&writeback.Run{Connection: d.connection(), Ledger: d.ledger}).Do(context.Background())
		d.commit, d.books.before = nil, nil
		if err == nil && !dead {
			t.Logf("%d commits", commits)
			if commits < 3*n {
				t.Errorf("only %d commits for %d writes", commits, n)
			}
			return
		}
		d.start()
		for range 2 {
			d.now = d.now.Add(time.Hour)
			d.run()
		}
		for id, value := range d.books.field {
			if value != "dd active" {
				t.Errorf("killed at commit %d: %s holds %q", at, id, value)
			}
		}
		if d.books.writes != n || len(d.doing()) != 0 {
			t.Errorf("killed at commit %d: %d writes, to do %v", at, d.books.writes, d.doing())
		}
	}
}

// The answer is lost, whether or not the write was made; what a colleague does until then
// counts.
//
// covers F149
func TestALostAnswerIsReadBack(t *testing.T) {
	t.Parallel()
	lost := errors.New("the answer is lost")
	for name, c := range map[string]struct {
		made  bool
		then  string // what a colleague writes
		want  string
		total int
	}{
		"made":                  {made: true, want: "dd active", total: 1},
		"not made":              {want: "dd active", total: 1},
		"made, and then edited": {made: true, then: "cheque", want: "cheque", total: 1},
		"not made, then edited": {then: "cheque", want: "cheque", total: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, 1)
			d.observed(connector.MandateActive, 0)
			d.approve()
			d.books.answer = func(string) error { return lost }
			if !c.made {
				d.books.refuse = func(string) error { return lost }
			}
			if r := d.run(); r.Err == nil || r.Later != 1 {
				t.Errorf("the run: %+v", r)
			}
			d.expect("unclear", map[string]writeback.Doing{"C0000": writeback.Unclear})
			if c.then != "" {
				d.books.edit("C0000", c.then)
			}
			d.books.answer, d.books.refuse = nil, nil
			d.start()
			for range 3 {
				d.now = d.now.Add(time.Hour)
				d.run()
			}
			if d.books.field["C0000"] != c.want || d.books.writes != c.total {
				t.Errorf("it holds %q after %d writes, want %q after %d", d.books.field["C0000"], d.books.writes, c.want, c.total)
			}
		})
	}
}

func TestTwoConnectionsDoNotTouchEachOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 3)
	d.fill("globex", 3)
	d.settled(connector.MandateActive, 0, 1, 2)
	other := *d
	other.name, other.books = "globex", newBooks(3)
	other.observed(connector.MandateCreated, 1)
	if r := other.run(); r.Waiting != 1 || r.Written != 0 {
		t.Errorf("what was approved for one connection lets the other go: %+v", r)
	}
	other.approve()
	if r := other.run(); r.Written != 1 || other.books.field["C0001"] != "dd asked" || d.books.field["C0001"] != "dd active" {
		t.Errorf("the other: %+v, %v and %v", r, other.books.field, d.books.field)
	}
	if r := d.run(); r.Written != 0 {
		t.Errorf("the first: %+v", r)
	}
}

func TestPayersWhoseRecordsAreGoneAreLeftAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2)
	d.settled(connector.MandateActive, 0, 1)
	d.do(func(tx *state.Tx) error {
		run, err := tx.OpenRun(state.NewRun{Connection: "acme", Kind: connector.RunSync, Trigger: "manual", Mapping: "m1", Holder: "test"})
		if err != nil {
			return err
		}
		return tx.SavePage(run, "acme", []connector.Record{{SourceID: "C0000", State: connector.RecordArchived, Data: []byte(`{}`)}})
	})
	d.observed(connector.MandateCancelled, 0, 1)
	if r := d.run(); r.Written != 1 || d.books.field["C0000"] != "dd active" {
		t.Errorf("the run: %+v, %v", r, d.books.field)
	}
}

func TestNobodyElseWritesMeanwhile(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1)
	lock, err := d.ledger.TryOutbox(state.MessageWriteback)
	if err != nil || lock == nil {
		t.Fatal(lock, err)
	}
	defer func() { _ = lock.Release() }()
	if _, err := (&writeback.Run{Connection: d.connection(), Ledger: d.ledger}).Do(t.Context()); !errors.Is(err, outbox.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

// blind is a system in which the field cannot be read.
type blind struct {
	sent map[string][]string // the ids under which a body came
	fail error
}

func (b *blind) Setup() string                                { return "blind" }
func (b *blind) Says() []connector.Standing                   { return connector.Standings }
func (b *blind) Value(to connector.Standing, _ string) string { return string(to) }
func (b *blind) Freeze(w connector.Write) ([]byte, error)     { return json.Marshal(w) }
func (b *blind) Send(_ context.Context, id string, frozen []byte) error {
	b.sent[id] = append(b.sent[id], string(frozen))
	return b.fail
}

func TestASystemThatCannotBeReadIsToldTheSameAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1)
	d.observed(connector.MandateCreated, 0)
	to := &blind{sent: map[string][]string{}, fail: errors.New("no answer")}
	c := writeback.Connection{Name: "acme", Writer: to}
	run := func() {
		t.Helper()
		if _, err := (&writeback.Run{Connection: c, Ledger: d.ledger}).Do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p, err := writeback.MakePlan(t.Context(), d.ledger, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writeback.Approve(t.Context(), d.ledger, c, p.Batch, "ada", ""); err != nil {
		t.Fatal(err)
	}
	run()
	d.observed(connector.MandateActive, 0) // news wait until that was taken
	for range 24 * 6 {
		d.now = d.now.Add(10 * time.Minute)
		run()
	}
	ids := slices.Collect(maps.Keys(to.sent))
	if len(ids) != 1 || len(to.sent[ids[0]]) > 12 || len(slices.Compact(to.sent[ids[0]])) != 1 {
		t.Fatalf("in a day of silence it was told %v", to.sent)
	}
	to.fail = nil
	for range 24 * 6 {
		d.now = d.now.Add(10 * time.Minute)
		run()
	}
	if len(to.sent) != 2 {
		t.Errorf("when it is back it was told %v", to.sent)
	}
}

// A ledger that was put back knows what mandates were once. Nothing of that is written before a
// sweep has read what they are; what was written meanwhile is found in the field.
//
// covers F149
func TestARestoredLedgerWritesNothingBeforeASweep(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 3)
	d.settled(connector.MandateCreated, 0, 1, 2)
	d.do((*state.Tx).MarkRestored)
	d.books.edit("C0000", "dd active") // which the lost part of the ledger knew
	d.observed(connector.MandatePending, 0, 1)
	if r := d.run(); r.Written != 0 || r.Later != 3 || !strings.Contains(r.Problem, "A sweep reads it") || d.books.field["C0001"] != "dd asked" {
		t.Errorf("before a sweep: %+v, %v", r, d.books.field)
	}
	d.now = d.now.Add(time.Minute)
	d.observed(connector.MandateActive, 0)
	d.do(func(tx *state.Tx) error {
		list, err := tx.BeginPass()
		return errors.Join(err, tx.FinishPass(list))
	})
	if r := d.run(); r.Written != 1 || r.Already != 1 || r.Theirs != 0 || d.books.field["C0001"] != "dd signed" {
		t.Errorf("behind the sweep: %+v, %v", r, d.books.field)
	}
}

// If a field shows only active, the end of a mandate looks like no mandate. A returned field, or one unknown
// to a restored ledger, says active no longer than the mandate is.
//
// covers F148
func TestAFieldDoesNotSayActiveBehindTheEndOfAMandate(t *testing.T) {
	t.Parallel()
	active := []connector.Standing{connector.StandingActive}
	begin := func(t *testing.T) *desk {
		d := newDesk(t, 4)
		d.books.says, d.books.field["C0000"] = active, "cash"
		d.settled(connector.MandateActive, 0, 3)
		return d
	}
	take := func(d *desk, id string) {
		d.t.Helper()
		if took, err := writeback.Take(d.t.Context(), d.ledger, d.connection(), id, "ada", "it is ours"); !took || err != nil {
			d.t.Errorf("taken %v, %v", took, err)
		}
	}
	restore := func(d *desk) {
		d.do((*state.Tx).MarkRestored)
		d.now = d.now.Add(time.Minute)
	}
	sweep := func(d *desk) {
		d.do(func(tx *state.Tx) error {
			list, err := tx.BeginPass()
			return errors.Join(err, tx.FinishPass(list))
		})
		d.now = d.now.Add(time.Minute)
	}
	for name, c := range map[string]struct {
		between func(*desk)
		want    string
	}{
		"taken where it was refused": {func(d *desk) {
			d.books.refuse = func(string) error { return &connector.WriteRefusedError{Why: "It is locked."} }
			d.observed(connector.MandateCancelled, 0)
			d.run()
			d.books.refuse = nil
			d.observed(connector.MandateActive, 0)
			take(d, "C0000")
			d.run()
		}, "cash"},
		"taken where it was another's": {func(d *desk) {
			d.books.edit("C0000", "cheque")
			d.observed(connector.MandateCancelled, 0)
			d.run()
			d.observed(connector.MandateActive, 0)
			take(d, "C0000")
		}, "cheque"},
		"taken when it was ours again": {func(d *desk) {
			d.books.edit("C0000", "cheque")
			d.observed(connector.MandateCancelled, 0)
			d.run()
			d.books.edit("C0000", "dd active")
			take(d, "C0000")
		}, "cash"},
		"put back": {func(d *desk) { restore(d); sweep(d) }, "cash"},
		"put back to a time of no mandate": {func(d *desk) {
			d.observed(connector.MandateCancelled, 0)
			d.run()
			d.now = d.now.Add(time.Hour)
			restore(d)
			d.books.edit("C0000", "dd active") // which the lost part of the ledger knew
			sweep(d)
		}, "cash"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := begin(t)
			c.between(d)
			d.now = d.now.Add(time.Hour)
			d.observed(connector.MandateCancelled, 0)
			d.run()
			if d.books.field["C0000"] != c.want || d.books.field["C0003"] != "dd active" {
				t.Errorf("the fields hold %v; to do %v", d.books.field, d.doing())
			}
			d.expect("behind it", map[string]writeback.Doing{})
			if d.untouched(); d.run().Written != 0 {
				t.Error("the next run writes")
			}
		})
	}
	t.Run("put back to a time before anything was written", func(t *testing.T) {
		t.Parallel()
		d := begin(t)
		restore(d)
		d.books.edit("C0001", "dd active")
		d.books.edit("C0002", "dd active")
		d.observed(connector.MandateCancelled, 1)
		d.observed(connector.MandateActive, 2)
		sweep(d)
		if r := d.run(); r.Theirs != 1 || r.Already != 1 || r.Written != 0 {
			t.Errorf("the run: %+v", r)
		}
		d.expect("nobody knows who wrote it", map[string]writeback.Doing{"C0001": writeback.Theirs})
		take(d, "C0001")
		d.observed(connector.MandateCancelled, 2)
		if r := d.run(); r.Written != 2 || d.books.field["C0001"] != "" || d.books.field["C0002"] != "" {
			t.Errorf("when it was taken: %+v, %v", r, d.books.field)
		}
	})
}
