package session

import (
	"encoding/base64"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
)

// NewLog returns the program's log on w: one line per unit of work. It masks every live secret and everything
// like an e-mail address, a telephone number or a bank account.
func NewLog(w io.Writer, level, format string, secrets []connector.Secret) (*logrus.Logger, error) {
	log, _, err := newLog(w, level, format, secrets)
	return log, err
}

func newLog(w io.Writer, level, format string, secrets []connector.Secret) (*logrus.Logger, *mask, error) {
	log := logrus.New()
	log.SetOutput(w)
	m := new(mask)
	m.add(secrets)
	log.AddHook(m)
	log.AddHook(ofAccount(""))
	return log, m, setLog(log, level, format)
}

// ofAccount adds the name of its account to each line of a log, and to the command lines in it. An empty one takes the
// account from the line.
type ofAccount string

// Levels returns all levels.
func (ofAccount) Levels() []logrus.Level { return logrus.AllLevels }

// Fire adds the account to an entry.
func (a ofAccount) Fire(e *logrus.Entry) error {
	if a != "" {
		e.Data["account"] = string(a)
	}
	account, _ := e.Data["account"].(string)
	e.Message = connector.NameAccount(e.Message, account)
	for k, v := range e.Data {
		if text, is := v.(string); is { // mask has made texts of errors
			e.Data[k] = connector.NameAccount(text, account)
		}
	}
	return nil
}

// setLog says how much is logged from now on, and how.
func setLog(log *logrus.Logger, level, format string) error {
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return usage.Errorf("log.level %q is not known; use debug, info, warning or error", level)
	}
	log.SetLevel(parsed)
	if format == "json" {
		log.SetFormatter(&logrus.JSONFormatter{})
	} else {
		log.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	}
	return nil
}

const (
	masked      = "[redacted]"
	maxLogField = 1 << 10
)

// personal matches values that could identify or charge a payer.
var personal = regexp.MustCompile(`[^\s"'<>=]+@[^\s"'<>]+\.[^\s"'<>]+|` + // e-mail address
	`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}\b|` + // IBAN
	`\b\d{2}-\d{2}-\d{2}\b|` + // sort code
	`\+\d[\d ()-]{7,}\d`) // telephone number

// query matches the query string of an address.
var query = regexp.MustCompile(`(https?://[^\s"'?]+)\?[^\s"']*`)

// mask is the last line of defence: nothing secret should reach the log at all.
type mask struct {
	mu      sync.Mutex
	pairs   []string // each spelling of each secret, and its replacement
	secrets atomic.Pointer[strings.Replacer]
}

// add masks more secrets. The old ones stay masked, because they may still appear in messages.
func (m *mask) add(secrets []connector.Secret) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range secrets {
		v := s.Expose()
		if len(v) < 4 || slices.Contains(m.pairs, v) {
			continue // too short to be a secret, and masking it would garble every line
		}
		for _, form := range []string{v, url.QueryEscape(v), base64.StdEncoding.EncodeToString([]byte(v))} {
			m.pairs = append(m.pairs, form, masked)
		}
	}
	m.secrets.Store(strings.NewReplacer(m.pairs...))
}

// NewMask returns a function to mask texts other than log lines. It masks the secrets. Without names it also
// masks everything that could identify or charge a payer.
func NewMask(secrets []connector.Secret) func(text string, names bool) string {
	m := new(mask)
	m.add(secrets)
	return func(text string, names bool) string {
		text = m.secrets.Load().Replace(text)
		if !names {
			text = personal.ReplaceAllString(text, masked)
		}
		return text
	}
}

// Levels returns all levels.
func (*mask) Levels() []logrus.Level { return logrus.AllLevels }

// Fire masks the message and every field of an entry.
func (m *mask) Fire(e *logrus.Entry) error {
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

// logged replaces characters that control a terminal and that some formats do not escape. New lines and tabs,
// as in a stack, are escaped by all.
func logged(r rune) rune {
	if r == '\n' || r == '\t' {
		return r
	}
	return connector.Harmless(r)
}

func (m *mask) text(s string) string {
	s = m.secrets.Load().Replace(s)
	if strings.Contains(s, "?") { // a fast check first: most texts contain no match
		s = query.ReplaceAllString(s, "$1?"+masked)
	}
	if strings.ContainsAny(s, "@0123456789") { // all that personal matches has one of these
		s = personal.ReplaceAllString(s, masked)
	}
	s = strings.Map(logged, s)
	if len(s) > maxLogField {
		s = strings.ToValidUTF8(s[:maxLogField], "") + "…"
	}
	return s
}
