package state

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
)

// twice makes payers c0 and c1 with customers b0 and b1, customer b9 of nobody, and pairs of them that look alike.
func twice(t *testing.T, pairs ...[2]string) *desk {
	t.Helper()
	d := newDesk(t)
	for _, id := range []string{"0", "1"} {
		d.planLinkedPayer("c"+id, "b"+id)
		d.saveRemote(connector.RemoteCustomer{ID: "b" + id, Name: "Ada Ltd"}, 1)
	}
	d.saveRemote(connector.RemoteCustomer{ID: "b9", Name: "Ada Ltd",
		Mandate: &connector.Mandate{ID: "m9", Status: connector.MandateActive}}, 1)
	d.foundAlike(pairs...)
	return d
}

func (d *desk) foundAlike(pairs ...[2]string) {
	d.t.Helper()
	var found []DuplicateCustomers
	for _, p := range pairs {
		found = append(found, DuplicateCustomers{BillingID: p[0], OtherID: p[1], Score: 85, Reasons: "name_same email_same"})
	}
	d.do(func(tx *Tx) error { return tx.SaveDuplicates(found) })
}

// doubles returns the records with a finding about a second customer, each with that customer.
func (d *desk) doubles() (out []string) {
	d.t.Helper()
	for _, id := range []string{"c0", "c1"} {
		found, err := d.OpenDuplicates(d.t.Context(), RecordID{acme, id})
		if err != nil {
			d.t.Fatal(err)
		}
		for _, f := range found {
			out = append(out, f.SourceID+" "+f.OtherID)
		}
	}
	return out
}

func TestASecondCustomerIsToldUntilItIsSettled(t *testing.T) {
	t.Parallel()
	reject := func(record, customer string) func(*Tx) error {
		return func(tx *Tx) error { _, err := tx.SavePairDecision(acme, record, customer, WordReject); return err }
	}
	free, linked := []string{"c0 b9"}, []string{"c0 b1", "c1 b0"}
	for name, test := range map[string]struct {
		pair   [2]string
		settle func(*Tx) error
		before []string
		after  []string
	}{
		"nobody has said anything":                {[2]string{"b0", "b9"}, func(*Tx) error { return nil }, free, free},
		"nobody has said anything of two records": {[2]string{"b0", "b1"}, func(*Tx) error { return nil }, linked, linked},
		"the customer is not the record's":        {[2]string{"b0", "b9"}, reject("c0", "b9"), free, nil},
		"one record is not the other's customer":  {[2]string{"b0", "b1"}, reject("c1", "b0"), linked, nil},
		"another customer is not the record's":    {[2]string{"b0", "b9"}, reject("c0", "b1"), free, free},
		"the records are two payers": {[2]string{"b0", "b1"},
			func(tx *Tx) error { _, err := tx.KeepApart(acme, "c1", "c0"); return err }, linked, nil},
		"the second customer is gone": {[2]string{"b0", "b9"},
			func(tx *Tx) error { _, err := tx.ForgetRemote("b9", 5); return err }, free, nil},
		"they match no more": {[2]string{"b0", "b9"},
			func(tx *Tx) error { return tx.SaveDuplicates(nil) }, free, nil},
		"the record is given up": {[2]string{"b0", "b9"}, func(tx *Tx) error {
			_, err := tx.GiveUp(RecordID{acme, "c0"}, "h", Entry{Actor: "ada", Action: "give up", Subject: "c0"})
			return err
		}, free, nil},
		"the record left the books": {[2]string{"b0", "b1"}, func(tx *Tx) error {
			return tx.exec("UPDATE source_records SET state = 'archived' WHERE source_id = 'c0'")
		}, linked, []string{"c1 b0"}},
		"the record is the other one": {[2]string{"b0", "b1"}, func(tx *Tx) error {
			return tx.exec("UPDATE source_records SET same_as = 'c1' WHERE source_id = 'c0'")
		}, linked, nil},
		"the customer is being unlinked": {[2]string{"b0", "b9"}, func(tx *Tx) error {
			return tx.exec("UPDATE payers SET unlink_at = 7 WHERE source_id = 'c0'")
		}, free, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := twice(t, test.pair)
			if got := d.doubles(); !slices.Equal(got, test.before) {
				t.Fatalf("before that %q is told, want %q", got, test.before)
			}
			d.do(test.settle)
			got := d.doubles()
			if !slices.Equal(got, test.after) {
				t.Errorf("%q is told, want %q", got, test.after)
			}
			want := len(slices.Compact(slices.Clone(test.after)))
			if n, err := d.CountDuplicates(t.Context()); err != nil || n != want {
				t.Errorf("%d are counted, want %d: %v", n, want, err)
			}
		})
	}
}

