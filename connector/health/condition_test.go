package health

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/worker"
	"payersync/state"
	"payersync/state/statetest"
)

// desk is a ledger whose clock the test moves.
type desk struct {
	*state.Ledger
	t  *testing.T
	at time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, at: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	l, err := state.Open(t.Context(),
		state.Options{Path: path, KeyFile: path + ".key", Now: func() time.Time { return d.at }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	d.Ledger = l
	return d
}

func (d *desk) do(fn func(*state.Tx) error) {
	d.t.Helper()
	if err := d.Do(d.t.Context(), fn); err != nil {
		d.t.Fatal(err)
	}
}

// begin begins a run of acme.
func (d *desk) begin(kind connector.RunKind) (id int64) {
	d.t.Helper()
	d.do(func(tx *state.Tx) (err error) {
		if err := tx.PinConnection(state.Connection{Name: "acme", Info: connector.SourceInfo{Kind: "csv"}}); err != nil {
			return err
		}
		if err := tx.SaveMapping("v1", "version: 1", "test"); err != nil {
			return err
		}
		id, err = tx.OpenRun(state.NewRun{Connection: "acme", Kind: kind, Trigger: "schedule", Mapping: "v1", Holder: "test"})
		return err
	})
	return id
}

func (d *desk) run(kind connector.RunKind, outcome connector.RunOutcome, problem string) {
	d.t.Helper()
	id := d.begin(kind)
	d.do(func(tx *state.Tx) error {
		_, _, err := tx.CloseRun(id, "acme", outcome, problem, connector.NewIDs())
		return err
	})
}

func (d *desk) look(e Expected, codes ...Code) []Condition {
	d.t.Helper()
	found, err := Present(d.t.Context(), d.Ledger, e, codes...)
	if err != nil {
		d.t.Fatal(err)
	}
	return found
}

// expect fails unless these conditions hold, each as its code and subject.
func (d *desk) expect(what string, found []Condition, want ...string) {
	d.t.Helper()
	got := []string{}
	for _, c := range found {
		got = append(got, strings.TrimSpace(string(c.Code)+" "+c.Subject))
	}
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestNothingIsTheMatterWithANewLedger(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.expect("a new ledger", d.look(Expected{Jobs: []worker.Job{{Name: "sweep", Schedule: "7 * * * *", Last: d.LastPass}},
		Webhooks: true}))
}

// A running run proves nothing yet, a plan made at a terminal was seen there, and an earlier failure counts
// from its beginning.
func TestARunFailedUntilAnotherEndsOtherwise(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.run(connector.RunSync, connector.RunComplete, "")
	d.expect("after a good run", d.look(Expected{}))
	d.at = d.at.Add(time.Hour)
	began := d.at
	d.run(connector.RunSync, connector.RunFailed, "the disk is on fire")
	d.at = d.at.Add(time.Hour)
	d.run(connector.RunSync, connector.RunFailed, "the disk is on fire")
	d.run(connector.RunPlan, connector.RunComplete, "")
	d.begin(connector.RunSync)
	found := d.look(Expected{})
	d.expect("after two that failed, and while another runs", found, "run_failed acme")
	if c := found[0]; !c.Since.Equal(began) || !c.Urgent || !strings.Contains(c.Sentence, "the disk is on fire") ||
		c.Connection != "acme" {
		t.Errorf("it is told as %+v", c)
	}
	d.expect("of a connection that is configured no more", d.look(Expected{Has: func(string) bool { return false }}))
}

// The service may be away for a moment, and the next run takes up what was left.
func TestARunThatCameToNoEndIsUrgentWhenThatLasts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.run(connector.RunSync, connector.RunIncomplete, "the service does not answer")
	for _, urgent := range []bool{false, true} {
		found := d.look(Expected{})
		d.expect("after a run that came to no end", found, "run_incomplete acme")
		if found[0].Urgent != urgent {
			t.Errorf("%s later it is urgent: %t", d.at.Sub(found[0].Since), !urgent)
		}
		d.at = d.at.Add(4 * time.Hour)
		d.run(connector.RunSync, connector.RunIncomplete, "the service does not answer")
	}
	d.run(connector.RunSync, connector.RunIncomplete, "")
	d.expect("when work is left and nothing went wrong", d.look(Expected{}))
}

func TestAJobIsOverdueByItsOwnSchedule(t *testing.T) {
	t.Parallel()
	nine := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	at := func(hours float64) time.Time { return nine.Add(time.Duration(hours * float64(time.Hour))) }
	never := func(context.Context) (time.Time, error) { return time.Time{}, nil }
	lastAt := func(hours float64) func(context.Context) (time.Time, error) {
		return func(context.Context) (time.Time, error) { return at(hours), nil }
	}
	type job struct {
		begun, ended float64
		outcome      string
	}
	tests := []struct {
		name string
		job  worker.Job
		row  *job // what serve noted, in hours after nine
		from float64
		now  float64
		want string
	}{
		{"an hourly one in time", worker.Job{Name: "sweep", Schedule: "@hourly", Last: lastAt(0)}, nil, 0, 1.5, ""},
		{"an hourly one that is an hour late", worker.Job{Name: "sweep", Schedule: "@hourly", Last: lastAt(0)}, nil, 0, 2.1,
			"job_overdue sweep"},
		{"a weekly one after three hours", worker.Job{Name: "sweep", Schedule: "@weekly", Last: lastAt(0)}, nil, 0, 3, ""},
		{"a quarter-hourly one", worker.Job{Name: "sync acme", Schedule: "*/15 * * * *", Last: lastAt(0)}, nil, 0, 0.6,
			"job_overdue sync acme"},
		{"a nightly one, the next morning", worker.Job{Name: "backup", Schedule: "30 3 * * *"}, &job{0, 0.1, "done"}, 0, 22,
			"job_overdue backup"},
		{"a nightly one, soon after its time", worker.Job{Name: "backup", Schedule: "30 3 * * *"}, &job{0, 0.1, "done"}, 0,
			19, ""},
		{"one that is at work", worker.Job{Name: "sync acme", Schedule: "@hourly", Last: lastAt(0)}, &job{1, 0, "done"}, 0, 5,
			""},
		{"one that never ends", worker.Job{Name: "sync acme", Schedule: "@hourly", Last: lastAt(0)}, &job{1, 0, "done"}, 0, 8,
			"job_overdue sync acme"},
		{"one that fails", worker.Job{Name: "sweep", Schedule: "@hourly", Last: lastAt(0)}, &job{5, 5.1, "failed"}, 0, 5.5,
			"job_failed sweep"},
		{"one that was interrupted", worker.Job{Name: "sweep", Schedule: "@hourly", Last: lastAt(0)},
			&job{5, 5.1, "interrupted"}, 0, 5.5, "job_overdue sweep"},
		{"one that is new", worker.Job{Name: "sync acme", Schedule: "*/15 * * * *", Last: never}, nil, 5, 5.2, ""},
		{"one that is new and never came", worker.Job{Name: "sync acme", Schedule: "*/15 * * * *", Last: never}, nil, 5, 6,
			"job_overdue sync acme"},
		{"one of which nobody knows since when it is wanted",
			worker.Job{Name: "sync acme", Schedule: "*/15 * * * *", Last: never}, nil, 0, 6, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			if tt.row != nil {
				d.at = at(tt.row.ended)
				d.do(func(tx *state.Tx) error { return tx.BeginJob(tt.job.Name) })
				d.do(func(tx *state.Tx) error {
					return tx.EndJob(tt.job.Name, state.JobEnd{Outcome: tt.row.outcome, Problem: "it rains"})
				})
				if tt.row.begun > tt.row.ended {
					d.at = at(tt.row.begun)
					d.do(func(tx *state.Tx) error { return tx.BeginJob(tt.job.Name) })
				}
			}
			d.at = at(tt.now)
			e := Expected{Jobs: []worker.Job{tt.job}}
			if tt.from > 0 {
				e.From = at(tt.from)
			}
			var want []string
			if tt.want != "" {
				want = []string{tt.want}
			}
			d.expect(tt.name, d.look(e, JobFailed, JobOverdue), want...)
		})
	}
}

// With sync on a timer and without sweeps, a lost mandate stays unknown.
func TestASweepThatNeverHappenedIsTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.run(connector.RunSync, connector.RunComplete, "")
	e := Expected{Jobs: []worker.Job{{Name: "sweep", Schedule: "7 * * * *", Last: d.LastPass},
		{Name: "keep-alive", Schedule: "15 4 * * *"}}}
	d.expect("on the first morning", d.look(e))
	d.at = d.at.Add(48 * time.Hour)
	d.expect("two days later", d.look(e), "job_overdue sweep")
}

