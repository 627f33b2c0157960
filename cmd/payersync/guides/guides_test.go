package guides

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

var update = flag.Bool("update", false, "make the HTML of the guides anew")

// guideCommand is the command by which one guide names another.
var guideCommand = regexp.MustCompile("`payersync help ([a-z-]+)`")

// TestTheHTMLIsMadeFromTheText renders every guide. The program carries the result and no renderer,
// which would make it larger by half a megabyte.
func TestTheHTMLIsMadeFromTheText(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		linked := guideCommand.ReplaceAllString(string(text), "[`payersync help $1`](/help/$1)")
		var html bytes.Buffer
		if err := goldmark.New(goldmark.WithExtensions(extension.Table)).Convert([]byte(linked), &html); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("html", strings.TrimSuffix(name, ".md")+".html")
		if *update {
			if err := os.WriteFile(file, html.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if kept, err := os.ReadFile(file); err != nil || !bytes.Equal(kept, html.Bytes()) {
			t.Errorf("%s is not made from %s (%v): go test ./cmd/payersync/guides -update", file, name, err)
		}
	}
}

// names returns the files of all guides.
func names(t *testing.T) []string {
	t.Helper()
	found, err := fs.Glob(files, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEveryFileIsAGuideOfAtMostTwelveKilobytes(t *testing.T) {
	t.Parallel()
	if n := len(names(t)); n != len(All()) {
		t.Errorf("%d files are embedded, and %d guides listed", n, len(All()))
	}
	for _, g := range All() {
		if len(g.Text) > 12_000 {
			t.Errorf("%s has %d bytes; split it, or leave out what nobody asks", g.Name, len(g.Text))
		}
		for _, part := range []string{"# " + g.Title + "\n", "\n## The shortest way", "\n## Limits\n"} {
			if !strings.Contains(g.Text, part) && g.Name != "figures" && g.Name != "how-it-works" {
				t.Errorf("%s has no part %q", g.Name, part)
			}
		}
	}
}

func TestAGuideNamesOnlyGuidesThatExist(t *testing.T) {
	t.Parallel()
	named, found := regexp.MustCompile(`payersync help ([a-z-]+)`), 0
	for _, g := range All() {
		for _, m := range named.FindAllStringSubmatch(g.Text, -1) {
			found++
			if _, ok := Find(m[1]); !ok {
				t.Errorf("%s sends its reader to the guide %q, which does not exist", g.Name, m[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d guides are named by others", found)
	}
}

func TestFindKnowsNoOtherName(t *testing.T) {
	t.Parallel()
	if g, ok := Find("nothing"); ok || g.Name != "" {
		t.Errorf("Find returned %q", g.Name)
	}
}
