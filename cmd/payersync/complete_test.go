package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
)

// completed returns what a shell would propose for the last word of a command line.
func (w *world) completed(words ...string) []string {
	w.t.Helper()
	shell := exec.CommandContext(w.t.Context(), "payersync", append([]string{"__complete"}, words...)...)
	shell.Env = append(os.Environ(), "PAYERSYNC_CONFIG="+w.path("payersync.yaml"))
	proposed, err := shell.Output()
	if err != nil {
		w.t.Fatalf("payersync __complete %q: %v", words, err)
	}
	var out []string
	for line := range strings.Lines(string(proposed)) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); word != "" && !strings.HasPrefix(word, ":") {
			out = append(out, word)
		}
	}
	return out
}

func TestAShellCompletesWhatTheConfigurationAndTheLedgerHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(30))
	w.remove("payersync.db")
	if got := w.completed("plan", "approve", ""); got != nil {
		t.Errorf("without a ledger there are the plans %q", got)
	}
	if _, err := os.Stat(w.path("payersync.db")); err == nil {
		t.Error("completing made a ledger")
	}
	w.expect(exitApproval, "sync")
	var reasons string
	for _, r := range slices.Sorted(maps.Keys(connector.Reasons)) {
		reasons = strings.TrimSpace(reasons + " " + string(r))
	}
	version := hashOf([]byte(worldMapping))[:shortHash]
	for _, tt := range []struct {
		line string
		want string
	}{
		{"sync ", "acme"},
		{"sync acme ", ""},
		{"payers list --connection ", "acme"},
		{"payers list --state ", "new creating linked missing conflict held"},
		{"attention list --reason ", reasons},
		{"attention close X --reason ", ""},
		{"plan approve ", "1"},
		{"plan approve 1 ", ""},
		{"plan approve 1 --only ", "create adopt update link"},
		{"plan show ", "1"},
		{"mapping history --diff ", version},
		{"mapping history --diff " + version + " ", ""},
		{"mapping rollback ", version},
		{"mapping check ", "acme"},
		{"status --output ", "table json"},
		{"completion ", "bash fish powershell zsh"},
		{"payers show ", ""},
	} {
		words := strings.Split(tt.line, " ")
		if got := strings.Join(w.completed(words...), " "); got != tt.want {
			t.Errorf("payersync %s is completed to %q, want %q", tt.line, got, tt.want)
		}
	}
	w.write("payersync.yaml", "nonsense")
	if got := w.completed("sync", ""); got != nil {
		t.Errorf("with a configuration that cannot be read there are the connections %q", got)
	}
}

func TestEveryShellGetsAScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		if r := w.expect(exitDone, "completion", shell); !strings.Contains(r.out, "__complete") {
			t.Errorf("the script for %s asks for no completions:\n%s", shell, r.out)
		}
	}
	if r := w.run("completion", "tcsh"); r.code != exitUsage ||
		!strings.Contains(r.errOut, "SHELL is one of bash, fish, powershell, zsh") {
		t.Errorf("an unknown shell ended with %d: %s", r.code, r.errOut)
	}
}

func TestEveryCommandHasAManualPageThatOthersMayRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	dir := w.path("man1")
	w.expect(exitDone, "man", dir)
	a := &app{program: program{Console: &show.Console{}, getenv: os.LookupEnv}}
	for _, c := range commandsBelow(a.root()) {
		if c.Hidden {
			continue
		}
		page := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		text, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
			continue
		}
		if first := strings.Fields(c.Short)[0]; !strings.Contains(string(text), first) ||
			!strings.Contains(string(text), ".SH EXAMPLE") {
			t.Errorf("%s says neither what it is for nor how:\n%s", page, text)
		}
		if info, err := os.Stat(page); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s has mode %v, %v", page, info.Mode(), err)
		}
	}
}
