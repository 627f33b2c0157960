package billing

import (
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"payersync/connector"
)

// received describes an answer that is no JSON by what is nobody's: its type and size. It
// is "" for one that is JSON, and for one that is empty.
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

// What the sentence of an error may be made of: nothing by which anybody could be reached,
// and no word that could be a token.
const (
	maxSaid     = 200
	maxSaidWord = 24
)

var longNumber = regexp.MustCompile(`[0-9]{5,}`)

// said returns the sentence with which an error body explains itself. It is for requests
// that are about no record: what is said of one may quote it. A sentence that holds one of
// the secrets, or looks as if it could, is left out.
func said(header http.Header, body []byte, secrets ...connector.Secret) string {
	if checkBody(header, body) != nil {
		return ""
	}
	o, err := parseObject(body)
	if err != nil {
		return ""
	}
	if nested, err := parseObject(o.get("error")); err == nil {
		o = append(nested, o...)
	}
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
	return len(text) <= maxSaid && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) })
}

// explained completes why a request was refused by what came with the refusal. plain says
// that the request is about no record.
func explained(why string, plain bool, header http.Header, body []byte, secrets ...connector.Secret) string {
	if what := received(header, body); what != "" {
		return why + "; it answered with " + what
	}
	if text := said(header, body, secrets...); plain && text != "" {
		return fmt.Sprintf("%s; it says %q", why, text)
	}
	return why
}
