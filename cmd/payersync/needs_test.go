package main

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/letters"
	"payersync/connector/mail"
	"payersync/connector/mail/mailtest"
	"payersync/connector/pages"
	"payersync/state"
)

// needsEverything returns an installation in which everything needs somebody.
func needsEverything(t *testing.T) *stage {
	t.Helper()
	reasons := slices.Sorted(maps.Keys(connector.Reasons))
	rows := people(2*len(reasons) + 60) // so that some findings have more rows than a page shows
	w, _ := newToldWorld(t, rows)
	box := mailtest.New(t, mail.NoTLS)
	w.letters(box.Address, "  sender: payersync\n")
	s := &stage{world: w, clock: time.Now().UTC()}
	s.sync()
	s.do([]string{"sweep"}, exitDone, exitAttention)
	s.do([]string{"writeback", "run"}, exitApproval)
	more := slices.Clone(rows)
	for i := range 30 {
		more = append(more, row{ID: fmt.Sprintf("N%03d", i), Name: fmt.Sprintf("New payer %d", i),
			Email: fmt.Sprintf("new%d@example.net", i), Street: fmt.Sprintf("%d Quay", i)})
	}
	s.export(more...)
	s.do([]string{"sync"}, exitApproval)
	s.stored(func(tx *state.Tx) error {
		for i, r := range reasons {
			for n := range 1 + i%2 {
				tx.Explain(state.Payer{Connection: "acme", SourceID: rows[2*i+n].ID}, state.TopicRecord, r, "It is so.")
			}
		}
		for _, extra := range rows[2*len(reasons):] {
			tx.Explain(state.Payer{Connection: "acme", SourceID: extra.ID}, state.TopicRecord, connector.ReasonNameMissing,
				"It has no name.")
		}
		for i := range 3 {
			if _, err := tx.Receive(state.Delivery{Key: fmt.Sprintf("event:e%d#1", i), Type: "customer",
				State: connector.InboxQuarantined, Detail: "It names nobody.", Body: []byte(`{}`)}); err != nil {
				return err
			}
		}
		if _, err := tx.SaveSubscription(state.SubscriptionFacts{Problem: state.SubscriptionDeleted,
			Detail: "The webhook subscription is gone."}); err != nil {
			return err
		}
		if _, err := tx.SetMappingProblem("acme", "line 3: it is wrong"); err != nil {
			return err
		}
		return tx.SetSourceState("acme", state.SourceDisconnected, s.clock)
	})
	s.do([]string{"letters", "send"}, exitApproval, exitAttention) // it counts those that wait
	return s
}

// shownNeed is a line of the list on the overview.
var shownNeed = regexp.MustCompile(`(?s)<li(?: class="urgent")?><span class="many">([^<]*)</span><div><strong>(?:<a href="([^"]+)">)?([^<]+)`)

func TestStatusAndTheOverviewShowTheSameListAndEachLineOpensExactlyItsItems(t *testing.T) {
	t.Parallel()
	s := needsEverything(t)
	status := decode[struct{ List []needLine }](t, s.do([]string{"status", "--output", "json"}, exitDone))
	terminal := s.do([]string{"status"}, exitDone).out
	kinds := map[admin.ItemKind]bool{}
	at := 0
	for _, l := range status.List {
		kinds[l.Kind] = true
		i := strings.Index(terminal[at:], "  "+l.Title)
		if i < 0 {
			t.Fatalf("the table has no line %q where the JSON has it:\n%s", l.Title, terminal)
		}
		at += i
		if n := s.counted(l); n >= 0 && n != l.Count {
			t.Errorf("%s counts %d, and %q lists %d", l.Title, l.Count, l.Commands[0], n)
		}
	}
	for _, kind := range []admin.ItemKind{admin.KindCondition, admin.KindMatch, admin.KindPlan, admin.KindFinding,
		admin.KindPayer, admin.KindLetter, admin.KindWriteback, admin.KindDelivery} {
		if !kinds[kind] {
			t.Errorf("the list has no %s:\n%s", kind, terminal)
		}
	}
	s.onPages(func(sign func(pages.Role) *reader) {
		r := sign(pages.Operator)
		overview := r.get("/")
		if len(overview) > 30_000 {
			t.Errorf("the overview has %d bytes", len(overview))
		}
		shown := shownNeed.FindAllStringSubmatch(overview, -1)
		if len(shown) != len(status.List) {
			t.Fatalf("the overview has %d lines, and status %d:\n%s\n%s", len(shown), len(status.List), terminal, overview)
		}
		for i, l := range status.List {
			number := strconv.Itoa(l.Count)
			if l.Kind == admin.KindCondition {
				number = "!"
			}
			if got := shown[i]; got[1] != number || html.UnescapeString(got[3]) != l.Title {
				t.Errorf("line %d of the overview is %s %s, and of status %s %s", i+1, got[1], got[3], number, l.Title)
			}
			// the only plan is opened itself
			if path := html.UnescapeString(shown[i][2]); path != "" && !strings.HasPrefix(path, "/plans/") {
				if n := r.rows(path); n != l.Count {
					t.Errorf("%s counts %d, and %s lists %d", l.Title, l.Count, path, n)
				}
			}
		}
	})
	if r := s.do([]string{"todo", "--output", "json"}, exitDone); len(decodeLines[needLine](t, r)) != len(status.List) {
		t.Errorf("todo lists something else:\n%s", r.out)
	}
}

// counted returns how many items the first command of a line lists; -1 for a condition.
func (s *stage) counted(l needLine) int {
	s.t.Helper()
	if l.Kind == admin.KindCondition {
		return -1
	}
	r := s.do(append(strings.Fields(l.Commands[0])[1:], "--output", "json"), exitDone)
	switch l.Kind {
	case admin.KindPayer:
		return len(decode[struct{ Rows []json.RawMessage }](s.t, r).Rows)
	case admin.KindLetter:
		return decode[struct{ Count map[letters.What]int }](s.t, r).Count[letters.Waits]
	case admin.KindWriteback:
		return decode[struct{ Waiting int }](s.t, r).Waiting
	}
	return len(decodeLines[json.RawMessage](s.t, r))
}

// rows returns how many rows a list has on all its pages.
func (r *reader) rows(path string) (n int) {
	for path != "" {
		page := r.get(path)
		_, table, _ := strings.Cut(page, `<table class="rows`)
		if at := strings.LastIndex(page, `<table class="rows report"`); at >= 0 {
			table = page[at:]
		}
		_, table, _ = strings.Cut(table, "<tbody>")
		table, _, _ = strings.Cut(table, "</table>")
		n += strings.Count(table, "<tr")
		next := regexp.MustCompile(`<a [^>]*href="([^"]+)"[^>]*rel="next"`).FindStringSubmatch(page)
		if path = ""; next != nil {
			path = html.UnescapeString(next[1])
		}
	}
	return n
}
