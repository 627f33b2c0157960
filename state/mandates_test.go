package state

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"payersync/connector"
	"payersync/connector/protocol"
)

// mandate saves what was observed of mandate m1 of customer b1.
func (d *desk) mandate(m connector.Mandate, cause connector.Cause) (before connector.MandateStatus) {
	d.t.Helper()
	if m.ID == "" {
		m.ID = "m1"
	}
	m.CustomerID = "b1"
	d.do(func(tx *Tx) (err error) {
		before, err = tx.SaveMandate(m, cause, "1")
		return err
	})
	return before
}

// covers F56, F57
func TestMandateHistoryGrowsOnlyWhenTheStatusMoves(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	created, active := connector.MandateCreated, connector.MandateActive
	steps := []struct {
		status, before connector.MandateStatus
		service        string
	}{
		{created, "", "2026-03-01T08:00:00Z"}, {created, created, ""}, {active, created, "2026-03-01T08:00:00Z"},
		{active, active, "yesterday"}, {"HALF_SIGNED", active, ""}, {created, "HALF_SIGNED", "2025-01-01"},
	}
	for i, s := range steps {
		d.clock.move(time.Minute)
		if before := d.mandate(connector.Mandate{Status: s.status, ServiceTime: s.service},
			connector.CauseWebhook); before != s.before {
			t.Errorf("step %d: the status before was %q, want %q", i, before, s.before)
		}
	}
	d.mandate(connector.Mandate{ID: "m2", Status: active}, connector.CauseSweep)

	got, err := d.History(t.Context(), "b1")
	if err != nil {
		t.Fatal(err)
	}
	at := func(minute int) string { return stamp(newClock().at.Add(time.Duration(minute) * time.Minute)).(string) }
	line := func(mandate, from, to, service string, minute int, cause string) HistoryRow {
		return HistoryRow{MandateID: mandate, BillingID: "b1", FromStatus: from, ToStatus: to, ServiceTime: service,
			ObservedAt: at(minute), Cause: cause}
	}
	want := []HistoryRow{
		line("m1", "", "CREATED", "2026-03-01T08:00:00Z", 1, "webhook"),
		line("m1", "CREATED", "ACTIVE", "2026-03-01T08:00:00Z", 3, "webhook"),
		line("m1", "ACTIVE", "HALF_SIGNED", "", 5, "webhook"),
		line("m1", "HALF_SIGNED", "CREATED", "2025-01-01", 6, "webhook"),
		line("m2", "", "ACTIVE", "", 6, "sweep"),
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(HistoryRow{}, "Seq")); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if err := d.Integrity(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAMandateShowsSinceWhenAndHowLatelyItWasSeen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.Now()
	d.mandate(connector.Mandate{Status: connector.MandateActive, ServiceTime: "kept"}, connector.CauseSweep)
	d.clock.move(time.Hour)
	d.mandate(connector.Mandate{Status: connector.MandateActive}, connector.CauseSweep)
	rows, err := d.Mandates(t.Context(), Filter{State: "ACTIVE"})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	want := MandateRow{
		MandateID: "m1", BillingID: "b1", Status: "ACTIVE",
		StatusSince: stamp(first).(string), FirstSeenAt: stamp(first).(string), LastSeenAt: stamp(d.Now()).(string),
	}
	if diff := cmp.Diff(want, rows[0]); diff != "" {
		t.Errorf("the mandate (-want +got):\n%s", diff)
	}
	if got := one[string](t, d.Ledger, "SELECT service_time FROM mandates"); got != "kept" {
		t.Errorf("the service's time became %q though the last read had none", got)
	}
}

func TestAListOfMandatesIsHandedOverInPieces(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const many = 2*mandatesAtOnce + 1
	d.do(func(tx *Tx) error {
		for i := range many {
			if _, err := tx.SaveMandate(connector.Mandate{ID: fmt.Sprintf("m%05d", i), CustomerID: "b1",
				Status: connector.MandateActive}, connector.CauseSweep, "1"); err != nil {
				return err
			}
		}
		return nil
	})
	d.clock.move(time.Minute)
	d.mandate(connector.Mandate{ID: "newest", Status: connector.MandateCreated}, connector.CauseSweep)
	for _, c := range []struct {
		name   string
		filter Filter
		n      int
		more   bool
		pieces []int
		first  string
	}{
		{"all", Filter{}, many + 1, false, []int{mandatesAtOnce, mandatesAtOnce, 2}, "newest"},
		{"of one status", Filter{State: "CREATED"}, 1, false, []int{1}, "newest"},
		{"of no status", Filter{State: "CANCELLED"}, 0, false, nil, ""},
		{"some", Filter{Limit: 3, State: "ACTIVE"}, 3, true, []int{3}, "m00000"},
		{"as many as there are", Filter{Limit: many, State: "ACTIVE"}, many, false, []int{mandatesAtOnce, mandatesAtOnce, 1},
			"m00000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pieces []int
			var ids []string
			err := d.EachMandates(t.Context(), c.filter, func(n int, more bool) error {
				if n != c.n || more != c.more || len(ids) > 0 {
					t.Errorf("told of %d, more: %v, after %d; want %d and %v before the first", n, more, len(ids), c.n, c.more)
				}
				return nil
			}, func(some []MandateRow) error {
				pieces = append(pieces, len(some))
				for _, m := range some {
					ids = append(ids, m.MandateID)
				}
				return nil
			})
			if err != nil || !slices.Equal(pieces, c.pieces) || len(ids) > 0 && ids[0] != c.first {
				t.Fatalf("%d mandates in pieces of %d, %v; want pieces of %d, and %q first", len(ids), pieces, err, c.pieces,
					c.first)
			}
			if older := slices.DeleteFunc(ids, func(id string) bool { return id == "newest" }); !slices.IsSorted(older) ||
				len(slices.Compact(older)) != len(older) {
				t.Error("mandates of one moment do not come by their ids, each once")
			}
		})
	}
	last := MandateRow{}
	if err := d.EachMandates(t.Context(), Filter{}, nil, func(some []MandateRow) error {
		last = some[len(some)-1]
		return d.Do(t.Context(), func(tx *Tx) error { // a piece that is shown keeps nobody from writing
			_, err := tx.SaveMandate(connector.Mandate{ID: fmt.Sprintf("m%05d", many-1), CustomerID: "b1",
				Status: connector.MandateCancelled}, connector.CauseWebhook, "2")
			return err
		})
	}); err != nil || last.Status != "CANCELLED" {
		t.Errorf("the last is %s, %v; want it as it is when it is handed over", last.Status, err)
	}
}

