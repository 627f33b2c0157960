package state

import (
	"database/sql"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func TestArgumentsAreWhatEveryDatabaseTakes(t *testing.T) {
	t.Parallel()
	type flag bool
	for name, c := range map[string]struct{ sent, bound any }{
		"true":             {true, int64(1)},
		"false":            {false, int64(0)},
		"a named bool":     {flag(true), int64(1)},
		"a bool or NULL":   {sql.NullBool{Bool: true, Valid: true}, int64(1)},
		"no bool":          {sql.NullBool{}, nil},
		"a number":         {7, int64(7)},
		"NULL":             {nil, nil},
		"no time":          {stamp(time.Time{}), nil},
		"bytes":            {[]byte("a\x00\xff"), []byte("a\x00\xff")},
		"text":             {"Zoë\x1f", "Zoë\x1f"},
		"text with NUL":    {"a\x00b", "a\ufffdb"},
		"broken text":      {"a\xff", "a\ufffd"},
		"named text":       {connector.MandateStatus("A\x00"), "A\ufffd"},
		"text or NULL":     {sql.NullString{String: "a\x00", Valid: true}, "a\ufffd"},
		"no text":          {sql.NullString{}, nil},
		"text by a string": {new("a\x00"), "a\ufffd"},
	} {
		got, err := bound([]any{c.sent})
		if diff := cmp.Diff([]any{c.bound}, got); diff != "" || err != nil {
			t.Errorf("%s, %v (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := bound([]any{1, struct{}{}}); err == nil || !strings.Contains(err.Error(), "argument 2") {
		t.Errorf("what is no value of a database: %v", err)
	}
}

// bareCondition finds a parameter that stands for a condition by itself: databases with a
// type for conditions take no number there.
var bareCondition = regexp.MustCompile(`(?i)\b(AND|OR|NOT|WHEN|WHERE|ON|HAVING)\s+\(?\s*\?\d*\s*($|\)|\b(AND|OR|THEN|ORDER|GROUP|LIMIT)\b)` +
	`|(?i)\b(WHERE|WHEN|NOT)\s*\(\s*\?\d*\s+(AND|OR)\b|(^|\()\s*\?\d*\s+(AND|OR)\s`)

func TestNoParameterIsAConditionByItself(t *testing.T) {
	t.Parallel()
	for text, found := range map[string]bool{
		"CASE WHEN ?1 THEN 2": true, "a = 1 AND ?15 THEN": true, "NOT (?4 AND b > 0)": true, "WHERE NOT ? AND b = 2": true,
		"a = 1 OR ?":              true,
		"CASE WHEN ?1 = 1 THEN 2": false, "AND ?1 = 1": false, "NOT (?4 = 1 AND b)": false, "a = ? AND b = ?": false,
		"CASE a WHEN ?4 THEN b ELSE 0 END": true, // see below
	} {
		if bareCondition.MatchString(text) != found {
			t.Fatalf("%q: found is not %v", text, found)
		}
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	caseOf := regexp.MustCompile(`(?i)\bCASE [a-z_.]+ WHEN \?\d* THEN`) // a value beside another
	statements := 0
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, is := n.(*ast.BasicLit)
			if !is || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(text, "?") {
				statements++
			}
			if bareCondition.MatchString(caseOf.ReplaceAllString(text, "")) {
				t.Errorf("%s: a parameter is a condition by itself: %s", name, text)
			}
			return true
		})
	}
	if statements < 300 {
		t.Errorf("only %d statements were looked at", statements)
	}
}
