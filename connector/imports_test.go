package connector_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// module is the path all packages of this repository begin with.
const module = "payersync"

// arrow says what one package may import from this module. to holds for every
// file, inTests for its _test.go files besides. A last element "*" in pkg stands
// for one folder; "*" in to for every product package.
type arrow struct{ pkg, to, inTests string }

// arrows is the direction of imports, one line per package; the first fitting line counts. A folder without a
// line fails, so a new package needs an entry here first.
var arrows = []arrow{
	{"connector", "", ""},
	{"connector/accounting", "connector", ""},
	{"connector/accounting/accountingtest", "connector connector/accounting", ""},
	{"connector/accounting/httpsource", "connector connector/accounting connector/transport mapping/strict",
		"configs connector/accounting/xero mapping"}, // the profile of Xero is compared with the package, and what both plan
	{"connector/accounting/*", "connector connector/accounting connector/transport", ""},
	{"connector/accounting/*/*test", "connector", ""}, // models of the systems
	{"connector/billing", "connector connector/transport", ""},
	{"connector/alarm", "connector connector/health connector/mail connector/outbox connector/webhook state",
		"connector/transport connector/worker state/statetest"},
	{"connector/health", "connector connector/syncer connector/worker state", "state/statetest"},
	{"connector/credentials", "connector connector/transport state", "state/statetest"},
	{"connector/credentials/credentialstest", "connector", ""},
	{"connector/letters", "connector connector/mail connector/outbox connector/reconcile connector/readiness state",
		"connector/accounting connector/billing connector/letters/templates connector/mail/mailtest connector/sandbox connector/syncer connector/transport mapping state/statetest"},
	{"connector/letters/templates", "connector connector/letters connector/mail mapping/strict", ""},
	{"connector/mail", "connector", ""},
	{"connector/mail/mailtest", "connector connector/mail", ""},
	{"connector/match", "connector connector/safecsv", ""},
	{"connector/heap", "", ""},
	{"connector/metrics", "connector connector/reconcile connector/server connector/transport state", "state/statetest"},
	{"connector/outbox", "connector connector/mail connector/webhook state", ""},
	{"connector/protocol", "connector", ""},
	// what a job does, and to which ledger, is left to whoever configures it
	{"connector/queue", "connector connector/worker", "state/statetest"},
	{"connector/reconcile", "connector state", "connector/billing connector/protocol connector/transport state/statetest"},
	{"connector/letters/bounce", "connector/mail", ""},
	{"connector/admin", "connector connector/letters/bounce connector/safecsv mapping mapping/propose state connector/match connector/readiness connector/syncer connector/reconcile mapping/strict state/files connector/letters connector/health connector/outbox connector/writeback", "connector/accounting connector/billing connector/sandbox connector/transport state/statetest"},
	{"connector/pages", "connector connector/match connector/billing connector/health connector/letters connector/admin connector/reconcile connector/safecsv connector/readiness connector/syncer connector/writeback mapping state mapping/strict", "configs connector/accounting connector/accounting/csvfile connector/billing connector/sandbox connector/transport state/statetest connector/letters/templates connector/mail connector/mail/mailtest"},
	{"connector/sandbox", "connector connector/sandbox/catcher", ""},
	{"connector/sandbox/catcher", "", ""},
	{"connector/safecsv", "connector", ""},
	{"connector/readiness", "connector state", ""},
	{"connector/server", "connector state mapping connector/reconcile connector/billing connector/health connector/worker", "connector/transport state/statetest"},
	{"connector/simulation", "*", ""},
	{"connector/syncer", "connector mapping state connector/match connector/protocol connector/reconcile connector/accounting", "connector/billing connector/heap connector/transport state/statetest"},
	{"connector/transport", "connector", ""},
	{"connector/webhook", "connector connector/transport", ""},
	{"connector/writeback", "connector connector/outbox connector/webhook state", "connector/transport state/statetest"},
	{"connector/worker", "connector connector/syncer connector/reconcile state", "mapping connector/accounting"},
	{"mapping", "connector mapping/strict", ""},
	{"mapping/propose", "connector mapping", "connector/accounting/csvfile"},
	{"mapping/strict", "connector", ""},
	{"state", "connector connector/protocol state/files state/internal/testdsn", "state/internal/dbtest"},
	{"state/backups", "connector state state/files", "state/statetest"},
	{"state/files", "", ""},
	{"state/internal/dbtest", "state/internal/testdsn", ""}, // in tests alone
	{"state/internal/testdsn", "", ""},
	{"state/statetest", "connector state state/internal/dbtest", ""},
	{"internal/longtest", "", ""},
	{"internal/browsertest", "", ""},
	{"configs", "", "connector mapping connector/accounting connector/accounting/csvfile connector/accounting/httpsource connector/accounting/quickbooks connector/accounting/tryton connector/accounting/xero"},
	{"cmd/payersync/guides", "", ""},
	{"cmd/payersync/internal/usage", "", ""},
	{"cmd/payersync/internal/config",
		"cmd/payersync/internal/usage configs connector connector/alarm connector/health connector/letters connector/letters/templates connector/mail connector/accounting connector/accounting/csvfile connector/accounting/quickbooks " +
			"connector/accounting/httpsource connector/accounting/sqltable connector/accounting/tryton connector/accounting/xero connector/billing connector/credentials connector/reconcile " +
			"connector/syncer connector/transport connector/webhook connector/worker connector/writeback mapping/strict state state/backups state/files", ""},
	{"cmd/payersync/internal/session",
		"cmd/payersync/internal/config cmd/payersync/internal/show cmd/payersync/internal/usage connector connector/accounting " +
			"connector/billing connector/credentials connector/metrics connector/reconcile connector/syncer connector/transport connector/writeback mapping mapping/strict state", ""},
	{"cmd/payersync/internal/show", "cmd/payersync/internal/usage connector connector/safecsv connector/syncer", ""},
	{"cmd/payersync", "*", ""},
}

