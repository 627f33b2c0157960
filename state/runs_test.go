package state

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func newRun(connection string) NewRun {
	return NewRun{Connection: connection, Kind: connector.RunSync, Trigger: "manual", Mapping: mapping, Holder: "test"}
}

// covers F61
func TestAConnectionHasOneOpenRun(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.run(acme)
	started := d.Now()
	d.clock.move(time.Minute)
	err := d.Do(t.Context(), func(tx *Tx) error { _, err := tx.OpenRun(newRun(acme)); return err })
	var open *ErrRunOpen
	if !errors.As(err, &open) {
		t.Fatalf("got %v, want ErrRunOpen", err)
	}
	if diff := cmp.Diff(&ErrRunOpen{acme, first, started}, open); diff != "" {
		t.Errorf("the refusal (-want +got):\n%s", diff)
	}
	if err := d.Do(t.Context(), func(tx *Tx) error { // the schema's own law
		return tx.exec(`INSERT INTO runs (connection, kind, trigger, mapping_version, holder, lease_until, started_at)
			SELECT connection, kind, trigger, mapping_version, holder, lease_until, started_at FROM runs`)
	}); err == nil {
		t.Error("a connection has two open runs")
	}
	d.run("globex") // another connection is free
	d.closeRun(first, connector.RunComplete)
	if second := d.run(acme); second <= first {
		t.Errorf("run %d after run %d", second, first)
	}
}

// covers F61, L4
func TestARunThatFallsSilentIsTakenOver(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.run(acme)
	d.clock.move(Lease - time.Second)
	d.do(func(tx *Tx) error { return tx.RenewLease(first) })
	d.clock.move(Lease - time.Millisecond)
	var open *ErrRunOpen
	if err := d.Do(t.Context(), func(tx *Tx) error { _, err := tx.OpenRun(newRun(acme)); return err }); !errors.As(err,
		&open) {
		t.Fatalf("a renewed lease: got %v, want ErrRunOpen", err)
	}
	d.clock.move(time.Millisecond)
	second := d.run(acme)
	if second == first {
		t.Fatal("the silent run was not replaced")
	}
	runs, err := d.Runs(t.Context(), Filter{Connection: acme})
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v; want 2", len(runs), err)
	}
	if got := runs[1]; got.RunID != first || got.Outcome != string(connector.RunIncomplete) || got.FinishedAt == nil {
		t.Errorf("the silent run is %+v, want it closed as incomplete", got)
	}
}

func TestEndLeaseLetsAConnectionGoAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.run(acme)
	d.do(func(tx *Tx) error { return tx.EndLease(acme) })
	if second := d.run(acme); second == first {
		t.Error("the dead run still holds the connection")
	}
}

// covers F28, S12
func TestAConnectionIsPinnedToItsSource(t *testing.T) {
	t.Parallel()
	pinned := Connection{Name: acme, Info: connector.SourceInfo{Kind: "xero", Tenant: "t1", TenantName: "Acme Ltd"}}
	tests := []struct {
		name   string
		change func(*Connection)
		what   string
	}{
		{"the same again", func(*Connection) {}, ""},
		{"renamed organisation", func(c *Connection) { c.Info.TenantName = "Acme Limited" }, ""},
		{"another source", func(c *Connection) { c.Info.Kind = "csv" }, "source kind"},
		{"another organisation", func(c *Connection) { c.Info.Tenant = "t2" }, "organisation"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(func(tx *Tx) error { return tx.PinConnection(pinned) })
			now := pinned
			tt.change(&now)
			err := d.Do(t.Context(), func(tx *Tx) error { return tx.PinConnection(now) })
			var other *ErrOtherEnvironment
			if tt.what == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if !errors.As(err, &other) || other.What != tt.what || other.Connection != acme {
				t.Errorf("got %v, want a refusal of the %s", err, tt.what)
			}
		})
	}
}

