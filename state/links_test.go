package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payersync/connector"
)

// links returns which mandates of the customers have a link.
func (d *desk) links() string {
	d.t.Helper()
	return column(d.t.(*testing.T), d.Ledger, "SELECT mandate_id FROM mandates WHERE link IS NOT NULL")
}

func signing(id, customer, url string) connector.Mandate {
	return connector.Mandate{ID: id, CustomerID: customer, Status: connector.MandateCreated, URL: url}
}

// see saves a mandate as the newest read of its customer shows it.
func (d *desk) see(payer string, m connector.Mandate) {
	d.t.Helper()
	d.do(func(tx *Tx) error {
		if _, err := tx.SaveMandate(m, connector.CauseLink, "test"); err != nil {
			return err
		}
		return tx.SetMandate(acme, payer, m.ID)
	})
}

// keep saves the link of an overtaken answer, and checks whether it is stored.
func (d *desk) keep(m connector.Mandate, want bool) {
	d.t.Helper()
	d.do(func(tx *Tx) error {
		kept, err := tx.SaveLink(m)
		if kept != want {
			d.t.Errorf("the link of %s is kept: %v, want %v", m.ID, kept, want)
		}
		return err
	})
}

// What is told of a lost link is decided before it is stored, and the link may come in between.
//
// covers F132
func TestALinkThatComesWhileItsLossIsDecidedOnIsNotToldLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason    connector.Reason
		meanwhile func(d *desk)
		told      bool
	}{
		"nothing comes": {connector.ReasonLinkLost, func(*desk) {}, true},
		"the link comes": {connector.ReasonLinkLost,
			func(d *desk) { d.keep(signing("m1", "b1", "https://sign.example/1"), true) }, false},
		"a refusal is undone": {connector.ReasonLinkRefused,
			func(d *desk) { d.keep(signing("m1", "b1", "https://sign.example/1"), true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.planLinkedPayer("c1", "b1")
			d.see("c1", signing("m1", "b1", ""))
			if c.reason == connector.ReasonLinkRefused {
				p := d.payerOf(acme, "c1")
				d.do(func(tx *Tx) error { return tx.RefuseLink(p) })
			}
			d.do(func(tx *Tx) error { _, err := tx.ReplanRecord(acme, "c1"); return err })
			found := d.candidates(acme, mapping)
			if len(found) != 1 {
				t.Fatalf("%d records are decided on", len(found))
			}
			c.meanwhile(d)
			d.do(func(tx *Tx) error { return tx.tell(acme, "c1", TopicMandate, "", "") })
			d.decide(d.run(acme), acme,
				Decision{SourceID: "c1", ContentHash: found[0].ContentHash, Stands: found[0].Stands, Verdict: Included,
					Key: found[0].Payer.Key, OfMandate: c.reason})
			rows, err := d.AttentionOf(t.Context(), acme, "c1")
			if err != nil || (len(rows) > 0) != c.told {
				t.Errorf("told %+v, %v", rows, err)
			}
			if again := d.candidates(acme, mapping); !c.told && len(again) != 1 {
				t.Error("it is not decided on again")
			}
		})
	}
}

// covers F132
func TestANewMandateMakesTheOldLinkVoid(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.see("c1", signing("m1", "b1", "https://sign.example/1"))
	d.see("c1", signing("m2", "b1", "")) // a read shows no link
	if got := d.links(); got != "" {
		t.Errorf("after the mandate was replaced a link is kept of %q", got)
	}
	d.see("c1", signing("m2", "b1", "https://sign.example/2"))
	d.keep(signing("m1", "b1", "https://sign.example/1"), false) // the answer that m2 has overtaken
	if got := d.links(); got != "m2" {
		t.Errorf("a link is kept of %q, want m2 alone", got)
	}
	d.see("c1", signing("m1", "b1", "https://sign.example/1")) // somebody put the old one back
	if got := d.links(); got != "m1" {
		t.Errorf("a link is kept of %q, want m1 alone", got)
	}
}

