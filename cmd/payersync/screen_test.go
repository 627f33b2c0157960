package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/mattn/go-runewidth"
)

// terminal is a payersync that runs at a terminal.
type terminal struct {
	*process
	keys *os.File
}

// at returns a terminal of 80 columns at which payersync runs with the installation's
// configuration. change may take streams or the terminal away from it.
func (w *world) at(change func(*exec.Cmd), args ...string) *terminal {
	w.t.Helper()
	return w.atWidth(80, change, args...)
}

func (w *world) atWidth(columns uint16, change func(*exec.Cmd), args ...string) *terminal {
	w.t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		w.t.Fatal(err)
	}
	p := w.process(args...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = tty, tty, tty
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if change != nil {
		change(p.cmd)
	}
	if err := errors.Join(pty.Setsize(keys, &pty.Winsize{Rows: 24, Cols: columns}), p.begin(), tty.Close()); err != nil {
		w.t.Fatal(err)
	}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(&p.out, keys) // it ends with an error when nobody is at the terminal any more
	}()
	w.t.Cleanup(func() {
		<-p.ended
		<-shown
		_ = keys.Close()
	})
	t := &terminal{p, keys}
	p.shown = shown
	return t
}

// asked waits until the terminal shows a question.
func (t *terminal) asked() {
	t.t.Helper()
	t.asks("[y/N] ", 1)
}

// asks waits until the terminal has shown n questions that end so, and waits for the answer to the last.
func (t *terminal) asks(ending string, n int) {
	t.t.Helper()
	eventually(t.t, "the question", func() bool {
		shown := t.out.String()
		return strings.HasSuffix(shown, ending) && strings.Count(shown, ending) >= n || t.over()
	})
}

func (t *terminal) types(keys string) {
	t.t.Helper()
	if _, err := t.keys.WriteString(keys); err != nil {
		t.t.Fatal(err)
	}
}

// seen returns the lines as a person sees them in the end.
func (t *terminal) seen() []string {
	var lines []string
	var line []rune
	column := 0
	text := strings.NewReader(t.out.String())
	for {
		c, _, err := text.ReadRune()
		switch {
		case err != nil:
			return append(lines, string(line))
		case c == '\r':
			column = 0
		case c == '\n':
			lines, line, column = append(lines, strings.TrimRight(string(line), " ")), nil, 0
		case c == '\033':
			line = line[:erased(text, column, len(line))]
		default:
			if column < len(line) {
				line[column] = c
			} else {
				line = append(line, c)
			}
			column++
		}
	}
}

// erased reads an order to erase the line, or what is right of the cursor, and returns how
// much of the line is left.
func erased(text io.ByteReader, column, length int) int {
	var order []byte
	for {
		b, err := text.ReadByte()
		if err != nil {
			return length
		}
		order = append(order, b)
		switch string(order) {
		case "[K", "[0K":
			return min(column, length)
		case "[2K":
			return 0
		}
		if len(order) > 1 && (b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z') {
			return length
		}
	}
}

// A person answers at a terminal. The run's messages begin lines of their own, and no bar is wider than the
// terminal.
func TestABackfillAsksAtATerminal(t *testing.T) {
	t.Parallel()
	rows := people(30)
	w := newWorld(t, rows)
	p := w.at(nil, "backfill")
	p.asked()
	p.types("y\r")
	if r := p.wait(); r.code != exitDone {
		t.Fatalf("it ended with %d:\n%s", r.code, r.out)
	}
	w.expectOnePerRow(rows)
	p.sees("Send it? [y/N] y", "Run 1 of acme: complete")
	for drawn := range strings.FieldsFuncSeq(p.out.String(), func(r rune) bool { return r == '\r' || r == '\n' }) {
		if line := escape.ReplaceAllString(drawn, ""); strings.Contains(line, "|") && runewidth.StringWidth(line) > 80 {
			t.Errorf("a bar takes more than a line: %q", line)
		}
		if regexp.MustCompile(`\d{5,}/s`).MatchString(drawn) {
			t.Errorf("a rate that nobody believes: %q", drawn)
		}
	}
}

var escape = regexp.MustCompile("\033\\[[0-9;]*[A-Za-z]")

// sees fails unless a person sees lines that begin so, in this order.
func (t *terminal) sees(want ...string) {
	t.t.Helper()
	for _, line := range t.seen() {
		if len(want) > 0 && strings.HasPrefix(line, want[0]) {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.t.Errorf("no line begins with %q, in its order:\n%s", want[0], strings.Join(t.seen(), "\n"))
	}
}

// Where standard error is a file, the question comes to the terminal of the process, with
// what it is about.
func TestAQuestionComesToTheTerminalWhenStandardErrorIsAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(30))
	var told output
	p := w.at(func(cmd *exec.Cmd) { cmd.Stderr = &told }, "backfill")
	p.asked()
	p.sees("Plan 1: 30 to create", "It is above the limits")
	p.types("n\r")
	if r := p.wait(); r.code != exitApproval || w.box.Writes() != 0 {
		t.Errorf("after a no it ended with %d and %d writes:\n%s", r.code, w.box.Writes(), r.out)
	}
	if text := told.String(); !strings.Contains(text, "Plan 1: 30 to create") || strings.Contains(text, "[y/N]") {
		t.Errorf("standard error holds:\n%s", text)
	}
}

