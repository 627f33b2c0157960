package mapping

import (
	"fmt"
	"reflect"
	"strings"
)

// roles are the indexes of the fields for phone and address in a list's elements: the first text field with a matching
// name end, and -1 for none.
type roles struct{ kind, number, area, country int }

func rolesOf(element reflect.Type) roles {
	return roles{ending(element, "type"), ending(element, "number"), ending(element, "areacode"),
		ending(element, "countrycode")}
}

func ending(element reflect.Type, role string) int {
	for i := range element.NumField() {
		if f := element.Field(i); f.Type.Kind() == reflect.String &&
			strings.HasSuffix(strings.ToLower(f.Tag.Get("expr")), role) {
			return i
		}
	}
	return -1
}

// elementType checks the arguments of phone and address.
func elementType(name string, args []reflect.Type) (reflect.Type, error) {
	if len(args) != 2 || args[0].Kind() != reflect.Slice || args[1].Kind() != reflect.String {
		return nil, fmt.Errorf("the arguments do not fit; use %s(list, type)", name)
	}
	element := args[0].Elem()
	if element.Kind() == reflect.Interface {
		return nil, fmt.Errorf("%s looks into a list of the record itself; pick from this one with [0]", name)
	}
	if element.Kind() != reflect.Struct || rolesOf(element).kind < 0 {
		return nil, fmt.Errorf("%s needs a list whose elements have a field ending in Type", name)
	}
	return element, nil
}

func addressResult(args []reflect.Type) (reflect.Type, error) {
	return elementType("address", args)
}

// address returns the list's element with the given type, and a blank one when
// there is none. args[2] are the list's roles.
func address(_ *meter, args []any) (any, error) {
	r := args[2].(roles)
	element, ok := ofType(args, func(e reflect.Value) bool {
		for i := range e.NumField() {
			if f := e.Field(i); i != r.kind && f.Kind() == reflect.String && !blank(f.String()) {
				return true
			}
		}
		return false
	})
	if !ok {
		return reflect.Zero(reflect.TypeOf(args[0]).Elem()).Interface(), nil
	}
	return element.Interface(), nil
}

// ofType finds the first filled element of the list args[0] with the type args[1]: accounting systems keep blank
// elements in place of missing ones.
func ofType(args []any, filled func(reflect.Value) bool) (reflect.Value, bool) {
	list := reflect.ValueOf(args[0])
	want, err := text(args[1])
	if err != nil {
		return reflect.Value{}, false
	}
	kind := args[2].(roles).kind
	for i := range list.Len() {
		if element := list.Index(i); strings.EqualFold(element.Field(kind).String(), want) && filled(element) {
			return element, true
		}
	}
	return reflect.Value{}, false
}
