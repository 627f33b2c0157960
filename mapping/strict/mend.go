package strict

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of Mend's attempts.
const (
	maxMended    = 10       // problems
	maxToMend    = 16 << 10 // bytes of the file
	mostAttempts = 60       // readings of the file
)

// Mend adds the corrected line to the problems of err, found in data, if one of the commonest slips explains
// them. check reads a whole file like its caller: Mend proposes only a line accepted by check, or one with a
// better proposal by check itself.
func Mend(err error, data []byte, check func(data []byte) error) error {
	var found *Error
	if !errors.As(err, &found) || len(data) > maxToMend {
		return err
	}
	m := mending{lines: strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n"), check: check,
		left: mostAttempts}
	_, syntax := parse("", data)
	m.before, m.parses = found.Problems, len(syntax) == 0
	out := slices.Clone(found.Problems)
	for _, beside := range []int{0, 1, -1} { // a mistake in a line often shows in the next one only
		for i, p := range out[:min(maxMended, len(out))] {
			if p.Line < 1 || p.Line > len(m.lines) || p.Source != m.lines[p.Line-1] {
				continue
			}
			mended, alone := m.mend(p, p.Line+beside) // alone: the other mistakes followed from it
			out[i] = mended
			if alone {
				return NewError(slices.DeleteFunc(out,
					func(o Problem) bool { return o.Line != mended.Line && o.Line != p.Line || o == p && o != mended }))
			}
		}
	}
	return NewError(out)
}

type mending struct {
	lines  []string
	before []Problem
	parses bool
	check  func([]byte) error
	left   int
}

// isKey reports whether a problem points at the beginning of its line.
func (m *mending) isKey(p Problem) bool {
	return utf8.RuneCountInString(beginning.FindString(m.lines[p.Line-1])) == p.Column-1
}

// mend tries one slip after the other in a line. The problem is alone when all
// others of the file followed from it.
func (m *mending) mend(p Problem, line int) (mended Problem, alone bool) {
	if line < 1 || line > len(m.lines) || line != p.Line && p.Instead != "" {
		return p, false
	}
	unmended := p
	for _, candidate := range m.candidates(line, p) {
		if m.left--; m.left < 0 {
			return unmended, false
		}
		p.Instead = "" // unless the file is better with it
		after, parses := m.read(line, candidate)
		switch better := m.better(after, line); {
		case len(after) == 0:
			if line != p.Line {
				p.Line, p.Column, p.Source = line, 1, m.lines[line-1]
				p.Width = utf8.RuneCountInString(p.Source)
			}
			p.Instead = candidate
			return p, true
		case line != p.Line || !parses:
		case better != nil && candidate == unmended.Instead:
			p.Instead = better.Instead
			return p, false
		case better != nil:
			if !m.parses || m.isKey(p) { // the message was about the YAML, and does not apply
				p.Message = better.Message
			}
			p.Instead = better.Instead
			return p, len(after) == 1
		case m.fewer(after, p):
			p.Instead = candidate
			return p, false
		}
	}
	return p, false
}

// read returns what is wrong in the file with something else in the place of a
// line, and whether it is YAML then.
func (m *mending) read(line int, instead string) (problems []Problem, parses bool) {
	lines := slices.Clone(m.lines)
	lines[line-1] = instead // of one line or several
	data := []byte(strings.Join(lines, "\n"))
	var found *Error
	if errors.As(m.check(data), &found) {
		problems = found.Problems
	}
	_, syntax := parse("", data)
	return problems, len(syntax) == 0
}

// better returns the problem of a line with a correction of its own.
func (m *mending) better(after []Problem, line int) *Problem {
	for _, p := range after {
		if p.Line == line && p.Instead != "" {
			left, parses := m.read(line, p.Instead)
			if parses && len(left) <= len(after) && !slices.ContainsFunc(left, func(l Problem) bool { return l.Line == line }) {
				return &p
			}
		}
	}
	return nil
}

// fewer reports whether a file has improved: there is no new problem, or only problems behind the single
// earlier one.
func (m *mending) fewer(after []Problem, p Problem) bool {
	isOld := func(a Problem) bool {
		return slices.ContainsFunc(m.before, func(b Problem) bool { return a.Line == b.Line && a.Message == b.Message })
	}
	if len(m.before) == 1 {
		return !slices.ContainsFunc(after, func(a Problem) bool { return isOld(a) || a.Line <= p.Line })
	}
	return len(after) < len(m.before) && !slices.ContainsFunc(after, func(a Problem) bool { return !isOld(a) })
}

