package strict

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// maxDepth is how deep blocks may nest.
const maxDepth = 64

const isEmpty = `the file is empty; start with "version: 1", or take the mapping of a new set-up folder`

// otherFormats are files of other programs, by how they begin.
var otherFormats = []struct{ begin, name string }{
	{"PK\x03\x04", "a document or spreadsheet of an office program"},
	{"\xd0\xcf\x11\xe0", "a document or spreadsheet of an office program"},
	{`{\rtf`, "a document of a word processor"},
	{"%PDF", "a PDF"},
	{"<!DOCTYPE", "a web page"},
	{"<html", "a web page"},
}

// parse turns the bytes of a file into a Doc, or into problems: size, encoding, YAML syntax, several
// documents, and structure forbidden in strict files.
func parse(name string, data []byte) (*Doc, []Problem) {
	doc := &Doc{name: name, keys: map[*yaml.Node]map[string]int{}, secrets: secrets{spans: map[int][]span{}}}
	if len(data) > MaxSize {
		return nil, []Problem{{File: name,
			Message: fmt.Sprintf("the file is larger than %d bytes; check that it is the right one", MaxSize)}}
	}
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return nil, []Problem{{File: name, Message: "the file is UTF-16 text; save it as UTF-8"}}
	}
	for _, format := range otherFormats {
		if bytes.HasPrefix(data, []byte(format.begin)) {
			return nil, []Problem{{File: name,
				Message: fmt.Sprintf("the file is %s; write it with a text editor and save it as plain text, in UTF-8",
					format.name)}}
		}
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	doc.lines = strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	if problems := doc.checkBytes(); len(problems) > 0 {
		return nil, problems
	}
	if problem := doc.parseYAML(data); problem != nil {
		return nil, []Problem{*problem}
	}
	doc.hideSecrets(doc.root, false)
	var problems []Problem
	doc.checkStructure(doc.root, &problems)
	doc.lean = false
	return doc, problems
}

// checkBytes refuses bytes other than text.
func (d *Doc) checkBytes() []Problem {
	var out []Problem
	for i, line := range d.lines {
		switch {
		case !utf8.ValidString(line):
			d.lines[i] = strings.ToValidUTF8(line, "�")
			column := utf8.RuneCountInString(d.lines[i][:strings.IndexRune(d.lines[i], '�')]) + 1
			out = append(out, d.at(i+1, column, 1, "this is not UTF-8 text; save the file as UTF-8"))
		case strings.ContainsFunc(line, isControl):
			column := utf8.RuneCountInString(line[:strings.IndexFunc(line, isControl)]) + 1
			d.lines[i] = strings.Map(visible, line)
			out = append(out, d.at(i+1, column, 1, "there is an invisible control character here; delete it"))
		}
	}
	return out
}

func isControl(r rune) bool {
	return r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 && r != 0x85
}

func visible(r rune) rune {
	if isControl(r) {
		return '�'
	}
	return r
}

func (d *Doc) parseYAML(data []byte) *Problem {
	loader, err := yaml.NewLoader(bytes.NewReader(data),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return d.syntax(err)
	}
	var first, second yaml.Node
	switch err := loader.Load(&first); {
	case errors.Is(err, io.EOF):
		return &Problem{File: d.name, Message: isEmpty}
	case err != nil:
		return d.syntax(err)
	}
	d.root = first.Content[0]
	switch err := loader.Load(&second); {
	case err == nil:
		p := d.at(second.Line, second.Column, 1,
			"a second document starts here; a file holds one only, remove the --- or ... line above it")
		return &p
	case !errors.Is(err, io.EOF):
		return d.syntax(err)
	}
	return nil
}