// covers F132
func TestTheLinkOfAMandateThatTwoCustomersShowIsNotKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.see("c1", signing("m1", "b1", "https://sign.example/1"))
	d.see("c1", signing("m1", "b2", "https://sign.example/2"))
	if got, err := d.SigningLink(t.Context(), "m1"); got != "https://sign.example/1" || err != nil {
		t.Errorf("the link is %q, %v; want that of the customer whose mandate it is", got, err)
	}
}

// The law is the file's own: no statement of any version gets past it.
//
// covers F132
func TestTheFileRefusesTwoLinksOfOneCustomer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.see("c1", signing("m1", "b1", "https://sign.example/1"))
	d.see("c1", signing("m2", "b1", "https://sign.example/2"))
	err := d.Do(t.Context(), func(tx *Tx) error { return tx.exec("UPDATE mandates SET link = x'00' WHERE mandate_id = 'm1'") })
	if err == nil || d.links() != "m2" {
		t.Errorf("a second link was taken (%v): %s", err, d.links())
	}
}

// covers F132
func TestLinksOfAnEarlierVersionAreBroughtUnderTheLaw(t *testing.T) {
	t.Parallel()
	in := func(id, customer, link, seen string) string {
		return fmt.Sprintf("INSERT INTO mandates (mandate_id, billing_id, status, status_since, first_seen_at, last_seen_at, link) VALUES ('%s', %s, 'CREATED', '%s', '%[3]s', '%[3]s', %[4]s)", id, customer, seen, link)
	}
	const payer, first, later = "(SELECT billing_id FROM payers WHERE source_id = 'U2')", "2026-11-20T10:00:00.000Z",
		"2026-11-21T10:00:00.000Z"
	l := upgraded(t,
		in("u1", payer, "x'01'", first), in("u2", payer, "x'02'", later),
		"UPDATE payers SET mandate_id = 'u1' WHERE source_id = 'U2'", // the payer's is the older one
		// nobody's: the one that was seen last
		in("v1", "'nobody'", "x'01'", first), in("v2", "'nobody'", "x'02'", later), in("v3", "'nobody'", "NULL", first),
		in("w1", "'empty'", "x'01'", first), in("w2", "'empty'", "NULL", later), // the latest has no link
		in("x1", "'single'", "x'01'", first))
	if got := column(t, l, "SELECT mandate_id FROM mandates WHERE link IS NOT NULL AND mandate_id GLOB '[u-x][1-3]'"); got != "u1 v2 x1" {
		t.Errorf("links are kept of %q", got)
	}
}

// Whatever is seen in whatever order, a customer has one link at most, and it is that of the
// mandate which its payer has.
//
// covers F132
func TestACustomerHasOneLinkWhateverIsSeen(t *testing.T) {
	t.Parallel()
	n := 0
	d := newDesk(t)
	rapid.Check(t, func(r *rapid.T) {
		n++
		payer, customer := fmt.Sprintf("c%d", n), fmt.Sprintf("b%d", n)
		d.planLinkedPayer(payer, customer)
		current, kept := "", ""
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			m := connector.Mandate{
				ID: customer + rapid.SampledFrom([]string{"-1", "-2", "-3"}).Draw(r, "mandate"), CustomerID: customer,
				Status: rapid.SampledFrom([]connector.MandateStatus{connector.MandateCreated, connector.MandatePending,
					connector.MandateActive, connector.MandateCancelled, "HALF"}).Draw(r, "status"),
				URL: rapid.SampledFrom([]string{"", "https://sign.example/a", "https://sign.example/b"}).Draw(r, "url"),
			}
			switch rapid.SampledFrom([]string{"read", "read", "overtaken", "refused", "let go"}).Draw(r, "step") {
			case "read":
				d.see(payer, m)
				if m.ID != current {
					kept = ""
				}
				if current = m.ID; m.URL != "" {
					kept = m.URL
				}
			case "overtaken":
				d.keep(m, m.ID == current && m.URL != "")
				if m.ID == current && m.URL != "" {
					kept = m.URL
				}
			case "refused":
				p := d.payerOf(acme, payer)
				d.do(func(tx *Tx) error { return tx.RefuseLink(p) })
				if status, err := d.Mandate(context.Background(), current); err == nil && status != nil &&
					status.Status == "CREATED" {
					kept = ""
				}
			case "let go": // and linked again
				d.do(func(tx *Tx) error {
					p, err := tx.PayerByBillingID(customer)
					if err != nil {
						return err
					}
					if err := tx.emptyPayer(p); err != nil {
						return err
					}
					return tx.LinkPayer(p, customer, true)
				})
				d.see(payer, connector.Mandate{ID: customer + "-2", CustomerID: customer, Status: connector.MandateCreated})
				if current != customer+"-2" {
					kept = ""
				}
				current = customer + "-2"
			}
			var want string
			if kept != "" {
				want = current
			}
			if got := column(t, d.Ledger,
				"SELECT mandate_id FROM mandates WHERE link IS NOT NULL AND billing_id = '"+customer+"'"); got != want {
				r.Fatalf("links are kept of %q, want %q", got, want)
			}
			if got, err := d.SigningLink(context.Background(), current); current != "" && (got != kept || err != nil) {
				r.Fatalf("the link is %q, %v; want %q", got, err, kept)
			}
		}
	})
}

