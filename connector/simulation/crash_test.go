package simulation

import (
	"flag"
	"sync/atomic"
	"testing"

	"payersync/internal/longtest"
)

var exhaustive = flag.Bool("exhaustive", false,
	"place crashes in every story, and pairs of them in the smallest; minutes")

// told plays a story in which the processes die at the given points: the first
// is counted from the story's beginning, the second from the first death.
func told(t *testing.T, s story, tmpl template, at ...int) outcome {
	return play(t, s.plan(), tmpl, func(w *world) error {
		w.crashes = at
		w.light()
		s.tell(w)
		w.points = w.passed
		w.crashes, w.silent = nil, false
		return w.heal()
	})
}

// covers F01, F02, F10, F39
func TestCrashAtEveryPointOfEveryStory(t *testing.T) {
	longtest.Story(t, longtest.Computing)
	t.Parallel()
	tmpl := newTemplate(t, memoryDir(t))
	if len(stories) < 25 {
		t.Fatalf("only %d stories", len(stories))
	}
	var existing, covered atomic.Int64
	each(t, len(stories), func(t *testing.T, i int) bool {
		s := stories[i]
		if !s.small && !*exhaustive {
			return true
		}
		whole := told(t, s, tmpl)
		if whole.failed() {
			t.Errorf("story %q without a crash: %s", s.name, whole.report(60))
			return true
		}
		existing.Add(int64(whole.points))
		for at := 1; at <= whole.points; at += scale {
			o := told(t, s, tmpl, at)
			if o.deaths == 1 {
				covered.Add(1)
			}
			if o.failed() {
				t.Errorf("story %q with a crash at point %d of %d: %s", s.name, at, whole.points, o.report(60))
				return true
			}
		}
		return true
	})
	if scale == 1 && existing.Load() != covered.Load() || covered.Load() == 0 {
		t.Errorf("%d points exist, %d were covered", existing.Load(), covered.Load())
	}
	t.Logf("%d of %d points, each with a crash; -exhaustive takes all %d stories", covered.Load(), existing.Load(),
		len(stories))
}

// covers F01
func TestTwoCrashesInTheSmallestStories(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	if !*exhaustive {
		t.Skip("pairs of crashes take minutes: run with -exhaustive")
	}
	var existing, covered atomic.Int64
	for _, s := range stories {
		if !s.small {
			continue
		}
		points := told(t, s, tmpl).points
		each(t, points, func(t *testing.T, i int) bool {
			rest := told(t, s, tmpl, i+1).points - i - 1
			for second := 1; second <= rest; second++ {
				o := told(t, s, tmpl, i+1, second)
				existing.Add(1)
				if o.deaths == 2 {
					covered.Add(1)
				}
				if o.failed() {
					t.Errorf("story %q with crashes at point %d and %d after it: %s", s.name, i+1, second, o.report(60))
					return false
				}
			}
			return true
		})
	}
	if existing.Load() != covered.Load() || existing.Load() == 0 {
		t.Errorf("%d pairs exist, %d were covered", existing.Load(), covered.Load())
	}
	t.Logf("%d pairs", covered.Load())
}
