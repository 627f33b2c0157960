package show

import (
	"io"
	"strings"
	"sync"

	"payersync/connector"
)

// named is a stream that adds the account of a node to the command lines in a text.
type named struct {
	io.Writer
	account func() string // "" while there is none

	mu   *sync.Mutex
	held *[]byte // the end of the text so far, which may be the beginning of a command line
}

// NameAccounts lets the results and the narration of a console name an account in the command lines of payersync.
// flush writes the end of a text without a line break.
func (c *Console) NameAccounts(account func() string) (out *Console, flush func()) {
	with := *c
	results := named{c.Out, account, new(sync.Mutex), new([]byte)}
	narration := named{c.ErrOut, account, new(sync.Mutex), new([]byte)}
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
	if n.account() == "" && len(*n.held) == 0 {
		return n.Writer.Write(p)
	}
	text := string(append(*n.held, p...))
	end := len(text)
	if at := strings.LastIndex(text, "payersync"); at >= 0 && end-at < longestHeld && !strings.Contains(text[at:], "\n") {
		end = at
	}
	*n.held = []byte(text[end:])
	if _, err := io.WriteString(n.Writer, connector.NameAccount(text[:end], n.account())); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (n named) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = io.WriteString(n.Writer, connector.NameAccount(string(*n.held), n.account())) // Write reports a broken stream
	*n.held = nil
}

// below returns the stream that a named stream writes to.
func below(stream any) any {
	if n, is := stream.(named); is {
		return n.Writer
	}
	return stream
}

// nameAccount returns a text as a stream will show it. Texts need this before they are broken into lines.
func nameAccount(stream any, text string) string {
	if n, is := stream.(named); is {
		return connector.NameAccount(text, n.account())
	}
	return text
}
