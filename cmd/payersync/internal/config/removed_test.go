package config

import (
	"strings"
	"testing"

	"payersync/cmd/payersync/internal/usage"
)

func TestEachRemovedKeyIsRefusedOnceWithWhatToUseInstead(t *testing.T) {
	t.Parallel()
	removed := []usage.Removed{{Name: "ledger.old", Instead: "remove it"}, {Name: "alerts.ways[].old", Instead: "use new"}}
	file := "ledger:\n  old: password-1\nalerts:\n  ways:\n    - {name: a}\n    - {name: b, old: 1}\n"
	err := refuseRemoved("payersync.yaml", []byte(file), removed)
	want := []string{"payersync.yaml:2:3: ledger.old was removed; remove it",
		"payersync.yaml:6:17: alerts.ways[1].old was removed; use new"}
	for _, text := range want {
		if err == nil || strings.Count(err.Error(), text) != 1 {
			t.Errorf("%v does not say once: %s", err, text)
		}
	}
	for _, other := range []string{"ledger: {path: a}\n", "alerts: {ways: {old: 1}}\n", "ledger: [", "old: 1\n"} {
		if err := refuseRemoved("payersync.yaml", []byte(other), removed); err != nil {
			t.Errorf("%q: %v", other, err)
		}
	}
}
