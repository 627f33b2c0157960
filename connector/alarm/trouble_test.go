package alarm

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/health"
	smtp "payersync/connector/mail"
	"payersync/connector/mail/mailtest"
	"payersync/connector/outbox"
	"payersync/state"
)

// The mail was accepted, but the answer to the final dot was lost. It is sent again, byte for byte and with
// the same id, so a mail system recognises the repeat.
func TestWhenTheAnswerWasLostTheSameMailIsSentAgain(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, smtp.NoTLS)
	d := newDesk(t, box.named("office", Warning))
	box.Fail(mailtest.AtAnswer, mailtest.ErrCut)
	d.holds = []health.Condition{failedRun("acme")}
	d.tell()
	d.start(d.teller.Ways...)
	box.Fail(mailtest.AtAnswer, nil)
	d.holds = nil // what it tells was true when it was frozen
	d.minutes(3)
	got := box.received()
	if len(got) != 3 || got[0] != got[1] || parse(t, got[2]).subject != overSubject {
		t.Errorf("the mails are %q, and the first two not the same", box.subjects())
	}
}

// A process that dies between any two commits of a look tells everything and nothing twice, but
// for a mail whose taking nobody noted: that comes again as it was.
//
// covers F01
func TestAProcessThatDiesWhileItTellsLosesNothing(t *testing.T) {
	t.Parallel()
	for dies := 1; ; dies++ {
		box := newMailbox(t, smtp.NoTLS)
		d := newDesk(t, box.named("office", Warning))
		d.holds = []health.Condition{failedRun("acme"), lost(1)}
		commits, died := 0, errors.New("the process died")
		d.commits(func(done bool) error {
			if !done {
				if commits++; commits >= dies {
					return died
				}
			}
			return nil
		})
		err := d.teller.Notify(t.Context())
		d.commits(nil)
		if err == nil {
			if dies < 4 {
				t.Errorf("a look that tells makes %d commits", dies-1)
			}
			return
		}
		d.start(d.teller.Ways...)
		d.minutes(5)
		got := box.received()
		if len(got) == 0 || len(got) > 2 || len(got) == 2 && parse(t, got[0]).id == parse(t, got[1]).id && got[0] != got[1] {
			t.Errorf("died at commit %d: %q", dies, box.subjects())
		}
		if names := told(t, d, "office"); len(names) != 2 {
			t.Errorf("died at commit %d: told are %q", dies, names)
		}
	}
}

func TestARecipientThatIsRefusedIsToldByTheOthers(t *testing.T) {
	t.Parallel()
	refused, other := newMailbox(t, smtp.NoTLS), newMailbox(t, smtp.NoTLS)
	d := newDesk(t, refused.named("office", Warning), other.named("pager", Warning))
	mine := []health.Condition{failedRun("acme")}
	d.teller.Look = func(ctx context.Context) ([]health.Condition, error) {
		found, err := health.Present(ctx, d.ledger,
			health.Expected{Ways: []string{"office", "pager"},
				Command: func(s connector.Step) string { return string(s.Do) + " " + s.Of }}, health.WayFailed)
		return append(found, mine...), err
	}
	refused.Fail(mailtest.AtRcpt, mailtest.Refusal(550, "no such user"))
	d.minutes(3)
	other.expect(failedSubject, "payersync test: Alarms do not arrive")
	if text := other.read()[1].text; !strings.Contains(text, "The alarm way office has refused messages") ||
		!strings.Contains(text, "550 no such user") || !strings.Contains(text, "test_way office") {
		t.Errorf("it is told as\n%s", text)
	}
	d.minutes(300)
	if n := refused.Talks(); n > 2 {
		t.Errorf("a server that refuses is asked %d times in five hours", n)
	}
	refused.Fail(mailtest.AtRcpt, nil)
	if _, err := d.teller.Try(t.Context(), d.teller.Ways[0]); err != nil {
		t.Fatal(err)
	}
	d.minutes(1)
	refused.expect("payersync test: test message", failedSubject)
	d.minutes(40)
	if got := other.subjects(); len(got) != 3 || got[2] != "payersync test: over: Alarms do not arrive" {
		t.Errorf("that it works again is told by %q", got)
	}
}

func TestTwoProcessesNeverBothTell(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, smtp.NoTLS)
	d := newDesk(t, box.named("office", Warning))
	d.holds = []health.Condition{failedRun("acme")}
	second, err := state.Open(t.Context(), state.Options{Path: d.files.Path, KeyFile: d.files.KeyFile, Now: d.now})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	other := &Notifier{Ledger: second, Now: d.now, Look: d.teller.Look, Ways: d.teller.Ways, Installation: "test",
		Time: d.teller.Time, Clean: d.teller.Clean}
	var both sync.WaitGroup
	for _, teller := range []*Notifier{d.teller, other} {
		both.Go(func() {
			for range 10 {
				if err := teller.Notify(t.Context()); err != nil && !errors.Is(err, outbox.ErrBusy) {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	box.expect(failedSubject)
}

// covers F59
func TestALedgerThatCannotBeWrittenIsToldAllTheSame(t *testing.T) {
	t.Parallel()
	box, down := newMailbox(t, smtp.NoTLS), newMailbox(t, smtp.NoTLS)
	d := newDesk(t, box.named("office", Warning), down.named("down", Warning))
	full := errors.New("the disk is full")
	look := func() {
		t.Helper()
		d.pass(time.Minute)
		if err := d.teller.Notify(t.Context()); !errors.Is(err, full) {
			t.Fatalf("Tell says %v", err)
		}
	}
	down.Fail(mailtest.AtRcpt, mailtest.ErrCut)
	d.commits(func(done bool) error {
		if done {
			return nil
		}
		return full
	})
	for range 30 {
		look()
	}
	unwritable := "payersync test: The ledger cannot be written to"
	box.expect(unwritable)
	down.expect()
	down.Fail(mailtest.AtRcpt, nil)
	d.commits(nil)
	d.minutes(1)
	d.commits(func(done bool) error { // for a moment only
		if done {
			return nil
		}
		return full
	})
	look()
	d.commits(nil)
	d.minutes(60)
	over := "payersync test: over: The ledger cannot be written to"
	box.expect(unwritable, over, unwritable, over)
	down.expect(over, unwritable, over)
	if mails := box.read(); mails[0].id == mails[2].id {
		t.Errorf("another outage is told under the id of the first: %s", mails[0].id)
	}
	if text := down.read()[0].text; !strings.Contains(text, "It began on") || !strings.Contains(text, "the disk is full") {
		t.Errorf("who could not be told meanwhile reads:\n%s", text)
	}
}

// A process does not send an accepted mail twice if it could not store the result.
func TestWhatWasTakenAndNotNotedIsNotSentTwice(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, smtp.NoTLS)
	d := newDesk(t, box.named("office", Warning))
	d.holds = []health.Condition{failedRun("acme")}
	commits := 0
	d.commits(func(done bool) error {
		if !done {
			if commits++; commits == 4 { // after the ping, what was noticed, and what was frozen
				return errors.New("the disk is full")
			}
		}
		return nil
	})
	if err := d.teller.Notify(t.Context()); err == nil {
		t.Fatal("nothing kept it from noting that the mail was taken")
	}
	d.minutes(5)
	box.expect(failedSubject)
}
