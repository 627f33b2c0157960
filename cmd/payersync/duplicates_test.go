package main

import (
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/state"
)

func TestServeFindsASecondCustomerAtNightAndEveryRunEndsWithIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id := situations[connector.ReasonDuplicateCustomer](s)
	s.stored(func(tx *state.Tx) error { return tx.SaveDuplicates(nil) }) // as if only other commands had run
	if told := s.told(id); len(told) > 0 {
		t.Fatalf("%s is told %v", id, told)
	}
	serve := s.serve()
	eventually(t, "the nightly look",
		func() bool { return strings.Contains(serve.errOut.String(), "looked for two customers of one payer") })
	serve.stop()
	if told := s.told(id); !slices.Equal(told, []string{string(connector.ReasonDuplicateCustomer)}) {
		t.Errorf("%s is told %v", id, told)
	}
	for _, args := range [][]string{{"sync", "--yes"}, {"sync", "--yes"}, {"sweep"}} {
		s.do(args, exitAttention)
	}
	for _, args := range [][]string{{"status"}, {"report"}, {"payers", "list"}, {"payers", "show", id},
		{"attention", "show", id}} {
		r := s.do(args, exitDone, exitAttention)
		if !strings.Contains(r.out, string(connector.ReasonDuplicateCustomer)) &&
			!strings.Contains(r.out, connector.ReasonDuplicateCustomer.Sentence()) &&
			!strings.Contains(r.out, connector.ReasonDuplicateCustomer.Next()) {
			t.Errorf("%v does not show it:\n%s", args, r.out)
		}
	}
	s.do([]string{"payers", "different", id, s.second(), "--reason", "two accounts", "--yes"}, exitDone)
	s.do([]string{"sweep"}, exitDone)
	s.do([]string{"sync", "--yes"}, exitDone)
}

// second returns the customer without a record.
func (s *stage) second() string {
	s.t.Helper()
	for _, c := range s.box.Customers() {
		if c.ExternalData["accountNumber"] == "" {
			return c.ID
		}
	}
	s.t.Fatal("every customer is a record's")
	return ""
}
