package queue

import (
	"context"
	"log/slog"
	"slices"
	"strings"
)

// riverLog forwards River's warnings. Of their attributes it keeps only those known to contain no personal data.
type riverLog struct{ log func(text string) }

func riverLogger(log func(text string)) *slog.Logger { return slog.New(riverLog{log}) }

var shown = []string{"err", "error", "job_id", "job_kind", "kind", "queue", "index_name"}

// Enabled reports whether somebody must know of it.
func (riverLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle hands a record on.
func (l riverLog) Handle(_ context.Context, r slog.Record) error {
	var with []string
	r.Attrs(func(a slog.Attr) bool {
		if slices.Contains(shown, a.Key) {
			with = append(with, a.Key+": "+a.Value.String())
		}
		return true
	})
	text := r.Message
	if len(with) > 0 {
		text += " (" + strings.Join(with, ", ") + ")"
	}
	l.log(text)
	return nil
}

// WithAttrs returns l: attributes common to all records say nothing.
func (l riverLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup returns l.
func (l riverLog) WithGroup(string) slog.Handler { return l }
