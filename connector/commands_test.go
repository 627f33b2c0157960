package connector_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"payersync/connector"
)

// withoutConfiguration matches a command line of payersync that reads no configuration. connector.NameConfig knows the
// others.
var withoutConfiguration = regexp.MustCompile(`\bpayersync (?:completion|demo|help|init|man|sandbox|source|version)\b`)

// namesCommand reports whether a text names a command of payersync.
func namesCommand(text string) bool {
	return withoutConfiguration.MatchString(text) || connector.NameConfig(text, "c.yaml") != text
}

// Only package cmd knows how people type a command. The packages below it carry steps and acts as data: cmd shows them
// as commands, and the pages show them as links and buttons.
func TestNoPackageBelowCmdNamesACommand(t *testing.T) {
	t.Parallel()
	if !namesCommand("Run payersync sync.") || !namesCommand("payersync init FOLDER") ||
		namesCommand("payersync links customers") {
		t.Fatal("commands are not recognised")
	}
	files, err := parseModule(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, f := range files {
		if f.inTest || strings.HasPrefix(f.pkg, "cmd/") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				looked++
				if text, err := strconv.Unquote(l.Value); err != nil || namesCommand(text) {
					t.Errorf("%s has a text with a command, so the text needs a step or an act instead: %s (%v)", f.name, l.Value, err)
				}
			}
			return true
		})
	}
	if looked < 10_000 {
		t.Errorf("the test saw only %d texts", looked)
	}
	err = fs.WalkDir(os.DirFS(".."), "connector", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		page, err := os.ReadFile("../" + name)
		for line := range strings.Lines(string(page)) {
			if namesCommand(line) {
				t.Errorf("%s shows a command, so it needs a link, a button or a step: %s", name, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
