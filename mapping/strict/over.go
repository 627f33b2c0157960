package strict

import (
	"errors"
	"slices"

	yaml "go.yaml.in/yaml/v4"
)

// Over says how a file is written over another one: it may name a file and give only what differs from it.
type Over struct {
	Key    string                            // the key of the file that names the other one
	Read   func(name string) ([]byte, error) // returns the content of the other one
	ByName []Path                            // lists whose elements are joined by their key name; other lists are replaced
}

// below is the file that another one is written over. A problem with one of its values is shown at the key that names
// it.
type below struct {
	name  string
	nodes map[*yaml.Node]bool
}

// Inherited reports whether the value at path comes from the file that this one is written over.
func (d *Doc) Inherited(path Path) bool { return d.below.nodes[d.Node(path)] }

// named completes a message about a value of the other file.
func (d *Doc) named(node *yaml.Node, message string) string {
	if d.below.nodes[node] {
		return message + " (inherited from " + d.below.name + ")"
	}
	return message
}

// layOver adds the values of the other file that this one leaves out.
func (d *Doc) layOver(o Over) error {
	key, named := d.child(d.root, o.Key)
	if o.Read == nil || key == nil || named.Kind != yaml.ScalarNode || named.Value == "" {
		return nil
	}
	data, err := o.Read(named.Value)
	if err != nil {
		return NewError([]Problem{d.Problem(Path{o.Key}, "%s", err)})
	}
	other, problems := parse(named.Value, data)
	if len(problems) > 0 {
		return NewError(problems)
	}
	if d.root.Kind != yaml.MappingNode || other.root.Kind != yaml.MappingNode {
		return errors.New("only blocks of keys are written over one another")
	}
	d.below = below{name: named.Value, nodes: map[*yaml.Node]bool{}}
	d.below.take(other.root, named)
	d.join(d.root, other.root, nil, o.ByName)
	return nil
}

// take places a value of the other file at the node that names this file.
func (b *below) take(node, at *yaml.Node) {
	node.Line, node.Column = at.Line, at.Column
	b.nodes[node] = true
	for _, child := range node.Content {
		b.take(child, at)
	}
}

// join adds to a block the keys of the other one that it does not have, and joins the blocks below.
func (d *Doc) join(own, other *yaml.Node, at Path, byName []Path) {
	defer func() {
		delete(d.keys, own)
		d.indexKeys(own)
	}()
	for i := 0; i+1 < len(other.Content); i += 2 {
		key, value := other.Content[i], other.Content[i+1]
		here := at.Key(key.Value)
		switch _, written := d.child(own, key.Value); {
		case written == nil:
			own.Content = append(own.Content, key, value)
			delete(d.keys, own)
		case written.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			d.join(written, value, here, byName)
		case written.Kind == yaml.SequenceNode && value.Kind == yaml.SequenceNode &&
			slices.ContainsFunc(byName, func(p Path) bool { return slices.Equal(p, here) }):
			d.joinNamed(written, value)
		}
	}
}

// joinNamed puts the elements of the other list before those of a list. One with the name of an element of the list is
// replaced by it.
func (d *Doc) joinNamed(own, other *yaml.Node) {
	name := func(element *yaml.Node) string {
		if _, named := d.child(element, "name"); named != nil {
			return named.Value
		}
		return ""
	}
	rest := own.Content
	own.Content = nil
	for _, element := range other.Content {
		i := slices.IndexFunc(rest, func(e *yaml.Node) bool { return name(e) != "" && name(e) == name(element) })
		if i >= 0 {
			element, rest = rest[i], slices.Delete(slices.Clone(rest), i, i+1)
		}
		own.Content = append(own.Content, element)
	}
	own.Content = append(own.Content, rest...)
}
