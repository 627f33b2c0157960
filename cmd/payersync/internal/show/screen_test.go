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
		c.Print("Plan 1: 34 to create.")
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
		{syncer.Progress{Stage: "send", Done: 15, Total: 34}, 5 * time.Second,
			"sending customers: 15 of 34 (3.0/s, 6s left)"},
		{syncer.Progress{Stage: "pull", Done: 5000}, 10 * time.Second, "reading the accounting system: 5000 (500/s)"},
		{syncer.Progress{Stage: "customers", Done: 15, Total: 34}, 5 * time.Second,
			"reading customers one by one: 15 of 34 (3.0/s, 6s left)"},
		{syncer.Progress{Stage: "match"}, time.Second, "comparing customers: 0"},
		{syncer.Progress{Stage: "list"}, 10 * time.Second, "reading the billing service: 0"},
	} {
		if got := progressText(tt.at, tt.elapsed); got != tt.want {
			t.Errorf("after %v it says %q, want %q", tt.elapsed, got, tt.want)
		}
	}
}

func TestAChoiceIsAskedUntilItIsOne(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]struct {
		answer int
		why    string // there is none
	}{
		"2\n": {1, ""}, " 3 \r\n": {2, ""}, "\n": {0, ""}, "4\n0\nthe first\n1\n": {0, ""},
		"": {0, "There was no answer"}, "2": {0, "There was no answer"},
	} {
		var shown bytes.Buffer
		c := &Console{In: lines{strings.NewReader(typed)}, ErrOut: &Screen{w: &shown, terminal: true}}
		answer, err := c.Chooses(t.Context(), "Which column?", "Name", "E-\x1b[2JMail", "Phone")
		if answer != want.answer || (err == nil) != (want.why == "") || err != nil &&
			!strings.Contains(err.Error(), want.why) {
			t.Errorf("%q is answer %d, %v", typed, answer, err)
		}
		if text := shown.String(); !strings.HasPrefix(text,
			"\nWhich column?\n  1  Name\n  2  E-\uFFFD[2JMail\n  3  Phone\nWhich one, 1 to 3? [1] ") {
			t.Errorf("the terminal shows %q", text)
		}
	}
}

func TestABlankAnswerIsTheUsualOne(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"\n": "acme", " Muster GmbH \n": "Muster GmbH"} {
		c := &Console{In: strings.NewReader(typed), ErrOut: &Screen{w: io.Discard, terminal: true}}
		if got, err := c.Fills(t.Context(), "Whose books?", "acme"); got != want || err != nil {
			t.Errorf("%q is %q, %v", typed, got, err)
		}
	}
}

// lines gives one line at a time, as a terminal does.
type lines struct{ *strings.Reader }

func (l lines) Read(p []byte) (n int, err error) {
	for n < len(p) {
		b, err := l.ReadByte()
		if err != nil {
			return n, err
		}
		p[n] = b
		if n++; b == '\n' {
			break
		}
	}
	return n, nil
}

func TestWhatIsSaidIsBrokenBetweenItsWordsOnATerminalAlone(t *testing.T) {
	t.Parallel()
	step := "  - " + strings.Repeat("word ", 17) + "end"
	for terminal, want := range map[bool]string{
		true:  "  - " + strings.TrimSpace(strings.Repeat("word ", 15)) + "\n    word word end\n",
		false: step + "\n",
	} {
		var shown bytes.Buffer
		c := &Console{ErrOut: &Screen{w: &shown, terminal: terminal}}
		c.Print("%s", step)
		if got := shown.String(); got != want {
			t.Errorf("terminal %v: %q, want %q", terminal, got, want)
		}
	}
}
