package outbox

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/connector/mail"
	"payersync/connector/webhook"
	"payersync/state"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func TestTheNextStepFollowsFromTheStateAndThePolicy(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	tests := []struct {
		name  string
		rules Rules
		m     Message
		want  NextStep
		until time.Time
	}{
		{"a new letter is frozen", Letters, Message{}, Freeze, time.Time{}},
		{"a frozen letter is written again by the present facts", Letters, Message{State: state.MessageFrozen}, Freeze,
			time.Time{}},
		{"an interrupted letter is for a person", Letters,
			Message{State: state.MessageSending, Attempts: 1, At: ago(time.Hour)}, Ask, time.Time{}},
		{"an unclear letter is for a person", Letters,
			Message{State: state.MessageUnclear, Attempts: 1, At: ago(99 * time.Hour)}, Ask, time.Time{}},
		{"a sent letter is done", Letters, Message{State: state.MessageSent}, Done, time.Time{}},
		{"a refused letter is for a person", Letters, Message{State: state.MessageRefused, At: ago(99 * time.Hour)}, Stop,
			time.Time{}},
		{"a deferred letter is frozen again", Letters, Message{State: state.MessageDeferred, PutOffs: 2}, Freeze,
			time.Time{}},
		{"a letter waits for its day", Letters,
			Message{State: state.MessageDeferred, PutOffs: 1, RetryAt: noon.Add(time.Hour)}, Wait, noon.Add(time.Hour)},
		{"a letter put off three times is for a person", Letters, Message{State: state.MessageDeferred, PutOffs: 3}, Stop,
			time.Time{}},

		{"an interrupted alarm is sent again after its pause", Alarms,
			Message{State: state.MessageSending, Attempts: 1, At: ago(30 * time.Second)}, Wait, noon.Add(30 * time.Second)},
		{"an alarm is sent again", Alarms, Message{State: state.MessageUnclear, Attempts: 1, At: ago(time.Minute)}, Send,
			time.Time{}},
		{"the fourth pause is eight minutes", Alarms, Message{State: state.MessageUnclear, Attempts: 4, At: noon}, Wait,
			noon.Add(8 * time.Minute)},
		{"no pause is longer than an hour", Alarms, Message{State: state.MessageDeferred, Attempts: 1000, At: noon}, Wait,
			noon.Add(time.Hour)},
		{"a refused alarm is sent again after six hours", Alarms,
			Message{State: state.MessageRefused, Attempts: 1, At: ago(5 * time.Hour)}, Wait, noon.Add(time.Hour)},
		{"the receiver's own time counts if it is later", Alarms,
			Message{State: state.MessageDeferred, Attempts: 1, At: noon, RetryAt: noon.Add(3 * time.Hour)}, Wait,
			noon.Add(3 * time.Hour)},
		{"a time from a clock ahead does not count", Alarms,
			Message{State: state.MessageDeferred, Attempts: 1, RetryAt: noon.Add(26 * time.Hour)}, Send, time.Time{}},
		{"an attempt in the future does not count", Alarms,
			Message{State: state.MessageDeferred, Attempts: 1, At: noon.Add(time.Minute)}, Send, time.Time{}},

		{"an interrupted write is read", Fields, Message{State: state.MessageSending, Attempts: 1, At: noon}, Read,
			time.Time{}},
		{"two writes are ten minutes apart", Fields, Message{At: ago(4 * time.Minute)}, Wait, noon.Add(6 * time.Minute)},
		{"a refused write waits a day", Fields, Message{State: state.MessageRefused, At: ago(23 * time.Hour)}, Wait,
			noon.Add(time.Hour)},
		{"and is then frozen again", Fields, Message{State: state.MessageRefused, At: ago(24 * time.Hour)}, Freeze,
			time.Time{}},
		{"an interrupted webhook is sent again", Webhooks,
			Message{State: state.MessageSending, Attempts: 1, At: ago(10 * time.Minute)}, Send, time.Time{}},
		{"a webhook whose bytes never left is frozen again", Webhooks, Message{State: state.MessageFrozen}, Freeze,
			time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, until := tt.rules.Next(tt.m, noon); got != tt.want || !until.Equal(tt.until) {
				t.Errorf("the next step is %s until %v, want %s until %v", got, until, tt.want, tt.until)
			}
		})
	}
}

