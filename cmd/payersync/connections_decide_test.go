package main

import (
	"encoding/csv"
	"os"
	"slices"
	"strings"
	"testing"

	"payersync/connector/accounting/quickbooks/quickbookstest"
)

// atADesk gives a payer another e-mail address and number, so that each pair needs a look.
func atADesk(c *quickbookstest.StoredCustomer) {
	c.PrimaryEmailAddr.Address, c.PrimaryPhone = "desk-"+c.PrimaryEmailAddr.Address, nil
}

// moveOf returns how the move of acme to QuickBooks stands.
func (w *world) moveOf() moveReport {
	w.t.Helper()
	return decodeLines[moveReport](w.t,
		w.expect(exitDone, "connections", "move", "acme", "quickbooks", "--output", "json"))[0]
}

// decidesLike fails the test unless one pair is accepted, the record of one is a new payer, and one
// waits, and a sync then makes the one new customer.
func (w *world) decidesLike(before int) {
	w.t.Helper()
	report := w.moveOf()
	if !report.Moved || report.Accepted != 1 || report.Unsure != 1 || len(report.OnlyNew) != 1 ||
		len(report.OnlyOld) != 1 {
		w.t.Errorf("the move stands at %+v", report)
	}
	w.run("backfill", "quickbooks", "--yes")
	if got := w.holders(); len(w.box.Customers()) < before || got["quickbooksCustomerId"] < 1 {
		w.t.Errorf("of %d customers the keys are %v", len(w.box.Customers()), got)
	}
}

// covers F231
func TestAPersonDecidesOnEachPairOfAMoveAtATerminal(t *testing.T) {
	t.Parallel()
	const payers = 3
	w := aCompany(t, payers, 1)
	w.withQuickBooks(t, payers, 0, atADesk)
	w.run("plan", "quickbooks")
	p := w.at(nil, "connections", "move", "acme", "quickbooks")
	for i, answer := range []string{"2", "9", "3", ""} { // the payer; nothing that is offered; none of them; later
		p.asks("[1] ", i+1)
		p.types(answer + "\r")
		if i == 0 {
			p.asked()
			p.types("y\r")
		}
	}
	r := p.wait()
	if r.code != exitAttention {
		t.Fatalf("it ended with %d:\n%s", r.code, r.out)
	}
	p.sees("Matches: 0 certain, 3 to look at, 0 accepted before.", "Which payer of acme does record 1",
		"  1  decide later", "  3  none of them: a new payer", "Which one, 1 to 3? [1] 2", "Which one, 1 to 3? [1] 9",
		`"9" is none of them.`, "Which one, 1 to 3? [1] 3", "1 pair accepted. acme is closed.")
	w.decidesLike(payers)
}

// covers F231
func TestAMoveClosesTheOldConnectionOnlyWhenAPersonSaysSo(t *testing.T) {
	t.Parallel()
	const payers = 3
	w := aCompany(t, payers, 1)
	w.withQuickBooks(t, payers, 0, func(c *quickbookstest.StoredCustomer) {
		if strings.HasPrefix(c.DisplayName, "Payer 1 ") {
			atADesk(c)
		}
	})
	w.run("plan", "quickbooks")
	p := w.at(nil, "connections", "move", "acme", "quickbooks")
	p.asked()
	p.types("n\r") // the certain pairs
	p.asks("[1] ", 1)
	p.types("2\r")
	p.asks("[y/N] ", 2)
	p.types("\r") // to close the old connection
	r := p.wait()
	if report := w.moveOf(); r.code != exitDone || report.Moved || report.Accepted != 0 {
		t.Fatalf("it ended with %d, and the move stands at %+v:\n%s", r.code, report, r.out)
	}
	p.sees("Accept the 2 certain matches? [y/N] n",
		"Close acme? A match counts only then, and runs of acme are refused from then on. Undecided so far: 2 payers of acme, 2 records of quickbooks. [y/N]", "acme stays open, so no match is accepted.", "Nothing was decided.")

	r = w.run("connections", "move", "acme", "quickbooks", "--pair", "A00002=2")
	if r.code != exitUsage || !strings.Contains(r.errOut, "acme would be closed") || w.moveOf().Moved {
		t.Errorf("a pair without --yes ended with %d:\n%s", r.code, r.errOut)
	}

	p = w.at(nil, "connections", "move", "acme", "quickbooks")
	p.asked()
	p.types("y\r")
	p.asks("[y/N] ", 2)
	p.types("y\r")
	p.asks("[1] ", 1)
	p.types("\r")
	p.wait()
	p.sees("Close acme? A match counts only then, and runs of acme are refused from then on. Undecided so far: 1 payer of acme, 1 record of quickbooks. [y/N] y", "2 pairs accepted. acme is closed.")
}

// filled fills the column decision of a review list, row by row.
func (w *world) filled(file string, decisions ...string) [][]string {
	w.t.Helper()
	f, err := os.Open(w.path(file))
	w.must(err)
	rows, err := csv.NewReader(f).ReadAll()
	w.must(err)
	w.must(f.Close())
	at := slices.Index(rows[0], "decision")
	for i, d := range decisions {
		rows[i+1][at] = d
	}
	return rows
}

// writeRows writes the rows of a review list.
func (w *world) writeRows(file string, rows [][]string) {
	w.t.Helper()
	var text strings.Builder
	out := csv.NewWriter(&text)
	w.must(out.WriteAll(rows))
	w.write(file, text.String())
}

// covers F52, F231
func TestAPersonDecidesOnTheMoveOfBooksInASpreadsheet(t *testing.T) {
	t.Parallel()
	const payers = 3
	w := aCompany(t, payers, 1)
	w.withQuickBooks(t, payers, 0, atADesk)
	w.run("plan", "quickbooks")
	move := func(more ...string) []string {
		return append([]string{"connections", "move", "acme", "quickbooks"}, more...)
	}
	r := w.expect(exitDone, move("--csv", w.path("pairs.csv"))...)
	if !strings.Contains(r.errOut, "3 pairs written to") ||
		!strings.Contains(r.errOut, "connections move acme quickbooks --import") {
		t.Errorf("it says\n%s", r.errOut)
	}
	w.expect(exitUsage, move("--csv", w.path("pairs.csv"))...)
	rows := w.filled("pairs.csv", "accept", "new", "")

	wrong := slices.Clone(rows)
	wrong[3] = slices.Clone(rows[3])
	wrong[3][slices.Index(rows[0], "decision")], wrong[3][slices.Index(rows[0], "customer_name")] = "accept",
		"Somebody Else"
	w.writeRows("wrong.csv", wrong)
	r = w.expect(exitUsage, move("--import", w.path("wrong.csv"), "--yes")...)
	if !strings.Contains(r.errOut, "line 4, column customer_name: it is something else by now") || w.moveOf().Moved {
		t.Errorf("a list that shows another name: it says\n%s", r.errOut)
	}

	w.writeRows("filled.csv", rows)
	w.expect(exitUsage, move("--import", w.path("filled.csv"))...) // nobody can be asked
	w.expect(exitAttention, move("--import", w.path("filled.csv"), "--yes", "--reason", "decided with accounting")...)
	again := w.expect(exitAttention, move("--import", w.path("filled.csv"), "--yes")...)
	if !strings.Contains(again.errOut, "The file contains no new decision.") {
		t.Errorf("read twice it says\n%s", again.errOut)
	}
	w.decidesLike(payers)
}
