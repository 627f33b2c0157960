package mapping

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	yaml "go.yaml.in/yaml/v4"

	"payersync/mapping/strict"
)

// explain describes an error of the expression engine in plain words, without the names of Go types.
func (e *expression) explain(root ast.Node, err error) {
	var found *file.Error
	if !errors.As(err, &found) {
		e.failWhole("this expression is not understood; write it in another way")
		return
	}
	if name, base := unknownMember(root, found); name != nil {
		e.fail(name.Location(), "unknown field %q; %s", name.Value, strict.Suggest(name.Value, members(base)))
		return
	}
	message := plainEngine(found.Message)
	if message == tooEarly || message == quoteOpen {
		message += e.cutOff()
	}
	e.fail(found.Location, "%s", message)
}

const (
	tooEarly  = "the expression ends too early; something is missing here"
	quoteOpen = "a quote is opened and not closed"
)

// cutOff says how YAML may have cut off the end of the expression.
func (e *expression) cutOff() string {
	node, block := e.doc.Node(e.path), e.doc.Node(e.path[:len(e.path)-1])
	switch {
	case node.LineComment != "":
		return "; what stands behind a space and # is a comment, so put the whole expression in quotes"
	case block.Style&yaml.FlowStyle != 0 && node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0:
		return "; in a one-line block a comma ends the value, so put the whole expression in quotes"
	}
	return ""
}

// unknownMember finds the a.b of an error about a missing member b of a.
func unknownMember(root ast.Node, found *file.Error) (name *ast.StringNode, base reflect.Type) {
	if root == nil || !strings.Contains(found.Message, "has no field") {
		return nil, nil
	}
	ast.Walk(&root, visit(func(node *ast.Node) {
		m, ok := (*node).(*ast.MemberNode)
		if !ok || m.Location() != found.Location {
			return
		}
		if property, ok := m.Property.(*ast.StringNode); ok && m.Node.Type().Kind() == reflect.Struct {
			name, base = property, m.Node.Type()
		}
	}))
	return name, base
}

// members are the names of an object's fields.
func members(t reflect.Type) []string {
	out := make([]string, t.NumField())
	for i := range out {
		out[i] = t.Field(i).Tag.Get("expr")
	}
	return out
}

