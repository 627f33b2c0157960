package catcher

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/emersion/go-smtp"
)

// patience is how long either side may take to say something, and how long Silent
// says nothing.
const patience = 10 * time.Minute

// Serve takes letters at listener until ctx ends.
func (c *Catcher) Serve(ctx context.Context, listener net.Listener) error {
	server := smtp.NewServer(smtp.BackendFunc(func(conn *smtp.Conn) (smtp.Session, error) {
		return &talk{catcher: c, conn: conn.Conn(), ended: ctx.Done()}, nil
	}))
	server.Domain, server.ErrorLog = "sandbox.invalid", quiet{}
	server.ReadTimeout, server.WriteTimeout = patience, patience
	server.MaxMessageBytes, server.MaxRecipients, server.EnableSMTPUTF8 = c.opt.MaxLetter, 50, true
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // of a closed listener
	defer stop()
	return server.Serve(listener)
}

// quiet is the log of a server whose connections break because they are meant to.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

// talk is one conversation.
type talk struct {
	catcher    *Catcher
	conn       net.Conn
	ended      <-chan struct{} // when the server ends
	sender     string
	recipients []string
}

// Reset begins a new letter.
func (t *talk) Reset() { t.sender, t.recipients = "", nil }

// Logout has nothing to give back.
func (t *talk) Logout() error { return nil }

// Mail notes whom a letter is from.
func (t *talk) Mail(from string, _ *smtp.MailOptions) error {
	t.sender = from
	return nil
}

// Rcpt notes whom a letter is for.
func (t *talk) Rcpt(to string, _ *smtp.RcptOptions) error {
	fault := t.catcher.strike(false, to)
	if fault.Kind == CutBefore {
		return t.cut()
	}
	if err := fault.answer(); err != nil {
		return err
	}
	t.recipients = append(t.recipients, to)
	return nil
}

// Data takes the letter.
func (t *talk) Data(r io.Reader) error {
	fault := t.catcher.strike(true, t.recipients...)
	if fault.Kind == CutWithin {
		return t.cut()
	}
	source, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := fault.answer(); err != nil {
		return err
	}
	t.catcher.keep(t.sender, t.recipients, source)
	switch fault.Kind {
	case CutAfter:
		return t.cut()
	case Silent:
		t.sayNothing()
		return t.cut()
	case Slow:
		t.wait(fault.Delay)
	}
	return nil
}

// cut ends the connection; nobody is left to read the error.
func (t *talk) cut() error {
	_ = t.conn.Close() // is meant to break
	return net.ErrClosed
}

// sayNothing waits until the other side has gone, or says something without having
// been answered.
func (t *talk) sayNothing() {
	_ = t.conn.SetReadDeadline(time.Now().Add(patience)) //nolint:forbidigo // a deadline is real time
	_, _ = t.conn.Read(make([]byte, 1))                  // any end
}

func (t *talk) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ended:
	}
}