func TestACursorIsKeptPerConnectionAndStream(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	if got, err := d.Cursor(t.Context(), acme, "customers"); got != "" || err != nil {
		t.Errorf("got %q, %v; want none yet", got, err)
	}
	for _, value := range []string{"1", "2"} {
		d.do(func(tx *Tx) error { return tx.SetCursor(acme, "customers", value, run) })
	}
	d.do(func(tx *Tx) error { return tx.SetCursor(acme, "contacts", "9", run) })
	if got, err := d.Cursor(t.Context(), acme, "customers"); got != "2" || err != nil {
		t.Errorf("got %q, %v; want 2", got, err)
	}
}

// Every record ends in exactly one count.
//
// covers F79
func TestCountsAddUpToTheRecordsPulled(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	close := func(c Change, to connector.ChangeState) {
		d.do(func(tx *Tx) error {
			switch to {
			case connector.ChangeDone:
				return tx.CloseDone(run, c)
			case connector.ChangeUnknown:
				return tx.LeaveUnknown(run, c, "")
			}
			return tx.CloseWith(run, c, to, connector.ReasonRejected, "")
		})
	}
	linked := func(id string, action connector.Action) Change { return d.planLinked(run, id, "b-"+id, action) }

	created := d.planCreate(run, acme, "created")
	d.do(func(tx *Tx) error { return tx.LinkPayer(created.Payer, "b-created", false) })
	close(created, connector.ChangeDone)
	close(linked("adopted", connector.ActionAdopt), connector.ChangeDone)
	updated := linked("updated", connector.ActionUpdate)
	d.do(func(tx *Tx) error { _, err := tx.FreezeUpdate(run, updated, []byte("{}"), []byte("{}")); return err })
	close(updated, connector.ChangeDone)
	close(linked("held-update", connector.ActionUpdate), connector.ChangeHeld)
	close(linked("unknown", connector.ActionUpdate), connector.ChangeUnknown)
	close(d.planCreate(run, acme, "failed"), connector.ChangeFailed)
	d.planCreate(run, acme, "pending")
	link := d.planLink(run, "unchanged", "b-unchanged")
	d.do(func(tx *Tx) error { return tx.CloseWith(run, link, connector.ChangeDone, "", "") })
	for id, v := range map[string]Decision{"excluded": {Verdict: Excluded},
		"held": {Verdict: Held, Topic: TopicRecord, Reason: connector.ReasonKeyBlank}} {
		d.save(run, acme, record(id, id))
		v.SourceID, v.ContentHash = id, record(id, id).Hash()
		d.decide(run, acme, v)
	}
	d.save(run, acme, record("not planned", "x"))

	counts, outcome := d.closeRun(run, connector.RunComplete)
	want := Counts{
		Pulled: 11, Created: 1, Adopted: 1, Updated: 1, Failed: 1, Held: 2, Excluded: 1, Unchanged: 1,
		LinksRequested: 1, Waiting: 3, // the pending create, the unknown update, the record nobody planned
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if outcome != connector.RunIncomplete {
		t.Errorf("the outcome is %s although records wait, want incomplete", outcome)
	}
	runs, err := d.Runs(t.Context(), Filter{})
	if err != nil || len(runs) != 1 || runs[0].Pulled != 11 || runs[0].Outcome != "incomplete" ||
		runs[0].LinksRequested != 1 {
		t.Errorf("the run's row is %+v, %v", runs, err)
	}
}

func TestARunTakesUpWhatAnEarlierRunLeft(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.run(acme)
	c := d.planCreate(first, acme, "c1")
	if counts, outcome := d.closeRun(first, connector.RunComplete); counts.Waiting != 1 ||
		outcome != connector.RunIncomplete {
		t.Errorf("the first run: %+v, %s", counts, outcome)
	}
	second := d.run(acme)
	d.do(func(tx *Tx) error {
		if _, err := tx.FreezeCreate(second, c, []byte("{}"), 0); err != nil {
			return err
		}
		if err := tx.LinkPayer(c.Payer, "b1", true); err != nil {
			return err
		}
		return tx.CloseDone(second, c)
	})
	counts, outcome := d.closeRun(second, connector.RunComplete)
	if diff := cmp.Diff(Counts{Pulled: 1, Created: 1}, counts); diff != "" || outcome != connector.RunComplete {
		t.Errorf("the second run is %s, counts (-want +got):\n%s", outcome, diff)
	}
}

// A run is complete when nothing is left that payersync could do by itself.
//
// covers F79
func TestARunThatLeavesWorkIsIncomplete(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		leave func(d *desk, run int64)
		want  connector.RunOutcome
	}{
		{"nothing", func(*desk, int64) {}, connector.RunComplete},
		{"a link of a linked payer", func(d *desk, run int64) {
			d.planLink(run, "c1", "b1")
			d.do(func(tx *Tx) error { _, err := tx.SaveRemote(remote("b1", key("c1")), 1); return err })
		}, connector.RunIncomplete},
		{"a link of a payer whose customer is gone", func(d *desk, run int64) {
			d.planLink(run, "c1", "b1")
			d.do(func(tx *Tx) error { _, err := tx.ForgetRemote("b1", 1); return err })
		}, connector.RunComplete},
		{"a create that no read confirmed", func(d *desk, run int64) {
			c, _ := d.freeze(run, d.planCreate(run, acme, "c1"), "{}")
			d.do(func(tx *Tx) error {
				if err := tx.LinkPayer(c.Payer, "b1", false); err != nil {
					return err
				}
				return tx.CloseDone(run, c)
			})
		}, connector.RunIncomplete},
		{"a record to plan again", func(d *desk, run int64) {
			c := d.planLinked(run, "c1", "b1", connector.ActionUpdate)
			d.do(func(tx *Tx) error {
				if err := tx.CloseDone(run, c); err != nil {
					return err
				}
				_, err := tx.ReplanRecord(acme, "c1")
				return err
			})
		}, connector.RunIncomplete},
		{"a record for a person", func(d *desk, run int64) {
			d.save(run, acme, record("c1", "c1"))
			d.decide(run, acme, Decision{SourceID: "c1", Verdict: Held, Topic: TopicRecord, Reason: connector.ReasonKeyBlank})
		}, connector.RunComplete},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			tt.leave(d, run)
			if _, got := d.closeRun(run, connector.RunComplete); got != tt.want {
				t.Errorf("the run is %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAPlanOnlyRunMayLeaveRecordsWaiting(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.pin(acme)
	var run int64
	d.do(func(tx *Tx) (err error) {
		r := newRun(acme)
		r.Kind = connector.RunPlan
		run, err = tx.OpenRun(r)
		return err
	})
	d.planCreate(run, acme, "c1")
	counts, outcome := d.closeRun(run, connector.RunComplete)
	if counts.Waiting != 1 || outcome != connector.RunComplete {
		t.Errorf("%s with %d waiting, want complete with 1", outcome, counts.Waiting)
	}
	if last, err := d.LastFinished(t.Context(), acme); !last.IsZero() || err != nil {
		t.Errorf("a run that only planned counts as the last run: %v, %v", last, err)
	}
}

// covers L4
func TestARunOfAKilledProcessIsInterruptedOnceItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	run := d.run(acme)
	outcomes := func() []string {
		t.Helper()
		latest, err1 := d.LatestRuns(ctx)
		all, err2 := d.Runs(ctx, Filter{})
		one, err3 := d.Run(ctx, run)
		page, err4 := d.RunPage(ctx, 0, 10)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		return []string{latest[0].Outcome, all[0].Outcome, one.Outcome, page[0].Outcome}
	}
	count := func() MonitoringCounts {
		t.Helper()
		n, err := d.NewCounter().Count(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	d.clock.move(Lease - time.Millisecond)
	if diff := cmp.Diff([]string{"running", "running", "running", "running"}, outcomes()); diff != "" {
		t.Errorf("within the lease (-want +got):\n%s", diff)
	}
	if problems, err := d.RunProblems(ctx); err != nil || len(problems) > 0 {
		t.Errorf("a run in progress has the problems %+v, %v", problems, err)
	}
	if n := count(); len(n.OpenRuns) != 1 || len(n.LastEnded) > 0 {
		t.Errorf("within the lease the numbers are %+v", n)
	}
	d.clock.move(time.Millisecond)
	if diff := cmp.Diff([]string{"interrupted", "interrupted", "interrupted", "interrupted"}, outcomes()); diff != "" {
		t.Errorf("after the lease (-want +got):\n%s", diff)
	}
	if problems, err := d.RunProblems(ctx); err != nil || len(problems) != 1 || problems[0].Outcome != "interrupted" ||
		problems[0].Problem != leaseRanOut {
		t.Errorf("an interrupted run has the problems %+v, %v", problems, err)
	}
	if n := count(); len(n.OpenRuns) > 0 || len(n.LastEnded) != 1 || n.LastEnded[0].Outcome != "interrupted" ||
		!n.LastEnded[0].FinishedAt.Equal(d.Now()) {
		t.Errorf("after the lease the numbers are %+v", n)
	}
	d.run(acme)
	if one, err := d.Run(ctx, run); err != nil || one.Outcome != "incomplete" || one.Problem != leaseRanOut {
		t.Errorf("once the next run has begun, it is %+v, %v", one, err)
	}
}

func TestAMappingVersionIsKeptOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, text := range []string{"first", "second"} {
		d.do(func(tx *Tx) error { return tx.SaveMapping("h1", text, "ada") })
	}
	if got, err := d.mappings(t.Context(),
		"SELECT "+versionColumns+" FROM mapping_versions v LEFT JOIN runs r ON FALSE GROUP BY v.hash, v.author, v.saved_at, v.body"); err != nil || len(got) != 1 || got[0].Text != "first" {
		t.Errorf("got %+v, %v; want the text that was first saved under its hash", got, err)
	}
}

func TestWhatASourceSaidOfItselfIsKeptAsItSaidItLast(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	says := func(want connector.SourceInfo) {
		t.Helper()
		if got, err := d.SourceInfo(t.Context(), acme); err != nil || !cmp.Equal(got, want) {
			t.Errorf("the source said %+v, want %+v (%v)", got, want, err)
		}
	}
	says(connector.SourceInfo{})
	first := connector.SourceInfo{
		Kind: "csv", Tenant: "t1", TenantName: "Acme Ltd", Snapshot: true,
		Fields: []connector.Field{{Name: "Name", Type: connector.TypeText},
			{Name: "Address", Type: connector.TypeList, Fields: []connector.Field{{Name: "City"}}}},
	}
	then := first
	then.Snapshot, then.Fields = false, first.Fields[:1]
	for _, info := range []connector.SourceInfo{first, then} {
		d.do(func(tx *Tx) error { return tx.PinConnection(Connection{Name: acme, Info: info}) })
		says(info)
	}
	closed := connector.SourceInfo{Kind: "csv", Tenant: "t1"}
	d.do(func(tx *Tx) error { return tx.PinConnection(Connection{Name: acme, Info: closed}) })
	says(then)
	for _, text := range []string{"", `{"Tenant":"t2`} { // as an older version leaves it, and as a bad disk does
		d.do(func(tx *Tx) error { return tx.exec("UPDATE connections SET described = ?", text) })
		says(connector.SourceInfo{Kind: "csv", Tenant: "t1", TenantName: "Acme Ltd"})
	}
}

func TestARunKeepsWhatItLeftUndoneAndWhenItGoesOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	at := d.Now().Add(time.Hour).UTC()
	d.do(func(tx *Tx) error {
		if _, _, err := tx.CloseRun(run, acme, connector.RunIncomplete, "", connector.NewIDs()); err != nil {
			return err
		}
		return tx.NoteUndone(run, "4 signing links asked for without an answer", at)
	})
	detail, err := d.Run(t.Context(), run)
	problems, problemErr := d.RunProblems(t.Context())
	if err != nil || problemErr != nil || detail.Undone == "" || detail.RetryAt == nil || len(problems) != 1 ||
		problems[0].Undone != detail.Undone || problems[0].Problem != detail.Undone ||
		*problems[0].RetryAt != *detail.RetryAt {
		t.Errorf("the run is %+v and the problems %+v: %v, %v", detail, problems, err, problemErr)
	}
	if kept, err := time.Parse(time.RFC3339, *detail.RetryAt); err != nil || !kept.Equal(at) {
		t.Errorf("it goes on at %s, want %s: %v", *detail.RetryAt, at, err)
	}
}
