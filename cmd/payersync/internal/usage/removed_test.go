package usage

import "testing"

func TestARemovedFlagIsFoundByItsCommand(t *testing.T) {
	t.Parallel()
	among := []Removed{{"accounts show --old", "use --new"}}
	if r, found := RemovedFlag(among, "accounts show", "old"); !found || r.Instead != "use --new" {
		t.Errorf("%+v, %t", r, found)
	}
	if r, found := RemovedFlag(among, "accounts list", "old"); found {
		t.Errorf("the flag of another command is %+v", r)
	}
}