// syntax describes the YAML parser's error in plain words.
func (d *Doc) syntax(err error) *Problem {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return &Problem{File: d.name, Message: err.Error()}
	}
	mark := load.Mark
	message := plainSyntax(load.Message)
	if strings.Contains(load.Message, "found unexpected end of stream") ||
		strings.HasPrefix(load.Message, "did not find expected ',' or") {
		mark = load.ContextMark // the place of the opening quote or bracket
	}
	message = cmp.Or(message, load.Message)
	if mark.Line > 0 && mark.Line <= len(d.lines) && strings.HasPrefix(strings.TrimLeft(d.lines[mark.Line-1], " "), "\t") {
		message = "lines are indented with spaces in YAML, not with tabs"
	}
	for mark.Line > len(d.lines) || mark.Line > 1 && strings.TrimSpace(d.lines[mark.Line-1]) == "" {
		mark.Line, mark.Column = mark.Line-1, 1 // the parser points behind the end
	}
	p := d.at(mark.Line, mark.Column, 1, message)
	if d.belowSecret(mark.Line) {
		p.Source = ""
	}
	return &p
}

// belowSecret reports whether a line is inside the block of a key with a secret-like name. Without nodes,
// there is no other sign.
func (d *Doc) belowSecret(line int) bool {
	if line < 1 || line > len(d.lines) {
		return false
	}
	indent := indentation(d.lines[line-1])
	for i := line - 2; i >= 0 && indent > 0; i-- {
		if above := indentation(d.lines[i]); above < indent && strings.TrimSpace(d.lines[i]) != "" {
			if key, _, isKey := strings.Cut(d.lines[i], ":"); isKey && secretWord.MatchString(key) {
				return true
			}
			indent = above
		}
	}
	return false
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t-")) }

var syntaxWords = []struct{ yaml, plain string }{
	{"mapping values are not allowed",
		`a colon is not expected here; put a text that holds ": " in quotes, or check the indentation`},
	{"found character that cannot start any token", "a value cannot start with this character; put the value in quotes"},
	{"found unexpected end of stream", "the quote that is opened here is never closed"},
	{"found unexpected document indicator", "the quote that is opened here is never closed"},
	{"did not find expected ',' or ']'",
		"this [ is not closed with ], or a text inside it holds a comma or a quote and is not in quotes itself; one item per line needs no quotes"},
	{"did not find expected ',' or '}'",
		"this { is not closed with }, or a text inside it holds a comma or a quote and is not in quotes itself; one key per line needs no quotes"},
	{"could not find expected ':'", "this line is neither a key with a colon nor a list item with a dash"},
	{"did not find expected comment or line break", "a value cannot start with > or |; put the value in quotes"},
	{"did not find expected key", "the indentation does not fit the lines above"},
	{"did not find expected '-' indicator", "the indentation does not fit the list above; items start with a dash"},
	{"did not find expected node content", "a value is missing here"},
	{"did not find expected <document start>", "there is something behind the end of the file's content"},
	{"found unknown escape character", `a backslash has a meaning in double quotes; write \\ or use single quotes`},
	{"unknown anchor", "values cannot be reused with *; write the value out, or put a text that starts with * in quotes"},
	{"block sequence entries are not allowed", "a list item is not expected here; start the list on a line of its own"},
	{"found a tab character", "lines are indented with spaces in YAML, not with tabs"},
	{"exceeded max depth", "blocks are nested too deeply"},
}

func plainSyntax(message string) string {
	for _, w := range syntaxWords {
		if strings.Contains(message, w.yaml) {
			return w.plain
		}
	}
	return ""
}

// checkStructure refuses structure forbidden in strict files: a key given twice, keys other than text,
// anchors, aliases, merge keys and type tags.
func (d *Doc) checkStructure(node *yaml.Node, problems *[]Problem) {
	report := func(n *yaml.Node, format string, args ...any) {
		d.lean = len(*problems) >= maxDetailed
		*problems = append(*problems, d.at(n.Line, n.Column, d.width(n), fmt.Sprintf(format, args...)))
	}
	switch {
	case node.Kind == yaml.AliasNode:
		report(node, "values cannot be reused with *; write the value out, or put a text that starts with * in quotes")
		return
	case node.Anchor != "":
		report(node, "values cannot be named with &; write the value out, or put a text that starts with & in quotes")
	case node.Style&yaml.TaggedStyle != 0:
		report(node, "type tags with ! are not used; remove the tag, or put a text that starts with ! in quotes")
	}
	if node.Kind == yaml.ScalarNode && strings.Contains(node.Value, "\x00") {
		report(node, "there is a U+0000 in this text, which nothing can keep; delete its escape")
	}
	if node.Kind != yaml.MappingNode {
		for _, element := range node.Content {
			d.checkStructure(element, problems)
		}
		return
	}
	d.indexKeys(node)
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch line, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!null":
			report(key, "a key must be a word")
		case key.ShortTag() == "!!merge":
			report(key, "blocks cannot be merged with <<; write the keys out")
		case strings.Contains(key.Value, "\x00"):
			d.checkStructure(key, problems)
		case twice:
			report(key, "the key %q is given twice, first in line %d; remove one of them", key.Value, line)
		default:
			seen[key.Value] = key.Line
		}
		d.checkStructure(value, problems)
	}
}

