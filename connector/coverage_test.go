package connector_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// A test says which rows of FAULTS.md it covers in a line of the comment above it:
//
//	// covers F02, S1
//
// A goal (G) may be named beside them; goals are numbers to reach and need no
// test. The simulation's oracle covers a row by judging it: violate("S1", …).
//
// TestEveryRowIsCoveredOrSaysWhyNot prints the table of rows and tests:
//
//	go test ./connector -run EveryRow -v
func TestEveryRowIsCoveredOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	files, err := parseModule(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	rows, problems := rowsOf(readFile(t, "FAULTS.md"))
	covered, stray := coverage(files)
	for _, problem := range slices.Concat(problems, stray, judge(rows, covered)) {
		t.Error(problem)
	}
	t.Log("\n" + table(rows, covered))
}

func TestCoverageCheckReportsEachMistake(t *testing.T) {
	t.Parallel()
	const test = "func TestOne(t *testing.T) {}\n"
	tests := []struct {
		name, file, source string
		rows               []row
		want               []string
	}{
		{"a row without a test", "a/a_test.go", "// covers F01\n" + test,
			[]row{{id: "F01"}, {id: "F02", what: "a lost answer"}},
			[]string{"F02 (a lost answer) is named by no test and has no reason: tag the test that covers it, or say why there is none"}},
		{"a reason beside a test", "a/a_test.go", "// covers F01\n" + test,
			[]row{{id: "F01", untested: "not built yet: all of it"}},
			[]string{`F01 is covered by a.TestOne: remove its reason "not built yet: all of it"`}},
		{"a row nobody knows", "a/a_test.go", "// covers F99, F01\n" + test, []row{{id: "F01"}},
			[]string{"a.TestOne covers F99, which is no row"}},
		{"a goal nobody set", "a/a_test.go", "// covers F01, G24\n" + test, []row{{id: "F01"}},
			[]string{"a.TestOne covers G24, which is no row"}},
		{"a goal beside a row", "a/a_test.go", "// covers F01, G7\n" + test, []row{{id: "F01"}, {id: "G7"}, {id: "G8"}}, nil},
		{"a sentence for a list", "a/a_test.go", "// covers F01 and F02\n" + test, []row{{id: "F01"}},
			[]string{"a.TestOne covers F01 and F02, which is no row",
				"F01 () is named by no test and has no reason: tag the test that covers it, or say why there is none"}},
		{"a tag above no test", "a/a_test.go", test + "// covers F01\nvar x = 1\n", []row{{id: "F01", untested: "a reason"}},
			[]string{`a/a_test.go: "covers F01" is above no test`}},
		{"a tag above a helper", "a/a_test.go", "// covers F01\nfunc helper() {}\n", []row{{id: "F01", untested: "a reason"}},
			[]string{`a/a_test.go: "covers F01" is above no test`}},
		{"a tag in the product", "a/a.go", "// covers F01\nfunc TestOne() {}\n", []row{{id: "F01", untested: "a reason"}},
			nil},
		{"an oracle that judges an unknown row", "connector/simulation/oracle.go",
			`func (o *oracle) f() { o.w.violate("S99", "x") }`, nil,
			[]string{"connector/simulation.oracle covers S99, which is no row"}},
		{"a row given twice", "a/a_test.go", "// covers F01\n" + test, []row{{id: "F01"}, {id: "F01"}},
			[]string{"F01 is in the table twice"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files, err := parseModule(fstest.MapFS{tt.file: {Data: []byte("package p\n" + tt.source)}})
			if err != nil {
				t.Fatal(err)
			}
			covered, problems := coverage(files)
			if diff := cmp.Diff(tt.want, append(problems, judge(tt.rows, covered)...)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCoverageCheckFindsTagsWhereTheyMayStand(t *testing.T) {
	t.Parallel()
	source := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("package p\n" + text)} }
	files, err := parseModule(fstest.MapFS{
		"a/a_test.go": source("// A story.\n//\n// covers F01, S1, G7\nfunc TestOne(t *testing.T) {}\n" +
			"func FuzzTwo(f *testing.F) {\n\tcases := 1 // covers F02\n\t_ = cases\n}\n"),
		"b/b_test.go":                    source("// covers F01\nfunc TestOther(t *testing.T) { _ = `// covers F99` }\n// covers no more than this sentence\nfunc helper() {}\n"),
		"connector/simulation/oracle.go": source(`func (o *oracle) f() { o.w.violate("S1", "x"); o.note("S2"); o.w.violate("harness", "x") }`),
	})
	if err != nil {
		t.Fatal(err)
	}
	covered, problems := coverage(files)
	if len(problems) > 0 {
		t.Errorf("problems: %q", problems)
	}
	want := map[string][]string{"F01": {"a.TestOne", "b.TestOther"}, "F02": {"a.FuzzTwo"},
		"S1": {"a.TestOne", "connector/simulation.oracle"}, "G7": {"a.TestOne"}}
	if diff := cmp.Diff(want, covered); diff != "" {
		t.Errorf("covered (-want +got):\n%s", diff)
	}
}

var (
	tag   = regexp.MustCompile(`^// *covers ([A-Z][0-9]+\b.*)$`)
	rowID = regexp.MustCompile(`^[A-Z][0-9]+$`)
	test  = regexp.MustCompile(`^(Test|Fuzz|Example)`)
)

// coverage returns the tests of each row, in the order of the files, and a sentence for every tag without a
// test below it.
func coverage(files []goFile) (covered map[string][]string, problems []string) {
	slices.SortFunc(files, func(a, b goFile) int { return strings.Compare(a.name, b.name) })
	covered = map[string][]string{}
	for _, f := range files {
		for _, c := range f.claims() {
			if c.by == "" {
				problems = append(problems, fmt.Sprintf("%s: %q is above no test", f.name, "covers "+c.rows))
				continue
			}
			for id := range strings.SplitSeq(c.rows, ",") {
				add(covered, strings.TrimSpace(id), f.pkg+"."+c.by)
			}
		}
	}
	return covered, problems
}

func add(covered map[string][]string, id, by string) {
	if !slices.Contains(covered[id], by) {
		covered[id] = append(covered[id], by)
	}
}

// claim is a list of rows and the test that covers them, "" when there is none.
type claim struct{ rows, by string }

func (f goFile) claims() []claim {
	if f.pkg == "connector/simulation" && !strings.HasSuffix(f.name, "_test.go") {
		return f.verdicts()
	}
	if !strings.HasSuffix(f.name, "_test.go") {
		return nil
	}
	var out []claim
	for _, group := range f.syntax.Comments {
		for _, line := range group.List {
			if found := tag.FindStringSubmatch(line.Text); found != nil {
				out = append(out, claim{found[1], f.testAt(line.Pos())})
			}
		}
	}
	return out
}

// verdicts returns a claim for every row that the simulation's oracle judges.
func (f goFile) verdicts() (out []claim) {
	for node := range ast.Preorder(f.syntax) {
		call, _ := node.(*ast.CallExpr)
		if call == nil || len(call.Args) == 0 {
			continue
		}
		called, _ := call.Fun.(*ast.SelectorExpr)
		id, _ := call.Args[0].(*ast.BasicLit)
		if called == nil || id == nil || called.Sel.Name != "violate" {
			continue
		}
		if text, _ := strconv.Unquote(id.Value); rowID.MatchString(text) { // the oracle has names of its own beside
			out = append(out, claim{text, "oracle"})
		}
	}
	return out
}

// testAt returns the test whose comment or body holds the place, or "".
func (f goFile) testAt(at token.Pos) string {
	for _, decl := range f.syntax.Decls {
		fn, _ := decl.(*ast.FuncDecl)
		if fn == nil || !test.MatchString(fn.Name.Name) {
			continue
		}
		from := fn.Pos()
		if fn.Doc != nil {
			from = fn.Doc.Pos()
		}
		if from <= at && at < fn.End() {
			return fn.Name.Name
		}
	}
	return ""
}

// judge returns a sentence for every row, and every name of one, that is not as
// it should be.
func judge(rows []row, covered map[string][]string) (problems []string) {
	known := map[string]bool{}
	for _, r := range rows {
		if known[r.id] {
			problems = append(problems, r.id+" is in the table twice")
		}
		known[r.id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(covered)) {
		if !known[id] {
			problems = append(problems, fmt.Sprintf("%s covers %s, which is no row", covered[id][0], id))
		}
	}
	for _, r := range rows {
		switch by := covered[r.id]; {
		case r.goal():
		case len(by) == 0 && r.untested == "":
			problems = append(problems,
				fmt.Sprintf("%s (%s) is named by no test and has no reason: tag the test that covers it, or say why there is none",
					r.id, r.what))
		case len(by) > 0 && r.untested != "":
			problems = append(problems,
				fmt.Sprintf("%s is covered by %s: remove its reason %q", r.id, strings.Join(by, ", "), r.untested))
		}
	}
	return problems
}

// table shows every row with its tests, or the reason why it has none.
func table(rows []row, covered map[string][]string) string {
	var out strings.Builder
	rows = slices.DeleteFunc(slices.Clone(rows), row.goal)
	tested := 0
	for _, r := range rows {
		fmt.Fprintf(&out, "%-4s %s\n", r.id, r.what)
		if r.untested != "" {
			fmt.Fprintf(&out, "       no test: %s\n", r.untested)
			continue
		}
		tested++
		for _, by := range covered[r.id] {
			fmt.Fprintf(&out, "       %s\n", by)
		}
	}
	fmt.Fprintf(&out, "%d of %d rows have tests\n", tested, len(rows))
	return out.String()
}
