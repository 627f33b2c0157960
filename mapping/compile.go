package mapping

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"payersync/connector"
	"payersync/mapping/strict"
)

// Bounds of a mapping file.
const (
	maxExpression  = 4096 // characters of one expression
	maxNodes       = 500  // parts of one expression
	maxExpressions = 64   // expressions of one file
)

// loops are the list functions of the expression engine that mappings may use.
var loops = []string{"all", "any", "count", "filter", "len", "map", "none", "one"}

// result is what an expression must give.
type result string

const (
	wantText   result = "text"
	wantFlag   result = "true or false"
	wantPeople result = "a list of people"
	wantPlaces result = "a list of addresses"
)

// rule is one compiled expression of a mapping file.
type rule struct {
	path    strict.Path
	line    int
	program *vm.Program
}

// compiling turns the expressions of one file into rules and collects what is
// wrong with them.
type compiling struct {
	doc      *strict.Doc
	fields   []connector.Field
	types    map[string]reflect.Type // of the fields
	used     map[string]bool         // fields that some expression reads
	count    int
	problems []strict.Problem
}

func newCompiling(doc *strict.Doc, fields []connector.Field) *compiling {
	c := &compiling{doc: doc, fields: fields, types: map[string]reflect.Type{}, used: map[string]bool{}}
	for _, f := range fields {
		c.types[f.Name] = goType(f)
	}
	return c
}

// goType is the Go type of a field's values: objects are structs whose fields
// are found by their expr tag, so that the type checker knows every level.
func goType(f connector.Field) reflect.Type {
	switch f.Type {
	case connector.TypeNumber:
		return reflect.TypeFor[float64]()
	case connector.TypeFlag:
		return reflect.TypeFor[bool]()
	case connector.TypeObject:
		return structType(f.Fields)
	case connector.TypeList:
		if len(f.Fields) > 0 {
			return reflect.SliceOf(structType(f.Fields))
		}
		return reflect.TypeFor[[]string]()
	}
	return reflect.TypeFor[string]()
}

func structType(fields []connector.Field) reflect.Type {
	members := make([]reflect.StructField, len(fields))
	for i, f := range fields {
		members[i] = reflect.StructField{
			Name: fmt.Sprintf("F%d", i),
			Type: goType(f),
			Tag:  reflect.StructTag(fmt.Sprintf("expr:%q", f.Name)),
		}
	}
	return reflect.StructOf(members)
}

// Names of variables beside the fields.
const (
	varTenant   = "tenant"
	varCustomer = "customer"
	fnField     = "field"
)

