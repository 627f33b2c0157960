package admin

import (
	"fmt"
	"slices"
	"strings"
)

// FieldWord returns the common name of a customer's field by its path. It groups fields of a kind: any line of an
// address is an address.
func FieldWord(path string) string {
	last := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case path == "name":
		return "name"
	case strings.HasPrefix(path, "addresses"):
		return "address"
	case strings.HasPrefix(path, "people") && (last == "name" || last == "firstName" || last == "lastName"):
		return "contact"
	case strings.HasPrefix(path, "people") && last == "email":
		return "e-mail"
	case strings.HasPrefix(path, "people") && (last == "primary" || last == "communication"):
		return "who gets letters"
	}
	return last
}

// fieldWords name the fields of a customer, in reading order.
var fieldWords = []struct{ end, word string }{
	{"name", "Name"}, {"people.name", "Contact"}, {"firstName", "First name"}, {"lastName", "Last name"},
	{"email", "E-mail"}, {"phone", "Phone"},
	{"primary", "First contact"}, {"communication", "Gets letters"}, {"line1", "Street"}, {"city", "City"},
	{"postCode", "Postcode"}, {"country", "Country"},
}

// FieldLabel returns the label of a customer's field by its path, for a table row. It is finer than FieldWord, and
// numbers a second contact or address.
func FieldLabel(path string) string {
	if name, external := strings.CutPrefix(path, "externalData."); external {
		return "Number (" + name + ")"
	}
	word := path[strings.LastIndexByte(path, '.')+1:]
	if strings.HasPrefix(path, "people[") && word == "name" {
		word = "people.name"
	}
	for _, w := range fieldWords {
		if w.end == word {
			word = w.word
			break
		}
	}
	_, rest, _ := strings.Cut(path, "[")
	var n int
	if _, err := fmt.Sscanf(rest, "%d]", &n); err == nil && n > 0 {
		return fmt.Sprintf("%s %d", word, n+1)
	}
	return word
}

// FieldOrder returns the place of a label of FieldLabel among all, as people read them.
func FieldOrder(label string) int {
	at := slices.IndexFunc(fieldWords, func(w struct{ end, word string }) bool { return strings.HasPrefix(label, w.word) })
	if at < 0 {
		return len(fieldWords)
	}
	return at
}
