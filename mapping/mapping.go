// Package mapping converts an accounting record to the wanted customer of the billing service, by the admin's mapping
// file. README.md beside this file describes the file's format and every function, for readers without knowledge of Go.
//
//	mapping.yaml ──Load──▶ Mapping ──Apply(record)──▶ Result
//	               │                    │
//	               │ keys, names and    │ record → blanks filled in → include?
//	               │ types are checked  │   → key, name, people, addresses,
//	               │ against the        │     externalData → ask for a mandate?
//	               ▼ source's fields    ▼
//	         *strict.Error         *RecordError (this record alone)
//
// For one record, Explain reports the input and result of every rule. Coverage counts the effect of rules over many
// records. Both run the same programs as Apply.
//
// Expressions are pure: they read the record and the tenant, and neither clock, randomness nor environment. Their work
// is bounded in steps and memory, so no record and no mapping can make a run hang.
//
// The package makes no decisions about sending. The caller applies the billing service's rules
// (connector.Customer.Problems), compares with the values sent before, and keeps the limits of a run.
package mapping

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
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
	unused []string // unused fields

	include    *rule // nil: every record is included
	keyName    string
	key        *rule
	scope      *rule // nil: the key names no organisation
	name       *rule
	people     group
	addresses  group
	external   []pair
	request    *rule          // nil: nobody is asked
	conditions []askCondition // of request
	to         *rule          // nil: the first address of the people
	language   *rule          // nil: it is not known of anybody
	own        []string
	flags      map[string]strict.Path // mapped flags of contacts, with their places

	evaluations sync.Pool // of *evaluation
}

// group is a list of people or addresses: one block of rules per element, or one
// rule for all of them.
type group struct {
	blocks [][]pair
	whole  *rule
}

// pair is a field of an element, or an externalData entry.
type pair struct {
	name  string
	value *rule
}

// Result is the result of mapping a record.
type Result struct {
	Included       bool               // false: the record is no payer, and nothing else is set
	Key            connector.Key      // identifies the payer; never blank
	Customer       connector.Customer // externalData holds the key pair and the further pairs
	RequestMandate bool               // the mapping wants this payer to be asked for a mandate
	Unasked        Unasked            // why it does not
	To             string             // the address that letters go to; "" for nobody
	Language       string             // in which the payer is written to, BCP 47; "" when it is not known
}

// Load reads, checks and compiles the mapping file called name, for records of
// src. The error is a *strict.Error with every
// problem of the file.
func Load(name string, data []byte, src connector.SourceInfo) (*Mapping, error) {
	m, err := read(name, data, src)
	return m, strict.Mend(err, data, func(data []byte) error {
		_, err := read(name, data, src)
		return err
	})
}

// read is Load without suggestions.
func read(name string, data []byte, src connector.SourceInfo) (*Mapping, error) {
	file, doc, invalid := strict.Load(name, data, mappingFile{})
	if doc == nil {
		return nil, invalid
	}
	m := &Mapping{data: slices.Clone(data), doc: doc, file: file, tenant: src.Scope()}
	m.evaluations.New = func() any { return &evaluation{machine: vm.VM{MemoryBudget: maxSteps}, env: map[string]any{}} }
	c := newCompiling(doc, file.Region, src)
	if file.Source != src.Kind {
		p := doc.Problem(strict.Path{"source"},
			"this mapping is written for %s, and the connection reads %s; use a mapping for %s", file.Source, src.Kind, src.Kind)
		if connector.Nearest(file.Source, []string{src.Kind}) != "" {
			p.Instead = doc.Instead(strict.Path{"source"}, src.Kind)
		}
		c.report(p)
	}
	if file.Region != "" && !isRegion(file.Region) {
		p := doc.Problem(strict.Path{"region"}, "%s", unknownRegion(file.Region))
		if meant := country(file.Region); isRegion(meant) {
			p.Instead = doc.Instead(strict.Path{"region"}, meant)
		}
		c.report(p)
	}
	m.compile(c)
	m.checkGiven(c)
	if err := together(invalid, c.problems); err != nil {
		return nil, err
	}
	for _, f := range src.Fields {
		if !c.used[f.Name] {
			m.unused = append(m.unused, f.Name)
			continue
		}
		m.inputs = append(m.inputs, input{varName(f.Name), f, c.types[f.Name]})
		if c.asFlags[f.Name] {
			m.inputs = append(m.inputs, input{flagPrefix + f.Name, f, flagType})
		}
	}
	return m, nil
}

// together adds the expressions' problems to those of the file's form. For a place with both it keeps the form's
// problem, because it causes the other, unless the other has a correction.
func together(invalid error, problems []strict.Problem) error {
	var form *strict.Error
	if !errors.As(invalid, &form) {
		return strict.NewError(problems)
	}
	out := slices.Clone(form.Problems)
	for _, p := range problems {
		at := slices.IndexFunc(out, func(f strict.Problem) bool { return f.Line == p.Line && f.Column == p.Column })
		switch {
		case at < 0:
			out = append(out, p)
		case p.Instead != "":
			out[at] = p
		}
	}
	return strict.NewError(out)
}

// Schema returns the JSON Schema of mapping files, for editors.
func Schema() []byte { return strict.Schema[mappingFile]() }

