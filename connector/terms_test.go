package connector_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var keepTerms = flag.Bool("terms", false, "write the number of other words that are left into testdata/terms.txt")

// An otherWord is a word that the table "Terms" of README.md replaces.
type otherWord struct {
	word    *regexp.Regexp
	but     *regexp.Regexp // a sentence that matches it uses the word in another sense; may be nil
	instead string
}

var otherWords = []otherWord{
	{regexp.MustCompile(`\bbooks\b|(^|[.!?:] )Books\b`), nil, "accounting system, or connection"},
	{regexp.MustCompile(`(?i)\b(adopt(s|ed|ing|ion|ions)?)\b`), nil, "link, linked"},
	{regexp.MustCompile(`(?i)\b(tak(e|es|en|ing)|took) ((it|them|that|this|the|a|his|customers?|mandates?|and|its) ){0,5}over\b`), nil, "link, or move"},
	{regexp.MustCompile(`(?i)\b(left|leav(e|es|ing)) (it |them |this |the records? |records? )?out\b`),
		regexp.MustCompile(`(?i)\b(chang|approv)`), "excluded (and \"omit\" of other things)"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were|as|for|be) no payers?\b|^no payers?$`), nil, "excluded"},
	{regexp.MustCompile(`(?i)\bheld\b|\b(would|will|to) hold (them|it|back)\b|\bholds? back\b|\bin conflict\b`),
		regexp.MustCompile(`(?i)\b(lock|lease)\b`), "on hold"},
	{regexp.MustCompile(`(?i)^not sent\b|%d not sent\b|\bchanges? (is|are|was|were) not sent\b`), nil, "on hold"},
	{regexp.MustCompile(`(?i)\b(likeness(es)?|candidates?|look-?alikes?|looks? alike)\b`), nil, "match"},
	{regexp.MustCompile(`(?i)\bpairs?\b`), regexp.MustCompile(`(?i)=|\bkey\b|externalData`), "match"},
	{regexp.MustCompile(`(?i)\bthe matter\b|\bneeds? a person\b`), nil, "needs attention, or finding"},
	{regexp.MustCompile(`(?i)\b(foreign changes?|divergences?)\b`), nil, "drift"},
	{regexp.MustCompile(`(?i)\b(un)?collectable\b`), nil, "can be debited"},
	{regexp.MustCompile(`(?i)\b(a|the|its|their|his|no|new|old|every|each|this|whose|another|other|more|fetch|%d) links?\b`), regexp.MustCompile(`(?i)\b(signs? (in|you|somebody|her|him)|sign-in|password|browser|invit(e|ed|es|ation)|pages?|hard|state|link-local)\b`), "signing link"},
	{regexp.MustCompile(`(?i)\b(an|the|this|each|every|no|of) alerts?\b`), nil, "alarm"},
	{regexp.MustCompile(`(?i)\b(debtors?|counterparts?|ERP|billing provider|remote customers?)\b`), nil,
		"the term of the table"},
}

var (
	sqlText = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|EXISTS|VALUES|ORDER BY|CREATE|ALTER|UNION|COALESCE|CASE WHEN)\b|\b[a-z_]+ IN \(|\b[a-z_]+\.[a-z_]+ (=|<>|IS|AND|OR)|\?\d|^[\w.,\s]*_[\w.]*,\s[\w.,\s]*$`)
	// names in backquotes, flags, keys and columns, commands, and lists of values; seven words with commas are columns
	publicName = regexp.MustCompile("`[^`]*`|" +
		`--[a-z-]+|\b\w+(\.\w+)+\b|\b\w+_\w+\b|payers (\(\?:)?adopt|(name|database|organisation): [a-z-]+|adopt ID|create, adopt, update|\((\w+, )+\w+\)|(\w+, ){6,}\w+|%\[\d+\]`)
	action     = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	actionText = regexp.MustCompile("\"[^\"]* [^\"]*\"|`[^`]* [^`]*`")
	markup     = regexp.MustCompile(`(?s)<(script|style)\b.*?</(script|style)>|<[^>]*>`)
	termsTable = regexp.MustCompile(`(?s)\n## Terms\n.*?\n## `)
	textEnd    = regexp.MustCompile(`\.\s|\n\s*\n|\n[|*#]|\n- |;\s`)
)

