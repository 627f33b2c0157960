package transport

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Repeats wait a random time below a bound that doubles from minBackoff to maxBackoff (full jitter). So
// clients that failed together do not return together.
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// maxRetryAfter bounds a server's pause; more counts as a mistake.
const maxRetryAfter = 24 * time.Hour

// again decides whether there is another attempt.
func (c *call) again(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if ctx.Err() != nil || c.attempts > c.client.options.Retries || c.client.circuit.IsOpen() || !c.mayRepeat(resp, err) {
		return false, nil
	}
	return c.client.budget.spend(), nil
}

func (c *call) mayRepeat(resp *http.Response, err error) bool {
	if c.repeat == Never {
		return false
	}
	if err != nil {
		return c.mayRepeatError(err)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return c.client.isShort(resp)
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return c.repeat == Always && c.client.isShort(resp)
	}
	return false
}

func (c *call) mayRepeatError(err error) bool {
	var failed *Error
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Reason {
	case ReasonProxy:
		var said errProxy
		return !errors.As(err, &said) && !failed.Sent // a refusal would be repeated
	case ReasonName, ReasonConnect, ReasonTimeout, ReasonBroken:
		return c.repeat == Always || !failed.Sent
	}
	return false
}

// isShort reports whether the server's wait is short enough to sleep.
func (c *Client) isShort(resp *http.Response) bool {
	now := c.options.Now()
	return RetryAfter(resp, now).Sub(now) <= c.options.MaxRetryAfter
}

// wait returns how long to wait before attempt n+2: never less than the server
// asked for, and a random time on top.
func (c *call) wait(shortest, longest time.Duration, n int, resp *http.Response) time.Duration {
	jitter := c.client.rand.below(min(longest, shortest<<min(n, 16)))
	now := c.client.options.Now()
	if at := RetryAfter(resp, now); !at.IsZero() {
		return at.Sub(now) + jitter
	}
	return jitter
}

// RetryAfter returns the earliest next attempt by the answer's Retry-After header: now at the earliest, a day
// from now at the latest, and the zero time without a valid header. It understands both forms, and a moment in
// seconds since 1970, which some services send in place of a number of seconds.
func RetryAfter(resp *http.Response, now time.Time) time.Time {
	if resp == nil {
		return time.Time{}
	}
	value := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if date, err := http.ParseTime(value); err == nil {
		return bounded(date, now)
	}
	if value == "" || strings.Trim(value, "0123456789") != "" {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		return now.Add(maxRetryAfter)
	case seconds >= leastEpoch:
		return bounded(time.Unix(seconds, 0), now)
	}
	return now.Add(min(time.Duration(seconds)*time.Second, maxRetryAfter))
}

// leastEpoch is the smallest Retry-After that is a moment since 1970, here of the year 2001: no service asks for a
// pause of thirty years.
const leastEpoch = 1_000_000_000

func bounded(date, now time.Time) time.Time {
	switch latest := now.Add(maxRetryAfter); {
	case date.Before(now):
		return now
	case date.After(latest):
		return latest
	}
	return date
}

// The retry budget: each sent call earns a tenth of a repeat, and up to budgetReserve may be saved. A service
// that fails every call therefore sees a tenth more traffic, not four times as much (fault F14).
// failsafe-go's budget bounds concurrent repeats only, not the many repeats of one worker.
const (
	budgetShare   = 0.1
	budgetReserve = 10
)

type budget struct {
	mu    sync.Mutex
	saved float64
}

func (b *budget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saved = min(budgetReserve, b.saved+budgetShare)
}

func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.saved < 1 {
		return false
	}
	b.saved--
	return true
}
