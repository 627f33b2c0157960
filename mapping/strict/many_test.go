package strict_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"payersync/mapping/strict"
)

// manyFile has a few keys, a block and a list.
type manyFile struct {
	Name   string            `yaml:"name" jsonschema:"required"`
	Block  manyBlock         `yaml:"block"`
	List   []manyBlock       `yaml:"list"`
	Words  map[string]string `yaml:"words"`
	Secret string            `yaml:"client_secret"`
}

type manyBlock struct {
	Inner string `yaml:"inner"`
	Count int    `yaml:"count"`
}

// A person who loads the wrong file reads about its first mistakes, and how many more there are.
func TestAFileOfManyThousandMistakesIsRefusedWithTheFirstOnes(t *testing.T) {
	t.Parallel()
	const many = 60_000
	for name, tt := range map[string]struct {
		begin, line, end string
		want             string
		count            int
	}{
		"unknown keys": {"naem: x\n", "k%d: 1\n", "", `unknown key "naem"; did you mean "name"?`, many + 1},
		"unknown keys in a block": {"name: x\nblock:\n  iner: x\n", "  k%d: 1\n", "",
			`unknown key "iner" in block; did you mean "inner"?`, many + 1},
		"unknown keys in many blocks": {"name: x\nlist:\n- iner: x\n", "- k%d: 1\n", "",
			`unknown key "iner" in list[0]; did you mean "inner"?`, many + 1},
		"values of another type": {"name: x\nlist:\n- count: a\n", "- count: a%d\n", "",
			"list[0].count must be a whole number, not a text", many + 1},
		"a key given again and again": {"name: x\nblock:\n", "  inner: x%d\n", "",
			`the key "inner" is given twice, first in line 3; remove one of them`, many - 1},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			text.WriteString(tt.begin)
			for i := range many {
				fmt.Fprintf(&text, tt.line, i)
			}
			text.WriteString(tt.end)
			_, _, err := strict.Load("file.yaml", []byte(text.String()), manyFile{})
			var wrong *strict.Error
			if !errors.As(err, &wrong) || len(wrong.Problems) != tt.count {
				t.Fatalf("%d problems, want %d: %.300v", len(wrong.Problems), tt.count, err)
			}
			told := err.Error()
			if !strings.Contains(told, tt.want) || !strings.Contains(told, fmt.Sprintf("… and %d more", tt.count-20)) {
				t.Errorf("it says\n%.3000s", told)
			}
		})
	}
}

// oneLine is a file with n keys in one line.
func oneLine(n int, key string) []byte {
	var text strings.Builder
	text.WriteString("{name: x")
	for i := range n {
		fmt.Fprintf(&text, ", "+key, i)
	}
	text.WriteString("}\n")
	return []byte(text.String())
}

func TestAFileOfManyThousandMistakesInOneLineIsRefusedWithTheFirstOnes(t *testing.T) {
	t.Parallel()
	const many = 50_000
	for name, key := range map[string]string{
		"unknown keys": "k%d: 1", "unknown keys in quotes": `"k%d": 'x y'`, "secrets": "secret%d: zqx",
		"references to secrets": "token%d: env:A",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := strict.Load("file.yaml", oneLine(many, key), manyFile{})
			var wrong *strict.Error
			if !errors.As(err, &wrong) || len(wrong.Problems) != many {
				t.Fatalf("%d problems, want %d: %.300v", len(wrong.Problems), many, err)
			}
			if told := err.Error(); strings.Contains(told, "zqx") || len(told) > 20*1000 ||
				!strings.Contains(told, fmt.Sprintf("… and %d more", many-20)) {
				t.Errorf("it says\n%.3000s", told)
			}
		})
	}
}

// BenchmarkOneLine refuses 60,000 keys in one line beside 6,000: ten times as many take about ten times as long.
func BenchmarkOneLine(b *testing.B) {
	for name, key := range map[string]string{"unknown": "k%d: 1", "secrets": "token%d: zq"} {
		for _, n := range []int{6_000, 60_000} {
			file := oneLine(n, key)
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if _, _, err := strict.Load("file.yaml", file, manyFile{}); err == nil {
						b.Fatal("unknown keys are accepted")
					}
				}
			})
		}
	}
}

func TestAFileOfManyThousandKeysIsReadWhole(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("name: x\nwords:\n")
	for i := range 60_000 {
		fmt.Fprintf(&text, "  k%d: v\n", i)
	}
	got, _, err := strict.Load("file.yaml", []byte(text.String()), manyFile{})
	if err != nil || len(got.Words) != 60_000 {
		t.Errorf("%d words, %v", len(got.Words), err)
	}
}
