package connector_test

import (
	"testing"

	"pgregory.net/rapid"

	"payersync/connector"
)

func TestNearestFindsSlipsAndNothingElse(t *testing.T) {
	t.Parallel()
	known := []string{"retry", "webhook", "base_url", "client_secret", "name"}
	tests := map[string]string{
		"retri": "retry", "rtery": "retry", "Retry": "retry", "webhok": "webhook", "webhooks": "webhook",
		"baseurl": "base_url", "client-secret": "client_secret", "nmae": "name",
		"colour": "", "x": "", "": "", "client": "", "re": "",
	}
	for word, want := range tests {
		if got := connector.Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestNearestFindsEverySingleSlip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := []rune(rapid.StringMatching(`[a-z]{4,12}`).Draw(t, "word"))
		i := rapid.IntRange(0, len(word)-2).Draw(t, "place")
		slip := append([]rune{}, word...)
		switch rapid.IntRange(0, 3).Draw(t, "slip") {
		case 0:
			slip[i] = '_'
		case 1:
			slip = append(slip[:i], slip[i+1:]...)
		case 2:
			slip[i], slip[i+1] = slip[i+1], slip[i]
		case 3:
			slip = append(slip, 'x')
		}
		if got := connector.Nearest(string(slip), []string{string(word)}); got != string(word) {
			t.Fatalf("Nearest(%q, %q) = %q", string(slip), string(word), got)
		}
	})
}
