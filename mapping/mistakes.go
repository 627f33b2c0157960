package mapping

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// An operand of a draft: a word with its members, or a letter standing for a piece.
const (
	operand = `(#?\.?[\pL_][\pL\pN_.]*|[` + "\uE000-\uF8FF" + `])`
	numeral = `(-?\d+(?:\.\d+)?)`
)

// mistake is a frequent mistake of people used to spreadsheets, databases or other programs.
type mistake struct {
	written *regexp.Regexp // in a draft
	top     bool           // only outside of a function's arguments: a comma separates nothing there
	meant   any            // a replacement, or a function that returns it, and "" where nothing is wrong
	why     string
}

type meaning func(d *draft, m []string) string

func re(pattern string) *regexp.Regexp { return regexp.MustCompile(pattern) }

// mistakes are tried in this order. Few processes need them, so the patterns are compiled at the first use.
var mistakes = sync.OnceValue(func() []mistake {
	return []mistake{
		{re(`^\s*[=+]+\s*`), false, " ", "an expression does not begin with ="},
		{re(`[;,]\s*$`), true, " ", "nothing stands behind the end of an expression"},
		{re(`[–—−]`), false, "-", "minus is written -"},
		{re(`\s*([=<>!≠≥≤]+)\s*`), false, meaning(comparing), ""},

		// Words for operators.
		{re(operand + `\s+(?i:is\s+not|is|[!=]=)\s+(?i:null|nil|none|empty|blank|nothing|leer)\b`), false,
			meaning(comparedWithNothing), "a field that is missing is blank, never null; ask isBlank"},
		{re(`\s(?i:is\s+not|isn't|ist\s+nicht|ungleich)\s`), false, " != ", "different is written !="},
		{re(`\s(?i:is|equals|eq|ist|gleich)\s`), false, " == ", "equal is written =="},
		{re(operand + `\s+(not\s+|NOT\s+)?(?i:like|wie)\s+` + operand), false, meaning(like),
			"what a text begins, ends or is like is asked with startsWith, endsWith and contains"},
		{re(`\b(AND|And|UND|Und|und|ET|EN)\b`), false, "and", `"and" is written in small letters`},
		{re(`\b(OR|Or|ODER|Oder|oder|OU|OF)\b`), false, "or", `"or" is written in small letters`},
		{re(`\b(NOT|NICHT|nicht|NON)\b`), false, "not", `"not" is written in small letters`},
		{re(`\bIN\b`), false, "in", `"in" is written in small letters`},
		{re(`\s*&+\s*`), false, meaning(ampersand), ""},
		{re(`^\s*` + operand + `(?:\s*\|\|\s*` + operand + `)+\s*$`), false, meaning(pipes), ""},
		{re(operand + `\s+in\s+` + operand), false, meaning(inText), `in looks into a list: in ["…", "…"]`},
		{re(`\bnot\s+` + operand + `\s*(==|!=)`), false, meaning(notEqual),
			"not stands before a whole condition; different is written !="},
		{re(`^if\s+(.+?)\s+(?:then\s+)?` + operand + `\s+else\s+` + operand + `$`), true, "$1 ? $2 : $3",
			"one or the other is written condition ? a : b"},

		// Fields.
		{re(`(?:[\pL_][\pL\pN_]*!)?\$?\b([A-Z]{1,3})\$?(?:\d{1,7}\b|:\$?[A-Z]{1,3}\b)(?::\$?[A-Z]{1,3}\$?\d*)?`), false,
			meaning(cell), ""},
		{re(`[%<@$#*]\s*` + operand + `\s*[%>]?`), false, meaning(marked), byItsName},
		{re(`\b(?:row|record|this|fields?|columns?|csv|data)\.` + operand), false, meaning(prefixed), byItsName},

		// Numbers and dates.
		{re(`\b\d{4}-\d\d-\d\d\b`), false, meaning(dateText), "a date stands in quotes"},
		{re(`\b\d{1,2}\.\d{1,2}\.\d{4}\b`), false, meaning(dateText), "a date stands in quotes"},
		{re(`\b(\d{1,3}(?:\.\d{3})+),(\d+)\b`), true, meaning(germanNumber),
			"a number is written with a point before the decimals and nothing between thousands"},
		{re(`\b(\d{1,3}(?:[,'’]\d{3})+)(\.\d+)?\b`), true, meaning(grouped),
			"a number is written with a point before the decimals and nothing between thousands"},
		{re(`\b(\d+),(\d+)\b`), true, "$1.$2", "a number is written with a point before the decimals"},
		{re(`\b[1-9]\d{0,2}(?:\.\d{3})+\b`), false, meaning(thousand),
			"a number is written with a point before the decimals and nothing between thousands"},
		{re(`[€$£¥]\s*` + numeral + `|` + numeral + `\s*(?:[€$£¥]|EUR\b|USD\b|GBP\b|CHF\b)`), false, "$1$2",
			"a number has no currency"},
		{re(`\b(\d+(?:\.\d+)?)\s*%`), false, meaning(perCent), "% is not used behind a number"},

		// Values of another kind than they are compared with.
		{re(operand + `\s*(==|!=)\s*(?i:(true|wahr|vrai|yes|ja|false|falsch|faux|no|nein))\b`), false,
			meaning(comparedWithFlag), "what a text says is compared with a text in quotes"},
		{re(`^(?i:(true|wahr|vrai|yes|ja|on|all|1)|(false|falsch|faux|no|nein|off|none|0))$`), true, meaning(loneFlag),
			"write true or false, in small letters"},
		{re(`\b(?:TRUE|True|WAHR|VRAI)\b`), false, "true", "true is written in small letters"},
		{re(`\b(?:FALSE|False|FALSCH|FAUX)\b`), false, "false", "false is written in small letters"},
		{re(operand + `\s*(<=?|>=?|==|!=)\s*` + operand), false, meaning(compared), ""},
		{re(operand + `\s*(<=?|>=?|==|!=)\s*` + numeral), false, meaning(comparedWithNumber),
			"a text is made a number before it is compared with one"},
		{re(operand + `((?:\s*==\s*` + operand + `\s+(?:or|\|\|)\s+)(?:` + operand + `(?:\s+(?:or|\|\|)\s+)?)+)$`), true,
			meaning(oneOf), "to be one of several is written in [ ]"},
		{re(operand + `\s*!=\s*` + operand + `\s+(?:or|\|\|)\s+` + operand + `\s*!=\s*` + operand), false, meaning(noneOf),
			"or makes this true for every record, as nothing is equal to both"},
		{re(operand + `\s*==\s*` + operand + `\s+(?:and|&&)\s+` + operand + `\s*==\s*` + operand), false, meaning(eitherOf),
			"and makes this false for every record, as nothing is equal to both"},
		{re(operand + `\s*\?\?\s*` + operand), false, meaning(otherwise),
			"a field that is missing is blank, never null; coalesce gives the first that is not blank"},
		{re(operand + `\s*(==|!=)\s*(?:nil|null|NULL|None)\b|\b(?:nil|null|NULL|None)\s*(==|!=)\s*` + operand), false,
			meaning(comparedWithNil), "a field that is missing is blank, never null; ask isBlank"},
		{re(`\b(?:null|NULL|Null|None)\b`), false, `""`, `nothing is written ""`},
		{re(operand + `\s*\+\s*(-?\d+)\b`), false, meaning(plusNumber), "what is joined with a text is a text, in quotes"},
		{re(`^\s*` + numeral + `\s*$`), true, meaning(lone),
			"a fixed text stands in quotes, and YAML needs other quotes around it"},

		// Operands beside each other, and single words.
		{re(`^` + operand + `$`), true, meaning(asCondition), ""},
		{re(`^` + operand + `\s*,?\s+` + operand + `$`), true, meaning(beside), ""},
		{re(`^\s*#?[\pL_][\pL\pN_ ]*$`), true, meaning(unknownWord),
			"a fixed text stands in quotes, and YAML needs other quotes around it"},
		{re(`(==|!=)\s*([\pL_][\pL\pN_]*)`), false, meaning(unknownValue), "a fixed text stands in quotes"},
		{re(`[\pL_][\pL\pN_]*`), false, meaning(misspelt), ""},
	}
})