// A line with a key and its value: indentation and key, and the value.
const keyAnd = `^(\s*(?:- )?["'“”„]?[\w.-]+["'“”]?)`

// slips are common mistakes in YAML, with their intended form.
var slips = []struct {
	written *regexp.Regexp
	meant   string
}{
	{regexp.MustCompile(keyAnd + `\s*(?:=>|:=|=|：|→|->)\s*(.+)$`), `$1: $2`},
	{regexp.MustCompile(keyAnd + `:([^\s:].*)$`), `$1: $2`},
	{regexp.MustCompile(`^(\s*(?:- )?)["'“”„](\w+)["'“”](\s*:.*)$`), `$1$2$3`},
	{regexp.MustCompile(keyAnd + ` +([^:\s].*)$`), `$1: $2`},
	{regexp.MustCompile(`^(\s*)[•*·–—▪+]\s*(.*)$`), `$1- $2`},
	{regexp.MustCompile(`^(\s*)(?://|;|--[^-]|'|<!--)\s*(.*)$`), `$1# $2`},
	{regexp.MustCompile(keyAnd + `:\s*\{\{\s*(.*?)\s*\}\}$`), `$1: $2`},
	{regexp.MustCompile(keyAnd + `:\s*[\[{(<]\s*(.*?)\s*[>)}\]]$`), `$1: $2`},
	{regexp.MustCompile(keyAnd + `:\s*["']?(.*?)["']?$`), `$1: $2`},
	{regexp.MustCompile(keyAnd + `:\s*[*&#@]\s*(.*)$`), `$1: $2`},
	{regexp.MustCompile(keyAnd + `:\s*!\s*(.*)$`), `$1: not $2`},
	{regexp.MustCompile(keyAnd + `:\s+(\w+)$`), `$1: [$2]`},
	{regexp.MustCompile(`^(\s*)([^:]*[^\w:.\s-][^:]*|[^\s:][^:]* [^:]*):\s*(\w+)$`), `$1$3: $2`},
	{regexp.MustCompile(`^(\s*[\w.-]+:\s*\{\s*[\w.-]+:\s*)(.*?)(\s*\})$`), `$1'$2'$3`},
}

var (
	beginning = regexp.MustCompile(`^[\s-]*`)
	indented  = regexp.MustCompile(`^[\s\x{a0}]*`)
	nothing   = regexp.MustCompile(`^(?:"(?:\s|\\u[0-9a-fA-F]{4})*"|'\s*'|null|~|-)?$`)
	// further ones make a fixed text of an expression
	inQuotes = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')$`)
	valued   = regexp.MustCompile(keyAnd + `:\s+(.*)$`)
)

// candidates are the lines possibly meant by one: its problem's proposal, or else the line with its value in
// quotes, corrected by the slips, and moved to the indentation of the lines above it.
func (m *mending) candidates(line int, p Problem) []string {
	var out []string
	if p.Instead != "" {
		out = append(out, p.Instead)
	}
	written := m.lines[line-1]
	begin := indented.FindString(written)
	text := strings.TrimRight(written[len(begin):], " ")
	spaces := strings.NewReplacer("\t", "  ", "\u00a0", " ").Replace(begin)
	out = append(out, spaces+text)
	if v := valued.FindStringSubmatch(spaces + text); v != nil && !nothing.MatchString(v[2]) &&
		!inQuotes.MatchString(v[2]) {
		out = append(out, v[1]+": '"+strings.ReplaceAll(v[2], "'", "''")+"'")
	}
	for _, s := range slips {
		if s.written.MatchString(spaces + text) {
			out = append(out, s.written.ReplaceAllString(spaces+text, s.meant))
		}
	}
	if v := valued.FindStringSubmatch(spaces + text); v != nil && len(v[2]) == 2 {
		out = append(out, v[1]+": "+strings.ToUpper(v[2]))
	}
	for i := line - 2; i >= 0; i-- {
		above := indented.FindString(m.lines[i])
		if strings.TrimSpace(m.lines[i]) != "" {
			out = append(out, above+text, above+"  "+text)
		}
		if above == "" {
			break
		}
	}
	seen := map[string]bool{written: true}
	return slices.DeleteFunc(append(out, text), func(s string) bool {
		known := seen[s] || strings.TrimSpace(s) == ""
		seen[s] = true
		return known
	})
}
