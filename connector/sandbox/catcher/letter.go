package catcher

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"strings"
	"time"

	"golang.org/x/text/encoding/charmap"
)

// Letter is a received letter. Its unreadable parts are blank; Source is as it came.
type Letter struct {
	Number     int       `json:"number"` // the first is 1
	ReceivedAt time.Time `json:"receivedAt"`
	Sender     string    `json:"sender"`     // as the conversation names it
	Recipients []string  `json:"recipients"` // the same
	From       string    `json:"from"`       // from its header, like the fields below
	To         string    `json:"to"`
	Subject    string    `json:"subject"`
	MessageID  string    `json:"messageId"`
	Text       string    `json:"text"`
	HTML       string    `json:"html"`
	Source     []byte    `json:"-"`
}

func (l Letter) size() int { return len(l.Source) + len(l.Text) + len(l.HTML) }

var address = regexp.MustCompile(`https?://[^\s<>"]*[^\s<>".,;:!?)]`)

// Links returns the web addresses in the letter's text, each once.
func (l Letter) Links() []string {
	var out []string
	seen := map[string]bool{}
	for _, link := range address.FindAllString(l.Text, -1) {
		if !seen[link] {
			seen[link] = true
			out = append(out, link)
		}
	}
	return out
}

var words = mime.WordDecoder{CharsetReader: inUTF8}

// read takes a letter apart as far as it can be read.
func read(source []byte) Letter {
	l := Letter{Source: source}
	m, err := mail.ReadMessage(bytes.NewReader(source))
	if err != nil {
		return l
	}
	for into, name := range map[*string]string{&l.From: "From", &l.To: "To", &l.Subject: "Subject",
		&l.MessageID: "Message-Id"} {
		*into = m.Header.Get(name)
		if decoded, err := words.DecodeHeader(*into); err == nil {
			*into = decoded
		}
	}
	l.readPart(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body, 4)
	return l
}

// readPart looks for text and HTML in a part, to the depth deep. The first of several counts.
func (l *Letter) readPart(kind, encoding string, body io.Reader, deep int) {
	media, params, err := mime.ParseMediaType(kind)
	if err != nil {
		media = "text/plain" // the default type of a letter
	}
	if strings.HasPrefix(media, "multipart/") && deep > 0 {
		parts := multipart.NewReader(body, params["boundary"])
		for {
			part, err := parts.NextRawPart()
			if err != nil {
				return
			}
			l.readPart(part.Header.Get("Content-Type"), part.Header.Get("Content-Transfer-Encoding"), part, deep-1)
		}
	}
	into := map[string]*string{"text/plain": &l.Text, "text/html": &l.HTML}[media]
	if into == nil || *into != "" {
		return
	}
	decoded, err := inUTF8(params["charset"], decoder(encoding, body))
	if err != nil {
		return
	}
	read, _ := io.ReadAll(decoded) // its readable part
	*into = strings.ReplaceAll(strings.ToValidUTF8(string(read), "\uFFFD"), "\r\n", "\n")
}

func decoder(encoding string, body io.Reader) io.Reader {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		return quotedprintable.NewReader(body)
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, body)
	}
	return body
}

// inUTF8 reads text in another character set: of those there are, what mail in
// western Europe was written in before UTF-8.
func inUTF8(charset string, body io.Reader) (io.Reader, error) {
	switch strings.ToLower(charset) {
	case "", "us-ascii", "utf-8":
		return body, nil
	case "iso-8859-1", "iso-8859-15", "windows-1252":
		return charmap.Windows1252.NewDecoder().Reader(body), nil
	}
	return nil, fmt.Errorf("the character set %q is not known here", charset)
}
