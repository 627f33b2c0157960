package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payersync/connector"
)

// Personal values and secrets that fill stores wherever the ledger takes them.
const (
	canaryName    = "Canary Ada Lovelace"
	canaryEmail   = "canary.ada@example.com"
	canaryPhone   = "+44 20 7946 0958"
	canaryStreet  = "12 Canary Wharf"
	canaryPost    = "E14 5CA"
	canaryLink    = "https://sign.example.com/m/canary-signing-link"
	canaryForeign = "canary note of a colleague"
	canaryBank    = "****1234canary"
	canaryReason  = "CANARY_DECEASED"
)

var canaries = []string{canaryName, canaryEmail, canaryPhone, canaryStreet, canaryPost, canaryLink, canaryForeign,
	canaryBank, canaryReason}

func personalCustomer(id string) connector.Customer {
	return connector.Customer{
		Name:         canaryName,
		People:       []connector.Person{{Name: canaryName, FirstName: "Ada", Email: canaryEmail, Phone: canaryPhone}},
		Addresses:    []connector.Address{{Line1: canaryStreet, PostCode: canaryPost}},
		ExternalData: map[string]string{"acct": id},
	}
}

func personalRecord(id string) connector.Record {
	r := record(id, canaryName)
	r.Data, _ = json.Marshal(map[string]string{"Name": canaryName, "Email": canaryEmail, "Phone": canaryPhone,
		"Street": canaryStreet, "Post": canaryPost})
	return r
}

// fill puts rows into every table: payers in every state, sent and unsent
// changes, an index, mandates with links, an inbox, two chains. Its
// run stays open.
func (d *desk) fill(payers int) {
	d.t.Helper()
	run := d.run(acme)
	for i := range payers {
		d.fillPayer(run, i)
	}
	list := d.beginPass()
	for i := range payers {
		d.saveListed(connector.RemoteCustomer{
			ID: fmt.Sprintf("b%03d", i), Name: canaryName, Emails: []string{canaryEmail},
			ExternalData: map[string]string{"acct": fmt.Sprintf("c%03d", i)},
			Raw:          json.RawMessage(`{"note":"` + canaryForeign + `"}`),
		}, list)
	}
	d.do(func(tx *Tx) error { return tx.FinishPass(list) })
	d.finishPlan(run)
	d.do(func(tx *Tx) error { return tx.SetCursor(acme, "customers", "2026-03-02T09:00:00Z", run) })
	linked, err := d.LinkedPayers(d.t.Context(), acme)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, p := range linked {
		d.do(func(tx *Tx) error { return tx.tell(acme, p.SourceID, TopicRecord, connector.ReasonLinkLost, "") })
	}
}

// fillPayer makes one payer, its mandate and its webhook; what becomes of it
// depends on i.
func (d *desk) fillPayer(run int64, i int) {
	d.t.Helper()
	id, billingID := fmt.Sprintf("c%03d", i), fmt.Sprintf("b%03d", i)
	r, want := personalRecord(id), personalCustomer(id)
	d.save(run, acme, r)
	d.do(func(tx *Tx) error {
		return tx.SaveLabels(acme, mapping,
			[]NewLabel{{SourceID: id, Label: connector.Label{Number: id, Name: canaryName, Email: canaryEmail}}})
	})
	action := []connector.Action{connector.ActionCreate, connector.ActionUpdate}[i%2]
	v := included(r, &NewChange{Action: action, Wanted: want, Diff: connector.Diff(connector.Customer{}, want)})
	v.Link = true
	d.decide(run, acme, v)
	if i%4 > 1 {
		return // planned and nothing more
	}
	c := d.open(acme, id, LaneCustomer)
	body, _ := json.Marshal(want)
	d.do(func(tx *Tx) error {
		if action == connector.ActionUpdate {
			_, err := tx.FreezeUpdate(run, c, body, []byte(`{"note":"`+canaryForeign+`"}`))
			return errors.Join(err, tx.LinkPayer(c.Payer, billingID, true))
		}
		_, err := tx.FreezeCreate(run, c, body, 0)
		return errors.Join(err, tx.LinkPayer(c.Payer, billingID, false))
	})
	if i%8 < 4 {
		d.do(func(tx *Tx) error { return tx.CloseDone(run, c) })
	}
	d.do(func(tx *Tx) error {
		m := connector.Mandate{ID: fmt.Sprintf("m%03d", i), CustomerID: billingID, Status: connector.MandateCreated,
			URL: canaryLink, FailureReason: connector.NewSecret(canaryReason)}
		_, err := tx.SaveMandate(m, connector.CauseLink, "run 1")
		m.Status = connector.MandateActive
		_, err2 := tx.SaveMandate(m, connector.CauseWebhook, "evt")
		_, err3 := tx.Receive(Delivery{
			Key: fmt.Sprintf("evt-%03d", i), Type: "dd-mandate", BillingID: billingID, State: connector.InboxReceived,
			Body: []byte(`{"name":"` + canaryName + `","email":"` + canaryEmail + `","bankAccountNumber":"` + canaryBank + `"}`),
		})
		return errors.Join(err, err2, err3, tx.SaveFinancial(billingID, canaryReason), tx.SetMandate(acme, id, m.ID),
			tx.Audit(Entry{Actor: "ada", Action: "show link", Subject: m.ID, Reason: "asked by phone"}))
	})
}

