package mapping

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/mapping/strict"
)

// Unasked is the reason the mapping does not ask a payer for a mandate; the zero value if it does.
type Unasked struct {
	Why       connector.WhyUnasked
	Line      int // of mandate.request in the mapping file; 0 if there is no such rule
	Condition int // number of the condition, from 1, for AskingCondition; 0 for the whole rule
}

// askCondition is one of mandate.request's conditions, joined with && or and.
type askCondition struct {
	*rule
	ofCustomer bool // it reads the finished customer, as the condition on an e-mail address does
}

// compileConditions compiles the conditions of mandate.request one by one, to name the deciding one.
func (m *Mapping) compileConditions(c *compiling) {
	if m.request == nil {
		return
	}
	alone := *c // the mistake was reported for the whole rule
	for _, text := range conditionsOf(m.request.text) {
		alone.count, alone.problems = 0, nil
		r := alone.compile(m.request.path, text, wantFlag, true)
		if r == nil {
			m.conditions = nil
			return
		}
		m.conditions = append(m.conditions, askCondition{r, slices.Contains(r.reads, varCustomer)})
	}
}

// unasked says why mandate.request is false for a customer. A payer without an e-mail address cannot
// be asked by a change of the rule, so the address comes first, unless another condition is false too.
func (m *Mapping) unasked(e *evaluation, customer connector.Customer) Unasked {
	reachable := slices.ContainsFunc(customer.People, func(p connector.Person) bool { return !blank(p.Email) })
	out := Unasked{Why: connector.UnaskedRule}
	if m.request != nil {
		out.Line = m.request.line
		out.Condition = m.falseCondition(e, reachable)
	}
	if !reachable && out.Condition == 0 {
		out.Why = connector.UnaskedNoEmail
	}
	return out
}

// falseCondition returns the number of the first false condition; 0 if none is false by itself. For a customer without
// an e-mail address it evaluates only the conditions on the record.
func (m *Mapping) falseCondition(e *evaluation, reachable bool) int {
	meters, watched := e.env[varMeter], e.watcher
	defer func() { e.env[varMeter], e.watcher = meters, watched }()
	e.env[varMeter], e.watcher = &meter{left: maxSteps}, watcher{}
	for i, c := range m.conditions {
		if c.ofCustomer && !reachable {
			continue
		}
		if holds, err := e.flag(c.rule, true); err == nil && !holds {
			return i + 1
		}
	}
	return 0
}

// AskingCondition describes a condition of mandate.request by its number, for a stored mapping file. 0 is the whole
// rule. It returns "" if the file has no such rule.
func AskingCondition(data []byte, number int) string {
	var file mappingFile
	file, _, _ = strict.Load("mapping", data, mappingFile{})
	if file.Mandate.Request == nil {
		return ""
	}
	text := strings.TrimSpace(string(*file.Mandate.Request))
	if parts := conditionsOf(text); number > 0 && number <= len(parts) {
		text = parts[number-1]
	}
	return plainCondition(text)
}

// conditionsOf splits an expression at each && or and outside brackets and quotes. An expression with an "or", a choice
// or a variable at the same level is one condition.
func conditionsOf(text string) []string {
	var out []string
	depth, from, quote := 0, 0, rune(0)
	for at, r := range text {
		switch {
		case quote != 0:
			if r == quote && text[at-1] != '\\' {
				quote = 0
			}
		case strings.ContainsRune("'\"`", r):
			quote = r
		case strings.ContainsRune("([{", r):
			depth++
		case strings.ContainsRune(")]}", r):
			depth--
		case depth > 0:
		case strings.ContainsRune("?;|", r), word(text, at, "or"), word(text, at, "let"):
			return []string{text}
		case strings.HasPrefix(text[at:], "&&"):
			out, from = append(out, strings.TrimSpace(text[from:at])), at+len("&&")
		case word(text, at, "and"):
			out, from = append(out, strings.TrimSpace(text[from:at])), at+len("and")
		}
	}
	return append(out, strings.TrimSpace(text[from:]))
}

var wordAt = regexp.MustCompile(`^\w+`)

// word reports whether a word begins at a place of a text.
func word(text string, at int, what string) bool {
	before := at == 0 || wordAt.FindString(text[at-1:]) == "" && text[at-1] != '.'
	return before && wordAt.FindString(text[at:]) == what
}

// fieldIs matches a comparison of a field with one value, or with several.
var fieldIs = regexp.MustCompile(`^(?:\w+\()?(?:field\("([^"]+)"\)|([A-Za-z_][\w.]*))\)?\s*(==|in)\s*(\[.*\]|"[^"]*")$`)

// AsksNobody describes a rule without any payer to ask.
const AsksNobody = "nobody is asked"

// plainCondition describes a comparison of a field with a value; it returns other conditions unchanged.
func plainCondition(text string) string {
	if text == "false" {
		return AsksNobody
	}
	m := fieldIs.FindStringSubmatch(text)
	if m == nil {
		return strings.Join(strings.Fields(text), " ")
	}
	var values []string
	if m[3] == "==" {
		m[4] = "[" + m[4] + "]"
	}
	if json.Unmarshal([]byte(m[4]), &values) != nil || len(values) == 0 {
		return text
	}
	for i, v := range values {
		if v == "" {
			values[i] = "blank"
		}
	}
	return m[1] + m[2] + " is " + strings.Join(values, " or ")
}
