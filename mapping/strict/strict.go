// Package strict reads YAML files written by people, and refuses everything unknown. It parses a file, checks
// it against the JSON Schema of its Go type, and decodes it. It returns all mistakes at once, with line,
// column, the line itself and, for a misspelt word, the probable one. The caller judges the values, and
// reports mistakes at the same positions through Doc.
//
//	bytes ──▶ text checks ──▶ YAML nodes ──▶ structure ──▶ schema ──▶ decode ──▶ caller's own checks
//	          size, UTF-8     one document   no aliases,    keys,      values
//	                                         no key twice   types      with a syntax
//
// A stage that finds problems ends the reading; within a stage all problems are collected. Problems of the
// schema end it only if the values cannot be decoded: otherwise the caller may look for its own as well.
// Anchors, aliases and merge keys are refused, so that every value has exactly one place and no file can grow
// when it is read.
package strict

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	yaml "go.yaml.in/yaml/v4"
)

// MaxSize is the largest readable file, in bytes.
const MaxSize = 1 << 20

// Load reads data, the content of the file called name, into a copy of defaults: missing keys keep the values
// of defaults. The error is an *Error with every problem of the first failing stage. The returned Doc locates
// the caller's own findings in the file. It is also returned beside an error if the value could be decoded.
func Load[T any](name string, data []byte, defaults T) (T, *Doc, error) {
	return LoadOver(name, data, defaults, Over{})
}

// LoadOver is Load for a file that may be written over another one. The whole of both is checked and decoded.
func LoadOver[T any](name string, data []byte, defaults T, over Over) (T, *Doc, error) {
	doc, problems := parse(name, data)
	if len(problems) > 0 {
		return defaults, nil, NewError(problems)
	}
	if err := doc.layOver(over); err != nil {
		return defaults, nil, err
	}
	invalid := NewError(doc.validate(schemaOf[T]()))
	out := defaults
	if err := doc.Decode(nil, &out); err != nil {
		return defaults, nil, cmp.Or(invalid, err) // the schema's words are the plainer ones
	}
	return out, doc, invalid
}

// Doc is a parsed file with the position of each value.
type Doc struct {
	name    string
	lines   []string // as written, without line ends
	root    *yaml.Node
	keys    map[*yaml.Node]map[string]int // positions of the keys of large blocks in their Content
	secrets secrets
	below   below                    // the file that this one is written over
	lean    bool                     // problems do not include their lines
	last    atomic.Pointer[fileLine] // used last: the problems of a long line share its work
}

// Path leads to a value: keys, and list positions as decimal digits.
type Path []string

// Key returns the path to the value of a key below p.
func (p Path) Key(name string) Path {
	return append(p[:len(p):len(p)], name)
}

// Index returns the path to an element of the list at p, counted from 0.
func (p Path) Index(i int) Path {
	return p.Key(strconv.Itoa(i))
}

// String returns the path as people write it, for example connections[0].source.
func (p Path) String() string {
	out := ""
	for _, step := range p {
		switch _, err := strconv.Atoi(step); {
		case err == nil:
			out += "[" + step + "]"
		case out == "":
			out = step
		default:
			out += "." + step
		}
	}
	return out
}

// Decode decodes the value at path onto into, which keeps values missing in the file. An absent path changes
// nothing. The error is an *Error, for values with invalid syntax.
func (d *Doc) Decode(path Path, into any) error {
	node := d.Node(path)
	if node == nil {
		return nil
	}
	err := node.Load(into, yaml.WithUniqueKeys(false)) // checkStructure has refused keys given twice, in less time
	if err == nil {
		return nil
	}
	var all *yaml.LoadErrors
	if !errors.As(err, &all) {
		return NewError([]Problem{d.Problem(path, "%v", err)})
	}
	problems := make([]Problem, len(all.Errors))
	for i, e := range all.Errors {
		d.lean = i >= maxDetailed
		problems[i] = d.decodeProblem(e)
	}
	d.lean = false
	return NewError(problems)
}

// decodeProblem underlines the undecodable value. The YAML package's own messages name Go types, so they are
// not repeated.
func (d *Doc) decodeProblem(e *yaml.LoadError) Problem {
	width := 1
	if !d.lean {
		if node := nodeAt(d.root, e.Mark); node != nil {
			width = d.width(node)
		}
	}
	message := e.Message
	if strings.HasPrefix(message, "cannot construct") {
		message = "this value cannot be read here"
	}
	return d.at(e.Mark.Line, e.Mark.Column, width, message)
}

// nodeAt finds the scalar at a mark.
func nodeAt(node *yaml.Node, mark yaml.Mark) *yaml.Node {
	if node.Kind == yaml.ScalarNode && node.Line == mark.Line && node.Column == mark.Column {
		return node
	}
	for _, child := range node.Content {
		if found := nodeAt(child, mark); found != nil {
			return found
		}
	}
	return nil
}

// Node returns the YAML value at path, and nil when the file does not have it.
func (d *Doc) Node(path Path) *yaml.Node {
	node := d.root
	for _, step := range path {
		if _, node = d.child(node, step); node == nil {
			return nil
		}
	}
	return node
}

// Keys returns the keys of the block at path, in the order of the file.
func (d *Doc) Keys(path Path) (keys []string) {
	if node := d.Node(path); node != nil && node.Kind == yaml.MappingNode {
		for i := 0; i < len(node.Content); i += 2 {
			keys = append(keys, node.Content[i].Value)
		}
	}
	return keys
}

// child returns the key node (nil in a list) and the value node of one step.
func (d *Doc) child(node *yaml.Node, step string) (key, value *yaml.Node) {
	if node == nil {
		return nil, nil
	}
	if node.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return nil, node.Content[i]
		}
		return nil, nil
	}
	if keys, large := d.keys[node]; large {
		i, known := keys[step]
		if !known {
			return nil, nil
		}
		return node.Content[i], node.Content[i+1]
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == step {
			return node.Content[i], node.Content[i+1]
		}
	}
	return nil, nil
}