// operators removes the mistakes from a part of a draft without brackets.
func (d *draft) operators(text string, top bool) string {
	for _, m := range mistakes() {
		if m.top && !top {
			continue
		}
		text = d.replaced(text, m.written, func(found []string) (string, string) {
			switch meant := m.meant.(type) {
			case meaning:
				return meant(d, found), m.why
			default:
				return string(m.written.ExpandString(nil, meant.(string), found[0], m.written.FindStringSubmatchIndex(found[0]))),
					m.why
			}
		})
	}
	return strings.TrimSpace(text)
}

func comparedWithNothing(d *draft, m []string) string {
	if !d.isOperand(m[1]) {
		return ""
	}
	return asking(m[1], strings.Contains(m[0], "!=") || regexp.MustCompile(`(?i)is\s+not`).MatchString(m[0]))
}

func asking(what string, not bool) string {
	if not {
		return "not isBlank(" + what + ")"
	}
	return "isBlank(" + what + ")"
}

func comparedWithNil(d *draft, m []string) string {
	what := m[1] + m[4]
	if !d.isOperand(what) {
		return ""
	}
	return asking(what, m[2]+m[3] == "!=")
}

// like reads the % of a database. Inside a text only a pattern could replace it, and _ may be literal, so there is no
// guess.
func like(d *draft, m []string) string {
	inside, ok := d.fixed(m[3])
	if !ok {
		return ""
	}
	trimmed := strings.Trim(inside, "%*")
	if strings.ContainsAny(trimmed, `%*_\`) {
		pattern := strings.NewReplacer("%", ".*", `\*`, ".*", "_", ".").Replace(regexp.QuoteMeta(inside))
		d.refuse(fmt.Sprintf("LIKE takes %% for any letters and _ for any one; write %s matches %s, or contains where they are meant as they are",
			d.whole(m[1]), literal("^"+pattern+"$")), m[0])
		return ""
	}
	begins, ends := strings.HasSuffix(inside, "%") || strings.HasSuffix(inside, "*"), strings.HasPrefix(inside, "%") ||
		strings.HasPrefix(inside, "*")
	operator := map[[2]bool]string{{true, false}: "startsWith", {false, true}: "endsWith", {true, true}: "contains",
		{false, false}: "=="}[[2]bool{begins, ends}]
	if m[2] != "" {
		operator = "not " + operator
	}
	return m[1] + " " + operator + " " + d.put(literal(trimmed))
}

// fixed returns the text of a quoted operand.
func (d *draft) fixed(of string) (inside string, ok bool) {
	written := d.whole(of)
	if len(written) < 2 || !strings.ContainsRune("\"'`", rune(written[0])) || quotedText.FindString(written) != written {
		return "", false
	}
	return strings.ReplaceAll(written[1:len(written)-1], `\"`, `"`), true
}

