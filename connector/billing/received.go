package billing

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"payersync/connector"
)

// received describes an answer other than JSON without personal data: by type and size. It is "" for JSON and for an
// empty answer.
func received(header http.Header, body []byte) string {
	if len(body) == 0 || checkBody(header, body) == nil {
		return ""
	}
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || !mediaShape.MatchString(media) {
		media = "no type"
	}
	return fmt.Sprintf("%s, %d bytes", media, len(body))
}

var mediaShape = regexp.MustCompile(`^[a-z]+/[a-z0-9.+-]{1,40}$`)

// The limits for an error's sentence. They exclude contact data and possible tokens.
const (
	maxSaid     = 200
	maxSaidWord = 24
)

var longNumber = regexp.MustCompile(`[0-9]{5,}`)

// sentText returns the explanation in an error body. It is only for requests without a record, because explanations may
// quote the record. It omits a sentence with a secret, or similar to one.
func sentText(header http.Header, body []byte, secrets ...connector.Secret) string {
	o := errorMembers(header, body)
	for _, key := range []string{"message", "error_description", "errorDescription", "detail", "title"} {
		if text := strings.TrimSpace(scalar(o.get(key))); text != "" && sayable(text, secrets) {
			return text
		}
	}
	return ""
}

func sayable(text string, secrets []connector.Secret) bool {
	for _, s := range secrets {
		if v := s.Expose(); v != "" && strings.Contains(text, v) {
			return false
		}
	}
	for _, word := range strings.Fields(text) {
		if len(word) > maxSaidWord || strings.ContainsRune(word, '@') || longNumber.MatchString(word) {
			return false
		}
	}
	return len(text) <= maxSaid &&
		!strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) })
}

// explained adds details from the answer to a refusal's cause. plain means the request concerns no record.
func explained(why string, plain bool, header http.Header, body []byte, secrets ...connector.Secret) string {
	if what := received(header, body); what != "" {
		return why + "; it answered with " + what
	}
	text := sentText(header, body, secrets...)
	if !plain {
		text = withoutValues(reasonOf(header, body))
	}
	if text != "" {
		return fmt.Sprintf("%s; it says %q", why, text)
	}
	return why
}

// reasonOf returns the explanation for a refused record. In a list of errors it takes the first one, with its field. It
// may quote the record.
func reasonOf(header http.Header, body []byte) string {
	o := errorMembers(header, body)
	for _, list := range []string{"errors", "violations", "fieldErrors", "field_errors", "details"} {
		var first []json.RawMessage
		if json.Unmarshal(o.get(list), &first) != nil || len(first) == 0 {
			continue
		}
		if e, err := parseObject(first[0]); err == nil {
			return strings.TrimSpace(sentenceOf(e, "field", "path", "property", "name") + " " +
				sentenceOf(e, "message", "defaultMessage", "reason", "detail", "code"))
		}
		if text := scalar(first[0]); text != "" {
			return text
		}
	}
	return sentenceOf(o, "message", "error_description", "errorDescription", "detail", "title")
}

// sentenceOf returns the first text under one of the keys.
func sentenceOf(o object, keys ...string) string {
	return connector.First(keys, func(key string) string { return strings.TrimSpace(scalar(o.get(key))) })
}

// withoutValues replaces every word possibly taken from the record by "…". It keeps the usual words of refusals and
// small numbers. If less than half of the sentence is left, it returns "".
func withoutValues(sentence string) string {
	words := strings.Fields(sentence)
	kept := 0
	var out []string
	for _, word := range words {
		if isReasonWord(word) {
			out, kept = append(out, word), kept+1
		} else if len(out) == 0 || out[len(out)-1] != "…" {
			out = append(out, "…")
		}
	}
	if masked := kept < len(words); masked && kept < max(3, len(words)/2) || len(sentence) > maxSaid {
		return ""
	}
	return strings.Join(out, " ")
}

var (
	reasonParts  = regexp.MustCompile(`[A-Z]+[a-z]*|[a-z]+|[0-9]+`)
	reasonSigns  = regexp.MustCompile(`^[A-Za-z0-9.,:;()\[\]'"_/<>=-]+$`)
	smallNumbers = regexp.MustCompile(`^[0-9]{1,3}$`)
)

// isReasonWord reports whether a word, or each part of a path such as people[0].email, is one
// of reasonWords.
func isReasonWord(word string) bool {
	parts := reasonParts.FindAllString(word, -1)
	return len(parts) > 0 && reasonSigns.MatchString(word) && !slices.ContainsFunc(parts, func(p string) bool {
		return !smallNumbers.MatchString(p) && !slices.Contains(reasonWords, strings.ToLower(p))
	})
}

// reasonWords are the words of validation messages and of the interface's fields. None is a name.
var reasonWords = strings.Fields(`a about accept accepted address addresses all allowed already an and another any are as at bad be been between blank body both but by can cannot character characters
	city code contact contacts contain contains country create customer customers data direct debit digits does duplicate email empty entity error exceed exceeds exist exists expected external failed field fields for format formed found
	from greater has have id in incorrect input invalid is iso it key kind least length less letters line list long longer malformed mandate mandates match matching maximum max may mail message minimum min missing more most must name needs
	no not null number object of one only optional or other parameter people person phone pattern please post postal postcode present primary property provide provided request required resource same schema see shorter
	should size size specified string supported text than that the there this to too type unexpected unique unknown unprocessable unsupported url used valid validation value values was well were when which with without wrong zip`)
