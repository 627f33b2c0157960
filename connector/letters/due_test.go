package letters

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/state"
)

// day returns a day of November 2026, or of the months after it.
func day(n int) Day { return Day{2026, 11, 1}.Plus(n - 1) }

func on(n int) time.Time { return day(n).noon() }

func ladderSettings() *Settings {
	return &Settings{Steps: []int{0, 3, 7, 14, 30}, Own: []string{"harbour.test"}}
}

// Ada's link was seen on the first; today is the 20th unless a row says otherwise.
func TestWhatIsDoneAboutTheNextLetter(t *testing.T) {
	t.Parallel()
	sent := func(n int) *state.Letter {
		return &state.Letter{State: state.MessageSent, SendingAt: on(n), Recipient: "ada"}
	}
	as := func(s state.MessageState, n, deferrals int) *state.Letter {
		return &state.Letter{State: s, SendingAt: on(n), Deferrals: deferrals, Recipient: "ada"}
	}
	stop := func(why, until string) func(*facts) {
		return func(f *facts) {
			f.Stops = append(f.Stops, state.LetterStop{Scope: state.StopPayer, Why: why, UntilOn: until})
		}
	}
	begun := func(first, last int, letters map[int]*state.Letter) func(*facts) {
		return func(f *facts) { f.First, f.Last, f.LastThere, f.Steps = day(first), day(last), day(last), letters }
	}
	step := func(what What, why Why, step int, kind Kind, n int) Verdict {
		return Verdict{What: what, Why: why, Step: step, Kind: kind, On: day(n)}
	}
	for _, tt := range []struct {
		name  string
		today int
		of    []func(*facts)
		want  Verdict
	}{
		{"the invitation at once", 20, nil, step(Due, "", 0, Invitation, 20)},
		{"two days after it", 20, []func(*facts){begun(18, 18, map[int]*state.Letter{0: sent(18)})},
			step(Later, WhyDay, 1, Reminder, 21)},
		{"three days after it", 20, []func(*facts){begun(17, 17, map[int]*state.Letter{0: sent(17)})},
			step(Due, "", 1, Reminder, 20)},
		{"steps that were missed are not made up for", 20, []func(*facts){begun(5, 5, map[int]*state.Letter{0: sent(5)})},
			step(Due, "", 3, Reminder, 20)},
		{"the next step after a late one keeps its day", 20,
			[]func(*facts){begun(5, 19, map[int]*state.Letter{0: sent(5), 3: sent(19)})}, step(Later, WhyDay, 4, LastCall, 35)},
		{"a late one keeps its distance", 33, []func(*facts){begun(4, 32, map[int]*state.Letter{0: sent(4), 3: sent(32)})},
			step(Later, WhyDay, 4, LastCall, 34)},
		{"and the next waits for it", 34, []func(*facts){begun(4, 32, map[int]*state.Letter{0: sent(4), 3: sent(32)})},
			step(Later, WhyDistance, 4, LastCall, 35)},
		{"the last reminder", 35, []func(*facts){begun(5, 19, map[int]*state.Letter{0: sent(5)})},
			step(Due, "", 4, LastCall, 35)},
		{"after the last somebody calls", 40, []func(*facts){begun(5, 35, map[int]*state.Letter{4: sent(35)})},
			Verdict{What: Finished, Why: WhyOver}},
		{"after 60 days nothing", 66, []func(*facts){begun(5, 5, map[int]*state.Letter{0: sent(5)})},
			Verdict{What: Finished, Why: WhyOver}},
		{"handed over today", 20, []func(*facts){begun(20, 20, nil)}, step(Later, WhyDay, 1, Reminder, 23)},
		{"handed over three days ago", 20, []func(*facts){begun(17, 17, nil)}, step(Due, "", 1, Reminder, 20)},
		{"another letter to the address yesterday", 20, []func(*facts){func(f *facts) { f.LastThere = day(19) }},
			step(Later, WhyAddress, 0, Invitation, 22)},
		{"about another mandate of the payer yesterday", 20,
			[]func(*facts){func(f *facts) { f.Last = day(19); f.Before = true }}, step(Later, WhyDistance, 0, Replaced, 22)},
		{"a mandate in the place of another begins by hand", 20,
			[]func(*facts){func(f *facts) { f.Last = day(9); f.Before = true }}, step(Waits, WhyReplaced, 0, Replaced, 20)},

		{"put off today", 20, []func(*facts){func(f *facts) {
			f.Steps = map[int]*state.Letter{0: as(state.MessageDeferred, 20,
				1)}
		}}, step(Later, WhyPutOff, 0, Invitation, 21)},
		{"put off yesterday", 20,
			[]func(*facts){func(f *facts) { f.Steps = map[int]*state.Letter{0: as(state.MessageDeferred, 19, 2)} }},
			step(Due, "", 0, Invitation, 20)},
		{"put off three times", 20,
			[]func(*facts){func(f *facts) { f.Steps = map[int]*state.Letter{0: as(state.MessageDeferred, 19, 3)} }},
			Verdict{What: Stopped, Why: WhyGivenUp, Kind: Invitation}},
		{"the server was not there", 20,
			[]func(*facts){func(f *facts) { f.Steps = map[int]*state.Letter{0: as(state.MessageDeferred, 20, 0)} }},
			step(Due, "", 0, Invitation, 20)},
		{"refused", 20, []func(*facts){func(f *facts) {
			f.Steps = map[int]*state.Letter{0: as(state.MessageRefused, 19,
				0)}
		}}, Verdict{What: Stopped, Why: WhyRefused, Kind: Invitation}},
		{"refused at another address", 20, []func(*facts){func(f *facts) {
			f.Steps = map[int]*state.Letter{0: {State: state.MessageRefused, Recipient: "before", SendingAt: on(19)}}
		}}, step(Due, "", 0, Invitation, 20)},
		{"frozen by a process that died", 20,
			[]func(*facts){func(f *facts) { f.Steps = map[int]*state.Letter{0: {State: state.MessageFrozen}} }},
			step(Due, "", 0, Invitation, 20)},
		{"unclear is not repeated", 20,
			[]func(*facts){begun(19, 19, map[int]*state.Letter{0: as(state.MessageUnclear, 19, 0)})},
			step(Later, WhyDay, 1, Reminder, 22)},

		{"no payer now", 20, []func(*facts){func(f *facts) { f.Can = false }}, Verdict{What: Stopped, Why: WhyNotPayer}},
		{"let be", 20, []func(*facts){func(f *facts) { f.LetBe = true }}, Verdict{What: Stopped, Why: WhyLetBe}},
		{"opted out", 20, []func(*facts){stop(state.StopOptedOut, "")}, Verdict{What: Stopped, Why: WhyOptedOut}},
		{"what is for good counts before a pause", 20, []func(*facts){stop(state.StopPause, ""), stop(state.StopBounced, "")},
			Verdict{What: Stopped, Why: WhyBounced}},
		{"stopped until tomorrow", 20, []func(*facts){stop(state.StopPerson, "2026-11-21")},
			Verdict{What: Stopped, Why: WhyPerson, On: day(21)}},
		{"stopped until today", 20, []func(*facts){stop(state.StopPerson, "2026-11-20")}, step(Due, "", 0, Invitation, 20)},
		{"paused", 20, []func(*facts){stop(state.StopPause, "")}, Verdict{What: Paused, Why: WhyPaused}},
		{"a brake", 20, []func(*facts){stop(state.StopBrake, "")}, Verdict{What: Paused, Why: WhyBrake}},
		{"an old link", 20, []func(*facts){func(f *facts) { f.LinkAt = on(-16) }}, Verdict{What: Stopped, Why: WhyOldLink}},
		{"a link of 30 days", 31, nil, step(Due, "", 0, Invitation, 31)},

		{"no address", 20, []func(*facts){func(f *facts) { f.Address = "" }}, Verdict{What: Stopped, Why: WhyNoAddress}},
		{"two addresses in one", 20, []func(*facts){func(f *facts) { f.Address = "ada@bakery.io, bob@bakery.io" }},
			Verdict{What: Stopped, Why: WhyNoAddress}},
		{"one of ours", 20, []func(*facts){func(f *facts) { f.Address = "ada@Harbour.test" }},
			step(Waits, WhyOwnDomain, 0, Invitation, 20)},
		{"nobody's", 20, []func(*facts){func(f *facts) { f.Address = "ada@shop.example.com" }},
			step(Waits, WhyExample, 0, Invitation, 20)},
		{"four payers with one address", 20, []func(*facts){func(f *facts) { f.Sharing = 4 }},
			step(Waits, WhyShared, 0, Invitation, 20)},
		{"three payers with one address", 20, []func(*facts){func(f *facts) { f.Sharing = 3 }},
			step(Due, "", 0, Invitation, 20)},
		{"another payer's open link goes there", 20, []func(*facts){func(f *facts) { f.Also = true }},
			step(Waits, WhyAlsoWritten, 0, Invitation, 20)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := facts{RecordID: state.RecordID{Connection: "acme", SourceID: "c1"}, MandateID: "m1", Recipient: "ada",
				Address: "ada@bakery.io", Can: true, LinkAt: on(1), Sharing: 1}
			if tt.today > 60 {
				f.LinkAt = on(50)
			} else if tt.today > 32 {
				f.LinkAt = on(20)
			}
			for _, change := range tt.of {
				change(&f)
			}
			if diff := cmp.Diff(tt.want, ladderSettings().due(&f, day(tt.today))); diff != "" {
				t.Errorf("the verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// Every due letter is sent on each day. Whatever the days, no step comes twice, letters keep their distance,
// and there are five at most.
func TestALadderNeverComesTwiceOrTooClose(t *testing.T) {
	t.Parallel()
	s := ladderSettings()
	for _, away := range [][]int{nil, {4, 5, 6}, {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, {8, 31, 32}} {
		f := facts{RecordID: state.RecordID{Connection: "acme", SourceID: "c1"}, Recipient: "ada", Address: "ada@bakery.io",
			Can: true, LinkAt: on(1), Steps: map[int]*state.Letter{}}
		said := []string{}
		for n := 1; n < 100; n++ {
			f.LinkAt = on(n)
			v := s.due(&f, day(n))
			skip := false
			for _, a := range away {
				skip = skip || a == n
			}
			if v.What != Due || skip {
				continue
			}
			if f.Last != (Day{}) && day(n).Since(f.Last) < leastDistance || f.Steps[v.Step] != nil {
				t.Errorf("on day %d step %d comes too soon, or again", n, v.Step)
			}
			f.Steps[v.Step] = &state.Letter{State: state.MessageSent, SendingAt: on(n), Recipient: "ada"}
			if f.First == (Day{}) {
				f.First = day(n)
			}
			f.Last, f.LastThere = day(n), day(n)
			said = append(said, fmt.Sprintf("%d:%d", n, v.Step))
		}
		want := map[int]string{0: "[1:0 4:1 8:2 15:3 31:4]", 3: "[1:0 7:1 10:2 15:3 31:4]", 12: "[1:0 15:3 31:4]"}[len(away)]
		if len(away) == 3 && away[0] == 8 {
			want = "[1:0 4:1 9:2 15:3 33:4]"
		}
		if got := fmt.Sprint(said); got != want {
			t.Errorf("away on %v: %s, want %s", away, got, want)
		}
	}
}
