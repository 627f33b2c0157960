package mapping

import (
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// fixedText is a constant text, quoted if the expression may be the same for every customer. Elsewhere it is an unknown
// field.
func (d *draft) fixedText(written string) string {
	if !d.mayBeFixed() || !d.isWhole(written) {
		d.refuse(fmt.Sprintf("unknown field %q; %s", written, d.suggestField(written)), written)
		return ""
	}
	return d.put(literal(written))
}

// isWhole reports whether a text is the whole expression.
func (e *expression) isWhole(written string) bool { return strings.Trim(e.text, " =+,;") == written }

// mayBeFixed reports whether one text for all customers makes sense at the place
// of the expression.
func (e *expression) mayBeFixed() bool {
	isCountry := len(e.path) > 2 && e.path[1] == "addresses" && e.path[len(e.path)-1] == "country"
	return isCountry || e.path[0] == "externalData" || e.path.String() == "mandate.language"
}

func asCondition(d *draft, m []string) string {
	if d.want != wantFlag || !d.isText(m[1]) {
		return ""
	}
	return asking(m[1], true)
}

// beside is two fields, or a function and a field, with nothing between them.
func beside(d *draft, m []string) string {
	_, isCall := functions[m[1]]
	switch {
	case isCall && d.isOperand(m[2]):
		d.note(fmt.Sprintf("a function takes what it works on in brackets: %s(…)", m[1]), m[0])
		return d.put(m[1] + "(" + m[2] + ")")
	case d.want == wantText && d.isOperand(m[1]) && d.isOperand(m[2]):
		d.note("what stands beside each other is joined with +", m[0])
		return m[1] + " + " + d.put(`" "`) + " + " + m[2]
	}
	return ""
}

// isUnknown reports whether a word means nothing here and resembles no field.
func (d *draft) isUnknown(word string) bool {
	if isTaken(word) || len(word) == 0 || word == "true" || word == "false" || word == "nil" {
		return false
	}
	return d.nearField(word) == ""
}

func (d *draft) nearField(word string) string {
	var names []string
	for name := range d.types {
		names = append(names, name)
	}
	return connector.Nearest(word, sorted(names))
}

func unknownWord(d *draft, m []string) string {
	if d.want != wantText || !d.isUnknown(strings.TrimSpace(m[0])) {
		return ""
	}
	for word := range strings.FieldsSeq(m[0]) {
		if !d.isUnknown(word) && strings.Contains(m[0], " ") {
			return ""
		}
	}
	return d.fixedText(strings.TrimSpace(m[0]))
}

func unknownValue(d *draft, m []string) string {
	if !d.isUnknown(m[2]) {
		return ""
	}
	return m[1] + " " + d.put(literal(m[2]))
}

// languageWords are the reserved words of the language.
var languageWords = strings.Fields("true false nil and or not in matches contains startsWith endsWith let")

// misspelt is a field in the wrong case or with a slip. Its message is there
// already.
func misspelt(d *draft, m []string) string {
	if isTaken(m[0]) || d.isField(m[0]) || slices.Contains(languageWords, m[0]) {
		return ""
	}
	if near := d.nearField(m[0]); near != "" {
		return d.put(Written(near))
	}
	return ""
}
