package connector

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxIndexed is the maximum length in bytes of a text used for lookups.
const MaxIndexed = 512

// shownOfUnfit is the number of bytes kept of a text replaced by Indexed.
const shownOfUnfit = 64

// Clean returns text as every database keeps it: a U+0000, and what is no UTF-8, is shown as
// U+FFFD.
func Clean(text string) string {
	if IsClean(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\x00", string(utf8.RuneError))
}

// Harmless returns a character, or U+FFFD for one able to control a terminal or the text direction: a control
// character, or a bidirectional control.
func Harmless(r rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
		return utf8.RuneError
	}
	return r
}

// IsClean reports whether Clean returns text as it is.
func IsClean(text string) bool { return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text) }

// Indexed returns text in a form fit for storage and lookup in every database. A text longer than MaxIndexed, or
// changed by Clean, is replaced by its beginning and its hash, so it stays unique. An unstorable value therefore stops
// no other record, and is never confused with another.
func Indexed(text string) string {
	if len(text) <= MaxIndexed && IsClean(text) {
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

// Indexed returns the key in its lookup form: see the function of the same name.
func (k Key) Indexed() Key {
	return Key{Name: Indexed(k.Name), Value: Indexed(k.Value), Scope: Indexed(k.Scope)}
}

// OneLine returns a text in one line, without characters able to end a header or control a terminal.
func OneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, s)), " ")
}
