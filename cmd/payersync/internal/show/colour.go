package show

import "github.com/jedib0t/go-pretty/v6/text"

// Tone is the meaning of a coloured word.
type Tone int

// The tones.
const (
	Good  Tone = iota // it is well, or something new comes: green
	Alert             // something changes, or somebody should look: yellow
	Bad               // it failed, or is kept from happening: red
)

var colours = map[Tone]text.Color{Good: text.FgGreen, Alert: text.FgYellow, Bad: text.FgRed}

// Toned returns a word in the colour of its tone, if results go to a terminal with colours. The word says the
// same without.
func (c *Console) Toned(tone Tone, word string) string {
	if c.Plain || !IsTerminal(c.Out) {
		return word
	}
	return colours[tone].EscapeSeq() + word + text.EscapeReset
}
