package connector

import (
	"slices"
	"strings"
)

// The words for yes and no that sources write, in English, German, French, Italian, Dutch and Spanish.
var (
	yesWords = []string{"1", "true", "t", "yes", "y", "ja", "j", "oui", "o", "si", "sì", "sí", "s", "wahr", "vrai", "vero"}
	noWords  = []string{"0", "false", "f", "no", "n", "nein", "non", "nee", "falsch", "faux", "falso"}
)

// ReadFlag reads a word for yes or no, as in 1, t, Y or true, and 0, f, N or false. known is false
// for any other text, a blank one among them.
func ReadFlag(text string) (yes, known bool) {
	word := strings.ToLower(strings.TrimSpace(text))
	yes = slices.Contains(yesWords, word)
	return yes, yes || slices.Contains(noWords, word)
}

// FlagWords returns the words that ReadFlag reads, in small letters.
func FlagWords() (yes, no []string) { return slices.Clone(yesWords), slices.Clone(noWords) }
