package protocol

import "time"

// The pauses before a signing link is requested again, after requests without an answer.
const (
	firstPause = 10 * time.Second // after the second attempt; each later pause is pauseGrows times as long
	pauseGrows = 4
	maxPause   = 24 * time.Hour
	together   = 10 * time.Second // attempts within this span of the first of them count as one
)

// NextTry returns the earliest time for another request for a signing link. sent holds the times of the
// requests without an answer, oldest first. It returns the zero time when there is no pause: one lost answer
// is requested again at once. The pauses grow up to a day, and there is no last attempt: at worst, a repeated
// request makes a second mandate to sign.
func NextTry(sent []time.Time) time.Time {
	if len(sent) < 2 {
		return time.Time{}
	}
	pause, first := time.Duration(0), time.Time{}
	for i, at := range sent {
		switch {
		case i == 0:
			pause, first = firstPause, at
		case at.Sub(first) > together:
			pause, first = min(pause*pauseGrows, maxPause), at
		}
	}
	return sent[len(sent)-1].Add(pause)
}
