package state

import (
	"strings"
	"testing"
)

func TestStatementsAreSpeltAsPostgreSQLReadsThem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, statement, want string }{
		{"bare placeholders", "VALUES (?, ?, ?)", "VALUES ($1, $2, $3)"},
		{"numbered ones", "a = ?2 AND b = ?1 AND c = ?12", "a = $2 AND b = $1 AND c = $12"},
		{"bare ones behind numbered ones", "a = ?3 AND b = ? LIMIT ? + 0", "a = $3 AND b = $4 LIMIT $5 + 0"},
		{"one at the end", "SELECT ?", "SELECT $1"},
		{"literals", "a = '?' AND b = 'it''s ?1' AND c = ?", "a = '?' AND b = 'it''s ?1' AND c = $1"},
		{"quoted names", `SELECT "odd?name", "a""?" FROM t WHERE b = ?`, `SELECT "odd?name", "a""?" FROM t WHERE b = $1`},
		{"comments", "a = ? -- why?\nAND b = ? /* ?1 ' */ AND c = ?", "a = $1 -- why?\nAND b = $2 /* ?1 ' */ AND c = $3"},
		{"a literal in a comment", "a = ? -- it's\nAND b = ?", "a = $1 -- it's\nAND b = $2"},
		{"a comment in a literal", "a = '--' AND b = ? AND c = '/*' AND d = ?",
			"a = '--' AND b = $1 AND c = '/*' AND d = $2"},
		{"a literal without an end", "a = ? AND b = '?", "a = $1 AND b = '?"},
		{"a comment without an end", "a = ? /* ?", "a = $1 /* ?"},
		{"PostgreSQL's own", "a = $1 AND b = $2::text", "a = $1 AND b = $2::text"},
		{"bytes", "body <> x'' AND body = X'00ff'", `body <> '\x'::bytea AND body = '\x00ff'::bytea`},
		{"a name before a literal", "max'' x ''", "max'' x ''"},
		{"characters", "a || char(31) || b AND char = 'char(31)'", "a || chr(31) || b AND char = 'char(31)'"},
		{"an index that SQLite is told", "FROM payers p INDEXED BY payers_key WHERE p.a = ?",
			"FROM payers p  WHERE p.a = $1"},
		{"the same over lines", "FROM payers p\n\tindexed  by\n\tpayers_key\nWHERE a", "FROM payers p\n\t\nWHERE a"},
		{"other words of that name", "SELECT indexed, indexed_by FROM t", "SELECT indexed, indexed_by FROM t"},
		{"a join in an order", "FROM a CROSS JOIN b ON b.x = a.x CROSS JOIN c AS d ON d.y = ?",
			"FROM a JOIN b ON b.x = a.x JOIN c AS d ON d.y = $1"},
		{"a join of all", "FROM a m CROSS JOIN b o CROSS JOIN c p ON p.x = o.x",
			"FROM a m CROSS JOIN b o JOIN c p ON p.x = o.x"},
		{"nothing", "", ""},
	} {
		if got := postgresSQL(tt.statement); got != tt.want {
			t.Errorf("%s: %q became %q, want %q", tt.name, tt.statement, got, tt.want)
		}
	}
}

func FuzzSpellingKeepsLiteralsAndNumbers(f *testing.F) {
	for _, seed := range []string{"a = ? AND b = ?7", "'?' x'00'", "-- ?\n?", "/* ' */ ? \"?\"", "INDEXED BY a ?",
		"char(1)?"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, statement string) {
		if got := postgresSQL(statement); !strings.ContainsAny(statement, "'\"-/") && strings.Contains(got, "?") {
			t.Errorf("%q became %q, with a placeholder left", statement, got)
		}
		quoted := func(mark string) string { return mark + strings.ReplaceAll(statement, mark, mark+mark) + mark }
		for _, kept := range []string{quoted("'"), quoted(`"`), "/*" + strings.ReplaceAll(statement, "*/", "") + " */", "--" +
			strings.ReplaceAll(statement, "\n", "") + "\n"} {
			if got := postgresSQL("a = ? AND b = " + kept + " AND c = ?"); got != "a = $1 AND b = "+kept+" AND c = $2" {
				t.Errorf("%q became %q", kept, got)
			}
		}
	})
}
