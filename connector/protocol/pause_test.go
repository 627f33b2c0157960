package protocol

import (
	"testing"
	"time"
)

// covers F240
func TestThePauseBeforeALinkIsAskedForAgainGrowsUpToADay(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	at := func(after ...time.Duration) (out []time.Time) {
		for _, d := range after {
			out = append(out, began.Add(d))
		}
		return out
	}
	long := make([]time.Duration, 40)
	for i := range long {
		long[i] = time.Duration(i) * 25 * time.Hour
	}
	for _, tt := range []struct {
		name string
		sent []time.Time
		want time.Duration // after the last attempt; -1 for no pause
	}{
		{"none", nil, -1},
		{"one is repeated at once", at(0), -1},
		{"two within seconds", at(0, time.Second), 10 * time.Second},
		{"many within seconds count as one", at(0, 1, 2, 3, 4*time.Second, 9*time.Second), 10 * time.Second},
		{"two, minutes apart", at(0, 15*time.Minute), 40 * time.Second},
		{"the seconds count from the first attempt", at(0, 8*time.Second, 16*time.Second), 40 * time.Second},
		{"three, minutes apart", at(0, 15*time.Minute, 30*time.Minute), 160 * time.Second},
		{"many", at(long...), 24 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			next := NextTry(tt.sent)
			if tt.want < 0 {
				if !next.IsZero() {
					t.Errorf("the next try waits until %s, want none to", next)
				}
				return
			}
			if got := next.Sub(tt.sent[len(tt.sent)-1]); got != tt.want {
				t.Errorf("the pause is %s, want %s", got, tt.want)
			}
		})
	}
}