// comparisons are the common spellings of the operators.
var comparisons = map[string]string{
	"=": "==", "===": "==", "!==": "!=", "<>": "!=", "=!": "!=", "≠": "!=", "=>": ">=", "≥": ">=", "=<": "<=", "≤": "<=",
}

func comparing(d *draft, m []string) string {
	meant, ok := comparisons[m[1]]
	if !ok {
		return ""
	}
	d.note(map[string]string{"==": "equal", "!=": "different", ">=": "at least",
		"<=": "at most"}[meant]+" is written "+meant, m[1])
	return " " + meant + " "
}

func ampersand(d *draft, m []string) string {
	switch {
	case strings.TrimSpace(m[0]) != "&":
		return ""
	case d.want == wantFlag:
		d.note("conditions are joined with and, not with &", "&")
		return " and "
	}
	d.note("texts are joined with +, not with &", "&")
	return " + "
}

// pipes are "or else" to some and join texts for others.
func pipes(d *draft, m []string) string {
	if d.want != wantText {
		return ""
	}
	var texts []string
	for one := range strings.SplitSeq(m[0], "||") {
		one = strings.TrimSpace(one)
		if _, fixed := d.fixed(one); !fixed && !d.isText(one) && !givesText(d.whole(one)) {
			return ""
		}
		texts = append(texts, d.whole(one))
	}
	d.refuse(fmt.Sprintf("|| stands between conditions; write coalesce(%s) for the first that is not blank, or %s to join them",
		strings.Join(texts, ", "), strings.Join(texts, " + ")), m[0])
	return ""
}

// givesText reports whether a piece is a function returning a text.
func givesText(piece string) bool {
	name, _, _ := strings.Cut(piece, "(")
	f := functions[name]
	return len(f.types) > 0 && reflect.TypeOf(f.types[0]).Elem().Out(0).Kind() == reflect.String
}

func inText(d *draft, m []string) string {
	inside, ok := d.fixed(m[2])
	if !ok {
		return ""
	}
	var out []string
	for one := range strings.FieldsFuncSeq(inside, func(r rune) bool { return r == ',' || r == ';' || r == '|' }) {
		out = append(out, literal(strings.TrimSpace(one)))
	}
	return m[1] + " in " + d.put("["+strings.Join(out, ", ")+"]")
}

func notEqual(_ *draft, m []string) string {
	return m[1] + " " + map[string]string{"==": "!=", "!=": "=="}[m[2]]
}

