package strict

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

type sample struct {
	Billing block   `yaml:"billing" jsonschema:"required" jsonschema_description:"How the service is reached."`
	Others  []block `yaml:"others"`
}

type block struct {
	BaseURL      string   `yaml:"base_url" jsonschema:"required"`
	Retry        int      `yaml:"retry" jsonschema:"minimum=1"`
	Level        string   `yaml:"level" jsonschema:"enum=debug,enum=info"`
	Enabled      bool     `yaml:"enabled"`
	Events       []string `yaml:"events" jsonschema:"minItems=1"`
	Wait         wait     `yaml:"wait"`
	ClientSecret string   `yaml:"client_secret" jsonschema:"writeOnly=true"`
	Secrets      []string `yaml:"secrets" jsonschema:"writeOnly=true"`
}

type wait string

func (w *wait) UnmarshalText(b []byte) error {
	if strings.Contains(string(b), " ") {
		return fmt.Errorf("%q is no length of time", b)
	}
	*w = wait(b)
	return nil
}

func TestWrongFilesAreExplained(t *testing.T) {
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
			_, _, err = Load("payersync.yaml", data, sample{})
			var wrong *Error
			if !errors.As(err, &wrong) {
				t.Fatalf("Load = %v, want a *strict.Error", err)
			}
			checkGolden(t, strings.TrimSuffix(file, ".yaml")+".golden", wrong.Error()+"\n")
		})
	}
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
	if strings.Contains(got, "hunter2") || strings.Contains(got, "12345678") {
		t.Errorf("the message shows a secret:\n%s", got)
	}
}

func TestValuesLeftOutKeepTheirDefaults(t *testing.T) {
	t.Parallel()
	defaults := sample{Billing: block{Retry: 3, Level: "info"}}
	got, _, err := Load("payersync.yaml", []byte("billing: {base_url: x, level: debug}\n"), defaults)
	if err != nil {
		t.Fatal(err)
	}
	want := sample{Billing: block{BaseURL: "x", Retry: 3, Level: "debug"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load differs (-want +got):\n%s", diff)
	}
}

func TestValuesAreThereBesideProblemsThatDoNotConcernThem(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, yaml string
		want       string // the level that is read; "" when there is no Doc
	}{
		{"unknown key", "billing: {base_url: x, level: debug, colour: red}\n", "debug"},
		{"missing key", "billing: {level: debug}\n", "debug"},
		{"value of another kind", "billing: {base_url: x, level: debug, events: 3}\n", ""},
		{"key twice", "billing: {base_url: x, level: debug, level: info}\n", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, doc, err := Load("payersync.yaml", []byte(test.yaml), sample{})
			var wrong *Error
			if !errors.As(err, &wrong) || len(wrong.Problems) != 1 {
				t.Fatalf("Load = %v, want one problem", err)
			}
			if got.Billing.Level != test.want || (doc != nil) != (test.want != "") {
				t.Errorf("Load gives the level %q and a Doc: %v; want %q", got.Billing.Level, doc != nil, test.want)
			}
		})
	}
}

func TestPartsDecodeOntoValues(t *testing.T) {
	t.Parallel()
	_, doc, err := Load("payersync.yaml", []byte("billing: {base_url: x}\nothers: [{base_url: y, retry: 7}]\n"), sample{})
	if err != nil {
		t.Fatal(err)
	}
	got := block{Level: "debug", Retry: 1}
	if err := doc.Decode(Path{"others"}.Index(0), &got); err != nil {
		t.Fatal(err)
	}
	if err := doc.Decode(Path{"others"}.Index(1).Key("no"), &got); err != nil {
		t.Fatal(err)
	}
	want := block{BaseURL: "y", Level: "debug", Retry: 7}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Decode differs (-want +got):\n%s", diff)
	}
}

func TestFilesLargerThanTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	_, _, err := Load("payersync.yaml", bytes.Repeat([]byte("#"), MaxSize+1), sample{})
	want := "payersync.yaml: the file is larger than 1048576 bytes; check that it is the right one"
	if err == nil || err.Error() != want {
		t.Errorf("Load = %v, want %s", err, want)
	}
}

func TestProblemsInsideTextsAreFoundThroughEveryWayOfWriting(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, yaml, want string }{
		{"plain", "base_url: one X\n", "1:15"},
		{"plain over two lines", "base_url: one\n  two X\n", "2:7"},
		{"single quotes", "base_url: 'it''s X'\n", "1:18"},
		{"double quotes", "base_url: \"a\\n\\\"\\u00e4\\x20 X\"\n", "1:28"},
		{"double quotes over two lines", "base_url: \"one\n  two X\"\n", "2:7"},
		{"folded", "base_url: >-\n  one\n  two X\n", "3:7"},
		{"folded with a blank line", "base_url: >-\n  one\n\n  two X\n", "4:7"},
		{"literal", "base_url: |\n  one\n    two\n  X\n", "4:3"},
		{"literal with deep line", "base_url: |\n  one\n    two X\n", "3:9"},
		{"wide letters", "base_url: 'Bäckerei Müller X'\n", "1:28"},
		{"in a flow block", "{retry: 1, base_url: X}\n", "1:22"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, doc, err := Load("f", []byte(test.yaml), block{})
			if err != nil {
				t.Fatal(err)
			}
			before, _, found := strings.Cut(got.BaseURL, "X")
			if !found {
				t.Fatalf("the text %q has no X", got.BaseURL)
			}
			p := doc.TextProblem(Path{"base_url"}, len([]rune(before)), 1, "here")
			if at := fmt.Sprintf("%d:%d", p.Line, p.Column); at != test.want {
				t.Errorf("found at %s, want %s\n%s", at, test.want, p)
			}
		})
	}
}

func TestProblemsOfValuesThatAreNotThereStandAtTheBlockAbove(t *testing.T) {
	t.Parallel()
	_, doc, err := Load("f", []byte("billing:\n  base_url: x\nothers:\n  - base_url: y\n"), sample{})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path Path
		want string
	}{
		{Path{"billing", "base_url"}, "f:2:13: wrong\n    2 |   base_url: x\n      |             ^"},
		{Path{"billing", "retry"}, "f:1:1: wrong\n    1 | billing:\n      | ^^^^^^^"},
		{Path{"others", "0", "retry"}, "f:4:5: wrong\n    4 |   - base_url: y\n      |     ^"},
		{Path{"nothing"}, "f:1:1: wrong\n    1 | billing:\n      | ^"},
	}
	for _, test := range tests {
		if got := doc.Problem(test.path, "wrong").String(); got != test.want {
			t.Errorf("Problem(%s) =\n%s\nwant\n%s", test.path, got, test.want)
		}
	}
}

func TestSchemaIsForEditors(t *testing.T) {
	t.Parallel()
	checkGolden(t, "testdata/schema.json.golden", string(Schema[sample]()))
}

func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/wrong/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, doc, err := Load("f.yaml", data, sample{})
		var wrong *Error
		switch {
		case err == nil:
			_ = doc.TextProblem(Path{"billing", "base_url"}, 3, 1, "here").String()
		case !errors.As(err, &wrong):
			t.Fatalf("Load = %T %v, want a *strict.Error", err, err)
		case len(wrong.Problems) == 0 || wrong.Problems[0].Message == "":
			t.Fatalf("the error says nothing: %#v", wrong)
		}
	})
}
