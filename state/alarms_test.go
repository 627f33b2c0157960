package state

import (
	"errors"
	"strings"
	"testing"
	"time"

	"payersync/connector"
)

// noticed keeps an alarm and returns it as the ledger has it.
func (d *desk) noticed(a Alarm) Alarm {
	d.t.Helper()
	a.NoticedAt = d.now()
	d.do(func(tx *Tx) error { return tx.NoticeAlarm(a) })
	open := d.alarms()
	return open[len(open)-1]
}

func (d *desk) alarms() []Alarm {
	d.t.Helper()
	open, err := d.OpenAlarms(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return open
}

func (d *desk) waitingFor(way string) *AlarmMessage {
	d.t.Helper()
	m, err := d.WaitingMessage(d.t.Context(), way)
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

func TestAnAlarmIsOpenUntilItsEndWasTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a := d.noticed(Alarm{Way: "office", Code: "run_failed", Subject: "acme", Connection: "acme", Text: "A run failed."})
	body := []byte("From: payersync\r\n\r\nA run failed.\r\n")
	d.do(func(tx *Tx) error {
		return tx.FreezeMessage(AlarmMessage{ID: "m1", Way: "office", MadeAt: d.now(), Body: body, Attempts: 1,
			NextAttempt: d.now().Add(time.Minute)},
			[]AlarmNotice{{Alarm: a.ID, Text: "A run failed twice."}})
	})
	waiting := d.waitingFor("office")
	if waiting == nil || string(waiting.Body) != string(body) || waiting.Attempts != 1 {
		t.Fatalf("what waits is %+v", waiting)
	}
	if got := d.alarms(); got[0].Told != "m1" || got[0].Text != "A run failed twice." || got[0].MadeAt.IsZero() ||
		!got[0].SentAt.IsZero() {
		t.Errorf("the alarm is %+v", got)
	}
	d.do(func(tx *Tx) error { return tx.MessageSent("m1") })
	if m := d.waitingFor("office"); m != nil {
		t.Errorf("what was taken still waits: %+v", m)
	}
	d.do(func(tx *Tx) error { return tx.SetAlarmOver(a.ID, d.now()) })
	d.do(func(tx *Tx) error {
		return tx.FreezeMessage(AlarmMessage{ID: "m2", Way: "office", MadeAt: d.now(), Body: body},
			[]AlarmNotice{{Alarm: a.ID, Over: true}})
	})
	if got := d.alarms(); len(got) != 0 {
		t.Errorf("an alarm whose end was told is open: %+v", got)
	}
	d.do(func(tx *Tx) error { return errors.Join(tx.MessageSent("m2"), tx.DropOldAlarms(d.now().Add(time.Hour))) })
	if n := one[int](t, d.Ledger, "SELECT (SELECT count(*) FROM alarms) + (SELECT count(*) FROM alarm_messages)"); n != 0 {
		t.Errorf("%d rows are left of what is long over", n)
	}
}

func TestAWayHasOneMessageThatWaits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	freeze := func(id, way string) error {
		return d.Do(t.Context(), func(tx *Tx) error {
			return tx.FreezeMessage(AlarmMessage{ID: id, Way: way, MadeAt: d.now(), Body: []byte(id)}, nil)
		})
	}
	if err := errors.Join(freeze("m1", "office"), freeze("m2", "pager")); err != nil {
		t.Fatal(err)
	}
	if err := freeze("m3", "office"); err == nil {
		t.Error("a second message of a way waits beside the first")
	}
	d.do(func(tx *Tx) error { return tx.MessageFailed("m1", "550 no such user", true, d.now().Add(time.Hour)) })
	last, err := d.LastMessages(t.Context())
	if err != nil || len(last) != 2 || !last[0].Refused || last[0].Problem != "550 no such user" ||
		last[1].Way != "pager" {
		t.Errorf("the last messages are %+v, %v", last, err)
	}
}

// Names of payers may stand in a message.
func TestAFrozenMessageIsSealedAndNotKeptOnceItWasTaken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(func(tx *Tx) error {
		return tx.FreezeMessage(AlarmMessage{ID: "m1", Way: "office", MadeAt: d.now(), Body: []byte("Jane Canary")}, nil)
	})
	if strings.Contains(one[string](t, d.Ledger, "SELECT hex(body) FROM alarm_messages"), "4A616E65") {
		t.Error("the message lies open in the ledger")
	}
	raw(t, d.opts.Path, "UPDATE alarm_messages SET digest = 'another'")
	if _, err := d.WaitingMessage(t.Context(), "office"); err == nil {
		t.Error("a message that is not what was frozen would be sent")
	}
	d.do(func(tx *Tx) error { return tx.MessageSent("m1") })
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM alarm_messages WHERE body IS NOT NULL"); n != 0 {
		t.Error("the bytes are kept after they were taken")
	}
}

