package mapping

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"

	"payersync/connector"
)

// Bounds of one record.
const (
	maxRecord = 256 << 10 // bytes
	maxList   = 1000      // elements of one list
)

// RecordError is the reason a record has no result. Detail is a sentence for an accountant; it names the field or the
// mapping's line, never a value.
type RecordError struct {
	Reason connector.Reason
	Line   int // line of the mapping file; 0 when the record itself is at fault
	Detail string
}

// Error returns reason and detail.
func (e *RecordError) Error() string { return string(e.Reason) + ": " + e.Detail }

// fillEnvironment converts a record to the variables of the expressions. A missing or null value becomes the blank of
// its declared type, so expressions never see null. Numbers in text fields keep their digits.
func (m *Mapping) fillEnvironment(env map[string]any, r connector.Record) error {
	if r.Problem != "" {
		return &RecordError{Reason: connector.ReasonRecordUnreadable, Detail: r.Problem}
	}
	if len(r.Data) > maxRecord {
		return &RecordError{Reason: connector.ReasonRecordUnreadable,
			Detail: fmt.Sprintf("The record is larger than %d bytes.", maxRecord)}
	}
	values, isObject := fieldsOf(r)
	if !isObject {
		return &RecordError{Reason: connector.ReasonRecordUnreadable, Detail: "The record is not one JSON object."}
	}
	for _, in := range m.inputs {
		v, err := in.convert(values[in.field.Name])
		if err != nil {
			return &RecordError{Reason: connector.ReasonMappingFailed,
				Detail: fmt.Sprintf("The field %s %s.", in.field.Name, err)}
		}
		env[in.variable] = v
	}
	return nil
}

// fieldsOf returns the fields of a record, and whether it is one JSON object.
func fieldsOf(r connector.Record) (values map[string]any, isObject bool) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(r.Data))
	decoder.UseNumber()
	err := decoder.Decode(&value)
	values, isObject = value.(map[string]any)
	return values, isObject && err == nil
}

// input is a field used by an expression.
type input struct {
	variable string
	field    connector.Field
	goType   reflect.Type
}

// convert gives a field's value its declared type. Texts, by far the most, take
// the short way.
func (in input) convert(v any) (any, error) {
	switch {
	case in.goType.Kind() == reflect.String:
		return textOf(v)
	case in.goType == flagType:
		return readFlag(in.field.Name, v), nil
	}
	out := reflect.New(in.goType).Elem()
	if err := fill(out, in.field, v); err != nil {
		return nil, err
	}
	return out.Interface(), nil
}

// textOf is the text of a JSON value; numbers keep their digits.
func textOf(v any) (string, error) {
	var s string
	switch v := v.(type) {
	case nil:
	case string:
		s = Value(v)
	case json.Number:
		s = v.String()
	case bool:
		s = fmt.Sprint(v)
	default:
		return "", fmt.Errorf("holds %s where a text is declared", jsonKind(v))
	}
	if !validText(s) {
		return "", fmt.Errorf("holds a text that is longer than %d bytes, or broken", maxText)
	}
	return s, nil
}

// fill sets out, a value of the field's Go type, from a JSON value.
func fill(out reflect.Value, f connector.Field, v any) error {
	if v == nil {
		return nil
	}
	switch out.Kind() {
	case reflect.Float64:
		return fillNumber(out, v)
	case reflect.Bool:
		flag, ok := v.(bool)
		if !ok {
			return fmt.Errorf("holds %s where true or false is declared", jsonKind(v))
		}
		out.SetBool(flag)
	case reflect.Struct:
		return fillObject(out, f.Fields, v)
	case reflect.Slice:
		return fillList(out, f, v)
	default:
		s, err := textOf(v)
		if err != nil {
			return err
		}
		out.SetString(s)
	}
	return nil
}

func fillNumber(out reflect.Value, v any) error {
	n, ok := v.(json.Number)
	if !ok {
		return fmt.Errorf("holds %s where a number is declared", jsonKind(v))
	}
	f, err := n.Float64()
	if err != nil {
		return fmt.Errorf("holds a number that is too large")
	}
	out.SetFloat(f)
	return nil
}

func fillObject(out reflect.Value, fields []connector.Field, v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("holds %s where a block of fields is declared", jsonKind(v))
	}
	for i, f := range fields {
		if err := fill(out.Field(i), f, object[f.Name]); err != nil {
			return fmt.Errorf("%w (in %s)", err, f.Name)
		}
	}
	return nil
}

func fillList(out reflect.Value, f connector.Field, v any) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("holds %s where a list is declared", jsonKind(v))
	}
	if len(list) > maxList {
		return fmt.Errorf("holds a list of more than %d elements", maxList)
	}
	out.Set(reflect.MakeSlice(out.Type(), len(list), len(list)))
	for i, element := range list {
		if err := fill(out.Index(i), f, element); err != nil {
			return err
		}
	}
	return nil
}

// jsonKind names the kind of a JSON value.
func jsonKind(v any) string {
	switch v.(type) {
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	}
	return "a block of fields"
}

// validText reports whether a text from a record can be worked with.
func validText(s string) bool { return len(s) <= maxText && utf8.ValidString(s) }
