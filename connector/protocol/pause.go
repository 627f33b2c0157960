package protocol

import "time"

// How long a request for a signing link is not repeated after one that got no answer.
const (
	firstPause = 10 * time.Second // after the second attempt; each later pause is pauseGrows times as long
	pauseGrows = 4
	maxPause   = 24 * time.Hour
	together   = 10 * time.Second // attempts within this span of the first of them count as one
)

// NextTry returns the earliest time to ask for a signing link again, by the times at which the
// requests left that got no answer, oldest first. It is the zero time when there is no pause: one
// lost answer is asked for again at once. The pauses grow up to a day, and there is no last
// attempt: asking again where no mandate is makes at worst a second one to sign.
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
