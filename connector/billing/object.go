package billing

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"payersync/connector"
)

// object is a JSON object with its members in order and their keys and values byte for byte. It loses only whitespace
// between members. Foreign data passes through payersync this way without parsing (fault F55).
type object []member

type member struct {
	key    string          // the key's name
	rawKey json.RawMessage // how it was spelt, quotes included
	value  json.RawMessage
}

// parseObject splits text already checked by checkJSON.
func parseObject(text []byte) (object, error) {
	parts, err := split(text, '{')
	if err != nil {
		return nil, err
	}
	out := make(object, 0, len(parts))
	for _, part := range parts {
		end := stringEnd(part, 0)
		value := bytes.TrimSpace(bytes.TrimSpace(part[end:])[1:]) // behind the colon
		out = append(out, member{unquote(part[:end]), part[:end:end], value})
	}
	return out, nil
}

// parseArray splits text already checked by checkJSON; null is an empty array.
func parseArray(text []byte) ([]json.RawMessage, error) {
	parts, err := eachElement(text)
	if err != nil {
		return nil, err
	}
	return slices.Collect(parts), nil
}

// eachElement is an iterator form of parseArray, for lists with few kept elements.
func eachElement(text []byte) (iter.Seq[json.RawMessage], error) {
	if isNull(text) {
		return func(func(json.RawMessage) bool) {}, nil
	}
	return each(text, '[')
}

// split returns the members or elements of a valid object or array as they came.
func split(text []byte, bracket byte) ([]json.RawMessage, error) {
	parts, err := each(text, bracket)
	if err != nil {
		return nil, err
	}
	return slices.AppendSeq(make([]json.RawMessage, 0, 8), parts), nil
}

// each is split one by one.
func each(text []byte, bracket byte) (iter.Seq[json.RawMessage], error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != bracket {
		if bracket == '{' {
			return nil, errNotObject
		}
		return nil, errNotArray
	}
	return func(yield func(json.RawMessage) bool) {
		depth, start := 0, 1
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case c == '"':
				i = stringEnd(text, i) - 1
			case c == '{', c == '[':
				depth++
			case c == '}', c == ']':
				depth--
			}
			if depth == 0 || depth == 1 && text[i] == ',' {
				if part := bytes.TrimSpace(text[start:i]); len(part) > 0 && !yield(part[:len(part):len(part)]) {
					return
				}
				start = i + 1
			}
		}
	}, nil
}

func isNull(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || string(text) == "null"
}

func (o object) index(key string) int {
	return slices.IndexFunc(o, func(m member) bool { return m.key == key })
}

func (o object) has(key string) bool { return o.index(key) >= 0 }

// get returns the member's value; nil when there is none.
func (o object) get(key string) json.RawMessage {
	if i := o.index(key); i >= 0 {
		return o[i].value
	}
	return nil
}

// text returns the first member with text or a number, as text.
func (o object) text(keys ...string) string {
	return connector.First(keys, func(key string) string { return scalar(o.get(key)) })
}

// at returns the text at a path of names with dots between them; "" for none.
func (o object) at(path string) string { return (&finder{of: o}).at(path) }

// finder is at for many paths: it splits each object inside of one once.
type finder struct {
	of     object
	inside map[string]*finder // by its name; nil for anything but an object
}

func (f *finder) at(path string) string {
	key, rest, nested := strings.Cut(path, ".")
	if !nested || !f.of.has(key) {
		return scalar(f.of.get(key))
	}
	in, known := f.inside[key]
	if !known {
		if inner, err := parseObject(f.of.get(key)); err == nil {
			in = &finder{of: inner}
		}
		if f.inside == nil {
			f.inside = make(map[string]*finder)
		}
		f.inside[key] = in
	}
	if in == nil {
		return ""
	}
	return in.at(rest)
}

// set replaces the member in place or adds it at the end.
func (o *object) set(key string, value json.RawMessage) {
	if i := o.index(key); i >= 0 {
		(*o)[i].value = value
		return
	}
	*o = append(*o, member{key, quote(key), value})
}

func (o *object) remove(key string) {
	*o = slices.DeleteFunc(*o, func(m member) bool { return m.key == key })
}

// bytes returns the object without any whitespace between its members.
func (o object) bytes() json.RawMessage {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.rawKey...), ':'), m.value...)
	}
	return append(out, '}')
}

func joinArray(elements []json.RawMessage) json.RawMessage {
	out := []byte{'['}
	for i, element := range elements {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, element...)
	}
	return append(out, ']')
}

// scalar returns a string, or a number with the digits it came with, as text;
// "" for anything else.
func scalar(value json.RawMessage) string {
	switch {
	case len(value) == 0:
		return ""
	case value[0] == '"':
		return unquote(value)
	case value[0] == '-' || '0' <= value[0] && value[0] <= '9':
		return string(value)
	}
	return ""
}

// quote returns s as JSON without HTML escapes.
func quote(s string) json.RawMessage {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return json.RawMessage(`"` + s + `"`)
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string always encodes
	return json.RawMessage(strings.TrimSuffix(out.String(), "\n"))
}
