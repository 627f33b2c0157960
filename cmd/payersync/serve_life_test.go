package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"payersync/connector"
	"payersync/state"
)

func TestHealthcheckAndTestDeliveryAskARunningServe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitFailed, "healthcheck")
	if r := w.expect(exitFailed, "webhooks", "subscribe", "--test", "--local"); !strings.Contains(r.errOut,
		"is payersync serve running?") {
		t.Errorf("without a serve it says: %s", r.errOut)
	}
	serve := w.serve()
	w.expect(exitDone, "healthcheck")
	for _, args := range [][]string{{"webhooks", "subscribe", "--test", "--local"}, {"webhooks", "subscribe", "--test"}} {
		if r := w.expect(exitDone, args...); !strings.Contains(r.out, "signed deliveries arrive") {
			t.Errorf("%s says %s", args, r.out)
		}
	}
	if stored := w.inbox(); len(stored) != 2 || stored[0].State != "ignored" {
		t.Errorf("stored: %+v", stored)
	}
	w.write("webhook.secret", "another-secret-that-is-32-bytes-long\n")
	if r := w.expect(exitFailed, "webhooks", "subscribe", "--test", "--local"); !strings.Contains(r.errOut,
		"that is the answer to another secret") {
		t.Errorf("with another secret it says: %s", r.errOut)
	}
	if r := w.expect(exitFailed, "webhooks", "subscribe", "--test", "--local", "--output",
		"json"); !strings.Contains(r.out, `"status":401`) {
		t.Errorf("with another secret it prints: %s", r.out)
	}
	serve.stop()
}

// covers F67
func TestServeStopsWithoutLosingTheRequestsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	serve := w.serve()
	payload := event("slow", w.mandateOf("A00001").CustomerID)
	req := w.delivery(payload)
	slow, body := io.Pipe()
	req.Body, req.ContentLength = slow, int64(len(payload))
	req.Header.Set("Expect", "100-continue")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{ExpectContinueTimeout: patience}}
	answered := make(chan int, 1)
	go func() {
		resp, err := client.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		_ = resp.Body.Close() // it has none
		answered <- resp.StatusCode
	}()
	// The client asks for the body only when serve has asked for it: from here on
	// the request is under way.
	if _, err := body.Write(payload[:10]); err != nil {
		t.Fatal(err)
	}
	serve.signal(syscall.SIGTERM)
	eventually(t, "serve to take nothing new", func() bool {
		resp, err := client.Get("http://" + w.hooks + "/healthz")
		if err == nil {
			_ = resp.Body.Close() // it has none
		}
		return err != nil
	})
	if _, err := body.Write(payload[10:]); err != nil {
		t.Fatal(err)
	}
	w.must(body.Close())
	if status := await(t, "the answer", answered); status != http.StatusOK {
		t.Errorf("the request under way was answered %d", status)
	}
	if r := serve.wait(); r.code != exitDone || !strings.Contains(r.errOut, "payersync stops") {
		t.Errorf("serve ended with %d:\n%s", r.code, r.errOut)
	}
	if stored := w.inbox(); len(stored) != 1 {
		t.Errorf("stored: %+v", stored)
	}
}

// Each round kills serve the moment the first of several deliveries is answered.
// Every delivery that was answered with 2xx must be in the inbox afterwards.
//
// covers F39, S10, L3
func TestAnAcknowledgedDeliverySurvivesAKillAtTheNextInstant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	customer := w.mandateOf("A00001").CustomerID
	acknowledged := map[string]bool{}
	for round := range 6 {
		serve := w.serve()
		for _, id := range w.deliverAndKill(serve, round, customer) {
			acknowledged["event:"+id] = true
		}
		serve.wait()
		if len(acknowledged) <= round {
			t.Fatalf("round %d acknowledged nothing", round)
		}
	}
	for _, d := range w.inbox() {
		delete(acknowledged, withoutHash(d.DeliveryKey))
	}
	for key := range acknowledged {
		t.Errorf("%s was acknowledged and is lost", key)
	}
	serve := w.serve()
	eventually(t, "every delivery to be reflected", func() bool {
		for _, d := range w.inbox() {
			if d.State != "reflected" && d.State != "superseded" {
				return false
			}
		}
		return true
	})
	serve.stop()
	if check := w.expect(exitDone, "check"); !strings.Contains(check.out, "whole, both hash chains hold") {
		t.Errorf("check says:\n%s", check.out)
	}
}

// deliverAndKill sends eight deliveries at once, kills serve at the first 2xx and
// returns the ids of all that were answered with one.
func (w *world) deliverAndKill(serve *process, round int, customer string) (acknowledged []string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range 8 {
		id := fmt.Sprintf("round-%d-%d", round, i)
		req := w.delivery(event(id, customer)).WithContext(ctx)
		group.Go(func() {
			resp, err := client.Do(req)
			if err != nil {
				return // the kill came first
			}
			_ = resp.Body.Close() // it has none
			if resp.StatusCode/100 != 2 {
				return
			}
			serve.signal(syscall.SIGKILL)
			mu.Lock()
			defer mu.Unlock()
			acknowledged = append(acknowledged, id)
		})
	}
	group.Wait()
	return acknowledged
}

// covers F72
func TestServeRunsWhatItsSchedulesMissed(t *testing.T) {
	t.Parallel()
	rows := people(3)
	w := newWorld(t, rows)
	w.edit("payersync.yaml", "mapping: mapping.yaml}", "mapping: mapping.yaml, schedule: \"@yearly\"}")
	serve := w.serve()
	eventually(t, "the run that was missed", func() bool { return strings.Contains(serve.errOut.String(), "run ended") })
	w.expectOnePerRow(rows)
	if last := w.lastRun(); last.Trigger != "catch_up" || last.Outcome != "complete" {
		t.Errorf("the run is %+v", last)
	}
	serve.stop()
	l, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := l.Jobs(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(jobs, func(j state.JobRow) bool { return strings.HasPrefix(j.Name, "sync ") })
	if i < 0 || jobs[i].Outcome != "done" || jobs[i].DoneAt.IsZero() || jobs[i].BegunAt.IsZero() {
		t.Errorf("the ledger shows the jobs %+v", jobs)
	}
	again := w.serve()
	again.stop()
	if last := w.lastRun(); last.RunID != 1 {
		t.Errorf("run %d was made although nothing was missed", last.RunID)
	}
}

func TestServeGoesOnAtOnceWithTheRunOfAKilledProcess(t *testing.T) {
	t.Parallel()
	rows := people(3)
	w := newWorld(t, rows)
	w.edit("payersync.yaml", "mapping: mapping.yaml}", "mapping: mapping.yaml, schedule: \"@yearly\"}")
	w.expect(exitDone, "backfill", "--yes")
	first := w.lastRun()
	l, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Do(t.Context(), func(tx *state.Tx) error {
		_, err := tx.OpenRun(state.NewRun{Connection: first.Connection, Kind: connector.RunSync, Trigger: "manual",
			Mapping: hashOf([]byte(worldMapping)), Holder: "a process that was killed"})
		return err
	}), l.Close()); err != nil {
		t.Fatal(err)
	}
	serve := w.serve()
	eventually(t, "the run that goes on", func() bool { return strings.Contains(serve.errOut.String(), "run ended") })
	serve.stop()
	if last := w.lastRun(); last.RunID != first.RunID+2 || last.Trigger != "catch_up" || last.Outcome != "complete" {
		t.Errorf("the run is %+v", last)
	}
}
