package longtest

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestStoryRunsOnlyWithTheSetting(t *testing.T) {
	for value, runs := range map[string]bool{"": false, "0": false, "1": true} {
		t.Setenv(Variable, value)
		skipped := &recorder{TB: t}
		func() {
			defer func() { _ = recover() }() // Skipf ends the test
			Story(skipped, Browser)
			if !runs {
				t.Errorf("%s=%q: the story ran", Variable, value)
			}
		}()
		if got := skipped.reason; runs != (got == "") || !runs &&
			!strings.Contains(got, "needs a browser; set PAYERSYNC_LONG=1") {
			t.Errorf("%s=%q: skipped with %q", Variable, value, got)
		}
	}
}

func TestNoBenchmarkIsSkipped(t *testing.T) {
	t.Setenv(Variable, "")
	ran := false
	testing.Benchmark(func(b *testing.B) {
		Story(b, Postgres)
		ran = true
	})
	if !ran {
		t.Error("the benchmark was skipped")
	}
}

// recorder stands in for a test that Story skips.
type recorder struct {
	testing.TB
	reason string
}

func (r *recorder) Skipf(format string, args ...any) {
	r.reason = fmt.Sprintf(format, args...)
	panic(r.reason)
}

func TestASampleHasTheFirstAndTheLast(t *testing.T) {
	items := []int{0, 1, 2, 3, 4, 5, 6}
	for value, want := range map[string][]int{"": {0, 3, 6}, "1": items} {
		t.Setenv(Variable, value)
		if got := Sample(items, 3); !slices.Equal(got, want) {
			t.Errorf("%s=%q: a sample of three is %v, want %v", Variable, value, got, want)
		}
	}
	if got := Sample(items[:2], 3); len(got) != 2 {
		t.Errorf("of two items it gives %v", got)
	}
}

func TestSizesFollowTheFlagBeforeTheSetting(t *testing.T) {
	tests := []struct {
		name, value string
		args        []string
		want        int
	}{
		{"a short run", "", nil, 1},
		{"a long run", "1", nil, 5},
		{"a flag in a short run", "", []string{"-kills", "50"}, 50},
		{"a flag in a long run", "1", []string{"-kills", "0"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(Variable, tt.value)
			flags := flag.NewFlagSet("test", flag.ContinueOnError)
			kills := size(flags, "kills", 1, 5, "how often a process is killed")
			if err := flags.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			if got := kills(); got != tt.want {
				t.Errorf("size %d, want %d", got, tt.want)
			}
		})
	}
}
