package connector

import (
	"maps"
	"testing"
)

func TestARecordWithoutWhatWeWriteIsTheSameBeforeAndAfter(t *testing.T) {
	t.Parallel()
	parts := []WrittenPart{{Field: "status"}, {Field: "tags", Values: []string{"ours"}}}
	hash := func(data string) string { return Record{Data: []byte(data)}.Without(parts).Hash() }
	for _, same := range [][2]string{
		{`{"name":"a","id":"1"}`, `{"name":"a","status":"active","id":"1"}`},
		{`{"name":"a","tags":["x"]}`, `{"name":"a","tags":["x","ours"]}`},
		{`{"name":"a","tags":[]}`, `{"name":"a","tags":["ours"]}`},
		{`{"name":"a","tags":null}`, `{"name":"a","tags":["ours"]}`},
		{`{"name":"a"}`, `{"name":"a","tags":[{"id":"7","name":"ours"}],"status":null}`},
	} {
		if hash(same[0]) != hash(same[1]) {
			t.Errorf("%s and %s count as different", same[0], same[1])
		}
	}
	for _, other := range [][2]string{
		{`{"name":"a"}`, `{"name":"b","status":"active"}`},
		{`{"tags":["x"]}`, `{"tags":["ours"]}`},
		{`{"tags":["x"]}`, `{"tags":["y","ours"]}`},
	} {
		if hash(other[0]) == hash(other[1]) {
			t.Errorf("%s and %s count as the same", other[0], other[1])
		}
	}
	for _, data := range []string{``, `null`, `[]`, `"text"`} {
		if got := string(Record{Data: []byte(data)}.Without(parts).Data); got != data {
			t.Errorf("%s became %s", data, got)
		}
	}
}

func TestExportedValuesMeetThoseOfTheExport(t *testing.T) {
	t.Parallel()
	fields := []Field{{Name: "id"}, {Name: "number", Exported: []string{"Customer No.", "Kundennummer"}},
		{Name: "roles", Type: TypeObject, Fields: []Field{{Name: "customer", Type: TypeObject,
			Fields: []Field{{Name: "account", Type: TypeNumber, Exported: []string{"Konto"}}}}}}}
	api := ExportedValues(fields,
		[]byte(`{"id": "1", "number": " C7 ", "roles": {"customer": {"account": 12345678901234567890}}}`))
	file := ImportedValues(fields, []byte(`{"kundenNUMMER ": "C7", "Konto": "12345678901234567890", "id": "9"}`))
	want := map[string]string{"number": "C7", "roles.customer.account": "12345678901234567890"}
	if !maps.Equal(api, want) || !maps.Equal(file, want) {
		t.Errorf("the API has %v, the export %v", api, file)
	}
	for _, none := range []string{`{}`, `[]`, ``, `{"number": null, "roles": []}`, `{"number": true}`} {
		if got := ExportedValues(fields, []byte(none)); len(got) > 0 {
			t.Errorf("%s has %v", none, got)
		}
	}
}
