package state

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"payersync/connector"
)

// letterTo freezes a letter about a mandate of a payer to an address.
func (d *desk) letterTo(mandate, payer, address string, step int) {
	d.t.Helper()
	d.do(func(tx *Tx) error {
		return tx.FreezeLetter(Letter{
			MandateID: mandate, Step: step, Kind: "reminder", RecordID: RecordID{acme, payer},
			Recipient: d.RecipientHash(address), Setup: "s", Language: "en",
			MessageID: fmt.Sprintf("%s-%d", mandate, step), Body: []byte("x"), LookedAt: d.clock.at, FrozenAt: d.clock.at,
		})
	})
}

// stops returns the recipients' stops, as "scope source".
func (d *desk) stops() string {
	d.t.Helper()
	return column(d.t.(*testing.T), d.Ledger,
		"SELECT scope || '/' || source_id || '/' || CASE recipient WHEN '' THEN '-' ELSE 'hash' END || '/' || why FROM letter_stops WHERE ended_at IS NULL")
}

func (d *desk) optOut(token string) OptingOut {
	d.t.Helper()
	got, err := d.OptOut(context.Background(), token)
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

// covers F133
func TestARecipientStopsLettersOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.see("c1", signing("m1", "b1", "https://sign.example/1"))
	d.letterTo("m1", "c1", "Ada@bakery.example", 0)
	token := d.StopToken("m1")
	for _, want := range []OptingOut{{Known: true, News: true}, {Known: true}} {
		if got := d.optOut(token); got != want {
			t.Errorf("it ended as %+v, want %+v", got, want)
		}
	}
	const both = "address//hash/opted_out payer/c1/-/opted_out"
	if got := d.stops(); got != both {
		t.Errorf("stopped are %q, want %q", got, both)
	}
	// a person took it back
	d.do(func(tx *Tx) error { return tx.exec("UPDATE letter_stops SET ended_at = '2026-11-23T00:00:00.000Z'") })
	if got := d.optOut(token); !got.News || d.stops() != both {
		t.Errorf("said again it ended as %+v, and stopped are %q", got, d.stops())
	}
}

// covers F133
func TestATokenNamesNobodyAndIsMadeByNobodyElse(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.see("c1", signing("m1", "b1", "https://sign.example/1"))
	token, long := d.StopToken("m1"), d.StopToken(strings.Repeat("m", 62))
	if token == d.StopToken("m1") || len(token) != len(long) || strings.Contains(long, "mmmmmm") {
		t.Errorf("tokens tell of their mandates: %s, %s", token, long)
	}
	if got := d.StopToken(strings.Repeat("m", 63)); got != "" {
		t.Errorf("an id that is too long has the token %q", got)
	}
	other := newDesk(t)
	other.letterKey = newKey()
	for _, forged := range []string{"", "m1", other.StopToken("m1"), token[:len(token)-1], token + "A",
		strings.ToLower(token), altered(token), strings.Repeat("A", len(token)), strings.Repeat("A", 3000)} {
		if got := d.optOut(forged); got != (OptingOut{}) {
			t.Errorf("the forged token %q ended as %+v", forged, got)
		}
	}
	// a mandate that a ledger which was put back knows nothing of
	if got := d.optOut(d.StopToken("m9")); got != (OptingOut{Known: true}) {
		t.Errorf("the token of an unknown mandate ended as %+v", got)
	}
	if got := d.stops(); got != "" {
		t.Errorf("stopped are %q, want nobody", got)
	}
	// no letter is known: the ledger was put back
	if got := d.optOut(d.StopToken("m1")); !got.News || d.stops() != "payer/c1/-/opted_out" {
		t.Errorf("it ended as %+v, and stopped are %q", got, d.stops())
	}
}

// altered returns a token with one character of another value.
func altered(token string) string {
	to := "A"
	if token[40] == 'A' {
		to = "B"
	}
	return token[:40] + to + token[41:]
}

// People hand tokens to a command, which takes what begins with a hyphen for a flag.
func TestNoTokenBeginsWithAHyphen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for range 1000 { // of which about 16 would
		if token := d.StopToken("m1"); strings.HasPrefix(token, "-") {
			t.Fatalf("a token is %s", token)
		}
	}
}

// What a recipient has said holds when the payer is forgotten, and its key is replaced.
//
// covers F133, F123
func TestAnOptOutOutlivesThePayer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.label(acme, "m1", NewLabel{SourceID: "c1",
		Label: connector.Label{Number: "1", Name: "Ada", Email: "ada@bakery.example"}})
	d.see("c1", signing("m1", "b1", "https://sign.example/1"))
	d.letterTo("m1", "c1", "ada@bakery.example", 0)
	d.optOut(d.StopToken("m1"))
	later := d.StopToken("m1") // in a letter that is read after the payer was forgotten
	before := d.stops()
	d.over()
	d.forget("c1")
	if got := d.stops(); got != before {
		t.Errorf("after the payer was forgotten stopped are %q, want %q", got, before)
	}
	hash := one[string](t, d.Ledger, "SELECT recipient FROM letter_stops WHERE scope = 'address'")
	if hash != d.RecipientHash(" ADA@bakery.example") {
		t.Error("the address is known no more by its hash")
	}
	if got := d.optOut(later); got != (OptingOut{Known: true}) {
		t.Errorf("said again it ended as %+v", got)
	}
}

// covers F133
func TestATokenOutlivesTheSealingKey(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a new key reaches rows by their numbers in the file")
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.see("c1", signing("m1", "b1", "https://sign.example/1"))
	token := d.StopToken("m1")
	to, err := newSealer(newKey())
	if err != nil {
		t.Fatal(err)
	}
	d.do(func(tx *Tx) error { err := tx.reseal(to); return err })
	d.seal = to
	if err := d.loadLetterKey(t.Context(), d.reader); err != nil {
		t.Fatal(err)
	}
	if got := d.optOut(token); !got.News {
		t.Errorf("after another sealing key it ended as %+v", got)
	}
}

func TestALedgerWithoutItsKeyMakesNoTokens(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l, err := Open(t.Context(), Options{Path: d.opts.Path, KeyFile: filepath.Join(t.TempDir(), "gone.key"), Keyless: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if token := l.StopToken("m1"); token != "" {
		t.Errorf("it made %q", token)
	}
	if _, err := l.OptOut(t.Context(), "x"); !errors.As(err, new(*OpenError)) {
		t.Errorf("a word of a recipient ended with %v", err)
	}
}
