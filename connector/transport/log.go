package transport

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sirupsen/logrus"
)

// leveled lets the retrying client log through logrus. Everything goes to debug
// level, because whoever made the call reports its outcome, and of an address
// only what stands before the query is kept.
type leveled struct{ entry *logrus.Entry }

func (l leveled) Error(msg string, pairs ...any) { l.Debug(msg, pairs...) }
func (l leveled) Warn(msg string, pairs ...any)  { l.Debug(msg, pairs...) }
func (l leveled) Info(msg string, pairs ...any)  { l.Debug(msg, pairs...) }

func (l leveled) Debug(msg string, pairs ...any) {
	l.entry.WithFields(safeFields(pairs)).Debug(msg)
}

// safeFields keeps the pairs known to be harmless and drops all others.
func safeFields(pairs []any) logrus.Fields {
	fields := logrus.Fields{}
	for i := 0; i+1 < len(pairs); i += 2 {
		switch key := fmt.Sprint(pairs[i]); key {
		case "method", "timeout", "remaining":
			fields[key] = pairs[i+1]
		case "url", "request":
			fields[key] = withoutQuery(fmt.Sprint(pairs[i+1]))
		case "error":
			fields[key] = reasonText(pairs[i+1])
		}
	}
	return fields
}

func withoutQuery(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		words[i], _, _ = strings.Cut(word, "?")
	}
	return strings.Join(words, " ")
}

func reasonText(value any) string {
	var failed *Error
	if err, ok := value.(error); ok && errors.As(err, &failed) {
		return string(failed.Reason)
	}
	return fmt.Sprintf("%T", value)
}
