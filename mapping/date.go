package mapping

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
)

// maxDate is the maximum length in bytes of a text to parse as a date.
const maxDate = 64

// dateForm is a form of dates in the admin's words, and as the standard library
// wants it.
type dateForm struct{ words, layout string }

// isoDate is the default input form of date, and its output form.
var isoDate = dateForm{"YYYY-MM-DD", time.DateOnly}

// dateParts are the words of a form; a form has one of each row. Two-digit years are excluded, because the century
// would be a guess.
var dateParts = []map[string]string{
	{"YYYY": "2006"},
	{"MMMM": "January", "MMM": "Jan", "MM": "01", "M": "1"},
	{"DD": "02", "D": "2"},
}

var (
	dateWord    = regexp.MustCompile(`\pL+`)
	dateBetween = regexp.MustCompile(`^[ /.,\-]*$`)
	timeOfDay   = regexp.MustCompile(`(?:T| +)\d{1,2}:\d\d.*$`)
)

// newDateForm reads a form such as "DD/MM/YYYY", in large letters or small.
func newDateForm(words string) (dateForm, bool) {
	words = strings.ToUpper(words)
	found := dateWord.FindAllString(words, -1)
	if len(found) != len(dateParts) || !dateBetween.MatchString(dateWord.ReplaceAllString(words, "")) {
		return dateForm{}, false
	}
	layout := words
	for _, part := range dateParts {
		i := slices.IndexFunc(found, func(word string) bool { return part[word] != "" })
		if i < 0 {
			return dateForm{}, false
		}
		layout = strings.Replace(layout, found[i], part[found[i]], 1)
	}
	return dateForm{words, layout}, true
}

// rewriteDate parses the form at load time.
func (e *expression) rewriteDate(node *ast.Node, args []ast.Node) {
	form := isoDate
	if len(args) == 2 {
		literal, ok := args[1].(*ast.StringNode)
		if ok {
			form, ok = newDateForm(literal.Value)
		}
		if !ok {
			e.fail(args[1].Location(),
				`the form of a date is written in quotes, with YYYY, one of M, MM, MMM, MMMM and one of D, DD in it, as in "DD/MM/YYYY"`)
		}
	}
	replaceBy(node, "date", args[0], &ast.ConstantNode{Value: form})
}

// date gives a date in the form args[1], with or without a time of day behind
// it, as YYYY-MM-DD.
func date(m *meter, args []any) (any, error) {
	s, err := text(args[0])
	if err != nil || blank(s) {
		return "", err
	}
	form := args[1].(dateForm)
	if len(s) <= maxDate {
		if t, err := time.Parse(form.layout, timeOfDay.ReplaceAllString(strings.TrimSpace(s), "")); err == nil {
			return t.Format(isoDate.layout), nil
		}
	}
	m.missed("date", s)
	return nil, sentence(fmt.Sprintf("a text is no date of the form %s", form.words))
}
