package main

import (
	"errors"
	"strings"
	"testing"

	"payersync/connector/letters"
)

func TestLettersThatAreHeldEndWithAStatusAndTheNextStep(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		result letters.Counts
		code   int
		next   string
	}{
		"unclear letters": {letters.Counts{Holds: []letters.Hold{{Code: letters.HoldUnclear,
			Text: "Of 5 letters nobody knows."}}}, exitAttention, "payersync letters list --state unclear"},
		"a mistake": {letters.Counts{Holds: []letters.Hold{{Code: letters.HoldMapping, Connection: "acme",
			Text: "It has a mistake."}}}, exitAttention, "payersync mapping check acme"},
		"old books": {letters.Counts{Holds: []letters.Hold{{Code: letters.HoldSource, Connection: "acme",
			Text: "They were not read."}}}, exitAttention, "payersync sync acme"},
		"an old list": {letters.Counts{Holds: []letters.Hold{{Code: letters.HoldSweep,
			Text: "It was not read."}}}, exitAttention, "payersync sweep"},
		"a folder that is not shared": {letters.Counts{Holds: []letters.Hold{{Code: letters.HoldJournal,
			Text: "It is not shared."}}}, exitAttention, "payersync help many-machines"},
		"a restore": {letters.Counts{Holds: []letters.Hold{{Code: letters.HoldRestored,
			Text: "It was put back.", Person: true}}}, exitApproval, "payersync letters continue --reason TEXT"},
		"no sender": {letters.Counts{Holds: []letters.Hold{{Code: letters.HoldSender,
			Text: "payersync does not write."}}}, exitDone, ""},
		"nothing": {letters.Counts{Sent: 3}, exitDone, ""},
	} {
		err := sentExit(test.result)
		var code exitError
		if errors.As(err, &code); int(code) != test.code {
			t.Errorf("%s: it ends with %d, want %d", name, code, test.code)
		}
		for _, h := range test.result.Holds {
			if next := (letterHold{h.Code, h.Connection, h.Text, h.Person}).next(); !strings.Contains(next, test.next) ||
				test.next == "" && next != "" {
				t.Errorf("%s: the next step is %q, want %q", name, next, test.next)
			}
		}
	}
}
