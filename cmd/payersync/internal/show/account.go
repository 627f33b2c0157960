package show

import (
	"io"
	"strings"
	"sync"

	"payersync/connector"
)

// named is a stream that adds flags to the command lines in a text.
type named struct {
	io.Writer
	flags func() Flags

	mu   *sync.Mutex
	held *[]byte // the end of the text so far, which may be the beginning of a command line
}

// Flags are those that command lines need to work on what the present command works on.
type Flags struct {
	Account string // of a node; "" for none
	Config  string // the configuration that the user named; "" for none
}

// in returns a text with these flags in its command lines.
func (f Flags) in(text string) string {
	return connector.NameConfig(connector.NameAccount(text, f.Account), f.Config)
}

// NameFlags lets the results and the narration of a console add flags to the command lines of payersync. flush writes
// the end of a text without a line break.
func (c *Console) NameFlags(flags func() Flags) (out *Console, flush func()) {
	with := *c
	results := named{c.Out, flags, new(sync.Mutex), new([]byte)}
	narration := named{c.ErrOut, flags, new(sync.Mutex), new([]byte)}
	with.Out, with.ErrOut = results, narration
	return &with, func() {
		results.flush()
		narration.flush()
	}
}

// longestHeld is longer than the name of any command.
const longestHeld = 64

// Write holds back a command line that p cuts off, until the rest of it comes.
func (n named) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.flags() == (Flags{}) && len(*n.held) == 0 {
		return n.Writer.Write(p)
	}
	text := string(append(*n.held, p...))
	end := len(text)
	if at := strings.LastIndex(text, "payersync"); at >= 0 && end-at < longestHeld && !strings.Contains(text[at:], "\n") {
		end = at
	}
	*n.held = []byte(text[end:])
	if _, err := io.WriteString(n.Writer, n.flags().in(text[:end])); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (n named) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = io.WriteString(n.Writer, n.flags().in(string(*n.held))) // Write reports a broken stream
	*n.held = nil
}

// below returns the stream that a named stream writes to.
func below(stream any) any {
	if n, is := stream.(named); is {
		return n.Writer
	}
	return stream
}

// withFlags returns a text as a stream will show it. Texts need this before they are broken into lines.
func withFlags(stream any, text string) string {
	if n, is := stream.(named); is {
		return n.flags().in(text)
	}
	return text
}
