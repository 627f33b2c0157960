package mapping

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"payersync/connector"
)

// Explanation is how a record becomes its customer, rule by rule. It holds
// personal values in full: what is shown of them is the caller's decision.
type Explanation struct {
	Result Result
	Err    error  // the result of Apply for the record
	Rules  []Rule // every expression of the mapping, in the order of execution
}

// Rule is one expression of a mapping with its result for a record.
type Rule struct {
	Path    string  // what it decides, for example "key.accountNumber" or "customer.people[0].email"
	Line    int     // of the mapping file
	Text    string  // the expression as it is written
	Inputs  []Input // its inputs, in the order of the expression
	Value   string  // its result: a text, true, false, or the blocks of a whole list
	Blank   bool    // it ran and did not fire (see Coverage)
	Err     string  // why the record failed at this rule, a sentence without personal values
	Skipped bool    // it did not run: the record is no payer, or failed before
}

// Input is a variable of an expression, and its value for a record.
type Input struct {
	Field string // a field of the source, or tenant or customer
	Value string // a text as it is, anything else as JSON; "" when it is missing
}

// Explain applies the mapping to a record and reports the result of each rule. For a failing record it ends at the
// failed rule.
func (m *Mapping) Explain(r connector.Record) Explanation {
	rules, last := m.rules(), -1
	x := Explanation{Rules: make([]Rule, len(rules))}
	for i, rule := range rules {
		x.Rules[i] = Rule{Path: rule.path.String(), Line: rule.line, Text: rule.text, Skipped: true}
	}
	x.Result, x.Err = m.apply(r, m.tenant, watcher{rule: func(ran *rule, value any) {
		last = slices.Index(rules, ran)
		out := &x.Rules[last]
		out.Skipped, out.Value, out.Blank = false, shown(value), value != nil && !fires(value)
	}})
	var failed *RecordError
	if errors.As(x.Err, &failed) && last >= 0 {
		x.Rules[last].Err = failed.Detail
	}
	given := m.given(r, x.Result.Customer)
	for i, rule := range rules {
		for _, variable := range rule.reads {
			field := strings.TrimPrefix(variable, fieldPrefix)
			x.Rules[i].Inputs = append(x.Rules[i].Inputs, Input{field, given[variable]})
		}
	}
	return x
}

// given returns the variables of a record as text. A record other than an object has none; the explanation's error
// reports it.
func (m *Mapping) given(r connector.Record, c connector.Customer) map[string]string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(r.Data, &fields) != nil {
		return nil
	}
	out := map[string]string{varTenant: m.tenant}
	for _, in := range m.inputs {
		out[in.variable] = asWritten(fields[in.field.Name])
	}
	if c.ExternalData != nil {
		out[varCustomer] = shown(c)
	}
	return out
}

// asWritten returns a JSON value as people read it: texts without quotes, and
// nothing for null.
func asWritten(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// shown returns a value as people read it; what is no text is written as JSON.
func shown(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // flags, texts and blocks of texts can always be written
	return strings.TrimSpace(out.String())
}

// fires reports whether a rule decided something for a record: it gave a nonblank text, true, or a list with a nonblank
// element.
func fires(value any) bool {
	switch v := value.(type) {
	case string:
		return !blank(v)
	case bool:
		return v
	case []map[string]string:
		return slices.ContainsFunc(v, func(f map[string]string) bool { return !allBlank(f) })
	}
	return false
}
