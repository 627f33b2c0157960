package main

import (
	"io"
	"strings"
	"testing"

	"payersync/cmd/payersync/internal/show"
)

func TestAnEarlierNameOfACommandStandsForThePresentOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ given, want string }{
		{"approve 12 --only create", "plan approve 12 --only create"},
		{"--config x.yaml approve 12", "--config x.yaml plan approve 12"},
		{"--config=x.yaml --verbose plans --output json list --all",
			"--config=x.yaml --verbose plan list --output json --all"},
		{"plans", "plan list"},
		{"mandates letters stop C0001 --note approve", "letters stop C0001 --note approve"},
		{"mandates letters", "letters"},
		{"help approve", "help plan approve"},
		{"help mandates letters plan", "help letters plan"},
		{"payers drift take C0001 --field name", "payers drift --take C0001 --field name"},
		{"--config x.yaml environment show", "--config x.yaml environment"},
		{"mandates letters again 12", "letters send --again 12"},
		{"plan approve 12", "plan approve 12"},
		{"mandates list letters", "mandates list letters"},
		{"--config approve plan", "--config approve plan"},
		{"payers show approve", "payers show approve"},
		{"-- approve", "-- approve"},
		{"", ""},
	} {
		got, from, to := presentNames(strings.Fields(c.given))
		if strings.Join(got, " ") != c.want || (from == "") != (c.given == c.want) || (from == "") != (to == "") {
			t.Errorf("%q stands for %q (%q is %q), not for %q", c.given, strings.Join(got, " "), from, to, c.want)
		}
	}
}

func TestEachPresentNameIsACommandAndNoEarlierOneIs(t *testing.T) {
	t.Parallel()
	a := &app{program: program{Console: &show.Console{Out: io.Discard, ErrOut: io.Discard},
		getenv: func(string) (string, bool) { return "", false }}}
	for from, to := range formerCommands {
		to, way, _ := strings.Cut(to, " --")
		c, rest, err := a.root().Find(strings.Fields(to))
		switch {
		case err != nil || len(rest) > 0:
			t.Errorf("%q is now %q, and that is no command.", from, to)
		case way != "" && c.Flags().Lookup(way) == nil:
			t.Errorf("%q is now %q with --%s, and that is no flag.", from, to, way)
		}
		if c, rest, err := a.root().Find(strings.Fields(from)); err == nil && len(rest) == 0 && c != a.root() {
			t.Errorf("%q is an earlier name, and a command too.", from)
		}
	}
}
