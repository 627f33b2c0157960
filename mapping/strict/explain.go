package strict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	yaml "go.yaml.in/yaml/v4"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"payersync/connector"
)

// explain puts one schema error into plain words.
func (d *Doc) explain(s *schema, e *jsonschema.ValidationError) []Problem {
	path := Path(e.InstanceLocation)
	one := func(p Problem) []Problem { return []Problem{p} }
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		return d.unknownKeys(path, k.Properties, s, e.SchemaURL)
	case *kind.Required:
		return d.missingKeys(path, k.Missing, s, e.SchemaURL)
	case *kind.Type:
		return one(d.wrongType(path, k, s.called(e.SchemaURL)))
	case *kind.OneOf, *kind.AnyOf:
		want := cmp.Or(s.title(e.SchemaURL), plainTypes(causeTypes(e)))
		if isNull(d.Node(path)) {
			return one(d.Problem(path, "%s is empty; give it %s, or remove the key", named(path), want))
		}
		return one(d.Problem(path, "%s must be %s", named(path), want))
	case *kind.Pattern:
		if k.Want == NotBlank {
			return one(d.Problem(path, "%s is blank; write %s, or remove the key", named(path),
				cmp.Or(s.title(e.SchemaURL), "a text")))
		}
		return one(d.Problem(path, "%s must be %s", named(path), cmp.Or(s.title(e.SchemaURL), "written in another way")))
	case *kind.Enum:
		return one(d.unknownValue(path, k))
	case *kind.MinItems:
		return one(d.Problem(path, "%s must have at least %s", named(path), counted(k.Want, "element")))
	case *kind.MaxItems:
		return one(d.Problem(path.Index(k.Want), "%s must have %s; remove this one", named(path),
			cmp.Or(s.title(e.SchemaURL), "at most "+counted(k.Want, "element"))))
	case *kind.UniqueItems:
		return one(d.Problem(path.Index(k.Duplicates[1]), "%s names this twice", named(path)))
	case *kind.MinProperties:
		return one(d.KeyProblem(path, "%s must have %s", named(path),
			cmp.Or(s.title(e.SchemaURL), "at least "+counted(k.Want, "key"))))
	case *kind.MaxProperties:
		return one(d.KeyProblem(path, "%s must have %s", named(path),
			cmp.Or(s.title(e.SchemaURL), "at most "+counted(k.Want, "key"))))
	case *kind.MinLength:
		return one(d.Problem(path, "%s must not be blank", named(path)))
	case *kind.Minimum:
		return one(d.Problem(path, "%s must be at least %s", named(path), k.Want.RatString()))
	case *kind.Maximum:
		return one(d.Problem(path, "%s must be at most %s", named(path), k.Want.RatString()))
	case *kind.ExclusiveMinimum:
		return one(d.Problem(path, "%s must be more than %s", named(path), k.Want.RatString()))
	}
	return one(d.Problem(path, "%s is not right: %s", named(path),
		e.ErrorKind.LocalizedString(message.NewPrinter(language.English))))
}

// wrongType explains a value of the wrong kind; title is what the schema calls
// the right one, "" when it has no name.
func (d *Doc) wrongType(path Path, k *kind.Type, title string) Problem {
	want := cmp.Or(title, plainTypes(k.Want))
	switch {
	case k.Got == "null":
		return d.Problem(path, "%s is empty; give it %s, or remove the key", named(path), want)
	case title == "" && slices.Contains(k.Want, "string") &&
		slices.Contains([]string{"integer", "number", "boolean"}, k.Got):
		return d.Problem(path, "%s must be %s, not %s; put it in quotes", named(path), want, plainType(k.Got))
	}
	return d.Problem(path, "%s must be %s, not %s", named(path), want, plainType(k.Got))
}

func named(path Path) string {
	if len(path) == 0 {
		return "the file"
	}
	return path.String()
}