func TestAnAnswerDecidesTheOutcome(t *testing.T) {
	t.Parallel()
	dead, full, later := mail.Answer{Code: 550, Enhanced: "5.1.1", Text: "no"},
		mail.Answer{Code: 552, Enhanced: "5.2.2", Text: "full"}, mail.Answer{Code: 450, Text: "busy"}
	tests := []struct {
		name string
		err  error
		want Outcome
	}{
		{"taken", nil, Outcome{State: state.MessageSent}},
		{"no such recipient", &mail.RefusedError{Stage: mail.AtRecipient, Answer: dead},
			Outcome{State: state.MessageRefused, Answer: "550 no"}},
		{"full mailbox", &mail.RefusedError{Stage: mail.AtRecipient, Answer: full},
			Outcome{State: state.MessageDeferred, PutOff: true, Answer: "552 full"}},
		{"our sender is refused", &mail.RefusedError{Stage: mail.AtSender, Answer: dead},
			Outcome{State: state.MessageRefused, General: true}},
		{"busy recipient", &mail.DeferredError{Stage: mail.AtRecipient, Answer: later},
			Outcome{State: state.MessageDeferred, PutOff: true, Answer: "450 busy"}},
		{"busy server", &mail.DeferredError{Stage: mail.AtGreeting, Answer: later},
			Outcome{State: state.MessageDeferred, General: true}},
		{"no mail server", &mail.NotSentError{Err: errors.New("no route")},
			Outcome{State: state.MessageDeferred, General: true}},
		{"mail with no answer", &mail.UnclearError{Err: errors.New("cut")}, Outcome{State: state.MessageUnclear}},
		{"webhook refused", fmt.Errorf("x: %w", &webhook.RefusedError{Err: errors.New("404")}),
			Outcome{State: state.MessageRefused, General: true}},
		{"no webhook server", &webhook.NotSentError{Err: errors.New("no route")},
			Outcome{State: state.MessageDeferred, General: true}},
		{"record refused", &connector.WriteRefusedError{Why: "It is locked."},
			Outcome{State: state.MessageRefused, Answer: "It is locked."}},
		{"record edited meanwhile", connector.ErrStale, Outcome{State: state.MessageDeferred}},
		{"not written", fmt.Errorf("%w: signed out", connector.ErrNotWritten),
			Outcome{State: state.MessageDeferred, General: true}},
		{"an unknown error", errors.New("what"), Outcome{State: state.MessageUnclear}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := OutcomeOf("", tt.err)
			if tt.want.Answer == "" && tt.err != nil {
				tt.want.Answer = tt.err.Error()
			}
			if tt.want.Err = tt.err; got != tt.want {
				t.Errorf("the outcome is %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestABreakerEndsARunAfterRefusalsInARowOrManyUnknownOutcomes(t *testing.T) {
	t.Parallel()
	const sent, no, unclear = state.MessageSent, state.MessageRefused, state.MessageUnclear
	tests := []struct {
		rules            Rules
		outcomes         []state.MessageState
		refused, unclear bool
	}{
		{Letters, []state.MessageState{no, no, sent, no, no}, false, false},
		{Letters, []state.MessageState{sent, no, no, no}, true, false},
		{Letters, []state.MessageState{unclear, sent, unclear, unclear, no, unclear, unclear}, false, true},
		{Alarms, []state.MessageState{no, no, no, no, no, no, no, no, no, no, no, no}, false, false},
		{Fields, []state.MessageState{no, no, no, no, no, no, no, no, no, no}, true, false},
	}
	for _, tt := range tests {
		b := Breaker{Rules: tt.rules}
		var refused, unclear bool
		for _, s := range tt.outcomes {
			refused, unclear = b.Note(s)
		}
		if refused != tt.refused || unclear != tt.unclear {
			t.Errorf("after %v the run ends by %t and %t, want %t and %t", tt.outcomes, refused, unclear, tt.refused, tt.unclear)
		}
	}
}

func TestAnApprovalIsForExactlyTheMessagesThatWereShown(t *testing.T) {
	t.Parallel()
	hash := func(of ...[]string) string {
		b := Batch{}
		for _, facts := range of {
			b.Add(facts...)
		}
		return b.Hash()
	}
	shown := hash([]string{"a", "b"}, []string{"c"})
	for _, other := range []string{hash([]string{"a", "b"}), hash([]string{"ab"}, []string{"c"}),
		hash([]string{"a"}, []string{"b", "c"}), hash([]string{"a", "b"}, []string{"c"}, []string{"d"})} {
		if err := Check(other, shown); !errors.Is(err, ErrChanged) {
			t.Errorf("other messages are approved: %v", err)
		}
	}
	if err := Check(shown, hash([]string{"a", "b"}, []string{"c"})); err != nil {
		t.Error(err)
	}
	if err := Check(hash(), shown); !errors.Is(err, ErrNothing) {
		t.Errorf("without messages the error is %v", err)
	}
}

// receiver is a receiver of one message, in a test.
type receiver struct {
	came   []int // the versions of the bytes that it accepted
	leaves map[int]bool
}

// take lets the receiver answer an attempt as it likes. It returns the sender's result.
func (r *receiver) take(t *rapid.T, version int) error {
	r.leaves[version] = true
	dead := mail.Answer{Code: 550, Text: "no"}
	switch rapid.SampledFrom([]string{"takes", "silent", "lost", "refuses", "later", "down", "dies"}).Draw(t, "receiver") {
	case "takes":
		r.came = append(r.came, version)
		return nil
	case "silent": // it takes the message, and the answer is lost
		r.came = append(r.came, version)
		return &mail.UnclearError{Err: errors.New("cut")}
	case "lost":
		return errors.New("cut")
	case "refuses":
		return &mail.RefusedError{Stage: mail.AtRecipient, Answer: dead}
	case "later":
		return &mail.DeferredError{Stage: mail.AtRecipient, Answer: dead}
	}
	return &mail.NotSentError{Err: errors.New("no route")}
}

// A message is followed through kills after every commit, all answers, and any passing of time. Nobody gets a letter
// twice, or a write twice. The bytes under one id never change once they left. A message that nobody took is sent
// again, or is shown to a person.
func TestNoMessageIsDoubledOrForgottenUnderKills(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]Rules{"letters": Letters, "alarms": Alarms, "fields": Fields,
		"webhooks": Webhooks} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { follow(t, rules) })
		})
	}
}

