package connector_test

import (
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
)

// actsOfLedger are the methods of the ledger and of a write that note a person's act. Package admin calls them.
var actsOfLedger = []string{
	"AddLetterStop", "CloseSubscription", "DecideAsking", "DismissDelivery", "EndLetterStop", "PutOff", "ReplayDelivery",
	"RetryRecord", "Revive", "SaveWord", "SayOfLetter",
	"TakeWordBack", "TellApart", "Unforget",
}

// The commands and the pages perform acts through package admin alone: they call no method of the ledger that notes
// one, and no method of the syncer that takes a person.
func TestCommandsAndPagesPerformActsThroughOffice(t *testing.T) {
	t.Parallel()
	files, err := parseModule(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	acts := slices.Clone(actsOfLedger)
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			if of, ok := d.(*ast.FuncDecl); ok && f.pkg == "connector/syncer" && !f.inTest && of.Recv != nil && takesPerson(of) {
				acts = append(acts, "Syncer."+of.Name.Name)
			}
		}
	}
	if len(acts) < len(actsOfLedger)+10 {
		t.Fatalf("the acts of the syncer were not found: %q", acts)
	}
	for _, f := range files {
		if f.inTest || f.pkg != "cmd/payersync" && f.pkg != "connector/pages" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			called, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			call, ok := called.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			name := call.Sel.Name
			if of, ok := call.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Syncer" {
				name = "Syncer." + name
			}
			if slices.Contains(acts, name) {
				t.Errorf("%s performs %s past package admin", f.name, name)
			}
			return true
		})
	}
}

// takesPerson reports whether an exported function has a parameter of the type Operator.
func takesPerson(f *ast.FuncDecl) bool {
	return f.Name.IsExported() && slices.ContainsFunc(f.Type.Params.List, func(p *ast.Field) bool {
		name, ok := p.Type.(*ast.Ident)
		return ok && strings.HasSuffix(name.Name, "Operator")
	})
}
