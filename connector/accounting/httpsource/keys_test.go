package httpsource

import "testing"

func TestEveryKeyOfAProfileIsDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range Keys() {
		if k.Is == "" || seen[k.Name] {
			t.Errorf("%s is described as %q, or twice", k.Name, k.Is)
		}
		seen[k.Name] = true
	}
	for _, name := range []string{"extends", "list.cursor", "list.query.NAME", "record.states[].into", "limits.windows[].per",
		"settings.NAME.type", "write.read.path", "fake.record.NAME"} {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
}
