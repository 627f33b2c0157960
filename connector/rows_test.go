package connector_test

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// row is one numbered line of a table of FAULTS.md: a fault to survive (F), an invariant of safety (S),
// liveness (L) or visibility (V), or a goal (G).
type row struct {
	id, what string
	places   []string // where it is seen to: a package, or a name in one
	untested string   // why no test covers it; blank where tests do
}

func (r row) goal() bool { return strings.HasPrefix(r.id, "G") }

var spanned = regexp.MustCompile("`([^`]+)`")

// rowsOf returns the rows of a page, and a sentence for every line that would be
// one and cannot be read.
func rowsOf(page string) (rows []row, problems []string) {
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !rowID.MatchString(cells[0]) {
			continue
		}
		r := row{id: cells[0]}
		last := cells[len(cells)-1]
		switch {
		case slices.Contains(cells, "") || len(cells) < 2 || len(cells) < 3 && !r.goal():
			problems = append(problems, r.id+" lacks a cell: it needs what goes wrong or must hold, and where it is seen to")
			continue
		case strings.HasPrefix(last, "no test: "):
			r.untested = strings.TrimPrefix(last, "no test: ")
		case !r.goal():
			for _, span := range spanned.FindAllStringSubmatch(last, -1) {
				r.places = append(r.places, span[1])
			}
		}
		r.what = cells[1]
		rows = append(rows, r)
	}
	return rows, problems
}

func TestRowsAreReadFromTheirTables(t *testing.T) {
	t.Parallel()
	const page = `# Faults
F09 in a sentence is no row.
| no. | what goes wrong | what must hold | where |
|---|---|---|---|
| F01 | a crash | Nothing is lost. | ` + "`state.Open`, `syncer`" + ` |
| F02 | a fire | Nothing burns. | no test: not built yet: all of it |
| F03 | a flood | |
| S1 | one customer | ` + "`syncer`" + ` |
| G7 | a hundred of them |
`
	rows, problems := rowsOf(page)
	want := []row{
		{id: "F01", what: "a crash", places: []string{"state.Open", "syncer"}},
		{id: "F02", what: "a fire", untested: "not built yet: all of it"},
		{id: "S1", what: "one customer", places: []string{"syncer"}},
		{id: "G7", what: "a hundred of them"},
	}
	if diff := cmp.Diff(want, rows, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if want := []string{"F03 lacks a cell: it needs what goes wrong or must hold, and where it is seen to"}; !slices.Equal(problems, want) {
		t.Errorf("problems %q, want %q", problems, want)
	}
}

// TestFaultsAreSeenToWhereThePageSays looks for the packages and names in the last
// column of FAULTS.md.
func TestFaultsAreSeenToWhereThePageSays(t *testing.T) {
	t.Parallel()
	files, err := parseModule(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	rows, _ := rowsOf(readFile(t, "FAULTS.md"))
	if len(rows) < 100 {
		t.Fatalf("FAULTS.md has %d rows: this check has lost its subject", len(rows))
	}
	for _, problem := range misplaced(rows, declarations(files)) {
		t.Error(problem)
	}
}

func TestAPlaceThatIsNotThereIsReported(t *testing.T) {
	t.Parallel()
	declared := map[string]map[string]bool{"state": {"Ledger": true, "Do": true}}
	rows := []row{
		{id: "F01", places: []string{"state", "state.Ledger", "state.Ledger.Do"}},
		{id: "F02", places: []string{"estate"}},
		{id: "F03", places: []string{"state.Undo"}},
		{id: "F04"},
		{id: "F05", untested: "not built yet"},
		{id: "G1"},
	}
	want := []string{
		"F02 is seen to in `estate`, which is not there",
		"F03 is seen to in `state.Undo`, which is not there",
		"F04 does not say where it is seen to",
	}
	if diff := cmp.Diff(want, misplaced(rows, declared)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// declarations returns what every package declares outside its tests, by the last
// element of its path.
func declarations(files []goFile) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, f := range files {
		pkg := path.Base(f.pkg)
		if out[pkg] == nil {
			out[pkg] = map[string]bool{}
		}
		if strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		for node := range ast.Preorder(f.syntax) {
			switch d := node.(type) {
			case *ast.FuncDecl:
				out[pkg][d.Name.Name] = true
			case *ast.TypeSpec:
				out[pkg][d.Name.Name] = true
			case *ast.ValueSpec:
				for _, name := range d.Names {
					out[pkg][name.Name] = true
				}
			case *ast.StructType:
				for _, field := range d.Fields.List {
					for _, name := range field.Names {
						out[pkg][name.Name] = true
					}
				}
			}
		}
	}
	return out
}

// misplaced returns a sentence for every place that does not exist, and for every row without one.
func misplaced(rows []row, declared map[string]map[string]bool) (problems []string) {
	for _, r := range rows {
		if len(r.places) == 0 && r.untested == "" && !r.goal() {
			problems = append(problems, r.id+" does not say where it is seen to")
		}
		for _, place := range r.places {
			pkg, names, _ := strings.Cut(place, ".")
			missing := declared[pkg] == nil
			for name := range strings.SplitSeq(names, ".") {
				missing = missing || name != "" && !declared[pkg][name]
			}
			if missing {
				problems = append(problems, fmt.Sprintf("%s is seen to in `%s`, which is not there", r.id, place))
			}
		}
	}
	return problems
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
