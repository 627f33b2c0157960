package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"payersync/connector"
)

// Reason is a code for why a call has no usable answer (fault F16).
type Reason string

// The reasons.
const (
	ReasonURL       Reason = "url"       // the request was refused before anything was done
	ReasonName      Reason = "name"      // the host name could not be resolved
	ReasonAddress   Reason = "address"   // the host name has a forbidden address
	ReasonConnect   Reason = "connect"   // no connection could be made
	ReasonProxy     Reason = "proxy"     // the outgoing proxy could not be reached, or let nothing through
	ReasonTLS       Reason = "tls"       // the certificate or the encryption was not acceptable
	ReasonTimeout   Reason = "timeout"   // the answer was not complete in time
	ReasonBroken    Reason = "broken"    // the connection broke before the answer was complete
	ReasonTooLarge  Reason = "too_large" // the answer was larger than allowed
	ReasonCircuit   Reason = "circuit"   // after many failures, nothing is sent for a while
	ReasonCancelled Reason = "cancelled" // the caller gave up
)

// sentences explain each reason without any content of a request.
var sentences = map[Reason]string{
	ReasonURL:       "the request cannot be sent",
	ReasonName:      "the server's name could not be resolved",
	ReasonAddress:   "the server's name leads to an address that may not be reached",
	ReasonConnect:   "no connection to the server could be made",
	ReasonProxy:     "the outgoing proxy (http.proxy in the configuration) let no connection through",
	ReasonTLS:       "the server's certificate or encryption is not acceptable",
	ReasonTimeout:   "the server did not answer in time",
	ReasonBroken:    "the connection broke before the answer was complete",
	ReasonTooLarge:  "the answer is larger than allowed",
	ReasonCircuit:   "the server failed too often, so nothing is sent to it for a while",
	ReasonCancelled: "the call was cancelled",
}

// Error is a call without a usable answer. Its text holds no address, header,
// query or body.
type Error struct {
	Reason   Reason
	Sent     bool      // the request may have reached the server; false when it certainly did not
	Tried    bool      // an attempt passed the limits; without one, the request is nowhere
	Attempts int       // how often it was tried
	Got      string    // the received part of the last awaited answer
	RetryAt  time.Time // when the open circuit lets a probe through; zero for other reasons
	Err      error     // the cause, for errors.Is and errors.As; its own text may quote the server
}

// Error says what happened, with the cause if it is safe to show.
func (e *Error) Error() string {
	text := sentences[e.Reason]
	if e.Attempts > 1 {
		text = fmt.Sprintf("%s (tried %d times)", text, e.Attempts)
	}
	switch e.Reason {
	case ReasonURL, ReasonName, ReasonAddress, ReasonConnect, ReasonProxy, ReasonTLS, ReasonCancelled:
		if e.Err != nil {
			text += ": " + e.Err.Error()
		}
	case ReasonTimeout, ReasonBroken:
		if e.Got != "" {
			text += ": " + e.Got
		}
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

var (
	errTimeout  = errors.New("attempt took too long")
	errTooLarge = errors.New("body exceeds the limit")
)

// reasonOf classifies the error of one attempt nobody cancelled; cause is the reason why the attempt's own
// context ended, if it did.
func reasonOf(cause, err error) Reason {
	var timeout net.Error
	switch {
	case errors.Is(err, errTooLarge):
		return ReasonTooLarge
	case errors.Is(err, connector.ErrAddress):
		return ReasonAddress
	case isProxy(err):
		return ReasonProxy
	case isA[*net.DNSError](err):
		return ReasonName
	case isTLS(err):
		return ReasonTLS
	case isDial(err):
		return ReasonConnect
	case errors.Is(cause, errTimeout), errors.As(err, &timeout) && timeout.Timeout():
		return ReasonTimeout
	}
	return ReasonBroken
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func isTLS(err error) bool {
	return isA[*tls.CertificateVerificationError](err) || isA[tls.RecordHeaderError](err) || isA[tls.AlertError](err) ||
		isA[x509.UnknownAuthorityError](err) || isA[x509.HostnameError](err) || isA[x509.CertificateInvalidError](err)
}

func isA[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}
