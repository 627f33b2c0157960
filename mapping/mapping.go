// Package mapping turns an accounting record into the customer that the billing
// service is to have, as the admin's mapping file says. The file's format and
// every function are described in README.md beside this file, for people who
// know their customers and not Go.
//
//	mapping.yaml ──Load──▶ Mapping ──Apply(record)──▶ Result
//	               │                    │
//	               │ keys, names and    │ record → blanks filled in → include?
//	               │ types are checked  │   → key, name, people, addresses,
//	               │ against the        │     externalData → ask for a mandate?
//	               ▼ source's fields    ▼
//	         *strict.Error         *RecordError (this record alone)
//
// Expressions are pure: they know the record and the tenant, and neither clock,
// randomness nor environment. Their work is bounded in steps and memory, so no
// record and no mapping can make a run hang.
//
// The package decides nothing about sending: the billing service's own rules
// (connector.Customer.Problems), comparing with what was sent before, and the
// limits of a run are the caller's.
package mapping

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr/vm"

	"payersync/connector"
	"payersync/mapping/strict"
)

// Mapping is a checked and compiled mapping file. It is safe for concurrent use.
type Mapping struct {
	data   []byte
	doc    *strict.Doc
	file   mappingFile
	tenant string
	inputs []input

	include   *rule // nil: every record is included
	keyName   string
	key       *rule
	name      *rule
	people    group
	addresses group
	external  []pair
	request   *rule // nil: nobody is asked
	own       []string
	machines  sync.Pool // of *vm.VM
}

// group is a list of people or addresses: one block of rules per element, or one
// rule for all of them.
type group struct {
	blocks []map[string]*rule
	whole  *rule
}

// pair is an externalData entry.
type pair struct {
	name  string
	value *rule
}

// Result is what a record becomes.
type Result struct {
	Included       bool               // false: the record is no payer, and nothing else is set
	Key            connector.Key      // identifies the payer; never blank
	Customer       connector.Customer // externalData holds the key pair and the further pairs
	RequestMandate bool               // the mapping wants this payer to be asked for a mandate
}

// Load reads, checks and compiles the mapping file called name, for records of
// src (architecture.md section 10). The error is a *strict.Error with every
// problem of the file.
func Load(name string, data []byte, src connector.SourceInfo) (*Mapping, error) {
	file, doc, err := strict.Load(name, data, mappingFile{})
	if err != nil {
		return nil, err
	}
	m := &Mapping{data: slices.Clone(data), doc: doc, file: file, tenant: src.Tenant}
	m.machines.New = func() any { return &vm.VM{MemoryBudget: maxSteps} }
	c := newCompiling(doc, src.Fields)
	if file.Source != src.Kind {
		c.report(doc.Problem(strict.Path{"source"}, "this mapping is written for %s, and the connection reads %s; use a mapping for %s", file.Source, src.Kind, src.Kind))
	}
	m.compile(c)
	m.checkGiven(c)
	if err := strict.NewError(c.problems); err != nil {
		return nil, err
	}
	for _, f := range src.Fields {
		if c.used[f.Name] {
			m.inputs = append(m.inputs, input{varName(f.Name), f, c.types[f.Name]})
		}
	}
	return m, nil
}

// Schema returns the JSON Schema of mapping files, for editors.
func Schema() []byte { return strict.Schema[mappingFile]() }

