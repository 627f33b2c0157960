package mapping

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/mapping/strict"
)

// covers F75
func TestWrongMappingsAreExplained(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/wrong/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no wrong files found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, err := Load("mapping.yaml", data, xero())
			if err == nil {
				err = m.CheckExamples()
			}
			var wrong *strict.Error
			if !errors.As(err, &wrong) {
				t.Fatalf("Load = %v, want a *strict.Error", err)
			}
			checkGolden(t, strings.TrimSuffix(file, ".yaml")+".golden", wrong.Error()+"\n")
		})
	}
}

func TestWrongExpressionsAreExplained(t *testing.T) {
	t.Parallel()
	input, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for expression := range strings.Lines(string(input)) {
		yaml := "version: 1\nsource: xero\nkey: {id: ContactID}\ncustomer:\n  name: >-\n    " + expression
		_, err := Load("m.yaml", []byte(yaml), xero())
		var wrong *strict.Error
		if !errors.As(err, &wrong) {
			t.Errorf("Load of %s = %v, want a *strict.Error", expression, err)
			continue
		}
		fmt.Fprintf(&got, "%s\n\n", wrong)
	}
	if leak := regexp.MustCompile(`interface|struct|float64|\bbool\b|\[\]string|reflect|goroutine`).FindString(got.String()); leak != "" {
		t.Errorf("a message names the Go type %q", leak)
	}
	checkGolden(t, "testdata/expressions.golden", got.String())
}

func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, diff)
	}
}