// varName is the variable that holds a field. A field that is called like
// something else of the language, or whose name is no single word, is reached by
// field("…") only.
func varName(field string) string {
	if !isWord(field) || isReserved(field) {
		return "field:" + field
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

func isReserved(name string) bool {
	return isFunction(name) || name == varTenant || name == varCustomer
}

func isFunction(name string) bool {
	_, known := functions[name]
	return known || name == fnField || slices.Contains(loops, name)
}

func (c *compiling) report(p strict.Problem) { c.problems = append(c.problems, p) }

// compile compiles the expression at path. It returns nil after reporting what
// is wrong with it.
func (c *compiling) compile(path strict.Path, text string, want result, withCustomer bool) *rule {
	if c.count++; c.count == maxExpressions+1 {
		c.report(c.doc.Problem(path, "the mapping has more than %d expressions", maxExpressions))
	}
	if n := len([]rune(text)); n > maxExpression {
		c.report(c.doc.Problem(path, "this expression is longer than %d characters", maxExpression))
		return nil
	}
	e := &expression{compiling: c, path: path, text: text, want: want, withCustomer: withCustomer}
	program := e.compile()
	if program == nil {
		return nil
	}
	return &rule{path: path, line: c.doc.Line(path), program: program}
}

// expression is one expression on its way to a program.
type expression struct {
	*compiling
	path         strict.Path
	text         string
	want         result
	withCustomer bool
	failed       bool
}

func (e *expression) fail(at file.Location, format string, args ...any) {
	e.failed = true
	e.report(e.doc.TextProblem(e.path, at.From, max(1, at.To-at.From), format, args...))
}

// failWhole reports a problem of the whole expression, at its first line.
func (e *expression) failWhole(format string, args ...any) {
	line, _, _ := strings.Cut(e.text, "\n")
	e.fail(file.Location{To: len([]rune(line))}, format, args...)
}

// compile parses, resolves names, rewrites, checks types and compiles. Every
// unknown name is reported; of the other mistakes, the first.
func (e *expression) compile() *vm.Program {
	if strings.TrimSpace(e.text) == "" {
		e.failed = true
		e.report(e.doc.Problem(e.path, "%s is blank; write a field, a text in quotes or an expression, or remove the key", e.path))
		return nil
	}
	config := e.config()
	tree, err := parser.ParseWithConfig(e.text, config)
	if err != nil {
		e.explain(nil, err)
		return nil
	}
	e.resolve(&tree.Node)
	if e.failed {
		return nil
	}
	if _, err := checker.Check(tree, config); err != nil {
		e.explain(tree.Node, err)
		return nil
	}
	ast.Walk(&tree.Node, visit(e.checkJoin))
	e.checkResult(tree.Node)
	ast.Walk(&tree.Node, visit(e.rewrite))
	if e.failed {
		return nil
	}
	program, err := compiler.Compile(tree, config)
	if err != nil {
		e.explain(tree.Node, err)
		return nil
	}
	return program
}

// config describes the language: the fields, the variables and the functions,
// and nothing that reads a clock, makes randomness or looks up the environment.
func (e *expression) config() *conf.Config {
	env := map[string]any{varTenant: "", varMeter: &meter{}}
	for name, t := range e.types {
		env[varName(name)] = reflect.Zero(t).Interface()
	}
	if e.withCustomer {
		env[varCustomer] = customerView{}
	}
	config := conf.New(env)
	config.MaxNodes = maxNodes
	config.DisableIfOperator = true
	for _, f := range builtin.Builtins {
		if !slices.Contains(loops, f.Name) {
			config.Disabled[f.Name] = true
			delete(config.Builtins, f.Name)
		}
	}
	for name, f := range functions {
		config.Functions[name] = f.register(name)
	}
	for name, f := range hidden {
		config.Functions[name] = f.register(name)
	}
	return config
}

// resolve finds what every name stands for, replaces field("…") by its
// variable, and reports unknown names.
func (e *expression) resolve(root *ast.Node) {
	r := &resolver{expression: e, callees: map[*ast.IdentifierNode]bool{}, lets: map[string]bool{}}
	ast.Walk(root, visit(r.collect))
	ast.Walk(root, visit(r.judge))
}

type visit func(node *ast.Node)

// Visit calls f.
func (f visit) Visit(node *ast.Node) { f(node) }

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
			r.name(n)
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

// name judges a variable.
func (r *resolver) name(n *ast.IdentifierNode) {
	_, isField := r.types[n.Value]
	switch {
	case r.lets[n.Value], n.Value == varTenant, n.Value == varCustomer && r.withCustomer:
	case n.Value == varCustomer:
		r.fail(n.Location(), "customer, the finished customer, is known in mandate.request only")
	case isFunction(n.Value):
		r.fail(n.Location(), "%s is a function: write %s(…), or %s(%q) for a field of that name", n.Value, n.Value, fnField, n.Value)
	case isField:
		r.used[n.Value] = true
	default:
		r.fail(n.Location(), "unknown field %q; %s", n.Value, r.suggestField(n.Value))
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
	r.used[name.Value] = true
	ast.Patch(node, &ast.IdentifierNode{Value: varName(name.Value)})
}

func (r *resolver) unknownFunction(name string, at file.Location) {
	known := slices.Concat(slices.Collect(maps.Keys(functions)), loops, []string{fnField})
	slices.Sort(known)
	if strings.HasPrefix(name, "find") {
		r.fail(at, "unknown function %q; use filter(…)[0], which is blank when nothing is found", name)
		return
	}
	r.fail(at, "unknown function %q; %s", name, strict.Suggest(name, known))
}

// suggestField ends a sentence about an unknown field.
func (e *expression) suggestField(name string) string {
	known := slices.Sorted(maps.Keys(e.types))
	near := strict.Nearest(name, known)
	switch {
	case near != "" && varName(near) == near:
		return fmt.Sprintf("did you mean %q?", near)
	case near != "":
		return fmt.Sprintf("did you mean %s(%q)?", fnField, near)
	case len(known) > 12:
		return "payersync mapping fields lists the fields; a fixed text is written in quotes"
	}
	return "the fields are " + strings.Join(known, ", ") + "; a fixed text is written in quotes"
}

// rewrite replaces operators by the hidden functions, hands every function the
// meter, and makes every pass of a loop pay. It runs after the type check, which
// knows the operators better, and its replacements keep their types.
func (e *expression) rewrite(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		e.operator(node, n)
	case *ast.MemberNode:
		if _, byName := n.Property.(*ast.StringNode); !byName {
			replaceBy(node, fnAt, n.Node, n.Property, blankOf(n))
		}
	case *ast.CallNode:
		e.call(node, n)
	case *ast.BuiltinNode:
		if n.Name == "len" {
			replaceBy(node, fnLen, n.Arguments...)
		}
	case *ast.PredicateNode:
		steps := 1
		ast.Walk(&n.Node, visit(func(*ast.Node) { steps++ }))
		pay := ast.Node(&ast.NilNode{})
		replaceBy(&pay, fnStep, &ast.ConstantNode{Value: steps})
		body := &ast.SequenceNode{Nodes: []ast.Node{pay, n.Node}}
		body.SetNature(*n.Node.Nature())
		n.Node = body
	}
}

// call hands a function the meter, and phone and address what they need to know
// of their list.
func (e *expression) call(node *ast.Node, n *ast.CallNode) {
	name := n.Callee.(*ast.IdentifierNode).Value
	if strings.HasSuffix(name, " ") {
		return // a hidden function, put here before
	}
	args := n.Arguments
	if name == "phone" || name == "address" {
		args = append(args, &ast.ConstantNode{Value: rolesOf(args[0].Type().Elem())})
	}
	replaceBy(node, name, args...)
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

// blankOf is the blank of a node's type, if that is known.
func blankOf(n ast.Node) ast.Node {
	if n.Type().Kind() == reflect.Interface {
		return &ast.NilNode{}
	}
	return &ast.ConstantNode{Value: reflect.Zero(n.Type()).Interface()}
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

// checkJoin checks the elements of joined lists, which the type checker takes
// for anything.
func (e *expression) checkJoin(node *ast.Node) {
	call, ok := (*node).(*ast.CallNode)
	if !ok || call.Callee.(*ast.IdentifierNode).Value != "join" {
		return
	}
	list, ok := call.Arguments[0].(*ast.ArrayNode)
	if !ok {
		if of := call.Arguments[0].Nature().Ref; of != nil && of.Type != nil && !textual(of.Type) {
			e.fail(call.Arguments[0].Location(), "join needs a list of texts, and each element here is %s", plainType(of.Type.String()))
		}
		return
	}
	for _, element := range list.Nodes {
		if isNil(element) || !textual(element.Type()) {
			e.fail(element.Location(), "join needs a list of texts, and this is %s", plainType(typeName(element)))
		}
	}
}

// checkResult checks what the expression gives. What only the record can tell
// (a value out of a { } block) is checked when the mapping is applied.
func (e *expression) checkResult(root ast.Node) {
	t := root.Type()
	if t.Kind() == reflect.Interface && !isNil(root) {
		return
	}
	switch e.want {
	case wantText, wantFlag:
		kind := map[result]reflect.Kind{wantText: reflect.String, wantFlag: reflect.Bool}[e.want]
		if isNil(root) || t.Kind() != kind {
			e.failWhole("%s must give %s, not %s%s", e.path, plainResult(e.want), plainType(typeName(root)), resultHint(e.want, t))
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
		return `; join(…, " ") makes a text of a list`
	}
	if want == wantFlag && t.Kind() == reflect.String {
		return `; compare it, as in ContactStatus == "ACTIVE"`
	}
	return ""
}

// checkElements checks an expression for a whole list of people or addresses:
// it gives a list, and every { } block in it names fields of an element, with
// texts behind them.
func (e *expression) checkElements(root ast.Node) {
	known := personNames
	if e.want == wantPlaces {
		known = addressNames
	}
	t := root.Type()
	if isNil(root) || t.Kind() != reflect.Slice || !isElement(t.Elem()) {
		e.failWhole("%s must give %s, each written as {%s: …}", e.path, e.want, strings.Join(known, ": …, "))
		return
	}
	ast.Walk(&root, visit(func(node *ast.Node) {
		pair, ok := (*node).(*ast.PairNode)
		if !ok {
			return
		}
		key, ok := pair.Key.(*ast.StringNode)
		switch {
		case !ok:
			e.fail(pair.Key.Location(), "the keys of a block are plain words here: %s", strings.Join(known, ", "))
		case !slices.Contains(known, key.Value):
			e.fail(key.Location(), "unknown key %q; %s", key.Value, strict.Suggest(key.Value, known))
		case !textual(pair.Value.Type()):
			e.fail(pair.Value.Location(), "%s must be a text, not %s", key.Value, plainType(typeName(pair.Value)))
		}
	}))
}

func isElement(t reflect.Type) bool {
	return t.Kind() == reflect.Interface || t.Kind() == reflect.Map
}

func textual(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() == reflect.Interface
}