// compile compiles every expression of the file.
func (m *Mapping) compile(c *compiling) {
	f := m.file
	m.compileKey(c)
	if f.Include != nil {
		m.include = c.compile(strict.Path{"include"}, string(*f.Include), wantFlag, false)
	}
	m.name = c.compile(strict.Path{"customer", "name"}, string(f.Customer.Name), wantText, false)
	m.people = compileGroup(c, strict.Path{"customer", "people"}, f.Customer.People, personFile.formulas, wantPeople)
	m.addresses = compileGroup(c, strict.Path{"customer", "addresses"}, f.Customer.Addresses, addressFile.formulas, wantPlaces)
	if len(f.Customer.Addresses.list) > connector.MaxAddresses {
		c.report(m.doc.Problem(strict.Path{"customer", "addresses", "1"}, "a customer may have one address only in the billing service; remove this one"))
	}
	for _, name := range slices.Sorted(maps.Keys(f.ExternalData)) {
		path := strict.Path{"externalData", name}
		if _, twice := f.Key[name]; twice {
			c.report(m.doc.KeyProblem(path, "%q is the key already; remove it here", name))
		}
		m.external = append(m.external, pair{name, c.compile(path, string(f.ExternalData[name]), wantText, false)})
	}
	if f.Mandate.Request != nil {
		m.request = c.compile(strict.Path{"mandate", "request"}, string(*f.Mandate.Request), wantFlag, true)
	}
	m.compileOwn(c)
}

// compileKey compiles the one pair of key.
func (m *Mapping) compileKey(c *compiling) {
	path := strict.Path{"key"}
	if len(m.file.Key) != 1 {
		c.report(m.doc.KeyProblem(path, "key needs exactly one pair, the name of the externalData entry and an expression, as in key: {xeroContactId: ContactID}"))
		return
	}
	for name, value := range m.file.Key {
		if strings.TrimSpace(name) == "" {
			c.report(m.doc.KeyProblem(path.Key(name), "the name of the key is blank"))
		}
		m.keyName = name
		m.key = c.compile(path.Key(name), string(value), wantText, false)
	}
}

// compileGroup compiles people or addresses in either form.
func compileGroup[T any](c *compiling, path strict.Path, from elements[T], formulas func(T) map[string]*formula, want result) group {
	var g group
	if from.given && from.list == nil {
		g.whole = c.compile(path, string(from.expression), want, false)
	}
	for i, element := range from.list {
		block := map[string]*rule{}
		for name, f := range formulas(element) {
			if f != nil {
				block[name] = c.compile(path.Index(i).Key(name), string(*f), wantText, false)
			}
		}
		g.blocks = append(g.blocks, block)
	}
	return g
}

// compileOwn finds what the mapping owns: all that it maps, or what it says.
func (m *Mapping) compileOwn(c *compiling) {
	mapped := map[string]bool{"name": true, "people": m.file.Customer.People.given, "addresses": m.file.Customer.Addresses.given}
	if m.file.Own == nil {
		for _, part := range []string{"name", "people", "addresses"} {
			if mapped[part] {
				m.own = append(m.own, part)
			}
		}
		return
	}
	for i, part := range m.file.Own {
		switch at := (strict.Path{"own"}).Index(i); {
		case !mapped[part]:
			c.report(m.doc.Problem(at, "%s is not mapped, so it cannot be owned: map customer.%s, or remove it here", part, part))
		case slices.Contains(m.own, part):
			c.report(m.doc.Problem(at, "%s is named twice", part))
		default:
			m.own = append(m.own, part)
		}
	}
}

// Version returns the SHA-256, in hex, of the file's bytes.
func (m *Mapping) Version() string {
	sum := sha256.Sum256(m.data)
	return hex.EncodeToString(sum[:])
}

// Text returns the file's bytes.
func (m *Mapping) Text() []byte { return slices.Clone(m.data) }

// Own returns which of name, people and addresses the mapping owns in the
// billing service.
func (m *Mapping) Own() []string { return slices.Clone(m.own) }

// Apply makes the customer of a record. The error is a *RecordError: the record
// needs a person, and no other record is concerned.
func (m *Mapping) Apply(r connector.Record) (Result, error) {
	env, err := m.environment(r)
	if err != nil {
		return Result{}, err
	}
	machine := m.machines.Get().(*vm.VM)
	defer m.machines.Put(machine)
	return m.render(evaluation{machine, env})
}

