package session

import (
	"encoding/base64"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/sirupsen/logrus"

	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
)

// NewLog returns the program's log: one line per unit of work, on w. Every live
// secret and everything that looks like an e-mail address, a telephone number or
// a bank account is masked, whoever put it there.
func NewLog(w io.Writer, level, format string, secrets []connector.Secret) (*logrus.Logger, error) {
	log := logrus.New()
	log.SetOutput(w)
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return nil, usage.Errorf("log.level %q is not known; use debug, info, warning or error", level)
	}
	log.SetLevel(parsed)
	if format == "json" {
		log.SetFormatter(&logrus.JSONFormatter{})
	} else {
		log.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	}
	log.AddHook(newMask(secrets))
	return log, nil
}

const (
	masked      = "[redacted]"
	maxLogField = 1 << 10
)

// personal matches what a payer could be recognised or charged by.
var personal = regexp.MustCompile(`[^\s"'<>=]+@[^\s"'<>]+\.[^\s"'<>]+|` + // e-mail address
	`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}\b|` + // IBAN
	`\b\d{2}-\d{2}-\d{2}\b|` + // sort code
	`\+\d[\d ()-]{7,}\d`) // telephone number

// query matches the query string of an address.
var query = regexp.MustCompile(`(https?://[^\s"'?]+)\?[^\s"']*`)

// mask is the last line of defence: nothing secret should reach the log at all.
type mask struct{ secrets *strings.Replacer }

func newMask(secrets []connector.Secret) mask {
	var pairs []string
	for _, s := range secrets {
		v := s.Expose()
		if len(v) < 4 {
			continue // too short to be a secret, and masking it would garble every line
		}
		for _, form := range []string{v, url.QueryEscape(v), base64.StdEncoding.EncodeToString([]byte(v))} {
			pairs = append(pairs, form, masked)
		}
	}
	return mask{strings.NewReplacer(pairs...)}
}

// Levels returns all levels.
func (mask) Levels() []logrus.Level { return logrus.AllLevels }

// Fire masks the message and every field of an entry.
func (m mask) Fire(e *logrus.Entry) error {
	e.Message = m.text(e.Message)
	for k, v := range e.Data {
		switch v := v.(type) {
		case string:
			e.Data[k] = m.text(v)
		case error:
			e.Data[k] = m.text(v.Error())
		}
	}
	return nil
}

// logged replaces characters that could steer a terminal and that not every format
// escapes. New lines and tabs, as in a stack, are escaped by all.
func logged(r rune) rune {
	if r == '\n' || r == '\t' {
		return r
	}
	return show.Harmless(r)
}

func (m mask) text(s string) string {
	s = m.secrets.Replace(s)
	s = query.ReplaceAllString(s, "$1?"+masked)
	s = personal.ReplaceAllString(s, masked)
	s = strings.Map(logged, s)
	if len(s) > maxLogField {
		s = strings.ToValidUTF8(s[:maxLogField], "") + "…"
	}
	return s
}
