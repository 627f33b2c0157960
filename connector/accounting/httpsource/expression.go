package httpsource

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"payersync/connector"
	"payersync/mapping/strict"
)

// Bounds of a profile's expressions. There are no loops, no let and no range. So the work of an expression grows
// with its length and its inputs only.
const (
	maxExpression  = 2048 // characters of one expression
	maxNodes       = 500  // parts of one expression
	maxExpressions = 250  // expressions of one profile
	maxPattern     = 500  // characters of a pattern
)

// allowed are the functions of the expression engine that profiles may call. header and link are ours.
var allowed = []string{"concat", "float", "int", "len", "lower", "split", "string", "toBase64", "trim", "upper"}

// names are the variables of one place in a profile. open places know further ones: the fields of an answer.
type names struct {
	vars  types.Map
	open  bool
	kinds map[string]connector.FieldType // the declared types of those that are fields of a record
}

func (n names) list() []string {
	return slices.Sorted(maps.Keys(n.vars))
}

// rule is one compiled expression.
type rule struct {
	path    strict.Path
	program *vm.Program
	reads   []string // its variables
}

// run evaluates the rule. Whatever it cannot judge is an error, and never false or blank.
func (r *rule) run(env map[string]any) (any, error) {
	out, err := vm.Run(r.program, env)
	if err != nil {
		// the engine's text may quote a value
		return nil, fmt.Errorf("the rule %s of the profile cannot judge the answer", r.path)
	}
	return out, nil
}

// is evaluates a rule that asks a question.
func (r *rule) is(env map[string]any) (bool, error) {
	out, err := r.run(env)
	if err != nil {
		return false, err
	}
	yes, ok := out.(bool)
	if !ok {
		return false, fmt.Errorf("the rule %s of the profile gives neither true nor false", r.path)
	}
	return yes, nil
}

// compiling turns a profile's expressions into rules, and collects what is wrong with them.
type compiling struct {
	doc      *strict.Doc
	count    int
	secrets  types.Map // further variables in the bodies of requests; nil for none
	problems []strict.Problem
}

func (c *compiling) report(p strict.Problem) { c.problems = append(c.problems, p) }

// rule compiles the expression at path; nil for a blank one, and after reporting a problem.
func (c *compiling) rule(path strict.Path, written expression, n names, flag bool) *rule {
	if strings.TrimSpace(string(written)) == "" {
		return nil
	}
	return c.compile(path, string(written), 0, n, flag)
}

// compile compiles an expression that begins at a character of the text at path.
func (c *compiling) compile(path strict.Path, written string, from int, n names, flag bool) *rule {
	if c.count++; c.count == maxExpressions+1 {
		c.report(c.doc.Problem(path, "the profile has more than %d expressions", maxExpressions))
	}
	if len([]rune(written)) > maxExpression {
		c.report(c.doc.Problem(path, "this expression is longer than %d characters", maxExpression))
	}
	if len(c.problems) > 0 && (c.count > maxExpressions || len(written) > maxExpression) {
		return nil
	}
	config := languageOf(n)
	tree, err := parser.ParseWithConfig(written, config)
	if err != nil {
		c.explain(path, written, from, err)
		return nil
	}
	j := &judging{compiling: c, path: path, from: from, names: n}
	j.judge(&tree.Node)
	if j.failed {
		return nil
	}
	if _, err := checker.Check(tree, config); err != nil {
		c.explain(path, written, from, err)
		return nil
	}
	if kind := tree.Node.Type().Kind().String(); flag && kind != "bool" && kind != "interface" {
		c.report(c.doc.TextProblem(path, from, len([]rune(written)),
			"%s asks a question, so it must be true or false; compare it with something, as in … == \"Active\"", path))
		return nil
	}
	program, err := compiler.Compile(tree, config)
	if err != nil {
		c.explain(path, written, from, err)
		return nil
	}
	slices.Sort(j.reads)
	return &rule{path: path, program: program, reads: slices.Compact(j.reads)}
}

// languageOf returns the language of profiles: a few functions, and neither clock nor randomness nor environment.
func languageOf(n names) *conf.Config {
	vars := maps.Clone(n.vars)
	if n.open {
		vars[types.Extra] = types.Any
	}
	config := conf.New(vars)
	config.MaxNodes = maxNodes
	config.DisableIfOperator = true
	for _, f := range builtin.Builtins {
		if !slices.Contains(allowed, f.Name) {
			config.Disabled[f.Name] = true
			delete(config.Builtins, f.Name)
		}
	}
	return config
}

// explain reports an error of the engine at its place.
func (c *compiling) explain(path strict.Path, written string, from int, err error) {
	var at *file.Error
	if !errors.As(err, &at) {
		c.report(c.doc.Problem(path, "this expression cannot be read; the guide profiles has the language"))
		return
	}
	message, _, _ := strings.Cut(at.Message, "\n")
	place := min(at.From, max(0, len([]rune(written))-1))
	c.report(c.doc.TextProblem(path, from+place, max(1, min(at.To, len([]rune(written)))-place),
		"this expression cannot be read here: %s; in YAML, an expression with : or # or { stands in quotes", message))
}

// judging finds what the engine would accept, and the language of profiles has not.
type judging struct {
	*compiling
	path   strict.Path
	from   int
	names  names
	reads  []string
	failed bool
}

func (j *judging) fail(n ast.Node, format string, args ...any) {
	j.failed = true
	at := n.Location()
	j.report(j.doc.TextProblem(j.path, j.from+at.From, max(1, at.To-at.From), format, args...))
}

func (j *judging) judge(root *ast.Node) { ast.Walk(root, j) }

