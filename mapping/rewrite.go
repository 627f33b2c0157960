package mapping

import (
	"errors"
	"math"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// rewrite replaces operators by the hidden functions, passes the meter to every function, and charges every pass of a
// loop. It runs after the type check, because this knows the original operators, and its replacements keep their types.
func (e *expression) rewrite(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		e.operator(node, n)
	case *ast.MemberNode:
		if _, byName := n.Property.(*ast.StringNode); !byName {
			replaceBy(node, fnAt, n.Node, n.Property, blankOf(n))
		}
	case *ast.SliceNode:
		replaceBy(node, fnLetters, n.Node, bound(n.From, 0), bound(n.To, math.MaxInt32))
	case *ast.CallNode:
		e.call(node, n)
	case *ast.BuiltinNode:
		if n.Name == "len" {
			replaceBy(node, fnLen, n.Arguments...)
		}
	case *ast.PredicateNode:
		steps := 1
		ast.Walk(&n.Node, visit(func(*ast.Node) { steps++ }))
		n.Node = after(fnStep, steps, n.Node)
	case *ast.ConditionalNode:
		e.tellParts(n)
	}
}

// call passes a function the meter, and the facts it needs besides its arguments.
func (e *expression) call(node *ast.Node, n *ast.CallNode) {
	name, args := n.Callee.(*ast.IdentifierNode).Value, n.Arguments
	switch {
	case strings.HasSuffix(name, " "): // a hidden function, put here before
	case name == "phone":
		e.rewritePhone(node, args)
	case name == "date":
		e.rewriteDate(node, args)
	case name == "number":
		e.rewriteNumber(node, args)
	case name == "address":
		replaceBy(node, name, append(args, &ast.ConstantNode{Value: rolesOf(args[0].Type().Elem())})...)
	case isChoice(n):
		replaceBy(node, name, append(args, &ast.ConstantNode{Value: e.firstPart[n]})...)
	default:
		replaceBy(node, name, args...)
	}
}

func (e *expression) operator(node *ast.Node, n *ast.BinaryNode) {
	switch n.Operator {
	case "+":
		if !n.Nature().IsNumber() {
			replaceBy(node, fnPlus, n.Left, n.Right)
		}
	case "==", "!=":
		if hidden := map[string]string{"==": fnEqual, "!=": fnDiffer}[n.Operator]; !isPlain(n.Left) && !isPlain(n.Right) {
			replaceBy(node, hidden, n.Left, n.Right)
		}
	case "in":
		replaceBy(node, fnIn, n.Left, n.Right)
	case "contains":
		replaceBy(node, fnContains, n.Left, n.Right)
	case "matches":
		literal, ok := n.Right.(*ast.StringNode)
		if !ok {
			e.fail(n.Right.Location(), "matches takes a pattern in quotes")
			return
		}
		p, err := newPattern(literal.Value)
		if err != nil {
			e.fail(literal.Location(), "this pattern is not valid: %s", err)
			return
		}
		replaceBy(node, fnMatches, n.Left, &ast.ConstantNode{Value: p})
	}
}

// isPlain reports whether a node gives a text, number or flag: comparing with it
// takes no time.
func isPlain(n ast.Node) bool {
	switch n.Type().Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Float64:
		return true
	}
	return isNil(n)
}

// blankOf returns the blank of a node's type, if known.
func blankOf(n ast.Node) ast.Node {
	if n.Type().Kind() == reflect.Interface {
		return &ast.NilNode{}
	}
	return &ast.ConstantNode{Value: reflect.Zero(n.Type()).Interface()}
}

// bound is one end of [from:to], or otherwise if omitted.
func bound(written ast.Node, otherwise int) ast.Node {
	if written == nil {
		return &ast.ConstantNode{Value: otherwise}
	}
	return written
}

// replaceBy puts the call of a function, with the meter as its first argument,
// in the place of a node.
func replaceBy(node *ast.Node, function string, args ...ast.Node) {
	call := &ast.CallNode{
		Callee:    &ast.IdentifierNode{Value: function},
		Arguments: append([]ast.Node{&ast.IdentifierNode{Value: varMeter}}, args...),
	}
	call.SetNature(*(*node).Nature())
	ast.Patch(node, call)
}

// maxPattern is how many steps a compiled pattern may have.
const maxPattern = 2000

func newPattern(s string) (pattern, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return pattern{}, err
	}
	parsed, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return pattern{}, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return pattern{}, err
	}
	if len(program.Inst) > maxPattern {
		return pattern{}, errors.New("it is too large")
	}
	return pattern{re, len(program.Inst)}, nil
}
