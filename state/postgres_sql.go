package state

import (
	"strconv"
	"strings"
)

// postgresSQL writes a statement of this package as PostgreSQL reads it. It is one statement
// for every engine, and says the same in both spellings:
//
//	?, ?1                $1: SQLite numbers a bare one behind the highest before it
//	INDEXED BY name      nothing: PostgreSQL chooses its indexes by what it has counted
//	x'00ff'              '\x00ff'::bytea
//	char(31)             chr(31)
//	CROSS JOIN t ON      JOIN t ON: SQLite is told the order by it
//	ON CONFLICT (name)   ON CONFLICT (account, name): there, each key begins with the account
//
// What SQLite has as functions, PostgreSQL finds in the schema of the ledger. Literals, quoted
// names and comments stay as they are.
func postgresSQL(statement string) string {
	var out strings.Builder
	out.Grow(len(statement) + 16)
	highest := 0
	for rest := statement; rest != ""; {
		n := sqlToken(rest)
		token := rest[:n]
		rest = rest[n:]
		switch {
		case token[0] == '?':
			number, err := strconv.Atoi(token[1:])
			if err != nil {
				number = highest + 1
			}
			highest = max(highest, number)
			token = "$" + strconv.Itoa(number)
		case strings.EqualFold(token, "x") && strings.HasPrefix(rest, "'"):
			n := sqlToken(rest)
			token, rest = `'\x`+rest[1:n]+"::bytea", rest[n:]
		case strings.EqualFold(token, "char") && strings.HasPrefix(rest, "("):
			token = "chr"
		case strings.EqualFold(token, "cross"):
			if after, found := skipWord(rest, "join"); found && joinedOn(after) {
				token, rest = "JOIN", " "+after
			}
		case strings.EqualFold(token, "conflict"):
			if after := strings.TrimLeft(rest, " \t\r\n"); strings.HasPrefix(after, "(") {
				token, rest = token+" (account, ", after[1:]
			}
		case strings.EqualFold(token, "indexed"):
			if after, found := skipWord(rest, "by"); found {
				token, rest = "", after[wordLength(after):]
			}
		}
		out.WriteString(token)
	}
	return out.String()
}

// sqlToken returns the length of the first token of a non-empty statement: a literal, a quoted
// name, a comment, a word, a placeholder, or any other single byte. One that has no end goes to the
// end of the statement.
func sqlToken(s string) int {
	switch {
	case s[0] == '\'' || s[0] == '"': // a doubled quote inside makes two tokens, which is as good
		return to(s, 1, s[:1])
	case strings.HasPrefix(s, "--"):
		return to(s, 2, "\n")
	case strings.HasPrefix(s, "/*"):
		return to(s, 2, "*/")
	case s[0] == '?':
		n := 1
		for n < len(s) && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		return n
	}
	return max(1, wordLength(s))
}

// to returns where the first end behind the first bytes of s is over.
func to(s string, first int, end string) int {
	if i := strings.Index(s[first:], end); i >= 0 {
		return first + i + len(end)
	}
	return len(s)
}

// wordLength returns how long the word is that s begins with; 0 for none.
func wordLength(s string) (n int) {
	for n < len(s) && (s[n] == '_' || s[n] >= 0x80 || '0' <= s[n] && s[n] <= '9' || 'a' <= s[n]|0x20 && s[n]|0x20 <= 'z') {
		n++
	}
	return n
}

// joinedOn reports whether s begins with a table, under any name, that is joined ON something.
func joinedOn(s string) bool {
	for range 3 { // the table, or its name and a word between them
		n := wordLength(s)
		s = strings.TrimLeft(s[n:], " \t\r\n")
		if n == 0 || strings.HasPrefix(s, "(") {
			return false
		}
		if strings.EqualFold(s[:wordLength(s)], "on") {
			return true
		}
	}
	return false
}

// skipWord returns the part of s behind a word and the space around it.
func skipWord(s, word string) (after string, found bool) {
	s = strings.TrimLeft(s, " \t\r\n")
	if n := wordLength(s); strings.EqualFold(s[:n], word) {
		return strings.TrimLeft(s[n:], " \t\r\n"), true
	}
	return "", false
}
