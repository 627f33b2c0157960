// Package catcher is a mail server that delivers nothing: it accepts every letter, keeps the newest in memory
// for people and tests, and fails on request like mail servers. It is for the sandbox and the demo, on this
// machine.
//
// A conversation, with the place of each FaultKind:
//
//	MAIL ── RCPT ────────────────── DATA ── the letter ── kept ── 250
//	         Refused, Deferred,       │         │            │
//	         CutBefore             CutWithin  LetterRefused  CutAfter,
//	                                          LetterDeferred Silent, Slow
//
// The sandbox shows the letters on a page.
package catcher

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Config configure a catcher. The zero value works.
type Config struct {
	Now       func() time.Time // nil is time.Now
	Letters   int              // how many are kept, the newest; 0 is 1,000
	Bytes     int              // of how many bytes together; 0 is 32 MiB
	MaxLetter int64            // the largest accepted letter in bytes; 0 is 1 MiB
}

// Catcher keeps the letters it was given. It is safe for concurrent use.
type Catcher struct {
	opt Config

	mu       sync.Mutex
	kept     []Letter // oldest first
	bytes    int
	received int // ever
	faults   []*injection
}

// New returns a catcher without letters.
func New(opt Config) *Catcher {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Letters == 0 {
		opt.Letters = 1000
	}
	if opt.Bytes == 0 {
		opt.Bytes = 32 << 20
	}
	if opt.MaxLetter == 0 {
		opt.MaxLetter = 1 << 20
	}
	return &Catcher{opt: opt}
}

// Letters returns the kept letters, newest first, with an address that contains recipient, in any case; "" is
// all.
func (c *Catcher) Letters(recipient string) []Letter {
	return c.those(func(l Letter) bool { return l.wentTo(recipient) })
}

// Search returns the letters with part in an address, the subject or the text, newest first, in any case. If
// all letters go to one address, this finds those of one payer.
func (c *Catcher) Search(part string) []Letter {
	return c.those(func(l Letter) bool { return l.wentTo(part) || contains(l.Subject, part) || contains(l.Text, part) })
}

func (c *Catcher) those(wanted func(Letter) bool) []Letter {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []Letter{}
	for _, l := range slices.Backward(c.kept) {
		if wanted(l) {
			out = append(out, l)
		}
	}
	return out
}

// Letter returns the letter with this number, while it is kept.
func (c *Catcher) Letter(number int) (Letter, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.kept, func(l Letter) bool { return l.Number == number })
	if at < 0 {
		return Letter{}, false
	}
	return c.kept[at], true
}

// Received returns how many letters were ever taken; fewer may be kept.
func (c *Catcher) Received() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received
}

// Clear forgets every letter. Numbers go on where they were.
func (c *Catcher) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.bytes = nil, 0
}

// keep takes a letter, and forgets the oldest when they are too many.
func (c *Catcher) keep(sender string, recipients []string, source []byte) {
	l := read(source)
	l.Sender, l.Recipients = sender, slices.Clone(recipients)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received++
	l.Number, l.ReceivedAt = c.received, c.opt.Now()
	c.kept = append(c.kept, l)
	c.bytes += l.size()
	for len(c.kept) > c.opt.Letters || c.bytes > c.opt.Bytes && len(c.kept) > 1 {
		c.bytes -= c.kept[0].size()
		c.kept = slices.Delete(c.kept, 0, 1)
	}
}

func (l Letter) wentTo(part string) bool {
	return slices.ContainsFunc(l.Recipients, func(address string) bool { return contains(address, part) })
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
