package connector_test

import (
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"

	"payersync/connector"
)

// kept reports whether any database keeps the text.
func kept(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// Texts treated differently by databases, and some treated alike by all.
var oddTexts = []string{
	"", "a", "Zoë", "\ufffd", "a\x1fb", strings.Repeat("x", connector.MaxIndexed),
	strings.Repeat("é", connector.MaxIndexed/2),
	"\x00", "a\x00b", "a\x00c", "\xff", "a\xc3", "a\xe2\x28\xa1", strings.Repeat("x", connector.MaxIndexed+1),
	strings.Repeat("é", connector.MaxIndexed),
	strings.Repeat("x", 9000) + "a", strings.Repeat("x", 9000) + "b", strings.Repeat("x", 63) + "é" +
		strings.Repeat("x", 600), "\x1f" + strings.Repeat("x", 600),
}

func TestATextThatIsLookedUpIsKeptByEveryDatabaseAndIsLikeNoOther(t *testing.T) {
	t.Parallel()
	of := map[string]string{}
	holds := func(text string) bool {
		indexed := connector.Indexed(text)
		before, known := of[indexed]
		of[indexed] = text
		fits := len(text) <= connector.MaxIndexed && kept(text)
		return kept(indexed) && len(indexed) <= connector.MaxIndexed && (!known || before == text) &&
			(indexed == text) == fits && connector.Indexed(indexed) == indexed && kept(connector.Clean(text)) &&
			(connector.Clean(text) == text) == kept(text)
	}
	for _, text := range oddTexts {
		if !holds(text) {
			t.Errorf("%.80q is looked up by %q", text, connector.Indexed(text))
		}
	}
	if err := quick.Check(func(bytes []byte, times uint8) bool { return holds(strings.Repeat(string(bytes), int(times))) },
		nil); err != nil {
		t.Error(err)
	}
}
