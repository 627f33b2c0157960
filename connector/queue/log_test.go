package queue

import (
	"errors"
	"log/slog"
	"testing"
)

func TestOfWhatRiverLogsOnlyTheHarmlessIsHandedOn(t *testing.T) {
	t.Parallel()
	var got []string
	l := riverLogger(func(text string) { got = append(got, text) }).With("args", "Jane").WithGroup("job")
	l.Info("Job errored", "error", "Jane")
	l.Warn("Job appears to be stuck", slog.Int64("job_id", 7), slog.String("kind", "slice"), slog.String("args", "Jane"))
	l.Error("Error fetching jobs", "err", errors.New("conn closed"), "panic_val", "Jane")
	l.Error("Failed")
	want := []string{"Job appears to be stuck (job_id: 7, kind: slice)", "Error fetching jobs (err: conn closed)",
		"Failed"}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got %q, want %q", got, want)
	}
}