// covers F80, F94, F96, S15
func TestNothingPersonalIsInTheFiles(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(16)
	look := func(when string) {
		t.Helper()
		files, err := filepath.Glob(d.opts.Path + "*")
		if err != nil || len(files) == 0 {
			t.Fatalf("no files: %v", err)
		}
		for _, file := range files {
			content := bytes.ToLower(readFile(t, file))
			for _, canary := range append(canaries, "canary") {
				if bytes.Contains(content, bytes.ToLower([]byte(canary))) {
					t.Errorf("%s, %s holds %q", when, filepath.Base(file), canary)
				}
			}
		}
	}
	look("while it is open")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	look("after it was closed")
}

// Replaced and deleted values are gone from the file, too.
func TestDeletedBoxesAreWipedFromTheFile(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.save(run, acme, record("c1", "first"))
	box := one[[]byte](t, d.Ledger, "SELECT record FROM source_records")
	d.save(run, acme, record("c1", "second"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(readFile(t, d.opts.Path), box) {
		t.Error("the replaced record is still in the file")
	}
}

// A box opens in its own row, whole, with the key it was sealed with, and in no
// other way. Each statement moves or alters what the named read opens.
func TestMovedAndAlteredBoxesAreRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	reads := []struct {
		name, table, column, where, other string
		read                              func(d *desk) error
	}{
		{"record", "source_records", "record", "source_id = 'c000'", "source_id = 'c001'",
			func(d *desk) error { _, err := d.Candidates(ctx, acme, "m2", false, "", 100); return err }},
		{"label", "labels", "label", "source_id = 'c000'", "source_id = 'c001'",
			func(d *desk) error { _, err := d.LabelsOf(ctx, []RecordID{{acme, "c000"}}); return err }},
		{"applied customer", "payers", "applied", "source_id = 'c000'", "source_id = 'c001'",
			func(d *desk) error { _, err := d.Payer(ctx, acme, "c000"); return err }},
		{"wanted customer", "changes", "wanted", "source_id = 'c004' AND lane = 'customer'",
			"source_id = 'c000' AND lane = 'customer'",
			func(d *desk) error { _, err := d.Changes(ctx, acme, LaneCustomer, false, 0, 100); return err }},
		{"difference", "changes", "diff", "source_id = 'c004' AND lane = 'customer'",
			"source_id = 'c000' AND lane = 'customer'",
			func(d *desk) error { _, err := d.Changes(ctx, acme, LaneCustomer, false, 0, 100); return err }},
		{"frozen body", "changes", "body", "source_id = 'c004' AND lane = 'customer'",
			"source_id = 'c000' AND lane = 'customer'",
			func(d *desk) error { _, err := d.Changes(ctx, acme, LaneCustomer, false, 0, 100); return err }},
		{"pre-image", "changes", "pre_image", "source_id = 'c005' AND lane = 'customer'",
			"source_id = 'c001' AND lane = 'customer'",
			func(d *desk) error { _, err := d.Changes(ctx, acme, LaneCustomer, false, 0, 100); return err }},
		{"webhook body", "inbox", "body", "delivery_key = 'evt-000'", "delivery_key = 'evt-001'",
			func(d *desk) error { _, err := d.DeliveryBody(ctx, "evt-000"); return err }},
		{"signing link", "mandates", "link", "mandate_id = 'm000'", "mandate_id = 'm001'",
			func(d *desk) error { _, err := d.SigningLink(ctx, "m000"); return err }},
		{"failure reason", "failure_reasons", "reason", "mandate_id = 'm000'", "mandate_id = 'm001'",
			func(d *desk) error { _, err := d.FailureReasons(ctx, "m000"); return err }},
		{"financial status", "financial_statuses", "status", "billing_id = 'b000'", "billing_id = 'b001'",
			func(d *desk) error { _, err := d.Financial(ctx, "b000"); return err }},
	}
	d := newDesk(t)
	d.fill(8)
	for _, r := range reads {
		if err := r.read(d); err != nil {
			t.Fatalf("%s, untouched: %v", r.name, err)
		}
		box := one[[]byte](t, d.Ledger, fmt.Sprintf("SELECT %s FROM %s WHERE %s", r.column, r.table, r.where))
		moved := one[[]byte](t, d.Ledger, fmt.Sprintf("SELECT %s FROM %s WHERE %s", r.column, r.table, r.other))
		for name, fake := range map[string][]byte{
			"moved": moved, "cut short": box[:3], "without its tag": box[:len(box)-1], "altered": flipped(box, len(box)/2),
			"under another key id": flipped(box, 0),
		} {
			d.do(func(tx *Tx) error {
				return tx.exec(fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s", r.table, r.column, r.where), fake)
			})
			err := r.read(d)
			if err == nil || !strings.Contains(err.Error(), "sealed") {
				t.Errorf("%s, %s: got %v, want a refusal", r.name, name, err)
			}
			for _, canary := range canaries {
				if strings.Contains(fmt.Sprint(err), canary) {
					t.Errorf("%s, %s: the error shows %q", r.name, name, canary)
				}
			}
		}
		d.do(func(tx *Tx) error {
			return tx.exec(fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s", r.table, r.column, r.where), box)
		})
	}
}

func flipped(box []byte, at int) []byte {
	out := bytes.Clone(box)
	out[at] ^= 1
	return out
}

func TestSealingTwiceNeverGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	s := testSealer(t, 1)
	at := place("inbox", "body", "evt-1")
	if bytes.Equal(s.box([]byte("same"), at), s.box([]byte("same"), at)) {
		t.Error("two boxes of one text are equal")
	}
}

func TestABoxOpensOnlyInItsPlaceAndWithItsKey(t *testing.T) {
	t.Parallel()
	mine, other := testSealer(t, 1), testSealer(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		parts := rapid.SliceOfN(rapid.StringMatching(`[a-z0-9 ]*`), 3, 3).Draw(t, "place")
		at := place(parts[0], parts[1], parts[2])
		box := mine.box(plain, at)
		got, err := mine.open(box, at)
		if err != nil || !bytes.Equal(got, plain) || (plain != nil) != (got != nil) {
			t.Fatalf("sealed %v, opened %v, %v", plain, got, err)
		}
		if box == nil {
			return
		}
		if _, err := other.open(box, at); err == nil {
			t.Error("another key opened it")
		}
		if _, err := mine.open(box, place(parts[0]+"x", parts[1], parts[2])); err == nil {
			t.Error("it opened in another table")
		}
		if _, err := mine.open(box, place(parts[0], parts[1]+parts[2])); err == nil {
			t.Error("it opened in a place whose names run together")
		}
		i := rapid.IntRange(0, len(box)-1).Draw(t, "byte")
		if _, err := mine.open(flipped(box, i), at); err == nil {
			t.Errorf("it opened with byte %d altered", i)
		}
	})
}

func TestLikenessFoldsCaseAndSpacesAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	s := testSealer(t, 1)
	if s.likeness(" Ada  LOVELACE\t") != s.likeness("ada lovelace") {
		t.Error("case or spaces tell two likenesses apart")
	}
	for _, other := range []string{"", "adalovelace", "ada lovelacé", "ada-lovelace"} {
		if s.likeness(other) == s.likeness("ada lovelace") {
			t.Errorf("%q is like ada lovelace", other)
		}
	}
	if testSealer(t, 2).likeness("ada lovelace") == s.likeness("ada lovelace") {
		t.Error("the likeness does not depend on the key")
	}
}

func testSealer(t *testing.T, seed byte) *sealer {
	t.Helper()
	s, err := newSealer(bytes.Repeat([]byte{seed}, keyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAKeyFileMayEndInSpace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.opts.KeyFile, append(readFile(t, d.opts.KeyFile), "\r\n "...), 0o600); err != nil {
		t.Fatal(err)
	}
	d.another()
}
