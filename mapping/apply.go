package mapping

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/vm"
	"golang.org/x/text/language"

	"payersync/connector"
)

// Apply makes the customer of a record. The error is a *RecordError: the record
// needs a person, and no other record is concerned.
func (m *Mapping) Apply(r connector.Record) (Result, error) {
	return m.apply(r, m.tenant, watcher{})
}

// watcher has callbacks for the mapping of a record; each may be nil.
type watcher struct {
	rule func(r *rule, value any) // a rule ran; the value is nil when it failed
	part func(number int)         // a part was taken

	misses func(function, value string) // called for a misread text of the rule reported next
}

// KeyOf returns the key of a record, included or not. Its errors are those of Apply.
func (m *Mapping) KeyOf(r connector.Record) (key connector.Key, err error) {
	err = m.evaluate(r, m.tenant, watcher{}, func(e *evaluation) error {
		key, err = m.keyOf(e)
		return err
	})
	if err != nil {
		return connector.Key{}, err
	}
	return key, nil
}

// apply is Apply for an organisation and a watcher. Beside an error it returns the result as
// far as it came.
func (m *Mapping) apply(r connector.Record, tenant string, w watcher) (out Result, err error) {
	err = m.evaluate(r, tenant, w, func(e *evaluation) error {
		out, err = m.render(e)
		return err
	})
	return out, err
}

// evaluate lets do evaluate rules over a record.
func (m *Mapping) evaluate(r connector.Record, tenant string, w watcher, do func(*evaluation) error) error {
	e := m.evaluations.Get().(*evaluation)
	defer func() {
		clear(e.env) // nothing of this record is left for the next
		e.watcher = watcher{}
		m.evaluations.Put(e)
	}()
	if err := m.fillEnvironment(e.env, r); err != nil {
		return err
	}
	e.env[varTenant] = tenant
	e.env[varMeter] = &meter{left: maxSteps, part: w.part, misses: w.misses}
	e.watcher = w
	return do(e)
}

// render evaluates the rules in the order of the file.
func (m *Mapping) render(e *evaluation) (Result, error) {
	included, err := e.flag(m.include, true)
	if err != nil || !included {
		return Result{}, err
	}
	out := Result{Included: true}
	if out.Key, err = m.keyOf(e); err != nil {
		return out, err
	}
	if out.Customer, err = m.customer(e, out.Key); err != nil {
		return out, err
	}
	if m.request != nil {
		e.env[varCustomer] = viewOf(out.Customer)
	}
	if out.RequestMandate, err = e.flag(m.request, false); err != nil {
		return out, err
	}
	if !out.RequestMandate {
		out.Unasked = m.unasked(e, out.Customer)
	}
	if out.To, err = e.to(m.to, out.Customer); err != nil {
		return out, err
	}
	out.Language, err = e.language(m.language)
	return out, err
}

// keyOf evaluates the rules of the key. Beside an error it returns the key as far as it came.
func (m *Mapping) keyOf(e *evaluation) (key connector.Key, err error) {
	key.Name = m.keyName
	if key.Value, err = e.text(m.key); err != nil {
		return key, err
	}
	if blank(key.Value) {
		return key, &RecordError{connector.ReasonKeyBlank, m.key.line,
			fmt.Sprintf("The key %s is blank (mapping line %d).", m.keyName, m.key.line)}
	}
	if m.scope != nil {
		if key.Scope, err = e.text(m.scope); err != nil {
			return key, err
		}
		if blank(key.Scope) {
			return key, &RecordError{connector.ReasonKeyBlank, m.scope.line,
				fmt.Sprintf("The scope of the key %s is blank (mapping line %d). "+
					"Where the accounting system names no organisation, the configuration does: connections[].organisation.",
					m.keyName,
					m.scope.line)}
		}
	}
	if len(key.ID()) > connector.MaxIndexed {
		return key, &RecordError{connector.ReasonMappingFailed, m.key.line,
			fmt.Sprintf("The key %s is longer than %d bytes (mapping line %d).", m.keyName, connector.MaxIndexed, m.key.line)}
	}
	return key, nil
}

