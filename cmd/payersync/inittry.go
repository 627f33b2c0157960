package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// trial is the effect of a first run.
type trial struct {
	Creates  int                     `json:"creates"`
	Links    int                     `json:"links"`
	Excluded int                     `json:"excluded"`
	Held     int                     `json:"held"`
	Alike    int                     `json:"alike"`
	Note     string                  `json:"note,omitempty"`     // a note about the plan
	Rows     int                     `json:"rows"`               // planned rows: the first ones of a large file
	All      *rowCounts              `json:"all_rows,omitempty"` // if not all were planned
	Reasons  []heldFor               `json:"reasons"`
	First    []connector.FieldChange `json:"first"` // the customer to be created
}

// heldFor is why records would wait.
type heldFor struct {
	Reason   connector.Reason `json:"reason"`
	Records  int              `json:"records"`
	Sentence string           `json:"sentence"`
	Example  string           `json:"example"`
}

// try plans the set-up against a sandbox of its own, with a ledger of its own, both gone afterwards: nothing
// leaves this machine, and nothing stays in the ledger of later runs.
func (s *dataSetup) try(ctx context.Context) (t trial, err error) {
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
	planned, err := s.part(dir)
	if err == nil {
		err = planned.write(dir, listener.Addr().String())
	}
	if err != nil {
		return t, errors.Join(err, listener.Close())
	}
	served := make(chan error, 1)
	model := newSandbox(listener, connector.NewSecret(quickStartSecret), sandbox.Options{})
	go func() { served <- server.Serve(ctx, listener, server.NewHTTPServer(model)) }()
	t, err = planned.plan(ctx, dir)
	t.Rows = s.count
	if planned != s && err == nil {
		t.Rows = mostTried
		t.All, err = s.countRows(ctx)
	}
	stop()
	return t, errors.Join(err, <-served)
}

// plan runs the plan command in a folder and reads its output meanwhile.
func (s *dataSetup) plan(ctx context.Context, dir string) (trial, error) {
	printed, out := io.Pipe()
	code := make(chan int, 1)
	go func() {
		// there it says how far it is, or why there is none
		console := &show.Console{In: strings.NewReader(""), Out: out, ErrOut: s.ErrOut}
		code <- run(ctx, program{Console: console, getenv: s.getenv},
			[]string{"plan", "--output", "json", "--config", filepath.Join(dir, configFile)})
		_ = out.Close() // never fails
	}()
	t, planned, err := readTrial(printed)
	_, drained := io.Copy(io.Discard, printed)
	ended := <-code
	switch {
	case ctx.Err() != nil:
		return t, ctx.Err()
	case errors.Join(err, drained) != nil || !planned:
		return t, fmt.Errorf("the plan ended with exit status %d", ended)
	}
	slices.SortStableFunc(t.First, func(a, b connector.FieldChange) int { return part(a) - part(b) })
	return t, nil
}

// readTrial reads the output of the plan command, and reports whether there is a plan. It keeps the first
// changes, and the reasons of those on hold.
func readTrial(from io.Reader) (t trial, planned bool, err error) {
	t = trial{Reasons: []heldFor{}, First: []connector.FieldChange{}}
	in := json.NewDecoder(from)
	if _, err := in.Token(); err != nil { // the brace
		return t, false, err
	}
	rest := map[string]json.RawMessage{}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return t, false, err
		}
		switch key {
		case "changes":
			n := 0
			err = eachElement(in, func(c changeReport) {
				if n++; n == 1 && c.Diff != nil {
					t.First = c.Diff
				}
			})
		case "held":
			err = eachElement(in, t.hold)
		default:
			var member json.RawMessage
			err = in.Decode(&member)
			rest[fmt.Sprint(key)] = member
		}
		if err != nil {
			return t, false, err
		}
	}
	text, err := json.Marshal(rest)
	if err != nil {
		return t, false, err
	}
	var res syncer.Result
	if err := json.Unmarshal(text, &res); err != nil || res.Plan == nil {
		return t, false, err
	}
	t.Creates, t.Links, t.Alike, t.Excluded, t.Note = res.Plan.Creates, res.Plan.Links, res.Plan.Alike,
		res.Counts.Excluded, res.Note
	return t, true, nil
}

// eachElement reads a list, element by element.
func eachElement[T any](in *json.Decoder, do func(T)) error {
	_, err := in.Token() // the bracket
	for err == nil && in.More() {
		var element T
		if err = in.Decode(&element); err == nil {
			do(element)
		}
	}
	if err == nil {
		_, err = in.Token()
	}
	return err
}

// hold counts a record on hold.
func (t *trial) hold(h state.AttentionRow) {
	t.Held++
	for i := range t.Reasons {
		if t.Reasons[i].Reason == connector.Reason(h.Reason) {
			t.Reasons[i].Records++
			return
		}
	}
	t.Reasons = append(t.Reasons,
		heldFor{connector.Reason(h.Reason), 1, connector.Reasons[connector.Reason(h.Reason)].Sentence, h.Detail})
}

// part is the position of a customer's field in the order of reading.
func part(c connector.FieldChange) int {
	return slices.IndexFunc([]string{"name", "people", "addresses", "externalData"},
		func(p string) bool { return strings.HasPrefix(c.Path, p) })
}
