package state

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Conclusions are stored for display: findings, the state of a link, and the class of a record. Nothing
// decides by them, except the readers here.
var readers = map[string]string{
	"replaceFindings":   "keeps since when a telling stays",
	"CloseConfirmed":    "takes tellings back",
	"DropMissing":       "takes back what was told of records that are gone",
	"settleColumns":     "writes only news",
	"conclude":          "writes",
	"confirmed":         "writes",
	"knownBefore":       "whether there is something to take back",
	"savePayer":         "writes",
	"freezeAll":         "writes only news",
	"Thaw":              "writes only news",
	"SaveCreated":       "writes only news",
	"eachWithFinding":   "asks whether people are told",
	"Created":           "writes",
	"LinkPayer":         "writes",
	"handOver":          "writes",
	"closeConnection":   "writes",
	"ReopenBooks":       "writes",
	"emptyPayer":        "writes",
	"erase":             "writes",
	"ReplanSimilar":     "says who is decided on once more, by facts",
	"wakeMatches":       "says who is decided on once more, by facts",
	"SetLinkOnly":       "says who is decided on once more, by facts",
	"countChanged":      "counts",
	"countMet":          "counts",
	"classesOf":         "counts",
	"payerCounts":       "counts for people",
	"OpenMatches":       "is a list for people",
	"updateOpenMatches": "ends what people are told once they decide",
	"workLeft":          "says whether a run is complete",
	"countHolds":        "counts for people",
	"toldOfRecords":     "counts for people",
	"firstTold":         "is a list for people",
	"toldWithClass":     "counts for people",
	"known":             "asks whether people are told, and less of payers that are linked",
	"tellings":          "is a list for people",
	"reportedQuery":     "narrows a list for people",
	"PutOff":            "asks whether people are told",
	"storedFindings":    "compares what people are told with what is decided",
	"LostMandates":      "is a list for people",
	"payerColumns":      "shows how a payer is linked",
	"DoubledKeys":       "shows how a payer is linked",
	"EachPayer":         "is a view",
	"listedColumns":     "is a list for people",
	"narrow":            "narrows that list",
	"sorts":             "sorts it",
	"readinessColumns":  "says where records stand; who is written to is decided by facts, and only narrowed by it",
	"findings":          "counts what people are told",
	"records":           "counts where records stand, for people",
	"LostBy":            "is a view",
	"LinkedCount":       "finds payers by an index; by a constraint the state does not change the count",
}

func TestNothingIsDecidedByWhatWasConcluded(t *testing.T) {
	t.Parallel()
	conclusion := regexp.MustCompile(`(?i)\b(v_)?attention\b|\blink_state\b|\bclass\b`)
	reads := regexp.MustCompile(`(?is)\bselect\b|\bwhere\b|\bon conflict\b|p\.link_state|r\.class`)
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	look := func(name string, in ast.Node) {
		ast.Inspect(in, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && conclusion.MatchString(lit.Value) &&
				reads.MatchString(lit.Value) {
				found[name] = true
			}
			return true
		})
	}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				look(d.Name.Name, d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						look(v.Names[0].Name, v)
					}
				}
			}
		}
	}
	for name := range found {
		if readers[name] == "" {
			t.Errorf("%s reads what was concluded: decide by facts, or say here what it reads it for", name)
		}
	}
	for name := range readers {
		if !found[name] {
			t.Errorf("%s is listed and reads no conclusion", name)
		}
	}
}
