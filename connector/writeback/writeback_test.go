package writeback_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/outbox"
	"payersync/connector/writeback"
	"payersync/state"
)

// covers F146
func TestAThousandPayersAreWrittenOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1000)
	d.observed(connector.MandateActive, upTo(1000)...)
	if r := d.run(); r.Written != 0 || r.Waiting != 1000 || r.Batch == "" || d.books.reads+d.books.writes != 0 {
		t.Fatalf("before anybody approved: %+v, %d reads, %d writes", r, d.books.reads, d.books.writes)
	}
	if _, err := writeback.Approve(t.Context(), d.ledger, d.connection(), "another", "ada", ""); !errors.Is(err,
		outbox.ErrChanged) {
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
	if _, err := writeback.Approve(t.Context(), d.ledger, d.connection(), shown, "ada", ""); !errors.Is(err,
		outbox.ErrChanged) {
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
	d.expect("with another setup",
		map[string]writeback.Doing{"C0000": writeback.Waits, "C0001": writeback.Waits, "C0002": writeback.Waits})
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
	if took, err := writeback.TakeField(t.Context(), d.ledger, d.connection(), "C0000", "ada", "it was a slip"); !took ||
		err != nil {
		t.Errorf("taken %v, %v", took, err)
	}
	if r := d.run(); r.Written != 1 || d.books.field["C0000"] != "dd active" {
		t.Errorf("when it was taken: %+v, %q", r, d.books.field["C0000"])
	}
	if took, err := writeback.TakeField(t.Context(), d.ledger, d.connection(), "C0001", "ada", ""); err != nil || took &&
		d.books.field["C0001"] == "" {
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
	d.books.says = []connector.FieldStatus{connector.FieldActive}
	d.books.field["C0000"], d.books.field["C0001"] = "cash", "cash"
	d.observed(connector.MandateCreated, 0, 1)
	d.expect("what the field does not tell apart", map[string]writeback.Doing{})
	d.settled(connector.MandateActive, 0, 1)
	d.books.edit("C0001", "cheque")
	d.observed(connector.MandateCancelled, 0, 1)
	if r := d.run(); r.Written != 1 || r.Theirs != 1 || d.books.field["C0000"] != "cash" ||
		d.books.field["C0001"] != "cheque" {
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
	if r := d.run(); r.Written != 0 || r.Stuck != 2 || d.books.field["C0000"] != "dd active" ||
		d.books.field["C0001"] != "" {
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
		d.observed(map[bool]connector.MandateStatus{true: connector.MandateActive,
			false: connector.MandateCreated}[d.books.field["C0000"] == "dd asked"], 0)
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
	for name, cause := range map[string]error{"wrong credentials": connector.ErrNotWritten,
		"no answer": errors.New("no answer")} {
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
	d.expect("refused", map[string]writeback.Doing{"C0001": writeback.Refused, "C0002": writeback.Refused,
		"C0003": writeback.Refused})
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

func TestPayersWhoseRecordsAreGoneAreLeftAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2)
	d.settled(connector.MandateActive, 0, 1)
	d.do(func(tx *state.Tx) error {
		run, err := tx.OpenRun(state.NewRun{Connection: "acme", Kind: connector.RunSync, Trigger: "manual", Mapping: "m1",
			Holder: "test"})
		if err != nil {
			return err
		}
		return tx.SavePage(run, "acme",
			[]connector.Record{{SourceID: "C0000", State: connector.RecordArchived, Data: []byte(`{}`)}})
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
	if _, err := (&writeback.Run{Target: d.connection(), Ledger: d.ledger}).Do(t.Context()); !errors.Is(err,
		outbox.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

// If a field shows only active, the end of a mandate looks like no mandate. A returned field, or one unknown
// to a restored ledger, says active no longer than the mandate is.
//
// covers F148
func TestAFieldDoesNotSayActiveBehindTheEndOfAMandate(t *testing.T) {
	t.Parallel()
	active := []connector.FieldStatus{connector.FieldActive}
	begin := func(t *testing.T) *desk {
		d := newDesk(t, 4)
		d.books.says, d.books.field["C0000"] = active, "cash"
		d.settled(connector.MandateActive, 0, 3)
		return d
	}
	take := func(d *desk, id string) {
		d.t.Helper()
		if took, err := writeback.TakeField(d.t.Context(), d.ledger, d.connection(), id, "ada", "it is ours"); !took ||
			err != nil {
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
