package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"payersync/cmd/payersync/guides"
	"payersync/cmd/payersync/internal/show"
)

// A guideWalk says how the commands of a guide are played.
type guideWalk struct {
	guide  string
	before []string          // typed first, so that there is something to work on
	ends   map[string]int    // how lines end that do not end with 0, by their beginning
	others map[string]string // lines that a test or script plays instead, by their beginning
}

// sampleCompany makes the company of the guides: 36 customers at the sandbox. Its sandbox is fast.
var sampleCompany = []string{
	`payersync init --csv customers.csv --name "Harbour Books" --ask everybody --yes .`,
	`sed -i 's/^billing:/billing:\n  rate_per_second: 500/' payersync.yaml`,
	`payersync sandbox &`,
}

// backfilled is the company of the guides after its first run.
var backfilled = append(slices.Clone(sampleCompany), "payersync backfill || test $? = 3")

// withPages is the company with serve's pages for colleagues.
var withPages = append(slices.Clone(backfilled),
	`sed -i 's/^server: {/server: {admin: "127.0.0.1:8070", /' payersync.yaml`)

var guideWalks = []guideWalk{
	{guide: "first-hour", ends: map[string]int{"payersync plan": exitApproval, "payersync backfill": exitAttention}},
	{guide: "pages", before: withPages, others: map[string]string{"payersync pages\n": "clicks_test.go"}},
	{guide: "letters", before: backfilled, others: map[string]string{
		"payersync letters plan":           "testdata/script/letters.txtar",
		"payersync letters approve":        "testdata/script/letters.txtar",
		"payersync letters pause":          "testdata/script/letters.txtar",
		"payersync letters pause --undo":   "testdata/script/letters.txtar",
		"payersync letters list":           "testdata/script/letters.txtar",
		"payersync letters preview":        "testdata/script/letters-templates.txtar",
		"payersync letters preview --test": "testdata/script/letters-templates.txtar",
	}},
	{guide: "mapping", before: backfilled,
		ends: map[string]int{"payersync mapping check": exitAttention, "payersync mapping check --coverage": exitDone,
			"payersync sync": exitAttention}, others: map[string]string{
			"payersync plan approve": "testdata/script/plans.txtar", "payersync plan reject": "testdata/script/plans.txtar",
		}},
	{guide: "billing", before: backfilled, ends: map[string]int{"payersync plan": exitAttention},
		others: map[string]string{"payersync webhooks subscribe --test": "testdata/script/adfin.txtar"}},
	{guide: "operations", before: append(slices.Clone(backfilled), "mkdir -m 700 backups")},
	{guide: "privacy", before: backfilled},
	{guide: "how-it-works", before: backfilled,
		ends: map[string]int{"payersync plan": exitAttention, "payersync sync": exitAttention}},
	{guide: "sources", before: []string{"payersync sandbox &"}},
	{guide: "matching", before: backfilled, others: map[string]string{
		"payersync plan": "testdata/script/match.txtar", "payersync payers match": "testdata/script/match.txtar",
		"payersync backfill":     "testdata/script/match.txtar",
		"payersync sync":         "testdata/script/connections.txtar",
		"payersync connections":  "testdata/script/connections.txtar",
		"payersync payers moved": "testdata/script/rekey.txtar", "payersync payers undo": "testdata/script/undo.txtar",
		"payersync payers different": "testdata/script/link.txtar", "payersync payers same": "testdata/script/link.txtar",
	}},
}