func TestThatTheyAreTwoPayersCanBeTakenBack(t *testing.T) {
	t.Parallel()
	d := twice(t, [2]string{"b0", "b9"})
	d.do(func(tx *Tx) error {
		_, err := tx.SavePairDecision(acme, "c0", "b9", WordReject)
		_, other := tx.SavePairDecision(acme, "c0", "b8", WordReject)
		return errors.Join(err, other)
	})
	seconds, err := d.RejectedSeconds(t.Context(), RecordID{acme, "c0"})
	if err != nil || !slices.Equal(seconds, []string{"b9"}) {
		t.Fatalf("the word on %q can be taken back: %v", seconds, err)
	}
	if err := d.Do(t.Context(), func(tx *Tx) error { return tx.RevokePairDecision(acme, "c0", "b8") }); !errors.Is(err,
		ErrLinkedAlready) {
		t.Errorf("a word that decided on the link is taken back: %v", err)
	}
	d.do(func(tx *Tx) error { return tx.RevokePairDecision(acme, "c0", "b9") })
	if got := d.doubles(); !slices.Equal(got, []string{"c0 b9"}) {
		t.Errorf("%q is told", got)
	}
}

// Every list and count of findings includes this one.
func TestASecondCustomerIsAFindingEverywhere(t *testing.T) {
	t.Parallel()
	d := twice(t, [2]string{"b0", "b9"}, [2]string{"b0", "b1"})
	ctx, id := t.Context(), RecordID{acme, "c0"}
	told, err := d.AttentionOf(ctx, acme, "c0")
	if err != nil || len(told) != 1 || told[0].Reason != string(connector.ReasonDuplicateCustomer) {
		t.Fatalf("c0 is told %+v: %v", told, err)
	}
	for _, says := range []string{"b0 (no mandate known)", "b9 (mandate ACTIVE)", "b1 (of record c1, no mandate known)"} {
		if !strings.Contains(told[0].Detail, says) {
			t.Errorf("%q lacks %q", told[0].Detail, says)
		}
	}
	d.do(func(tx *Tx) error {
		all, fresh, err := tx.Findings(acme, d.clock.now())
		if err != nil || all != 2 || fresh != 2 {
			t.Errorf("a run finds %d, %d of them new: %v", all, fresh, err)
		}
		return nil
	})
	reason := string(connector.ReasonDuplicateCustomer)
	rows, err := d.Records(ctx, RecordFilter{Reason: reason})
	if err != nil || len(rows) != 2 || rows[0].AttentionReason == nil || *rows[0].AttentionReason != reason {
		t.Errorf("the list has %+v: %v", rows, err)
	}
	counts, err := d.ReasonCounts(ctx)
	if err != nil || len(counts) != 1 || counts[0].Count != 2 {
		t.Errorf("counted are %+v: %v", counts, err)
	}
	s, err := d.ReadinessOf(ctx, id)
	if err != nil || s.Told[ReportedDuplicate].Reason != connector.ReasonDuplicateCustomer ||
		s.Told[ReportedDuplicate].Since.IsZero() {
		t.Errorf("it stands at %+v: %v", s, err)
	}
	if err := d.EachReadinessUnordered(ctx, func(o ReadinessFacts) error {
		if o.Told[ReportedDuplicate].Reason != connector.ReasonDuplicateCustomer {
			t.Errorf("the outline of %s is told %v", o.SourceID, o.Told)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestAPairThatIsFoundAgainKeepsItsTime(t *testing.T) {
	t.Parallel()
	d := twice(t, [2]string{"b0", "b9"})
	since := one[string](t, d.Ledger, "SELECT since FROM duplicate_customers")
	d.clock.move(24 * 3600e9)
	d.foundAlike([2]string{"b0", "b9"}, [2]string{"b1", "b9"})
	for id, as := range map[string]bool{"b0": true, "b1": false} {
		if got := one[string](t, d.Ledger, "SELECT since FROM duplicate_customers WHERE billing_id = ?",
			id); (got == since) != as {
			t.Errorf("%s is told since %s, the first was since %s", id, got, since)
		}
	}
}

func TestTheMandateOfACustomerThatIsNobodysIsKnown(t *testing.T) {
	t.Parallel()
	d := twice(t)
	c := connector.RemoteCustomer{ID: "b9", Name: "Ada Ltd",
		Mandate: &connector.Mandate{ID: "m9", Status: connector.MandateCancelled}}
	d.saveRemote(c, 2)
	c.Mandate = nil // a read that shows none says nothing of it
	d.saveRemote(c, 3)
	if got := one[string](t, d.Ledger,
		"SELECT mandate_status FROM remote_profiles WHERE billing_id = 'b9'"); got != "CANCELLED" {
		t.Errorf("its mandate is %s, want CANCELLED", got)
	}
	newest := one[int64](t, d.Ledger, "SELECT saved FROM remote_profiles WHERE billing_id = 'b9'")
	if newest != 1 {
		t.Errorf("another status of a mandate has records compared anew: %d", newest)
	}
}
