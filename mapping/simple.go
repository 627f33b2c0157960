package mapping

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
	yaml "go.yaml.in/yaml/v4"

	"payersync/mapping/strict"
)

// SimpleKind is a kind of rule that people can choose without writing an expression.
type SimpleKind string

// The kinds of simple rules.
const (
	NoRule SimpleKind = ""       // the field has no rule
	Column SimpleKind = "column" // one column
	First  SimpleKind = "first"  // the first of several columns that is not blank
	Joined SimpleKind = "joined" // several columns in a row
	OnlyIf SimpleKind = "if"     // a column, if another column has a value
	Fixed  SimpleKind = "fixed"  // the same text for every record
	ByHand SimpleKind = "hand"   // any other expression
)

// Simple is a rule as a form shows it. Its parts and its condition are expressions, most often columns.
type Simple struct {
	Kind   SimpleKind
	Parts  []string // one of Column and OnlyIf, several of First and Joined
	Sign   string   // between the parts of Joined
	If     string   // the condition of OnlyIf: this value is not blank,
	Equals string   // or it equals this text
	Text   string   // of Fixed
	Form   string   // functions around the value, with Slot in its place: phone(…)
}

// Slot stands for the value in a form.
const Slot = "…"

// formFunctions take a text and return it in another spelling.
var formFunctions = []string{"phone", "country", "postcode", "firstEmail", "lower", "upper", "title", "trim", "digits"}

// ReadSimple reads an expression as a simple rule. The rule is ByHand unless Expression returns the same expression.
func ReadSimple(expression string) Simple {
	node := parsed(expression)
	if node == nil {
		return Simple{Kind: ByHand}
	}
	s := Simple{Form: Slot}
	for calleeOf(node) != "" && columnIn(node) == "" {
		call := node.(*ast.CallNode)
		if !slices.Contains(formFunctions, calleeOf(call)) || len(call.Arguments) == 0 {
			break
		}
		around := calleeOf(call) + "(" + Slot
		for _, argument := range call.Arguments[1:] {
			around += ", " + argument.String()
		}
		s.Form = strings.Replace(s.Form, Slot, around+")", 1)
		node = call.Arguments[0]
	}
	if s.Form == Slot {
		s.Form = ""
	}
	s.read(node)
	if written := parsed(s.Expression()); written == nil || ast.Dump(written) != ast.Dump(parsed(expression)) {
		return Simple{Kind: ByHand}
	}
	return s
}

// read sets the kind and what belongs to it.
func (s *Simple) read(node ast.Node) {
	s.Kind = ByHand
	switch n := node.(type) {
	case *ast.StringNode:
		s.Kind, s.Text = Fixed, n.Value
	case *ast.CallNode:
		s.readCall(n)
	case *ast.ConditionalNode:
		s.readCondition(n)
	default:
		if columnIn(node) != "" {
			s.Kind, s.Parts = Column, []string{node.String()}
		}
	}
}

func (s *Simple) readCall(call *ast.CallNode) {
	texts := func(nodes []ast.Node) (out []string) {
		for _, n := range nodes {
			out = append(out, n.String())
		}
		return out
	}
	switch {
	case columnIn(call) != "":
		s.Kind, s.Parts = Column, []string{call.String()}
	case calleeOf(call) == "coalesce":
		s.Kind, s.Parts = First, texts(call.Arguments)
	case calleeOf(call) == "join" && len(call.Arguments) == 2:
		if list, is := call.Arguments[0].(*ast.ArrayNode); is {
			s.Kind, s.Parts, s.Sign = Joined, texts(list.Nodes), textIn(call.Arguments[1])
		}
	}
}

func (s *Simple) readCondition(n *ast.ConditionalNode) {
	switch c := n.Cond.(type) {
	case *ast.UnaryNode:
		if call, is := c.Node.(*ast.CallNode); is && len(call.Arguments) == 1 {
			s.If = call.Arguments[0].String()
		}
	case *ast.BinaryNode:
		s.If, s.Equals = c.Left.String(), textIn(c.Right)
	}
	if s.If != "" {
		s.Kind, s.Parts = OnlyIf, []string{n.Exp1.String()}
	}
}

