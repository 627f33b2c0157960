// Package show is how commands meet people and other programs: tables as wide as the
// terminal, JSON, progress, narration and questions. The commands choose the words.
package show

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"

	"payersync/cmd/payersync/internal/usage"
)

// Console holds the input and output streams of a command.
type Console struct {
	In     io.Reader
	Out    io.Writer // results
	ErrOut io.Writer // narration and progress
	Output string    // how results are printed: table, json, or csv for lists
	Plain  bool      // no word is coloured
	Quiet  bool      // only necessary messages, and no questions
	said   []string  // narration since the last question
}

// JSON reports whether results are for another program.
func (c *Console) JSON() bool { return c.Output == "json" }

// CSV reports whether results are for a spreadsheet.
func (c *Console) CSV() bool { return c.Output == "csv" }

// ErrUnread is the error of a write without a reader any more, as behind head.
var ErrUnread = errors.New("nobody reads on what is printed")

// Screen is standard error with several writers: narration, a bar redrawn again and again, and questions. One
// of them has the last line at a time.
type Screen struct {
	Unread func() // called whenever a write there, or beside it, fails with ErrUnread; nil for nobody

	w        io.Writer
	terminal bool

	mu     sync.Mutex
	drawn  bool // the last line is a bar
	asking bool // the last line is a question, and no bar draws
}

// NewScreen returns the screen on standard error, f.
func NewScreen(f *os.File) *Screen { return &Screen{w: f, terminal: IsTerminal(f)} }

// usualColumns is the assumed width of a terminal of unknown width.
const usualColumns = 80

// columnsOf returns the width of a stream's terminal; 0 without one.
func columnsOf(stream any) int {
	if !IsTerminal(stream) {
		return 0
	}
	stream = below(stream)
	switch f := stream.(type) {
	case *Screen:
		stream = f.w
	case beside:
		stream = f.out
	}
	if f, ok := stream.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return usualColumns
}

// Write writes whole lines in the place of a bar, or below a question.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.clear(); err != nil {
		return 0, err
	}
	return s.put(s.w, p)
}

// put writes to one of the two streams.
func (s *Screen) put(to io.Writer, p []byte) (int, error) {
	n, err := to.Write(p)
	if !errors.Is(err, syscall.EPIPE) {
		return n, err
	}
	if s.Unread != nil {
		s.Unread()
	}
	return n, ErrUnread
}

// Interrupted prints a message on the terminal's line with the ^C.
func (s *Screen) Interrupted(line string) {
	s.mu.Lock()
	s.drawn = s.drawn || s.terminal
	s.mu.Unlock()
	_, _ = io.WriteString(s, line+"\n")
}

// clear makes the last line free to write in.
func (s *Screen) clear() (err error) {
	switch {
	case s.asking:
		_, err = s.put(s.w, []byte("\n"))
	case s.drawn:
		_, err = s.put(s.w, []byte("\r\033[K"))
	}
	s.asking, s.drawn = false, false
	return err
}

// canvas is the output of a bar.
type canvas struct{ *Screen }

// Write draws, unless something is asked.
func (c canvas) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking {
		return len(p), nil
	}
	c.drawn = true
	return c.put(c.w, p)
}

// beside is standard output, perhaps on the same terminal as the screen.
type beside struct {
	*Screen
	out *os.File
}

// Write writes results in the place of a bar.
func (b beside) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.clear(); err != nil {
		return 0, err
	}
	return b.put(b.out, p)
}

// IsTerminal reports whether somebody sits at the other end of a stream.
func IsTerminal(stream any) bool {
	switch f := below(stream).(type) {
	case *Screen:
		return f.terminal
	case beside:
		return IsTerminal(f.out)
	case *os.File:
		return term.IsTerminal(int(f.Fd()))
	}
	return false
}

// controlling is the terminal of the process, independent of its streams.
const controlling = "/dev/tty"

// Unasked says why nobody can answer questions; "" if somebody can.
func (c *Console) Unasked() string {
	switch {
	case c.Quiet:
		return "--quiet asks nobody"
	case !IsTerminal(c.In):
		return "standard input is no terminal to ask on"
	case IsTerminal(c.ErrOut):
		return ""
	}
	tty, err := os.OpenFile(controlling, os.O_WRONLY, 0)
	if err != nil {
		return "standard error is no terminal to ask on, and there is no " + controlling
	}
	_ = tty.Close() // nothing was written
	return ""
}

// Confirms reports whether a person wants the action: by --yes, or by an answer now. undone names the missed
// action if nobody can answer.
func (c *Console) Confirms(ctx context.Context, yes bool, undone, question string) (bool, error) {
	if yes {
		return true, nil
	}
	if why := c.Unasked(); why != "" {
		return false, usage.Errorf("%s: %s; add --yes", undone, why)
	}
	return c.Asks(ctx, "%s", question)
}

// mostSaid is how many lines of narration are kept for a question.
const mostSaid = 100

// item matches the beginning of a line below another one.
var item = regexp.MustCompile(`^ *(- )?`)

// Print prints a line of narration. On a terminal a long line wraps.
func (c *Console) Print(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if c.said = append(c.said, line+"\n"); len(c.said) > mostSaid {
		c.said = c.said[1:]
	}
	lead := item.FindString(line)
	_, _ = io.WriteString(c.ErrOut, hung(c.ErrOut, lead, line[len(lead):])+"\n")
}

