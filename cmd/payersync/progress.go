package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"payersync/connector/syncer"
)

// progressEvery is how often a line is printed where there is no terminal.
const progressEvery = 5 * time.Second

var stageNames = map[string]string{
	"pull": "reading the accounting system", "list": "reading the billing service", "plan": "planning",
	"send": "sending customers", "verify": "reading back new customers", "links": "asking for signing links",
}

// reporter shows how far a run is: a bar with rate and remaining time on a
// terminal, a line every few seconds elsewhere.
func reporter(w io.Writer, now func() time.Time) func(syncer.Progress) {
	if isTerminal(w) {
		return bars(w)
	}
	return (&lines{w: w, now: now}).show
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func bars(w io.Writer) func(syncer.Progress) {
	var bar *progressbar.ProgressBar
	stage := ""
	return func(p syncer.Progress) {
		if p.Stage != stage {
			if bar != nil {
				_ = bar.Finish()
			}
			stage, bar = p.Stage, newBar(w, p)
		}
		_ = bar.Set(p.Done)
	}
}

func newBar(w io.Writer, p syncer.Progress) *progressbar.ProgressBar {
	total := p.Total
	if total == 0 {
		total = -1 // unknown: a spinner
	}
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(stageNames[p.Stage]),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
}

// lines prints progress where a bar would only leave control characters.
type lines struct {
	w           io.Writer
	now         func() time.Time
	stage       string
	began, last time.Time
}

func (l *lines) show(p syncer.Progress) {
	now := l.now()
	if p.Stage != l.stage {
		l.stage, l.began, l.last = p.Stage, now, now
		return
	}
	if now.Sub(l.last) < progressEvery {
		return
	}
	l.last = now
	fmt.Fprintln(l.w, l.line(p, now.Sub(l.began)))
}

func (l *lines) line(p syncer.Progress, elapsed time.Duration) string {
	rate := float64(p.Done) / elapsed.Seconds()
	if p.Total == 0 || rate == 0 {
		return fmt.Sprintf("%s: %d (%.0f a second)", stageNames[p.Stage], p.Done, rate)
	}
	left := time.Duration(float64(p.Total-p.Done) / rate * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%s: %d of %d (%.0f a second, %s left)", stageNames[p.Stage], p.Done, p.Total, rate, left)
}
