package connector

import (
	"strings"
	"unicode"
)

// phoneDigits is the number of final digits to compare between two phone numbers: one may lack its country code.
const phoneDigits = 7

// SameForm reports whether two texts are the same value in different forms. Services normalise values: they return a
// phone number without spaces or with its country code, a name without the second space, an address in capitals. Use it
// to compare a service's value with the value sent before. Customer.Hash decides whether an edit is worth sending.
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

// phone returns the digits of a phone number without prefix zeros; "" for any other text.
func phone(s string) string {
	if strings.Trim(s, "+0123456789 ().-/") != "" {
		return ""
	}
	return strings.TrimLeft(letters(s), "0")
}
