package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// record is a source record whose only field is a name.
func record(id, name string) connector.Record {
	data, _ := json.Marshal(map[string]string{"Name": name})
	return connector.Record{SourceID: id, State: connector.RecordActive, Data: data, Origin: "contacts line 1"}
}

// save stores a page as read by run.
func (d *desk) save(run int64, connection string, records ...connector.Record) {
	d.t.Helper()
	news, err := d.PageChanges(context.Background(), connection, mapping, records, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if len(news.Records) > 0 {
		d.do(func(tx *Tx) error { return tx.SavePage(run, connection, news.Records) })
	}
	for _, r := range records {
		d.metBy(run).Add(r.SourceID)
	}
}

// metBy returns what a run has met.
func (d *desk) metBy(run int64) *connector.IDs {
	if d.met == nil {
		d.met = map[int64]*connector.IDs{}
	}
	if d.met[run] == nil {
		d.met[run] = connector.NewIDs()
	}
	return d.met[run]
}

// readWhole notes that a run has read all of acme, and what it did not meet.
func (d *desk) readWhole(run int64) {
	d.t.Helper()
	if _, err := d.MarkMissing(context.Background(), run, acme, d.metBy(run)); err != nil {
		d.t.Fatal(err)
	}
}

// candidates returns what a plan must look at.
func (d *desk) candidates(connection, version string) []Candidate {
	d.t.Helper()
	found, err := d.Candidates(context.Background(), connection, version, false, "", 1000)
	if err != nil {
		d.t.Fatal(err)
	}
	return found
}

func ids(found []Candidate) (out []string) {
	for _, c := range found {
		out = append(out, c.Record.SourceID)
	}
	return out
}

func TestSavePageKeepsARecordWhole(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	want := connector.Record{
		SourceID: "c1", State: connector.RecordMerged, MergedInto: "c2", UpdatedAt: d.Now(),
		Data: json.RawMessage(`{"Name":"Zoë & Söhne 🏦","Balance":12345678901234567890}`), Origin: "customers.csv line 17",
		Problem: "Line 17 has no name.",
	}
	d.save(run, acme, want)
	found := d.candidates(acme, mapping)
	if len(found) != 1 {
		t.Fatalf("%d candidates, want 1", len(found))
	}
	if diff := cmp.Diff(want, found[0].Record, cmp.Comparer(sameJSON)); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
	if found[0].ContentHash != want.Hash() || found[0].Payer != nil {
		t.Errorf("got hash %s and payer %v, want the record's own hash and no payer", found[0].ContentHash, found[0].Payer)
	}
}

// sameJSON reports whether two texts mean the same, to the last digit.
func sameJSON(a, b json.RawMessage) bool {
	var values [2]any
	for i, text := range [][]byte{a, b} {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if dec.Decode(&values[i]) != nil {
			return false
		}
	}
	return cmp.Equal(values[0], values[1])
}

func TestSavePageRewritesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.run(acme)
	d.save(first, acme, record("c1", "Ada"), record("c2", "Ben"))
	boxes := func() (got [2]string) {
		for i, id := range []string{"c1", "c2"} {
			got[i] = one[string](t, d.Ledger, "SELECT hex(record) || updated_at FROM source_records WHERE source_id = ?", id)
		}
		return got
	}
	before := boxes()
	d.closeRun(first, connector.RunComplete)
	d.clock.move(time.Hour)

	second := d.run(acme)
	moved := record("c1", "Ada")
	moved.Origin, moved.UpdatedAt = "contacts line 2", d.Now()
	d.save(second, acme, moved, record("c2", "Benjamin"))
	after := boxes()
	if before[0] != after[0] {
		t.Error("a record that only moved in its file was written again")
	}
	if before[1] == after[1] {
		t.Error("a record that changed was not written")
	}
	if got := one[string](t, d.Ledger,
		"SELECT origin FROM source_records WHERE source_id = 'c1'"); got != "contacts line 2" {
		t.Errorf("the origin is %q, want the new line", got)
	}
}

func TestSavePageKeepsNothingOfAPageWithABrokenRecord(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	err := d.Do(t.Context(), func(tx *Tx) error {
		return tx.SavePage(run, acme, []connector.Record{record("c1", "Ada"), {SourceID: "c2", State: "asleep"}})
	})
	if err == nil {
		t.Error("a record in no known state was accepted")
	}
	if got := one[int](t, d.Ledger, "SELECT count(*) FROM source_records"); got != 0 {
		t.Errorf("%d records were kept", got)
	}
}

