package mapping

import (
	"regexp"
	"slices"
	"strings"
)

// fillers are the words of programs for a missing value, in exact spelling. A person may be called Null or None, so
// other spellings count as values.
var fillers = []string{
	"NULL", "null", "(null)", "(NULL)", "<null>", "<NULL>", "[NULL]", `\N`, "NIL", "nil", "None", "NONE", "none", "*None",
	"<none>", "(none)", "(None)", "(blank)", "(empty)", "(leer)", "(vide)", "(vuoto)", "(leeg)",
	"NaN", "nan", "NaT", "<NA>", "undefined", "N/A", "n/a", "#N/A", "#NV", "#REF!", "#VALUE!", "#WERT!", "#VALEUR!",
	"#NAME?", "#NUM!", "#NULL!", "#DIV/0!", "#BEZUG!",
}

var (
	quotedFormula = regexp.MustCompile(`^="((?:[^"]|"")*)"$`)
	guardedNumber = regexp.MustCompile(`^'[-+(]?[0-9][-0-9 ()/.]*$`)
	ruledLine     = regexp.MustCompile(`^[-=_]{2,}$`)
)

// Value returns the value of a cell. It removes ="…" and the apostrophe, used by programs to keep a spreadsheet from
// changing digits. It returns "" for a filler word and for a ruled line.
func Value(cell string) string {
	s := strings.TrimSpace(cell)
	if s == "" {
		return cell
	}
	if m := quotedFormula.FindStringSubmatch(s); m != nil {
		return Value(strings.ReplaceAll(m[1], `""`, `"`))
	}
	switch {
	case guardedNumber.MatchString(s):
		return s[1:]
	case slices.Contains(fillers, s), ruledLine.MatchString(s):
		return ""
	}
	return cell
}