// otherWordsIn lists the other words in one text.
func otherWordsIn(text string) []string {
	var all []string
	for _, sentence := range textEnd.Split(publicName.ReplaceAllString(text, "X"), -1) {
		plain := strings.Join(strings.Fields(sentence), " ")
		for _, o := range otherWords {
			if found := o.word.FindString(plain); found != "" && (o.but == nil || !o.but.MatchString(plain)) {
				all = append(all, fmt.Sprintf("%q: say %s: %s", strings.TrimSpace(found), o.instead, plain))
			}
		}
	}
	return all
}

// literals are the texts in a Go file: string literals with a space or a capital first letter, except SQL,
// tags, import paths and the labels of derived keys, which cannot change.
func literals(t *testing.T, name string, source []byte) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Key" && fmt.Sprint(f.X) == "hkdf" {
				return false
			}
		case *ast.BasicLit:
			s, err := strconv.Unquote(n.Value)
			if n.Kind != token.STRING || err != nil || sqlText.MatchString(s) {
				return true
			}
			if strings.Contains(s, " ") || s != "" && s[0] >= 'A' && s[0] <= 'Z' {
				all = append(all, s)
			}
		}
		return true
	})
	return all
}

// templateText is the text of an HTML template: without its tags, with the texts in its actions.
func templateText(source string) string {
	return markup.ReplaceAllString(action.ReplaceAllStringFunc(source, func(a string) string {
		return strings.Join(actionText.FindAllString(strings.ReplaceAll(a, "`", `"`), -1), "\n\n")
	}), "\n\n")
}

// textsByFile are the texts that people read, by the file they are in.
func textsByFile(t *testing.T, tree fs.FS) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "." ||
				strings.HasSuffix(name, "guides/html") ||
				strings.HasSuffix(name, "test") || name == "connector/simulation" {
				return fs.SkipDir
			}
			return nil
		}
		kind := path.Ext(name)
		if !slices.Contains([]string{".go", ".md", ".html"}, kind) || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		switch kind {
		case ".go":
			all[name] = literals(t, name, source)
		case ".md":
			all[name] = []string{codeBlock.ReplaceAllString(termsTable.ReplaceAllString(string(source), "\n## "), "")}
		default:
			all[name] = []string{templateText(string(source))}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTextsUseTheTerms looks for the words that the table "Terms" of README.md replaces. The file
// terms.txt holds how many are left in a package. The number may fall, and must not rise: with
// -terms the test writes it anew, with -v it lists them.
func TestTextsUseTheTerms(t *testing.T) {
	t.Parallel()
	const file = "testdata/terms.txt"
	left := map[string]int{}
	if text, err := os.ReadFile(file); err == nil {
		for line := range strings.Lines(string(text)) {
			name, number, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if left[name], err = strconv.Atoi(number); err != nil {
				t.Fatalf("%s: %q: %v", file, line, err)
			}
		}
	}
	found := map[string][]string{}
	texts := textsByFile(t, os.DirFS(".."))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		for _, text := range texts[name] {
			for _, f := range otherWordsIn(text) {
				found[path.Dir(name)] = append(found[path.Dir(name)], name+": "+f)
			}
		}
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&out, "%s: %d\n", name, len(found[name]))
		say := t.Logf
		if len(found[name]) > left[name] && !*keepTerms {
			say = t.Errorf
		}
		say("%s: %d words of the column \"not\", at most %d:\n%s", name, len(found[name]), left[name],
			strings.Join(found[name], "\n"))
	}
	if *keepTerms {
		if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(texts) < 100 {
		t.Errorf("only %d files with texts were found", len(texts))
	}
}

func TestOtherWordsAreFound(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"The record left the books.", "The next sync adopts it.", "It is taken over.", "takes the customer over",
		"The record is left out.",
		"It is no payer.", "no payer", "The change is held.", "Held", "Not sent", "%d not sent", "a likeness",
		"Accept the pair.",
		"What is the matter", "It needs a person.", "uncollectable", "The link was lost.", "an alert was sent",
	} {
		if len(otherWordsIn(text)) != 1 {
			t.Errorf("%q: found %q, and one word was expected", text, otherWordsIn(text))
		}
	}
	for _, text := range []string{
		"Harbour Books", "payersync payers same RECORD", "You leave changes out of an approval.", "no payer has this mandate",
		"the lock is held by another process", "the key is the pair in externalData", "--pair OLD=NEW", "the signing link",
		"payersync alerts list",
		"v_runs.held", "a link to sign in",
	} {
		if found := otherWordsIn(text); len(found) > 0 {
			t.Errorf("%q: found %q, and none was expected", text, found)
		}
	}
}