func TestWhereNobodyCanBeAskedACommandSaysSoAndDoesNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(30))
	alone := func(told *output) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) {
			cmd.Stderr, cmd.SysProcAttr = told, &syscall.SysProcAttr{Setsid: true} // without a terminal of its own
		}
	}
	var told output
	if r := w.at(alone(&told), "backfill").wait(); r.code != exitApproval || w.box.Writes() != 0 {
		t.Errorf("it ended with %d and %d writes:\n%s", r.code, w.box.Writes(), r.out)
	}
	if text := told.String(); !strings.Contains(text,
		"You were not asked: standard error is no terminal to ask on, and there is no /dev/tty. payersync plan approve 1 lets the plan go; with --yes") {
		t.Errorf("it says:\n%s", text)
	}
	told.take()
	if r := w.at(alone(&told), "plan", "reject", "1").wait(); r.code != exitUsage ||
		!strings.Contains(told.String(), "there is no /dev/tty; add --yes") {
		t.Errorf("it ended with %d:\n%s", r.code, &told)
	}
}

// Ctrl-C at a question is an answer.
func TestCtrlCAtAQuestionEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(30))
	p := w.at(nil, "backfill")
	p.asked()
	p.types("\003")
	if r := p.wait(); r.code != exitInterrupted || w.box.Writes() != 0 {
		t.Errorf("it ended with %d:\n%s", r.code, r.out)
	}
	p.sees("Send it? [y/N]", "Stopping: ", "Run 1 of acme: interrupted")
}

// A table is as wide as the terminal at most: no line of it begins another, and no column
// of zeros takes the place of one that says something.
func TestTablesFitIntoTheTerminal(t *testing.T) {
	t.Parallel()
	rows := people(4)
	rows[1].Email, rows[2].Depot = "nobody at example", "2 Depot Road"
	rows[0].ID = "A-number-that-is-so-long-that-nobody-would-type-it-and-no-terminal-shows-it-whole"
	w := newWorld(t, rows)
	w.expect(exitAttention, "sync")
	for _, args := range [][]string{{"status"}, {"attention", "list"}, {"payers", "list"}, {"plan", "list", "--all"},
		{"mandates", "list"}, {"mapping", "history"}, {"mapping", "check", "--coverage"}} {
		for _, columns := range []int{60, 80, 200} {
			p := w.atWidth(uint16(columns), nil, args...)
			if r := p.wait(); r.code != exitDone {
				t.Fatalf("%v ended with %d:\n%s", args, r.code, r.out)
			}
			for _, line := range p.seen() {
				// a sentence below a table may be longer
				if n := runewidth.StringWidth(line); n > columns && !strings.Contains(line, ": ") {
					t.Errorf("%v at %d columns takes %d: %q", args, columns, n, line)
				}
			}
		}
	}
	if line := header(w.atWidth(80, nil, "status")); !strings.HasPrefix(line, "Connection  Kind  Started") ||
		strings.Contains(line, "Linked") || !strings.HasSuffix(line, "On hold") {
		t.Errorf("at 80 columns the runs begin with %q", line)
	}
	if whole := w.expect(exitDone, "payers", "list").out; !strings.Contains(whole, rows[0].ID) {
		t.Errorf("what goes elsewhere than to a terminal is cut:\n%s", whole)
	}
}

// header returns the first line of the table of runs.
func header(p *terminal) string {
	p.wait()
	for _, line := range p.seen() {
		if strings.Contains(line, "Started") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// Messages of a run and a check wrap below their own beginning, between words.
func TestSentencesAreBrokenBetweenTheirWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(5))
	p := w.at(nil, "sync")
	p.wait()
	p.sees("Run 1 of acme: complete", "  5 read: 0 unchanged, 5 created, 0 linked, 0 updated, 0 excluded, 0 on hold, 0",
		"  failed; 5 signing links asked for")
	p = w.at(nil, "check")
	p.wait()
	p.sees("ok    source acme            5 records: 5 would be customers, 0 on hold, the")
}

func TestAQuietRunSpeaksOnlyWhereSomebodyShouldLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(5))
	for _, args := range [][]string{{"sync", "--quiet"}, {"backfill", "--quiet"}, {"sweep", "--quiet"}} {
		if r := w.expect(exitDone, args...); r.out+r.errOut != "" {
			t.Errorf("%v says:\n%s%s", args, r.out, r.errOut)
		}
	}
	w.export(people(40)...)
	p := w.at(nil, "sync", "--quiet")
	if r := p.wait(); r.code != exitApproval {
		t.Errorf("it ended with %d:\n%s", r.code, r.out)
	}
	p.sees("You were not asked: --quiet asks nobody.", "Run 3 of acme: plan")
}

func TestTheVersionIsAFlagToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if flag, command := w.expect(exitDone, "--version"), w.expect(exitDone, "version"); flag.out != command.out ||
		!strings.HasPrefix(flag.out, "payersync ") {
		t.Errorf("--version says %q, and version %q", flag.out, command.out)
	}
}

// Colours are for people alone, and for those who want them.
func TestColoursAreForTerminalsThatTakeThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	const green = "\x1b[32mcreate"
	for _, tt := range []struct {
		what string
		env  string
		want bool
	}{{"a terminal", "TERM=xterm-256color", true}, {"NO_COLOR", "NO_COLOR=1", false},
		{"a dumb terminal", "TERM=dumb", false}} {
		p := w.at(func(c *exec.Cmd) { c.Env = append(c.Env, tt.env) }, "plan")
		p.wait()
		if got := strings.Contains(p.out.String(), green); got != tt.want {
			t.Errorf("%s: colours %t, want %t:\n%q", tt.what, got, tt.want, p.out.String())
		}
	}
	if r := w.expect(exitDone, "plan"); strings.Contains(r.out, "\x1b") {
		t.Errorf("a file gets colours: %q", r.out)
	}
}
