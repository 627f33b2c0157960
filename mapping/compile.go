package mapping

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

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

// loops are the expression engine's list functions available to mappings.
var loops = []string{"all", "any", "count", "filter", "len", "map", "none", "one"}

// result is the required result of an expression.
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
	text    string
	reads   []string // the variables it reads, in the order of the text
	parts   []part
	program *vm.Program
}

// compiling turns the expressions of one file into rules and collects what is
// wrong with them.
type compiling struct {
	doc     *strict.Doc
	kind    string                  // of the source
	columns []string                // the fields in the order of the source
	types   map[string]reflect.Type // of the fields
	region  string                  // the mapping's, for phone numbers; "" when it has none
	written []connector.WrittenPart // written by us, so no rule may read it
	used    map[string]bool         // fields used by some expression
	flags   map[string]strict.Path  // flags of contacts, with the place of their first mapping
	asFlags map[string]bool         // fields used as yes or no by some condition
	count   int

	flagColumns bool // conditions read columns of any type as yes or no

	partCount int
	problems  []strict.Problem
}

func newCompiling(doc *strict.Doc, region string, src connector.SourceInfo) *compiling {
	c := &compiling{doc: doc, kind: src.Kind, region: region, written: src.Written, types: map[string]reflect.Type{},
		used: map[string]bool{}, flags: map[string]strict.Path{},
		asFlags: map[string]bool{}, flagColumns: slices.Contains(untyped, src.Kind)}
	for _, f := range src.Fields {
		c.types[f.Name] = goType(f)
		c.columns = append(c.columns, f.Name)
	}
	return c
}

// goType returns the Go type of a field's values. Objects are structs with their fields' names in expr tags, so the
// type checker knows every level.
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

// flag notes a mapped flag of contacts.
func (c *compiling) flag(name string, at strict.Path) {
	if c.flags[name] == nil {
		c.flags[name] = at
	}
}

func (c *compiling) report(p strict.Problem) { c.problems = append(c.problems, p) }

// compile compiles the expression at path, and returns nil after reporting what
// is wrong with it.
func (c *compiling) compile(path strict.Path, text string, want result, withCustomer bool) *rule {
	if c.count++; c.count > maxExpressions {
		if c.count == maxExpressions+1 {
			c.report(c.doc.Problem(path, "the mapping has more than %d expressions; those from here on were not looked at",
				maxExpressions))
		}
		return nil
	}
	if blank(text) {
		c.report(c.doc.Problem(path, "%s is blank; write a field, a text in quotes or an expression, or remove the key",
			path))
		return nil
	}
	if n := len([]rune(text)); n > maxExpression {
		c.report(c.doc.Problem(path, "this expression is longer than %d characters", maxExpression))
		return nil
	}
	e := &expression{compiling: c, path: path, text: text, want: want, withCustomer: withCustomer}
	before := len(c.problems)
	program := e.compile()
	if program == nil {
		c.problems = append(c.problems[:before:before], e.cured(c.problems[before:])...)
		return nil
	}
	return &rule{path: path, line: c.doc.Line(path), text: strings.TrimSpace(text), reads: e.reads, parts: e.parts,
		program: program}
}

// expression is one expression on its way to a program.
type expression struct {
	*compiling
	path         strict.Path
	text         string
	want         result
	withCustomer bool
	reads        []string
	parts        []part
	firstPart    map[ast.Node]int  // the number of the first part of a condition or call
	misquoted    map[string]string // fields by the quoted texts that must mean them
	fillsIn      bool              // a text has fields between marks in it
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

// compile parses, resolves names, checks types, rewrites and compiles. Every
// unknown name is reported; of the other mistakes, the first.
func (e *expression) compile() *vm.Program {
	config := e.config()
	tree, err := parser.ParseWithConfig(e.text, config)
	if err != nil {
		e.explain(nil, err)
		return nil
	}
	e.findParts(&tree.Node)
	e.resolve(&tree.Node)
	if e.failed {
		return nil
	}
	e.readConditions(&tree.Node)
	if _, err := checker.Check(tree, config); err != nil {
		e.explain(tree.Node, err)
		return nil
	}
	e.checkTraps(tree.Node)
	ast.Walk(&tree.Node, visit(e.checkJoin))
	e.checkResult(tree.Node)
	e.checkKey()
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

// config describes the language: fields, variables and functions. It has no access to clock, randomness or environment.
func (e *expression) config() *conf.Config {
	env := map[string]any{varTenant: "", varMeter: &meter{}}
	for name, t := range e.types {
		env[varName(name)] = reflect.Zero(t).Interface()
		env[flagPrefix+name] = flagValue{}
	}
	if e.withCustomer {
		env[varCustomer] = customerView{}
	}
	config := conf.New(env)
	restrict(config)
	return config
}

// restrict leaves the functions of mapping files, and no others.
func restrict(config *conf.Config) {
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
}

// visit is a function for ast.Walk to call on every node, children first.
type visit func(node *ast.Node)

// Visit calls f.
func (f visit) Visit(node *ast.Node) { f(node) }
