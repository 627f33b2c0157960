package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"payersync/cmd/payersync/internal/session"
	"payersync/connector"
	"payersync/connector/syncer"

	"github.com/google/go-cmp/cmp"
)

// logLine is a line of the log.
type logLine struct {
	Msg, Level, Record, Reason, Action, Method, URL string
	Run                                             int64
	Count                                           int
}

func logLines(t *testing.T, log string) (lines []logLine) {
	t.Helper()
	for text := range strings.Lines(log) {
		if !strings.HasPrefix(text, "{") {
			continue // what is said to whoever stops it
		}
		var line logLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		lines = append(lines, line)
	}
	return lines
}

// One line reports the end of a run, one each failed record, and all lines of requests within the run name
// it.
func TestWhatHappensWithinARunIsToldOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(4))
	w.edit("payersync.yaml", "mapping: mapping.yaml}\n", "mapping: mapping.yaml, schedule: \"@yearly\"}\n")
	refuse := func(rw http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/api/customers" ||
			!bytes.Contains(body, []byte("Payer 3")) && !bytes.Contains(body, []byte("Payer 4")) {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprintf(rw, `{"code":"INVALID","message":"Payer 3"}`)
		return true
	}
	w.front.Store(&refuse)
	serve := w.serve()
	eventually(t, "the end of the run", func() bool { return strings.Contains(serve.errOut.String(), "run ended") })
	ended, failed, requests := 0, map[string]logLine{}, map[string]int{}
	for _, line := range logLines(t, serve.stop().errOut) {
		switch {
		case line.Msg == "run ended":
			ended++
		case strings.HasPrefix(line.Msg, "record failed"):
			failed[line.Record] = line
		case line.Msg == "request" && line.Method == http.MethodPost &&
			strings.HasPrefix(line.URL, w.service.URL+"/api/customers"):
			requests[fmt.Sprintf("of run %d", line.Run)]++
		case line.Msg == "decided":
			requests[fmt.Sprintf("decided in run %d", line.Run)]++
		}
	}
	want := map[string]logLine{}
	for _, id := range []string{"A00003", "A00004"} {
		want[id] = logLine{Msg: failed[id].Msg, Level: "warning", Record: id, Reason: "rejected", Action: "create", Run: 1}
	}
	if ended != 1 || !cmp.Equal(want, failed) {
		t.Errorf("%d runs are told of; of the failures (-want +got):\n%s", ended, cmp.Diff(want, failed))
	}
	if requests["of run 1"] == 0 || requests["decided in run 1"] == 0 || len(requests) != 2 {
		t.Errorf("the requests and decisions are %v, want all of run 1", requests)
	}
}

// A hundred thousand failures of one cause are not a hundred thousand lines.
func TestAStormOfFailuresIsToldOfInBoundedLines(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{0, 1, mostFailures, mostFailures + 1, 100_000} {
		var out bytes.Buffer
		log, err := session.NewLog(&out, "info", "json", nil)
		if err != nil {
			t.Fatal(err)
		}
		l := failureLog{log: log}
		for i := range failures {
			l.failed(syncer.FailedChange{Run: 7, SourceID: fmt.Sprint("A", i), Action: connector.ActionCreate,
				Reason: connector.ReasonRejected})
		}
		l.close(7)
		lines := logLines(t, out.String())
		told := 0
		for _, line := range lines {
			if line.Run != 7 || line.Level != "warning" {
				t.Fatalf("a line is %+v", line)
			}
			told += max(1, line.Count)
		}
		if told != failures || len(lines) > mostFailures+1 {
			t.Errorf("%d failures are told as %d in %d lines", failures, told, len(lines))
		}
	}
}
