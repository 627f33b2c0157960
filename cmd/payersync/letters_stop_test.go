package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"payersync/state"
)

// A click of a recipient is in the ledger when it is answered, and serve does not name them.
//
// covers F133
func TestServeTakesTheWordOfARecipient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync", "--yes")
	l, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	token := l.StopToken(w.mandateOf("A00001").ID)
	serve := w.serve()
	address := "http://" + w.hooks + "/letters/stop/" + token
	for _, step := range []struct {
		method string
		stops  int
	}{{http.MethodGet, 0}, {http.MethodPost, 1}, {http.MethodPost, 1}} {
		r, err := http.NewRequestWithContext(t.Context(), step.method, address,
			strings.NewReader("List-Unsubscribe=One-Click"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		stops, err := l.LetterStops(t.Context())
		if resp.StatusCode != http.StatusOK || err != nil || len(stops) != step.stops {
			t.Errorf("%s is answered with %d, and stopped are %+v, %v", step.method, resp.StatusCode, stops, err)
		}
	}
	serve.signal(syscall.SIGTERM)
	r := serve.wait()
	if !strings.Contains(r.errOut, "a recipient wants no more letters") || strings.Contains(r.errOut, token) ||
		strings.Contains(r.errOut, "A00001") {
		t.Errorf("the log says:\n%s", r.errOut)
	}
}

// Readers of the sender's mail see only the subject of a recipient's request to stop.
func TestTheSubjectByWhichARecipientAsksForNoMoreLettersIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync", "--yes")
	l, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	token := l.StopToken(w.mandateOf("A00001").ID)
	if r := w.expect(exitDone, "letters", "stop", "stop "+token); !strings.Contains(r.errOut, "gets no more of them") {
		t.Errorf("it says %s", r.errOut)
	}
	if r := w.expect(exitDone, "letters", "stop", token); !strings.Contains(r.errOut, "noted before") {
		t.Errorf("once more it says %s", r.errOut)
	}
	if stops, err := l.LetterStops(t.Context()); err != nil || len(stops) != 1 || stops[0].Why != state.StopOptedOut {
		t.Errorf("stopped are %+v, %v", stops, err)
	}
}

// An address is stopped by the act that stops a payer. The audit log and the output do not name it.
func TestLettersToAnAddressAreStoppedByTheActOfAPayer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync", "--yes")
	stops := func() (n int) {
		l, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
		w.must(err)
		defer l.Close()
		found, err := l.LetterStops(t.Context())
		w.must(err)
		for _, s := range found {
			if s.Scope != state.StopAddress || s.UntilOn != "2099-01-01" || s.Note != "asked by telephone" {
				t.Errorf("the stop is %+v", s)
			}
		}
		return len(found)
	}
	w.expect(exitDone, "letters", "stop", "jo@shop.example", "--until", "2099-01-01", "--note", "asked by telephone")
	if n := stops(); n != 1 {
		t.Errorf("%d stops", n)
	}
	w.expect(exitDone, "letters", "stop", "jo@shop.example", "--undo")
	if n := stops(); n != 0 {
		t.Errorf("%d stops after --undo", n)
	}
	log := w.expect(exitDone, "audit").out
	if !strings.Contains(log, "stop letters") || !strings.Contains(log, "an address") ||
		strings.Contains(log, "shop.example") {
		t.Errorf("the audit log says\n%s", log)
	}
}
