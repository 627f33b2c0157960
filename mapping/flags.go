package mapping

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/expr-lang/expr/ast"

	"payersync/connector"
)

// flagPrefix begins the variable of a column read as yes or no.
const flagPrefix = "flag:"

// untyped are the kinds of sources with yes and no in any type: 1 and 0, t and f. Fields of other sources have the
// vendor's documented type.
var untyped = []string{"csv", "sql"}

// flagValue is a column's value in a yes or no condition.
type flagValue struct {
	field             string
	yes, known, blank bool
}

var flagType = reflect.TypeFor[flagValue]()

// readFlag reads a JSON value as yes or no.
func readFlag(field string, v any) flagValue {
	out := flagValue{field: field}
	switch v := v.(type) {
	case bool:
		out.yes, out.known = v, true
	case json.Number:
		n, err := v.Float64()
		out.yes, out.known = n == 1, err == nil && (n == 1 || n == 0)
	case string:
		v = Value(v)
		out.blank = blank(v)
		out.yes, out.known = connector.ReadFlag(v)
	case nil:
		out.blank = true
	}
	return out
}

// condition gives the flag, or says why there is none.
func condition(_ *meter, args []any) (any, error) {
	f := args[0].(flagValue)
	switch {
	case f.known:
		return f.yes, nil
	case f.blank:
		return nil, sentence("the field " + f.field + " is blank, and the rule needs yes or no")
	}
	return nil, sentence("the field " + f.field + " holds neither yes nor no; compare it, as in " + Written(f.field) +
		` == "ACTIVE"`)
}

// readConditions replaces every column used as a condition by its flag: alone, after not, beside and and or, or before
// a question mark.
func (e *expression) readConditions(root *ast.Node) {
	lets := map[string]bool{}
	ast.Walk(root, visit(func(node *ast.Node) {
		if n, is := (*node).(*ast.VariableDeclaratorNode); is {
			lets[n.Name] = true
		}
	}))
	ast.Walk(root, visit(func(node *ast.Node) {
		switch n := (*node).(type) {
		case *ast.UnaryNode:
			if n.Operator == "not" || n.Operator == "!" {
				e.readCondition(&n.Node, lets)
			}
		case *ast.BinaryNode:
			switch n.Operator {
			case "and", "&&", "or", "||":
				e.readCondition(&n.Left, lets)
				e.readCondition(&n.Right, lets)
			}
		case *ast.ConditionalNode:
			e.readCondition(&n.Cond, lets)
		}
	}))
	if e.want != wantFlag {
		return
	}
	for at := root; ; {
		declared, is := (*at).(*ast.VariableDeclaratorNode)
		if !is {
			e.readCondition(at, lets)
			return
		}
		at = &declared.Expr
	}
}

// readCondition is readConditions for one place.
func (e *expression) readCondition(node *ast.Node, lets map[string]bool) {
	name, is := (*node).(*ast.IdentifierNode)
	if !is || lets[name.Value] {
		return
	}
	field := strings.TrimPrefix(name.Value, fieldPrefix)
	switch t := e.types[field]; {
	case t == nil, varName(field) != name.Value, !e.flagColumns:
		return
	case t.Kind() != reflect.String && t.Kind() != reflect.Float64 && t.Kind() != reflect.Bool:
		return
	}
	e.asFlags[field] = true
	ast.Patch(node, &ast.CallNode{
		Callee:    &ast.IdentifierNode{Value: fnCondition},
		Arguments: []ast.Node{&ast.IdentifierNode{Value: varMeter}, &ast.IdentifierNode{Value: flagPrefix + field}},
	})
}
