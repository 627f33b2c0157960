package connector

import (
	"slices"
	"strings"
)

// The words of sources for yes and no, in English, German, French, Italian, Dutch and Spanish.
var (
	yesWords = []string{"1", "true", "t", "yes", "y", "ja", "j", "oui", "o", "si", "sì", "sí", "s", "wahr", "vrai", "vero"}
	noWords  = []string{"0", "false", "f", "no", "n", "nein", "non", "nee", "falsch", "faux", "falso"}
)

// ReadFlag parses a word for yes or no, for example 1, t, Y or true, and 0, f, N or false. known is false for any other
// text, including a blank one.
func ReadFlag(text string) (yes, known bool) {
	word := strings.ToLower(strings.TrimSpace(text))
	yes = slices.Contains(yesWords, word)
	return yes, yes || slices.Contains(noWords, word)
}

// FlagWords returns the words known to ReadFlag, in lower case.
func FlagWords() (yes, no []string) { return slices.Clone(yesWords), slices.Clone(noWords) }
