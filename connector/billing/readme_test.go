package billing

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// The table of open points in README.md has a line for every setting of a Dialect,
// with its value in both profiles.
func TestREADMEHasEveryOpenPointWithItsDefault(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	standard, adfin := settings("", reflect.ValueOf(Standard())), settings("", reflect.ValueOf(Adfin()))
	if len(standard) < 15 {
		t.Fatalf("a dialect has %d settings: this check has lost its subject", len(standard))
	}
	for i, s := range standard {
		line := fmt.Sprintf("\n| `%s` | %s | %s | ", s.key, spans(s.values), spans(adfin[i].values))
		if s.key == "read_only" {
			line = fmt.Sprintf("\n| `read_only` | %s | these, %s | ", spans(s.values), spans(adfin[i].values[len(s.values):]))
		}
		if !strings.Contains(string(text), line) {
			t.Errorf("README.md has no line that begins with %q", line[1:])
		}
	}
}

// dialectSetting is one setting by its key in the configuration.
type dialectSetting struct {
	key    string
	values []string
}

func settings(prefix string, v reflect.Value) (out []dialectSetting) {
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("yaml")
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			out = append(out, settings(key+".", f)...)
		case reflect.Slice:
			var values []string
			for j := range f.Len() {
				values = append(values, f.Index(j).String())
			}
			out = append(out, dialectSetting{key, values})
		default:
			value := fmt.Sprint(f.Interface())
			if value == "" {
				value = `""`
			}
			out = append(out, dialectSetting{key, []string{value}})
		}
	}
	return out
}

// spans spells values as code, with commas.
func spans(values []string) string { return "`" + strings.Join(values, "`, `") + "`" }