// stdOnly are the base packages, and those that only carry files: outside this module they import the
// standard library alone.
var stdOnly = []string{"connector", "connector/protocol", "configs", "cmd/payersync/guides"}

// guard keeps an outside package, and those below it, to a few of ours.
type guard struct{ path, to string }

var guards = []guard{
	// The ledger, and the books of others that are kept in a database: sqltable
	// reads them, and never the ledger.
	{"database/sql", "state state/statetest connector/accounting/sqltable connector/accounting/sqltable/sqltabletest connector/simulation"}, // tests tamper with ledgers in two of them
	{"modernc.org/sqlite", "state connector/accounting/sqltable connector/accounting/sqltable/sqltabletest"},
	{"github.com/jackc/pgx", "state state/internal/dbtest connector/accounting/sqltable connector/accounting/sqltable/sqltabletest connector/queue"}, // River's driver is made for it
	{"github.com/riverqueue/river", "connector/queue"},
	{"github.com/go-sql-driver/mysql", "connector/accounting/sqltable connector/accounting/sqltable/sqltabletest"},
	{"github.com/pressly/goose", "state"},
	{"filippo.io/age", "state/backups cmd/payersync"}, // whose tests make keys
	{"github.com/hashicorp/go-retryablehttp", "connector/transport"},
	{"github.com/prometheus", "connector/metrics"}, // one place says what is shown, and how it is called
	{"github.com/wneessen/go-mail", "connector/alarm connector/letters/templates connector/mail"},
	{"github.com/sirupsen/logrus",
		"cmd/payersync cmd/payersync/internal/session connector/transport connector/simulation"},
	{"github.com/coreos/go-systemd", "cmd/payersync"},
	{"C", "nobody"}, // the product is built without cgo
}

// testLibraries are linked into tests, and into the product by those alone that are
// named beside them.
var testLibraries = []guard{
	{"testing", ""},
	{"github.com/chromedp", ""},
	{"github.com/yuin/goldmark", ""}, // renders the guides
	{"net/http/httptest", ""},
	{"github.com/getkin/kin-openapi", ""},
	{"github.com/google/go-cmp", ""},
	{"github.com/rogpeppe/go-internal/testscript", ""},
	{"go.uber.org/goleak", ""},
	{"pgregory.net/rapid", ""},
	{"github.com/emersion/go-smtp", "connector/sandbox/catcher"}, // the sandbox has a mail server
	{"github.com/emersion/go-sasl", ""},
}

