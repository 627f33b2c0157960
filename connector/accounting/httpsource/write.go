package httpsource

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/expr-lang/expr/types"

	"payersync/mapping/strict"
)

// writeFile says how one field of a record is set, and read back.
type writeFile struct {
	Method  string          `yaml:"method" jsonschema:"required,enum=PUT,enum=PATCH,enum=POST" jsonschema_description:"The method of the request that sets the field. Nothing is ever deleted."`
	Path    text            `yaml:"path" jsonschema:"required" jsonschema_description:"Below base, beginning with a slash. Requests know id, field, value and version."`
	Query   map[string]text `yaml:"query" jsonschema_description:"A value that is null leaves the pair out."`
	Headers map[string]text `yaml:"headers" jsonschema_description:"Headers of this request."`
	Body    any             `yaml:"body" jsonschema:"required" jsonschema_description:"The body, as JSON. It holds the one field only."`
	Field   writtenFile     `yaml:"field" jsonschema:"required" jsonschema_description:"The field."`
	Done    expression      `yaml:"done" jsonschema_description:"True for an answer that says that the field was set. Left out, each status from 200 to 299 does. The field is read afterwards in any case."`
	Stale   expression      `yaml:"stale" jsonschema_description:"True for an answer that refuses because somebody edited the record meanwhile."`
	Read    readBackFile    `yaml:"read" jsonschema:"required" jsonschema_description:"How the field of one record is read."`
	Changes []string        `yaml:"changes" jsonschema_description:"Declared fields that come to hold the value, or change with it. They count as no change of a record."`
	Scopes  []string        `yaml:"scopes" jsonschema_description:"What the consent asks for in addition."`
	Needs   string          `yaml:"needs" meaning:"-" jsonschema_description:"Which permission writing needs, for people."`
}

// writtenFile describes the field. Either the profile names it, or the configuration does.
type writtenFile struct {
	Name    string `yaml:"name" jsonschema_description:"Its name. Left out, the configuration names it."`
	Is      string `yaml:"is" meaning:"-" jsonschema:"required" jsonschema_description:"What it is, for people."`
	Pattern string `yaml:"pattern" jsonschema_description:"A pattern (RE2) that its name in the configuration must match."`
	Value   string `yaml:"value" jsonschema_description:"A pattern (RE2) that its values must match. Left out, each text does."`
	Example string `yaml:"example" meaning:"-" jsonschema_description:"A name, for the model of the system."`
	Sample  string `yaml:"sample" meaning:"-" jsonschema_description:"A value, for the model of the system."`
}

// readBackFile reads the field of one record.
type readBackFile struct {
	requestFile `yaml:",inline"`
	Record      text       `yaml:"record" jsonschema:"required" jsonschema_description:"The path to the record in the answer; $ is the answer itself."`
	Value       expression `yaml:"value" jsonschema:"required" jsonschema_description:"The field's value. The rule knows record and field."`
	Version     expression `yaml:"version" jsonschema_description:"What differs after each edit of the record, for the request that writes."`
	Closed      []ruleFile `yaml:"closed" jsonschema_description:"Records that nobody can write to; say is the end of a sentence."`
}

// write is the compiled form of writeFile.
type write struct {
	request
	read                        request
	done, stale, value, version *rule
	closed                      []*rule
	meaning                     string
}

// compileWrite compiles how a field is set.
func (p *Profile) compileWrite(c *compiling, req, row names) {
	f, at := p.file.Write, strict.Path{"write"}
	if f == nil {
		return
	}
	one := req.with(types.Map{"id": types.String, "field": types.String})
	sent := one.with(types.Map{"value": types.String, "version": types.String})
	w := &write{read: c.request(at.Key("read"), f.Read.requestFile, one),
		request: c.request(at, requestFile{Method: "POST", Reads: true, Path: f.Path, Query: f.Query, Headers: f.Headers,
			Body: f.Body}, sent)}
	w.method = f.Method
	_, _, answer, _, _, _ := p.names()
	said := answer.with(types.Map{"id": types.String, "field": types.String, "value": types.String})
	w.done, w.stale = c.rule(at.Key("done"), f.Done, said, true), c.rule(at.Key("stale"), f.Stale, said, true)
	back := names{vars: types.Map{"set": row.vars["set"], "record": types.Any, "field": types.String}}
	w.value = c.rule(at.Key("read").Key("value"), f.Read.Value, back, false)
	w.version = c.rule(at.Key("read").Key("version"), f.Read.Version, back, false)
	for i, r := range f.Read.Closed {
		w.closed = append(w.closed, c.rule(at.Key("read").Key("closed").Index(i).Key("when"), r.When, back, true))
	}
	sum, _ := json.Marshal(meant(reflect.ValueOf(*f))) // a body that is no JSON was reported
	hash := sha256.Sum256(sum)
	w.meaning = hex.EncodeToString(hash[:4])
	p.write = w
	p.judgeWrite(c, at)
}

// judgeWrite refuses a write that contradicts itself.
func (p *Profile) judgeWrite(c *compiling, at strict.Path) {
	f, w, chosen := p.file.Write, p.write, p.file.Write.Field.Name == ""
	bad := func(key, message string) {
		c.report(c.doc.Problem(append(slices.Clone(at), key), "%s", message))
	}
	switch {
	case !w.reads("value"):
		bad("body", "no part of the request holds the value; write it as ${value}")
	case !w.reads("id"):
		bad("path", "no part of the request says which record it is for; write its id as ${id}")
	case !w.read.reads("id"):
		bad("read", "no part of this request says which record is read; write its id as ${id}")
	case chosen != w.reads("field"):
		bad("field", "the configuration names the field where write.field has no name, and the request then reads it as field; it needs both")
	case chosen && (f.Field.Pattern == "" || f.Field.Example == ""):
		bad("field", "the configuration names this field, so give a pattern that its name must match, and an example")
	case w.reads("version") != (w.version != nil):
		bad("read", "write.read.version gives the version of a record, and the request reads it as version; it needs both")
	}
	for _, pattern := range []string{f.Field.Pattern, f.Field.Value} {
		if _, err := checkText("", "(?:"+pattern+")?"); err != nil {
			bad("field", "a pattern of write.field is not valid")
		}
	}
	for i, name := range f.Changes {
		if _, declared := p.kinds[name]; !declared {
			c.report(c.doc.Problem(at.Key("changes").Index(i), "record.fields declares no field %s; %s", name,
				strict.Suggest(name, names{vars: p.declared()}.list())))
		}
	}
}

// declared are the declared fields, as variables.
func (p *Profile) declared() types.Map {
	out := types.Map{}
	for name := range p.kinds {
		out[name] = types.Any
	}
	return out
}

// WriteFacts says for people which field write-back sets, and which permission it needs.
func (p *Profile) WriteFacts() string {
	f := p.file.Write
	if f == nil {
		return "none: the profile has no block write, so payersync writes nothing there"
	}
	out := "sets one field, " + f.Field.Is
	if f.Needs != "" {
		out += "; it needs " + f.Needs
	}
	return out
}
