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

// writers are the files of commands and pages that write to the ledger themselves, and what they store. It is what a
// machine found or did. What people decide goes through package admin.
var writers = map[string]string{
	"cmd/payersync/check_probe.go":              "the result of a trial of updates",
	"cmd/payersync/fleet_runs.go":               "nothing: it reads the last run and whether it goes on",
	"cmd/payersync/internal/session/account.go": "the account of the configuration, at the opening",
	"cmd/payersync/internal/session/proof.go":   "the organisation that the accounting system names",
	"cmd/payersync/jobs.go":                     "the begin and the end of a job",
	"cmd/payersync/ledger.go":                   "the begin and the end of a backup",
	"cmd/payersync/reload.go":                   "the configuration that serve works with",
	"cmd/payersync/scheduled.go":                "a mapping that does not fit its source",
	"cmd/payersync/subscription.go":             "the webhook subscription that the billing service shows",
	"cmd/payersync/webhooks.go":                 "the webhook subscription just made",
	"cmd/payersync/webhooks_keys.go":            "the stages of an exchange of the webhooks' key",
	"connector/pages/door.go":                   "wrong passwords",
	"connector/pages/login.go":                  "sign-ins",
}

var writesLedger = regexp.MustCompile(`[lL]edger(\(\))?\.(Do|DoAlone)\(`)

func TestCommandsAndPagesActThroughPackageAdmin(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for _, folder := range []string{"cmd/payersync", "connector/pages"} {
		err := fs.WalkDir(os.DirFS(".."), folder, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile("../" + name)
			if err == nil && writesLedger.Match(text) {
				met[name] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range met {
		if writers[name] == "" {
			t.Errorf("%s writes to the ledger: let package admin do it, or say here what it stores", name)
		}
	}
	for name := range writers {
		if !met[name] {
			t.Errorf("%s is listed and does not write to the ledger", name)
		}
	}
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
