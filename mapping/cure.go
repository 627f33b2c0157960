package mapping

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"payersync/connector"
	"payersync/mapping/strict"
)

// A draft is a faulty expression during its repair: the mistakes of the table are removed one after the other. The
// result is proposed only if it compiles, so the table may guess.
//
// In the draft, one letter stands for each quoted text, each field with an unusual name, and each bracket, from the
// inside out. The table therefore needs no second parser: it sees operands and the text between them.
type draft struct {
	*expression
	text   string
	pieces []string // the meanings of the letters; a piece may hold letters of earlier ones
	whys   []string // the mistakes, each once
	from   int      // the position of the first one in the expression, in letters; -1 if unknown
	width  int
	dead   bool // there is no one way to write it
}

// firstPiece is the letter of the first piece. It and those behind it are for
// private use: no expression has them.
const firstPiece = '\uE000'

// cured returns the problems of a faulty expression, with the correct text if known.
func (e *expression) cured(problems []strict.Problem) []strict.Problem {
	node := e.doc.Node(e.path)
	if strings.ContainsFunc(e.text, isPiece) || strings.HasPrefix(strings.TrimSpace(e.text), "let ") ||
		len(e.types) == 0 || node == nil || node.LineComment != "" {
		return problems
	}
	d, instead := e.drafted()
	if instead == "" && (len(e.misquoted) > 0 || e.fillsIn) {
		d, instead = e.drafted() // knowing the mistakes of its first draft
	}
	if instead == "" && !d.dead {
		return problems
	}
	if len(d.whys) > 0 {
		problems = problems[:1]
		if d.from >= 0 {
			problems[0] = e.doc.TextProblem(e.path, d.from, d.width, "")
		}
		problems[0].Message = strings.Join(d.whys, "; ")
	}
	if instead == "" {
		return problems
	}
	line := e.doc.Instead(e.path, instead)
	for i := range problems {
		if problems[i].Instead = line; line == "" { // it stands on several lines
			problems[i].Message += "; write " + instead
		}
	}
	return problems
}

// drafted returns a draft without the known mistakes, and the corrected expression; "" if this does not compile either.
func (e *expression) drafted() (*draft, string) {
	d := &draft{expression: e, text: e.text, from: -1}
	d.mend()
	return d, d.compiled()
}

// compiled returns the corrected expression, and "" if it does not compile either.
func (d *draft) compiled() string {
	text := d.whole(d.text)
	if d.dead || text == strings.TrimSpace(d.expression.text) {
		return ""
	}
	scratch := newScratch(d.compiling)
	again := &expression{compiling: scratch, path: d.path, text: text, want: d.want, withCustomer: d.withCustomer}
	if again.compile() == nil {
		d.misquoted, d.fillsIn = again.misquoted, again.fillsIn
		return ""
	}
	return text
}

// newScratch returns a compiling with discarded findings.
func newScratch(c *compiling) *compiling {
	return &compiling{doc: c.doc, kind: c.kind, columns: c.columns, types: c.types, region: c.region,
		used: map[string]bool{}}
}

func isPiece(r rune) bool { return r >= firstPiece && r <= '\uF8FF' }

// put makes one letter of a piece of the expression.
func (d *draft) put(piece string) string {
	if len(d.pieces) > '\uF8FF'-firstPiece {
		return piece
	}
	d.pieces = append(d.pieces, piece)
	return string(firstPiece + rune(len(d.pieces)) - 1) //nolint:gosec // bounded above
}

// whole returns a text of the draft with its pieces in place.
func (d *draft) whole(text string) string {
	for strings.ContainsFunc(text, isPiece) {
		var out strings.Builder
		for _, r := range text {
			if isPiece(r) {
				out.WriteString(d.pieces[r-firstPiece])
			} else {
				out.WriteRune(r)
			}
		}
		text = out.String()
	}
	return strings.TrimSpace(text)
}

// note stores a mistake and its place.
func (d *draft) note(why, written string) {
	if why == "" || d.dead || slices.Contains(d.whys, why) {
		return
	}
	d.whys = append(d.whys, why)
	at := strings.Index(d.expression.text, d.whole(written))
	if at < 0 {
		return
	}
	if at = utf8.RuneCountInString(d.expression.text[:at]); d.from < 0 || at < d.from {
		d.from, d.width = at, max(1, utf8.RuneCountInString(d.whole(written)))
	}
}

