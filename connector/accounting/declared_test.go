package accounting_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/connector/accounting"
)

// shape declares one field of every type.
var shape = []connector.Field{
	{Name: "Id", Type: connector.TypeText},
	{Name: "Days", Type: connector.TypeNumber},
	{Name: "Active", Type: connector.TypeFlag},
	{Name: "Terms", Type: connector.TypeObject, Fields: []connector.Field{{Name: "Name", Type: connector.TypeText}}},
	{Name: "Tags", Type: connector.TypeList},
	{Name: "People", Type: connector.TypeList, Fields: []connector.Field{{Name: "Name", Type: connector.TypeText}}},
}

func TestDeclaredKeepsDeclaredFieldsInTheirOrder(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, object, want string }{
		{"order", `{"Active":true,"Days":1,"Id":"a"}`, `{"Id":"a","Days":1,"Active":true}`},
		{"fields nobody declared", `{"Id":"a","Bank":"12-34-56","Terms":{"Name":"n","Rate":2}}`,
			`{"Id":"a","Terms":{"Name":"n"}}`},
		{"absent, null and empty", `{"Id":"","Terms":null,"Tags":[],"People":[{}]}`,
			`{"Id":"","Terms":null,"Tags":[],"People":[{}]}`},
		{"digits in a text keep every one", `{"Id":12345678901234567890}`, `{"Id":"12345678901234567890"}`},
		{"a number keeps its spelling", `{"Days":1.50e1}`, `{"Days":1.50e1}`},
		{"lists", `{"Tags":["a",null,7],"People":[{"Age":3,"Name":"n"},null]}`,
			`{"Tags":["a",null,"7"],"People":[{"Name":"n"},null]}`},
		{"escapes stay as they came", `{"Id":"\u00e9\/\ud83d\ude00"}`, `{"Id":"\u00e9\/\ud83d\ude00"}`},
		{"nothing declared", `{"x":1}`, `{}`},
		{"another case is another field", `{"id":"a"}`, `{}`},
		{"blanks", " {\n \"Id\" : \"a\" } ", `{"Id":"a"}`},
	}
	for _, tt := range tests {
		got, problem := accounting.Declared(json.RawMessage(tt.object), shape)
		if problem != "" || string(got) != tt.want {
			t.Errorf("%s: %s, problem %q; want %s", tt.name, got, problem, tt.want)
		}
	}
}

func TestDeclaredNamesTheFieldOfAnotherTypeAndNoValue(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{
		`{"Id":{"a":"private"}}`:         "The field Id is not a text.",
		`{"Id":true}`:                    "The field Id is not a text.",
		`{"Days":"private"}`:             "The field Days is not a number.",
		`{"Active":"private"}`:           "The field Active is not true or false.",
		`{"Terms":"private"}`:            "The field Terms is not an object.",
		`{"Terms":{"Name":["private"]}}`: "The field Terms.Name is not a text.",
		`{"Tags":"private"}`:             "The field Tags is not a list.",
		`{"People":["private"]}`:         "The field People is not an object.",
		`{"People":[{"Name":[1]}]}`:      "The field People.Name is not a text.",
		`["private"]`:                    "The record is not an object.",
		`null`:                           "The record is not an object.",
		`{"Id":"private`:                 "The record is not an object.",
		"{\"Id\":\"private \xff\"}":      "The record holds characters that are no text.",
	} {
		if got, problem := accounting.Declared(json.RawMessage(object), shape); problem != want || got != nil {
			t.Errorf("%s: %s, problem %q; want %s", object, got, problem, want)
		}
	}
}

func TestDeclaredTwiceIsDeclaredOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.Map(rapid.MapOf(rapid.SampledFrom([]string{"Id", "Days", "Active", "Terms", "Tags", "x"}),
			rapid.SampledFrom([]any{nil, "", "a", 7, true, []any{"a"}, map[string]any{"Name": "n", "y": 1}})),
			func(m map[string]any) []byte {
				text, _ := json.Marshal(m)
				return text
			}).Draw(t, "object")
		once, problem := accounting.Declared(object, shape)
		if problem != "" {
			return
		}
		twice, problem := accounting.Declared(once, shape)
		if problem != "" || string(twice) != string(once) {
			t.Fatalf("%s became %s, and that %s, problem %q", object, once, twice, problem)
		}
	})
}

func TestNotJSONSaysWhatCame(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"a":1}`: "", " \n[1]": "", "": "nothing", " \n\t": "nothing",
		"<!DOCTYPE html><p>": "a web page", "<HTML>": "a web page", "<?xml version=\"1.0\"?><a/>": "XML",
		"<Response/>": "XML",
		`{"a":`:       "JSON that is cut off", `[1,`: "JSON that is cut off", "Invalid Company Status": "other text",
		`"a"`: "other text", "\xff": "other text",
	} {
		if got := accounting.NotJSON([]byte(body)); got != want {
			t.Errorf("NotJSON(%q) = %q, want %q", body, got, want)
		}
	}
}

// FuzzDeclared gives it whatever may come: it is refused with a sentence, or the
// outcome is one JSON object of declared fields.
func FuzzDeclared(f *testing.F) {
	for _, seed := range []string{
		`{"Id":"a","Days":1,"Active":true,"Terms":{"Name":"n"},"Tags":["a"],"People":[{"Name":"n"}]}`, `{"Id":1,"Id":"b"}`,
		`[]`, `null`, `{`, "{\"Id\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		got, problem := accounting.Declared(object, shape)
		if problem != "" {
			if !strings.HasPrefix(problem, "The ") || !strings.HasSuffix(problem, ".") || len(problem) > 80 {
				t.Errorf("problem %q is no sentence", problem)
			}
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(got, &members); err != nil {
			t.Fatalf("%q became %q: %v", object, got, err)
		}
		for name := range members {
			if !strings.Contains(" Id Days Active Terms Tags People ", " "+name+" ") {
				t.Errorf("%q gave the field %q", object, name)
			}
		}
	})
}
