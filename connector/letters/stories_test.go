package letters_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"payersync/connector/letters"
	post "payersync/connector/mail"
	"payersync/connector/mail/mailtest"
	"payersync/connector/outbox"
	"payersync/internal/longtest"
	"payersync/state"
)

func TestALadderOverDays(t *testing.T) {
	t.Parallel()
	w := begun(t, 1)
	w.days(45)
	w.wantGot("11-23 payer0@bakery0.io invitation", "11-26 payer0@bakery0.io reminder", "11-30 payer0@bakery0.io reminder",
		"12-07 payer0@bakery0.io reminder", "12-23 payer0@bakery0.io last_reminder")
	if got := w.look().Next[0]; got.What != letters.Finished || got.Why != letters.WhyOver || got.Sent != 5 {
		t.Errorf("at the end it stands %+v", got)
	}
}

// covers F144
func TestNobodyGetsALetterBeforeAPersonHasReadTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.payers(3)
	if res := w.send(); res.Waiting != 3 || res.Sent != 0 {
		t.Errorf("a new installation sends %+v", res)
	}
	shown := w.look().Batch
	w.books.put("late", "Late", "late@latebakery.io")
	w.sync()
	if _, err := w.desk.Approve(t.Context(), shown.Hash, byAda); !errors.Is(err, letters.ErrChanged) {
		t.Errorf("approved although there is one letter more: %v", err)
	}
	if got := w.approve(); got != 4 {
		t.Errorf("approved %d", got)
	}
	if desk, err := w.ledger.LetterDesk(t.Context()); err != nil || desk.Waiting != 0 || !desk.WaitsSince.IsZero() {
		t.Errorf("letters that were approved still wait: %d since %v, %v", desk.Waiting, desk.WaitsSince, err)
	}
	w.books.put("later", "Later", "later@laterbakery.io")
	w.sync()
	if res := w.send(); res.Sent != 4 || res.Waiting != 1 {
		t.Errorf("exactly those that were shown are sent: %+v", res)
	}
	w.days(1)
	if n := len(w.box.Received()); n != 5 {
		t.Errorf("%d letters came by the next day, want all 5", n)
	}
	w.desk.Settings.Templates = plain{"2"}
	w.books.put("new", "New", "new@newbakery.io")
	w.days(1)
	if n := len(w.box.Received()); n != 5 {
		t.Error("a letter by new templates left unseen")
	}
}

// covers F138
func TestWhatStopsALadder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	id := state.RecordID{Connection: "acme", SourceID: "c000"}
	for name, stop := range map[string]func(*world) error{
		"signed, told by the look alone": func(w *world) error { return w.service.Sign(w.mandate("c000")) },
		"signed and active": func(w *world) error {
			return errors.Join(w.service.Sign(w.mandate("c000")), w.service.Approve(w.mandate("c000")))
		},
		"cancelled":            func(w *world) error { return w.service.PayerCancel(w.mandate("c000")) },
		"an unknown status":    func(w *world) error { return w.service.SetStatus(w.mandate("c000"), "HALF_SIGNED") },
		"the customer deleted": func(w *world) error { return w.service.Delete(w.service.Customers()[0].ID) },
		"stopped by a person":  func(w *world) error { return w.desk.Stop(ctx, id, "", letters.Day{}, byAda) },
		"the address stopped": func(w *world) error {
			return w.desk.Stop(ctx, state.RecordID{}, "Payer0@bakery0.io", letters.Day{}, byAda)
		},
		"everything paused":      func(w *world) error { return w.desk.Pause(ctx, "", letters.Day{}, byAda) },
		"the connection paused":  func(w *world) error { return w.desk.Pause(ctx, "acme", letters.Day{}, byAda) },
		"gone from the books":    func(w *world) error { w.books.records = nil; return nil },
		"no address any more":    func(w *world) error { w.books.put("c000", "Payer 0", ""); return nil },
		"nobody writes any more": func(w *world) error { w.desk.Settings.Sender = letters.SenderNobody; return nil },
		"a test installation":    func(w *world) error { w.desk.Settings.Test = true; return nil },
		"another link host":      func(w *world) error { w.desk.Settings.LinkHosts = []string{"pay.example.com"}; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begun(t, 1)
			if err := stop(w); err != nil {
				t.Fatal(err)
			}
			w.advance(3 * 24 * time.Hour) // no webhook and no sweep tells: the look does
			w.send()
			w.days(5)
			w.wantGot("11-23 payer0@bakery0.io invitation")
		})
	}
}

