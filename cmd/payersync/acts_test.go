package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
)

// constantsOf returns the values of the constants of a type in a file.
func constantsOf(t *testing.T, file, of string) (values []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if name, ok := v.Type.(*ast.Ident); ok && name.Name == of && len(v.Values) == 1 {
				text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, text)
			}
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no constant of the type %s", file, of)
	}
	return values
}

func TestEveryActAndEveryStepHasACommand(t *testing.T) {
	t.Parallel()
	root := (&app{program: program{Console: &show.Console{}, getenv: os.LookupEnv}}).root()
	exists := func(what, command string) {
		if c, _, err := root.Find(strings.Fields(command)); command == "" || err != nil || !c.Runnable() {
			t.Errorf("%s has the command %q, which does not exist: %v", what, command, err)
		}
	}
	for _, act := range constantsOf(t, "../../connector/reason.go", "Act") {
		if _, ok := admin.Acts[connector.Act(act)]; !ok {
			t.Errorf("nothing is known about the act %s", act)
		}
		exists(act, actCommands[connector.Act(act)])
	}
	for _, do := range constantsOf(t, "../../connector/step.go", "Do") {
		if connector.Do(do) == connector.DoListRuns { // the pages alone list runs
			continue
		}
		exists(do, stepCommands[connector.Do(do)])
		if line := stepCommand(connector.Step{Do: connector.Do(do), Of: "x", Connection: "acme"}); strings.Contains(line,
			"OF") || strings.Contains(line, "CONNECTION") {
			t.Errorf("%s is written %q", do, line)
		}
	}
}
