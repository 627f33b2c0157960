package connector_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// A comment or a page may name a page by its path from the citing file, by its path from the root of the
// repository, or by a unique part of its path:
//
//	FAULTS.md, connector/RULES.md#freeze-then-send, accounting/README.md
//
// A Markdown link is relative to the citing page, as in a browser. So the repository contains everything it
// names.
func TestEveryPageThatIsNamedIsThere(t *testing.T) {
	t.Parallel()
	root := os.DirFS("..")
	texts, err := textsOf(root)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, x := range texts {
		named += len(pageName.FindAllString(x.text, -1))
	}
	if named < 50 {
		t.Fatalf("%d texts name %d pages: this check has lost its subject", len(texts), named)
	}
	for _, problem := range deadReferences(root, texts) {
		t.Error(problem)
	}
}

func TestEveryNumberThatIsCitedHasARow(t *testing.T) {
	t.Parallel()
	texts, err := textsOf(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	rows, _ := rowsOf(readFile(t, "FAULTS.md"))
	for _, problem := range unknownRows(rows, texts) {
		t.Error(problem)
	}
}

func TestReferencesThatLeadNowhereAreReported(t *testing.T) {
	t.Parallel()
	const page = "# Rules\n\n## Freeze, then send\n\n## It's `one` door\n\n## Twice\n\n## Twice\n\n```\n## no heading\n```\n"
	const comment = "package a\n\n// "
	tests := []struct{ name, file, text, want string }{
		{"a page that is nowhere", "a/a.go", comment + "See gone.md section 2.",
			"a/a.go names gone.md, and there is no such page"},
		{"a page outside", "a/a.go", comment + "See ../../shared/design/x.md.",
			"a/a.go names ../../shared/design/x.md, and there is no such page"},
		{"another case", "a/a.go", comment + "See connector/rules.md.",
			"a/a.go names connector/rules.md, and there is no such page"},
		{"a page of which there are two", "a/a.go", comment + "See TWIN.md.",
			"a/a.go names TWIN.md, and there are 2 such pages: write more of its path"},
		{"behind a statement", "a/a.go", "package a\n\nvar x = 1 // as in gone.md",
			"a/a.go names gone.md, and there is no such page"},
		{"in a migration", "state/migrations/1.sql", "-- gone.md section 6\nSELECT 1;",
			"state/migrations/1.sql names gone.md, and there is no such page"},
		{"in a configuration", "configs/a.yaml", "# gone.md\na: b",
			"configs/a.yaml names gone.md, and there is no such page"},
		{"in a workflow", ".github/workflows/ci.yml", "# gone.md",
			".github/workflows/ci.yml names gone.md, and there is no such page"},
		{"in a page", "a/NOTES.md", "see `gone.md`", "a/NOTES.md names gone.md, and there is no such page"},
		{"a heading that is nowhere", "a/a.go", comment + "See RULES.md#thaw.",
			"a/a.go names RULES.md#thaw, and connector/RULES.md has no such heading"},
		{"a heading in a block of code", "a/a.go", comment + "See RULES.md#no-heading.",
			"a/a.go names RULES.md#no-heading, and connector/RULES.md has no such heading"},
		{"a link to a page that is nowhere", "a/NOTES.md", "[rules](RULES.md)",
			"a/NOTES.md links to RULES.md, which is not there"},
		{"a link to a folder that is nowhere", "a/NOTES.md", "[the ledger](../ledger)",
			"a/NOTES.md links to ../ledger, which is not there"},
		{"a link out of the repository", "a/NOTES.md", "[design](../../design)",
			"a/NOTES.md links to ../../design, which is not there"},
		{"a link to a heading that is nowhere", "a/NOTES.md", "[rules](../connector/RULES.md#thaw)",
			"a/NOTES.md links to ../connector/RULES.md#thaw, and there is no such heading"},
		{"a link to no heading of its own", "a/NOTES.md", "# Notes\n[up](#note)",
			"a/NOTES.md links to #note, and there is no such heading"},

		{"as it lies from the file", "a/a.go", comment + "See ../connector/RULES.md.", ""},
		{"as it lies from the root", "a/a.go", comment + "See connector/RULES.md.", ""},
		{"by its name alone", "a/a.go", comment + "See RULES.md#freeze-then-send and b/TWIN.md.", ""},
		{"headings that have signs and twins", "a/a.go", comment + "See RULES.md#its-one-door and RULES.md#twice-1.", ""},
		{"a link to a heading", "a/NOTES.md",
			"# Notes\n[rules](../connector/RULES.md#twice) [up](#notes) [code](../connector) [out](https://example.com/x.md)",
			""},
		{"a link in a block of code", "a/NOTES.md", "```\n[x](y)\n```\n and `[x](y)`", ""},
		{"a text of the program", "a/a.go", "package a\n\nvar name = \"gone.md\"", ""},
		{"what a test reads", "a/testdata/gone.sql", "-- gone.md", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{
				"connector/RULES.md": {Data: []byte(page)},
				"b/TWIN.md":          {Data: []byte("# One")},
				"c/TWIN.md":          {Data: []byte("# Two")},
			}
			root[tt.file] = &fstest.MapFile{Data: []byte(tt.text)}
			texts, err := textsOf(root)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(deadReferences(root, texts), "\n"); got != tt.want {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNumbersWithoutARowAreReported(t *testing.T) {
	t.Parallel()
	rows := []row{{id: "F01"}, {id: "S1"}, {id: "G6"}}
	texts, err := textsOf(fstest.MapFS{
		"a/b.go":                    {Data: []byte("package a\n\nvar street = \"S11\"")},
		"connector/simulation/b.go": {Data: []byte("package simulation\n\nvar breaks = []string{\"S1\", \"S12\"}")},
	})
	if err != nil {
		t.Fatal(err)
	}
	texts = append(texts,
		citing{"a/a.go", "a crash (faults F01 and F02), S1 to S3"},
		citing{"b/README.md", "G6, G99, and L1; but no AF17, F1a, SHA256, F1234 or G404"},
		citing{"connector/FAULTS.md", "F77 is told of by the check of its rows"},
	)
	want := []string{
		"connector/simulation/b.go cites S12, which has no row in FAULTS.md",
		"a/a.go cites F02, which has no row in FAULTS.md", "a/a.go cites S3, which has no row in FAULTS.md",
		"b/README.md cites G99, which has no row in FAULTS.md", "b/README.md cites L1, which has no row in FAULTS.md",
	}
	if diff := cmp.Diff(want, unknownRows(rows, texts)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

var (
	cited    = regexp.MustCompile(`\b(?:[FSLV][0-9]{1,3}|G[0-9]{1,2})\b`) // G101 and above are rules of a linter
	pageName = regexp.MustCompile(`(?:[\w.-]*/)*[\w.-]*\w\.md\b(?:#[\w-]+)?`)
	mdLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdSpan   = regexp.MustCompile("`[^`\n]*`")
	mdMarks  = regexp.MustCompile("[`*]")
)

// citing is a file and what in it is read for references: of Go the comments, and
// the rows that the simulation names; of anything else all of it.
type citing struct{ name, text string }

// textsOf reads every file that may refer people to a page. Files in testdata are for tests.
func textsOf(root fs.FS) ([]citing, error) {
	files, err := parseModule(root)
	if err != nil {
		return nil, err
	}
	var out []citing
	for _, f := range files {
		var text strings.Builder
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				text.WriteString(c.Text + "\n")
			}
		}
		for _, id := range f.judged() {
			text.WriteString(id + "\n")
		}
		out = append(out, citing{f.name, text.String()})
	}
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && ignored(d.Name()) && d.Name() != ".ci" && d.Name() != ".github":
			return fs.SkipDir
		case d.IsDir() || !forPeople(name):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		out = append(out, citing{name, string(text)})
		return err
	})
	return out, err
}

// judged returns the rows that the simulation names outside of comments.
func (f goFile) judged() (ids []string) {
	if f.pkg != "connector/simulation" {
		return nil
	}
	for node := range ast.Preorder(f.syntax) {
		if text, ok := node.(*ast.BasicLit); ok {
			if id, err := strconv.Unquote(text.Value); err == nil && rowID.MatchString(id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// forPeople reports whether a file that is no Go is written by people for people.
func forPeople(name string) bool {
	return slices.Contains([]string{".md", ".sql", ".yaml", ".yml", ".service"}, path.Ext(name)) ||
		slices.Contains([]string{"Dockerfile", ".ci/run", ".dockerignore"}, name)
}

// deadReferences returns a sentence for every reference that leads nowhere.
func deadReferences(root fs.FS, texts []citing) (problems []string) {
	headings := map[string][]string{}
	for _, x := range texts {
		if path.Ext(x.name) == ".md" {
			headings[x.name] = anchors(x.text)
		}
	}
	for _, x := range texts {
		seen := map[string]bool{}
		for _, at := range pageName.FindAllStringIndex(x.text, -1) {
			name := x.text[at[0]:at[1]]
			if seen[name] || strings.HasPrefix(name, "//") || strings.HasSuffix(x.text[:at[0]], "](") { // an address, a link
				continue
			}
			seen[name] = true
			if why := deadName(headings, x.name, name); why != "" {
				problems = append(problems, fmt.Sprintf("%s names %s, and %s", x.name, name, why))
			}
		}
		if path.Ext(x.name) != ".md" {
			continue
		}
		for _, link := range mdLink.FindAllStringSubmatch(mdSpan.ReplaceAllString(withoutCode(x.text), ""), -1) {
			if why := deadLink(root, headings, x.name, link[1]); why != "" {
				problems = append(problems, fmt.Sprintf("%s links to %s, %s", x.name, link[1], why))
			}
		}
	}
	return problems
}

// deadName says what is wrong with the name of a page, "" for nothing.
func deadName(headings map[string][]string, from, name string) string {
	name, heading, _ := strings.Cut(name, "#")
	var found []string
	for _, candidate := range []string{path.Join(path.Dir(from), name), path.Clean(name)} {
		if _, ok := headings[candidate]; ok {
			found = []string{candidate}
			break
		}
	}
	if found == nil {
		for page := range headings {
			if strings.HasSuffix(page, "/"+name) {
				found = append(found, page)
			}
		}
	}
	switch {
	case len(found) == 0:
		return "there is no such page"
	case len(found) > 1:
		return fmt.Sprintf("there are %d such pages: write more of its path", len(found))
	case heading != "" && !slices.Contains(headings[found[0]], heading):
		return found[0] + " has no such heading"
	}
	return ""
}

// deadLink says what is wrong with the target of a Markdown link, "" for nothing.
func deadLink(root fs.FS, headings map[string][]string, from, target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return "which is no address"
	}
	if u.IsAbs() {
		return ""
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
		if _, err := fs.Stat(root, to); err != nil {
			return "which is not there"
		}
	}
	if u.Fragment != "" && !slices.Contains(headings[to], u.Fragment) {
		return "and there is no such heading"
	}
	return ""
}

// anchors returns what links to the headings of a page are spelt like.
func anchors(page string) []string {
	out := []string{} // a page without headings is a page
	times := map[string]int{}
	for line := range strings.Lines(withoutCode(page)) {
		marks, heading, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.Trim(marks, "#") != "" {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, mdMarks.ReplaceAllString(heading, ""))
		if n := times[anchor]; n > 0 {
			out = append(out, fmt.Sprintf("%s-%d", anchor, n))
		} else {
			out = append(out, anchor)
		}
		times[anchor]++
	}
	return out
}

// withoutCode returns a page without its blocks of code.
func withoutCode(page string) string {
	var out strings.Builder
	code := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			continue
		}
		if !code {
			out.WriteString(line)
		}
	}
	return out.String()
}

// unknownRows returns a sentence for every number that is cited and has no row.
func unknownRows(rows []row, texts []citing) (problems []string) {
	known := map[string]bool{}
	for _, r := range rows {
		known[r.id] = true
	}
	for _, x := range texts {
		if x.name == "connector/FAULTS.md" {
			continue
		}
		for _, id := range cited.FindAllString(x.text, -1) {
			if !known[id] {
				problems = append(problems, fmt.Sprintf("%s cites %s, which has no row in FAULTS.md", x.name, id))
				known[id] = true // once is enough
			}
		}
	}
	return problems
}
