package accounting

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"payersync/connector"
)

// Declared returns the declared fields of a JSON object, in the order of their declaration. So the hash stays
// the same if a system adds or reorders fields. An absent field stays absent, null stays null, and "" stays
// "". Digits in a text field become their text: ids are texts everywhere. A field of another type is a
// problem: a sentence with the field's name, without its value.
func Declared(object json.RawMessage, fields []connector.Field) (data json.RawMessage, problem string) {
	if !utf8.Valid(object) {
		return nil, "The record holds characters that are no text."
	}
	var out bytes.Buffer
	if wrong := appendObject(&out, object, fields, ""); wrong != nil {
		return nil, wrong.sentence()
	}
	return out.Bytes(), ""
}

// DeclaredMembers is Declared for an object that was read already.
func DeclaredMembers(members map[string]json.RawMessage, fields []connector.Field) (data json.RawMessage,
	problem string) {
	var out bytes.Buffer
	if wrong := appendMembers(&out, members, fields, ""); wrong != nil {
		return nil, wrong.sentence()
	}
	if !utf8.Valid(out.Bytes()) {
		return nil, "The record holds characters that are no text."
	}
	return out.Bytes(), ""
}

// misfit is a value of another type than declared.
type misfit struct {
	path string // what leads to it, with a dot at its end; "" for the record
	what string // the expected kind
}

func (m misfit) sentence() string {
	if m.path == "" {
		return fmt.Sprintf("The record is not %s.", m.what)
	}
	return fmt.Sprintf("The field %s is not %s.", m.path[:len(m.path)-1], m.what)
}

// appendObject writes the declared fields of value; path is what leads to it,
// with a dot at its end.
func appendObject(out *bytes.Buffer, value json.RawMessage, fields []connector.Field, path string) *misfit {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil || members == nil {
		return &misfit{path, "an object"}
	}
	return appendMembers(out, members, fields, path)
}

func appendMembers(out *bytes.Buffer, members map[string]json.RawMessage, fields []connector.Field,
	path string) *misfit {
	before := byte('{')
	for _, f := range fields {
		member, ok := members[f.Name]
		if !ok {
			continue
		}
		out.WriteByte(before)
		out.WriteString(strconv.Quote(f.Name) + ":")
		if wrong := appendValue(out, member, f, path+f.Name+"."); wrong != nil {
			return wrong
		}
		before = ','
	}
	if before == '{' {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return nil
}

func appendValue(out *bytes.Buffer, value json.RawMessage, f connector.Field, path string) *misfit {
	if string(value) == "null" {
		out.Write(value)
		return nil
	}
	start := value[0]
	digits := start == '-' || '0' <= start && start <= '9'
	switch f.Type {
	case connector.TypeObject:
		return appendObject(out, value, f.Fields, path)
	case connector.TypeList:
		return appendList(out, value, f, path)
	case connector.TypeText:
		if digits {
			value = json.RawMessage(strconv.Quote(string(value)))
		} else if start != '"' {
			return &misfit{path, "a text"}
		}
	case connector.TypeNumber:
		if !digits {
			return &misfit{path, "a number"}
		}
	case connector.TypeFlag:
		if start != 't' && start != 'f' {
			return &misfit{path, "true or false"}
		}
	}
	out.Write(value)
	return nil
}

// appendList writes a list: of objects when its elements' fields are declared,
// else of texts.
func appendList(out *bytes.Buffer, value json.RawMessage, f connector.Field, path string) *misfit {
	var elements []json.RawMessage
	if err := json.Unmarshal(value, &elements); err != nil {
		return &misfit{path, "a list"}
	}
	element := connector.Field{Type: connector.TypeText}
	if len(f.Fields) > 0 {
		element = connector.Field{Type: connector.TypeObject, Fields: f.Fields}
	}
	out.WriteByte('[')
	for i, e := range elements {
		if i > 0 {
			out.WriteByte(',')
		}
		if wrong := appendValue(out, e, element, path); wrong != nil {
			return wrong
		}
	}
	out.WriteByte(']')
	return nil
}