// covers F132
func TestALinkThatIsRefusedIsHandedToNobody(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.see("c1", signing("m1", "b1", "https://sign.example/1"))
	p := d.payerOf(acme, "c1")
	d.saveRemote(connector.RemoteCustomer{ID: "b1", ExternalData: map[string]string{p.Key.Name: p.Key.Value}}, 100)
	d.do(func(tx *Tx) error { return tx.RefuseLink(p) })
	got, err := d.AttentionOf(t.Context(), acme, "c1")
	if d.links() != "" || err != nil || len(got) != 1 || got[0].Reason != string(connector.ReasonLinkRefused) {
		t.Errorf("links of %q, told %+v, %v", d.links(), got, err)
	}
	if lost, err := d.LostLinks(t.Context(), acme, time.Time{}); err != nil || len(lost) != 1 {
		t.Errorf("%d links are to be fetched, %v; want that one", len(lost), err)
	}
	stored, err := d.StoredRecord(t.Context(), acme, "c1", "m1")
	if err != nil || stored.Facts.Mandate.Refused == 0 || stored.Facts.Mandate.Link {
		t.Errorf("the plan sees %+v, %v", stored.Facts.Mandate, err)
	}
	d.see("c1", signing("m1", "b1", "https://sign.example/2"))
	if stored, err = d.StoredRecord(t.Context(), acme, "c1", "m1"); err != nil || stored.Facts.Mandate.Refused != 0 ||
		!stored.Facts.Mandate.Link {
		t.Errorf("once it was given the plan sees %+v, %v", stored.Facts.Mandate, err)
	}
}

// A link counts as old from when it was last given, and one that was signed with is none.
func TestOldLinksAreThoseGivenBefore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for i, id := range []string{"c1", "c2", "c3"} {
		d.planLinkedPayer(id, fmt.Sprintf("b%d", i+1))
		d.saveRemote(connector.RemoteCustomer{ID: fmt.Sprintf("b%d", i+1),
			ExternalData: map[string]string{d.payerOf(acme, id).Key.Name: d.payerOf(acme, id).Key.Value}}, int64(100+i))
		d.see(id, signing(fmt.Sprintf("m%d", i+1), fmt.Sprintf("b%d", i+1), "https://sign.example/1"))
	}
	d.clock.move(31 * 24 * time.Hour)
	d.see("c2", signing("m2", "b2", "https://sign.example/1")) // given again
	d.see("c3", connector.Mandate{ID: "m3", CustomerID: "b3", Status: connector.MandatePending})
	cut := d.clock.at.Add(-30 * 24 * time.Hour)
	old, err := d.OldLinks(t.Context(), acme, cut)
	if err != nil || len(old) != 1 || old[0].SourceID != "c1" {
		t.Errorf("old are %+v, %v; want c1", old, err)
	}
	lost, err := d.LostLinks(t.Context(), acme, cut)
	if err != nil || len(lost) != 1 || lost[0].SourceID != "c1" {
		t.Errorf("expired are %+v, %v; want c1", lost, err)
	}
	if lost, err := d.LostLinks(t.Context(), acme, time.Time{}); err != nil || len(lost) != 0 {
		t.Errorf("where links do not expire %d are lost, %v", len(lost), err)
	}
}