func in(path Path) string {
	if len(path) == 0 {
		return ""
	}
	return " in " + path.String()
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (d *Doc) unknownKeys(path Path, keys []string, s *schema, location string) []Problem {
	known := s.known(location)
	places := make(map[string]*yaml.Node, len(keys))
	for _, key := range keys {
		places[key] = d.Node(path.Key(key))
	}
	slices.SortFunc(keys, func(a, b string) int { return inOrder(places[a], places[b]) })
	out := make([]Problem, len(keys))
	for i, key := range keys {
		at := path.Key(key)
		if d.lean = d.lean || i >= maxDetailed; d.lean {
			out[i] = d.KeyProblem(at, "unknown key %q%s", key, in(path))
			continue
		}
		if strings.TrimSpace(key) == "" {
			out[i] = d.KeyProblem(at, "this key has no name; give it one")
			continue
		}
		switch meant, elsewhere := s.meant(location, key), s.place(key); {
		case d.isCut(at):
			out[i] = d.KeyProblem(at, "%q follows a comma and has no value; put the whole text in quotes", key)
			out[i].Instead = d.uncut(at)
		case meant != "":
			out[i] = d.KeyProblem(at, "unknown key %q%s; did you mean %q?", key, in(path), meant)
			out[i].Instead = d.KeyInstead(at, meant)
		case elsewhere != "" && !strings.Contains(elsewhere, ".") && d.Node(Path{elsewhere}) == nil:
			out[i] = d.KeyProblem(at, "unknown key %q%s; put %s on a line that is not indented, as it belongs at the top", key,
				in(path), elsewhere)
		case strings.HasPrefix(elsewhere, path.String()+".") || len(path) == 0 && elsewhere != "":
			out[i] = d.KeyProblem(at, "unknown key %q%s; write it as %s", key, in(path), elsewhere)
			out[i].Instead = d.nested(at, elsewhere)
		default:
			out[i] = d.KeyProblem(at, "unknown key %q%s; %s", key, in(path), Suggest(key, known))
		}
	}
	return out
}

// isCut reports whether a key is the end of a text without quotes that its comma has cut: a further key inside braces,
// without a value.
func (d *Doc) isCut(at Path) bool {
	block, name := d.Node(at[:len(at)-1]), at[len(at)-1]
	key, value := d.child(block, name)
	return block.Kind == yaml.MappingNode && block.Style&yaml.FlowStyle != 0 && key != block.Content[0] && isNull(value) &&
		value.Value == ""
}

// uncut returns the line with the whole text in quotes; "" for a text of several lines, and for a line with a possible
// secret.
func (d *Doc) uncut(at Path) string {
	block := d.Node(at[:len(at)-1])
	key, _ := d.child(block, at[len(at)-1])
	i := slices.Index(block.Content, key)
	begin, last := block.Content[i-1], key
	for ; i < len(block.Content) && d.isCut(append(at[:len(at)-1:len(at)-1], block.Content[i].Value)); i += 2 {
		last = block.Content[i]
	}
	if begin.Kind != yaml.ScalarNode || begin.Value == "" || isQuoted(begin) || begin.Line != last.Line ||
		d.shown(begin.Line) != d.lines[begin.Line-1] {
		return ""
	}
	line := d.written(begin.Line)
	from, end := begin.Column-1, last.Column-1+d.width(last)
	if end > len(line) {
		return ""
	}
	return string(line[:from]) + quotedFor(string(line[from:end]), false) + string(line[end:])
}

// nested returns the lines of a key placed some blocks too high: those blocks, and the key in the innermost.
func (d *Doc) nested(at Path, belongs string) string {
	inside, below := strings.CutPrefix(belongs, strings.TrimPrefix(at[:len(at)-1].String()+".", "."))
	steps := strings.Split(inside, ".")
	line := d.KeyInstead(at, steps[len(steps)-1])
	if !below || line == "" || !d.inBlock(at) {
		return ""
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	out := ""
	for _, step := range steps[:len(steps)-1] {
		name, isList := strings.CutSuffix(step, "[0]")
		out += indent + name + ":\n"
		indent = strings.Repeat(" ", len(indent)+2)
		if isList {
			indent += "- "
		}
	}
	return out + indent + strings.TrimLeft(line, " ")
}

// Also is the schema's mark for other words people use for a key, for jsonschema_extras tags.
const Also = "x-also"

// meant returns the probably intended key at a location for a word: a similar spelling, or a synonym; "" for
// none.
func (s *schema) meant(location, word string) string {
	if near := connector.Nearest(strings.Trim(word, "\"'“”„\u00a0"), s.known(location)); near != "" {
		return near
	}
	for _, key := range s.known(location) {
		if slices.ContainsFunc(alsoCalled(s.at(location), key), func(also string) bool { return sameWord(also, word) }) {
			return key
		}
	}
	return ""
}

func alsoCalled(object map[string]any, key string) (words []string) {
	properties, _ := object["properties"].(map[string]any)
	property, _ := properties[key].(map[string]any)
	switch also := property[Also].(type) {
	case string:
		words = append(words, also)
	case []any:
		words = append(words, connector.Map(also, func(word any) string { return fmt.Sprint(word) })...)
	}
	return words
}

// sameWord reports whether two words differ in their case and joints only.
func sameWord(a, b string) bool { return strings.EqualFold(joints.Replace(a), joints.Replace(b)) }

var joints = strings.NewReplacer("-", "", "_", "", " ", "")

// place returns the highest right place of a misplaced key, and "" when there is none.
func (s *schema) place(key string) string {
	level := []place{{"", s.tree}}
	for len(level) > 0 {
		var next []place
		for _, p := range level {
			object, ok := p.of.(map[string]any)
			if !ok {
				continue
			}
			properties, _ := object["properties"].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(properties)) {
				path := strings.TrimPrefix(p.path+"."+name, ".")
				if sameWord(name, key) ||
					slices.ContainsFunc(alsoCalled(object, name), func(also string) bool { return sameWord(also, key) }) {
					return path
				}
				next = append(next, place{path, properties[name]})
			}
			next = append(next, place{p.path + "[0]", object["items"]})
			choices, _ := object["oneOf"].([]any)
			next = append(next, connector.Map(choices, func(choice any) place { return place{p.path, choice} })...)
		}
		level = next
	}
	return ""
}

// place is a part of a schema and the path it describes.
type place struct {
	path string
	of   any
}

// Suggest returns the end of a sentence about an unknown word: the probably intended word, or else all known
// words.
func Suggest(word string, known []string) string {
	if near := connector.Nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "what is known here: " + strings.Join(known, ", ")
}

// missingKeys reports missing keys at their block. A key with another spelling is reported as such.
func (d *Doc) missingKeys(path Path, keys []string, s *schema, location string) []Problem {
	var written []string
	if node := d.Node(path); node != nil && node.Kind == yaml.MappingNode && !d.lean {
		for i := 0; i < min(len(node.Content), 2*maxDetailed); i += 2 {
			written = append(written, node.Content[i].Value)
		}
	}
	var out []Problem
	for _, key := range keys {
		if !slices.ContainsFunc(written, func(word string) bool { return s.meant(location, word) == key }) {
			out = append(out, d.Problem(path, "the key %q is missing%s; add it: %s", key, in(path), s.example(location, key)))
		}
	}
	return out
}

// example returns a key as written, with the value in its schema.
func (s *schema) example(location, key string) string {
	properties, _ := s.at(location)["properties"].(map[string]any)
	property, _ := properties[key].(map[string]any)
	examples, _ := property["examples"].([]any)
	if len(examples) == 0 {
		return key + ": …"
	}
	return fmt.Sprintf("%s: %v", key, examples[0])
}

// called returns what a value at a location is called: its title, or for a block
// its most important key.
func (s *schema) called(location string) string {
	if title := s.title(location); title != "" {
		return title
	}
	keys := s.known(location)
	if required, ok := s.at(location)["required"].([]any); ok && len(required) > 0 {
		keys = []string{fmt.Sprint(required[0])}
	}
	switch {
	case s.at(location)["type"] == "array":
		return "a list, whose elements stand on lines that begin with -"
	case len(keys) == 0:
		return ""
	}
	return "a block of keys, as in " + s.example(location, keys[0])
}

func (d *Doc) unknownValue(path Path, k *kind.Enum) Problem {
	var words []string
	for _, w := range k.Want {
		if word := fmt.Sprint(w); !slices.Contains(words, word) { // 0 and "0" are one to a person
			words = append(words, word)
		}
	}
	got, choices := fmt.Sprint(k.Got), strings.Join(words, ", ")
	if near := connector.Nearest(got, words); near != "" {
		return d.Problem(path, "%s cannot be %q; did you mean %q? The choices are: %s", named(path), got, near, choices)
	}
	return d.Problem(path, "%s cannot be %q; the choices are: %s", named(path), got, choices)
}

func plainType(json string) string {
	words := map[string]string{
		"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
		"array": "a list", "object": "a block of keys", "null": "empty",
	}
	return words[json]
}

func plainTypes(json []string) string {
	words := connector.Map(json, plainType)
	return strings.Join(words, " or ")
}

func causeTypes(e *jsonschema.ValidationError) []string {
	var out []string
	for _, cause := range e.Causes {
		if k, ok := leaves(cause)[0].ErrorKind.(*kind.Type); ok {
			out = append(out, k.Want...)
		}
	}
	return out
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}
