package httpsource

import (
	"reflect"
	"strings"
)

// Key is a key of the format of profiles.
type Key struct {
	Name     string `json:"key"` // with the blocks around it, as list.query; [] stands behind a list
	Required bool   `json:"required"`
	Is       string `json:"is"`
}

// Keys returns the keys of the format of profiles in its order. They come from the type that profiles are read into.
func Keys() []Key { return keysOf(reflect.TypeFor[profileFile](), "", 0) }

// deepestKey is the depth of the deepest keys. A field of a record may hold fields.
const deepestKey = 4

func keysOf(t reflect.Type, before string, depth int) (out []Key) {
	if depth == deepestKey {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		key, how, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if how == "inline" {
			out = append(out, keysOf(f.Type, before, depth)...)
			continue
		}
		name, inner := before+key, f.Type
		for more := true; more; {
			switch inner.Kind() {
			case reflect.Slice:
				name += "[]"
				inner = inner.Elem()
			case reflect.Map:
				name += ".NAME"
				inner = inner.Elem()
			case reflect.Pointer:
				inner = inner.Elem()
			default:
				more = false
			}
		}
		schema := f.Tag.Get("jsonschema")
		out = append(out, Key{name, strings.HasPrefix(schema, "required"), strings.TrimSpace(
			f.Tag.Get("jsonschema_description") + choices(schema))})
		if inner.Kind() == reflect.Struct && inner != t {
			out = append(out, keysOf(inner, name+".", depth+1)...)
		}
	}
	return out
}

// choices returns the values that a key may have; "" if there is no list of them.
func choices(schema string) string {
	var values []string
	for part := range strings.SplitSeq(schema, ",") {
		if value, ok := strings.CutPrefix(part, "enum="); ok {
			values = append(values, value)
		}
	}
	if len(values) < 2 {
		return ""
	}
	return " One of " + strings.Join(values, ", ") + "."
}
