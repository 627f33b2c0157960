package sandbox

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
)

// Every field with a yaml name is in the table once, with the value of the profile standard as its default.
func TestEverySwitchIsInTheTable(t *testing.T) {
	var names []string
	for _, k := range Table() {
		names = append(names, k.Name)
		if got := k.Value(Standard()); got != k.Default {
			t.Errorf("%s: standard has %q, the table says %q", k.Name, got, k.Default)
		}
		if k.Means == "" || k.Group == "" || k.Takes() == "" {
			t.Errorf("%s: the table does not say what it means and takes", k.Name)
		}
	}
	want := yamlNames(reflect.TypeFor[Switches](), "")
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the table has\n%v\nand the fields are\n%v", names, want)
	}
}

func yamlNames(of reflect.Type, prefix string) (names []string) {
	for f := range of.Fields() {
		switch name := f.Tag.Get("yaml"); {
		case name == "-":
		case f.Type.Kind() == reflect.Struct:
			names = append(names, yamlNames(f.Type, prefix+name+".")...)
		default:
			names = append(names, prefix+name)
		}
	}
	return names
}

// values are some of a switch's possible values: all for words.
func (k Switch) values() []string {
	if len(k.Allowed) > 0 {
		return k.Allowed
	}
	switch {
	case k.Form == statusForm:
		return []string{"", "CANCELLED", "PENDING,ACTIVE"}
	case strings.Contains(k.Form, "length of time"):
		return []string{"0s", "1m30s"}
	case strings.Contains(k.Form, "number above 0"):
		return []string{"1", "7"}
	case k.Name == "expires_in":
		return []string{"", "0", `"3600"`, "omit"}
	}
	return []string{"X-Other", "other"}
}

func TestASlipNamesTheSwitchWhatItTakesAndTheNearest(t *testing.T) {
	for _, tt := range []struct{ name, value, want string }{
		{"external_dat", "map", "did you mean external_data?"},
		{"zzz", "1", "the help of the sandbox lists them"},
		{"external_data", "arry", "did you mean array?) use map, list, object, array"},
		{"list.default_size", "0", "use a number above 0"},
		{"link_life", "-1s", "use a length of time"},
		{"link_refused", "GONE", "use statuses with commas"},
		{"type_header", "two words", "use a header"},
		{"expires_in", "soon", "omit"},
		{"wrong_token_status", "999", "use 403, 401, 400"},
	} {
		sw := Standard()
		err := sw.Set(tt.name, tt.value)
		if !errors.Is(err, ErrSwitch) || !strings.Contains(strings.ReplaceAll(err.Error(), "):", ")"), tt.want) {
			t.Errorf("%s=%s: %v, want %q", tt.name, tt.value, err, tt.want)
		}
		if !reflect.DeepEqual(sw, Standard()) {
			t.Errorf("%s=%s changed something", tt.name, tt.value)
		}
	}
}

// turn gives one switch a value while the sandbox runs.
func (s *Sandbox) turn(name, value string) error {
	sw := s.Switches()
	return errors.Join(sw.Set(name, value), s.SetSwitches(sw))
}

func TestEverySwitchHoldsEachOfItsValuesAtRunTime(t *testing.T) {
	s := New(Options{})
	for _, k := range Table() {
		for _, value := range k.values() {
			if err := s.turn(k.Name, value); err != nil {
				t.Fatal(err)
			}
			if got := k.Value(s.Switches()); got != value {
				t.Errorf("%s is %q after %q was set", k.Name, got, value)
			}
		}
	}
}

func TestASpellingThatChangesRespellsTheCustomersThatAreThere(t *testing.T) {
	s := New(Options{})
	id, err := s.Add([]byte(`{"name":"Southwind","people":[{"name":"Ann Lee","phone":"1"}],"externalData":{"key":"A1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetSwitches(Adfin()); err != nil {
		t.Fatal(err)
	}
	c, _ := s.Customer(id)
	for _, want := range []string{`"firstName":"Ann"`, `"phoneNo":"1"`,
		`"externalData":[{"connectorType":"key","id":"A1"}]`, `"creationTime"`} {
		if !strings.Contains(string(c.Raw), want) {
			t.Errorf("%s lacks %s", c.Raw, want)
		}
	}
	if err := s.SetSwitches(Standard()); err != nil {
		t.Fatal(err)
	}
	if c, _ = s.Customer(id); !strings.Contains(string(c.Raw), `"externalData":{"key":"A1"}`) {
		t.Errorf("%s is not spelt as before", c.Raw)
	}
}

func TestASecretThatTheNewKeyCannotReadIsDrawnAnew(t *testing.T) {
	s := New(Options{Switches: Switches{Signature: Signature{Secret: connector.NewSecret("plain words")}}})
	if err := s.turn("signature.key", "hex"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Switches().Signature.key(s.WebhookSecret()); err != nil || s.WebhookSecret().Expose() == "plain words" {
		t.Errorf("the secret is still %q: %v", s.WebhookSecret().Expose(), err)
	}
}

func TestSwitchesMayChangeWhileOthersCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.create(`{"name":"Northwind","externalData":{"k":"1"}}`)
	done := make(chan error)
	go func() {
		var err error
		for range 50 {
			err = errors.Join(err, w.turn("external_data", "list"), w.turn("list.first_page", "1"), w.SetSwitches(Standard()))
		}
		done <- err
	}()
	for range 50 {
		w.want(200, "GET", "/api/customers", "")
		w.want(200, "GET", "/", "")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
