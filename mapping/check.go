package mapping

import (
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"payersync/mapping/strict"
)

// checkJoin checks the elements of joined lists, because the type checker gives them the type any.
func (e *expression) checkJoin(node *ast.Node) {
	call, ok := (*node).(*ast.CallNode)
	if !ok || call.Callee.(*ast.IdentifierNode).Value != "join" {
		return
	}
	list, ok := call.Arguments[0].(*ast.ArrayNode)
	if !ok {
		if of := call.Arguments[0].Nature().Ref; of != nil && of.Type != nil && !textual(of.Type) {
			e.fail(call.Arguments[0].Location(), "join needs a list of texts, and each element here is %s",
				plainType(of.Type.String()))
		}
		return
	}
	for _, element := range list.Nodes {
		if isNil(element) || !textual(element.Type()) {
			e.fail(element.Location(), "join needs a list of texts, and this is %s", plainType(typeName(element)))
		}
	}
}

// checkResult checks the expression's result type. Results known only per record (a value out of a { } block) are
// checked when the mapping is applied.
func (e *expression) checkResult(root ast.Node) {
	t := root.Type()
	if t.Kind() == reflect.Interface && !isNil(root) {
		return
	}
	switch e.want {
	case wantText, wantFlag:
		kind := map[result]reflect.Kind{wantText: reflect.String, wantFlag: reflect.Bool}[e.want]
		if isNil(root) || t.Kind() != kind {
			e.failWhole("%s must give %s, not %s%s", e.path, plainResult(e.want), plainType(typeName(root)),
				resultHint(e.want, t))
		}
	default:
		e.checkElements(root)
	}
}

func isNil(n ast.Node) bool {
	_, ok := n.(*ast.NilNode)
	return ok
}

func typeName(n ast.Node) string {
	if isNil(n) {
		return "nil"
	}
	return n.Type().String()
}

func plainResult(want result) string {
	if want == wantText {
		return "a text"
	}
	return string(want)
}

func resultHint(want result, t reflect.Type) string {
	if want == wantText && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String {
		return `; pick one with [0], or make a text of all with join(…, " ")`
	}
	if want == wantFlag && t.Kind() == reflect.String {
		return `; compare it, as in ContactStatus == "ACTIVE"`
	}
	return ""
}

// checkElements checks an expression for a whole list of people or addresses. It must return a list, and every { }
// block in it must map field names of an element to texts.
func (e *expression) checkElements(root ast.Node) {
	known := personNames
	if e.want == wantPlaces {
		known = addressNames
	}
	if t := root.Type(); isNil(root) || t.Kind() != reflect.Slice || !isElement(t.Elem()) {
		e.failWhole("%s must give %s, each written as {%s: …}", e.path, e.want, strings.Join(known, ": …, "))
		return
	}
	if list, ok := root.(*ast.ArrayNode); ok {
		for _, element := range list.Nodes {
			if !isElement(element.Type()) {
				e.fail(element.Location(), "an element is written as {%s: …}, and this is %s", strings.Join(known, ": …, "),
					plainType(typeName(element)))
			}
		}
	}
	ast.Walk(&root, visit(func(node *ast.Node) {
		switch n := (*node).(type) {
		case *ast.CallNode:
			if e.want == wantPlaces && n.Callee.(*ast.IdentifierNode).Value == "person" {
				e.fail(n.Location(), "person makes a contact; an address is written as {%s: …}", strings.Join(known, ": …, "))
			}
		case *ast.PairNode:
			e.checkPair(n, known)
		}
	}))
}

// checkPair checks a key of a { } block and its value.
func (e *expression) checkPair(pair *ast.PairNode, known []string) {
	key, ok := pair.Key.(*ast.StringNode)
	switch {
	case !ok:
		e.fail(pair.Key.Location(), "the keys of a block are plain words here: %s", strings.Join(known, ", "))
	case !slices.Contains(known, key.Value):
		e.fail(key.Location(), "unknown key %q; %s", key.Value, strict.Suggest(key.Value, known))
	case isFlag(key.Value):
		e.flag(key.Value, e.path)
		if t := pair.Value.Type(); t.Kind() != reflect.Bool && t.Kind() != reflect.Interface {
			e.fail(pair.Value.Location(), "%s must be true or false, not %s%s", key.Value, plainType(typeName(pair.Value)),
				resultHint(wantFlag, t))
		}
	case !textual(pair.Value.Type()):
		e.fail(pair.Value.Location(), "%s must be a text, not %s", key.Value, plainType(typeName(pair.Value)))
	}
}

func isElement(t reflect.Type) bool {
	return t.Kind() == reflect.Interface || t.Kind() == reflect.Map
}

func textual(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() == reflect.Interface
}
