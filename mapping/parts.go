package mapping

import (
	"github.com/expr-lang/expr/ast"
)

// part is one side of a condition ? a : b, or one argument of coalesce or default. Programs report the parts taken, so
// coverage can find unused ones.
type part struct {
	number int // unique in the mapping
	text   string
}

// findParts notes the parts of the expression as it is written: before names
// are resolved and operators replaced.
func (e *expression) findParts(root *ast.Node) {
	e.firstPart = map[ast.Node]int{}
	ast.Walk(root, visit(func(node *ast.Node) {
		switch n := (*node).(type) {
		case *ast.ConditionalNode:
			e.addParts(n, n.Exp1, n.Exp2)
		case *ast.CallNode:
			if isChoice(n) {
				e.addParts(n, n.Arguments...)
			}
		}
	}))
}

func (e *expression) addParts(of ast.Node, parts ...ast.Node) {
	e.firstPart[of] = e.partCount
	for _, p := range parts {
		e.parts = append(e.parts, part{e.partCount, p.String()})
		e.partCount++
	}
}

// isChoice reports whether a call takes one of its arguments.
func isChoice(n *ast.CallNode) bool {
	callee, _ := n.Callee.(*ast.IdentifierNode)
	return nameOf(callee) == "coalesce" || nameOf(callee) == "default"
}

// tellParts makes both sides of a condition report their use.
func (e *expression) tellParts(n *ast.ConditionalNode) {
	first := e.firstPart[n]
	n.Exp1 = telling(first, n.Exp1)
	n.Exp2 = telling(first+1, n.Exp2)
}

func telling(part int, n ast.Node) ast.Node { return after(fnPart, part, n) }

// after makes a node to call a hidden function with a number and then return the value of n.
func after(function string, number int, n ast.Node) ast.Node {
	call := ast.Node(&ast.NilNode{})
	replaceBy(&call, function, &ast.ConstantNode{Value: number})
	out := &ast.SequenceNode{Nodes: []ast.Node{call, n}}
	out.SetNature(*n.Nature())
	return out
}