func TestAnUnknownStatusIsKeptAsItCame(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const odd = connector.MandateStatus("Actïve ' pending\n")
	d.mandate(connector.Mandate{Status: odd}, connector.CauseWebhook)
	rows, err := d.Mandates(t.Context(), Filter{State: string(odd)})
	if err != nil || len(rows) != 1 || rows[0].Status != string(odd) {
		t.Errorf("mandates are %+v, %v; want one with %q", rows, err, odd)
	}
	d.do(func(tx *Tx) error {
		for id, want := range map[string]connector.MandateStatus{"m1": odd, "m9": ""} {
			known, err := tx.Known(Observation{Mandate: &connector.Mandate{ID: id}})
			if err != nil {
				return err
			}
			if got := known[0].Status; got != want {
				t.Errorf("%s has status %q, want %q", id, got, want)
			}
		}
		return nil
	})
}

// covers F58
func TestALinkIsAskedForUntilItsFirstRequestIsSettled(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(d *desk, run int64, c Change)
		want    protocol.Do
	}{
		{"planned", func(*desk, int64, Change) {}, protocol.AskLink},
		{"sent, no answer yet", func(d *desk, run int64, c Change) {
			d.do(func(tx *Tx) error { _, err := tx.Attempt(run, c); return err })
		}, protocol.Wait},
		{"sent, and looked at later: the run that takes it up knows the pause", func(d *desk, run int64, c Change) {
			d.do(func(tx *Tx) error { _, err := tx.Attempt(run, c); return err })
			d.look("c1", "b1")
		}, protocol.Wait},
		{"settled", func(d *desk, run int64, c Change) {
			d.do(func(tx *Tx) error { return tx.CloseWith(run, c, connector.ChangeDone, "", "") })
		}, protocol.Nothing},
		{"given up by an earlier version", func(d *desk, run int64, c Change) {
			d.do(func(tx *Tx) error {
				return tx.CloseWith(run, c, connector.ChangeHeld, connector.ReasonOutcomeUnknown, "")
			})
		}, protocol.AskLink},
		{"refused", func(d *desk, run int64, c Change) {
			d.do(func(tx *Tx) error {
				return tx.CloseWith(run, c, connector.ChangeFailed, connector.ReasonLinkRefused, "")
			})
		}, protocol.Tell},
		{"refused, then tried again by a person", func(d *desk, run int64, c Change) {
			d.do(func(tx *Tx) error {
				if err := tx.CloseWith(run, c, connector.ChangeFailed, connector.ReasonLinkRefused, ""); err != nil {
					return err
				}
				found, err := tx.RetryRecord(acme, "c1")
				if !found {
					t.Error("the record to try again was not found")
				}
				return err
			})
		}, protocol.AskLink},
		{"a mandate waits for its signature, the link was never seen", func(d *desk, _ int64, _ Change) {
			d.mandate(connector.Mandate{Status: connector.MandateCreated}, connector.CauseSweep)
		}, protocol.Tell},
		{"a mandate waits for its signature", func(d *desk, _ int64, _ Change) {
			d.mandate(connector.Mandate{Status: connector.MandateCreated, URL: "https://sign.example/1"}, connector.CauseLink)
		}, protocol.Nothing},
		{"a mandate was cancelled", func(d *desk, _ int64, _ Change) {
			d.mandate(connector.Mandate{Status: connector.MandateCancelled}, connector.CauseSweep)
		}, protocol.Tell},
		{"a mandate of unknown status",
			func(d *desk, _ int64, _ Change) { d.mandate(connector.Mandate{Status: "ODD"}, connector.CauseSweep) },
			protocol.Tell},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			c := d.planLink(run, "c1", "b1")
			d.look("c1", "b1")
			tt.prepare(d, run, c)
			d.do(func(tx *Tx) error { // whatever mandate there is by now is the payer's
				return tx.exec("UPDATE payers SET mandate_id = (SELECT min(mandate_id) FROM mandates)")
			})
			f := d.stored("c1").Facts
			f.Record = protocol.Record{Usability: protocol.Included, Key: f.Key, Mandate: true}
			f.Mandate.Approved, f.Look.Now = true, true
			if step := protocol.Decide(f).Mandate; step.Do != tt.want {
				t.Errorf("next is %s (%s), want %s", step.Do, step.Line, tt.want)
			}
		})
	}
}

