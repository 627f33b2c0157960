package main

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestADemoAtATerminalShowsItsResultsOnOneScreenAndStaysUntilCtrlC(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	temporary := t.TempDir()
	w.env = map[string]string{"TMPDIR": temporary}
	p := w.atWidth(90, nil, "demo")
	eventually(t, "the end of the demo",
		func() bool { return strings.Contains(p.out.String(), "payersync init") || p.over() })
	shown := p.seen()
	begin := 0
	for i, line := range shown {
		if strings.HasPrefix(line, "The demo is done.") {
			begin = i
		}
	}
	if lines := len(shown) - begin; begin == 0 || lines > 24 {
		t.Errorf("The results have %d lines; a screen has 24:\n%s", lines, strings.Join(shown, "\n"))
	}
	said := strings.Join(shown, "\n")
	for _, want := range []string{"34 customers created in the billing service, each once",
		"33 signing links asked for; 1 without",
		"1 of 38 payers can be debited: 28 must sign, 3 wait for the bank, 1 cancelled", "5 need somebody"} {
		if !strings.Contains(said, want) {
			t.Errorf("The results do not say %q:\n%s", want, said)
		}
	}
	link := regexp.MustCompile(`http://\S+/signin/once/\S+`).FindString(said)
	resp, err := client.Get(link)
	w.must(err)
	if w.must(resp.Body.Close()); resp.StatusCode != http.StatusOK {
		t.Errorf("The address of the pages answers %s.", resp.Status)
	}
	p.types("\x03")
	if r := p.wait(); r.code != exitDone && r.code != exitInterrupted {
		t.Errorf("After Ctrl-C it ended with %d:\n%s", r.code, r.out)
	}
	if left, err := filepath.Glob(filepath.Join(temporary, "payersync-demo-*")); err != nil || len(left) > 0 {
		t.Errorf("It left %q behind (%v).", left, err)
	}
}
