package syncer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/internal/longtest"
)

var drawnWorlds = longtest.Int("drawn-worlds", 4, 15,
	"how many drawn worlds are planned again after a run; 100 at most, or as -rapid.checks says")

// drawBooks adds records of every kind to the earlier ones: good ones, ones to be held or excluded, twins,
// and archived ones.
func (w *world) drawBooks(t *rapid.T) {
	for i := range rapid.IntRange(1, 6).Draw(t, "records") {
		id := fmt.Sprint("R", i)
		fields := map[string]string{
			"No": rapid.SampledFrom([]string{id, id, id, id, "SHARED", ""}).Draw(t, "key"),
			"Name": rapid.SampledFrom([]string{"Northwind", " Northwind  ", "Zoë & Söhne <Ltd>", "=1+1", "שלום", ""}).Draw(t,
				"name"),
			"Email": rapid.SampledFrom([]string{id + "@example.com", " " + id + "@EXAMPLE.com ", "twin@example.com",
				"no address", ""}).Draw(t, "email"),
			"Postcode": rapid.SampledFrom([]string{"LS1 4AP", ""}).Draw(t, "postcode"),
			"Group":    rapid.SampledFrom([]string{"payer", "payer", "payer", "supplier"}).Draw(t, "group"),
		}
		data, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		state := rapid.SampledFrom([]connector.RecordState{connector.RecordActive, connector.RecordActive,
			connector.RecordActive, connector.RecordArchived}).Draw(t, "state")
		w.books.set(connector.Record{SourceID: id, State: state, Data: data})
	}
}

// drawStrangers adds customers that the service had before: with a key of ours,
// doubled, or only alike.
func (w *world) drawStrangers(t *rapid.T) {
	for i := range rapid.IntRange(0, 3).Draw(t, "strangers") {
		raw := rapid.SampledFrom([]string{
			`{"name":"Old","externalData":{"customerNo":"R0","theirs":"x"},"score":%d}`,
			`{"name":"Old","externalData":[{"key":"customerNo","value":"R1"}],"n":%d}`,
			`{"name":"Northwind","n":%d}`, `{"name":"Hand","people":[{"name":"H","email":"twin@example.com","phoneNo":"%d"}]}`,
		}).Draw(t, "stranger")
		if _, err := w.service.Add(json.RawMessage(fmt.Sprintf(raw, i))); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever the records and the service's earlier state, a run leaves nothing to do: a later plan has no
// change, and a second run sends no write. This includes edited records.
//
// covers F12, S6
func TestThePlanAfterARunIsEmpty(t *testing.T) {
	t.Parallel()
	played := 0
	rapid.Check(t, func(rt *rapid.T) {
		if played++; played > drawnWorlds() {
			return // each has a ledger of its own, so a hundred take half a minute
		}
		w := newWorld(t)
		w.drawStrangers(rt)
		for range rapid.IntRange(1, 3).Draw(rt, "rounds") {
			w.drawBooks(rt)
			w.mustComplete(rt)
			before := w.service.Writes()
			again := w.runWith(context.Background(), syncer.RunOptions{Kind: connector.RunPlan})
			if p := again.Plan; again.Err != nil || p.Creates+p.Adopts+p.Updates+p.Links != 0 {
				rt.Fatalf("the plan after a run has changes: %+v, %v", p, again.Err)
			}
			w.mustComplete(rt)
			if n := w.service.Writes() - before; n != 0 {
				rt.Fatalf("the second run sent %d writes; attention %v", n, w.attention())
			}
		}
	})
}

func (w *world) mustComplete(t *rapid.T) {
	if res := w.run(); res.Outcome != connector.RunComplete || res.Err != nil {
		t.Fatalf("the run ended %s with %+v: %v", res.Outcome, res.Counts, res.Err)
	}
}