// walkGuides types the commands of every guide at a terminal, each guide in a folder of its own
// with the program in the path.
func walkGuides(t *testing.T, program string) {
	t.Helper()
	export, err := os.ReadFile("../../configs/quickstart/customers.csv")
	if err != nil {
		t.Fatal(err)
	}
	walked := []string{"many-machines"} // fleet_guide_test.go plays it
	for _, w := range guideWalks {
		walked = append(walked, w.guide)
		t.Run(w.guide, func(t *testing.T) {
			g, found := guides.Find(w.guide)
			if !found {
				t.Fatal("there is no such guide")
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "customers.csv"), export, 0o600); err != nil {
				t.Fatal(err)
			}
			lines := append([]string{"export PATH=" + filepath.Dir(program) + ":$PATH"}, w.before...)
			played := 0
			for _, line := range shellLines(strings.ReplaceAll(g.Text, "2026-11-20", time.Now().UTC().Format(time.DateOnly))) {
				if other := playedBy(line, w.others); other == "" {
					lines, played = append(lines, line), played+1
				} else if text, err := os.ReadFile(filepath.FromSlash(other)); err != nil || !plays(string(text), commandIn(line)) {
					t.Errorf("%s does not play %s (%v)", other, commandIn(line), err)
				}
			}
			if played == 0 {
				t.Fatal("no command of the guide is played here")
			}
			expectEnds(t, w.guide, lines, walk(t, dir, lines), w.ends)
		})
	}
	for _, g := range guides.All() {
		if !slices.Contains(walked, g.Name) && len(shellLines(g.Text)) > 0 {
			t.Errorf("nothing says how the commands of the guide %s are played", g.Name)
		}
	}
}

// playedBy returns the file whose test runs a line, "" for this test.
func playedBy(line string, others map[string]string) string {
	for begins, file := range others {
		if strings.HasPrefix(line+"\n", begins) {
			return file
		}
	}
	return ""
}

// plays reports whether a script, or a test in Go, runs a command.
func plays(text, command string) bool {
	words := strings.Fields(command)[1:]
	return strings.Contains(text, command) || strings.Contains(text, `"`+strings.Join(words, `", "`)+`"`)
}

// commandIn returns the command of a line, without flags and arguments.
func commandIn(line string) string {
	c, _, err := newRoot().Find(strings.Fields(line)[1:])
	if err != nil {
		return line
	}
	return c.CommandPath()
}

// newRoot returns the commands of the program, to look them up.
func newRoot() *cobra.Command {
	a := &app{program: program{Console: &show.Console{}, getenv: func(string) (string, bool) { return "", false }}}
	root := a.root()
	root.InitDefaultHelpCmd()
	return root
}

// command is a command line of payersync in a text, as a block or in the middle of a sentence.
var (
	inSentence = regexp.MustCompile("`((?:\\./)?payersync [^`\\n]+)`")
	fileAfter  = regexp.MustCompile(`\s*(>|&&|\|).*$|\s*&$`)
	word       = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)
)

// TestEveryCommandThatIsWrittenDownExists parses every command line of the README and the guides:
// the command, its flags and how many arguments it takes.
func TestEveryCommandThatIsWrittenDownExists(t *testing.T) {
	t.Parallel()
	texts := map[string]string{}
	for _, g := range guides.All() {
		texts[g.Name] = g.Text
	}
	for _, name := range []string{"README.md", "configs/README.md", "mapping/README.md", "state/README.md",
		"SECURITY.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	found := 0
	for name, text := range texts {
		lines := shellLines(text)
		for _, m := range inSentence.FindAllStringSubmatch(text, -1) {
			lines = append(lines, m[1])
		}
		for _, line := range lines {
			line, isOurs := strings.CutPrefix(strings.TrimPrefix(fileAfter.ReplaceAllString(line, ""), "./"), "payersync ")
			if !isOurs {
				continue
			}
			found++
			if problem := unparsed(line); problem != "" {
				t.Errorf("%s: payersync %s: %s", name, line, problem)
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d command lines were found", found)
	}
}

// unparsed returns the mistake in a command line, "" for none.
func unparsed(line string) string {
	var args []string
	for _, w := range word.FindAllString(line, -1) {
		args = append(args, strings.Trim(w, `"'`))
	}
	root := newRoot()
	c, rest, err := root.Find(args)
	switch {
	case err != nil:
		return err.Error()
	case c == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		return "there is no such command"
	}
	if err := c.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return err.Error()
	}
	if c.HasSubCommands() && len(c.Flags().Args()) > 0 && !c.Runnable() {
		return "there is no such command"
	}
	if len(rest) == 0 { // a sentence may name a command without its arguments
		return ""
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		return err.Error()
	}
	return ""
}
