package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	generate "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	yaml "go.yaml.in/yaml/v4"
)

// Schema returns the JSON Schema (draft 2020-12) of files for a T, indented, for editors. Names come from the
// yaml tags, descriptions from jsonschema_description tags; keys marked writeOnly hold secrets.
func Schema[T any]() []byte {
	var out bytes.Buffer
	_ = json.Indent(&out, schemaOf[T]().text, "", "  ")
	return append(out.Bytes(), '\n')
}

// schema is a Go type's JSON Schema, ready to use.
type schema struct {
	text     []byte
	tree     any                // text, decoded: for looking up the known keys of a place
	compiled *jsonschema.Schema // text, ready to validate
	secrets  []string           // keys marked writeOnly
}

// schemas holds each type's schema: a type never changes while we run.
var schemas sync.Map

func schemaOf[T any]() *schema {
	t := reflect.TypeFor[T]()
	if known, ok := schemas.Load(t); ok {
		return known.(*schema)
	}
	made, _ := schemas.LoadOrStore(t, newSchema(t))
	return made.(*schema)
}

// NotBlank is the pattern of nonblank texts, for schemas.
const NotBlank = `\S`

// Reflector returns the generator of JSON Schemas from Go types, for types with a partial JSONSchema method
// of their own.
func Reflector() *generate.Reflector {
	return &generate.Reflector{
		FieldNameTag: "yaml", RequiredFromJSONSchemaTags: true,
		Anonymous: true, DoNotReference: true, ExpandedStruct: true,
	}
}

// newSchema panics when a Go type has no schema: it is a mistake in this program, never in a file.
func newSchema(t reflect.Type) *schema {
	s := &schema{}
	var err error
	if s.text, err = json.Marshal(Reflector().ReflectFromType(t)); err != nil {
		panic(fmt.Errorf("schema of %v: %w", t, err))
	}
	if s.tree, err = jsonschema.UnmarshalJSON(bytes.NewReader(s.text)); err != nil {
		panic(fmt.Errorf("schema of %v: %w", t, err))
	}
	c := jsonschema.NewCompiler()
	if err = c.AddResource("file.json", s.tree); err != nil {
		panic(fmt.Errorf("schema of %v: %w", t, err))
	}
	s.compiled = c.MustCompile("file.json")
	s.findSecrets(s.tree)
	return s
}

func (s *schema) findSecrets(tree any) {
	object, ok := tree.(map[string]any)
	if !ok {
		return
	}
	properties, _ := object["properties"].(map[string]any)
	for name, property := range properties {
		if p, ok := property.(map[string]any); ok && (p["writeOnly"] == true || items(p)["writeOnly"] == true) {
			s.secrets = append(s.secrets, name)
		}
		s.findSecrets(property)
	}
	s.findSecrets(object["items"])
}

func items(property map[string]any) map[string]any {
	object, _ := property["items"].(map[string]any)
	return object
}

// unescaper reads the escapes of JSON Pointer.
var unescaper = strings.NewReplacer("~1", "/", "~0", "~")

// at returns the part of the schema at a location.
func (s *schema) at(location string) map[string]any {
	_, fragment, _ := strings.Cut(location, "#")
	if unescaped, err := url.PathUnescape(fragment); err == nil {
		fragment = unescaped
	}
	at := s.tree
	for step := range strings.SplitSeq(strings.TrimPrefix(fragment, "/"), "/") {
		step = unescaper.Replace(step)
		switch v := at.(type) {
		case map[string]any:
			if step != "" {
				at = v[step]
			}
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i < len(v) {
				at = v[i]
			}
		}
	}
	object, _ := at.(map[string]any)
	return object
}

// title returns the schema's name of a value there, as in "a length of time".
func (s *schema) title(location string) string {
	title, _ := s.at(location)["title"].(string)
	return title
}

// known returns the keys allowed by the schema at a location, sorted.
func (s *schema) known(location string) []string {
	properties, _ := s.at(location)["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}

// validate holds the file against a schema.
func (d *Doc) validate(s *schema) []Problem {
	d.secrets = secrets{keys: s.secrets, spans: map[int][]span{}}
	d.hideSecrets(d.root, false)
	if isNull(d.root) {
		return []Problem{{File: d.name, Message: isEmpty}}
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(s.compiled.Validate(value(d.root)), &invalid) {
		return nil
	}
	found := leaves(invalid)
	slices.SortStableFunc(found, func(a, b *jsonschema.ValidationError) int { // the first of the file are told in detail
		return d.order(a.InstanceLocation, b.InstanceLocation)
	})
	var out []Problem
	for _, e := range found {
		d.lean = len(out) >= maxDetailed
		out = append(out, d.explain(s, e)...)
	}
	d.lean = false
	return out
}

// leaves returns the errors with the actual mistakes. If a value may be one of several things, it returns the
// errors of the most similar thing.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	if alternatives(e.ErrorKind) {
		for _, cause := range e.Causes {
			if found := leaves(cause); !wrongType(found, e.InstanceLocation) {
				return found
			}
		}
		return []*jsonschema.ValidationError{e}
	}
	for _, cause := range e.Causes {
		out = append(out, leaves(cause)...)
	}
	return out
}

func alternatives(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.OneOf, *kind.AnyOf:
		return true
	}
	return false
}

func wrongType(found []*jsonschema.ValidationError, at []string) bool {
	_, isType := found[0].ErrorKind.(*kind.Type)
	return isType && slices.Equal(found[0].InstanceLocation, at)
}

// value turns a node into its JSON value. Texts that YAML would turn into times or numbers without end stay
// texts.
func value(node *yaml.Node) any {
	switch node.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(node.Content)/2)
		for i := 0; i+1 < len(node.Content); i += 2 {
			out[node.Content[i].Value] = value(node.Content[i+1])
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, len(node.Content))
		for i, element := range node.Content {
			out[i] = value(element)
		}
		return out
	}
	return scalar(node)
}

func scalar(node *yaml.Node) any {
	var v any
	if err := node.Decode(&v); err != nil {
		return node.Value
	}
	switch v := v.(type) {
	case nil, bool, string, int, int64, uint64:
		return v
	case float64:
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			return v
		}
	}
	return node.Value
}
