package templates

import (
	"fmt"
	"regexp"
	"strings"
)

// rule is a kind of words that no letter has.
type rule struct {
	words *regexp.Regexp
	says  string // %s is the finding
}

const months = `(?:January|February|March|April|May|June|July|August|September|October|November|December|` +
	`Januar|Jänner|Februar|März|Mai|Juni|Juli|Oktober|Dezember|` +
	`janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre)`

// rules are tried one after the other; the first match at a place is reported.
var rules = []rule{
	{regexp.MustCompile(`(?i)<\s*img\b[^>]*>?|!\[[^\]]*\]|\b(?:cid|data):\S+|\btracking\b`),
		"letters have no images and count nobody; remove %s"},
	{regexp.MustCompile(`(?i)<\s*/?\s*[a-z!][^<>\n]*>`),
		"a template is plain text, of which the HTML is made; write it without %s"},
	{regexp.MustCompile(`(?i)(?:[€£$¥]|\b(?:EUR|GBP|USD|CHF)\b)\s?\d[\d.,]*|\d[\d.,'’]*\s?(?:[€£$¥]|(?:EUR|GBP|USD|CHF|euros?|pounds?|dollars?|franken|francs?)\b)`),
		"a letter tells no amount, since whoever collects gives notice of it; remove %s"},
	{regexp.MustCompile(`(?i)\b\d{4}-\d{1,2}-\d{1,2}\b|\b\d{1,2}[./]\d{1,2}[./](?:\d{2,4})?|\b\d{1,2}(?:st|nd|rd|th|er|\.)?\s+(?:of\s+)?` + months + `\b|\b` + months + `\s+\d{1,2}\b|` +
		`\bon the \d{1,2}(?:st|nd|rd|th)\b|\bam \d{1,2}\.|\ble \d{1,2}(?:er)?\b|` +
		`\bdue dates?\b|\b(?:debit|collection) dates?\b|\bdates? of (?:the )?(?:debit|collection)\b|\bfälligkeits?(?:datum|termin|tag)?\b|\b(?:einzugs|abbuchungs|lastschrift)(?:datum|termin|tag)\b|\bdates? d[e’'](?: ?prélèvement| ?échéance)`),
		"a letter tells no day of a debit, since whoever collects gives notice of it; remove %s"},
	{regexp.MustCompile(`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,}\b|\b\d{2}-\d{2}-\d{2}\b`),
		"a letter holds no bank details; remove %s"},
	{regexp.MustCompile(`(?i)\b(?:discounts?|special offers?|offers?|for free|free gifts?|gifts?|vouchers?|coupons?|newsletters?|bargains?|act now|limited time|don[’']t miss|buy now|win|` +
		`rabatte?|angebote?|gutscheine?|gratis|kostenlose[rsnm]?|kostenlos|sonderaktion|schnäppchen|gewinnspiel|jetzt zugreifen|exklusiv|` +
		`remises?|offres?|promotions?|promo|gratuite?s?|cadeaux?|soldes|bons? d[’']achat|profitez)\b|\d+\s?%`),
		"this is a letter about a mandate and nothing else, so that it stays a message of service; remove %s"},
	{regexp.MustCompile(`(?i)\b(?:https?|ftp|mailto|javascript):\S*|\S*://\S*|\bwww\.\S+|\b[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)*\.[a-z]{2,}\b(?:/\S*)?`),
		"a letter leads to one place, by {{.Link}}; remove %s (where it is no address, put a space behind the full stop)"},
}

// guessed finds a form of address before a name.
var guessed = regexp.MustCompile(`(?i)\b(?:sehr geehrter?|lieber?|chère?|cher)?\s*\b(Herrn?|Frau|Mr\.?|Mrs\.?|Ms\.?|Miss|Sir|Madam|Monsieur|Madame|Mme\.?|M\.)\s*\{\{`)

// action matches the content of braces.
var action = regexp.MustCompile(`(?s)\{\{.*?\}\}`)

// words finds forbidden words of letters.
func (r *reader) words() {
	if r.known {
		return
	}
	for _, m := range guessed.FindAllStringSubmatchIndex(r.text, -1) {
		r.problem(m[2], m[3]-m[2],
			"payersync does not know how people wish to be addressed; write the name alone, without %s", r.text[m[2]:m[3]])
	}
	plain := action.ReplaceAllStringFunc(r.text, func(s string) string { return strings.Repeat("\x00", len(s)) })
	r.match(plain, func(at int) int { return at })
}

// match returns the rules' findings in a text, with the places in the file.
func (r *reader) match(text string, where func(int) int) {
	if r.known { // the configuration is read every few seconds
		return
	}
	taken := make([]bool, len(text))
	for _, rule := range rules {
		for _, m := range rule.words.FindAllStringIndex(text, -1) {
			found := strings.Trim(text[m[0]:m[1]], " \n\x00.,;")
			if taken[m[0]] || r.ours(found) {
				continue
			}
			for i := m[0]; i < m[1]; i++ {
				taken[i] = true
			}
			r.problem(where(m[0]), len([]rune(found)), "%s", fmt.Sprintf(rule.says, found))
		}
	}
}

// ours reports whether a text is the domain of the sender, which letters may name.
func (r *reader) ours(found string) bool {
	_, domain, _ := strings.Cut(r.options.From.Address, "@")
	found, domain = strings.ToLower(found), strings.ToLower(domain)
	return domain != "" && (found == domain || strings.HasSuffix(found, "."+domain))
}
