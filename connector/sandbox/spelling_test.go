package sandbox

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPeopleAreSpeltAsTheSwitchSays(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, form, in, want string }{
		{"short stays", "short", `[{"name":"Ann Lee", "phone" : "1"}]`, `[{"name":"Ann Lee", "phone" : "1"}]`},
		{"long to short", "short", `[{"firstName":"Ann","lastName":"Lee","phoneNo":"1","x":1.0}]`,
			`[{"name":"Ann Lee","phone":"1","x":1.0}]`},
		{"last name alone", "short", `[{"x":1,"lastName":"Lee"}]`, `[{"x":1,"name":"Lee"}]`},
		{"name wins", "short", `[{"name":"A","firstName":"B"}]`, `[{"name":"A","firstName":"B"}]`},
		{"short to long", "long", `[{"name":"Ann van Lee","phone":"1"}]`,
			`[{"firstName":"Ann van","lastName":"Lee","phoneNo":"1"}]`},
		{"one word", "long", `[{"name":"Ann"}]`, `[{"firstName":"Ann","lastName":""}]`},
		{"long stays", "long", `[{"firstName":"Ann","name":"B"}]`, `[{"firstName":"Ann","name":"B"}]`},
		{"both phones", "long", `[{"phone":"1","phoneNo":"2"}]`, `[{"phone":"1","phoneNo":"2"}]`},
		{"numbers stay", "short", `[1,{"phoneNo":"1"}]`, `[1,{"phone":"1"}]`},
		{"no list stays", "short", `{"phoneNo":"1"}`, `{"phoneNo":"1"}`},
		{"only the changed one is rewritten", "short", `[{ "name":"A" },{"phoneNo":"1"}]`, `[{"name":"A"},{"phone":"1"}]`},
	}
	for _, tt := range tests {
		sw := Switches{PersonFields: tt.form}
		got := sw.respell(object{field("people", []byte(tt.in))}).get("people")
		if diff := cmp.Diff(tt.want, string(got)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

func TestAddressesAreSpeltAsTheSwitchSays(t *testing.T) {
	t.Parallel()
	long := `[{"addressLine1":"1 High St","city":"York","postalCode":"YO1"}]`
	short := `[{"line1":"1 High St","city":"York","postCode":"YO1"}]`
	for form, want := range map[string]string{"short": short, "long": long} {
		for _, in := range []string{short, long} {
			sw := Switches{AddressFields: form}
			got := sw.respell(object{field("addresses", []byte(in))}).get("addresses")
			if string(got) != want {
				t.Errorf("%s from %s: got %s", form, in, got)
			}
		}
	}
}

func TestExternalDataComesInEveryShape(t *testing.T) {
	t.Parallel()
	one := map[string]string{
		"map":    `{"xero":"1"}`,
		"list":   `[{"key":"xero","value":"1"}]`,
		"object": `{"connectorType":"xero","id":"1"}`,
		"array":  `[{"connectorType":"xero","id":"1"}]`,
	}
	for from, in := range one {
		for to, want := range one {
			got := reshape(field("externalData", []byte(in)), to).value
			if string(got) != want {
				t.Errorf("%s to %s: got %s, want %s", from, to, got, want)
			}
		}
	}
}

func TestReshapeLosesNothingItCannotPlace(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, shape, want string }{
		{"two pairs as object", `{"a":"1","b":2.0}`, "object",
			`[{"connectorType":"a","id":"1"},{"connectorType":"b","id":2.0}]`},
		{"a linked object's name", `{"connectorType":"XERO","id":"1", "name":"N"}`, "array",
			`[{"connectorType":"XERO","id":"1","name":"N"}]`},
		{"linked objects as map", `[{"connectorType":"XERO","id":"1","name":"N"}]`, "map", `{"XERO":"1"}`},
		{"same shape keeps spaces", `{ "a" : 1e3 }`, "map", `{ "a" : 1e3 }`},
		{"empty stays", `{}`, "list", `{}`},
		{"null stays", `null`, "map", `null`},
		{"unknown shape stays", `[{"a":1}]`, "map", `[{"a":1}]`},
		{"list of numbers stays", `[1]`, "map", `[1]`},
		{"text stays", `"x"`, "map", `"x"`},
	}
	for _, tt := range tests {
		if got := reshape(field("externalData", []byte(tt.in)), tt.shape).value; string(got) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestMandateAnswersEmbedTheLongSpelling(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.create(`{"name":"A","people":[{"name":"Ann Lee","phone":"1"}],"addresses":[{"line1":"1 High St","postCode":"YO1"}]}`)
	got := w.openLinkQuietly(id)
	want := `{"id":"` + id + `","name":"A","people":[{"firstName":"Ann","lastName":"Lee","phoneNo":"1"}],"addresses":[{"addressLine1":"1 High St","postalCode":"YO1"}],"directDebitMandate":{"status":"CREATED"},"timezone":"Europe/London"}`
	if diff := cmp.Diff(want, at(t, got, "customer")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRespellingTwiceIsRespellingOnce(t *testing.T) {
	t.Parallel()
	words := []string{"name", "firstName", "lastName", "phone", "phoneNo", "email", "line1", "postCode", "addressLine1",
		"other"}
	element := rapid.Custom(func(t *rapid.T) string {
		var o object
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(words), 0, 6, rapid.ID).Draw(t, "names") {
			o = append(o, field(name, quote(rapid.StringMatching(`[A-Za-z ]{0,12}`).Draw(t, "value"))))
		}
		return string(o.json())
	})
	rapid.Check(t, func(t *rapid.T) {
		sw := Switches{
			PersonFields:  rapid.SampledFrom([]string{"short", "long"}).Draw(t, "people"),
			AddressFields: rapid.SampledFrom([]string{"short", "long"}).Draw(t, "addresses"),
			ExternalData:  rapid.SampledFrom([]string{"map", "list", "object", "array"}).Draw(t, "externalData"),
		}
		fields := object{
			field("people", []byte("["+element.Draw(t, "person")+"]")),
			field("addresses", []byte("["+element.Draw(t, "address")+"]")),
			field("externalData", []byte(element.Draw(t, "data"))),
		}
		once := sw.respell(fields)
		if twice := sw.respell(once); string(twice.json()) != string(once.json()) {
			t.Fatalf("once %s, twice %s", once.json(), twice.json())
		}
	})
}

func TestExternalDataTruthIsReadInEveryShape(t *testing.T) {
	t.Parallel()
	want := map[string]string{"xero": "1", "n": "12345678901234567890"}
	for _, in := range []string{
		`{"xero":"1","n":12345678901234567890}`,
		`[{"key":"xero","value":"1"},{"key":"n","value":12345678901234567890}]`,
		`[{"connectorType":"xero","id":"1"},{"connectorType":"n","id":12345678901234567890,"name":"N"}]`,
	} {
		if diff := cmp.Diff(want, externalData([]byte(in))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", in, diff)
		}
	}
	if got := externalData(nil); got != nil {
		t.Errorf("got %v of nothing", got)
	}
}

func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, `{ "a" : [1, 2] , "b":{"c":null}}`, `{"a":1,"a":2}`, `{"\u0061":1.0e9}`,
		`[]`, `{`, `{"a"`, `{"a":1}}`, `{"people":[{"email":1}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := parseObject(raw)
		if err != nil {
			return
		}
		var before, after map[string]json.RawMessage
		if err := json.Unmarshal(raw, &before); err != nil {
			t.Fatalf("parsed %q, which is no JSON object: %v", raw, err)
		}
		if err := json.Unmarshal(o.json(), &after); err != nil {
			t.Fatalf("%q came back as %q: %v", raw, o.json(), err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("%q changed:\n%s", raw, diff)
		}
		problems(o)
		for _, sw := range []Switches{Standard(), Adfin()} {
			if respelt := sw.respell(o).json(); !json.Valid(respelt) {
				t.Fatalf("%q was respelt as %q", raw, respelt)
			}
		}
	})
}