// refuse stores a mistake with an uncertain meaning, so nothing is proposed.
func (d *draft) refuse(why, written string) {
	d.note(why, written)
	d.dead = true
}

// replace replaces every match of a pattern. by returns "" to leave a match unchanged.
func (d *draft) replace(pattern *regexp.Regexp, by func(m []string) (instead, why string)) {
	d.text = d.replaced(d.text, pattern, by)
}

func (d *draft) replaced(text string, pattern *regexp.Regexp, by func(m []string) (instead, why string)) string {
	return pattern.ReplaceAllStringFunc(text, func(found string) string {
		m := pattern.FindStringSubmatch(found)
		if m == nil {
			return found
		}
		instead, why := by(m)
		if instead == "" {
			return found
		}
		d.note(why, found)
		return instead
	})
}

// Texts in quotes: straight ones as the language has them, and others.
var (
	quotedText = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`|[“”„‟«»″＂][^“”„‟«»″＂\"]*[“”„‟«»″＂\"]|[‘’‚‛´][^‘’‚‛´']*[‘’‚‛´']")
	// quotedBehind matches a quoted text, with the preceding text if this rules out a field.
	quotedBehind = regexp.MustCompile(`(\bfield\(\s*|[=!]=\s*)?(` + quotedText.String() + `)`)
	openQuote    = regexp.MustCompile(`["'“„«‘]([^+]*?)(\s*\+.*)?$`)
)

// mend takes the mistakes out of the draft.
func (d *draft) mend() {
	d.text = strings.TrimSpace(d.text)
	d.replace(quotedBehind, func(m []string) (string, string) {
		piece, why := d.quoted(m[2], m[1] == "")
		return m[1] + piece, why
	})
	d.replace(openQuote, func(m []string) (string, string) {
		return d.put(literal(m[1])) + m[2], "a quote is opened and not closed"
	})
	d.fields()
	d.text = d.balanced(d.text)
	for range mostBrackets {
		before := d.text
		d.brackets()
		if d.text == before {
			break
		}
	}
	d.text = d.operators(d.text, true)
	if inner, ok := d.inner(d.text); ok {
		d.text = inner
	}
}

// mostBrackets is how many levels of brackets are looked into.
const mostBrackets = 64

// inner returns the text inside brackets around the whole.
func (d *draft) inner(text string) (string, bool) {
	r, size := utf8.DecodeRuneInString(strings.TrimSpace(text))
	if !isPiece(r) || size != len(strings.TrimSpace(text)) {
		return "", false
	}
	piece := d.pieces[r-firstPiece]
	if !strings.HasPrefix(piece, "(") || !strings.HasSuffix(piece, ")") {
		return "", false
	}
	return piece[1 : len(piece)-1], true
}

func literal(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// quoted makes a piece of a quoted text. A field's name becomes the field, if a field is required here; a text with
// fields inside is split.
func (d *draft) quoted(written string, mayBeField bool) (piece, why string) {
	runes := []rune(written)
	inside := string(runes[1 : len(runes)-1])
	if name, ok := d.misquoted[inside]; ok && mayBeField {
		return d.put(Written(name)), "a field's name in quotes is a text, the same for every customer"
	}
	if parts := d.template(inside); parts != "" {
		return d.put(parts), "fields are not filled into a text; the parts are joined with +"
	}
	if strings.ContainsRune("\"'`", runes[0]) {
		return d.put(written), ""
	}
	return d.put(literal(inside)), "a text stands between straight quotes"
}

// template returns the parts of a text with fields in it, joined, and "" when
// there are none.
func (d *draft) template(inside string) string {
	if !d.fillsIn {
		return ""
	}
	at, out := 0, []string{}
	for _, m := range templated.FindAllStringSubmatchIndex(inside, -1) {
		name := d.fieldCalled(inside[m[2]:m[3]])
		if name == "" {
			continue
		}
		if m[0] > at {
			out = append(out, literal(inside[at:m[0]]))
		}
		out, at = append(out, Written(name)), m[1]
	}
	if at == 0 {
		return ""
	}
	if at < len(inside) {
		out = append(out, literal(inside[at:]))
	}
	return strings.Join(out, " + ")
}

// templated matches a name in the placeholder marks of other programs.
var templated = regexp.MustCompile(`(?:\$?\{\{?|<<?|«|\[\[?|%%?)\s*([\pL_][^{}<>«»\[\]%]*?)\s*(?:\}\}?|>>?|»|\]\]?|%%?)`)

// fieldCalled returns the field with a name in any case; "" for none.
func (e *expression) fieldCalled(name string) string {
	if _, ok := e.types[name]; ok {
		return name
	}
	for _, field := range e.columns {
		if strings.EqualFold(field, name) {
			return field
		}
	}
	return ""
}

// fields makes a piece of every field with an unusual name, also with wrong case or a small misspelling.
func (d *draft) fields() {
	odd := connector.Filter(d.columns, func(name string) bool { return Reserved(name) && !isFunction(name) })
	slices.SortStableFunc(odd, func(a, b string) int { return len(b) - len(a) }) // one may be part of another
	for _, name := range odd {
		words := regexp.MustCompile(`(?i)` + strings.ReplaceAll(regexp.QuoteMeta(name), " ", `\s+`))
		d.replaceWords(words, func(string) (string, string) {
			return d.put(Written(name)), `a field whose name is not one word is written field("…")`
		})
	}
	d.replaceWords(severalWords(), func(found string) (string, string) {
		if near := connector.Nearest(found, odd); near != "" {
			return d.put(Written(near)), fmt.Sprintf("there is no field %q, but %s", found, Written(near))
		}
		return "", ""
	})
}

var severalWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[\pL_][\pL\pN_]*(?:[ .-]+[\pL_][\pL\pN_]*){1,2}`)
})

// replaceWords is replace for whole words.
func (d *draft) replaceWords(pattern *regexp.Regexp, by func(found string) (instead, why string)) {
	var out strings.Builder
	at := 0
	for _, m := range pattern.FindAllStringIndex(d.text, -1) {
		before, _ := utf8.DecodeLastRuneInString(d.text[:m[0]])
		if behind, _ := utf8.DecodeRuneInString(d.text[m[1]:]); isWordLetter(before) || isWordLetter(behind) {
			continue
		}
		instead, why := by(d.text[m[0]:m[1]])
		if instead == "" {
			continue
		}
		d.note(why, d.text[m[0]:m[1]])
		out.WriteString(d.text[at:m[0]] + instead)
		at = m[1]
	}
	d.text = out.String() + d.text[at:]
}

func isWordLetter(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// balanced closes open brackets, and drops unmatched closing ones.
func (d *draft) balanced(text string) string {
	var open []rune
	var out strings.Builder
	for _, r := range text {
		switch i := strings.IndexRune(")]}", r); {
		case strings.ContainsRune("([{", r):
			open = append(open, rune(")]}"[strings.IndexRune("([{", r)]))
		case i >= 0 && len(open) > 0 && open[len(open)-1] == r:
			open = open[:len(open)-1]
		case i >= 0:
			d.note("this "+string(r)+" closes nothing", string(r))
			continue
		}
		out.WriteRune(r)
	}
	slices.Reverse(open)
	if len(open) > 0 {
		d.note("a bracket is opened and not closed", "")
	}
	return out.String() + string(open)
}

// innermost matches the content of brackets without others inside, with the name or operand before it.
var innermost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`([\pL_][\pL\pN_.!]*|[` + "\uE000-\uF8FF" + `])?\(([^()\[\]{}]*)\)|([\pL_][\pL\pN_.]*|[` +
		"\uE000-\uF8FF" + `])?\[([^()\[\]{}]*)\]|([@$]?)\{([^()\[\]{}]*)\}`)
})

// brackets makes a piece of the innermost brackets.
func (d *draft) brackets() {
	d.replace(innermost(), func(m []string) (string, string) {
		switch m[0][len(m[0])-1] {
		case ')':
			return d.call(m[1], m[2])
		case ']':
			return d.square(m[3], m[4])
		}
		return d.braces(m[5], m[6])
	})
}

// call is a function with its arguments, or a parenthesised expression.
func (d *draft) call(name, inside string) (piece, why string) {
	if slices.Contains(keywords, strings.ToLower(name)) && !strings.ContainsAny(inside, ",;") {
		return name + " " + d.parentheses(inside), ""
	}
	if name == "" {
		return d.parentheses(inside), ""
	}
	if receiver, method, ok := cutLast(name, "."); ok {
		name, inside = method, strings.TrimSuffix(receiver+", "+inside, ", ")
		d.note("a function stands before what it works on", receiver+"."+method)
	}
	args := d.arguments(inside)
	if sum := sumOfTexts().FindStringSubmatch(inside); name == "number" && sum != nil && d.isText(sum[1]) &&
		d.isText(sum[2]) {
		return d.put("number(" + sum[1] + ") + number(" + sum[2] + ")"), "+ joins two texts; their numbers are added"
	}
	_, known := functions[name]
	if r := []rune(name); known || len(r) == 1 && isPiece(r[0]) || slices.Contains(loops, name) || name == fnField {
		return d.put(name + "(" + strings.Join(args, ", ") + ")"), ""
	}
	if instead := spreadsheet(d, name, args); instead != "" {
		return d.put(instead), ""
	}
	if near := connector.Nearest(name, functionNames()); near != "" {
		return d.put(near + "(" + strings.Join(args, ", ") + ")"), "" // its message is there already
	}
	return d.put(name + "(" + strings.Join(args, ", ") + ")"), ""
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i > 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

var sumOfTexts = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*` + operand + `\s*\+\s*` + operand + `\s*$`)
})

