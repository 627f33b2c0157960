package connector

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxIndexed is how long a text may be, in bytes, by which something is looked up.
const MaxIndexed = 512

// shownOfUnfit is how much of a text that Indexed replaces is shown, in bytes.
const shownOfUnfit = 64

// Clean returns text as every database keeps it: a U+0000, and what is no UTF-8, is shown as
// U+FFFD.
func Clean(text string) string {
	if isClean(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\x00", string(utf8.RuneError))
}

// Harmless returns a character, or U+FFFD for one that could steer a terminal or turn the text around
// it: a control character, or one that controls the direction of text.
func Harmless(r rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
		return utf8.RuneError
	}
	return r
}

func isClean(text string) bool { return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text) }

// Indexed returns text as every database keeps it and looks it up by: the text itself but for
// one that is longer than MaxIndexed, or that Clean would change. Of that it returns how it begins
// and the hash of all of it, which no other text has. So whoever fills a field with what
// cannot be kept stops nobody, and is told from everybody else.
func Indexed(text string) string {
	if len(text) <= MaxIndexed && isClean(text) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	begins := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, text[:min(len(text), shownOfUnfit)])
	return begins + "… sha256:" + hex.EncodeToString(sum[:])
}

// Indexed returns the key as it is looked up by: see the function of that name.
func (k Key) Indexed() Key {
	return Key{Name: Indexed(k.Name), Value: Indexed(k.Value), Scope: Indexed(k.Scope)}
}