// cell is a field by the letter of its column.
func cell(d *draft, m []string) string {
	if _, known := d.types[m[0]]; known {
		return ""
	}
	number := 0
	for _, r := range m[1] {
		number = number*26 + int(r-'A') + 1
	}
	if d.kind != "csv" || number > len(d.columns) {
		if d.kind == "csv" {
			d.note(fmt.Sprintf("the file has no column %s", m[1]), m[0])
		}
		return ""
	}
	name := d.columns[number-1]
	d.note(fmt.Sprintf("there are no cells here; column %s of the file is %s", m[1], Written(name)), m[0])
	return d.put(Written(name))
}

// example is a field to show how one is written.
func (e *expression) example() string {
	for _, name := range e.columns {
		if Reserved(name) {
			return name
		}
	}
	return e.columns[0]
}

func marked(d *draft, m []string) string {
	if !d.isField(m[1]) {
		return ""
	}
	return m[1]
}

func prefixed(d *draft, m []string) string {
	if name := d.fieldCalled(m[1]); name != "" {
		return d.put(Written(name))
	}
	return marked(d, m)
}

func dateText(d *draft, m []string) string { return d.put(literal(m[0])) }

func germanNumber(_ *draft, m []string) string {
	return strings.ReplaceAll(m[1], ".", "") + "." + m[2]
}

func grouped(_ *draft, m []string) string {
	whole, decimals := m[0], ""
	if len(m) > 2 {
		whole, decimals = m[1], m[2]
	}
	return strings.NewReplacer(",", "", "'", "", "’", "", ".", "").Replace(whole) + decimals
}

// thousand is a number with points between its thousands. With one point it may
// be a number with decimals as well.
func thousand(d *draft, m []string) string {
	if thousands.MatchString(m[0]) {
		d.refuse(oneOrThousand(m[0]), m[0])
		return ""
	}
	return grouped(d, m)
}

func perCent(_ *draft, m []string) string {
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return ""
	}
	return strconv.FormatFloat(n/100, 'f', -1, 64)
}

func comparedWithFlag(d *draft, m []string) string {
	if !d.isText(m[1]) {
		return m[1] + " " + m[2] + " " + map[bool]string{true: "true", false: "false"}[isTrue(m[3])]
	}
	return m[1] + " " + m[2] + " " + d.put(literal(m[3]))
}

func isTrue(word string) bool {
	switch strings.ToLower(word) {
	case "true", "wahr", "vrai", "yes", "ja":
		return true
	}
	return false
}

func loneFlag(d *draft, m []string) string {
	switch {
	case d.want != wantFlag || d.isField(m[0]):
		return ""
	case m[1] != "":
		return "true"
	}
	return "false"
}

// isText reports whether an operand is a text field.
func (d *draft) isText(of string) bool {
	if !d.isField(of) {
		return false
	}
	name := d.whole(of)
	if quoted := quotedText.FindString(name); quoted != "" {
		name = quoted[1 : len(quoted)-1]
	}
	t, ok := d.types[name]
	return ok && t.Kind().String() == "string"
}

var orBetween = regexp.MustCompile(`\s+(?:or|\|\|)\s+|\s*==\s*`)

// oneOf is a == b or c.
func oneOf(d *draft, m []string) string {
	var out []string
	for value := range strings.SplitSeq(orBetween.ReplaceAllString(strings.TrimSpace(m[2]), "\n"), "\n") {
		if value = strings.TrimSpace(value); value == "" {
			continue
		}
		if _, ok := d.fixed(value); !ok {
			return ""
		}
		out = append(out, value)
	}
	return m[1] + " in " + d.put("["+strings.Join(out, ", ")+"]")
}

func noneOf(d *draft, m []string) string   { return bothOf(d, m, " not in ") }
func eitherOf(d *draft, m []string) string { return bothOf(d, m, " in ") }

func bothOf(d *draft, m []string, operator string) string {
	a, isFixed := d.fixed(m[2])
	if b, isFixedToo := d.fixed(m[4]); d.whole(m[1]) != d.whole(m[3]) || !isFixed || !isFixedToo || a == b {
		return ""
	}
	return m[1] + operator + d.put("["+m[2]+", "+m[4]+"]")
}

func otherwise(d *draft, m []string) string { return d.put("coalesce(" + m[1] + ", " + m[2] + ")") }

func plusNumber(d *draft, m []string) string {
	if d.want != wantText || !d.isText(m[1]) {
		return ""
	}
	return m[1] + " + " + d.put(literal(m[2]))
}

func lone(d *draft, m []string) string {
	if d.want != wantText || !d.isWhole(m[1]) {
		return ""
	}
	return d.fixedText(m[1])
}