// keywords may precede brackets around one operand, and are no functions then.
var keywords = []string{"if", "and", "or", "not", "in", "then", "else", "und", "oder", "nicht"}

// arguments splits the arguments of a call.
func (d *draft) arguments(inside string) []string {
	separator := ","
	if strings.Contains(inside, ";") {
		separator = ";"
		d.note("the arguments of a function are parted with commas", ";")
	}
	var out []string
	for arg := range strings.SplitSeq(inside, separator) {
		if arg = strings.TrimSpace(arg); arg != "" || separator == ";" {
			out = append(out, d.operators(arg, separator == ";"))
		}
	}
	return out
}

// parentheses keep what belongs together; several things in them are a list.
func (d *draft) parentheses(inside string) string {
	if strings.ContainsAny(inside, ",;") {
		d.note("a list is written in [ ]", "("+inside+")")
		return d.put("[" + strings.Join(d.list(inside), ", ") + "]")
	}
	return d.put("(" + d.operators(inside, true) + ")")
}

func (d *draft) list(inside string) []string {
	var out []string
	for element := range strings.FieldsFuncSeq(inside, func(r rune) bool { return r == ',' || r == ';' }) {
		out = append(out, d.operators(strings.TrimSpace(element), false))
	}
	return out
}

const byItsName = "a field is written by its name alone"