func TestCandidatesAreWhatAPlanMustLookAt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	all := []connector.Record{record("c1", "Ada"), record("c2", "Ben"), record("c3", "Cyd"), record("c4", "Dot")}
	d.save(run, acme, all...)
	if got := ids(d.candidates(acme, mapping)); len(got) != 4 {
		t.Fatalf("new records: %v, want all", got)
	}
	for _, r := range all {
		d.decide(run, acme, Decision{SourceID: r.SourceID, ContentHash: r.Hash(), Verdict: Included, Key: key(r.SourceID)})
	}
	if got := ids(d.candidates(acme, mapping)); got != nil {
		t.Errorf("planned records: %v, want none", got)
	}
	if got := ids(d.candidates(acme, "m2")); len(got) != 4 {
		t.Errorf("another mapping: %v, want all", got)
	}
	d.save(run, acme, record("c2", "Benjamin"))
	d.do(func(tx *Tx) error { _, err := tx.ReplanRecord(acme, "c3"); return err })
	if diff := cmp.Diff([]string{"c2", "c3"}, ids(d.candidates(acme, mapping))); diff != "" {
		t.Errorf("an edited and a marked record (-want +got):\n%s", diff)
	}
	page, err := d.Candidates(t.Context(), acme, "m2", false, "c1", 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c2", "c3"}, ids(page)); diff != "" {
		t.Errorf("a page after c1 (-want +got):\n%s", diff)
	}
	if n, err := d.UnlinkedCandidates(t.Context(), acme, "m2", false); err != nil || n != 4 {
		t.Errorf("%d unlinked candidates, %v; want 4", n, err)
	}
}

// covers F05, S3
func TestARecordWithASentChangeIsNoCandidate(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c := d.planCreate(run, acme, "c1")
	d.do(func(tx *Tx) error { _, err := tx.FreezeCreate(run, c, []byte("{}"), 0); return err })
	d.save(run, acme, record("c1", "Edited meanwhile"))
	if got := ids(d.candidates(acme, mapping)); got != nil {
		t.Errorf("candidates %v while bytes are out, want none", got)
	}
	d.do(func(tx *Tx) error { return tx.CloseDone(run, c) })
	if diff := cmp.Diff([]string{"c1"}, ids(d.candidates(acme, mapping))); diff != "" {
		t.Errorf("after the answer (-want +got):\n%s", diff)
	}
}

func TestEveryPlanLooksAgainOnlyAtThoseWhoRestOnOthers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	waits := map[string]connector.Reason{
		"c1": connector.ReasonKeyShared, "c2": connector.ReasonLikeness, "c3": connector.ReasonKeyDoubled,
		"c4": connector.ReasonOtherKey, "c5": connector.ReasonKeyUnsettled, "c6": connector.ReasonEmailMalformed, "c7": "",
	}
	for id, reason := range waits {
		r := record(id, id)
		d.save(run, acme, r)
		d.decide(run, acme, Decision{SourceID: id, ContentHash: r.Hash(), Verdict: Held, Topic: TopicRecord, Reason: reason})
	}
	if diff := cmp.Diff([]string{"c1", "c2", "c3", "c4", "c5"}, ids(d.candidates(acme, mapping))); diff != "" {
		t.Errorf("replanned (-want +got):\n%s", diff)
	}
	d.do(func(tx *Tx) error {
		if found, err := tx.ReplanRecord(acme, "nobody"); found || err != nil {
			t.Errorf("a record that is not there was marked: %v, %v", found, err)
		}
		return nil
	})
}

// The ledger belongs to connections that never see each other's records.
func TestConnectionsKeepTheirRecordsApart(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run, other := d.run(acme), d.run("globex")
	d.save(run, acme, record("c1", "Ada"))
	d.save(other, "globex", record("c1", "Not Ada"))
	for connection, name := range map[string]string{acme: "Ada", "globex": "Not Ada"} {
		found := d.candidates(connection, mapping)
		if len(found) != 1 || string(found[0].Record.Data) != fmt.Sprintf(`{"Name":%q}`, name) {
			t.Errorf("%s has %v, want its own record alone", connection, found)
		}
	}
}

func TestARecordThatAPageShowsSeveralTimesIsAsItIsShownLast(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.save(run, acme, record("c1", "One"))
	d.save(run, acme, record("c2", "Two"), record("c1", "Other"), record("c2", "Three"), record("c1", "One"),
		record("c2", "Four"))
	for id, name := range map[string]string{"c1": "One", "c2": "Four"} {
		held, err := d.SubjectData(t.Context(), RecordID{acme, id})
		if err != nil {
			t.Fatal(err)
		}
		if want := record(id, name); string(held.Record.Data) != string(want.Data) {
			t.Errorf("of %s the ledger holds %s, want %s", id, held.Record.Data, want.Data)
		}
	}
}

