package config

import (
	"fmt"
	"strings"
	"testing"
)

// withManyKeys is a file with this beginning and n more unknown keys.
func withManyKeys(begin string, n int) []byte {
	var text strings.Builder
	text.WriteString(begin)
	for i := range n {
		fmt.Fprintf(&text, "k%d: 1\n", i)
	}
	return []byte(text.String())
}

// A person who names the wrong file reads about its first keys, and how many more are wrong.
func TestOfManyUnknownKeysTheFirstAreToldAndTheOthersCounted(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func() error{
		"a configuration": func() error {
			_, err := Parse("payersync.yaml", withManyKeys(minimal+"adoptoin: exact\n", 6_000), 0, environment)
			return err
		},
		"a node": func() error {
			_, err := parseNode("node.yaml", withManyKeys("loog: {}\n", 6_000), 0, environment)
			return err
		},
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), "did you mean") ||
			!strings.Contains(err.Error(), " more") {
			t.Errorf("%s: it says %.2000v", name, err)
		}
	}
}

// BenchmarkUnknownKeys refuses a file of 60,000 unknown keys beside one of 6,000: ten times as many
// take about ten times as long.
func BenchmarkUnknownKeys(b *testing.B) {
	for _, n := range []int{6_000, 60_000} {
		file := withManyKeys(minimal, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Parse("payersync.yaml", file, 0, environment); err == nil {
					b.Fatal("unknown keys are accepted")
				}
			}
		})
	}
}
