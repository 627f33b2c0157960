package strict

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"

	"payersync/connector"
)

// Problem is one mistake in a file. Its text never shows the value of a secret key.
type Problem struct {
	File    string
	Line    int    // counted from 1; 0 when the problem is the whole file's
	Column  int    // counted from 1, in characters
	Width   int    // characters to underline; 0 for none
	Source  string // the line as written; "" when there is none to show
	Message string // one plain sentence without a full stop
	Instead string // the line, or the lines, to write in its place; "" when that is not known
}

// String returns the problem as it is printed: place and sentence, then the
// line with the words in question underlined, then the line to write in its
// place.
func (p Problem) String() string {
	text := p.place()
	if p.Instead != "" {
		text += "\nwrite | " + strings.ReplaceAll(p.Instead, "\n", "\n      | ")
	}
	return text
}

func (p Problem) place() string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	head := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	if strings.TrimSpace(p.Source) == "" {
		return head
	}
	text := fmt.Sprintf("%s\n%5d | %s", head, p.Line, p.Source)
	if p.Width == 0 {
		return text
	}
	before := []rune(p.Source)
	before = before[:min(p.Column-1, len(before))]
	for i, r := range before {
		if r != '\t' {
			before[i] = ' '
		}
	}
	return fmt.Sprintf("%s\n%5s | %s%s", text, "", string(before), strings.Repeat("^", p.Width))
}

// Error is every problem of a file, in the order of the file.
type Error struct {
	Problems []Problem
}

// NewError returns problems sorted by position as an *Error, and nil when there
// are none.
func NewError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	sorted := slices.Clone(problems)
	slices.SortStableFunc(sorted, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
	return &Error{slices.Compact(sorted)}
}

// maxPrinted is how many problems are printed; a person corrects those first.
const maxPrinted = 20

// maxDetailed is how many problems of one stage show their lines and suggest words. The others are never printed, and
// would take minutes in a file of many thousands.
const maxDetailed = 5 * maxPrinted

// Error returns the problems one below the other.
func (e *Error) Error() string { return e.join("\n") }

// WithoutLines returns the problems with their places alone, in one line, for
// logs: a line of the file may hold what no log may.
func (e *Error) WithoutLines() error {
	out := Error{slices.Clone(e.Problems)}
	for i := range out.Problems {
		out.Problems[i].Source, out.Problems[i].Instead = "", ""
	}
	return errors.New(out.join("; "))
}

func (e *Error) join(between string) string {
	var texts []string
	for i, p := range e.Problems {
		if i == maxPrinted {
			texts = append(texts, fmt.Sprintf("… and %d more", len(e.Problems)-i))
			break
		}
		if i+1 < len(e.Problems) && e.Problems[i+1].Line == p.Line && e.Problems[i+1].Instead == p.Instead {
			p.Instead = "" // told once, below the last problem of the line
		}
		texts = append(texts, p.String())
	}
	return strings.Join(texts, between)
}

// Problem returns a problem of the value at path, or of the nearest existing block above it.
func (d *Doc) Problem(path Path, format string, args ...any) Problem {
	key, node := d.nearest(path)
	message := d.named(node, fmt.Sprintf(format, args...))
	switch {
	case node == d.root:
		return d.at(node.Line, node.Column, 1, message)
	case node.Kind == yaml.ScalarNode && node.Value != "":
		return d.at(node.Line, node.Column, d.width(node), message)
	case key != nil:
		return d.at(key.Line, key.Column, d.width(key), message)
	}
	return d.at(node.Line, node.Column, 1, message)
}

// KeyProblem returns a problem of the key at the end of path.
func (d *Doc) KeyProblem(path Path, format string, args ...any) Problem {
	key, node := d.nearest(path)
	if key == nil {
		key = node
	}
	return d.at(key.Line, key.Column, d.width(key), d.named(key, fmt.Sprintf(format, args...)))
}

// TextProblem returns a problem inside the text at path, width characters long,
// from the given character of the text (counted from 0) on. It finds the place
// through quotes, escapes and folded lines.
func (d *Doc) TextProblem(path Path, from, width int, format string, args ...any) Problem {
	_, node := d.nearest(path)
	line, column := d.locate(node, from)
	return d.at(line, column, width, d.named(node, fmt.Sprintf(format, args...)))
}

