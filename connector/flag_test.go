package connector

import "testing"

func TestAFlagIsReadFromEveryWordForYesAndNo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]bool{
		"1": {true, true}, "t": {true, true}, "Y": {true, true}, " TRUE ": {true, true}, "Ja": {true, true},
		"0": {false, true}, "f": {false, true}, "N": {false, true}, "False": {false, true}, "nein": {false, true},
		"": {}, " ": {}, "2": {}, "-1": {}, "active": {}, "x": {}, "NULL": {}, "10": {},
	} {
		if yes, known := ReadFlag(text); [2]bool{yes, known} != want {
			t.Errorf("%q is read as yes %v, known %v", text, yes, known)
		}
	}
}
