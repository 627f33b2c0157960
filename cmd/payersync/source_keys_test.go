package main

import (
	"strings"
	"testing"
)

func TestTheFormatOfProfilesIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	keys := w.expect(exitDone, "source", "--keys", "list").out
	for _, want := range []string{"list.cursor", "list.join[].of", "The address of the next page"} {
		if !strings.Contains(keys, want) || strings.Contains(keys, "record.id") {
			t.Errorf("the keys of list have no %q, or others are among them:\n%s", want, keys)
		}
	}
	if all := w.expect(exitDone, "source", "--keys", "--output", "json").out; !strings.Contains(all, `"key":"record.states[].into"`) {
		t.Errorf("the keys as JSON are:\n%s", all)
	}
	if r := w.run("source", "--keys", "lists"); r.code != exitUsage || !strings.Contains(r.errOut, `no block "lists"`) {
		t.Errorf("an unknown block ends with %d: %s", r.code, r.errOut)
	}
	if printed := w.expect(exitDone, "source", "--print", "freeagent").out; printed !=
		readShipped(t, "configs/sources/freeagent/profile.yaml") {
		t.Errorf("the printed profile is:\n%s", printed)
	}
	if r := w.run("source", "--print", "csv"); r.code != exitUsage {
		t.Errorf("a system without a profile ends with %d: %s%s", r.code, r.out, r.errOut)
	}
}