// Instead returns the line of the value at path with another text for its value, in quotes if YAML needs
// them. It is "" for a value of several lines, and for a line with a possible secret.
func (d *Doc) Instead(path Path, text string) string {
	_, node := d.nearest(path)
	if node.Kind != yaml.ScalarNode || d.below.nodes[node] {
		return ""
	}
	line, from := d.locate(node, 0)
	last, end := d.locate(node, utf8.RuneCountInString(strings.TrimRight(node.Value, "\n")))
	if node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		text, from = quotedFor(text, d.inBlock(path)), node.Column
	}
	if isQuoted(node) {
		end++
	}
	if line != last || line > len(d.lines) || end < from || d.shown(line) != d.lines[line-1] {
		return ""
	}
	written := d.written(line)
	if end-1 > len(written) {
		return ""
	}
	return string(written[:from-1]) + text + string(written[end-1:])
}

// KeyInstead returns the line of the key at the end of path, with another key; "" for a line with a possible
// secret.
func (d *Doc) KeyInstead(path Path, key string) string {
	found, _ := d.nearest(path)
	if d.lean || found == nil || d.below.nodes[found] || found.Value != path[len(path)-1] || d.shown(found.Line) != d.lines[found.Line-1] {
		return ""
	}
	line := d.written(found.Line)
	from, end := found.Column-1, found.Column-1+d.width(found)
	if end > len(line) {
		return ""
	}
	return string(line[:from]) + key + string(line[end:])
}

// inBlock reports whether a value has lines of its own, outside of { } and [ ].
func (d *Doc) inBlock(path Path) bool {
	for i := range path {
		if node := d.Node(path[:i]); node != nil && node.Style&yaml.FlowStyle != 0 {
			return false
		}
	}
	return true
}

