package syncer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/state"
	"payersync/state/statetest"
)

// unfit are texts that some databases do not take, in columns or in indexes.
var unfit = map[string]string{
	"U+0000": "a\x00b", "U+0000 alone": "\x00", "U+0000 at the end": "a\x00", "a long one": strings.Repeat("x", 9000),
	"another long one": strings.Repeat("x", 9000) + "y",
	"a replacement":    "a\ufffdb",
}

// Foreign values in externalData must not stop other creates.
func TestACustomerWithAnyExternalDataStopsNoSweepAndNobodyElse(t *testing.T) {
	t.Parallel()
	for name, text := range unfit {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			value := w.add(fmt.Sprintf(`{"name":"By Value","people":[],"externalData":[{"key":"customerNo","value":%s}]}`,
				quoted))
			w.add(fmt.Sprintf(`{"name":"By Name","people":[],"externalData":[{"key":%s,"value":"A1"},{"key":"note","value":"A1"}]}`, quoted))
			w.add(`{"name":"Plain","people":[],"externalData":[{"key":"customerNo","value":"a"}]}`)
			w.books.put("A1", "Ada Ltd", "ada@example.com")
			if res := w.complete(w.run()); res.Counts.Created != 1 {
				t.Errorf("counts = %+v, want 1 created", res.Counts)
			}
			w.sweep()
			w.sweep()
			holders, err := w.ledger.KeyHolders(t.Context(), connector.Key{Name: "customerNo", Value: text})
			if err != nil || len(holders) != 1 || holders[0] != value {
				t.Errorf("who has the key: %q, %v; want %q", holders, err, value)
			}
			if res := w.complete(w.run()); res.Counts.Created+res.Counts.Held != 0 {
				t.Errorf("afterwards: %+v", res.Counts)
			}
			statetest.KeptAnywhere(t, w.path)
		})
	}
}

// A record with an impossible id is on hold by name, and so is one with illegal text.
func TestARecordWithAnyTextIsHeldByNameAndStopsNobodyElse(t *testing.T) {
	t.Parallel()
	for name, text := range unfit {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.books.put("A1", "Ada Ltd", "ada@example.com")
			w.books.putAs(text, map[string]string{"No": "A2", "Name": "By Id", "Email": "id@example.com", "Postcode": "LS1 4AP",
				"Group": "payer"})
			w.books.putAs("A3", map[string]string{"No": text, "Name": "By Number", "Email": "no@example.com",
				"Postcode": "LS1 4AP", "Group": "payer"})
			fits := connector.Indexed(text) == text
			res := w.complete(w.run())
			rows, err := w.ledger.Payers(t.Context(), state.Filter{})
			if err != nil || slices.ContainsFunc(rows,
				func(p state.PayerRow) bool { return p.SourceID == "A3" && p.KeyValue != connector.Indexed(text) }) {
				t.Errorf("payers %+v, %v", rows, err)
			}
			want := map[bool]state.Counts{
				true:  {Pulled: 3, Created: 3, LinksRequested: 3},
				false: {Pulled: 3, Created: 1, LinksRequested: 1, Held: 2},
			}[fits]
			if res.Counts != want {
				t.Errorf("counts = %+v, want %+v", res.Counts, want)
			}
			if !fits {
				if reason, detail := w.saysOf(connector.Indexed(text)); reason != string(connector.ReasonRecordUnreadable) ||
					!strings.HasPrefix(detail, "The id ") {
					t.Errorf("of the id is told %q: %q", reason, detail)
				}
				if reason, detail := w.saysOf("A3"); reason != string(connector.ReasonIllegalText) &&
					reason != string(connector.ReasonMappingFailed) || !strings.Contains(detail, "customerNo") {
					t.Errorf("of the number is told %q: %q", reason, detail)
				}
			}
			statetest.KeptAnywhere(t, w.path)
			if again := w.complete(w.run()); again.Counts.Created != 0 || again.Counts.Held != want.Held {
				t.Errorf("afterwards: %+v", again.Counts)
			}
		})
	}
}
