package billing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func keys(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"k%d":%d`, i, i))
	}
	return "{" + strings.Join(list, ",") + "}"
}

// covers F90
func TestStrictJSONIsBounded(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	tests := []struct {
		name, text string
		want       error
	}{
		{"an object", `{"a":1,"b":{"a":[{"a":1},{"a":2}]}}`, nil},
		{"a number", `1e400`, nil},
		{"depth at the limit", nested(32), nil},
		{"one deeper", nested(33), errTooDeep},
		{"keys at the limit", keys(2000), nil},
		{"one more", keys(2001), errTooMany},
		{"the same key twice", `{"status":1,"x":[],"status":2}`, errKeyTwice},
		{"twins by case", `{"status":1,"STATUS":2}`, errKeyTwice},
		{"twins by an odd letter", `{"kids":1,"\u212aid\u017f":2}`, errKeyTwice},
		{"twins by an escape", `{"a\u0062":1,"ab":2}`, errKeyTwice},
		{"twins deep inside", `[{"x":[{"a":"\"}","A":1}]}]`, errKeyTwice},
		{"the same text as value", `{"a":"a","b":"a"}`, nil},
		{"broken text", "{\"a\":\"\xff\"}", errNotUTF8},
		{"a byte order mark", "\xef\xbb\xbf{}", errNotJSON},
		{"two values", `{} {}`, errNotJSON},
		{"nothing", ` `, errNotJSON},
		{"cut short", `{"a":`, errNotJSON},
	}
	for _, tt := range tests {
		if err := checkJSON([]byte(tt.text)); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
	}
}

// encoding/json reads accepted JSON without a difference, and its parts join to the same value again.
func FuzzStrictJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":{"a":[{"a":"\"},"},{"A":-0.5e3}]}}`, `[1, "x" ,null]`, `{"a":1,"A":2}`, `{"\u0061":1}`, ` "\\" `,
		keys(20), `{"a" : {"b" : [ ]} , "c":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		strict := checkJSON(text) == nil
		if strict && !json.Valid(text) {
			t.Fatalf("passed, and is not JSON: %q", text)
		}
		if want := !hasTwins(text) && json.Valid(text); strict && !want {
			t.Errorf("passed with twin keys: %q", text)
		}
		if !strict {
			return
		}
		if o, err := parseObject(text); err == nil {
			mustEqual(t, text, o.bytes())
		}
		if list, err := split(text, '['); err == nil {
			mustEqual(t, text, joinArray(list))
		}
	})
}

func mustEqual(t *testing.T, text []byte, again json.RawMessage) {
	t.Helper()
	if !bytes.Equal(compact(text), compact(again)) {
		t.Errorf("%q was put together as %q", text, again)
	}
}

// hasTwins finds equal keys by the decoder's own tokens.
func hasTwins(text []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var open []*[]string // the keys of each object; nil for arrays
	atKey := false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) || err != nil {
			return false
		}
		switch v := token.(type) {
		case json.Delim:
			switch v {
			case '{':
				open = append(open, new([]string))
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
			atKey = true
			continue
		case string:
			if len(open) > 0 && open[len(open)-1] != nil && atKey {
				keys := open[len(open)-1]
				if slices.ContainsFunc(*keys, func(key string) bool { return strings.EqualFold(key, v) }) {
					return true
				}
				*keys, atKey = append(*keys, v), false
				continue
			}
		}
		atKey = true
	}
}

func FuzzExternalData(f *testing.F) {
	for _, seed := range []string{
		`{"xeroContactId":"abc","n":1}`, `[{"key":"k","value":"v","x":1},{"key":"o"}]`,
		`{"connectorType":"Xero","id":"1","name":"n"}`,
		`[{"connectorType":"QuickBooks","id":2},{"key":"k","value":"v"},7]`, `null`, `[]`, `{}`,
	} {
		f.Add([]byte(seed), "k", "1", uint8(0))
	}
	f.Fuzz(func(t *testing.T, raw []byte, name, value string, shape uint8) {
		d := Standard()
		d.ExternalData = []string{"map", "list", "object"}[shape%3]
		want := map[string]string{name: value}
		if checkJSON(raw) != nil || name == "" || value == "" || connectorName(name) != name || !utf8.ValidString(name) ||
			!utf8.ValidString(value) {
			return
		}
		merged, err := d.mergePairs(raw, want, nil)
		if err != nil {
			return
		}
		if err := checkJSON(merged); err != nil && !errors.Is(err, errTooDeep) && !errors.Is(err, errTooMany) &&
			!errors.Is(err, errKeyTwice) {
			t.Fatalf("%q became %q: %v", raw, merged, err)
		}
		for key, before := range pairsOf(raw) {
			if key != name && pairsOf(merged)[key] != before {
				t.Errorf("pair %q of %q is lost in %q", key, raw, merged)
			}
		}
		again, err := d.mergePairs(merged, want, nil)
		if err != nil || !bytes.Equal(again, merged) {
			t.Errorf("%q merged again became %q, %v", merged, again, err)
		}
	})
}
