package connector

import (
	"strings"
	"unicode"
)

// phoneDigits is how many digits at the end of two phone numbers must agree for
// them to be the same number, one with and one without its country code.
const phoneDigits = 7

// SameForm reports whether two texts say the same in another form: services tidy
// up what they are sent, and give a phone number back without spaces or with its
// country code, a name without the second space, an address in capitals. It is for
// comparing what a service shows with what it was sent before; whether an edit is
// worth sending is for Customer.Hash to say.
func SameForm(a, b string) bool {
	if a == b {
		return true
	}
	formA, formB := letters(a), letters(b)
	return formA != "" && formA == formB || samePhone(a, b)
}

// letters returns the letters and digits of a text in lower case.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

func samePhone(a, b string) bool {
	digitsA, digitsB := phone(a), phone(b)
	if len(digitsA) > len(digitsB) {
		digitsA, digitsB = digitsB, digitsA
	}
	return len(digitsA) >= phoneDigits && strings.HasSuffix(digitsB, digitsA)
}

// phone returns the digits of a text that is a phone number, without the zeros
// that stand for a prefix; "" for any other text.
func phone(s string) string {
	if strings.Trim(s, "+0123456789 ().-/") != "" {
		return ""
	}
	return strings.TrimLeft(letters(s), "0")
}