// engineWords are the engine's messages and ours; types in them are made plain.
var engineWords = []struct {
	engine *regexp.Regexp
	plain  func(m []string) string
}{
	{regexp.MustCompile(`^unexpected token EOF`), say(tooEarly)},
	{regexp.MustCompile(`^unexpected end of expression`), say(tooEarly)},
	{regexp.MustCompile(`^unexpected token Operator\("="\)`), say("use == to compare")},
	{regexp.MustCompile(`^unexpected token Operator\(":"\)`),
		say("a colon is not expected here; a { } block as the result of map(…) is written in parentheses: map(list, ({name: .Name}))")},
	{regexp.MustCompile(`^unexpected token \w+\("?(.*?)"?\)$`), func(m []string) string {
		return fmt.Sprintf("%s is not expected here", m[1])
	}},
	{regexp.MustCompile(`^literal not terminated`), say(quoteOpen)},
	{regexp.MustCompile(`^unclosed "(.)"`), func(m []string) string { return m[1] + " is opened here and not closed" }},
	{regexp.MustCompile(`^unrecognized character: U\+\w+ '(.*)'`), func(m []string) string {
		return fmt.Sprintf("%s cannot be used in an expression", m[1])
	}},
	{regexp.MustCompile("^error parsing regexp: (.+?)(?:: `.*)?$"), func(m []string) string {
		return "this pattern is not valid: " + m[1]
	}},
	{regexp.MustCompile(`maximum allowed nodes`), say("this expression is too large; split it, or map fewer things")},
	{regexp.MustCompile(`(?s)^invalid operation: (\S+) \(mismatched types (.+) and (.+)\)$`), func(m []string) string {
		return fmt.Sprintf("%s does not work between %s and %s", m[1], plainType(m[2]), plainType(m[3]))
	}},
	{regexp.MustCompile(`(?s)^invalid operation: (\S+) \(mismatched type (.+)\)$`), func(m []string) string {
		return fmt.Sprintf("%s does not work on %s", m[1], plainType(m[2]))
	}},
	{regexp.MustCompile(`(?s)^cannot use (.+) as argument \(type (.+)\) to call (.+?) ?$`), wrongArgument},
	{regexp.MustCompile(`^(?:too many|not enough) arguments to call (.+)$`), func(m []string) string {
		return fmt.Sprintf("the arguments do not fit; use %s", functions[m[1]].usage)
	}},
	{regexp.MustCompile(`(?s)^builtin (\w+) takes only array \(got (.+)\)`), func(m []string) string {
		return fmt.Sprintf("%s works on a list, and this is %s", m[1], plainType(m[2]))
	}},
	{regexp.MustCompile(`^invalid argument for len \(type (.+)\)`), func(m []string) string {
		return "len works on a text or a list, and this is " + plainType(m[1])
	}},
	{regexp.MustCompile(`(?s)^predicate should return boolean \(got (.+)\)`), func(m []string) string {
		return "the condition must be true or false, and this is " + plainType(m[1])
	}},
	{regexp.MustCompile(`(?s)^non-bool expression \(type (.+)\) used as condition`), func(m []string) string {
		return "the condition before ? must be true or false, and this is " + plainType(m[1])
	}},
	{regexp.MustCompile(`(?s)^type (.+) has no (?:field|method) (.+)$`), func(m []string) string {
		return fmt.Sprintf("%s has no field %q", plainType(m[1]), m[2])
	}},
	{regexp.MustCompile(`(?s)^cannot use (.+) as type (.+) in (?:array|map key)`), func(m []string) string {
		return fmt.Sprintf("%s is looked for among values that are each %s", plainType(m[1]), plainType(m[2]))
	}},
	{regexp.MustCompile(`(?s)^type (.+)\[.+\] is undefined$`), func(m []string) string {
		return "[ ] picks from a list, and this is " + plainType(m[1])
	}},
	{regexp.MustCompile(`^array elements can only be selected using an integer`),
		say("an element of a list is picked by its number, counted from 0: list[0]")},
	{regexp.MustCompile(`(?s)^cannot slice (.+)$`), func(m []string) string {
		return "[from:to] works on a text or a list, and this is " + plainType(m[1])
	}},
	{regexp.MustCompile(`^cannot use pointer accessor outside predicate`),
		say("a field with a leading dot, or #, is known inside filter(…), map(…) and the like only")},
	{regexp.MustCompile(`^cannot redeclare (?:\w+ )?(.+)$`), func(m []string) string {
		return fmt.Sprintf("%q is taken; choose another name behind let", m[1])
	}},
}

func say(s string) func([]string) string { return func([]string) string { return s } }

func wrongArgument(m []string) string {
	return fmt.Sprintf("%s takes %s here, not %s: %s", m[3], plainType(m[2]), plainType(m[1]), functions[m[3]].usage)
}

func plainEngine(message string) string {
	message = strings.TrimSpace(message)
	for _, w := range engineWords {
		if m := w.engine.FindStringSubmatch(message); m != nil {
			return w.plain(m)
		}
	}
	return goTypes.ReplaceAllStringFunc(message, plainType)
}

var goTypes = regexp.MustCompile(`\[\]interface ?\{\}|map\[string\]interface ?\{\}|interface ?\{\}|\[\]string|\bfloat64\b|\bbool\b|\bstring\b|\bint\b`)

// plainType names a Go type in the words of the mapping's reader.
func plainType(t string) string {
	t = strings.TrimSpace(t)
	switch {
	case t == "[]string":
		return "a list of texts"
	case strings.HasPrefix(t, "[]"), strings.HasPrefix(t, "Array{"):
		return "a list"
	case t == "string":
		return "a text"
	case t == "bool":
		return "a true/false value"
	case t == "int":
		return "a whole number"
	case t == "float64":
		return "a number"
	case t == "nil", t == "<nil>":
		return "nothing"
	case strings.HasPrefix(t, "struct"), strings.HasPrefix(t, "map"), strings.HasPrefix(t, "Map{"):
		return "a block of fields"
	case strings.HasPrefix(t, "func"):
		return "a function"
	}
	return "something else"
}
