package show

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/schollz/progressbar/v3"

	"payersync/connector/syncer"
)

// progressEvery is the time between printed lines without a terminal.
const progressEvery = 5 * time.Second

var stageNames = map[string]string{
	"pull": "reading the accounting system", "list": "reading the billing service", "plan": "planning",
	"customers": "reading customers one by one", "match": "comparing customers", "preview": "previewing",
	"copy": "copying the ledger, in MiB", "file": "looking through the file", "references": "looking for missing rows",
	"history":  "following the mandate history",
	"mandates": "comparing mandates with their history", "audit": "following the audit log",
	"sealed": "opening sealed data",
	"send":   "sending customers", "verify": "reading back new customers", "links": "asking for signing links",
	"writes":  "writing into the accounting system",
	"migrate": "bringing the ledger to the new schema, in percent", "begin": "starting with customers",
	"read anew": "reading deliveries anew",
}

// Progress shows how far work is: a bar on a terminal, a line every few seconds
// elsewhere.
type Progress struct {
	screen      *Screen // nil without a terminal
	w           io.Writer
	now         func() time.Time
	bar         *progressbar.ProgressBar
	stage       string
	done, total int // shown last
	began, last time.Time
}

// NewProgress returns a Progress on w: a bar if w is a terminal.
func NewProgress(w io.Writer, now func() time.Time) *Progress {
	p := &Progress{w: w, now: now}
	if s, ok := below(w).(*Screen); ok && s.terminal {
		p.screen = s
	}
	return p
}

// Show shows how far the work is.
func (p *Progress) Show(at syncer.Progress) {
	now := p.now()
	next := at.Total != p.total && at.Done <= p.done // the same work on others
	p.done, p.total = at.Done, at.Total
	if at.Stage != p.stage || next {
		p.End()
		p.stage, p.began, p.last = at.Stage, now, now
		if p.screen != nil {
			p.bar = newBar(canvas{p.screen}, at)
		}
	}
	switch {
	case p.bar != nil:
		p.bar.Describe(barText(progressText(at, now.Sub(p.began)), columnsOf(p.screen)))
		_ = p.bar.Set(at.Done)
	case now.Sub(p.last) >= progressEvery:
		p.last = now
		fmt.Fprintln(p.w, progressText(at, now.Sub(p.began)))
	}
}

// End removes the bar, and ends all drawing.
func (p *Progress) End() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
	p.bar, p.stage = nil, ""
}

// newBar returns a bar, or a spinner if the total is unknown.
func newBar(w io.Writer, at syncer.Progress) *progressbar.ProgressBar {
	total := at.Total
	total = cmp.Or(total, -1)
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetWidth(barWidth), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionUseANSICodes(true))
}

// barWidth leaves room for the text beside a bar in 80 columns.
const barWidth = 10

// barText cuts the text beside a bar to the width of the terminal: a wrapped line could be overwritten only
// in its last part.
func barText(text string, columns int) string {
	return runewidth.Truncate(text, max(columns-barWidth-len(" 100% ||   "), barWidth), "…")
}

// progressText describes the task, its progress, its rate and its end. A task just begun has no rate yet.
func progressText(at syncer.Progress, elapsed time.Duration) string {
	text := fmt.Sprintf("%s: %d", stageNames[at.Stage], at.Done)
	if at.Total > 0 {
		text += fmt.Sprintf(" of %d", at.Total)
	}
	if elapsed < time.Second || at.Done == 0 {
		return text
	}
	rate := float64(at.Done) / elapsed.Seconds()
	if at.Total == 0 {
		return fmt.Sprintf("%s (%s/s)", text, rounded(rate))
	}
	left := time.Duration(float64(at.Total-at.Done) / rate * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%s (%s/s, %s left)", text, rounded(rate), left)
}

// rounded writes a rate in as many digits as mean something.
func rounded(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}
