package sqltable

import (
	"encoding/json"
	"testing"

	"payersync/connector"
	"payersync/connector/accounting"
)

// FuzzValues encodes whatever a column may hold: there is a problem, or JSON of
// the declared type, with the text or the digits as they were.
func FuzzValues(f *testing.F) {
	f.Add("Zoë", int64(1), 0.5)
	f.Add("a\x00b", int64(-1), -0.5)
	f.Add("\xff", int64(9007199254740993), 1e300)
	f.Add("1e5", int64(0), 1e-9)
	f.Fuzz(func(t *testing.T, text string, whole int64, fraction float64) {
		for _, value := range []any{text, []byte(text), whole, uint64(whole), fraction, float32(fraction), whole > 0, nil} {
			for k, fieldType := range map[kind]connector.FieldType{kindText: connector.TypeText,
				kindNumber: connector.TypeNumber, kindFlag: connector.TypeFlag} {
				c := column{kind: k, field: connector.Field{Name: "x", Type: fieldType}}
				got, problem := c.encode(value)
				if problem != "" {
					if got != nil {
						t.Errorf("%v as %s: %s with problem %q", value, k, got, problem)
					}
					continue
				}
				object := json.RawMessage(`{"x":` + string(got) + `}`)
				if same, problem := accounting.Declared(object, []connector.Field{c.field}); problem != "" ||
					string(same) != string(object) {
					t.Errorf("%v as %s becomes %s, then %s: %s", value, k, object, same, problem)
				}
				var back string
				if k == kindText && value == any(text) && (json.Unmarshal(got, &back) != nil || back != text) {
					t.Errorf("%q became %s", text, got)
				}
			}
		}
	})
}
