package mapping

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/expr-lang/expr/ast"
)

// maxNumber is the maximum length in bytes of a text to parse as a number.
const maxNumber = 64

// numberForms are the forms of numbers by their decimal sign: whole digits,
// perhaps in groups of three, and decimals.
var numberForms = map[string]*regexp.Regexp{
	".": regexp.MustCompile(`^(\d*|\d{1,3}(?:[,'’ \x{a0}\x{202f}]\d{3})+)(?:\.(\d+))?$`),
	",": regexp.MustCompile(`^(\d*|\d{1,3}(?:[.'’ \x{a0}\x{202f}]\d{3})+)(?:,(\d+))?$`),
}

// rewriteNumber parses the decimal sign at load time.
func (e *expression) rewriteNumber(node *ast.Node, args []ast.Node) {
	form := numberForms["."]
	if len(args) == 2 {
		literal, ok := args[1].(*ast.StringNode)
		if ok {
			form, ok = numberForms[literal.Value]
		}
		if !ok {
			e.fail(args[1].Location(), `the decimal sign is written "." or ","`)
		}
	}
	replaceBy(node, "number", args[0], &ast.ConstantNode{Value: form})
}

// number reads an amount as people write it, with groups of thousands, a
// currency sign and a minus or brackets around what is owed. A blank is 0.
func number(m *meter, args []any) (any, error) {
	s, err := text(args[0])
	if err != nil || blank(s) {
		return 0.0, err
	}
	if len(s) <= maxNumber {
		if n, ok := parseNumber(s, args[1].(*regexp.Regexp)); ok {
			return n, nil
		}
	}
	m.missed("number", s)
	return nil, sentence("a text is no number")
}

func parseNumber(s string, form *regexp.Regexp) (float64, bool) {
	s = strings.TrimFunc(s, isAroundNumber)
	sign := ""
	if inner, ok := strings.CutPrefix(s, "("); ok && strings.HasSuffix(inner, ")") {
		s, sign = strings.TrimSuffix(inner, ")"), "-"
	} else if rest := strings.TrimLeft(s, "-−"); rest != s {
		s, sign = rest, "-"
	}
	found := form.FindStringSubmatch(strings.TrimFunc(s, isAroundNumber))
	if found == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(sign+digits(found[1])+"."+found[2], 64)
	return n, err == nil
}

func isAroundNumber(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Sc, r) }
