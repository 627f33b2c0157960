package xero

import (
	"strings"
	"testing"
)

// A request without a contact's id would take all contacts out of the group. There is no way to
// write one down.
func TestNoRequestTakesEverybodyOutOfAGroup(t *testing.T) {
	t.Parallel()
	group, err := guidOf("0B6F1C2E-6d0f-4b53-9f6b-1d2f7e8a9c10")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", " ", ".", "..", "/", "%2e%2e", "0b6f1c2e", "00000000-0000-0000-0000-000000000000",
		"0b6f1c2e-6d0f-4b53-9f6b-1d2f7e8a9c10/", "0b6f1c2e-6d0f-4b53-9f6b-1d2f7e8a9c1\n"} {
		contact, err := guidOf(text)
		if err == nil {
			t.Errorf("%q passes for an id", text)
		}
		if path, err := contactOf(group, contact); err == nil {
			t.Errorf("%q makes the address %s", text, path)
		}
		w := &GroupWriter{source: &Source{}}
		if _, err := w.request(t.Context(), "w1",
			[]byte(`{"group":"`+group.text+`","contact":"`+strings.ReplaceAll(text, "\n", "")+`","in":false}`)); err == nil &&
			text != "0b6f1c2e-6d0f-4b53-9f6b-1d2f7e8a9c1\n" {
			t.Errorf("%q makes a request", text)
		}
	}
	if _, err := contactOf(guid{}, group); err == nil {
		t.Error("a blank group makes an address")
	}
	path, err := contactOf(group, group)
	if err != nil || !strings.HasSuffix(path, "/Contacts/"+group.text) {
		t.Errorf("the address is %s, %v", path, err)
	}
}
