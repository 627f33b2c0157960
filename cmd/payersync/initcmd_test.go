package main

import (
	"strings"
	"testing"
)

func TestSetUpsForOwnBooksWriteNoLetters(t *testing.T) {
	t.Parallel()
	for _, kind := range append(sourceKinds(), "") {
		files, err := firstFiles(kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.name != configFile && f.name != productionFile {
				continue
			}
			sample := kind == "" && f.name == configFile
			if text := string(f.data); strings.Contains(text, "\nletters:") != sample ||
				strings.Contains(text, "Harbour Bakery") != sample || !strings.HasSuffix(text, "\n") {
				t.Errorf("source %q: %s ends with %q", kind, f.name, text[max(0, len(text)-300):])
			}
		}
	}
}

func TestTheFolderOfInitIsNamedAsASentenceTakesIt(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{".": "this folder", "./": "this folder", "books": "books", "..": "..",
		"/srv/books": "/srv/books"} {
		if got := folder(dir); got != want {
			t.Errorf("%q is named %q, want %q", dir, got, want)
		}
	}
}
