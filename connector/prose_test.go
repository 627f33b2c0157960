package connector_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var keepProse = flag.Bool("prose", false, "write the figures of plain English anew into testdata/prose.txt")

// A prose holds how plain some sentences are.
type prose struct {
	sentences, relative, inverted, long int
	words                               []int // of each sentence
}

var (
	codeBlock    = regexp.MustCompile("(?s)```.*?```")
	tableOrTitle = regexp.MustCompile(`(?m)^(\||#).*$`)
	inlineCode   = regexp.MustCompile("`[^`]*`")
	paragraphEnd = regexp.MustCompile(`\n\s*\n|\n[-*\d]`)
	sentenceEnd  = regexp.MustCompile("[.!?]\\s+([A-Z`\"])")
	relativeWord = regexp.MustCompile(`(?i)\b(who|whom|whose|which|that|whoever|whatever|where)\b`)
	invertedHead = regexp.MustCompile(`^(Of|Who|Whoever|What|That|Whatever|Whom)\b`)
)

// add counts the sentences of a paragraph.
func (p *prose) add(paragraph string) {
	text := strings.Join(strings.Fields(inlineCode.ReplaceAllString(paragraph, "X")), " ")
	for _, s := range strings.Split(sentenceEnd.ReplaceAllString(text, ".\n$1"), "\n") {
		words := len(strings.Fields(s))
		if words < 4 || !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, "!") && !strings.HasSuffix(s, "?") {
			continue
		}
		p.sentences++
		p.words = append(p.words, words)
		p.relative += len(relativeWord.FindAllString(s, -1))
		if invertedHead.MatchString(s) {
			p.inverted++
		}
		if words > 30 {
			p.long++
		}
	}
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// figures are relative words a sentence, inverted openings and sentences of over 30 words in percent.
func (p *prose) figures() [3]float64 {
	return [3]float64{share(p.relative, p.sentences), 100 * share(p.inverted, p.sentences),
		100 * share(p.long, p.sentences)}
}

// proseOf measures every Markdown file, and the comments of every package, of a tree.
func proseOf(t *testing.T, tree fs.FS) map[string]*prose {
	t.Helper()
	all := map[string]*prose{}
	at := func(name string) *prose {
		if all[name] == nil {
			all[name] = &prose{}
		}
		return all[name]
	}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".md") &&
			(!strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go")):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".md") {
			plain := tableOrTitle.ReplaceAllString(codeBlock.ReplaceAllString(string(text), ""), "")
			for _, paragraph := range paragraphEnd.Split(plain, -1) {
				at(name).add(paragraph)
			}
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			at("comments of " + path.Dir(name)).add(withoutDirectives(group))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// withoutDirectives is the text of a comment, without code in it.
func withoutDirectives(group *ast.CommentGroup) string {
	lines := strings.Split(group.Text(), "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "\t") }), "\n")
}

// Limits of a new text: relative words a sentence, inverted openings and long sentences in percent.
var (
	goalOfMarkdown = [3]float64{0.40, 2, 4}
	goalOfComments = [3]float64{0.35, 0.5, 10}
)

// TestOurEnglishGetsNoHarder compares every text with its stored figures. No text may get worse; -prose
// stores better figures.
func TestOurEnglishGetsNoHarder(t *testing.T) {
	t.Parallel()
	all := proseOf(t, os.DirFS(".."))
	const file = "testdata/prose.txt"
	kept := map[string][3]float64{}
	if text, err := os.ReadFile(file); err == nil {
		for line := range strings.Lines(string(text)) {
			var f [3]float64
			name, numbers, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if _, err := fmt.Sscanf(numbers, "%f %f%% %f%%", &f[0], &f[1], &f[2]); err != nil {
				t.Fatalf("%s: %q: %v", file, line, err)
			}
			kept[name] = f
		}
	}
	var out strings.Builder
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		is, goal := all[name].figures(), goalOfMarkdown
		if strings.HasPrefix(name, "comments of ") {
			goal = goalOfComments
		}
		most, known := kept[name]
		for i, what := range []string{"relative words a sentence", "% inverted openings", "% sentences of over 30 words"} {
			limit := goal[i]
			if known {
				limit = max(most[i], goal[i])
			}
			if all[name].sentences > 9 && is[i] > limit+0.01 {
				t.Errorf("%s: %.2f %s, at most %.2f: say who does what, one idea a sentence", name, is[i], what, limit)
			}
		}
		fmt.Fprintf(&out, "%s: %.2f %.2f%% %.2f%%\n", name, is[0], is[1], is[2])
	}
	if *keepProse {
		if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(kept) < 40 {
		t.Errorf("figures of only %d texts are kept in %s: write them with -prose", len(kept), file)
	}
}

func TestHardEnglishIsFound(t *testing.T) {
	t.Parallel()
	var hard, plain prose
	hard.add("Whoever comes in by that way sees what others see. What is alike across statements that nobody has tests has one.")
	plain.add("Users who sign in see all connections. A run sends only the changes of its plan.")
	if f := hard.figures(); hard.sentences != 2 || f[0] < 1 || f[1] != 100 {
		t.Errorf("hard sentences have the figures %v", f)
	}
	if f := plain.figures(); plain.sentences != 2 || f[0] > 0.5 || f[1] != 0 || f[2] != 0 {
		t.Errorf("plain sentences have the figures %v", f)
	}
}