// look shows a payer's customer with its key.
func (d *desk) look(id, billingID string) {
	d.t.Helper()
	d.do(func(tx *Tx) error {
		ticket, err := tx.Ticket()
		if err != nil {
			return err
		}
		_, err = tx.SaveRemote(remote(billingID, key(id)), ticket)
		return err
	})
}

// covers F94
func TestASigningLinkIsKeptUntilANewOneComes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, step := range []struct{ url, want string }{{"https://sign.example/1", "https://sign.example/1"},
		{"", "https://sign.example/1"}, {"https://sign.example/2", "https://sign.example/2"}} {
		d.mandate(connector.Mandate{Status: connector.MandateCreated, URL: step.url}, connector.CauseLink)
		if got, err := d.SigningLink(t.Context(), "m1"); got != step.want || err != nil {
			t.Errorf("after %q the link is %q, %v; want %q", step.url, got, err, step.want)
		}
	}
	if got, err := d.SigningLink(t.Context(), "m9"); got != "" || err != nil {
		t.Errorf("a mandate nobody saw has link %q, %v", got, err)
	}
}

func TestAMandateOfAPayerIsShownWithIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.mandate(connector.Mandate{Status: connector.MandatePending}, connector.CauseWebhook)
	d.do(func(tx *Tx) error {
		return errors.Join(tx.SetMandate(acme, "c1", "m1"),
			tx.tell(acme, "c1", TopicMandate, connector.ReasonStatusUnknown, ""))
	})
	payers, err := d.Payers(t.Context(), Filter{Connection: acme, State: "linked"})
	if err != nil || len(payers) != 1 || *payers[0].MandateStatus != "PENDING" || *payers[0].MandateID != "m1" ||
		*payers[0].AttentionReason != "status_unknown" {
		t.Errorf("payers are %+v, %v", payers, err)
	}
	mandates, err := d.Mandates(t.Context(), Filter{Connection: acme})
	if err != nil || len(mandates) != 1 || *mandates[0].SourceID != "c1" {
		t.Errorf("mandates are %+v, %v", mandates, err)
	}
	funnel, err := d.Funnel(t.Context())
	want := Funnel{
		Payers: map[string]int{"linked": 1}, Mandates: map[string]int{"PENDING": 1},
		Attention: map[string]int{"status_unknown": 1}, Closed: map[string]int{}, Inbox: map[string]int{},
		Left: map[string]int{}, PutOff: map[string]int{},
	}
	if diff := cmp.Diff(want, funnel); diff != "" || err != nil {
		t.Errorf("funnel, %v (-want +got):\n%s", err, diff)
	}
}
