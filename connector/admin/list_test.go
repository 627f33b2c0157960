package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/health"
	"payersync/connector/readiness"
	"payersync/state"
)

// shownList writes a list in short.
func shownList(lines []admin.Line) string {
	return strings.Join(connector.Map(lines, func(l admin.Line) string {
		urgent := ""
		if l.Urgent {
			urgent = "!"
		}
		return fmt.Sprintf("%s%d %s %s (%s)", urgent, l.Count, l.Kind, l.Subject, l.Who)
	}), "\n")
}

func TestTheListHasUrgentLinesFirstAndCountsWhatItsFiltersSelect(t *testing.T) {
	t.Parallel()
	w := street(t)
	c, err := admin.CountNow(t.Context(), w.ledger, 0)
	if err != nil {
		t.Fatal(err)
	}
	lines := c.List([]health.Condition{
		{Code: health.RestartNeeded},
		{Code: health.SourceDisconnected, Subject: "acme", Connection: "acme", Urgent: true},
		{Code: health.LettersWait, Count: 7}, {Code: health.Attention, Count: 3},
	}, nil)
	const want = `!1 finding left_with_mandate (you)
!1 condition source_disconnected (operator)
3 payer not_sent (you)
1 payer link_lost (you)
7 letter letters_wait (you)
1 condition restart_needed (operator)
1 payer not_asked (operator)
1 payer not_in_service (operator)`
	if got := shownList(lines); got != want {
		t.Errorf("the list is\n%s\nwant\n%s", got, want)
	}
	s := &admin.ReadinessCounts{Ledger: w.ledger}
	defer s.Close()
	for _, l := range lines {
		if got := walked(t, s, c, admin.Which{Task: admin.Task(l.Subject)}, 2); l.Kind == admin.KindPayer &&
			len(got) != l.Count {
			t.Errorf("%s counts %d and lists %v", l.Subject, l.Count, got)
		}
	}
	if n := admin.Items(lines); n != 16 {
		t.Errorf("the list has %d items, want 16", n)
	}
	if n := admin.Items(lines, admin.KindLetter, admin.KindFinding); n != 8 {
		t.Errorf("%d letters and findings, want 8", n)
	}
}

func TestEveryLineSaysWhoMustActAndWhatHappensOtherwise(t *testing.T) {
	t.Parallel()
	c := &admin.Count{}
	for r := range connector.Reasons {
		c.Reasons = append(c.Reasons, state.ReasonCount{Reason: r, Count: 1})
	}
	c.Plans = []state.Plan{{ID: 1, Connection: "acme"}, {ID: 2, Connection: "gone"}}
	var found []health.Condition
	for _, code := range admin.ListedConditions {
		found = append(found, health.Condition{Code: code, Sentence: "It is so.", Urgent: code == health.Standstill})
	}
	lines := c.List(found, func(connection string) bool { return connection == "acme" })
	for _, l := range lines {
		if l.Title == "" || l.Who == "" || l.Otherwise == "" || l.Count == 0 || l.Kind != admin.KindCondition &&
			l.Kind != admin.KindLetter && l.Kind != admin.KindWriteback && l.Next == "" {
			t.Errorf("a line lacks a part: %+v", l)
		}
		if l.Kind == admin.KindPlan && (l.Count != 1 || !l.Urgent || l.Detail != "It is so.\nIt is so.") {
			t.Errorf("the line of plans is %+v", l)
		}
	}
	// The conditions of waiting plans, unread deliveries and the subscription are told by the lines that count these.
	if want := len(connector.Reasons) + 1 + len(found) - 4; len(lines) != want {
		t.Errorf("%d lines, want %d", len(lines), want)
	}
	known := map[string]bool{}
	for _, class := range readiness.Classes {
		if class.Steps() == nil {
			task := admin.TaskNamed(string(class)) // by its former name
			if known[string(task)] = true; len(task) == 1 || admin.TaskNamed(string(task)) != task {
				t.Errorf("the task on class %s is called %s", class, task)
			}
		}
		for _, step := range class.Steps() {
			known[string(step)] = true
		}
	}
	for _, task := range admin.Tasks {
		if !known[string(task)] {
			t.Errorf("there is no step or class %s", task)
		}
	}
	if len(admin.Tasks) != len(known) {
		t.Errorf("%d tasks, and %d places of records", len(admin.Tasks), len(known))
	}
}

func TestEveryRecordThatNeedsSomebodyIsInTheList(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := randomWorld(t, seed)
			told := map[string]bool{}
			if all, err := w.ledger.Attention(t.Context(), state.Filter{PutOff: state.NotPutOff}); err != nil {
				t.Fatal(err)
			} else {
				for _, a := range all {
					told[a.Connection+"/"+a.SourceID] = true
				}
			}
			c, err := admin.CountNow(t.Context(), w.ledger, 0)
			if err != nil {
				t.Fatal(err)
			}
			tasks := 0
			_, rows := w.report("")
			for _, r := range rows {
				if r.Task != "" {
					tasks++
				}
				here := slices.Contains([]readiness.Who{readiness.You, readiness.Books, readiness.Operator}, r.Who)
				if here && r.Task == "" && !told[r.Connection+"/"+r.SourceID] {
					t.Errorf("record %s is for %s (%s, %s), and no line has it", r.SourceID, r.Who, r.Class, r.Reason)
				}
			}
			lines := c.List(nil, nil)
			if n := admin.Items(lines, admin.KindPayer); n != tasks {
				t.Errorf("%d records have a task, and the list counts %d", tasks, n)
			}
			if at := slices.IndexFunc(lines, func(l admin.Line) bool { return !l.Urgent }); at >= 0 &&
				slices.ContainsFunc(lines[at:], func(l admin.Line) bool { return l.Urgent }) {
				t.Errorf("an urgent line is not first:\n%s", shownList(lines))
			}
		})
	}
}