func TestOneProcessTellsAtATime(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first, err := d.TryOutbox(MessageAlarm)
	if err != nil || first == nil {
		t.Fatal(first, err)
	}
	if second, err := d.another().TryOutbox(MessageAlarm); err != nil || second != nil {
		t.Errorf("a second process tells, too: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := d.another().TryOutbox(MessageAlarm)
	if err != nil || second == nil {
		t.Errorf("nobody may tell after the first has ended: %v", err)
	}
	_ = second.Release()
}

func TestRunsThatFailInARowBeganToFailWithTheFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	end := func(outcome connector.RunOutcome) time.Time {
		d.clock.move(time.Minute)
		d.closeRun(d.run(acme), outcome)
		return d.now()
	}
	end(connector.RunFailed)
	end(connector.RunComplete)
	began := end(connector.RunFailed)
	end(connector.RunFailed)
	d.run(acme) // one is under way
	ends, err := d.RunEnds(t.Context())
	if err != nil || len(ends) != 1 || ends[0].Outcome != connector.RunFailed || !ends[0].Since.Equal(began) {
		t.Errorf("the runs ended %+v (%v), want failed since %s", ends, err, began)
	}
}

func TestAPlanWaitsSinceTheFirstThatNobodyDecidedOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.pin(acme)
	run := d.run(acme)
	plan := func(id int, columns string) {
		raw(t, d.opts.Path, "INSERT INTO plans (plan_id, connection, run_id, hash, mapping_version, created_at, state, limits"+strings.Split(columns, "=")[0]+") VALUES ("+
			strings.Join([]string{itoa(id), "'acme'", itoa(int(run)), "'h" + itoa(id) + "'", "'v1'", "'2026-03-04T10:0" +
				itoa(id) + ":00.000Z'", "'superseded'"}, ", ")+strings.Split(columns, "=")[1]+")")
	}
	plan(1, ", approved_at=, 'too many', '2026-03-04T10:30:00.000Z'")
	plan(2, "=, 'too many'")
	plan(3, "=, 'too many'")
	plan(4, "=, ''") // within the limits: the wait was over
	plan(5, "=, 'too many'")
	plan(6, ", missing=, 'too few', 7")
	for id, want := range map[int64]int64{2: 2, 3: 2, 5: 5, 6: 6} {
		p := Plan{ID: id, Connection: acme}
		if id == 6 {
			p.Missing = 7
		}
		if first, at, err := d.WaitingSince(t.Context(), p); err != nil || first != want || at.IsZero() {
			t.Errorf("plan %d waits since plan %d (%s, %v), want %d", id, first, at, err, want)
		}
	}
}

func itoa(n int) string { return string(rune('0' + n)) }

// waits freezes a message to a way that tells of a new alarm.
func (d *desk) waits(way, text string) {
	d.t.Helper()
	a := d.noticed(Alarm{Way: way, Code: "mandate_cancelled", Subject: "m-" + way, Connection: acme,
		Text: "A mandate was cancelled."})
	d.do(func(tx *Tx) error {
		return tx.FreezeMessage(AlarmMessage{ID: "to " + way, Way: way, MadeAt: d.now(), Body: []byte(text)},
			[]AlarmNotice{{Alarm: a.ID, Text: a.Text}})
	})
}

// What a message says is frozen, and with it a name; whoever is forgotten is named no more.
//
// covers F123
func TestNoMessageThatWaitsOutlivesAPayerThatIsForgotten(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(8)
	d.over()
	d.waits("office", "The mandate of "+canaryName+" was cancelled.")
	d.forget("c000")
	if m := d.waitingFor("office"); m != nil {
		t.Errorf("it waits still: %+v", m)
	}
	if open := d.alarms(); len(open) != 1 || open[0].Told != "" {
		t.Errorf("the alarm is to be told anew, and it is %+v", open)
	}
}

func TestWhatWasToBeToldByAWayThatIsGoneIsDropped(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.waits("office", "one")
	d.waits("pager", "two")
	d.do(func(tx *Tx) error { return tx.KeepWays([]string{"pager"}) })
	if open := d.alarms(); len(open) != 1 || open[0].Way != "pager" || d.waitingFor("office") != nil ||
		d.waitingFor("pager") == nil {
		t.Errorf("open are %+v", open)
	}
	d.do(func(tx *Tx) error { return tx.KeepWays([]string{}) })
	if open := d.alarms(); len(open) != 0 {
		t.Errorf("without any way open are %+v", open)
	}
}
