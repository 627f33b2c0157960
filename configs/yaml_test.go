package configs_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v4"
)

func TestEveryShippedYAMLFileIsWellFormedAndExplainsItself(t *testing.T) {
	t.Parallel()
	shipped := os.DirFS(".")
	err := fs.WalkDir(shipped, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := fs.ReadFile(shipped, path)
		if err != nil {
			return err
		}
		var content map[string]any
		if err := yaml.Unmarshal(text, &content); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s does not begin with a comment that says what it is", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
