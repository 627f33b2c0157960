package pages_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/connector/syncer"
	"payersync/state"
)

// starter returns what starts runs of the house in the background.
func (h *house) starter() *admin.Starter {
	var working sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	h.t.Cleanup(func() { stop(); working.Wait() })
	return &admin.Starter{
		Ledger: h.ledger,
		Go: func(_ string, work func(context.Context) error) error {
			working.Go(func() { _ = work(ctx) })
			return nil
		},
		Run: func(ctx context.Context, _, by string, opened func(int64), progress func(syncer.Progress)) error {
			_, err := h.syncer.Run(ctx, h.conn,
				syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: by, Holder: "test for " + by, Opened: opened,
					Progress: progress})
			return err
		},
	}
}

// gated is a source that is not read before somebody opens it.
type gated struct {
	syncer.Source
	gate chan struct{}
}

func (g gated) Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	select {
	case <-g.gate:
	case <-ctx.Done():
	}
	return g.Source.Customers(ctx, since)
}

func TestARunIsStartedShownAtWorkAndShownAtItsEnd(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	viewer, v := h.enter("vera", pages.Viewer), h.enter("olaf", pages.Operator)
	lacks(t, viewer.get("/runs", http.StatusOK), "now</button>")
	viewer.post("/runs", http.StatusForbidden, "connection", sample)
	holds(t, v.get("/runs", http.StatusOK), "Run quickstart now", "The button above starts it")
	v.post("/runs", http.StatusNotFound, "connection", "elsewhere")
	v.get("/runs/1", http.StatusNotFound)
	v.get("/runs/x", http.StatusNotFound)

	gate := make(chan struct{})
	h.conn.Source = gated{h.conn.Source, gate}
	holds(t, v.post("/runs", http.StatusOK, "connection", sample), "Run 1 of quickstart was started.", `aria-busy="true"`,
		"Running", "Look again")
	holds(t, v.post("/runs", http.StatusOK, "connection", sample),
		"Run 1 of quickstart is already in progress. No other run was started.")
	close(gate)
	for strings.Contains(v.get("/runs/1", http.StatusOK), "aria-busy") { // as the page's script looks
	}
	page := v.get("/runs/1", http.StatusOK)
	holds(t, page, "Waits for approval", "test for olaf", "39 records read", "The counts add up to what was read.",
		`href="/plans/1"`, "Planned", "Crumb &amp; Crust Bakery Ltd")
	if n := h.box.Writes(); n != 0 {
		t.Errorf("a run above the limits sent %d requests", n)
	}
	if !h.audited("start run") {
		t.Error("the audit log does not say that somebody started a run")
	}
	holds(t, v.get("/runs", http.StatusOK), "Waits for approval: 1", "<svg role=\"img\"",
		"The counts add up: read = unchanged")
}

// The page of a run of another process shows how far it is by the ledger, and is looked at again as any other.
func TestARunOfAnotherProcessShowsHowFarItIs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("olaf", pages.Operator)
	gate, ended := make(chan struct{}), make(chan error, 1)
	started, planned, goOn := make(chan int64, 1), make(chan struct{}), make(chan struct{})
	conn := h.conn
	conn.Source = gated{h.conn.Source, gate}
	go func() { // not by the starter of the pages
		_, err := h.syncer.Run(t.Context(), conn, syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "olaf",
			Holder: "node-b pid 7 for olaf", Opened: func(run int64) { started <- run },
			Approve: func(state.Plan) (bool, error) { close(planned); <-goOn; return true, nil }})
		ended <- err
	}()
	path := fmt.Sprintf("/runs/%d", <-started)
	holds(t, v.get(path, http.StatusOK), `data-again`, "Running", "It began ", " ago. It has planned no change yet.",
		"node-b pid 7 for olaf")
	close(gate)
	<-planned
	holds(t, v.get(path, http.StatusOK), "data-again", " ago. 0 of 67 changes done.")
	close(goOn)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	page := v.get(path, http.StatusOK)
	holds(t, page, "39 records read")
	lacks(t, page, "data-again", "It began")
	if all, done, err := h.ledger.RunWork(t.Context(), 1); all != 67 || done != 67 || err != nil {
		t.Errorf("%d of %d changes are done, %v", done, all, err)
	}
}

// The list of runs shows a requested run until a node begins it, and is looked at again meanwhile.
func TestARequestedRunIsShownUntilANodeBeginsIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	starter := h.starter()
	starter.Requests = func(context.Context) ([]admin.RunRequest, error) {
		return []admin.RunRequest{{Connection: sample, By: "olaf", At: time.Now()}, {Connection: "elsewhere", By: "ada"}}, nil
	}
	h.server.Config.Handler = must(pages.New(pages.Config{Ledger: h.ledger, Connections: []string{sample},
		Starter: starter}))(t)
	v := h.enter("olaf", pages.Operator)
	page := v.get("/runs", http.StatusOK)
	holds(t, page, "data-again", "waits for a free node. <bdi>olaf</bdi> requested it ")
	lacks(t, page, "elsewhere", "There was no run yet")
	gate := make(chan struct{})
	defer close(gate)
	h.conn.Source = gated{h.conn.Source, gate}
	_ = must(starter.Now(t.Context(), sample, "olaf"))(t)
	page = v.get("/runs", http.StatusOK)
	holds(t, page, "data-again", "Running")
	lacks(t, page, "waits for a free node")
}

func TestARunStartsBesideOneWhoseProcessWasKilled(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if err := h.ledger.Do(t.Context(), func(tx *state.Tx) error {
		if err := tx.PinConnection(state.Connection{Name: sample, Info: h.conn.Info}); err != nil {
			return err
		}
		if err := tx.SaveMapping(h.conn.Mapping.Version(), string(h.conn.Mapping.Text()), "test"); err != nil {
			return err
		}
		_, err := tx.OpenRun(state.NewRun{Connection: sample, Kind: connector.RunSync, Trigger: "schedule",
			Mapping: h.conn.Mapping.Version(), Holder: "a process that was killed"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	v := h.enter("olaf", pages.Operator)
	holds(t, v.post("/runs", http.StatusOK, "connection", sample), "Run 2 of quickstart was started.")
	holds(t, v.get("/runs/1", http.StatusOK), "Not finished", "the process stopped")
}

func TestARunThatDidNotEndWellSaysWhyAndWhoseFault(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.books([]byte(strings.SplitN(string(sampleBooks(t)), "\n", 2)[0] + "\n"))
	_, err := h.syncer.Run(context.Background(), h.conn,
		syncer.RunOptions{Kind: connector.RunSync, Trigger: "schedule", Actor: "schedule", Holder: "test"})
	if err != nil {
		t.Fatal(err)
	}
	v := h.enter("vera", pages.Viewer)
	page := v.get("/runs/2", http.StatusOK)
	holds(t, page, "By schedule", "Not finished", "shows none of the", "The counts add up to what was read.")
	lacks(t, page, ">Complete<")
	page = v.get("/runs/1", http.StatusOK)
	holds(t, page, "Finished, 4 need attention", "Done", "request a signing link", "new customer")
}
