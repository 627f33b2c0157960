package strict

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"
)

// ErrNoPlace means that a value cannot be edited by itself: its file is no YAML, or is written in an unusual form.
var ErrNoPlace = errors.New("this part of the file can only be edited as text")

// Set returns the file with text as the value at path. All other bytes stay as they are: comments, order, quotes and
// line ends. It writes a missing value behind the last entry of the nearest block. The error is ErrNoPlace.
func Set(data []byte, path Path, text string) ([]byte, error) {
	e, err := newEdit(data, path)
	if err != nil {
		return nil, err
	}
	switch node := e.doc.Node(path); {
	case node == nil:
		e.insert(text)
	case node.Kind != yaml.ScalarNode:
		return nil, ErrNoPlace
	case node.Value == text:
		return data, nil
	default:
		e.replace(node, quotedFor(text, e.doc.inBlock(path)))
	}
	return e.first(&text)
}

// Remove returns the file without the value at path and without its key. All other bytes stay as they are. The error is
// ErrNoPlace, also for the only entry of a block.
func Remove(data []byte, path Path) ([]byte, error) {
	e, err := newEdit(data, path)
	if err != nil {
		return nil, err
	}
	e.remove()
	return e.first(nil)
}

// edit is an edit of one value, with the texts that it may lead to.
type edit struct {
	doc   *Doc
	path  Path
	mark  string   // the byte order mark, if the file has one
	lines []string // with their line ends
	tries []string
}

func newEdit(data []byte, path Path) (*edit, error) {
	doc, problems := parse("", data)
	if len(problems) > 0 || len(path) == 0 {
		return nil, ErrNoPlace
	}
	e := &edit{doc: doc, path: path}
	text, marked := strings.CutPrefix(string(data), "\uFEFF")
	if marked {
		e.mark = "\uFEFF"
	}
	e.lines = strings.SplitAfter(text, "\n")
	return e, nil
}

// first returns the first text that differs from the file in this value alone; text is nil if the value is removed.
func (e *edit) first(text *string) ([]byte, error) {
	want := map[string]string{}
	e.values(e.doc.root, nil, want)
	for _, try := range e.tries {
		data := []byte(e.mark + try)
		after, problems := parse("", data)
		if len(problems) > 0 {
			continue
		}
		got := map[string]string{}
		e.values(after.root, nil, got)
		node := after.Node(e.path)
		if text == nil && node != nil || text != nil && (node == nil || node.Kind != yaml.ScalarNode || node.Value != *text) {
			continue
		}
		if maps.Equal(want, got) {
			return data, nil
		}
	}
	return nil, ErrNoPlace
}

// values collects the values below a node by their paths, except for the edited one.
func (e *edit) values(node *yaml.Node, path Path, into map[string]string) {
	if slices.Equal(path, e.path) {
		return
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			e.values(node.Content[i+1], path.Key(node.Content[i].Value), into)
		}
	case yaml.SequenceNode:
		for i, element := range node.Content {
			e.values(element, path.Index(i), into)
		}
	default:
		into[strings.Join(path, "\x00")] = node.Tag + " " + node.Value
	}
}

// position is a place before a character of the file, counted from 1.
type position struct{ line, column int }

// try notes the file with a text in the place of the characters between two places.
func (e *edit) try(from, to position, text string) {
	if from.line < 1 || to.line < from.line || to.line > len(e.lines) {
		return
	}
	first, last := []rune(e.lines[from.line-1]), []rune(e.lines[to.line-1])
	if from.column < 1 || to.column < 1 || from.column-1 > len(first) || to.column-1 > len(last) {
		return
	}
	before := strings.Join(e.lines[:from.line-1], "") + string(first[:from.column-1])
	e.tries = append(e.tries, before+text+string(last[to.column-1:])+strings.Join(e.lines[to.line:], ""))
}

// end returns the place behind a scalar.
func (e *edit) end(node *yaml.Node) position {
	line, column := e.doc.locate(node, utf8.RuneCountInString(strings.TrimRight(node.Value, "\n")))
	if isQuoted(node) {
		column++
	}
	return position{line, column}
}

