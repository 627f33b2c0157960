package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"unicode"

	"github.com/expr-lang/expr/ast"
	"github.com/nyaruka/phonenumbers"
)

// The cost of the number library, in steps, and the maximum length of its texts.
const (
	phoneSteps = 400
	maxPhone   = 50
)

const phoneUsage = "phone(text), phone(text, region) or phone(list, type)"

// phoneResult checks the arguments of phone: a text and perhaps a region, or a
// list of the record and a type.
func phoneResult(args []reflect.Type) (reflect.Type, error) {
	out := reflect.TypeFor[string]()
	if len(args) > 0 && args[0].Kind() == reflect.Slice {
		element, err := elementType("phone", args)
		if err == nil && rolesOf(element).number < 0 {
			err = errors.New("phone needs a list whose elements have a field ending in Number")
		}
		return out, err
	}
	if len(args) == 0 || len(args) > 2 {
		return out, fmt.Errorf("the arguments do not fit; use %s", phoneUsage)
	}
	for _, arg := range args {
		if !textual(arg) {
			return out, fmt.Errorf("phone takes a text here, not %s: %s", plainType(arg.String()), phoneUsage)
		}
	}
	return out, nil
}

// rewritePhone passes the mapping's region to phone if the expression names none, and replaces the form for lists by a
// separate function.
func (e *expression) rewritePhone(node *ast.Node, args []ast.Node) {
	region := &ast.ConstantNode{Value: e.region}
	switch {
	case args[0].Type().Kind() == reflect.Slice:
		replaceBy(node, fnPhoneOf, args[0], args[1], &ast.ConstantNode{Value: rolesOf(args[0].Type().Elem())}, region)
	case len(args) == 1:
		replaceBy(node, "phone", args[0], region)
	default:
		if literal, ok := args[1].(*ast.StringNode); ok && !isRegion(literal.Value) {
			e.fail(literal.Location(), "%s", unknownRegion(literal.Value))
		}
		replaceBy(node, "phone", args...)
	}
}

// isRegion reports whether numbers can be read as those of a region.
func isRegion(code string) bool { return phonenumbers.GetCountryCodeForRegion(code) != 0 }

func unknownRegion(code string) string {
	if meant := country(code); isRegion(meant) {
		return fmt.Sprintf("unknown region %q; did you mean %q?", code, meant)
	}
	return fmt.Sprintf(`unknown region %q; write the two letters of a country, as in "GB"`, code)
}

// phone writes the number args[0], read as people of the region args[1] write
// it, as E.164 does.
func phone(m *meter, args []any) (any, error) {
	s, err := texts(args)
	if err != nil {
		return nil, err
	}
	return m.international(s[0], s[1]), m.spend(phoneSteps)
}

// phoneOf is phone for the list's element with the given type, with its country and area code; "" for none. args[2] are
// the list's roles, args[3] is the region.
func phoneOf(m *meter, args []any) (any, error) {
	r := args[2].(roles)
	element, ok := ofType(args, func(e reflect.Value) bool { return !blank(e.Field(r.number).String()) })
	if !ok {
		return "", nil
	}
	return m.international(r.wholeNumber(element), args[3].(string)), m.spend(phoneSteps)
}

// wholeNumber joins the parts of a number. A number with a country code needs no other part.
func (r roles) wholeNumber(element reflect.Value) string {
	number := strings.TrimSpace(element.Field(r.number).String())
	if strings.HasPrefix(number, "+") {
		return number
	}
	var parts []string
	if r.country >= 0 && !blank(element.Field(r.country).String()) {
		parts = append(parts, "+"+strings.TrimLeft(strings.TrimSpace(element.Field(r.country).String()), "+0"))
	}
	if r.area >= 0 && !blank(element.Field(r.area).String()) {
		parts = append(parts, strings.TrimSpace(element.Field(r.area).String()))
	}
	return strings.Join(append(parts, number), " ")
}

// WithoutRegion is the Misread.Function of phone numbers without a country code and without a region.
const WithoutRegion = "phone without a region"

// international writes a number in E.164, and reports if it does not understand it.
func (m *meter) international(s, region string) string {
	number, missed := readPhone(s, region)
	if missed != "" {
		m.missed(missed, s)
	}
	return number
}

// readPhone writes a number in E.164; of several numbers, the first valid one. Any other text is returned trimmed, so
// people can see it: a wrong number, a number of an unknown region, a number with a word or an extension. missed is
// then the Misread.Function for its count.
func readPhone(s, region string) (number, missed string) {
	parts := phoneParts(s)
	for _, part := range parts {
		if number, missed = readOnePhone(part, region); missed == "" {
			return number, ""
		}
	}
	if s = strings.TrimSpace(joinLines(s)); len(parts) == 1 || len(parts) > 1 && missed == WithoutRegion {
		s = parts[0] // without a region none is understood, and each is one
	}
	missed = cmp.Or(missed, "phone")
	return s, missed
}

// phoneLabel matches the kind of number written before it.
var phoneLabel = regexp.MustCompile(`(?i)(?:^|[\s,;|/])(?:phone|telephone|tele?fono?|tel|fon|mobile?|cell|work|office|home|main|handy|gsm|ph|m|t)\s*(?:#|no\.?|nr\.?)?\s*(?:\.:|[:.])\s*`)

// phoneParts splits a cell with several numbers, and removes the labels before them.
func phoneParts(s string) (parts []string) {
	if strings.ContainsFunc(s, unicode.IsLetter) && len(s) <= 2*maxPhone {
		s = phoneLabel.ReplaceAllString(s, "\n")
	}
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return isLineBreak(r) || r == ';' || r == '|' }) {
		if !blank(part) {
			parts = append(parts, strings.TrimSpace(part))
		}
	}
	return parts
}

// PhoneText returns the first number of a cell as it is written there, without a label.
func PhoneText(cell string) string {
	if parts := phoneParts(cell); len(parts) > 0 {
		return parts[0]
	}
	return ""
}

// readOnePhone is readPhone for a text with one number.
func readOnePhone(s, region string) (number, missed string) {
	if len(s) > maxPhone || strings.ContainsFunc(s, unicode.IsLetter) {
		return s, "phone"
	}
	if region == "" && !strings.HasPrefix(s, "+") {
		return s, WithoutRegion
	}
	n, err := phonenumbers.Parse(s, region)
	if err != nil || n.GetExtension() != "" || !isValid(n, region) {
		return s, "phone"
	}
	return phonenumbers.Format(n, phonenumbers.E164), ""
}

// isValid tries the region first: to find the region of a number takes as long
// as all the rest.
func isValid(n *phonenumbers.PhoneNumber, region string) bool {
	return phonenumbers.IsValidNumberForRegion(n, region) || phonenumbers.IsValidNumber(n)
}
