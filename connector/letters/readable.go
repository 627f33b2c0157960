package letters

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
)

// Readable returns a letter in readable form: sender, recipient, subject and text. It returns an unparsable letter
// unchanged.
func Readable(message []byte) string {
	m, err := mail.ReadMessage(bytes.NewReader(message))
	if err != nil {
		return string(message)
	}
	var out strings.Builder
	words := new(mime.WordDecoder)
	for _, name := range []string{"From", "Reply-To", "To", "Subject"} {
		value, err := words.DecodeHeader(m.Header.Get(name))
		if err != nil {
			value = m.Header.Get(name)
		}
		if value != "" {
			out.WriteString(name + ": " + value + "\n")
		}
	}
	text, err := partOf("text/plain", m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body)
	if err != nil {
		return string(message)
	}
	return out.String() + "\n" + strings.ReplaceAll(strings.TrimSpace(text), "\r\n", "\n")
}

// HTML returns a letter as mail programs show it.
func HTML(message []byte) (string, error) {
	m, err := mail.ReadMessage(bytes.NewReader(message))
	if err != nil {
		return "", err
	}
	return partOf("text/html", m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body)
}

// partOf returns the first part of a type, or the whole if there are no parts.
func partOf(wanted, contentType, encoding string, body io.Reader) (string, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err == nil && strings.HasPrefix(kind, "multipart/") {
		parts := multipart.NewReader(body, params["boundary"])
		for {
			part, err := parts.NextRawPart()
			if err != nil {
				return "", err
			}
			if kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type")); err == nil && kind == wanted {
				return partOf(wanted, kind, part.Header.Get("Content-Transfer-Encoding"), part)
			}
		}
	}
	switch strings.ToLower(encoding) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	text, err := io.ReadAll(body)
	return string(text), err
}
