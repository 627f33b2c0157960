package mapping

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"payersync/connector"
	"payersync/mapping/strict"
)

// Names of variables beside the fields.
const (
	varTenant   = "tenant"
	varCustomer = "customer"
	fnField     = "field"
	fieldPrefix = "field:" // of the variable of a field with an unusual name
)

// varName is the variable of a field. A field with a reserved name, or with a name of several words, has a variable
// impossible to write.
func varName(field string) string {
	if !isWord(field) || isTaken(field) {
		return fieldPrefix + field
	}
	return field
}

func isWord(s string) bool {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return s != ""
}

func isTaken(name string) bool {
	return isFunction(name) || name == varTenant || name == varCustomer
}

// Reserved reports whether a name in an expression is not read as a field: write such a field as field("…").
func Reserved(name string) bool {
	tree, err := parser.Parse(name)
	if err != nil {
		return true
	}
	_, isName := tree.Node.(*ast.IdentifierNode)
	return !isName || name == varTenant || name == varCustomer
}

func isFunction(name string) bool {
	_, known := functions[name]
	return known || name == fnField || slices.Contains(loops, name)
}

// resolve finds the meaning of every name, replaces field("…") by its variable, and reports unknown names.
func (e *expression) resolve(root *ast.Node) {
	r := &resolver{expression: e, callees: map[*ast.IdentifierNode]bool{}, lets: map[string]bool{}}
	ast.Walk(root, visit(r.collect))
	ast.Walk(root, visit(r.judge))
	ast.Walk(root, visit(r.ours))
}

// ours refuses a comparison with a text payersync itself writes into the field: it is removed from every record, so no
// record could ever match.
func (r *resolver) ours(node *ast.Node) {
	text, is := (*node).(*ast.StringNode)
	if !is {
		return
	}
	for _, w := range r.written {
		if slices.Contains(w.Values, text.Value) && slices.Contains(r.reads, varName(w.Field)) {
			r.fail(text.Location(), "%q is what payersync itself writes back into %s, and is taken out of each record that is read; ask for something else, or take writeback out of the connection", text.Value, w.Field)
		}
	}
}

type resolver struct {
	*expression
	callees map[*ast.IdentifierNode]bool
	lets    map[string]bool
}

func (r *resolver) collect(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			r.callees[callee] = true
		}
	case *ast.VariableDeclaratorNode:
		r.lets[n.Name] = true
	}
}

func (r *resolver) judge(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if !r.callees[n] {
			r.name(node, n)
		}
	case *ast.BuiltinNode:
		if !slices.Contains(loops, n.Name) {
			r.unknownFunction(n.Name, n.Location())
		}
	case *ast.CallNode:
		callee, ok := n.Callee.(*ast.IdentifierNode)
		switch _, known := functions[nameOf(callee)]; {
		case !ok:
			r.fail(n.Location(), "only functions can be called")
		case callee.Value == fnField:
			r.field(node, n)
		case !known:
			r.unknownFunction(callee.Value, callee.Location())
		}
	}
}

func nameOf(n *ast.IdentifierNode) string {
	if n == nil {
		return ""
	}
	return n.Value
}

// name checks a variable. A name without a call is the field, even if a function has the same name.
func (r *resolver) name(node *ast.Node, n *ast.IdentifierNode) {
	_, isField := r.types[n.Value]
	switch {
	case r.lets[n.Value]:
	case n.Value == varTenant, n.Value == varCustomer && r.withCustomer:
		r.read(n.Value)
	case n.Value == varCustomer:
		r.fail(n.Location(), "customer, the finished customer, is known in mandate.request only")
	case isField:
		r.readField(node, n.Value, n.Location())
	case isFunction(n.Value):
		r.fail(n.Location(), "%s is a function: write %s(…)", n.Value, n.Value)
	default:
		r.fail(n.Location(), "unknown field %q; %s", n.Value, r.suggestField(n.Value))
	}
}

// readField puts a field's variable in the place of its name.
func (r *resolver) readField(node *ast.Node, field string, at file.Location) {
	for _, w := range r.written {
		if w.Field == field && len(w.Values) == 0 {
			r.fail(at, "%s is what payersync itself writes back into the accounting system, so that each write would come back as a change; read another field, or take writeback out of the connection", field)
			return
		}
	}
	r.used[field] = true
	r.read(varName(field))
	ast.Patch(node, &ast.IdentifierNode{Value: varName(field)})
}

// read notes a variable used by the expression.
func (e *expression) read(name string) {
	if !slices.Contains(e.reads, name) {
		e.reads = append(e.reads, name)
	}
}

// field replaces a call of field("…") by the field's variable.
func (r *resolver) field(node *ast.Node, call *ast.CallNode) {
	var name *ast.StringNode
	if len(call.Arguments) == 1 {
		name, _ = call.Arguments[0].(*ast.StringNode)
	}
	if name == nil {
		r.fail(call.Location(), `field takes one name in quotes: field("Post Code")`)
		return
	}
	if _, ok := r.types[name.Value]; !ok {
		r.fail(name.Location(), "unknown field %q; %s", name.Value, r.suggestField(name.Value))
		return
	}
	r.readField(node, name.Value, name.Location())
}

func (r *resolver) unknownFunction(name string, at file.Location) {
	if strings.HasPrefix(name, "find") {
		r.fail(at, "unknown function %q; use filter(…)[0], which is blank when nothing is found", name)
		return
	}
	r.fail(at, "unknown function %q; %s", name, strict.Suggest(name, functionNames()))
}

// suggestField ends a sentence about an unknown field.
func (e *expression) suggestField(name string) string {
	known := slices.Sorted(maps.Keys(e.types))
	near := connector.Nearest(name, known)
	switch {
	case near != "" && !Reserved(near):
		return fmt.Sprintf("did you mean %q?", near)
	case near != "":
		return fmt.Sprintf("did you mean %s(%q)?", fnField, near)
	case len(known) > 12:
		return "the list of fields of this connection has them; a fixed text is written in quotes"
	}
	return "the fields are " + strings.Join(known, ", ") + "; a fixed text is written in quotes"
}
