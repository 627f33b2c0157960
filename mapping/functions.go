package mapping

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/expr-lang/expr/builtin"

	"payersync/connector"
)

// maxText is the maximum length in bytes of the text from a field or a function.
const maxText = 32 << 10

// meter bounds the work for one record, in steps. A step takes some tens of nanoseconds. The bound does not depend on a
// clock, so the same record always has the same result. meter also reports the taken parts of rules to watchers.
type meter struct {
	left   int
	part   func(number int)             // nil when nobody watches
	misses func(function, value string) // a text was not understood; nil when nobody watches
}

// maxSteps is what one record may spend: far more than any real mapping needs,
// and reached within milliseconds.
const maxSteps = 50_000

func (m *meter) spend(steps int) error {
	if m.left -= steps; m.left < 0 {
		return sentence("the expressions do too much work for this record")
	}
	return nil
}

func (m *meter) took(part int) {
	if m.part != nil {
		m.part(part)
	}
}

// missed reports a text not understood by a function to watchers.
func (m *meter) missed(function, value string) {
	if m.misses != nil && !blank(value) {
		m.misses(function, value)
	}
}

// sentence is an error in plain words, without personal values.
type sentence string

func (s sentence) Error() string { return string(s) }

// function is a function of mapping files.
type function struct {
	usage  string // how it is called, for messages
	types  []any  // Go signatures
	result func(args []reflect.Type) (reflect.Type, error)
	call   func(m *meter, args []any) (any, error)
}

// functions are the functions of mapping files; mapping/README.md shows each one with a tested example.
var functions = map[string]function{
	"trim":       onText("trim(text)", strings.TrimSpace),
	"lower":      onText("lower(text)", strings.ToLower),
	"upper":      onText("upper(text)", strings.ToUpper),
	"title":      onText("title(text)", title),
	"digits":     onText("digits(text)", digits),
	"postcode":   reading("postcode", postcode),
	"country":    reading("country", readCountry),
	"isBlank":    onText("isBlank(text)", blank),
	"isEmail":    onText("isEmail(text)", func(s string) bool { return validEmail(connector.TrimEmail(s)) }),
	"firstEmail": {usage: "firstEmail(text)", types: []any{new(func(string) string)}, call: firstEmail},
	"emails":     {usage: "emails(text)", types: []any{new(func(string) []string)}, call: emails},
	"coalesce":   {usage: "coalesce(text, text, …)", types: []any{new(func(...string) string)}, call: coalesce},
	"default":    {usage: "default(text, text)", types: []any{new(func(string, string) string)}, call: coalesce},
	"join": {usage: "join(list, separator)",
		types: []any{new(func([]any, string) string), new(func([]string, string) string)}, call: join},
	"split": {usage: "split(text, separator)", types: []any{new(func(string, string) []string)}, call: split},
	"replace": {usage: "replace(text, old, new)", types: []any{new(func(string, string, string) string)},
		call: replace},
	"truncate": {usage: "truncate(text, length)", types: []any{new(func(string, int) string)}, call: truncate},
	"date": {usage: "date(text) or date(text, form)",
		types: []any{new(func(string) string), new(func(string, string) string)}, call: date},
	"number": {usage: "number(text) or number(text, decimal sign)",
		types: []any{new(func(string) float64), new(func(string, string) float64)}, call: number},
	"phone":   {usage: phoneUsage, result: phoneResult, call: phone},
	"address": {usage: "address(list, type)", result: addressResult, call: address},
	"person": {usage: "person(name, email, phone)", call: newPerson, types: []any{
		new(func(string) map[string]any), new(func(string, string) map[string]any),
		new(func(string, string, string) map[string]any)}},
}

// Functions returns the usage of each function of mapping files, sorted.
func Functions() []string {
	var out []string
	for _, f := range functions {
		out = append(out, f.usage)
	}
	slices.Sort(out)
	return out
}

// onText makes a function of one text.
func onText[R string | bool](usage string, f func(string) R) function {
	return function{usage: usage, types: []any{new(func(string) R)}, call: func(_ *meter, args []any) (any, error) {
		s, err := text(args[0])
		if err != nil {
			return nil, err
		}
		return f(s), nil
	}}
}

// reading makes a function to parse a text, and to report texts not understood.
func reading(name string, read func(string) (string, bool)) function {
	return function{usage: name + "(text)", types: []any{new(func(string) string)},
		call: func(m *meter, args []any) (any, error) {
			s, err := text(args[0])
			if err != nil {
				return nil, err
			}
			out, understood := read(s)
			if !understood {
				m.missed(name, s)
			}
			return out, nil
		}}
}