// render evaluates the rules in the order of the file.
func (m *Mapping) render(e evaluation) (Result, error) {
	included, err := e.flag(m.include, true)
	if err != nil || !included {
		return Result{}, err
	}
	out := Result{Included: true, Key: connector.Key{Name: m.keyName}}
	if out.Key.Value, err = e.text(m.key); err != nil {
		return Result{}, err
	}
	if blank(out.Key.Value) {
		return Result{}, &RecordError{connector.ReasonKeyBlank, m.key.line, fmt.Sprintf("The key %s is blank (mapping line %d).", m.keyName, m.key.line)}
	}
	if out.Customer, err = m.customer(e, out.Key); err != nil {
		return Result{}, err
	}
	if m.request != nil {
		e.env[varCustomer] = viewOf(out.Customer)
	}
	out.RequestMandate, err = e.flag(m.request, false)
	if err != nil {
		return Result{}, err
	}
	return out, nil
}

// customer renders name, people, addresses and externalData. An element whose
// every field is blank is left out, and so is a blank externalData entry.
func (m *Mapping) customer(e evaluation, key connector.Key) (connector.Customer, error) {
	out := connector.Customer{ExternalData: map[string]string{key.Name: key.Value}}
	var err error
	if out.Name, err = e.text(m.name); err != nil {
		return connector.Customer{}, err
	}
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
	return connector.Person{Name: f["name"], FirstName: f["firstName"], LastName: f["lastName"], Email: f["email"], Phone: f["phone"]}
}

func place(f map[string]string) connector.Address {
	return connector.Address{Line1: f["line1"], City: f["city"], PostCode: f["postCode"], Country: f["country"]}
}

// elementsOf renders people or addresses.
func elementsOf[T any](e evaluation, g group, build func(map[string]string) T) ([]T, error) {
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
	for _, s := range fields {
		if !blank(s) {
			return false
		}
	}
	return true
}

// evaluation is the work on one record.
type evaluation struct {
	machine *vm.VM
	env     map[string]any
}

func (e evaluation) run(r *rule) (any, error) {
	v, err := e.machine.Run(r.program, e.env)
	if err != nil {
		return nil, r.fail(plainFailure(err))
	}
	return v, nil
}

// fail makes the error of a rule that does not fit this record.
func (r *rule) fail(why string) error {
	return &RecordError{connector.ReasonMappingFailed, r.line, fmt.Sprintf("The mapping's %s (line %d) does not work for this record: %s.", r.path, r.line, why)}
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
	}
	return "a value does not have the form that the expression expects"
}

func (e evaluation) text(r *rule) (string, error) {
	v, err := e.run(r)
	if err != nil {
		return "", err
	}
	s, err := text(v)
	if err != nil {
		return "", r.fail("it does not give a text")
	}
	return s, nil
}

// flag evaluates a rule that gives true or false; without a rule it is otherwise.
func (e evaluation) flag(r *rule, otherwise bool) (bool, error) {
	if r == nil {
		return otherwise, nil
	}
	v, err := e.run(r)
	if err != nil {
		return false, err
	}
	flag, ok := v.(bool)
	if !ok {
		return false, r.fail("it gives neither true nor false")
	}
	return flag, nil
}

// elements evaluates a group to one block of texts per element.
func (e evaluation) elements(g group) ([]map[string]string, error) {
	if g.whole != nil {
		return e.whole(g.whole)
	}
	out := make([]map[string]string, len(g.blocks))
	for i, block := range g.blocks {
		out[i] = make(map[string]string, len(block))
		for name, r := range block {
			s, err := e.text(r)
			if err != nil {
				return nil, err
			}
			out[i][name] = s
		}
	}
	return out, nil
}

// whole evaluates one expression that gives a whole list.
func (e evaluation) whole(r *rule) ([]map[string]string, error) {
	v, err := e.run(r)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, r.fail("it does not give a list")
	}
	var out []map[string]string
	for _, element := range list {
		block, ok := element.(map[string]any)
		if !ok {
			return nil, r.fail("an element is not written as a { } block")
		}
		fields := make(map[string]string, len(block))
		for name, v := range block {
			if fields[name], err = text(v); err != nil {
				return nil, r.fail(name + " is not a text")
			}
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
		v.People = append(v.People, personView(p))
	}
	for _, a := range c.Addresses {
		v.Addresses = append(v.Addresses, addressView(a))
	}
	return v
}