func TestWhatTheLedgerKnowsIsToldWithItsWayOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.begin(connector.RunSync)
	d.do(func(tx *state.Tx) error {
		if _, err := tx.SetMappingProblem("acme", "line 3: Jane Canary is wrong"); err != nil {
			return err
		}
		if err := tx.SetSourceState("acme", state.SourceDisconnected, time.Time{}); err != nil {
			return err
		}
		if _, err := tx.HoldMissing(run, "acme", "v1", 12, "12 of 13 records are missing."); err != nil {
			return err
		}
		_, err := tx.SaveSubscription(state.SubscriptionFacts{Problem: state.SubscriptionDeleted,
			Detail: "The webhook subscription is gone."})
		return err
	})
	found := d.look(Expected{})
	d.expect("all of it", found, "source_disconnected acme", "standstill plan 1", "subscription_changed",
		"mapping_wrong acme")
	for _, c := range found {
		if c.Code.Title() == "" || c.Sentence == "" || c.Next == "" && len(c.Steps) == 0 {
			t.Errorf("nobody is told what to do: %+v", c)
		}
		if strings.Contains(c.Sentence+c.Next, "Canary") {
			t.Errorf("a line of a mapping, which may be somebody's record, is told: %+v", c)
		}
	}
	d.expect("two codes", d.look(Expected{}, MappingWrong, RunFailed), "mapping_wrong acme")
	d.do(func(tx *state.Tx) error { return tx.SetSourceState("acme", state.SourceParked, d.at.Add(time.Hour)) })
	d.expect("a parked source", d.look(Expected{}, SourceParked, SourceDisconnected), "source_parked acme")
	d.at = d.at.Add(2 * time.Hour)
	d.expect("when its time has come", d.look(Expected{}, SourceParked, SourceDisconnected))
}

