package main

import (
	"strings"
	"testing"
)

func TestSetUpsForOwnBooksWriteNoLettersOfTheSampleCompany(t *testing.T) {
	t.Parallel()
	for _, kind := range append(sourceKinds(), "") {
		files, err := firstFiles(kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.name != configFile {
				continue
			}
			text := string(f.data)
			for _, line := range []string{sampleFrom, sampleLegal} {
				if strings.Contains(text, line) != (kind == "") {
					t.Errorf("source %q: %s holds %q: %v", kind, f.name, line, kind != "")
				}
			}
			if kind != "" && !strings.Contains(text, ownFrom+"\n  "+ownLegal) {
				t.Errorf("source %q: letters are from nobody", kind)
			}
		}
	}
}
