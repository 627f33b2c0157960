package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The lines that init leaves for a trial of letters are a configuration once their first # is gone, for every kind of source
// whose set-up has them.
func TestTheLettersToTryAreAConfigurationWithoutTheirFirstCharacter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("customers.csv", payingExport())
	w.expect(exitDone, "init", "--csv", w.path("customers.csv"), "--name", "Muster", "--ask", "everybody",
		w.path("muster"))
	path := w.path("muster/payersync.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, letters, found := strings.Cut(string(text), "\n#letters:")
	if !found {
		t.Fatalf("no letters to try:\n%s", text)
	}
	tried := before + "\nletters:" + regexp.MustCompile(`(?m)^#`).ReplaceAllString(letters, "")
	if err := os.WriteFile(path, []byte(tried), 0o600); err != nil {
		t.Fatal(err)
	}
	set := &world{t: t, dir: w.path("muster"), box: w.box, service: w.service, hooks: w.hooks, env: w.env}
	if r := set.run("check"); !strings.Contains(r.out, "payersync writes to payers as accounts@your-company.example") {
		t.Errorf("check says of\n%s\n%s%s", tried, r.out, r.errOut)
	}
}
