package state

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	"payersync/connector"
)

var openPayers = flag.Int("open-payers", benchRecords, "how many payers the ledger of BenchmarkOpen has")

// benchLedger is a ledger with this many payers, each with its record, its label, its customer, a signed
// mandate, and its webhook.
func benchLedger(b testing.TB, payers int) *desk {
	b.Helper()
	d := newDesk(b)
	run := d.run(acme)
	list := d.beginPass()
	for from := 0; from < payers; from += benchPage {
		d.do(func(tx *Tx) error {
			for i := from; i < min(from+benchPage, payers); i++ {
				if err := benchPayer(tx, run, list, i, fmt.Sprintf("customer-%06d", i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	d.do(func(tx *Tx) error { return tx.FinishPass(list) })
	return d
}

func benchPayer(tx *Tx, run int64, list *Listing, i int, customer string) error {
	r := benchRecord(i)
	key := connector.Key{Name: "acct", Value: r.SourceID}
	p := Payer{Connection: acme, SourceID: r.SourceID, Key: key}
	wanted := personalCustomer(r.SourceID)
	m := connector.Mandate{ID: "mandate-" + customer, CustomerID: customer, Status: connector.MandateCreated,
		URL: canaryLink}
	signed := m
	signed.Status = connector.MandateActive
	delivery := benchDelivery(int64(i))
	steps := []func() error{
		func() error { return tx.SavePage(run, acme, []connector.Record{r}) },
		func() error { return tx.SaveLabels(acme, mapping, []NewLabel{called(r.SourceID, "Customer Limited")}) },
		func() error {
			return tx.SaveDecisions(run, acme, mapping,
				Decision{SourceID: r.SourceID, ContentHash: r.Hash(), Verdict: Included, Key: key})
		},
		func() error { return tx.LinkPayer(p, customer, true) },
		func() error { return tx.SetApplied(p, wanted) },
		func() error {
			shown := connector.RemoteCustomer{ID: customer, Name: wanted.Name, Emails: []string{canaryEmail},
				ExternalData: map[string]string{"acct": r.SourceID}}
			return second(tx.see(Observation{CustomerID: customer, Customer: &shown, Ticket: list.Ticket, List: list}))
		},
		func() error { _, err := tx.SaveMandate(m, connector.CauseLink, "run 1"); return err },
		func() error { _, err := tx.SaveMandate(signed, connector.CauseWebhook, delivery.Key); return err },
		func() error { return tx.SetMandate(acme, r.SourceID, m.ID) },
		func() error { _, err := tx.Receive(delivery); return err },
		func() error {
			return tx.Audit(Entry{Actor: "ada", Action: "show link", Subject: m.ID, Reason: "asked by phone"})
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkOpen opens a ledger of very many payers and measures three times: to the counts of its payers, to
// the first write after a clean close, and, as after a crash, to the first write after a full check.
func BenchmarkOpen(b *testing.B) {
	d := benchLedger(b, *openPayers)
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
	opens := func(b *testing.B, before func(), until func(*Ledger) error) {
		for b.Loop() {
			b.StopTimer()
			before()
			b.StartTimer()
			l, err := Open(b.Context(), d.opts)
			if err != nil {
				b.Fatal(err)
			}
			err = until(l)
			b.StopTimer()
			if err := errors.Join(err, l.Close()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
	funnel := func(l *Ledger) error { _, err := l.Funnel(b.Context()); return err }
	ping := func(l *Ledger) error { return l.Ping(b.Context()) }
	b.Run("funnel", func(b *testing.B) { opens(b, func() {}, funnel) })
	b.Run("write", func(b *testing.B) { opens(b, func() {}, ping) })
	b.Run("write-after-crash", func(b *testing.B) { opens(b, func() { touch(b, d.opts.Path) }, ping) })
}