// square is a list, an element of one, or a field as spreadsheets write columns.
func (d *draft) square(before, inside string) (piece, why string) {
	name := strings.TrimLeft(strings.TrimSpace(inside), "@#")
	isTable := before == "" || !d.isOperand(before)
	if isTable && d.isField(name) {
		return d.put(d.whole(name)), byItsName
	}
	if before != "" && isTable && before != "in" {
		return "", ""
	}
	if before == "in" {
		return "in " + d.put("["+strings.Join(d.list(inside), ", ")+"]"), ""
	}
	if before != "" {
		return d.put(before + "[" + inside + "]"), ""
	}
	return d.put("[" + strings.Join(d.list(inside), ", ") + "]"), ""
}

// braces are a block of fields, or a field as other programs fill it in.
func (d *draft) braces(mark, inside string) (piece, why string) {
	name := strings.TrimSpace(inside)
	if d.isField(name) || mark != "" {
		return d.put(d.whole(name)), byItsName
	}
	if r := []rune(name); len(r) == 1 && isPiece(r[0]) {
		return name, byItsName
	}
	return d.put("{" + inside + "}"), ""
}

// isField reports whether a text of the draft is a field and nothing else.
func (d *draft) isField(text string) bool {
	text = d.whole(text)
	_, known := d.types[text]
	return known && !Reserved(text) || strings.HasPrefix(text, fnField+"(") && strings.Count(text, "(") == 1 &&
		strings.HasSuffix(text, ")")
}

// isOperand reports whether a word or letter of the draft stands for a value.
func (d *draft) isOperand(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	first, _, _ := strings.Cut(s, ".")
	return isPiece(r) || d.isField(first) || first == varTenant || first == varCustomer
}