// to evaluates the rule for the address of letters. The address must also be on the customer at the billing service, so
// no other person gets mail about a customer's mandate.
func (e *evaluation) to(r *rule, customer connector.Customer) (string, error) {
	if r == nil {
		for _, p := range customer.People {
			if !blank(p.Email) {
				return p.Email, nil
			}
		}
		return "", nil
	}
	return evaluate(e, r, func(v any) (string, error) {
		s, err := textForm(v)
		if err != nil || blank(s) {
			return "", err
		}
		for _, p := range customer.People {
			if strings.EqualFold(strings.TrimSpace(p.Email), strings.TrimSpace(s)) {
				return p.Email, nil
			}
		}
		return "", sentence("it gives an address that is none of the customer's people")
	})
}

// language evaluates the rule for a language; "" without a rule.
func (e *evaluation) language(r *rule) (string, error) {
	if r == nil {
		return "", nil
	}
	return evaluate(e, r, languageForm)
}

// customer renders name, people, addresses and externalData. It omits elements with all fields blank, and blank
// externalData entries.
func (m *Mapping) customer(e *evaluation, key connector.Key) (connector.Customer, error) {
	out := connector.Customer{ExternalData: key.Pairs()}
	var err error
	if out.Name, err = e.text(m.name); err != nil {
		return connector.Customer{}, err
	}
	out.Name = joinLines(out.Name)
	if out.People, err = elementsOf(e, m.people, person); err != nil {
		return connector.Customer{}, err
	}
	if out.Addresses, err = elementsOf(e, m.addresses, place); err != nil {
		return connector.Customer{}, err
	}
	for _, p := range m.external {
		value, err := e.text(p.value)
		if err != nil {
			return connector.Customer{}, err
		}
		if !blank(value) {
			out.ExternalData[p.name] = value
		}
	}
	return out, nil
}

func person(f map[string]string) connector.Person {
	return connector.Person{
		Name: joinLines(f["name"]), FirstName: joinLines(f["firstName"]), LastName: joinLines(f["lastName"]),
		Email: connector.TrimEmail(f["email"]), Phone: joinLines(f["phone"]),
		Primary: f[flagPrimary], Communication: f[flagCommunication],
	}
}

func place(f map[string]string) connector.Address {
	return connector.Address{Line1: joinLines(f["line1"]), City: joinLines(f["city"]), PostCode: f["postCode"],
		Country: f["country"]}
}

