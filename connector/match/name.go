package match

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// word is one word of a name. Müller is also written Mueller and Muller, so a word with a letter beyond plain
// Latin is compared by its bare form, too. Bauer and Baur are two names, and their bare forms are not
// compared.
type word struct {
	text   string // folded: no case, no marks
	bare   string // text with ae, oe, ue and aa as one letter
	marked bool   // it had a letter that people also write as two
	counts bool   // it counts something: 2, 12a, II
	asIs   string // as it is written; "" for "and"
}

// same reports whether two words are one, however their letters are written.
func (w word) same(v word) bool {
	return w.text == v.text || (w.marked || v.marked) && w.bare == v.bare
}

var (
	foldCase = cases.Fold()

	// plain replaces letters that Unicode does not decompose.
	plain = strings.NewReplacer("æ", "ae", "œ", "oe", "ø", "o", "đ", "d", "ð", "d", "þ", "th", "ł", "l", "ı", "i", "ħ",
		"h")

	// digraphs are pairs of letters in place of one with a mark.
	digraphs = strings.NewReplacer("ae", "a", "oe", "o", "ue", "u", "aa", "a")
)

// Fold writes a text without case and marks: Müller and MULLER are one, and so are Groß and gross.
func Fold(s string) string {
	if isPlain(s) {
		return strings.ToLower(s) // the same, but faster
	}
	s = foldCase.String(norm.NFKC.String(s))
	if isPlain(s) {
		return s
	}
	s = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFKD.String(s))
	return plain.Replace(s)
}

func newWord(s string) word {
	text := Fold(s)
	if isPlain(s) { // the same, but faster
		return word{text: text, bare: bareOf(text), counts: countsSomething(text), asIs: s}
	}
	return word{
		text:   text,
		bare:   bareOf(text),
		marked: strings.ContainsAny(strings.ToLower(norm.NFC.String(s)), "äöüåæøœ"),
		counts: countsSomething(text),
		asIs:   s,
	}
}

func countsSomething(text string) bool {
	return strings.ContainsAny(text, "0123456789") || slices.Contains(romans, text)
}

// bareOf returns a folded text with one letter for each of the digraphs, which few words have.
func bareOf(text string) string {
	if strings.Contains(text, "ae") || strings.Contains(text, "oe") || strings.Contains(text, "ue") ||
		strings.Contains(text, "aa") {
		return digraphs.Replace(text)
	}
	return text
}

// isPlain reports whether a text has plain Latin characters alone.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

var romans = []string{"ii", "iii", "iv", "vi", "vii", "viii", "ix", "xi", "xii"}

// and stands for every word and sign for "and".
var and = word{text: "&", bare: "&"}

var ands = []string{"and", "und", "og", "och", "en", "et", "y", "ja"}

// words takes a text apart. The signs & and + are words; an apostrophe is nothing.
func words(s string) []word {
	var out []word
	var letters []rune
	end := func() {
		if len(letters) == 0 {
			return
		}
		w := newWord(string(letters))
		if slices.Contains(ands, w.text) {
			w = and
		}
		out, letters = append(out, w), letters[:0]
	}
	for _, r := range s {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			letters = append(letters, r)
		case r == '&' || r == '+':
			end()
			out = append(out, and)
		case r != '\'' && r != '’':
			end()
		}
	}
	end()
	return out
}

// name is a name taken apart.
type name struct {
	words      []word // without the legal form and the generation
	form       string // the legal form as forms has it; "" for none
	generation string // "junior", "senior" or ""
	together   string // the words as one, in their order
	bare       string // the same of their bare forms
	marked     bool
}

func newName(s string) name {
	var n name
	all := words(s)
	all, n.generation = cutGeneration(all)
	n.words, n.form = cutForm(all)
	for _, w := range n.words {
		n.together += w.text
		n.bare += w.bare
		n.marked = n.marked || w.marked
	}
	return n
}

// SameName reports whether two names are equal after normalisation. It also returns the legal form, as
// written, that is different or missing on the other side; "" for none. Two legal forms are two companies,
// and so are not one name.
func SameName(ours, theirs string) (same bool, apartFrom string) {
	a, b := newName(ours), newName(theirs)
	if a.likeness(&b) != &nameSame || a.generation != b.generation || a.form != "" && b.form != "" && a.form != b.form {
		return false, ""
	}
	ourForm, theirForm := writtenForm(ours), writtenForm(theirs)
	if Fold(ourForm) == Fold(theirForm) {
		return true, ""
	}
	return true, cmp.Or(ourForm, theirForm)
}

