package main

import (
	"os"
	"strings"
	"testing"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/state"
)

// givenUp says whether the record is given up.
func (w *world) givenUp(id string) bool {
	w.t.Helper()
	for _, c := range decodeLines[state.ClosedRow](w.t,
		w.expect(exitDone, "attention", "list", "--closed", "--output", "json")) {
		if c.SourceID == id && c.Kind == state.ClosedGivenUp {
			return true
		}
	}
	return false
}

func TestTodoWalksThroughTheListAndDoesWhatItIsAnswered(t *testing.T) {
	t.Parallel()
	rows := people(3)
	rows[1].Email = "nobody at example"
	w := newWorld(t, rows)
	w.expect(exitAttention, "sync")
	p := w.at(nil, "todo")
	p.asks("?] ", 1)
	p.types("?\r")
	p.asks("?] ", 2)
	p.types("x\r")
	p.asks("?] ", 3)
	p.types("s\r")
	p.asks("?] ", 4)
	if w.givenUp("A00002") {
		t.Fatal("it acted before it was answered")
	}
	p.types("g\r")
	p.asks("reason: ", 1)
	p.types("\r") // no reason, so nothing is done
	p.asks("?] ", 5)
	if w.givenUp("A00002") {
		t.Fatal("it acted without a reason")
	}
	p.types("g\r")
	p.asks("reason: ", 2)
	p.types("the account is closed\r")
	p.asks("Give the payer up? [y/N] ", 1)
	if w.givenUp("A00002") {
		t.Fatal("it acted before it had shown the effect")
	}
	p.types("y\r")
	if r := p.wait(); r.code != exitDone {
		t.Fatalf("it ended with %d:\n%s", r.code, r.out)
	}
	p.sees("── 1 of 2", "     2  The signing link was never sent", "  r  payersync report --task not_sent",
		"\"x\" is none of the answers.", "── 2 of 2", "     1  The e-mail address is mistyped",
		"acme, record A00002 Payer 2", "  g  payersync attention close --give-up A00002 --reason 'why'", "Nothing was done.",
		"$ payersync attention close --give-up A00002 --reason 'the account is closed'",
		"payersync sends nothing for this payer any more.", "Nothing is sent to anybody.",
		"You can take it back: “Undo giving up”.", "This was the whole list.")
	if !w.givenUp("A00002") || !w.audited("the account is closed") {
		t.Error("the answer was not carried out")
	}
}

func TestTodoApprovesAPlanThatItHasShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(25))
	w.expect(exitApproval, "sync")
	p := w.at(nil, "todo")
	p.asks("?] ", 1)
	p.types("a\r")
	p.asks("?] ", 2) // of the next line
	if plans := decodeLines[state.Plan](t, w.expect(exitDone, "plan", "list", "--output", "json")); len(plans) != 0 {
		t.Errorf("%d plans wait after the approval", len(plans))
	}
	p.types("q\r")
	if r := p.wait(); r.code != exitDone {
		t.Fatalf("it ended with %d:\n%s", r.code, r.out)
	}
	p.sees("!    1  A plan waits for approval", "$ payersync plan show 1", "  a  payersync plan approve 1",
		"$ payersync plan approve 1")
	if n := w.box.Writes(); n != 0 {
		t.Errorf("%d requests were sent by an approval", n)
	}
}

func TestTodoDoesNothingWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	rows := people(3)
	rows[1].Email = "nobody at example"
	w := newWorld(t, rows)
	w.expect(exitAttention, "sync")
	before, writes := w.expect(exitDone, "audit", "--output", "json").out, w.box.Writes()
	if r := w.expect(exitDone, "todo"); !strings.Contains(r.out, "Needs somebody") ||
		!strings.Contains(r.out, "payersync attention list --reason email_malformed") {
		t.Errorf("without a terminal it prints\n%s", r.out)
	}
	if lines := decodeLines[needLine](t, w.expect(exitDone, "todo", "--output", "json")); len(lines) != 2 ||
		lines[1].Subject != string(connector.ReasonEmailMalformed) {
		t.Errorf("as JSON it prints %+v", lines)
	}
	for _, keys := range []string{"q\r", "\x04"} {
		p := w.at(nil, "todo")
		p.asks("?] ", 1)
		p.types(keys)
		if r := p.wait(); r.code != exitDone {
			t.Errorf("after %q it ended with %d:\n%s", keys, r.code, r.out)
		}
	}
	if after := w.expect(exitDone, "audit", "--output", "json").out; after != before || w.box.Writes() != writes {
		t.Errorf("something was done:\n%s", after)
	}
}

func TestEachAnswerOfAnItemHasALetterOfItsOwn(t *testing.T) {
	t.Parallel()
	for r := range connector.Reasons {
		var choices []todoChoice
		for _, way := range r.Ways() {
			choices = append(choices, todoChoice{words: strings.Fields("payersync " + actCommands[way.Act])})
		}
		name((&app{program: program{Console: &show.Console{}, getenv: os.LookupEnv}}).root(), choices)
		taken := map[byte]bool{'s': true, 'q': true, '?': true}
		for _, c := range choices {
			if c.key == 0 || taken[c.key] {
				t.Errorf("%s: %q has the letter %q", r, c.words, c.key)
			}
			taken[c.key] = true
		}
	}
}

func TestAChoiceSaysWhatItsWayOfACommandDoes(t *testing.T) {
	t.Parallel()
	w := &todoWalk{root: (&app{program: program{Console: &show.Console{}, getenv: os.LookupEnv}}).root()}
	got := w.choices([]string{"payersync payers match --connection acme",
		"payersync payers match --finish --connection acme"})
	if got[0].does != "List matches: records without a customer, and the customers that may be theirs." ||
		got[1].does == got[0].does || !strings.HasPrefix(got[1].does, "Finish matching") {
		t.Errorf("the choices say %q and %q", got[0].does, got[1].does)
	}
}