// blockMark is the beginning of a text on lines of its own.
var blockMark = regexp.MustCompile(`^[|>][-+0-9]*`)

func (e *edit) replace(node *yaml.Node, text string) {
	from, to := position{node.Line, node.Column}, e.end(node)
	if node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 { // a comment behind its mark stays
		written := e.doc.written(node.Line)[node.Column-1:]
		text += strings.TrimRight(string(written[len(blockMark.FindString(string(written))):]), " ")
	}
	e.try(from, to, text)
}

// insert notes the file with the missing end of the path behind the last entry of the nearest block.
func (e *edit) insert(text string) {
	depth := len(e.path) - 1
	for depth > 0 && e.doc.Node(e.path[:depth]) == nil {
		depth--
	}
	block, rest := e.doc.Node(e.path[:depth]), e.path[depth:]
	if block.Kind != yaml.MappingNode || len(block.Content) == 0 {
		return
	}
	if block.Style&yaml.FlowStyle != 0 {
		last := block.Content[len(block.Content)-1]
		if at := e.end(last); len(rest) == 1 && last.Kind == yaml.ScalarNode {
			e.try(at, at, ", "+rest[0]+": "+quotedFor(text, false))
		}
		return
	}
	added := strings.Repeat(" ", block.Content[0].Column-1)
	indent := len(added)
	for i, step := range rest {
		switch {
		case i > 0 && step == "0":
			indent += 2
			added += e.lineEnd() + strings.Repeat(" ", indent) + "- "
			indent += 2
			continue
		case i > 0 && rest[i-1] != "0":
			indent += 2
			added += e.lineEnd() + strings.Repeat(" ", indent)
		}
		added += step + ":"
	}
	added += " " + quotedFor(text, true) + e.lineEnd()
	line := lastLine(e, block)
	for at := line + 1; at <= min(line+3, len(e.lines)); at++ { // behind the brackets of its last value
		e.try(position{at, 1}, position{at, 1}, added)
	}
	if last := len(e.lines); !strings.HasSuffix(e.lines[last-1], "\n") && e.lines[last-1] != "" {
		at := position{last, utf8.RuneCountInString(e.lines[last-1]) + 1}
		e.try(at, at, e.lineEnd()+strings.TrimSuffix(added, e.lineEnd()))
	}
}

// lineEnd returns how the first line of the file ends.
func (e *edit) lineEnd() string {
	if strings.HasSuffix(e.lines[0], "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// lastLine returns the line of the last scalar of a node.
func lastLine(e *edit, node *yaml.Node) int {
	if node.Kind == yaml.ScalarNode {
		return e.end(node).line
	}
	last := node.Line
	for _, child := range node.Content {
		last = max(last, lastLine(e, child))
	}
	return last
}

func (e *edit) remove() {
	parent, step := e.doc.Node(e.path[:len(e.path)-1]), e.path[len(e.path)-1]
	if parent == nil || parent.Kind != yaml.MappingNode || len(parent.Content) < 4 {
		return
	}
	key, value := e.doc.child(parent, step)
	if key == nil || value.Kind != yaml.ScalarNode {
		return
	}
	at := slices.Index(parent.Content, key)
	from, to := position{key.Line, key.Column}, e.end(value)
	if parent.Style&yaml.FlowStyle != 0 {
		if at+2 < len(parent.Content) {
			next := parent.Content[at+2]
			e.try(from, position{next.Line, next.Column}, "")
		} else if before := parent.Content[at-1]; before.Kind == yaml.ScalarNode {
			e.try(e.end(before), to, "")
		}
		return
	}
	next := position{to.line + 1, 1}
	before := string(e.doc.written(key.Line)[:key.Column-1])
	if strings.TrimSpace(before) == "" {
		e.try(position{key.Line, 1}, next, "")
		return
	}
	if at+2 < len(parent.Content) { // the mark of the list goes to the next key
		second := parent.Content[at+2]
		between := strings.Join(e.lines[to.line:second.Line-1], "")
		e.try(position{key.Line, 1}, position{second.Line, second.Column}, between+before)
	}
}