// Asks asks a question of yes or no. Anything but y is a no; the error is why there is no
// answer.
func (c *Console) Asks(ctx context.Context, format string, args ...any) (bool, error) {
	answer, err := c.answer(ctx, fmt.Sprintf(format, args...), " [y/N] ", readLine)
	return strings.EqualFold(strings.TrimSpace(answer), "y"), err
}

// Chooses asks for one of several options, and returns its number, counted from 0. A blank line is the first.
// The error says why there is no answer.
func (c *Console) Chooses(ctx context.Context, question string, options ...string) (int, error) {
	c.Print("\n%s", hung(c.ErrOut, "", Visible(question)))
	for i, o := range options {
		c.Print("%s", hung(c.ErrOut, fmt.Sprintf("  %d  ", i+1), Visible(o)))
	}
	for {
		answer, err := c.Fills(ctx, fmt.Sprintf("Which one, 1 to %d?", len(options)), "1")
		if err != nil {
			return 0, err
		}
		if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(options) {
			return n - 1, nil
		}
		c.Print("%q is none of them.", Visible(answer))
	}
}

// Fills asks for a text. A blank line is the usual one; the error is why there is no answer.
func (c *Console) Fills(ctx context.Context, question, usual string) (string, error) {
	answer, err := c.answer(ctx, question, " ["+usual+"] ", readLine)
	switch text := strings.TrimSpace(answer); {
	case err != nil:
		return "", err
	case !strings.HasSuffix(answer, "\n"):
		return "", usage.Errorf("%s There was no answer; run it again, or add --yes to accept the proposal", question)
	case text == "":
		return usual, nil
	default:
		return text, nil
	}
}

// Reads asks for a text, perhaps one of these keys. It reports true if the input ended; the error says why there is
// no answer.
func (c *Console) Reads(ctx context.Context, question, keys string) (answer string, ended bool, err error) {
	prompt := " "
	if keys != "" {
		prompt = " [" + keys + "] "
	}
	answer, err = c.answer(ctx, question, prompt, readLine)
	return strings.TrimSpace(answer), !strings.HasSuffix(answer, "\n"), err
}

// Hides asks for a secret, without showing it on the terminal. A blank line means none; the error says why
// there is no answer.
func (c *Console) Hides(ctx context.Context, question string) (string, error) {
	in, is := c.In.(*os.File)
	if !is {
		return "", usage.Errorf("cannot ask %q: %s", question, c.Unasked())
	}
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("cannot ask %q: the terminal does not tell its state: %w", question, err)
	}
	defer func() { _ = term.Restore(fd, before) }() // after an interrupt
	answer, err := c.answer(ctx, question, " ", func(io.Reader) string {
		typed, err := term.ReadPassword(fd)
		if err != nil {
			return ""
		}
		return string(typed) + "\n"
	})
	c.Print("")
	return strings.TrimSuffix(answer, "\n"), err
}

// readLine reads the typed text up to the end of the line.
func readLine(in io.Reader) string {
	line, _ := bufio.NewReader(in).ReadString('\n')
	return line
}

// answer asks a question on standard error, or on the process's terminal if standard error goes elsewhere,
// together with the text before it. The answer ends with its line break, unless the input ended.
func (c *Console) answer(ctx context.Context, question, prompt string, read func(io.Reader) string) (string, error) {
	on, here := below(c.ErrOut).(*Screen)
	if !here || !on.terminal {
		tty, err := os.OpenFile(controlling, os.O_WRONLY, 0)
		if err != nil {
			return "", usage.Errorf("cannot ask %q: %s; add --yes if it takes one", question, c.Unasked())
		}
		defer func() { _ = tty.Close() }()
		on = NewScreen(tty)
		_, _ = io.WriteString(on, withFlags(c.ErrOut, strings.Join(c.said, "")))
	}
	c.said = nil
	return on.ask(ctx, withFlags(c.ErrOut, question)+prompt, func() string { return read(c.In) })
}

// ask writes a question and waits for the answer on the same line, without other output meanwhile. An
// interrupt by the person ends the wait.
func (s *Screen) ask(ctx context.Context, question string, read func() string) (string, error) {
	s.mu.Lock()
	err := s.clear()
	s.asking = true
	_, writing := io.WriteString(s.w, question)
	s.mu.Unlock()
	if err := errors.Join(err, writing); err != nil {
		return "", fmt.Errorf("the question cannot be written on the terminal: %w; add --yes if it takes one", err)
	}
	answers := make(chan string, 1)
	go func() { answers <- read() }()
	select {
	case answer := <-answers:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asking && !strings.HasSuffix(answer, "\n") { // the end of input does not move the cursor
			err = s.clear()
		}
		s.asking = false
		return answer, err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// ReadLine reads a line from standard input until ctx ends. A read of a terminal cannot be cancelled: an
// abandoned one ends with the process.
func (c *Console) ReadLine(ctx context.Context) (string, error) {
	type typed struct {
		line string
		err  error
	}
	read := make(chan typed, 1)
	go func() {
		line, err := bufio.NewReader(io.LimitReader(c.In, 16<<10)).ReadString('\n')
		read <- typed{line, err}
	}()
	select {
	case got := <-read:
		return got.line, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// NewResults returns a writer of results to out, in the place of a bar on s.
func NewResults(s *Screen, out *os.File) io.Writer { return beside{s, out} }