// Expression returns the expression of a simple rule, and "" for NoRule and ByHand.
func (s Simple) Expression() string {
	value, parts := "", strings.Join(s.Parts, ", ")
	switch s.Kind {
	case Column:
		value = parts
	case First:
		value = "coalesce(" + parts + ")"
	case Joined:
		value = "join([" + parts + "], " + literal(s.Sign) + ")"
	case OnlyIf:
		condition := "not isBlank(" + s.If + ")"
		if s.Equals != "" {
			condition = s.If + " == " + literal(s.Equals)
		}
		value = condition + " ? " + parts + ` : ""`
	case Fixed:
		value = literal(s.Text)
	}
	if s.Form != "" && value != "" {
		return strings.Replace(s.Form, Slot, value, 1)
	}
	return value
}

// isSame reports whether an expression of the rule means this rule and no other one.
func (s Simple) isSame() bool {
	read := ReadSimple(s.Expression())
	return read.Kind == s.Kind && len(read.Parts) == len(s.Parts) && read.Sign == s.Sign && read.Equals == s.Equals &&
		read.Text == s.Text
}

// ColumnOf returns the column of a part of a simple rule as an expression names it, with or without trim; "" for any
// other part.
func ColumnOf(part string) string {
	if node := parsed(part); node != nil {
		return columnIn(node)
	}
	return ""
}

func columnIn(node ast.Node) string {
	switch n := node.(type) {
	case *ast.IdentifierNode:
		return n.Value
	case *ast.CallNode:
		switch name := calleeOf(n); {
		case len(n.Arguments) != 1:
		case name == fnField && textIn(n.Arguments[0]) != "":
			return n.String()
		case name == "trim" && calleeOf(n.Arguments[0]) != "trim":
			return columnIn(n.Arguments[0])
		}
	case *ast.MemberNode:
		if base := columnIn(n.Node); base != "" && !n.Optional && textIn(n.Property) != "" && calleeOf(n.Node) != "trim" {
			return n.String()
		}
	case *ast.ChainNode:
		return columnIn(n.Node)
	}
	return ""
}

// anyNames is the language of mapping files without the names of fields. The parser only reads it.
var anyNames = sync.OnceValue(func() *conf.Config {
	config := conf.New(map[string]any{})
	restrict(config)
	return config
})

// parsed returns an expression without a check of its names; nil if it cannot be parsed.
func parsed(expression string) ast.Node {
	if len(expression) > maxExpression {
		return nil
	}
	tree, err := parser.ParseWithConfig(expression, anyNames())
	if err != nil {
		return nil
	}
	return tree.Node
}

// CustomerField is a field of the customer with its rule.
type CustomerField struct {
	Path     string // for example customer.people[0].email
	Line     int    // of the rule in the file; 0 without a rule
	Text     string // the rule as it is written
	Rule     Simple
	Forms    []string // that fit the field, the likeliest first
	Required bool

	path strict.Path
}

// forms are the forms of fields by the last step of their path.
var forms = map[string][]string{
	"email":    {"lower(firstEmail(…))"},
	"to":       {"lower(firstEmail(…))"},
	"phone":    {"phone(…)"},
	"postCode": {"postcode(…)"},
	"country":  {"country(…)"},
}

