package templates

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	netmail "net/mail"
	"net/url"
	"regexp"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"payersync/connector/letters"
	"payersync/connector/mail"
)

// Envelope holds the recipient, the id and the date of a letter, and its token.
type Envelope struct {
	To        string // the address alone
	MessageID string // without brackets
	Date      time.Time
	Stop      string // the token for ending reminders
}

// ErrTooLarge means that a letter is larger than MaxSize, so it is not written.
var ErrTooLarge = fmt.Errorf("the letter is larger than %d bytes", MaxSize)

// longestID is the largest number of bytes of the id or the stop token of a letter.
const longestID = 384

// The forms that are given by us; anything else is a mistake of the caller.
var (
	messageID = regexp.MustCompile(`^[A-Za-z0-9._-]+@[A-Za-z0-9.-]+$`)
	stopToken = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)
)

// Write returns a letter as it leaves. The same draft gives the same bytes.
func (s *Set) Write(d letters.Draft) ([]byte, error) {
	l, err := s.Render(d.Kind, d.Language,
		Fields{Name: d.Name, Contact: d.Contact, Number: d.Number, Link: d.Link, Days: d.Days, Stop: d.Stop})
	if err != nil {
		return nil, err
	}
	return s.Message(l, Envelope{To: d.To, MessageID: d.MessageID, Date: d.Date, Stop: d.Stop})
}

// Message returns the bytes of a message with a letter, for one recipient.
func (s *Set) Message(l Letter, e Envelope) ([]byte, error) {
	if err := mail.CheckAddress(e.To); err != nil {
		return nil, fmt.Errorf("the address of the payer: %w", err)
	}
	if len(e.MessageID) > longestID || len(e.Stop) > longestID || !messageID.MatchString(e.MessageID) ||
		!stopToken.MatchString(e.Stop) {
		return nil, errors.New("the letter has no id, or one that ends its line")
	}
	boundary := sha256.Sum256([]byte("boundary of " + e.MessageID))
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithBoundary(hex.EncodeToString(boundary[:20])))
	from := s.options.From
	from.Name = inOneLine(from.Name)
	msg.FromMailAddress(&from)
	msg.ToMailAddress(&netmail.Address{Address: e.To})
	msg.ReplyToMailAddress(&netmail.Address{Address: s.options.fill(values{}).ReplyTo})
	msg.Subject(inOneLine(l.Subject))
	msg.SetMessageIDWithValue(e.MessageID)
	msg.SetDateWithValue(e.Date)
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // prevents automatic holiday replies
	s.unsubscribe(msg, e.Stop)
	msg.SetBodyString(gomail.TypeTextPlain, l.Text)
	msg.AddAlternativeString(gomail.TypeTextHTML, l.HTML)
	var out bytes.Buffer
	if _, err := msg.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("write the letter: %w", err)
	}
	if out.Len() > MaxSize {
		return nil, ErrTooLarge
	}
	return out.Bytes(), nil
}

// unsubscribe sets the headers for ending reminders, for mail programs with a button. go-mail changes the
// order of several raw headers from one message to the next.
func (s *Set) unsubscribe(msg *gomail.Msg, token string) {
	uris := []string{"<mailto:" + s.options.fill(values{}).ReplyTo + "?subject=" +
		url.PathEscape(strings.TrimSpace("stop "+token)) + ">"}
	if s.options.StopURL != "" && token != "" {
		uris = append([]string{"<" + s.options.stopLink(token) + ">"}, uris...)
		msg.SetGenHeader(gomail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
	}
	msg.SetGenHeaderPreformatted(gomail.HeaderListUnsubscribe, strings.Join(uris, ",\r\n "))
}

func (o *Config) stopLink(token string) string {
	return strings.TrimSuffix(o.StopURL, "/") + "/" + token
}