// compile compiles every expression of the file.
func (m *Mapping) compile(c *compiling) {
	f := m.file
	for name, value := range f.Key { // one: the schema sees to it
		if blank(name) {
			c.report(m.doc.KeyProblem(strict.Path{"key", name}, "this key has no name; give it one"))
		}
		m.keyName = name
		m.key = c.compile(strict.Path{"key", name}, string(value), wantText, false)
	}
	if f.Scope != nil {
		m.scope = c.compile(strict.Path{"scope"}, string(*f.Scope), wantText, false)
	}
	if f.Include != nil {
		m.include = c.compile(strict.Path{"include"}, string(*f.Include), wantFlag, false)
	}
	m.name = c.compile(strict.Path{"customer", "name"}, string(f.Customer.Name), wantText, false)
	m.people = compileGroup(c, strict.Path{"customer", "people"}, f.Customer.People, personFile[formula].fields,
		wantPeople)
	m.addresses = compileGroup(c, strict.Path{"customer", "addresses"}, f.Customer.Addresses, addressFile[formula].fields,
		wantPlaces)
	for _, name := range slices.Sorted(maps.Keys(f.ExternalData)) {
		path := strict.Path{"externalData", name}
		if _, twice := f.Key[name]; twice {
			c.report(m.doc.KeyProblem(path, "%q is the key already; remove it here", name))
		}
		if m.scope != nil && name == connector.ScopeName(m.keyName) {
			c.report(m.doc.KeyProblem(path, "%q is where the scope of the key is written; remove it here", name))
		}
		m.external = append(m.external, pair{name, c.compile(path, string(f.ExternalData[name]), wantText, false)})
	}
	if f.Mandate.Request != nil {
		m.request = c.compile(strict.Path{"mandate", "request"}, string(*f.Mandate.Request), wantFlag, true)
		m.compileConditions(c)
	}
	if f.Mandate.To != nil {
		m.to = c.compile(strict.Path{"mandate", "to"}, string(*f.Mandate.To), wantText, false)
	}
	if f.Mandate.Language != nil {
		m.language = c.compile(strict.Path{"mandate", "language"}, string(*f.Mandate.Language), wantText, false)
	}
	m.compileOwn(c)
	m.flags = c.flags
}

// compileGroup compiles people or addresses in either form.
func compileGroup[T any](c *compiling, path strict.Path, from elements[T], fields func(T) map[string]*formula,
	want result) group {
	var g group
	if from.given && from.list == nil {
		g.whole = c.compile(path, string(from.expression), want, false)
	}
	for i, element := range from.list {
		var block []pair
		written := fields(element)
		for _, name := range slices.Concat(personNames, addressNames) {
			if f := written[name]; f != nil {
				at, want := path.Index(i).Key(name), wantText
				if isFlag(name) {
					want = wantFlag
					c.flag(name, at)
				}
				block = append(block, pair{name, c.compile(at, string(*f), want, false)})
			}
		}
		g.blocks = append(g.blocks, block)
	}
	return g
}

// rules returns every rule in execution order.
func (m *Mapping) rules() []*rule {
	out := []*rule{m.include, m.key, m.scope, m.name}
	for _, g := range []group{m.people, m.addresses} {
		out = append(out, g.whole)
		for _, block := range g.blocks {
			out = append(out, rulesOf(block)...)
		}
	}
	out = append(out, rulesOf(m.external)...)
	out = append(out, m.request, m.to, m.language)
	return slices.DeleteFunc(out, func(r *rule) bool { return r == nil })
}

func rulesOf(pairs []pair) []*rule {
	out := make([]*rule, len(pairs))
	for i, p := range pairs {
		out[i] = p.value
	}
	return out
}

// compileOwn determines the mapping's own parts: all mapped parts, or those listed in own.
func (m *Mapping) compileOwn(c *compiling) {
	mapped := map[string]bool{"name": true, "people": m.file.Customer.People.given,
		"addresses": m.file.Customer.Addresses.given}
	if m.file.Own == nil {
		m.own = append(m.own, connector.Filter([]string{"name", "people", "addresses"},
			func(part string) bool { return mapped[part] })...)
		return
	}
	for i, part := range m.file.Own {
		switch at := (strict.Path{"own"}).Index(i); {
		case !mapped[part]:
			c.report(m.doc.Problem(at, "%s is not mapped, so it cannot be owned: map customer.%s, or remove it here", part,
				part))
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

// KeyName returns the name of the externalData entry with the payer's key.
func (m *Mapping) KeyName() string { return m.keyName }

// Text returns the file's bytes.
func (m *Mapping) Text() []byte { return slices.Clone(m.data) }

// Own returns the mapping's own parts in the billing service, of name, people and addresses.
func (m *Mapping) Own() []string { return slices.Clone(m.own) }

// CheckFlags reports mapped flags of contacts without a configured member name at the billing service: they cannot be
// written. unnamed are such flags with the settings for their names. The error is a *strict.Error.
func (m *Mapping) CheckFlags(unnamed map[string]string) error {
	var problems []strict.Problem
	for flag, setting := range unnamed {
		if at, mapped := m.flags[flag]; mapped {
			problems = append(problems,
				m.doc.Problem(at, "what the billing service calls %s is not known: give its name in %s, or remove it here", flag,
					setting))
		}
	}
	return strict.NewError(problems)
}

// Owned returns the values for an existing customer: for the mapping's own parts the wanted values, and for the others
// its present values.
func (m *Mapping) Owned(wanted, holds connector.Customer) connector.Customer {
	if !slices.Contains(m.own, "name") {
		wanted.Name = holds.Name
	}
	if !slices.Contains(m.own, "people") {
		wanted.People = holds.People
	}
	if !slices.Contains(m.own, "addresses") {
		wanted.Addresses = holds.Addresses
	}
	return wanted
}

// CheckForm reports the mistakes in a mapping visible without the fields of its source. The error is a *strict.Error.
func CheckForm(name string, data []byte) error {
	_, _, err := strict.Load(name, data, mappingFile{})
	return err
}