// CustomerFields returns the fields of a mapping file in reading order, also those without a rule. Conditions, and
// lists made by one expression, are rules by hand. So is the key: another key gives every payer a new number. The
// error is a *strict.Error for a file that is no mapping.
func CustomerFields(data []byte) ([]CustomerField, error) {
	file, doc, err := strict.Load("mapping", data, mappingFile{})
	if doc == nil {
		return nil, err
	}
	l := listing{doc: doc}
	l.below(strict.Path{"key"})
	l.add(strict.Path{"customer", "name"})
	l.elements(strict.Path{"customer", "people"}, personNames)
	l.elements(strict.Path{"customer", "addresses"}, addressNames)
	l.below(strict.Path{"externalData"})
	for _, path := range []strict.Path{{"scope"}, {"include"}, {"mandate", "request"}} {
		if doc.Node(path) != nil {
			l.add(path)
		}
	}
	l.add(strict.Path{"mandate", "to"})
	l.add(strict.Path{"mandate", "language"})
	l.addPhoneForm(file.Region)
	return l.fields, nil
}

// addPhoneForm adds the form of phone numbers in the customer's own country, or in the region of the file.
func (l *listing) addPhoneForm(region string) {
	at := slices.IndexFunc(l.fields, func(f CustomerField) bool { return f.Path == "customer.addresses[0].country" })
	if at < 0 || region == "" || l.fields[at].Rule.Kind != Column {
		return
	}
	local := "phone(" + Slot + ", default(" + l.fields[at].Text + ", " + literal(region) + "))"
	for i, f := range l.fields {
		if len(f.Forms) > 0 && f.Forms[0] == "phone("+Slot+")" {
			l.fields[i].Forms = []string{local, f.Forms[0]}
		}
	}
}

// listing collects the fields of a mapping file.
type listing struct {
	doc    *strict.Doc
	fields []CustomerField
}

// below adds the entries of a block in their order.
func (l *listing) below(path strict.Path) {
	for _, name := range l.doc.Keys(path) {
		l.add(path.Key(name))
	}
}

// elements adds the fields of each contact or address, or the expression that makes all of them.
func (l *listing) elements(path strict.Path, names []string) {
	if node := l.doc.Node(path); node != nil && node.Kind == yaml.ScalarNode {
		l.add(path)
		return
	}
	for i := 0; i == 0 || l.doc.Node(path.Index(i)) != nil; i++ {
		for _, name := range names {
			if at := path.Index(i).Key(name); !isFlag(name) || l.doc.Node(at) != nil {
				l.add(at)
			}
		}
	}
}

func (l *listing) add(path strict.Path) {
	last := path[len(path)-1]
	f := CustomerField{Path: path.String(), path: path, Forms: forms[last]}
	f.Required = path[0] == "key" || f.Path == "customer.name"
	if node := l.doc.Node(path); node != nil {
		f.Line, f.Text = l.doc.Line(path), node.Value
		f.Rule = ReadSimple(node.Value)
		if len(path) == 1 || path[0] == "key" || last == "request" || isFlag(last) || last == "people" ||
			last == "addresses" {
			f.Rule = Simple{Kind: ByHand}
		}
	}
	l.fields = append(l.fields, f)
}

// ErrNotSimple means that a form cannot hold the rule: an expression stands in its place, or its texts make no rule of
// its kind.
var ErrNotSimple = errors.New("this rule can only be edited as text")

// SetRule returns the mapping file with a simple rule for a field of CustomerFields. All other bytes of the file stay
// as they are, and the whole file if the field has this rule already. The error is ErrNotSimple or strict.ErrNoPlace.
func SetRule(data []byte, path string, rule Simple) ([]byte, error) {
	fields, err := CustomerFields(data)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(fields, func(f CustomerField) bool { return f.Path == path })
	if at < 0 {
		return nil, strict.ErrNoPlace
	}
	field := fields[at]
	switch {
	case field.Rule.Kind == ByHand || rule.Kind == ByHand:
		return nil, ErrNotSimple
	case field.Rule.Expression() == rule.Expression():
		return data, nil
	case rule.Kind == NoRule && field.Required:
		return nil, ErrNotSimple
	case rule.Kind == NoRule:
		return strict.Remove(data, field.path)
	case !rule.isSame():
		return nil, ErrNotSimple
	}
	return strict.Set(data, field.path, rule.Expression())
}
