package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/internal/longtest"
	"payersync/state"
)

// planReport is the output of `plan --output json` for a connection.
type planReport struct {
	syncer.Result
	Changes  []changeReport       `json:"changes"`
	Held     []state.AttentionRow `json:"held"`
	NotAsked []json.RawMessage    `json:"not_asked"`
}

// In every layout, it is one value with these keys in this order, and its lists are never null.
func TestAPlanIsPrintedAsOneDocument(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string][]row{
		"nothing":             nil,
		"held alone":          {{ID: "B1", Email: "nameless@example.org"}},
		"changes alone":       people(3),
		"changes and on hold": append(people(2*admin.ChangesRead+3), row{ID: "B1", Email: "<&>"}, row{ID: "B2"}),
	} {
		w := newWorld(t, rows)
		r := w.run("plan", "--output", "json")
		report := decode[planReport](t, r)
		if report.Changes == nil || report.Held == nil || len(report.Changes) < len(rows)-len(report.Held) {
			t.Errorf("%s: of %d rows %d changes and %d held are printed", name, len(rows), len(report.Changes), len(report.Held))
		}
		var want bytes.Buffer
		if err := show.JSON(&want, report); err != nil {
			t.Fatal(err)
		}
		if r.out != want.String() {
			t.Errorf("%s: printed\n%.2000s\nwant\n%.2000s", name, r.out, &want)
		}
	}
}

// Not parallel: others would be counted with it.
//
// covers F19
func TestAPlanIsNotHeldInMemoryToBePrinted(t *testing.T) {
	longtest.Story(t, longtest.LargeFile)
	const most = 3 << 20
	rows := people(2000)
	for i := range rows {
		rows[i].Street = strings.Repeat("Mill Lane ", 250)
		if i%4 == 0 {
			rows[i].Name = ""
		}
	}
	w := newWorld(t, rows)
	w.run("plan")
	var printed heaviest
	a := &app{
		program: program{Console: &show.Console{Out: &printed, ErrOut: io.Discard, Output: "json"},
			getenv: func(name string) (string, bool) {
				if v, ok := w.env[name]; ok {
					return v, ok
				}
				return os.LookupEnv(name)
			}},
		now: time.Now, config: w.path("payersync.yaml"),
	}
	s, err := a.openLedger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := heapInUse()
	if err := a.showPlan(t.Context(), s, syncer.Result{Connection: "acme", Plan: new(state.Plan)}, 0); err != nil {
		t.Fatal(err)
	}
	grown := int64(printed.heap) - int64(before)
	t.Logf("a plan of %d KiB was printed with %d KiB", printed.bytes>>10, grown>>10)
	if printed.bytes < most || !strings.HasSuffix(printed.end, "]}\n") {
		t.Errorf("%d bytes were printed, which end in %q", printed.bytes, printed.end)
	}
	if grown > most {
		t.Errorf("it took %d KiB, want at most %d", grown>>10, most>>10)
	}
}

// The limit of a plan is one of held records, too, but not of what another program reads.
func TestAPlanIsPrintedUpToItsLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(people(4), row{ID: "B1", Email: "<&>"}, row{ID: "B2"}, row{ID: "B3"}, row{ID: "B4"}))
	for limit, want := range map[string]struct {
		held int
		more string
	}{"1": {1, "  … and 3 more on hold (--limit 0 prints every one)\n"}, "4": {4, ""}, "0": {4, ""}} {
		r := w.run("plan", "--limit", limit)
		if n := strings.Count(r.out, "  hold "); n != want.held ||
			strings.Contains(r.out, "more on hold") != (want.more != "") || !strings.Contains(r.out, want.more) {
			t.Errorf("up to %s it says:\n%s", limit, r.out)
		}
	}
	if report := decode[planReport](t, w.run("plan", "--limit", "1", "--output", "json")); len(report.Held) != 4 {
		t.Errorf("JSON has %d held records, want 4", len(report.Held))
	}
}

// heaviest notes how much is in use while something is written to it.
type heaviest struct {
	heap  uint64
	bytes int
	end   string
}

func (h *heaviest) Write(p []byte) (int, error) {
	if h.bytes += len(p); h.bytes>>20 != (h.bytes-len(p))>>20 {
		h.heap = max(h.heap, heapInUse())
	}
	h.end = string(p[max(0, len(p)-10):])
	return len(p), nil
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAPlanSaysHowLongItTakesToSend(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		creates int
		rate    float64
		want    string
	}{
		{4, 5, ""},
		{40, 5, "Sending takes about 16 seconds, at 5 requests a second (billing.rate_per_second)."},
		{3000, 5, "Sending takes about 20 minutes, at 5 requests a second (billing.rate_per_second)."},
		{100_000, 2.5, "Sending takes about 22 hours, at 2.5 requests a second (billing.rate_per_second)."},
		{100_000, 0, ""},
	} {
		if got := sendingTime(state.Plan{Creates: tt.creates}, tt.rate); got != tt.want {
			t.Errorf("%d creates at %v a second: %q, want %q", tt.creates, tt.rate, got, tt.want)
		}
	}
	w := newWorld(t, people(40))
	w.edit("payersync.yaml", "rate_per_second: 100000", "rate_per_second: 2")
	for _, args := range [][]string{{"plan"}, {"plan", "show", "1"}} {
		if r := w.run(args...); !strings.Contains(r.out, "Sending takes about") {
			t.Errorf("%q does not say how long sending takes:\n%s", args, r.out)
		}
	}
}
