package mapping

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// The hidden functions implement operators and other forms of functions: they charge for their work, bound their
// results, and return a blank for missing values. Expressions cannot contain their names.
const (
	fnPlus      = "plus "
	fnContains  = "contains "
	fnMatches   = "matches "
	fnAt        = "at "
	fnLetters   = "letters "
	fnEqual     = "equal "
	fnDiffer    = "differ "
	fnIn        = "in "
	fnLen       = "len "
	fnStep      = "step "
	fnPart      = "part "
	fnPhoneOf   = "phone of "
	fnCondition = "condition "
	varMeter    = "meter "
)

var hidden = map[string]function{
	fnPlus:      {call: plus},
	fnContains:  {call: contains},
	fnMatches:   {call: matches},
	fnAt:        {call: at},
	fnLetters:   {call: letters},
	fnEqual:     {call: func(_ *meter, args []any) (any, error) { return runtime.Equal(args[0], args[1]), nil }},
	fnDiffer:    {call: func(_ *meter, args []any) (any, error) { return !runtime.Equal(args[0], args[1]), nil }},
	fnIn:        {call: func(_ *meter, args []any) (any, error) { return runtime.In(args[0], args[1]), nil }},
	fnLen:       {call: func(_ *meter, args []any) (any, error) { return builtin.Len(args[0]), nil }},
	fnStep:      {call: func(m *meter, args []any) (any, error) { return nil, m.spend(args[0].(int)) }},
	fnPhoneOf:   {call: phoneOf},
	fnCondition: {types: []any{new(func(*meter, flagValue) bool)}, call: condition},
	fnPart:      {call: func(m *meter, args []any) (any, error) { m.took(args[0].(int)); return nil, nil }},
}

// pattern is a compiled regular expression (RE2), and how many steps it has.
type pattern struct {
	re    *regexp.Regexp
	steps int
}

// matches charges before it starts: its time is the text's length times the
// pattern's.
func matches(m *meter, args []any) (any, error) {
	s, err := text(args[0])
	if err != nil {
		return nil, err
	}
	p := args[1].(pattern)
	if err := m.spend(len(s) * p.steps / 8); err != nil {
		return nil, err
	}
	return p.re.MatchString(s), nil
}

func contains(_ *meter, args []any) (any, error) {
	s, err := texts(args)
	if err != nil {
		return nil, err
	}
	return strings.Contains(s[0], s[1]), nil
}

func plus(_ *meter, args []any) (any, error) {
	s, err := texts(args)
	if err != nil {
		return nil, err
	}
	if err := bounded(len(s[0]) + len(s[1])); err != nil {
		return nil, err
	}
	return s[0] + s[1], nil
}

// at picks from a list by number, or from a block by name; what is not there is
// the blank in args[2].
func at(_ *meter, args []any) (any, error) {
	from := reflect.ValueOf(args[0])
	switch by := args[1].(type) {
	case int:
		if from.Kind() != reflect.Slice {
			break
		}
		if by < 0 {
			by += from.Len()
		}
		if by < 0 || by >= from.Len() {
			return args[2], nil
		}
		return from.Index(by).Interface(), nil
	case string:
		if from.Kind() != reflect.Map {
			break
		}
		if v := from.MapIndex(reflect.ValueOf(by)); v.IsValid() {
			return v.Interface(), nil
		}
		return args[2], nil
	}
	return nil, sentence("[ ] is used on something that is no list")
}

// letters is [from:to] of a text or a list. It counts the letters of a text: the engine would count bytes and split
// letters.
func letters(_ *meter, args []any) (any, error) {
	switch from := args[0].(type) {
	case nil:
		return "", nil
	case string:
		return string(runtime.Slice([]rune(from), args[1], args[2]).([]rune)), nil
	default:
		return runtime.Slice(from, args[1], args[2]), nil
	}
}
