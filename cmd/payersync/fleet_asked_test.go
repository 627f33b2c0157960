package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/session"
	"payersync/connector/queue"
)

// A person starts a run on pages whose process makes no runs: a node does it, for that person.
func TestARunThatAPersonStartsIsMadeByANodeThatIsFree(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, map[string]int{"acme": 2})
	c.configure("acme", "0 3 1 1 *")
	c.apply()
	c.serve(0)
	c.awaitMandates(map[string]int{"acme": 2}) // a new account has a run at once
	c.accounts["acme"].export(people(3)...)
	server := c.server()
	pool, err := server.Pool(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	nothing := func(context.Context, int64) error { return nil }
	q, err := queue.New(queue.Config{Pool: pool, Drain: nothing,
		Work: func(context.Context, queue.Job, string) error { return nil },
		Open: server.HasDeliveriesOf(func(int64) bool { return true }, time.Minute),
		Due:  func(context.Context) ([]int64, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	account := server.infos[0].ID
	byQueue := func(s *session.Session) runner { return &accountJobs{queue: q, account: account, ledger: s.Ledger} }
	c.onPagesWith("acme", byQueue, func(r *reader) {
		page := r.send(http.MethodPost, "/runs", url.Values{"connection": {"acme"}})
		if !strings.Contains(page, "of acme was started.") && !strings.Contains(page, "A run of acme starts soon.") {
			t.Errorf("the page does not say that a run was started:\n%s", page)
		}
	})
	c.awaitMandates(map[string]int{"acme": 3})
	last := c.asked("acme", "SELECT trigger || ' ' || holder FROM main.runs ORDER BY run_id DESC LIMIT 1")
	if !strings.HasPrefix(last, "manual ") || !strings.HasSuffix(last, " for anna") {
		t.Errorf("the last run is %q, want one by hand, for anna", last)
	}
}
