package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is the longest wait for a process or a condition. Working code never comes near it.
const patience = 60 * time.Second

// client sends the requests of tests: none waits for an answer for ever.
var client = &http.Client{Timeout: patience}

// await returns the next value of a channel, or the zero value when it is closed. A missing value fails the
// test and not the whole package, and prints all goroutines.
func await[T any](t testing.TB, what string, from <-chan T) (came T) {
	t.Helper()
	select {
	case came = <-from:
	case <-time.After(patience):
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // a builder takes everything
		t.Fatalf("waited in vain for %s\n%s", what, &stacks)
	}
	return came
}

// gate returns a channel for handlers to wait at, and a function to open it. The test's end opens it, too: a
// server with a waiting request cannot be closed.
func gate(t testing.TB) (shut <-chan struct{}, open func()) {
	t.Helper()
	c := make(chan struct{})
	open = sync.OnceFunc(func() { close(c) })
	t.Cleanup(open)
	return c, open
}

// process is a running payersync.
type process struct {
	t           testing.TB
	args        string
	cmd         *exec.Cmd
	out, errOut output
	ended       chan struct{}
	shown       chan struct{} // closed when the terminal has shown everything; nil without one
}

// output collects what a process writes while the test looks at it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// take returns what was written since the last time.
func (o *output) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.text.Reset()
	return o.text.String()
}

// result is how a process ended.
type result struct {
	code        int // -1 when a signal ended it
	out, errOut string
}

// start runs payersync with the installation's configuration. The test's end
// ends it too.
func (w *world) start(args ...string) *process {
	w.t.Helper()
	return w.startWith(nil, args...)
}

// startWith is start with something on standard input.
func (w *world) startWith(in io.Reader, args ...string) *process {
	w.t.Helper()
	p := w.process(args...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, &p.out, &p.errOut
	if err := p.begin(); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// process returns a payersync with the installation's configuration, still without streams.
func (w *world) process(args ...string) *process {
	p := &process{t: w.t, args: strings.Join(args, " "), ended: make(chan struct{})}
	p.cmd = exec.CommandContext(w.t.Context(), "payersync", args...)
	// of what holds its streams when it has ended
	p.cmd.Env, p.cmd.WaitDelay = append(os.Environ(), "PAYERSYNC_CONFIG="+w.path("payersync.yaml")), patience
	for name, value := range w.env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	return p
}

// configure names another configuration.
func (p *process) configure(path string) { p.cmd.Env = append(p.cmd.Env, "PAYERSYNC_CONFIG="+path) }

// begin starts the process. The test's end ends it too.
func (p *process) begin() error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // wait looks at the state
	}()
	p.t.Cleanup(func() { <-p.ended })
	return nil
}

// wait returns how the process ended.
func (p *process) wait() result {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill() // it may have ended this moment
		<-p.ended
		p.t.Fatalf("payersync %s did not end\nstdout: %s\nstderr: %s", p.args, &p.out, &p.errOut)
	}
	if p.shown != nil {
		<-p.shown
	}
	return result{p.cmd.ProcessState.ExitCode(), p.out.String(), p.errOut.String()}
}

// over reports whether the process has ended.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// signal sends a signal to a running process.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("signal payersync %s: %v", p.args, err)
	}
}

// run runs payersync to its end, within this process: a process of its own takes longer to start
// than most commands take.
func (w *world) run(args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	r := w.commandIn(ctx, args...)
	if ctx.Err() != nil {
		w.t.Fatalf("payersync %s did not end\nstdout: %s\nstderr: %s", strings.Join(args, " "), r.out, r.errOut)
	}
	return r
}

// expect runs payersync to its end and fails unless it ends with this code.
func (w *world) expect(code int, args ...string) result {
	w.t.Helper()
	return w.ends(code, w.run(args...), args)
}

// alone is expect with a process of its own, for what Go reads of the environment itself, and once.
func (w *world) alone(code int, args ...string) result {
	w.t.Helper()
	return w.ends(code, w.start(args...).wait(), args)
}

func (w *world) ends(code int, r result, args []string) result {
	w.t.Helper()
	if r.code != code {
		w.t.Fatalf("payersync %s ended with %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), r.code, code,
			r.out, r.errOut)
	}
	return r
}

// decode reads the single JSON value in a command's output.
func decode[T any](t testing.TB, r result) T {
	t.Helper()
	values := decodeLines[T](t, r)
	if len(values) != 1 {
		t.Fatalf("%d JSON values, want 1:\n%s", len(values), r.out)
	}
	return values[0]
}

// decodeLines reads the JSON values in a command's output.
func decodeLines[T any](t testing.TB, r result) []T {
	t.Helper()
	var values []T
	for dec := json.NewDecoder(strings.NewReader(r.out)); ; {
		var v T
		switch err := dec.Decode(&v); {
		case errors.Is(err, io.EOF):
			return values
		case err != nil:
			t.Fatalf("%v in:\n%s", err, r.out)
		}
		values = append(values, v)
	}
}