// quotedFor returns a text in YAML behind a key: as it is, or in quotes if YAML would read it as something
// else.
func quotedFor(text string, inBlock bool) string {
	before, behind := "k: ", ""
	if !inBlock {
		before, behind = "{k: ", "}"
	}
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(before+text+behind), &node); err == nil && len(node.Content) == 1 &&
		len(node.Content[0].Content) == 2 {
		plain := node.Content[0].Content[1]
		if plain.Kind == yaml.ScalarNode && plain.Value == text && plain.Style == 0 && plain.Anchor == "" {
			return text
		}
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// Line returns the line of the value at path, or of the nearest block above it.
func (d *Doc) Line(path Path) int {
	_, node := d.nearest(path)
	return node.Line
}

// order compares the places of two values.
func (d *Doc) order(a, b Path) int {
	_, x := d.nearest(a)
	_, y := d.nearest(b)
	return inOrder(x, y)
}

func inOrder(a, b *yaml.Node) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// nearest walks as far along path as the file goes.
func (d *Doc) nearest(path Path) (key, node *yaml.Node) {
	node = d.root
	for _, step := range path {
		k, v := d.child(node, step)
		if v == nil {
			break
		}
		key, node = k, v
	}
	return key, node
}

// at makes a problem. It underlines nothing if a hidden secret before it has moved the words.
func (d *Doc) at(line, column, width int, message string) Problem {
	p := Problem{File: d.name, Line: line, Column: max(column, 1), Message: maskAddresses(message)}
	if line < 1 || line > len(d.lines) || d.lean {
		return p
	}
	p.Source = d.shown(line)
	written, shown := d.written(line), []rune(p.Source)
	if before := p.Column - 1; before <= min(len(written), len(shown)) && slices.Equal(written[:before], shown[:before]) {
		p.Width = max(1, min(width, len(shown)-before))
	}
	return p
}

// width is how many characters of its first line a scalar takes.
func (d *Doc) width(node *yaml.Node) int {
	first, _, _ := strings.Cut(node.Value, "\n")
	n := utf8.RuneCountInString(first)
	if isQuoted(node) {
		n += 2
	}
	return n
}

func isQuoted(node *yaml.Node) bool {
	return node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
}

// maxShown is how much of a line is shown, in characters.
const maxShown = 240

// fileLine is a line of the file in the forms that problems need.
type fileLine struct {
	number  int
	text    string // as in the file
	written []rune
	shown   func() string
}

// lineAt returns a line. A file may have all its keys in one line, so the line used last is kept.
func (d *Doc) lineAt(number int) *fileLine {
	text := d.lines[number-1]
	if last := d.last.Load(); last != nil && last.number == number && last.text == text {
		return last
	}
	l := &fileLine{number, text, []rune(text), sync.OnceValue(func() string { return cut(d.secrets.mask(text, number)) })}
	d.last.Store(l)
	return l
}

// written returns the characters of a line.
func (d *Doc) written(number int) []rune { return d.lineAt(number).written }

// shown returns a line for a message: without secrets, and not endless.
func (d *Doc) shown(number int) string { return d.lineAt(number).shown() }

// cut shortens an endless text.
func cut(text string) string {
	if r := []rune(text); len(r) > maxShown {
		return string(r[:maxShown]) + "…"
	}
	return text
}

const redacted = "[redacted]"

// secretWord matches secret-like keys, even outside of the file's schema: a misspelt key must not print its
// value either.
var secretWord = regexp.MustCompile(`(?i)(secr|passw|token|api_?key|credential)`)

// secretAfterKey finds the value behind such a key on one line of text. The
// value of a reference (env:NAME, file:PATH) is no secret.
var secretAfterKey = regexp.MustCompile(`(?i)([\w.-]*(?:secr|passw|token|api_?key|credential)[\w.-]*["']?\s*:\s*)([^\s#,{}\[\]][^#,}\]]*|\[[^\]]+\]?)`)

// passwordInAddress matches the part before the @ of a web address.
var passwordInAddress = regexp.MustCompile(`(://)[^/\s@"']+@`)

func maskAddresses(text string) string {
	return passwordInAddress.ReplaceAllString(text, "${1}"+redacted+"@")
}

// secrets holds the hidden parts of a file.
type secrets struct {
	keys  []string       // secret ones by the schema
	spans map[int][]span // to hide, by line
}

// span is a part of a line, in columns: from the first to the one before end.
type span struct{ from, end int }

// hideSecrets finds the scalars below secret keys.
func (d *Doc) hideSecrets(node *yaml.Node, hide bool) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			d.hideSecrets(node.Content[i+1], hide || d.secrets.hold(node.Content[i].Value))
		}
	case yaml.SequenceNode:
		for _, element := range node.Content {
			d.hideSecrets(element, hide)
		}
	case yaml.ScalarNode:
		if hide && !isReference(node.Value) {
			d.hideScalar(node)
		}
	}
}

// hideScalar hides a scalar from its first character to its last, or to the end of the line if the last is
// unknown.
func (d *Doc) hideScalar(node *yaml.Node) {
	const endOfLine = MaxSize
	lastLine, end := d.locate(node, utf8.RuneCountInString(strings.TrimRight(node.Value, "\n")))
	if isQuoted(node) {
		end++
	}
	if lastLine == node.Line && end <= node.Column {
		end = endOfLine
	}
	for line, from := node.Line, node.Column; line <= lastLine; line, from = line+1, 1 {
		s := span{from, endOfLine}
		if line == lastLine {
			s.end = end
		}
		d.secrets.spans[line] = append(d.secrets.spans[line], s)
	}
}

func (s *secrets) hold(key string) bool {
	return secretWord.MatchString(key) || slices.Contains(s.keys, connector.Nearest(key, s.keys))
}

// mask hides the secrets of a line. The columns before the first stay.
func (s *secrets) mask(text string, line int) string {
	r := []rune(text)
	spans := slices.Clone(s.spans[line])
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out []rune
	done := 0 // characters of the line
	for _, h := range spans {
		from, end := min(h.from-1, len(r)), min(h.end-1, len(r))
		if from = max(from, done); from < end {
			out = append(append(out, r[done:from]...), []rune(redacted)...)
			done = end
		}
	}
	return secretAfterKey.ReplaceAllStringFunc(maskAddresses(string(append(out, r[done:]...))), func(found string) string {
		m := secretAfterKey.FindStringSubmatch(found)
		if value := strings.Trim(m[2], `"'[ `); isReference(value) || strings.HasPrefix(value, redacted[1:]) {
			return found
		}
		return m[1] + redacted
	})
}

func isReference(value string) bool {
	return strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "file:")
}
