package mapping

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// Traps are expressions with a meaning other than the intended one: a field's name in quotes is the same text for every
// customer, and "9" is more than "10". They compile, but are refused, so the mistake does not first appear on a bill.

// checkTraps refuses expressions that are certainly unintended. It runs when the types are known.
func (e *expression) checkTraps(root ast.Node) {
	ast.Walk(&root, visit(func(node *ast.Node) {
		switch n := (*node).(type) {
		case *ast.BinaryNode:
			e.trapOperator(n)
		case *ast.CallNode:
			e.trapCall(n)
		case *ast.FloatNode:
			e.trapNumber(n)
		case *ast.StringNode:
			if len(e.reads) == 0 && !e.isFixedPair(root) {
				e.trapName(n)
			}
		}
	}))
	e.trapText(root, false, nil)
}

// isFixedPair reports whether the expression is one text for an externalData entry. Such a text may equal a field's
// name.
func (e *expression) isFixedPair(root ast.Node) bool {
	_, fixed := root.(*ast.StringNode)
	return fixed && e.path[0] == "externalData"
}

func (e *expression) trapOperator(n *ast.BinaryNode) {
	switch n.Operator {
	case "<", ">", "<=", ">=":
		e.trapOrder(n)
	case "==", "!=":
		e.trapFiller(n.Left, n.Right)
		e.trapFiller(n.Right, n.Left)
		if other := besideNil(n); other != nil && isPlain(other) {
			e.fail(n.Location(), "a field that is missing is blank, never nil; ask isBlank")
		}
	case "??":
		if isPlain(n.Left) && !isNil(n.Left) {
			e.fail(n.Location(), "a field that is missing is blank, never nil; write coalesce(…, …)")
		}
	case "or", "||", "and", "&&":
		e.trapBoth(n)
	}
}

// trapFiller refuses a comparison with a filler word, because fields with it are read as blank.
func (e *expression) trapFiller(fixed, other ast.Node) {
	s, is := fixed.(*ast.StringNode)
	if _, both := other.(*ast.StringNode); !is || both || blank(s.Value) || Value(s.Value) != "" {
		return
	}
	e.fail(fixed.Location(), "a field that holds %q is read as blank, so nothing is equal to it; ask isBlank", s.Value)
}

func besideNil(n *ast.BinaryNode) ast.Node {
	switch {
	case isNil(n.Left) && !isNil(n.Right):
		return n.Right
	case isNil(n.Right) && !isNil(n.Left):
		return n.Left
	}
	return nil
}

// trapBoth refuses a != x or a != y, because it is always true, and a == x and a == y, because it never is.
func (e *expression) trapBoth(n *ast.BinaryNode) {
	operator, always := "!=", "true"
	if n.Operator == "and" || n.Operator == "&&" {
		operator, always = "==", "false"
	}
	a, b := fixedComparison(n.Left, operator), fixedComparison(n.Right, operator)
	if a != nil && b != nil && a.Left.String() == b.Left.String() && a.Right.String() != b.Right.String() {
		e.fail(n.Location(), "this is %s for every record, as nothing is equal to both", always)
	}
}

func fixedComparison(node ast.Node, operator string) *ast.BinaryNode {
	n, ok := node.(*ast.BinaryNode)
	if !ok || n.Operator != operator {
		return nil
	}
	if _, fixed := n.Right.(*ast.StringNode); !fixed {
		return nil
	}
	return n
}

// checkKey refuses a key with the same value for every record: all of them would be one payer.
func (e *expression) checkKey() {
	isField := func(name string) bool { return name != varTenant }
	if e.path[0] == "key" && !e.failed && !slices.ContainsFunc(e.reads, isField) {
		e.failWhole("this key is the same for every record, so that all would be one payer; write the field that tells payers apart")
	}
}

var otherDate = regexp.MustCompile(`^(\d{1,2})([./-])(\d{1,2})([./-])(?:\d{2}|\d{4})(?:[ T]\s*\d{1,2}:\d\d(?::\d\d)?(?:\s*[AaPp][Mm])?)?$`)

// isOtherDate reports whether a text is a date in a form other than YYYY-MM-DD: a day and a month, in any order, and a
// year.
func isOtherDate(s string) bool {
	m := otherDate.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil || m[2] != m[4] {
		return false
	}
	a, _ := strconv.Atoi(m[1])
	b, _ := strconv.Atoi(m[3])
	return min(a, b) >= 1 && min(a, b) <= 12 && max(a, b) <= 31
}

// trapOrder refuses to order texts if numbers or dates must be meant.
func (e *expression) trapOrder(n *ast.BinaryNode) {
	if n.Left.Type().Kind() != reflect.String || n.Right.Type().Kind() != reflect.String {
		return
	}
	left, right := textIn(n.Left), textIn(n.Right)
	switch fixed := left + right; {
	case isOtherDate(fixed):
		e.fail(n.Location(), `dates are compared as YYYY-MM-DD, as in date(…, "DD/MM/YYYY") %s "2019-12-31"`, n.Operator)
	case isDate(n.Left) || isDate(n.Right):
	case amount.MatchString(fixed) && (isField(n.Left) || isField(n.Right)), fixed == "" && isBare(n.Left) &&
		isBare(n.Right):
		e.fail(n.Location(), `texts are compared letter by letter, so that "9" is more than "10"; write number(…) %s …, or date(…) for dates`, n.Operator)
	}
}