func TestAConsentIsToldWhenHalfOfItsTimeIsGone(t *testing.T) {
	t.Parallel()
	renewed := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	c := state.ConsentRow{Connection: "books", RefreshedAt: renewed, ReconnectBy: renewed.Add(60 * 24 * time.Hour)}
	for days, want := range map[int]Code{29: "", 31: ConsentLapsing} {
		found, bad := Consent(c, renewed.Add(time.Duration(days)*24*time.Hour))
		if bad != (want != "") || found.Code != want {
			t.Errorf("after %d days: %+v", days, found)
		}
	}
	c.Broken = "it was withdrawn"
	if found, bad := Consent(c, renewed); !bad || found.Code != ConsentBroken || !found.Urgent {
		t.Errorf("a broken consent: %+v", found)
	}
}

// A refusing recipient cannot be told, but others can.
func TestAWayThatDoesNotWorkIsACondition(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(func(tx *state.Tx) error {
		for _, way := range []string{"office", "pager", "gone"} {
			if err := tx.FreezeMessage(state.AlarmMessage{ID: way, Way: way, MadeAt: d.at, Body: []byte("x")}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	e := Expected{Ways: []string{"office", "pager"}}
	d.expect("before anybody answered", d.look(e))
	for way, refused := range map[string]bool{"office": true, "pager": false, "gone": true} {
		d.do(func(tx *state.Tx) error { return tx.MessageFailed(way, "it rains", refused, d.at.Add(time.Minute)) })
	}
	d.expect("when one refused", d.look(e), "alert_way_failed office")
	d.at = d.at.Add(20 * time.Minute)
	d.expect("when the other is down for long", d.look(e), "alert_way_failed office", "alert_way_failed pager")
	d.do(func(tx *state.Tx) error { return tx.MessageSent("office") })
	d.expect("when it was taken", d.look(e), "alert_way_failed pager")
}

func TestEveryCodeHasATitle(t *testing.T) {
	t.Parallel()
	for i, c := range Codes {
		if c.Title() == "" || slices.Index(Codes, c) != i {
			t.Errorf("%s has no title, or is listed twice", c)
		}
	}
}

func TestWritesIntoTheBooksThatWaitOrAreStuckAreTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	note := func(waiting, stuck int) {
		d.do(func(tx *state.Tx) error {
			return tx.NoteWriteback(state.WritebackRun{Connection: "acme", Waiting: waiting, Stuck: stuck})
		})
	}
	note(0, 0)
	d.expect("after a run that wrote everything", d.look(Expected{}))
	note(12, 3)
	found := d.look(Expected{})
	d.expect("after one that could not", found, "writeback_waits acme", "writeback_stuck acme")
	if c := found[0]; c.Count != 12 || !c.Since.Equal(d.at) || c.Urgent {
		t.Errorf("it is told as %+v", c)
	}
	d.expect("of a connection that writes nothing any more", d.look(Expected{Writes: func(string) bool { return false }}))
}

// covers F174
func TestUpdatesThatAreStoppedAreToldUntilOneCameThrough(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	trip := func(way string, lost ...string) {
		d.do(func(tx *state.Tx) error {
			return tx.SaveRoundTrip(state.UpdateFormat{Spelling: way}, state.Verification{By: state.TripUpdate, Lost: lost})
		})
	}
	trip("update=body_id", "notes")
	d.expect("one that lost something", d.look(Expected{}, UpdatesHeld))
	trip("update=body_id", "notes", "externalData.legacy")
	found := d.look(Expected{}, UpdatesHeld)
	d.expect("a second", found, "updates_held")
	for _, word := range []string{"notes", "billing.dialect.external_data", "billing.dialect.read_only"} {
		if !strings.Contains(found[0].Text(), word) {
			t.Errorf("%q lacks %q", found[0].Text(), word)
		}
	}
	if !slices.Equal(found[0].Steps, []connector.Step{{Do: connector.DoProbe}, {Do: connector.DoTrustWhatIsShown}}) {
		t.Errorf("to do is %v", found[0].Steps)
	}
	trip("update=path_id")
	d.expect("another way that came through", d.look(Expected{}, UpdatesHeld))
}

// covers F41
func TestARotationThatCameToNoEndIsToldUntilALaterOneDid(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	rotate := func(done bool) {
		d.do(func(tx *state.Tx) error {
			id, err := tx.BeginRotation(connector.Secret{}, time.Hour, "ada")
			if err == nil && done {
				err = tx.EndRotation(id)
			}
			return err
		})
	}
	rotate(false)
	d.expect("while somebody may be at it", d.look(Expected{}, RotationUnfinished))
	d.at = d.at.Add(rotates)
	found := d.look(Expected{}, RotationUnfinished)
	d.expect("afterwards", found, "webhook_rotation_unfinished")
	if c := found[0]; !strings.Contains(c.Text(), "ada") ||
		!slices.Contains(c.Steps, connector.Step{Do: connector.DoSubscribe}) {
		t.Errorf("it says %q, and to do %v", c.Text(), c.Steps)
	}
	rotate(true)
	d.expect("after another one", d.look(Expected{}, RotationUnfinished))
}

// covers F171
func TestAConnectionThatLinksOnlyIsToldUntilAPersonHasDecided(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	only := func(only bool) {
		d.do(func(tx *state.Tx) error { return tx.SetLinkOnly("acme", only, "payersync") })
	}
	only(true)
	d.expect("where the configuration says so", d.look(Expected{}, TwoWay))
	d.do(func(tx *state.Tx) error {
		return tx.FoundTwoWay(state.TwoWay{Connection: "acme", Customers: 3, Matching: 1, Example: "c-1"})
	})
	found := d.look(Expected{}, TwoWay)
	d.expect("where it was found", found, "two_way acme")
	if text := found[0].Text(); !strings.Contains(text, "3 customers") ||
		!strings.Contains(text, "connections[].two_way") || strings.Contains(text, "c-1") {
		t.Errorf("it says %q", text)
	}
	d.expect("once the configuration says what is wanted",
		d.look(Expected{TwoWay: func(string) bool { return false }}, TwoWay))
	only(false)
	d.expect("once it writes again", d.look(Expected{}, TwoWay))
}

// covers F220
func TestAConnectionThatCreatesNobodyYetIsTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(func(tx *state.Tx) error {
		_, err := tx.SaveCreateStops("acme",
			[]state.CreateStop{{Cause: state.CauseFirstMatching, Customers: 41},
				{Cause: state.CauseSameBooks, Other: "before", Customers: 3}})
		return err
	})
	found := d.look(Expected{}, CreatesWait)
	if len(found) != 2 || !strings.Contains(found[0].Text(), "41 customers exist") ||
		!strings.Contains(found[1].Text(), "3 records of acme look like payers of before") {
		t.Fatalf("%+v", found)
	}
	d.do(func(tx *state.Tx) error {
		_, err := tx.FinishMatching("acme", "olga", "compared")
		return err
	})
	if found := d.look(Expected{}, CreatesWait); len(found) != 1 || found[0].Subject != "acme before" {
		t.Errorf("with matching finished: %+v", found)
	}
}

func TestWhatAPersonPutOffIsToldWhenItsTimeHasCome(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.receive("dd-mandate", connector.InboxQuarantined, 2)
	d.do(func(tx *state.Tx) error {
		_, err := tx.SaveSubscription(state.SubscriptionFacts{Problem: state.SubscriptionDeleted,
			Detail: "The webhook subscription is gone."})
		return err
	})
	d.expect("at first", d.look(Expected{}), "subscription_changed", "webhooks_not_understood")
	told, err := d.Attention(t.Context(), state.Filter{})
	if err != nil || len(told) != 3 {
		t.Fatalf("%d are told: %v", len(told), err)
	}
	putOff := func(rows []state.AttentionRow) {
		t.Helper()
		d.at = d.at.Add(time.Minute)
		d.do(func(tx *state.Tx) error {
			for _, r := range rows {
				if _, err := tx.PutOff(state.RecordID{SourceID: r.SourceID}, connector.Reason(r.Reason), d.at.Add(time.Hour),
					state.Entry{Actor: "ada", Action: "put off"}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	first := slices.IndexFunc(told,
		func(r state.AttentionRow) bool { return r.Reason == string(connector.ReasonEventNotUnderstood) })
	putOff(told[first : first+1])
	found := d.look(Expected{}, EventsUnclear)
	if d.expect("one delivery put off", found, "webhooks_not_understood"); found[0].Count != 1 {
		t.Errorf("%d deliveries are told, want the other one: %s", found[0].Count, found[0].Sentence)
	}
	putOff(told)
	d.expect("all put off", d.look(Expected{}))
	d.at = d.at.Add(2 * time.Hour)
	d.expect("when the time has come", d.look(Expected{}), "subscription_changed", "webhooks_not_understood")
}