// indexKeys stores the positions of the keys of a large block. The first of two equal keys counts.
func (d *Doc) indexKeys(node *yaml.Node) {
	const large = 64 // nodes: looking through fewer takes no time
	if len(node.Content) < large {
		return
	}
	keys := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if _, twice := keys[node.Content[i].Value]; !twice {
			keys[node.Content[i].Value] = i
		}
	}
	d.keys[node] = keys
}

// locate returns the place of one character (counted from 0) of a scalar's text
// in the file, through quotes, escapes, folded lines and indentation.
func (d *Doc) locate(node *yaml.Node, from int) (line, column int) {
	at := cursor{doc: d, line: node.Line, column: node.Column}
	switch {
	case d.below.nodes[node]:
		return node.Line, node.Column
	case node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		at.nextLine() // the text starts below its | or >
		at.skipSpace()
	case isQuoted(node):
		at.column++
	}
	for _, want := range []rune(node.Value)[:min(from, len([]rune(node.Value)))] {
		if !at.pass(want, node.Style) {
			return node.Line, node.Column
		}
	}
	at.skipTo(node, from)
	return at.line, at.column
}

// cursor walks the characters of a file.
type cursor struct {
	doc          *Doc
	line, column int // counted from 1
}

// char returns the character under the cursor: a line end as '\n', and 0 behind
// the last line.
func (c *cursor) char() rune {
	if c.line > len(c.doc.lines) {
		return 0
	}
	if r := c.doc.written(c.line); c.column <= len(r) {
		return r[c.column-1]
	}
	return '\n'
}

func (c *cursor) nextLine() { c.line, c.column = c.line+1, 1 }

func (c *cursor) step() {
	if c.char() == '\n' {
		c.nextLine()
		return
	}
	c.column++
}

func (c *cursor) skipSpace() {
	for isSpace(c.char()) {
		c.step()
	}
}

// pass moves behind one character of the scalar's text, and reports whether the
// file has it here.
func (c *cursor) pass(want rune, style yaml.Style) bool {
	if c.char() == '\\' && style&yaml.DoubleQuotedStyle != 0 {
		c.skipEscape()
		return true
	}
	if want == '\n' || want == ' ' && c.char() == '\n' {
		c.skipSpace() // a line end with the following indentation
		return true
	}
	if want == ' ' && !isSpace(c.char()) {
		return true // passed with the indentation
	}
	c.skipFold(want)
	if c.char() != want {
		return false
	}
	c.step()
	if want == '\'' && style&yaml.SingleQuotedStyle != 0 {
		c.step() // written twice
	}
	return true
}

func isSpace(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

// skipFold skips space missing in the text, as after a folded line.
func (c *cursor) skipFold(want rune) {
	if r := c.char(); r != want && isSpace(r) {
		c.skipSpace()
	}
}

// skipEscape passes one backslash escape of a double-quoted text.
func (c *cursor) skipEscape() {
	c.step()
	long := map[rune]int{'x': 2, 'u': 4, 'U': 8}[c.char()]
	for range long + 1 {
		c.step()
	}
}

// skipTo moves the cursor to the next character, if the text folds just before it.
func (c *cursor) skipTo(node *yaml.Node, from int) {
	if r := []rune(node.Value); from < len(r) && r[from] != ' ' && r[from] != '\n' {
		c.skipFold(r[from])
	}
}