func textIn(n ast.Node) string {
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value
	}
	return ""
}

func isDate(n ast.Node) bool { return calleeOf(n) == "date" }

func calleeOf(n ast.Node) string {
	call, ok := n.(*ast.CallNode)
	if !ok {
		return ""
	}
	callee, _ := call.Callee.(*ast.IdentifierNode)
	return nameOf(callee)
}

// isField reports whether a node is an unchanged field. The result of a function may be compared with a text's digits,
// for example account numbers below "7".
func isField(n ast.Node) bool {
	switch n.(type) {
	case *ast.IdentifierNode, *ast.MemberNode:
		return true
	}
	return false
}

// isBare reports whether a node is a field as it is, or trimmed.
func isBare(n ast.Node) bool {
	call, ok := n.(*ast.CallNode)
	return isField(n) || ok && calleeOf(n) == "trim" && len(call.Arguments) == 1 && isBare(call.Arguments[0])
}

// trapCall refuses a field's name in quotes as an argument for its value, and the sum of two texts.
func (e *expression) trapCall(n *ast.CallNode) {
	name := calleeOf(n)
	values := n.Arguments[:min(1, len(n.Arguments))]
	switch name {
	case "coalesce", "default":
		values = n.Arguments[:max(0, len(n.Arguments)-1)]
	case "join":
		if list, ok := n.Arguments[0].(*ast.ArrayNode); ok {
			values = list.Nodes
		}
	case "number":
		if sum, ok := n.Arguments[0].(*ast.BinaryNode); ok && sum.Operator == "+" && isBare(sum.Left) && isBare(sum.Right) {
			e.fail(sum.Location(), "+ joins two texts here; add their numbers, as in number(…) + number(…)")
		}
	}
	if len(e.reads) == 0 {
		return // all of them are looked at already
	}
	for _, value := range values {
		if s, ok := value.(*ast.StringNode); ok {
			e.trapName(s)
		}
	}
}

// trapName refuses a text equal to a field's name.
func (e *expression) trapName(n *ast.StringNode) {
	field := e.fieldCalled(strings.TrimSpace(n.Value))
	if field == "" {
		return
	}
	if e.misquoted == nil {
		e.misquoted = map[string]string{}
	}
	e.misquoted[n.Value] = field
	e.fail(n.Location(), "%q in quotes is a text that is the same for every customer; a field is written %s", n.Value,
		Written(field))
}

// trapText checks the texts in the result: a text equal to a field's name, and one with fields between marks. A single
// word may equal a field's name, unless it is joined with others. conditions are the conditions for choosing the text.
func (e *expression) trapText(n ast.Node, joined bool, conditions []ast.Node) {
	switch n := n.(type) {
	case *ast.ConditionalNode:
		conditions = append(slices.Clone(conditions), n.Cond)
		e.trapText(n.Exp1, joined, conditions)
		e.trapText(n.Exp2, joined, conditions)
	case *ast.BinaryNode:
		if n.Operator == "+" {
			e.trapText(n.Left, true, nil)
			e.trapText(n.Right, true, nil)
		}
	case *ast.StringNode:
		_, exactly := e.types[n.Value]
		words := strings.Contains(strings.TrimSpace(n.Value), " ")
		if len(e.reads) > 0 && (words || joined && exactly && conditions == nil) && !e.isChosen(n, conditions) {
			e.trapName(n)
		}
		for _, m := range templated.FindAllStringSubmatch(n.Value, -1) {
			if name := e.fieldCalled(m[1]); name != "" {
				e.fillsIn = true
				e.fail(n.Location(), "fields are not filled into a text; join it with the field, as in \"…\" + %s", Written(name))
				return
			}
		}
	}
}

// isChosen reports whether a text may equal a field's name, because a condition chooses it: by this very field, or for
// an externalData entry.
func (e *expression) isChosen(n *ast.StringNode, conditions []ast.Node) bool {
	if len(conditions) > 0 && e.path[0] == "externalData" {
		return true
	}
	field, chosen := varName(e.fieldCalled(strings.TrimSpace(n.Value))), false
	for _, condition := range conditions {
		ast.Walk(&condition, visit(func(node *ast.Node) {
			read, ok := (*node).(*ast.IdentifierNode)
			chosen = chosen || ok && read.Value == field
		}))
	}
	return chosen
}

// oneOrThousand is the mistake in a number such as 1.000.
func oneOrThousand(written string) string {
	return fmt.Sprintf("%s could be one thousand or one; write %s or %s0", written, strings.Replace(written, ".", "", 1),
		written)
}

var thousands = regexp.MustCompile(`^[1-9]\d{0,2}\.\d{3}$`)

// trapNumber refuses 1.000, because elsewhere it means a thousand.
func (e *expression) trapNumber(n *ast.FloatNode) {
	at, runes := n.Location(), []rune(e.text)
	if at.From < 0 || at.To > len(runes) || at.From > at.To {
		return
	}
	if written := string(runes[at.From:at.To]); thousands.MatchString(written) {
		e.fail(at, "%s", oneOrThousand(written))
	}
}
