package httpsource_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/accounting/httpsource"
	"payersync/mapping/strict"
)

// extending loads a profile that may extend the shipped one of FreeAgent.
func extending(t *testing.T, text string) (*httpsource.Profile, error) {
	t.Helper()
	return httpsource.LoadOver("ours.yaml", []byte(text), func(name string) ([]byte, error) {
		if name != "freeagent" {
			return nil, errors.New("there is no such profile")
		}
		return []byte(freeagent(t)), nil
	})
}

func TestAProfileExtendsAShippedOne(t *testing.T) {
	t.Parallel()
	shipped, err := httpsource.Load("freeagent.yaml", []byte(freeagent(t)))
	if err != nil {
		t.Fatal(err)
	}
	same, err := extending(t, "extends: freeagent\ntitle: Our books\n")
	if err != nil || same.Name() != "freeagent" || same.Title() != "Our books" || same.Meaning() != shipped.Meaning() {
		t.Errorf("%v: other words change the meaning", err)
	}
	more, err := extending(t, `extends: freeagent
name: ours
list: {size: 20}
record:
  fields: [{name: x_debtor, is: Debtor number}]
`)
	if err != nil {
		t.Fatal(err)
	}
	names := func(p *httpsource.Profile) []string {
		return connector.Map(p.Fields(), func(f connector.Field) string { return f.Name })
	}
	if want := append(names(shipped), "x_debtor"); !slices.Equal(names(more), want) || more.Name() != "ours" ||
		more.Extends() != "freeagent" || more.Meaning() == shipped.Meaning() || more.IDField() != shipped.IDField() {
		t.Errorf("the profile %s, which extends %q, has the fields %v", more.Name(), more.Extends(), names(more))
	}
}

func TestWhatACompanyProvedOfAProfileProvesNothingOfOneThatExtendsIt(t *testing.T) {
	t.Parallel()
	proven := strings.Replace(freeagent(t), "live: never", "live: 2026-11", 1)
	p, err := httpsource.LoadOver("ours.yaml", []byte("extends: freeagent\n"),
		func(string) ([]byte, error) { return []byte(proven), nil })
	if err != nil {
		t.Fatal(err)
	}
	if documents, live := p.Proven(); documents == "" || live != "never" {
		t.Errorf("it is proven by documents of %q and by a company in %q", documents, live)
	}
}

func TestMistakesInAProfileThatExtendsAnotherHaveTheirPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, want string
		line       int
	}{
		"no such profile": {"title: x\nextends: freeagnt\n", "there is no such profile", 2},
		"a wrong key":     {"extends: freeagent\nlist:\n  sice: 3\n", `unknown key "sice"`, 3},
		"a wrong rule":    {"extends: freeagent\nlist:\n  last: rowz < size\n", `unknown name "rowz"`, 3},
		"it breaks an inherited rule": {"name: x\nextends: freeagent\nrecord: {fields: [{name: status, type: flag}]}\n",
			"(inherited from freeagent)", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := extending(t, c.text)
			var all *strict.Error
			if !errors.As(err, &all) || !strings.Contains(err.Error(), c.want) || all.Problems[0].Line != c.line ||
				all.Problems[0].File != "ours.yaml" {
				t.Errorf("it is %v", err)
			}
		})
	}
	if _, err := httpsource.Load("ours.yaml", []byte("extends: x\n"+freeagent(t))); err == nil ||
		!strings.Contains(err.Error(), "remove extends") {
		t.Errorf("a profile that is whole extends another: %v", err)
	}
}
