package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// object is a JSON object as an ordered list of members whose bytes are kept as
// they came: unknown fields, number spellings and spaces inside values survive.
type object []member

type member struct {
	name  string
	text  []byte // the whole member, "name": value
	value json.RawMessage
}

var errNoObject = errors.New("the body is not one JSON object")

// parseObject reads raw, which must be exactly one JSON object in UTF-8. The
// members share raw's memory.
func parseObject(raw []byte) (object, error) {
	if !utf8.Valid(raw) {
		return nil, errNoObject
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, errNoObject
	}
	var out object
	for dec.More() {
		m, err := readMember(dec, raw)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoObject, err)
		}
		out = append(out, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, errNoObject
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errNoObject
	}
	return out, nil
}

func readMember(dec *json.Decoder, raw []byte) (member, error) {
	// Only spaces and a comma stand between the last value and this name.
	before := int(dec.InputOffset())
	name, err := dec.Token()
	if err != nil {
		return member{}, err
	}
	start := before + bytes.IndexByte(raw[before:], '"')
	var value json.RawMessage
	if err := dec.Decode(&value); err != nil {
		return member{}, err
	}
	end := int(dec.InputOffset())
	return member{name.(string), raw[start:end], raw[end-len(value) : end]}, nil
}

// field returns the member name: value; value is JSON.
func field(name string, value []byte) member {
	quoted := quote(name)
	text := make([]byte, 0, len(quoted)+1+len(value))
	text = append(append(append(text, quoted...), ':'), value...)
	return member{name, text, text[len(text)-len(value):]}
}

// quote returns s as a JSON string.
func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string always has a JSON form
	return b
}

// get returns the value of the last member called name, as a JSON reader that
// lets the last one win would see it; nil when there is none.
func (o object) get(name string) json.RawMessage {
	for _, m := range slices.Backward(o) {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func (o object) has(name string) bool { return o.get(name) != nil }

// text returns the string value of name, and false when it is no string.
func (o object) text(name string) (string, bool) {
	var s *string
	if err := json.Unmarshal(o.get(name), &s); err != nil || s == nil {
		return "", false
	}
	return *s, true
}

// without returns o without the named members.
func (o object) without(names ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return slices.Contains(names, m.name) })
}

// replace returns o with the first member called name standing as with, and
// the others of that name gone.
func (o object) replace(name string, with ...member) object {
	at := slices.IndexFunc(o, func(m member) bool { return m.name == name })
	return slices.Insert(o.without(name), at, with...)
}

// inner returns the members joined by commas, without the braces.
func (o object) inner() []byte {
	texts := make([][]byte, len(o))
	for i, m := range o {
		texts[i] = m.text
	}
	return bytes.Join(texts, []byte(","))
}

func (o object) json() json.RawMessage {
	return slices.Concat([]byte("{"), o.inner(), []byte("}"))
}

// list returns the elements of the JSON array raw; nil and false when it is
// none.
func list(raw json.RawMessage) ([]json.RawMessage, bool) {
	var out []json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil || out == nil {
		return nil, false
	}
	return out, true
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }
