package show

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector/syncer"
)

func TestNothingIsDrawnWhileSomethingIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var shown bytes.Buffer
		keys, typed := io.Pipe()
		s := &Screen{w: &shown, terminal: true}
		c := &Console{In: keys, ErrOut: s}
		p := NewProgress(c.ErrOut, time.Now)
		p.Show(syncer.Progress{Stage: "plan", Done: 39})
		time.Sleep(1050 * time.Millisecond) // between two turns of the spinner
		c.Say("Plan 1: 34 to create.")
		answer := make(chan bool)
		go func() {
			yes, err := c.Asks(t.Context(), "Send it?")
			if err != nil {
				t.Error(err)
			}
			answer <- yes
		}()
		synctest.Wait()
		asked := shown.String()
		time.Sleep(time.Minute)
		p.Show(syncer.Progress{Stage: "plan", Done: 40})
		if now := shown.String(); now != asked || !strings.HasSuffix(now, "\r\033[KPlan 1: 34 to create.\nSend it? [y/N] ") {
			t.Errorf("while it asks, the terminal shows %q", now)
		}
		_, _ = io.WriteString(typed, "y\n")
		if !<-answer {
			t.Error("y is a no")
		}
		p.Show(syncer.Progress{Stage: "send", Done: 1, Total: 34})
		p.End()
		time.Sleep(time.Second) // for the bar to see that it has ended
		shown.Reset()
		_, _ = io.WriteString(c.ErrOut, "Done.\n")
		time.Sleep(time.Minute)
		if got := shown.String(); !strings.HasSuffix(got, "Done.\n") {
			t.Errorf("behind what is said at the end comes %q", got)
		}
	})
}

// A first step comes a microsecond after a stage has begun.
func TestWhatHasJustBegunHasNoRate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		at      syncer.Progress
		elapsed time.Duration
		want    string
	}{
		{syncer.Progress{Stage: "plan", Done: 39}, 20 * time.Microsecond, "planning: 39"},
		{syncer.Progress{Stage: "send", Done: 1, Total: 34}, time.Millisecond, "sending customers: 1 of 34"},
		{syncer.Progress{Stage: "send", Done: 15, Total: 34}, 5 * time.Second, "sending customers: 15 of 34 (3.0/s, 6s left)"},
		{syncer.Progress{Stage: "pull", Done: 5000}, 10 * time.Second, "reading the accounting system: 5000 (500/s)"},
		{syncer.Progress{Stage: "list"}, 10 * time.Second, "reading the billing service: 0"},
	} {
		if got := progressText(tt.at, tt.elapsed); got != tt.want {
			t.Errorf("after %v it says %q, want %q", tt.elapsed, got, tt.want)
		}
	}
}
