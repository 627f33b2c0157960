package letters_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/state"
)

var benchPayers = flag.Int("payers", 10_000, "how many payers BenchmarkLook plans letters for")

// BenchmarkLook plans the letters to many payers, of whom half had one before.
func BenchmarkLook(b *testing.B) {
	const page = 500
	payers := *benchPayers
	w := newWorld(b)
	ctx := context.Background()
	do := func(fn func(*state.Tx) error) {
		b.Helper()
		if err := w.ledger.Do(ctx, fn); err != nil {
			b.Fatal(err)
		}
	}
	var run int64
	do(func(tx *state.Tx) (err error) {
		if err := errors.Join(tx.PinConnection(state.Connection{Name: "acme", Info: w.books.info()}),
			tx.SaveMapping("m1", "version: 1", "tester")); err != nil {
			return err
		}
		run, err = tx.OpenRun(state.NewRun{Connection: "acme", Kind: connector.RunSync, Trigger: "manual", Mapping: "m1",
			Holder: "test"})
		return err
	})
	for from := 0; from < payers; from += page {
		do(func(tx *state.Tx) error {
			for n := from; n < from+page; n++ {
				if err := benchPayer(tx, run, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	do(func(tx *state.Tx) error { return tx.RecordRead(run, true, connector.Proof{}) })
	for b.Loop() {
		p, err := w.desk.Plan(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if len(p.Next) != payers {
			b.Fatalf("%d payers, %d of them wait", len(p.Next), p.Count(letters.Waits, ""))
		}
	}
}

func benchPayer(tx *state.Tx, run int64, n int) error {
	id, customer, mandate := fmt.Sprintf("c%06d", n), fmt.Sprintf("b%06d", n), fmt.Sprintf("m%06d", n)
	r := connector.Record{SourceID: id, State: connector.RecordActive, Data: []byte(`{"No":"x"}`)}
	k := connector.Key{Name: "customerNo", Value: id}
	p := state.Payer{Connection: "acme", SourceID: id, Key: k}
	err := errors.Join(
		tx.SavePage(run, "acme", []connector.Record{r}),
		tx.SaveLabels("acme", "m1",
			[]state.NewLabel{{SourceID: id,
				Label: connector.Label{Number: id, Name: "Payer " + id, Email: id + "@bakery" + id + ".io"}}}),
		tx.SaveDecisions(run, "acme", "m1",
			state.Decision{SourceID: id, ContentHash: r.Hash(), Verdict: state.Included, Key: k}),
		tx.LinkPayer(p, customer, true))
	if err != nil {
		return err
	}
	p.BillingID = customer
	known, err := tx.Known(state.Observation{CustomerID: customer,
		Customer: &connector.RemoteCustomer{ID: customer, ExternalData: k.Pairs()}, Ticket: int64(n) + 1})
	if err != nil {
		return err
	}
	if err := tx.Reflect(known[0], state.Reflection{Confirmed: true}); err != nil {
		return err
	}
	if _, err := tx.SaveMandate(connector.Mandate{ID: mandate, CustomerID: customer, Status: connector.MandateCreated,
		URL: "https://localhost/s/" + mandate}, connector.CauseLink, "1"); err != nil {
		return err
	}
	if err := tx.SetMandate("acme", id, mandate); err != nil || n%2 == 0 {
		return err
	}
	if err := tx.FreezeLetter(state.Letter{MandateID: mandate, Kind: "invitation",
		RecordID: state.RecordID{Connection: "acme", SourceID: id}, Recipient: "r" + id, Setup: "s", Language: "en",
		MessageID: "l" + id, Body: []byte("x"), LookedAt: tx.Now().Add(-time.Minute), FrozenAt: tx.Now()}); err != nil {
		return err
	}
	if _, _, err := tx.BeginSending("l"+id, tx.Now().Add(-time.Hour), "2026-11-23"); err != nil {
		return err
	}
	return tx.EndLetter("l"+id, state.MessageSent, false, "250 ok")
}