// environment are the calls by which a program reads or changes its
// environment; only cmd/payersync makes them.
var environment = []string{
	"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "os.Setenv", "os.Unsetenv", "os.Clearenv",
	"syscall.Getenv", "syscall.Environ", "net/http.ProxyFromEnvironment",
}

func TestImportsFollowTheArrows(t *testing.T) {
	t.Parallel()
	files, err := parseModule(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(files, func(f goFile) bool { return f.name == "connector/imports_test.go" }) {
		t.Fatalf("the walk over %d files missed this one: it does not start at the module's root", len(files))
	}
	for _, problem := range problemsOf(files) {
		t.Error(problem)
	}
}

func TestImportCheckReportsEachForbiddenArrow(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, file, source, want string }{
		{"sideways arrow", "connector/billing/a.go", `import "payersync/connector/accounting"`,
			"connector/billing/a.go: connector/billing may not import connector/accounting"},
		{"outward arrow", "state/a.go", `import "payersync/connector/server"`,
			"state/a.go: state may not import connector/server"},
		{"one source sees another", "connector/accounting/xero/a.go", `import "payersync/connector/accounting/csvfile"`,
			"connector/accounting/xero/a.go: connector/accounting/xero may not import connector/accounting/csvfile"},
		{"the command is a root", "connector/server/a.go", `import "payersync/cmd/payersync"`,
			"connector/server/a.go: connector/server may not import cmd/payersync"},
		{"unknown package", "connector/stray/a.go", ``,
			"connector/stray/a.go: package connector/stray has no line in the table of arrows"},
		{"folder below a source", "connector/accounting/xero/wire/a.go", ``,
			"connector/accounting/xero/wire/a.go: package connector/accounting/xero/wire has no line in the table of arrows"},
		{"vocabulary beyond the standard library", "connector/a.go", `import "golang.org/x/text/unicode/norm"`,
			"connector/a.go: connector may import the standard library only, not golang.org/x/text/unicode/norm"},
		{"SQL outside the ledger", "connector/syncer/a.go", `import "database/sql"`,
			"connector/syncer/a.go: connector/syncer may not import database/sql: it is for state state/statetest connector/accounting/sqltable connector/accounting/sqltable/sqltabletest connector/simulation"},
		{"another SQL driver in the ledger", "state/a.go", `import _ "github.com/go-sql-driver/mysql"`,
			"state/a.go: state may not import github.com/go-sql-driver/mysql: it is for connector/accounting/sqltable connector/accounting/sqltable/sqltabletest"},
		{"SQL driver in a test", "connector/server/a_test.go", `import _ "modernc.org/sqlite"`,
			"connector/server/a_test.go: connector/server may not import modernc.org/sqlite: it is for state connector/accounting/sqltable connector/accounting/sqltable/sqltabletest"},
		{"retries outside transport", "cmd/payersync/a.go", `import "github.com/hashicorp/go-retryablehttp"`,
			"cmd/payersync/a.go: cmd/payersync may not import github.com/hashicorp/go-retryablehttp: it is for connector/transport"},
		{"logging outside the edge", "mapping/a.go", `import "github.com/sirupsen/logrus/hooks/test"`,
			"mapping/a.go: mapping may not import github.com/sirupsen/logrus/hooks/test: it is for cmd/payersync cmd/payersync/internal/session connector/transport connector/simulation"},
		{"mail server in the product", "connector/alarm/a.go", `import "github.com/emersion/go-smtp"`,
			"connector/alarm/a.go: connector/alarm may not import github.com/emersion/go-smtp outside its tests"},
		{"cgo", "state/a.go", `import "C"`,
			"state/a.go: state may not import C: it is for nobody"},
		{"sandbox in the product", "connector/server/a.go", `import "payersync/connector/sandbox"`,
			"connector/server/a.go: connector/server may not import connector/sandbox"},
		{"suite in the product", "cmd/payersync/a.go", `import "payersync/connector/accounting/accountingtest"`,
			"cmd/payersync/a.go: cmd/payersync may not import connector/accounting/accountingtest outside its tests"},
		{"test library in the product", "cmd/payersync/a.go", `import "net/http/httptest"`,
			"cmd/payersync/a.go: cmd/payersync may not import net/http/httptest outside its tests"},
		{"environment", "state/a.go", "import \"os\"\nvar home = os.Getenv(\"HOME\")",
			"state/a.go: state may not use os.Getenv: only cmd/payersync knows the environment"},
		{"environment under another name", "mapping/a.go", "import env \"os\"\nvar all = env.Environ",
			"mapping/a.go: mapping may not use os.Environ: only cmd/payersync knows the environment"},
		{"environment through a dot import", "mapping/a.go", `import . "os"`,
			"mapping/a.go: mapping may not import os with a dot: it hides what is used"},
		{"proxy settings", "connector/transport/a.go", "import \"net/http\"\nvar proxy = http.ProxyFromEnvironment",
			"connector/transport/a.go: connector/transport may not use net/http.ProxyFromEnvironment: only cmd/payersync knows the environment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files, err := parseModule(fstest.MapFS{tt.file: {Data: []byte("package p\n" + tt.source)}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want}, problemsOf(files)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImportCheckAcceptsWhatTheTableAllows(t *testing.T) {
	t.Parallel()
	product := func(source string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("package p\n" + source)} }
	files, err := parseModule(fstest.MapFS{
		"connector/accounting/xero/a.go":      product(`import ("net/http"; "payersync/connector/transport")`),
		"connector/accounting/xero/a_test.go": product(`import ("testing"; "payersync/connector/accounting/accountingtest")`),
		"connector/billing/a_test.go":         product(`import ("payersync/connector/billing"; "payersync/connector/sandbox")`),
		"connector/billing/env_test.go":       product("import \"os\"\nvar home = os.Getenv(\"HOME\")"),
		"connector/accounting/accountingtest/a.go": product(
			`import ("testing"; "github.com/google/go-cmp/cmp"; "payersync/connector/accounting")`),
		"connector/sandbox/catcher/a.go": product(`import "github.com/emersion/go-smtp"`),
		"cmd/payersync/a.go":             product("import (\"os\"; \"payersync/connector/sandbox\"; \"payersync/state\")\nvar all = os.Environ"),
		"state/a.go":                     product(`import ("database/sql"; _ "modernc.org/sqlite")`),
		"state/testdata/broken.go":       {Data: []byte("not Go")},
		"_scratch/a.go":                  {Data: []byte("not Go")},
		".ci/tools/generated/a.go":       {Data: []byte("not Go")},
		"configs/mappings/notes.md":      {Data: []byte("not Go")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := problemsOf(files); len(got) > 0 {
		t.Errorf("problems in allowed files: %q", got)
	}
}

// The SQLite driver is C translated against one exact libc; any other version
// of it links, and then fails in ways no test of ours would be sure to meet.
func TestLibcIsTheOneSQLiteWasTranslatedFor(t *testing.T) {
	t.Parallel()
	const driver, libc = "modernc.org/sqlite", "modernc.org/libc"
	// A look at go.mod makes the test cache forget this test when go.mod changes.
	if _, err := os.Stat("../go.mod"); err != nil {
		t.Fatal(err)
	}
	var chosen struct{ GoMod, Version string }
	goJSON(t, &chosen, "list", "-m", "-json", driver)
	if chosen.GoMod == "" { // an empty module cache knows the version, not the file
		goJSON(t, &chosen, "mod", "download", "-json", driver)
	}
	var used struct{ Version string }
	goJSON(t, &used, "list", "-m", "-json", libc)
	var file struct {
		Require []struct{ Path, Version string }
	}
	goJSON(t, &file, "mod", "edit", "-json", chosen.GoMod)

	for _, r := range file.Require {
		if r.Path != libc {
			continue
		}
		if r.Version != used.Version {
			t.Errorf("go.mod uses %s %s, but %s %s needs %s: run `go get %[1]s@%[5]s`",
				libc, used.Version, driver, chosen.Version, r.Version)
		}
		return
	}
	t.Errorf("%s %s does not require %s: this check has lost its subject", driver, chosen.Version, libc)
}

// goJSON decodes what the go command prints into out.
func goJSON(t *testing.T, out any, args ...string) {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
}

// goFile is one parsed file; name and pkg are relative to the module's root.
type goFile struct {
	name, pkg string
	inTest    bool // a _test.go file, or any file of a package made for tests
	syntax    *ast.File
}

// parseModule parses every Go file visible to the go command, whatever its build constraints, so no arrow can
// hide behind a platform.
func parseModule(root fs.FS) ([]goFile, error) {
	var files []goFile
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && ignored(d.Name()):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.SkipObjectResolution)
		pkg := path.Dir(name)
		files = append(files, goFile{name, pkg, strings.HasSuffix(name, "_test.go") || testOnly(pkg), syntax})
		return err
	})
	return files, err
}

// ignored reports whether the go command passes over a folder of that name.
func ignored(dir string) bool {
	return dir == "testdata" || dir != "." && strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_")
}

// testOnly reports whether a package of ours exists for tests alone.
func testOnly(pkg string) bool {
	return strings.HasSuffix(pkg, "test") || strings.HasSuffix(pkg, "simulation")
}

// problemsOf returns a sentence for every rule a file breaks, ordered by file.
func problemsOf(files []goFile) []string {
	slices.SortFunc(files, func(a, b goFile) int { return strings.Compare(a.name, b.name) })
	var out []string
	for _, f := range files {
		for _, problem := range f.problems() {
			out = append(out, f.name+": "+problem)
		}
	}
	return out
}

func (f goFile) problems() []string {
	i := slices.IndexFunc(arrows, func(a arrow) bool { ok, _ := path.Match(a.pkg, f.pkg); return ok })
	if i < 0 {
		return []string{fmt.Sprintf("package %s has no line in the table of arrows", f.pkg)}
	}
	var out []string
	for _, spec := range f.syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value) // the parser checked the literal
		if spec.Name != nil && spec.Name.Name == "." {
			out = append(out, fmt.Sprintf("%s may not import %s with a dot: it hides what is used", f.pkg, imported))
		}
		if why := f.refuses(arrows[i], imported); why != "" {
			out = append(out, fmt.Sprintf("%s may %s", f.pkg, why))
		}
	}
	return append(out, f.environmentCalls()...)
}