// register returns the function as the expression engine wants it: it charges
// for the texts it is given and gives, and bounds their size.
func (f function) register(name string) *builtin.Function {
	out := &builtin.Function{Name: name, Validate: f.result}
	out.Types = append(out.Types, connector.Map(f.types, func(t any) reflect.Type { return reflect.TypeOf(t).Elem() })...)
	out.Func = func(args ...any) (any, error) {
		m := args[0].(*meter)
		steps := 1
		for _, arg := range args[1:] {
			steps += size(arg) / 16
		}
		if err := m.spend(steps); err != nil {
			return nil, err
		}
		return f.call(m, args[1:])
	}
	return out
}

// size is about how much there is to look at in a value.
func size(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []string:
		return 16 * len(v)
	case []any:
		return 16 * len(v)
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Slice {
		return 16 * r.Len()
	}
	return 0
}

// text returns v as a text; nothing is the blank text.
func text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case nil:
		return "", nil
	}
	return "", sentence("a text is needed where there is something else")
}

func texts(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		out, _ := v.([]string)
		return out, nil
	}
	out := make([]string, len(list))
	for i, element := range list {
		s, err := text(element)
		if err != nil {
			return nil, err
		}
		out[i] = s
	}
	return out, nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// bounded refuses texts longer than maxText before they are built.
func bounded(size int) error {
	if size > maxText {
		return sentence(fmt.Sprintf("a text grows beyond %d bytes", maxText))
	}
	return nil
}

// coalesce returns the first nonblank text. The last argument is the number of the first part.
func coalesce(m *meter, args []any) (any, error) {
	texts, first := args[:len(args)-1], args[len(args)-1].(int)
	for i, arg := range texts {
		s, err := text(arg)
		if err != nil {
			return nil, err
		}
		if !blank(s) {
			m.took(first + i)
			return s, nil
		}
	}
	return "", nil
}

func join(_ *meter, args []any) (any, error) {
	list, err := texts(args[0])
	if err != nil {
		return nil, err
	}
	separator, err := text(args[1])
	if err != nil {
		return nil, err
	}
	var parts []string
	size := 0
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			parts = append(parts, s)
			size += len(s) + len(separator)
		}
	}
	if err := bounded(size); err != nil {
		return nil, err
	}
	return strings.Join(parts, separator), nil
}

func split(m *meter, args []any) (any, error) {
	s, err := texts(args)
	if err != nil {
		return nil, err
	}
	if s[1] == "" {
		return []string{s[0]}, nil
	}
	out := strings.Split(s[0], s[1])
	return out, m.spend(len(out))
}

func replace(_ *meter, args []any) (any, error) {
	s, err := texts(args)
	if err != nil {
		return nil, err
	}
	if s[1] == "" {
		return s[0], nil
	}
	if err := bounded(len(s[0]) + strings.Count(s[0], s[1])*(len(s[2])-len(s[1]))); err != nil {
		return nil, err
	}
	return strings.ReplaceAll(s[0], s[1], s[2]), nil
}

func truncate(_ *meter, args []any) (any, error) {
	s, err := text(args[0])
	if err != nil {
		return nil, err
	}
	n, ok := args[1].(int)
	if !ok || n < 0 {
		return nil, sentence("truncate needs a length of 0 or more")
	}
	for i := range s {
		if n == 0 {
			return s[:i], nil
		}
		n--
	}
	return s, nil
}

// newPerson gives a block for the list of people.
func newPerson(_ *meter, args []any) (any, error) {
	values, err := texts(args)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for i, value := range values {
		out[[]string{"name", "email", "phone"}[i]] = value
	}
	return out, nil
}

// title writes the first letter of each word large and the others small. A
// letter behind an apostrophe begins a word only if more letters follow:
// O'Brien, but Baker's.
func title(s string) string {
	r := []rune(strings.ToLower(s))
	for i := range r {
		if begins(r, i) {
			r[i] = unicode.ToTitle(r[i])
		}
	}
	return string(r)
}

func begins(r []rune, i int) bool {
	if i == 0 {
		return true
	}
	if r[i-1] == '\'' || r[i-1] == '’' {
		return i+1 < len(r) && unicode.IsLetter(r[i+1])
	}
	return !unicode.IsLetter(r[i-1]) && !unicode.IsDigit(r[i-1]) && !unicode.IsMark(r[i-1])
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, s)
}

var ukPostcode = regexp.MustCompile(`^[A-Z]{1,2}[0-9][0-9A-Z]?[0-9][A-Z]{2}$`)

// maxPostcode is the maximum length in bytes of a text to parse as a postcode.
const maxPostcode = 40

// postcode writes a UK postcode as the post office does, large and with one
// space, and says whether it is one. Anything else is returned trimmed.
func postcode(s string) (string, bool) {
	if s = strings.TrimSpace(s); len(s) > maxPostcode {
		return s, false
	}
	code := strings.ToUpper(strings.Join(strings.Fields(s), ""))
	if !ukPostcode.MatchString(code) {
		return s, false
	}
	return code[:len(code)-3] + " " + code[len(code)-3:], true
}
