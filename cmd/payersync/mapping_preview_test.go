package main

import (
	"testing"

	"payersync/connector/syncer"
)

func TestAPreviewNamesEveryKindOfChangeThatTheNextSyncWouldSend(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]syncer.Preview{
		"0 of 36 linked customers would change, 8 would be asked to sign a mandate; 40 stored records looked at":    {Linked: 36, Records: 40, Links: 8},
		"2 of 36 linked customers would change, 3 would be created, 1 would be linked; 40 stored records looked at": {Linked: 36, Records: 40, Updates: 2, Creates: 3, Adopts: 1},
	} {
		if got := blastRadius(p); got != want {
			t.Errorf("the preview says %q, want %q", got, want)
		}
	}
}