// refuses returns why the file may not import a package, or "" when it may.
func (f goFile) refuses(row arrow, imported string) string {
	pkg, ours := strings.CutPrefix(imported, module+"/")
	switch {
	case !ours:
		return f.refusesOutside(imported)
	case testOnly(pkg) && !f.inTest:
		return fmt.Sprintf("not import %s outside its tests", pkg)
	case f.inTest && (testOnly(pkg) || below("connector/sandbox", pkg) || pkg == f.pkg || listed(row.inTests, pkg)):
		return ""
	case row.to == "*" || listed(row.to, pkg):
		return ""
	}
	return "not import " + pkg
}

// refusesOutside is refuses for the standard library and other modules.
func (f goFile) refusesOutside(imported string) string {
	for _, g := range guards {
		if below(g.path, imported) && !listed(g.to, f.pkg) {
			return fmt.Sprintf("not import %s: it is for %s", imported, g.to)
		}
	}
	if f.inTest {
		return ""
	}
	for _, library := range testLibraries {
		if below(library.path, imported) && !listed(library.to, f.pkg) {
			return fmt.Sprintf("not import %s outside its tests", imported)
		}
	}
	first, _, _ := strings.Cut(imported, "/")
	if strings.Contains(first, ".") && slices.Contains(stdOnly, f.pkg) {
		return "import the standard library only, not " + imported
	}
	return ""
}

// environmentCalls returns a problem for every use of the environment.
func (f goFile) environmentCalls() []string {
	if f.inTest || f.pkg == "cmd/payersync" {
		return nil
	}
	names := f.importNames()
	var out []string
	for node := range ast.Preorder(f.syntax) {
		selector, _ := node.(*ast.SelectorExpr)
		if selector == nil {
			continue
		}
		from, _ := selector.X.(*ast.Ident)
		if from == nil {
			continue
		}
		if used := names[from.Name] + "." + selector.Sel.Name; slices.Contains(environment, used) {
			out = append(out, fmt.Sprintf("%s may not use %s: only cmd/payersync knows the environment", f.pkg, used))
		}
	}
	return out
}

// importNames maps the names by which the file knows packages to their paths.
func (f goFile) importNames() map[string]string {
	names := map[string]string{}
	for _, spec := range f.syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	return names
}

// listed reports whether a list of words separated by blanks holds the word.
func listed(words, word string) bool { return slices.Contains(strings.Fields(words), word) }

// below reports whether a package is root or lies under it.
func below(root, pkg string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") }
