package httpsource

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
)

// Meaning returns a hash of all that decides what payersync asks, reads and concludes. Comments, the order of keys and
// the words for people are not in it. A key with its default value counts as left out. So a new key of the format
// changes the meaning only of the profiles that use it.
func (p *Profile) Meaning() string { return p.meaning }

func meaningOf(f profileFile) (string, error) {
	said, err := json.Marshal(meant(reflect.ValueOf(f)))
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:]), err
}

// meant returns a part of a profile by its keys. It leaves out fields with the tag meaning:"-". Bodies of requests
// stay whole, and so do other parts whose keys are the system's.
func meant(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Struct:
		out := map[string]any{}
		addMeant(out, v)
		return out
	case reflect.Pointer:
		return meant(v.Elem())
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = meant(v.Index(i))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, key := range v.MapKeys() {
			out[key.String()] = meant(v.MapIndex(key))
		}
		return out
	default:
		return v.Interface()
	}
}

func addMeant(out map[string]any, v reflect.Value) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		key, how, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case field.Tag.Get("meaning") == "-" || value.IsZero():
		case how == "inline":
			addMeant(out, value)
		default:
			out[key] = meant(value)
		}
	}
}