// Visit judges one part of an expression.
func (j *judging) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		j.name(n)
	case *ast.MemberNode:
		j.member(n)
	case *ast.VariableDeclaratorNode, *ast.SequenceNode:
		j.fail(n, "let and ; are not part of a profile's expressions; write the value where it is used")
	case *ast.PredicateNode, *ast.PointerNode:
		j.fail(n, "a profile's expressions have no loops")
	case *ast.BinaryNode:
		j.operator(n)
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); !ok || !slices.Contains([]string{"header", "link"}, callee.Value) {
			j.fail(n, "this function is not known; those of profiles are header, link, %s", strings.Join(allowed, ", "))
		}
	case *ast.BuiltinNode:
		if !slices.Contains(allowed, n.Name) {
			j.fail(n, "unknown function %q; those of profiles are header, link, %s", n.Name, strings.Join(allowed, ", "))
		}
	}
}

func (j *judging) name(n *ast.IdentifierNode) {
	_, known := j.names.vars[n.Value]
	switch {
	case n.Value == "null":
		j.fail(n, "null is written nil here; a ?? b gives b where a is nil")
	case !known && !j.names.open || strings.HasPrefix(n.Value, "$"):
		j.fail(n, "unknown name %q; %s", n.Value, strict.Suggest(n.Value, j.names.list()))
	}
	j.reads = append(j.reads, n.Value)
}

// member checks the name of a setting or secret.
func (j *judging) member(n *ast.MemberNode) {
	of, isName := n.Node.(*ast.IdentifierNode)
	property, isText := n.Property.(*ast.StringNode)
	if !isName || !isText {
		return
	}
	if inner, ok := j.names.vars[of.Value].(types.Map); ok {
		if _, known := inner[property.Value]; !known {
			j.fail(n, "there is no setting %q; %s", property.Value,
				strict.Suggest(property.Value, slices.Sorted(maps.Keys(inner))))
		}
		j.reads = append(j.reads, of.Value+"."+property.Value)
	}
}

func (j *judging) operator(n *ast.BinaryNode) {
	switch n.Operator {
	case "..":
		j.fail(n, "a profile's expressions have no ranges")
	case "matches":
		pattern, ok := n.Right.(*ast.StringNode)
		if !ok || len(pattern.Value) > maxPattern {
			j.fail(n.Right, "matches takes a pattern in quotes, of %d characters at most", maxPattern)
		} else if _, err := regexp.Compile(pattern.Value); err != nil {
			j.fail(n.Right, "this pattern is not valid")
		}
	case "==", "!=", "<", ">", "<=", ">=":
		j.comparison(n.Left, n.Right)
		j.comparison(n.Right, n.Left)
	}
}

// comparison refuses to compare a field with a value of another type: the answer would always be the same.
func (j *judging) comparison(field, with ast.Node) {
	name, isName := field.(*ast.IdentifierNode)
	if !isName {
		return
	}
	declared, known := j.names.kinds[name.Value]
	if !known {
		return
	}
	is := map[bool]connector.FieldType{}
	switch with.(type) {
	case *ast.StringNode:
		is[true] = connector.TypeText
	case *ast.BoolNode:
		is[true] = connector.TypeFlag
	case *ast.IntegerNode, *ast.FloatNode:
		is[true] = connector.TypeNumber
	}
	if kind, constant := is[true]; constant && kind != declared {
		j.fail(with, "%s is declared as a %s, and is compared with a %s here; it would never fit", name.Value, declared, kind)
	}
}

// template is a text with holes.
type template struct {
	parts []any // texts and rules, in turn
}

// template compiles the text at path.
func (c *compiling) template(path strict.Path, written text, n names) *template {
	t, rest, from := &template{}, string(written), 0
	for {
		before, after, found := strings.Cut(rest, "${")
		if before != "" {
			t.parts = append(t.parts, before)
		}
		if !found {
			return t
		}
		from += len([]rune(before)) + 2
		end := holeEnd(after)
		if end < 0 {
			c.report(c.doc.TextProblem(path, from-2, 2, "this hole is not closed; write ${expression}"))
			return t
		}
		if r := c.compile(path, after[:end], from, n, false); r != nil {
			t.parts = append(t.parts, r)
		}
		from += len([]rune(after[:end])) + 1
		rest = after[end+1:]
	}
}

// holeEnd returns the place of the brace that closes a hole; -1 for none.
func holeEnd(s string) int {
	depth, quote := 0, rune(0)
	for i, r := range s {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"', r == '\'', r == '`':
			quote = r
		case r == '{':
			depth++
		case r == '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// fill evaluates the template. A hole that is the whole text keeps its type; null in a larger text is an error.
func (t *template) fill(env map[string]any) (any, error) {
	if len(t.parts) == 1 {
		if r, ok := t.parts[0].(*rule); ok {
			return r.run(env)
		}
	}
	var out strings.Builder
	for _, part := range t.parts {
		r, isRule := part.(*rule)
		if !isRule {
			out.WriteString(part.(string))
			continue
		}
		v, err := r.run(env)
		if err != nil {
			return nil, err
		}
		if v == nil {
			return nil, fmt.Errorf("%s of the profile has no value here", r.path)
		}
		fmt.Fprint(&out, v)
	}
	return out.String(), nil
}

// words evaluates the template to a text; "" for null.
func (t *template) words(env map[string]any) (string, error) {
	v, err := t.fill(env)
	if err != nil || v == nil {
		return "", err
	}
	return fmt.Sprint(v), nil
}

// reads reports whether the template reads a variable.
func (t *template) reads(name string) bool {
	return slices.ContainsFunc(t.parts, func(part any) bool {
		r, ok := part.(*rule)
		return ok && slices.Contains(r.reads, name)
	})
}