// covers F61
func TestARunThatLostItsLeaseSavesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	c := d.planCreate(run, acme, "c1")
	u := d.planLinked(run, "c2", "b2", connector.ActionUpdate)
	d.clock.move(Lease)
	d.run(acme)
	writes := map[string]func(*Tx) error{
		"save a page": func(tx *Tx) error { return tx.SavePage(run, acme, []connector.Record{record("c9", "Late")}) },
		"decide": func(tx *Tx) error {
			return tx.SaveDecisions(run, acme, mapping, Decision{SourceID: "c1", Verdict: Excluded})
		},
		"let go what it did not see": func(tx *Tx) error { return tx.ReleaseMissing(run, acme) },
		"drop what it did not see":   func(tx *Tx) error { return tx.DropMissing(run, acme) },
		"finish a plan": func(tx *Tx) error {
			_, err := tx.FinishPlan(run, acme, mapping, func(Losses) bool { return false })
			return err
		},
		"move the cursor": func(tx *Tx) error {
			return tx.SetCursor(acme, "customers", "2026-03-02", run)
		},
		"freeze a create":  func(tx *Tx) error { _, err := tx.FreezeCreate(run, c, []byte("{}"), 0); return err },
		"freeze an update": func(tx *Tx) error { _, err := tx.FreezeUpdate(run, u, []byte("{}"), []byte("{}")); return err },
		"send again":       func(tx *Tx) error { _, err := tx.Attempt(run, u); return err },
		"renew its lease":  func(tx *Tx) error { return tx.RenewLease(run) },
		"close itself": func(tx *Tx) error {
			_, _, err := tx.CloseRun(run, acme, connector.RunComplete, "", connector.NewIDs())
			return err
		},
	}
	before := one[string](t, d.Ledger, "SELECT group_concat(state || attempts) FROM changes")
	for name, write := range writes {
		if err := d.Do(t.Context(), write); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s: got %v, want %v", name, err, ErrLeaseLost)
		}
	}
	if _, err := d.MarkMissing(t.Context(), run, acme, connector.NewIDs()); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("note what it did not meet: got %v, want %v", err, ErrLeaseLost)
	}
	if after := one[string](t, d.Ledger, "SELECT group_concat(state || attempts) FROM changes"); after != before {
		t.Errorf("the changes moved from %s to %s", before, after)
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM source_records WHERE source_id = 'c9'"); n != 0 {
		t.Error("a page was saved")
	}
	if cursor, err := d.Cursor(t.Context(), acme, "customers"); cursor != "" || err != nil {
		t.Errorf("the cursor moved to %q, %v", cursor, err)
	}
}

// A row that a snapshot no longer shows is not sent, and is not a deletion.
//
// covers F44, F45
func TestDropUnseenForgetsPlansAndKeepsCustomers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.run(acme)
	stays := d.planCreate(first, acme, "stays")
	d.planCreate(first, acme, "gone")
	sent := d.planCreate(first, acme, "sent")
	d.do(func(tx *Tx) error { _, err := tx.FreezeCreate(first, sent, []byte("{}"), 0); return err })
	d.do(func(tx *Tx) error {
		return tx.exec("UPDATE payers SET link_state = 'conflict' WHERE source_id = 'sent'")
	}) // its key is doubled meanwhile
	d.planLinked(first, "linked", "b1", connector.ActionUpdate)
	for _, id := range []string{"stays", "gone", "linked", "sent"} {
		d.do(func(tx *Tx) error { return tx.tell(acme, id, TopicRecord, connector.ReasonEmailMalformed, "") })
	}
	d.closeRun(first, connector.RunIncomplete)

	second := d.run(acme)
	d.save(second, acme, record("stays", "stays"))
	d.readWhole(second)
	d.do(func(tx *Tx) error { return tx.DropMissing(second, acme) })
	pending, err := d.Changes(t.Context(), acme, LaneCustomer, true, 0, 10)
	if err != nil || len(pending) != 1 || pending[0].ID != stays.ID {
		t.Errorf("pending are %v, %v; want the create of the row that stays", pending, err)
	}
	if got := d.open(acme, "sent", LaneCustomer); got.State != connector.ChangeFrozen {
		t.Errorf("the sent create is %s, want it kept until its answer is known", got.State)
	}
	rows, err := d.Attention(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var waiting []string
	for _, r := range rows {
		waiting = append(waiting, r.SourceID)
	}
	if diff := cmp.Diff([]string{"linked", "sent", "stays"}, waiting); diff != "" {
		t.Errorf("attention (-want +got):\n%s", diff)
	}
	if p := d.payerOf(acme, "linked"); p.BillingID != "b1" || p.LinkState != connector.LinkLinked {
		t.Errorf("the linked payer is %+v, want it untouched", p)
	}
	d.save(second, acme, record("gone", "gone"))
	if got := ids(d.candidates(acme, mapping)); len(got) == 0 || got[0] != "gone" {
		t.Errorf("candidates are %v, want the row that came back among them", got)
	}
}