// joinLines writes the lines of a text behind each other, as the service takes one line.
func joinLines(s string) string {
	if !strings.ContainsFunc(s, isLineBreak) {
		return s
	}
	var lines []string
	for _, line := range strings.FieldsFunc(s, isLineBreak) {
		if line = strings.Trim(strings.TrimSpace(line), ", "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, ", ")
}

func isLineBreak(r rune) bool { return strings.ContainsRune("\r\n\u2028\u2029\u0085\v", r) }

// elementsOf renders people or addresses.
func elementsOf[T any](e *evaluation, g group, build func(map[string]string) T) ([]T, error) {
	found, err := e.elements(g)
	if err != nil {
		return nil, err
	}
	var out []T
	for _, fields := range found {
		if !allBlank(fields) {
			out = append(out, build(fields))
		}
	}
	return out, nil
}

func allBlank(fields map[string]string) bool {
	for name, s := range fields {
		if !isFlag(name) && !blank(s) {
			return false
		}
	}
	return true
}

// evaluation is the work on one record. Its parts are used again for the next.
type evaluation struct {
	machine vm.VM
	env     map[string]any
	watcher
}

// evaluate runs a rule and converts its value with form.
func evaluate[T any](e *evaluation, r *rule, form func(any) (T, error)) (T, error) {
	var value T
	v, err := e.machine.Run(r.program, e.env)
	if err == nil {
		value, err = form(v)
	}
	if err != nil {
		if e.rule != nil {
			e.rule(r, nil)
		}
		return value, r.fail(plainFailure(err))
	}
	if e.rule != nil {
		e.rule(r, value)
	}
	return value, nil
}

// fail returns the error of a rule for an unsuitable record.
func (r *rule) fail(why string) error {
	return &RecordError{connector.ReasonMappingFailed, r.line,
		fmt.Sprintf("The mapping's %s (line %d) does not work for this record: %s.", r.path, r.line, why)}
}

// plainFailure says why an expression failed. Only sentences of our own are
// repeated: others may hold values.
func plainFailure(err error) string {
	var own sentence
	switch {
	case errors.As(err, &own):
		return own.Error()
	case strings.Contains(err.Error(), "memory budget exceeded"):
		return "the expression does too much work"
	case strings.Contains(err.Error(), "divide by zero"):
		return "a number is divided by 0"
	}
	return "a value does not have the form that the expression expects"
}

func (e *evaluation) text(r *rule) (string, error) { return evaluate(e, r, textForm) }

// flag evaluates a rule for true or false; without a rule it returns otherwise.
func (e *evaluation) flag(r *rule, otherwise bool) (bool, error) {
	if r == nil {
		return otherwise, nil
	}
	return evaluate(e, r, flagForm)
}

// elements evaluates a group to one block of texts per element.
func (e *evaluation) elements(g group) ([]map[string]string, error) {
	if g.whole != nil {
		return evaluate(e, g.whole, listForm)
	}
	out := make([]map[string]string, len(g.blocks))
	for i, block := range g.blocks {
		out[i] = make(map[string]string, len(block))
		for _, p := range block {
			s, err := evaluate(e, p.value, fieldForm(p.name))
			if err != nil {
				return nil, err
			}
			out[i][p.name] = s
		}
	}
	return out, nil
}

func textForm(v any) (string, error) {
	s, err := text(v)
	if err != nil {
		return "", sentence("it does not give a text")
	}
	return s, nil
}

// fieldForm is the form of a field of an element.
func fieldForm(name string) func(any) (string, error) {
	if !isFlag(name) {
		return textForm
	}
	return func(v any) (string, error) {
		flag, err := flagForm(v)
		if err != nil {
			return "", err
		}
		return strconv.FormatBool(flag), nil
	}
}

func languageForm(v any) (string, error) {
	s, err := textForm(v)
	if err != nil || blank(s) {
		return "", err
	}
	tag, err := language.Parse(strings.TrimSpace(s))
	if err != nil {
		return "", sentence("it gives no code of a language, as en or de-AT are")
	}
	return tag.String(), nil
}

func flagForm(v any) (bool, error) {
	flag, ok := v.(bool)
	if !ok {
		return false, sentence("it gives neither true nor false")
	}
	return flag, nil
}

// listForm is the form of one expression for a whole list.
func listForm(v any) ([]map[string]string, error) {
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, sentence("it does not give a list")
	}
	var out []map[string]string
	for _, element := range list {
		block, ok := element.(map[string]any)
		if !ok {
			return nil, sentence("an element is not written as a { } block")
		}
		fields := make(map[string]string, len(block))
		for name, v := range block {
			s, err := fieldForm(name)(v)
			switch {
			case err != nil && isFlag(name):
				return nil, sentence(name + " is neither true nor false")
			case err != nil:
				return nil, sentence(name + " is not a text")
			}
			fields[name] = s
		}
		out = append(out, fields)
	}
	return out, nil
}

// customerView is the finished customer as mandate.request sees it.
type customerView struct {
	Name         string            `expr:"name"`
	People       []personView      `expr:"people"`
	Addresses    []addressView     `expr:"addresses"`
	ExternalData map[string]string `expr:"externalData"`
}

type personView struct {
	Name      string `expr:"name"`
	FirstName string `expr:"firstName"`
	LastName  string `expr:"lastName"`
	Email     string `expr:"email"`
	Phone     string `expr:"phone"`
}

type addressView struct {
	Line1    string `expr:"line1"`
	City     string `expr:"city"`
	PostCode string `expr:"postCode"`
	Country  string `expr:"country"`
}

func viewOf(c connector.Customer) customerView {
	v := customerView{Name: c.Name, ExternalData: c.ExternalData}
	for _, p := range c.People {
		v.People = append(v.People, personView{p.Name, p.FirstName, p.LastName, p.Email, p.Phone})
	}
	v.Addresses = append(v.Addresses,
		connector.Map(c.Addresses, func(a connector.Address) addressView { return addressView(a) })...)
	return v
}
