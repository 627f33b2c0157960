package connector

import (
	"errors"
	"fmt"
	"time"
)

// Fault is the meaning of a failed call to a remote system for its caller.
type Fault string

// The faults. Only FaultUnknown leaves open whether the call had an effect.
const (
	// refused because of its content; nothing was changed; sending it again is pointless
	FaultRejected     Fault = "rejected"
	FaultNotFound     Fault = "not_found"    // no such object; nothing was changed
	FaultUnauthorized Fault = "unauthorized" // the credentials were refused, also after one renewal; nothing was changed
	FaultThrottled    Fault = "throttled"    // too many requests; nothing was changed; try again at RetryAt
	// no usable answer, and nothing was changed (a read, or a write that never left)
	FaultUnavailable Fault = "unavailable"
	FaultUnknown     Fault = "unknown" // a write left, and no usable answer came: it may have happened
)

// ErrTokenRenewed is the cause if a call never repeated automatically was refused for its access token. There is a new
// token, and nothing was changed.
var ErrTokenRenewed = errors.New("the access token was renewed")

// ErrNeverTried is the cause if no attempt was made to send a request, so its bytes are nowhere. A request that was
// refused for its token, or failed to connect, was tried.
var ErrNeverTried = errors.New("no attempt was made to send it")

// ErrWrongWay is the cause if the service has the object and refuses this form of request. A setting for the spelling
// of requests is wrong, not a record.
var ErrWrongWay = errors.New("it does not accept requests of this form")

// RemoteError is a failed call to a remote system. It contains no query string, header or personal value. It quotes a
// body only by its code, and by the explanation of a refused request without personal data.
type RemoteError struct {
	Op      string    // what was being done, for example "create customer"
	Fault   Fault     // its meaning for the caller
	Status  int       // HTTP status; 0 when there was no answer
	RetryAt time.Time // earliest time to try again; zero when the remote named none
	Detail  string    // why, in plain words
	Err     error     // the cause, if it helps
}

// Error returns the failure in one line.
func (e *RemoteError) Error() string {
	s := e.Op + ": " + e.Detail
	if e.Status != 0 {
		s = fmt.Sprintf("%s (HTTP %d)", s, e.Status)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *RemoteError) Unwrap() error { return e.Err }

// FaultOf returns what err means for its caller, and "" when err did not come
// from a remote system.
func FaultOf(err error) Fault {
	var remote *RemoteError
	if errors.As(err, &remote) {
		return remote.Fault
	}
	return ""
}

// RetryAt returns the time named by a throttling remote system; zero for none.
func RetryAt(err error) time.Time {
	var remote *RemoteError
	if errors.As(err, &remote) {
		return remote.RetryAt
	}
	return time.Time{}
}