// The books, the service and the letter have the same address, or nothing is sent.
func TestALetterGoesOnlyWhereBooksAndServiceAgree(t *testing.T) {
	t.Parallel()
	w := begun(t, 1)
	w.days(2)
	w.advance(24 * time.Hour)
	w.sync()
	c := w.service.Customers()[0]
	if err := w.service.Edit(c.ID, []byte(strings.ReplaceAll(string(c.Raw), "payer0@", "somebody@"))); err != nil {
		t.Fatal(err)
	}
	w.events = nil
	res := w.send()
	if res.Sent != 0 || res.Kept != 1 || !strings.Contains(w.events[0].Answer, "another e-mail address") {
		t.Errorf("%+v, %+v", res, w.events)
	}
	w.wantGot("11-23 payer0@bakery0.io invitation")
}

func TestAPersonEndsAPauseAndNothingPilesUp(t *testing.T) {
	t.Parallel()
	w := begun(t, 1)
	if err := w.desk.Pause(t.Context(), "", letters.Day{}, byAda); err != nil {
		t.Fatal(err)
	}
	w.days(15)
	if n, err := w.desk.Resume(t.Context(), "", byAda); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	w.days(4)
	w.wantGot("11-23 payer0@bakery0.io invitation", "12-09 payer0@bakery0.io reminder")
}

func TestAnswersOfTheMailServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		step  mailtest.Point
		err   error
		want  state.MessageState
		fails bool // the run, because it is about all letters
		came  int  // once the server is mended, by the next day
	}{
		{"put off at the recipient", mailtest.AtRcpt, mailtest.Refusal(450, "greylisted"), state.MessageDeferred, false, 1},
		{"put off after the mail", mailtest.AtData, mailtest.Refusal(451, "later"), state.MessageDeferred, false, 1},
		{"no such recipient", mailtest.AtRcpt, mailtest.Refusal(550, "no such user"), state.MessageRefused, false, 0},
		{"refused after the mail", mailtest.AtData, mailtest.Refusal(554, "spam"), state.MessageRefused, false, 0},
		{"the sender is refused", mailtest.AtMail, mailtest.Refusal(550, "who are you"), state.MessageDeferred, true, 1},
		{"cut at the greeting", mailtest.AtHello, mailtest.ErrCut, state.MessageDeferred, true, 1},
		{"cut at the recipient", mailtest.AtRcpt, mailtest.ErrCut, state.MessageDeferred, true, 1},
		{"cut while the mail was read", mailtest.AtData, mailtest.ErrCut, state.MessageUnclear, false, 0},
		{"cut after it was taken", mailtest.AtAnswer, mailtest.ErrCut, state.MessageUnclear, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.payers(1)
			w.send()
			w.approve()
			w.box.Fail(tt.step, tt.err)
			if _, err := w.desk.Run(t.Context()); (err != nil) != tt.fails {
				t.Errorf("the run: %v", err)
			}
			if got := w.letter("c000"); len(got) != 1 || got[0].State != tt.want || strings.Contains(got[0].Answer, "@") {
				t.Errorf("the letter is %+v", got)
			}
			w.box.Fail(tt.step, nil)
			w.restart()
			w.days(1)
			if n := len(w.box.Received()); n != tt.came {
				t.Errorf("%d letters came by the next day, want %d", n, tt.came)
			}
		})
	}
}

// Whoever dies between two steps leaves a letter that was sent once, or never, or that is shown
// to people as unclear.
//
// covers F137
func TestAProcessThatDiesAtAnyStepSendsNothingTwice(t *testing.T) {
	t.Parallel()
	died := errors.New("the process died")
	for _, at := range []letters.Point{letters.Looked, letters.Frozen, outbox.Begun, outbox.Ready, outbox.Posted,
		outbox.Ended} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.payers(2)
			w.send()
			w.approve()
			w.desk.Step = func(p letters.Point) error {
				if p == at {
					return died
				}
				return nil
			}
			if _, err := w.desk.Run(t.Context()); !errors.Is(err, died) {
				t.Fatalf("the run: %v", err)
			}
			w.restart()
			w.days(1)
			w.noDoubles()
			unclear := at == outbox.Begun || at == outbox.Ready || at == outbox.Posted
			if got := w.letter("c000")[0].State; unclear != (got == state.MessageUnclear) || !unclear &&
				got != state.MessageSent {
				t.Errorf("the letter is %s", got)
			}
			if got := w.letter("c001")[0].State; got != state.MessageSent {
				t.Errorf("the other letter is %s", got)
			}
		})
	}
}

// noDoubles fails when a letter came twice.
func (w *world) noDoubles() {
	w.t.Helper()
	seen := map[string]bool{}
	for _, m := range w.box.Received() {
		_, after, _ := strings.Cut(m.Raw, "Message-ID: <")
		id, _, _ := strings.Cut(after, ">")
		if seen[id] {
			w.t.Errorf("the letter %s came twice", id)
		}
		seen[id] = true
	}
}

