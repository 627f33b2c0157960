package mapping

import (
	"slices"
	"strings"
	"unicode"

	"payersync/connector"
)

// emailSteps is the cost of checking an address, and maxEmail the maximum length to check, in bytes.
const (
	emailSteps = 50
	maxEmail   = 320
)

func validEmail(s string) bool { return len(s) <= maxEmail && connector.ValidEmail(s) }

// firstEmail returns the first valid address of a cell, possibly one of several. A cell without one is returned
// trimmed, so its mistake is reported and not dropped.
func firstEmail(m *meter, args []any) (any, error) {
	s, words, err := emailWords(m, args[0])
	if err != nil {
		return nil, err
	}
	for _, word := range words {
		if err := m.spend(emailSteps); err != nil {
			return nil, err
		}
		if validEmail(word) {
			return word, nil
		}
	}
	m.missed("firstEmail", s)
	return s, nil
}

// emails returns every address-like word of a cell once, valid or not. A cell without any is returned trimmed.
func emails(m *meter, args []any) (any, error) {
	s, words, err := emailWords(m, args[0])
	if err != nil || s == "" {
		return []string(nil), err
	}
	var out []string
	seen := map[string]bool{}
	for _, word := range words {
		if lower := strings.ToLower(word); !seen[lower] {
			seen[lower] = true
			out = append(out, word)
		}
	}
	if out == nil {
		m.missed("emails", s)
		return []string{s}, nil
	}
	return out, nil
}

// emailWords returns a cell trimmed, and its words with an @ in them.
func emailWords(m *meter, cell any) (string, []string, error) {
	s, err := text(cell)
	if err != nil {
		return "", nil, err
	}
	words := strings.FieldsFunc(s, betweenEmails)
	for i, word := range words {
		words[i] = trimEmailWord(word)
	}
	words = slices.DeleteFunc(words, func(word string) bool { return !strings.Contains(word, "@") })
	return connector.TrimEmail(s), words, m.spend(8 * len(words))
}

// mailto is how the address of a link begins.
const mailto = "mailto:"

// trimEmailWord removes text that programs and people write around an address: quotation marks, mailto:, and
// the full stop of a sentence.
func trimEmailWord(word string) string {
	word = connector.TrimEmail(word)
	if len(word) > len(mailto) && strings.EqualFold(word[:len(mailto)], mailto) {
		word = connector.TrimEmail(word[len(mailto):])
	}
	return connector.TrimEmail(strings.TrimRight(word, "."))
}

// HasEmail reports whether firstEmail finds a well-formed address in a cell.
func HasEmail(cell string) bool {
	if !strings.Contains(cell, "@") {
		return false
	}
	_, words, err := emailWords(&meter{left: maxSteps}, cell)
	return err == nil && slices.ContainsFunc(words, validEmail)
}

func betweenEmails(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(`,;/|<>()"`, r)
}
