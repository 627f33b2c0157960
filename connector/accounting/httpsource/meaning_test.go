package httpsource

import (
	"strings"
	"testing"

	"payersync/configs"
)

func TestTheMeaningOfAProfileIsWhatItAsksAndConcludes(t *testing.T) {
	t.Parallel()
	shipped, err := configs.FS.ReadFile("sources/odoo/profile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	meaning := func(text string) string {
		t.Helper()
		p, err := Load("profile.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p.Meaning()
	}
	was := meaning(string(shipped))
	for _, tt := range []struct {
		old, new string
		edit     bool
	}{
		{"title: Odoo", "title: Our Odoo # since March", false},
		{"method: POST", "method:   'POST'", false},
		{"active_test: false", "active_test: true", true},
		{"size: 500", "size: 400", true},
		{"is: archived", "is: active", true},
	} {
		edited := strings.Replace(string(shipped), tt.old, tt.new, 1)
		if edited == string(shipped) {
			t.Errorf("the profile has no %q", tt.old)
		}
		if got := meaning(edited) != was; got != tt.edit {
			t.Errorf("%q instead of %q is an edit: %t", tt.new, tt.old, got)
		}
	}
}
