package connector_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func TestValidEmailTakesOneAddressAndNothingElse(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"a@example.com": true, "o'hara+x@sub.example.co.uk": true,
		"": false, "a": false, "a@": false, "@example.com": false, "a@localhost": false, "a@example.": false, "a@.com": false,
		"a b@example.com": false, "a@example.com, b@example.com": false, "Ann <a@example.com>": false,
		"a@@example.com": false, " a@example.com": false,
		"a\u200bb@example.com": false, "\ufeffa@example.com": false, "a@exam\u00adple.com": false,
		"a\u00a0b@example.com": false, "a@example.com\u200e": false, "a@ex\u2060ample.com": false,
	} {
		if got := connector.ValidEmail(address); got != want {
			t.Errorf("ValidEmail(%q) = %v, want %v", address, got, want)
		}
	}
}

// covers F282
func TestInvisibleCharactersAndQuotesAreTakenFromTheEdgesOfAnAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"\ufeffa@example.com": "a@example.com", "a@example.com\u00a0": "a@example.com",
		"\u200ea@example.com\u200f": "a@example.com", "“a@example.com”": "a@example.com",
		"'a@example.com'": "a@example.com", " \"a@example.com\"\t": "a@example.com",
		"a\u200bb@example.com": "a\u200bb@example.com", "o'hara@example.com": "o'hara@example.com",
		"\u202aa@example.com\u202c": "a@example.com", "": "", "\u200b": "",
	} {
		if got := connector.TrimEmail(address); got != want {
			t.Errorf("TrimEmail(%q) = %q, want %q", address, got, want)
		}
	}
}

// covers F52, F53
func TestProblemsNameEveryRuleThatIsBrokenWithoutPersonalValues(t *testing.T) {
	t.Parallel()
	c := connector.Customer{
		Name:      " ",
		People:    []connector.Person{{Name: "Ann", Email: "ann at example"}, {Name: "Bo\x00"}},
		Addresses: []connector.Address{{Line1: "1"}, {Line1: "2"}},
	}
	var got []connector.Reason
	for _, p := range c.Problems() {
		got = append(got, p.Reason)
		for _, secret := range []string{"Ann", "ann at example", "Bo"} {
			if strings.Contains(p.Detail, secret) {
				t.Errorf("the detail %q repeats a personal value", p.Detail)
			}
		}
	}
	want := []connector.Reason{connector.ReasonTooManyAddresses, connector.ReasonNameMissing,
		connector.ReasonEmailMalformed, connector.ReasonIllegalText}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	two := connector.Customer{Name: "Fine",
		People: []connector.Person{{Name: "A", Primary: "true"}, {Name: "B", Primary: "false"}, {Name: "C", Primary: "true"}}}
	if got := two.Problems(); len(got) != 1 || got[0].Reason != connector.ReasonTwoPrimary {
		t.Errorf("two primary contacts: %v", got)
	}
	if ok := (connector.Customer{Name: "Fine",
		People: []connector.Person{{Email: "a@example.com"}}}).Problems(); len(ok) != 0 {
		t.Errorf("a good customer has problems: %v", ok)
	}
}

func TestDiffListsWhatChangesByPath(t *testing.T) {
	t.Parallel()
	have := connector.Customer{Name: "Old", People: []connector.Person{{Email: "a@example.com"}, {Name: "Gone"}}}
	want := connector.Customer{Name: "New", People: []connector.Person{{Email: "a@example.com"}}}
	expected := []connector.FieldChange{{Path: "name", From: "Old", To: "New"}, {Path: "people[1].name", From: "Gone"}}
	if diff := cmp.Diff(expected, connector.Diff(have, want)); diff != "" {
		t.Errorf("diff (-want +got):\n%s", diff)
	}
	if have.Hash() == want.Hash() {
		t.Error("the hash does not follow the content")
	}
}

// covers F80
func TestASecretPrintsNowhere(t *testing.T) {
	t.Parallel()
	s := connector.NewSecret("canary")
	inside := struct{ S connector.Secret }{s}
	asJSON, err := json.Marshal(inside)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s, s, s, s),
		fmt.Sprintf("%+v %#v", inside, inside), string(asJSON), s.String()} {
		if strings.Contains(text, "canary") || strings.Contains(text, "63616e617279") {
			t.Errorf("a secret was printed: %s", text)
		}
	}
	if s.Expose() != "canary" || s.IsZero() {
		t.Error("the secret is not what was put in")
	}
}

func TestRecordHashFollowsContentAndNotPlace(t *testing.T) {
	t.Parallel()
	a := connector.Record{SourceID: "A", State: connector.RecordActive, Data: json.RawMessage(`{"n":"1"}`),
		Origin: "line 2"}
	moved, edited, archived := a, a, a
	moved.Origin = "line 9"
	edited.Data = json.RawMessage(`{"n":"2"}`)
	archived.State = connector.RecordArchived
	if a.Hash() != moved.Hash() {
		t.Error("a row that moved counts as changed")
	}
	if a.Hash() == edited.Hash() || a.Hash() == archived.Hash() {
		t.Error("an edit does not change the hash")
	}
}