func TestACommitThatFailsOrIsTheLastThingAProcessDoesSendsNothingTwice(t *testing.T) {
	t.Parallel()
	died := errors.New("the process died")
	for _, done := range []bool{false, true} {
		for n := range 12 {
			t.Run(fmt.Sprintf("commit %d, done %v", n, done), func(t *testing.T) {
				if n%4 != 1 {
					longtest.Story(t, longtest.Computing)
				}
				t.Parallel()
				w := newWorld(t)
				w.payers(1)
				w.send()
				w.approve()
				count := 0
				w.commit = func(after bool) error {
					if after == done {
						if count++; count > n {
							return died
						}
					}
					return nil
				}
				_, err := w.desk.Run(context.Background())
				w.commit = nil
				w.restart()
				w.days(2)
				w.noDoubles()
				got := w.letter("c000")
				if len(got) != 1 || got[0].State != state.MessageSent && got[0].State != state.MessageUnclear {
					t.Errorf("after %v the letter is %+v", err, got)
				}
				if len(w.box.Received()) == 0 && got[0].State != state.MessageUnclear {
					t.Errorf("nothing came, and the letter is %s", got[0].State)
				}
			})
		}
	}
}

func TestAnUnclearLetterIsAPersonsToDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.payers(1)
	w.send()
	w.approve()
	w.box.Fail(mailtest.AtData, mailtest.ErrCut)
	w.send()
	w.box.Fail(mailtest.AtData, nil)
	unclear := w.letter("c000")[0]
	w.days(1)
	w.wantGot()
	if err := w.desk.DecideOnLetter(t.Context(), unclear.ID, state.WordAgain, byAda); err != nil {
		t.Fatal(err)
	}
	w.days(1)
	w.wantGot("11-25 payer0@bakery0.io invitation")
}

// covers F145
func TestAMailServerThatRefusesOneAfterAnotherIsAskedNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.payers(8)
	w.send()
	w.approve()
	asked := 0
	w.desk.Settings.Post = postFunc(func() error {
		asked++
		return &post.RefusedError{Stage: post.AtMessage,
			Answer: post.Answer{Code: 554, Enhanced: "5.7.1", Text: "rejected by policy"}}
	})
	w.send()
	w.days(2)
	if asked != 3 {
		t.Errorf("it was asked %d times", asked)
	}
	if n := w.look().Count(letters.Paused, letters.WhyBrake); n != 8 {
		t.Errorf("%d letters are held by the brake, want all 8", n)
	}
	w.desk.Settings.Post = postFunc(func() error { asked++; return nil })
	if n, err := w.desk.Resume(t.Context(), "", byAda); n != 1 || err != nil {
		t.Fatalf("%d stops were taken back, %v", n, err)
	}
	if err := w.desk.DecideOnLetter(t.Context(), w.letter("c000")[0].ID, state.WordAgain, byAda); err != nil {
		t.Fatal(err)
	}
	w.send()
	if asked != 9 {
		t.Errorf("it was asked %d times in all, want those 5 and one that a person wants sent again", asked)
	}
}

// postFunc is a mail server that says the same to all.
type postFunc func() error

func (p postFunc) Send(context.Context, string, string, []byte) (string, error) {
	return "250 taken", p()
}

func TestAWindowThatIsClosedKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	w := begun(t, 3)
	w.days(2)
	w.desk.Settings.Zones = map[string]*time.Location{"acme": time.FixedZone("far", 12*60*60)}
	if res := w.send(); !res.Closed || res.Left != 0 {
		t.Errorf("while it is closed: %+v", res)
	}
}

func TestLettersLeaveOneAfterAnotherInTheirWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.payers(30)
	w.send()
	w.approve()
	w.desk.Settings.PerMinute = 4
	if res := w.send(); res.Sent != 20 || res.Left != 10 {
		t.Errorf("in five minutes: %+v", res)
	}
	w.advance(16*time.Hour - w.clock().Sub(w.clock().Truncate(24*time.Hour)) + 57*time.Minute)
	w.send()
	for _, m := range w.got() {
		if !strings.HasPrefix(m, "11-23") {
			t.Errorf("it came on another day: %s", m)
		}
	}
	if now := w.clock(); now.Hour() > 17 || now.Hour() == 17 && now.Minute() > 1 {
		t.Errorf("it sent until %s", now)
	}
	w.advance(time.Hour)
	if res := w.send(); !res.Closed || res.Sent != 0 {
		t.Errorf("in the evening: %+v", res)
	}
}
