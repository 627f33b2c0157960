package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector/sandbox"
	"payersync/state"
)

// stage is an installation with commands called in this process, on a test clock.
type stage struct {
	*world
	mu    sync.Mutex
	clock time.Time

	another string // a customer that is nobody's
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{clock: time.Now().UTC()}
	s.world = newWorld(t, nil, func(o *sandbox.Options) { o.Now, o.Switches.Reinstate = s.now, "colon" })
	return s
}

func (s *stage) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

func (s *stage) wait(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(d)
}

// app returns the program of a person without a terminal, with its output.
func (s *stage) app(out, errOut io.Writer) *app {
	return &app{program: program{Console: &show.Console{In: strings.NewReader(""), Out: out, ErrOut: errOut},
		getenv: func(name string) (string, bool) {
			v, ok := s.env[name]
			return v, ok
		}}, now: s.now, config: s.path("payersync.yaml")}
}

// call runs a command to its end.
func (s *stage) call(args ...string) result { return s.called(false, args...) }

// called is call, from todo or not.
func (s *stage) called(walks bool, args ...string) result {
	var out, errOut bytes.Buffer
	a := s.app(&out, &errOut)
	a.walks = walks
	root := a.root()
	root.SetArgs(append(args, "--config", s.path("payersync.yaml")))
	root.SetOut(&out)
	root.SetErr(&errOut)
	err := root.ExecuteContext(s.t.Context())
	a.report(err)
	return result{exitCode(err), out.String(), errOut.String()}
}

// do is call for a command that has to end with one of these codes.
func (s *stage) do(args []string, codes ...int) result {
	s.t.Helper()
	r := s.call(args...)
	if !slices.Contains(codes, r.code) {
		s.t.Fatalf("payersync %s ended with %d, want one of %v\nstdout: %s\nstderr: %s", strings.Join(args, " "), r.code,
			codes, r.out, r.errOut)
	}
	return r
}

// sync makes a run, which may leave something to a person.
func (s *stage) sync() result { return s.do([]string{"sync", "--yes"}, exitDone, exitAttention) }

// told returns the reasons that the list gives for a record or a delivery.
func (s *stage) told(id string) (codes []string) {
	s.t.Helper()
	for _, a := range decodeLines[state.AttentionRow](s.t,
		s.do([]string{"attention", "list", "--output", "json"}, exitDone)) {
		if a.SourceID == id {
			codes = append(codes, a.Reason)
		}
	}
	return codes
}

// customer returns the sandbox's customer of a record, by its name there.
func (s *stage) customer(name string) sandbox.Customer {
	s.t.Helper()
	for _, c := range s.box.Customers() {
		if c.Name == name {
			return c
		}
	}
	s.t.Fatalf("the service has no customer called %q", name)
	return sandbox.Customer{}
}

func (s *stage) edited(name string, change func(map[string]any)) {
	s.t.Helper()
	c := s.customer(name)
	var fields map[string]any
	s.must(json.Unmarshal(c.Raw, &fields))
	change(fields)
	raw, err := json.Marshal(fields)
	s.must(err)
	s.must(s.box.Edit(c.ID, raw))
}

func (s *stage) added(format string, args ...any) string {
	s.t.Helper()
	id, err := s.box.Add(json.RawMessage(fmt.Sprintf(format, args...)))
	s.must(err)
	return id
}

// keyed makes the mapping read the key of a record from its second street.
func (s *stage) keyed() {
	s.edit("mapping.yaml", "accountNumber: AccountNumber", "accountNumber: Depot")
	s.edit("mapping.yaml", `, {line1: Depot, city: "Hull"}`, "")
}
