package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/server"
	"payersync/connector/syncer"
	"payersync/state"
)

// trial is what a first run would do.
type trial struct {
	Creates  int                     `json:"creates"`
	Links    int                     `json:"links"`
	Excluded int                     `json:"excluded"`
	Held     int                     `json:"held"`
	Alike    int                     `json:"alike"`
	Note     string                  `json:"note,omitempty"` // what a person should know of the plan
	Reasons  []heldFor               `json:"reasons"`
	First    []connector.FieldChange `json:"first"` // customer that would be created
}

// heldFor is why records would wait.
type heldFor struct {
	Reason   connector.Reason `json:"reason"`
	Records  int              `json:"records"`
	Sentence string           `json:"sentence"`
	Example  string           `json:"example"`
}

// try plans the set-up against a sandbox of its own, with a ledger of its own, both gone
// afterwards: nothing leaves this machine, and nothing stays in the ledger that runs will use.
func (s *csvSetup) try(ctx context.Context) (t trial, err error) {
	dir, err := os.MkdirTemp("", "payersync-init-")
	if err != nil {
		return t, fmt.Errorf("make a folder for the plan: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return t, fmt.Errorf("open a port for the sandbox: %w", err)
	}
	if err := s.write(dir, listener.Addr().String()); err != nil {
		return t, errors.Join(err, listener.Close())
	}
	served := make(chan error, 1)
	model := newSandbox(listener, connector.NewSecret(quickStartSecret), sandbox.Options{})
	go func() { served <- server.Serve(ctx, listener, server.NewHTTPServer(model)) }()
	t, err = s.plan(ctx, dir)
	stop()
	return t, errors.Join(err, <-served)
}

// plan runs the plan command in a folder and reads what it prints.
func (s *csvSetup) plan(ctx context.Context, dir string) (t trial, err error) {
	var out bytes.Buffer
	code := run(ctx, program{Console: &show.Console{In: strings.NewReader(""), Out: &out, ErrOut: s.ErrOut}, getenv: s.getenv}, // which says how far it is, or why there is none
		[]string{"plan", "--output", "json", "--config", filepath.Join(dir, configFile)})
	if ctx.Err() != nil {
		return t, ctx.Err()
	}
	var planned struct {
		syncer.Result
		Changes []changeReport       `json:"changes"`
		Held    []state.AttentionRow `json:"held"`
	}
	if err := json.NewDecoder(&out).Decode(&planned); err != nil || planned.Plan == nil {
		return t, fmt.Errorf("the plan ended with exit status %d", code)
	}
	t = trial{
		Creates: planned.Plan.Creates, Links: planned.Plan.Links, Alike: planned.Plan.Alike,
		Excluded: planned.Counts.Excluded, Held: len(planned.Held), Note: planned.Note, Reasons: []heldFor{}, First: []connector.FieldChange{},
	}
	for _, h := range planned.Held {
		t.hold(h)
	}
	if len(planned.Changes) > 0 {
		t.First = planned.Changes[0].Diff
	}
	slices.SortStableFunc(t.First, func(a, b connector.FieldChange) int { return part(a) - part(b) })
	return t, nil
}

// hold counts a record that would wait.
func (t *trial) hold(h state.AttentionRow) {
	for i := range t.Reasons {
		if t.Reasons[i].Reason == connector.Reason(h.Reason) {
			t.Reasons[i].Records++
			return
		}
	}
	t.Reasons = append(t.Reasons, heldFor{connector.Reason(h.Reason), 1, connector.Reasons[connector.Reason(h.Reason)].Sentence, h.Detail})
}

// part is where a field of a customer comes when a person reads it.
func part(c connector.FieldChange) int {
	return slices.IndexFunc([]string{"name", "people", "addresses", "externalData"}, func(p string) bool { return strings.HasPrefix(c.Path, p) })
}