// writtenForm returns the legal form of a name as it is written; "" for none.
func writtenForm(s string) string {
	all, _ := cutGeneration(words(s))
	rest, _ := cutForm(all)
	var out []string
	for _, w := range all {
		if len(rest) > 0 && w == rest[0] {
			rest = rest[1:]
		} else {
			out = append(out, cmp.Or(w.asIs, w.text))
		}
	}
	return strings.Join(out, " ")
}

// joined writes words as one, without "and". Aas is a name and AS a legal form, so it uses the letters as
// written.
func joined(ws []word) string {
	var b strings.Builder
	for _, w := range ws {
		if w != and {
			b.WriteString(w.text)
		}
	}
	return b.String()
}

var generations = map[string]string{
	"jun": "junior", "jr": "junior", "jnr": "junior", "junior": "junior", "dj": "junior", "fils": "junior",
	"sen": "senior", "sr": "senior", "snr": "senior", "senior": "senior", "da": "senior",
}

// cutGeneration removes the word for father or son from a name. It stands anywhere but at the beginning; d.
// J. is two words.
func cutGeneration(ws []word) ([]word, string) {
	for size := 1; size <= 2; size++ {
		for i := 1; i+size <= len(ws); i++ {
			key := joined(ws[i : i+size])
			short := len(key) == 2 && size == 1 && (key == "dj" || key == "da") // a word of its own: Da Silva
			if g := generations[key]; g != "" && !short {
				return slices.Concat(ws[:i], ws[i+size:]), g
			}
		}
	}
	return ws, ""
}

// longestForm is of how many words a legal form is at most, letters with dots
// counted as words.
const longestForm = 8

// cutForm takes the legal form off a name: at its end, at its beginning, or, when
// it cannot be mistaken for something else, anywhere.
func cutForm(ws []word) ([]word, string) {
	for size := min(longestForm, len(ws)-1); size > 0; size-- {
		if f := forms[joined(ws[len(ws)-size:])]; f != "" {
			return trimAnd(ws[:len(ws)-size]), f
		}
	}
	for size := min(longestForm, len(ws)-1); size > 0; size-- {
		if f := forms[joined(ws[:size])]; f != "" {
			return ws[size:], f
		}
	}
	for size := min(longestForm, len(ws)-1); size > 0; size-- {
		for i := 1; i+size < len(ws); i++ {
			if key := joined(ws[i : i+size]); len(key) > 2 && forms[key] != "" {
				return slices.Concat(ws[:i], ws[i+size:]), forms[key]
			}
		}
	}
	return ws, ""
}

// trimAnd drops an "and" before the legal form: Meyer & Co. KG.
func trimAnd(ws []word) []word {
	for len(ws) > 1 && ws[len(ws)-1] == and {
		ws = ws[:len(ws)-1]
	}
	return ws
}

// initial reports whether a word is a single letter.
func (w word) initial() bool { return len(w.text) == 1 && w.text[0] >= 'a' && w.text[0] <= 'z' }

// oneSlip reports whether two words differ by one slip of the fingers: a letter too
// many, too few or wrong, or two the wrong way round. Short words and numerals are
// never a slip of each other.
func oneSlip(a, b word) bool {
	if short := min(len(a.text), len(b.text)); short < 3 || a.counts || b.counts || a == and || b == and {
		return false
	}
	if d := len(a.text) - len(b.text); d > 2 || d < -2 { // in bytes; a letter may have two
		if strings.IndexFunc(a.text+b.text, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
			return false
		}
	}
	switch levenshtein.ComputeDistance(a.text, b.text) {
	case 0, 1:
		return true
	case 2:
		return transposed(a.text, b.text)
	}
	return a.marked != b.marked && levenshtein.ComputeDistance(a.bare, b.bare) == 1
}

// transposed reports whether two texts differ by two swapped neighbours.
func transposed(a, b string) bool {
	x, y := []rune(a), []rune(b)
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] {
			return i+1 < len(x) && x[i] == y[i+1] && x[i+1] == y[i] && slices.Equal(x[i+2:], y[i+2:])
		}
	}
	return true
}
