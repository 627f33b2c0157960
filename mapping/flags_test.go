package mapping

import (
	"fmt"
	"strings"
	"testing"

	"payersync/connector"
)

// A column of 1 and 0 is a condition whatever its type, in tables and in CSV files.
func TestIncludeReadsAColumnOfYesAndNo(t *testing.T) {
	t.Parallel()
	const neither, nothing = "holds neither yes nor no", "is blank"
	for _, tt := range []struct {
		kind    string
		typed   connector.FieldType
		include string
		data    string
		want    string // "true", "false", or a part of the problem
	}{
		{"sql", connector.TypeNumber, "active", `1`, "true"},
		{"sql", connector.TypeNumber, "active", `0`, "false"},
		{"sql", connector.TypeNumber, "active", `1.0`, "true"},
		{"sql", connector.TypeNumber, "active", `2`, neither},
		{"sql", connector.TypeNumber, "active", `null`, nothing},
		{"sql", connector.TypeFlag, "active", `true`, "true"},
		{"sql", connector.TypeFlag, "active", `false`, "false"},
		{"sql", connector.TypeFlag, "active", `null`, nothing},
		{"sql", connector.TypeText, "active", `"t"`, "true"},
		{"sql", connector.TypeText, "active", `"N"`, "false"},
		{"csv", connector.TypeText, "active", `"1"`, "true"},
		{"csv", connector.TypeText, "active", `" 0 "`, "false"},
		{"csv", connector.TypeText, "active", `"f"`, "false"},
		{"csv", connector.TypeText, "active", `"Y"`, "true"},
		{"csv", connector.TypeText, "active", `"gesperrt"`, neither},
		{"csv", connector.TypeText, "active", `"NULL"`, nothing},
		{"csv", connector.TypeText, "active", `""`, nothing},
		{"csv", connector.TypeText, "not active", `"0"`, "true"},
		{"csv", connector.TypeText, `active and name != "Bob"`, `"1"`, "true"},
		{"csv", connector.TypeText, `name == "Bob" and active`, `"perhaps"`, "false"}, // it is left out anyway
		{"csv", connector.TypeText, `active ? true : false`, `"no"`, "false"},
		{"csv", connector.TypeText, `let ann = name == "Ann"; active`, `"no"`, "false"},
		{"sql", connector.TypeNumber, `!active || name == "Bob"`, `0`, "true"},
	} {
		m, err := Load("m.yaml", fmt.Appendf(nil,
			"version: 1\nsource: %s\nkey: {no: id}\ncustomer: {name: name}\ninclude: '%s'\n", tt.kind, tt.include),
			connector.SourceInfo{
				Kind: tt.kind, Fields: []connector.Field{{Name: "id", Type: connector.TypeText},
					{Name: "name", Type: connector.TypeText}, {Name: "active", Type: tt.typed}}})
		if err != nil {
			t.Errorf("%s %s: %v", tt.kind, tt.include, err)
			continue
		}
		got, err := m.Apply(connector.Record{SourceID: "1", State: connector.RecordActive,
			Data: fmt.Appendf(nil, `{"id":"1","name":"Ann","active":%s}`, tt.data)})
		said := fmt.Sprint(got.Included)
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, tt.want) || err != nil && strings.Contains(said, strings.Trim(tt.data, `"`)) &&
			len(tt.data) > 4 {
			t.Errorf("%s %s of %s %s: %s, want %s", tt.kind, tt.include, tt.typed, tt.data, said, tt.want)
		}
	}
}

// The fields of an API have the types that its vendor documents: a text there is compared.
func TestATextOfAnAPIIsNoCondition(t *testing.T) {
	t.Parallel()
	_, err := Load("m.yaml", []byte("version: 1\nsource: xero\nkey: {no: id}\ncustomer: {name: id}\ninclude: id\n"),
		connector.SourceInfo{Kind: "xero", Fields: []connector.Field{{Name: "id", Type: connector.TypeText}}})
	if err == nil || !strings.Contains(err.Error(), "include must give true or false, not a text") {
		t.Errorf("it says %v", err)
	}
}