func follow(t *rapid.T, rules Rules) {
	r, m, now, version := &receiver{leaves: map[int]bool{}}, Message{}, noon, 0
	killed := func() bool { return rapid.IntRange(0, 4).Draw(t, "killed") == 0 }
	attempt := func() {
		m = m.Begin(now)
		if killed() {
			return
		}
		err := r.take(t, version)
		if killed() {
			return
		}
		m = m.End(OutcomeOf("", err), now)
	}
	for range 40 {
		now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
		step, until := rules.Next(m, now)
		switch step {
		case Freeze:
			if rules.Policy == Always && len(r.leaves) > 0 {
				t.Fatal("other bytes are frozen under an id that was sent")
			}
			version++
			if m.State = state.MessageFrozen; !killed() {
				attempt()
			}
		case Send:
			if !r.leaves[version] && m.Attempts == 0 {
				t.Fatal("a repeat of bytes that never left")
			}
			attempt()
		case Read:
			if len(r.came) > 0 {
				m.State = state.MessageSent
			} else {
				m = Message{At: m.At}
			}
		case Wait:
			if !until.After(now) || until.After(now.Add(longestPause)) {
				t.Fatalf("it waits from %v until %v", now, until)
			}
			now = until
		case Ask, Stop:
			if rules.Policy == Always {
				t.Fatalf("a message is given up in the state %s", m.State)
			}
			if len(r.came) > 0 && step == Stop {
				t.Fatal("a message that came is shown as refused")
			}
		case Done:
			if len(r.came) == 0 {
				t.Fatal("a message that nobody took is done")
			}
			return
		}
		if rules.Policy != Always && len(r.came) > 1 {
			t.Fatalf("the message came %d times", len(r.came))
		}
	}
}
