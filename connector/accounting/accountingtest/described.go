package accountingtest

import (
	"fmt"

	"github.com/getkin/kin-openapi/openapi3"

	"payersync/connector"
)

// Undescribed compares the declared fields of a record with the vendor's own schema of it. It returns what the schema
// does not have, or has with another type, by the field's path.
func Undescribed(fields []connector.Field, schema *openapi3.Schema) map[string]string {
	out := map[string]string{}
	undescribed(out, "", fields, schema)
	return out
}

var schemaTypes = map[connector.FieldType][]string{
	connector.TypeText: {"string"}, connector.TypeNumber: {"integer", "number"}, connector.TypeFlag: {"boolean"},
	connector.TypeList: {"array"}, connector.TypeObject: {"object"},
}

func undescribed(out map[string]string, at string, fields []connector.Field, schema *openapi3.Schema) {
	for _, f := range fields {
		name := at + f.Name
		value := propertyOf(schema, f.Name)
		if value == nil {
			out[name] = "the schema has no such field"
			continue
		}
		if value.Type != nil && !includesAny(value.Type, schemaTypes[f.Type]) {
			out[name] = fmt.Sprintf("declared as %s, and the schema says %v", f.Type, *value.Type)
		}
		if value.Items != nil {
			value = value.Items.Value
		}
		undescribed(out, name+".", f.Fields, value)
	}
}

func includesAny(types *openapi3.Types, wanted []string) bool {
	for _, one := range wanted {
		if types.Includes(one) {
			return true
		}
	}
	return false
}

// propertyOf returns the schema of a field; nil if there is none.
func propertyOf(schema *openapi3.Schema, name string) *openapi3.Schema {
	if property := schema.Properties[name]; property != nil {
		return property.Value
	}
	for _, part := range schema.AllOf {
		if found := propertyOf(part.Value, name); found != nil {
			return found
		}
	}
	return nil
}
