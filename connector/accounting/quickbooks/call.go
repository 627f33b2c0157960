package quickbooks

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// minorVersion is the version of the API's objects and their fields.
const minorVersion = "75"

// pauseWhenThrottled is the pause required by Intuit; it sends no Retry-After.
const pauseWhenThrottled = time.Minute

// ask is one read of the API.
type ask struct {
	op    string // the operation, for errors
	path  string // below the company
	query url.Values
}

// answer is a 200 with JSON in it.
type answer struct {
	accounting.Answer
	ask ask
}

func (a answer) decode(into any) error {
	if err := json.Unmarshal(a.Body, into); err != nil {
		return a.unusable("it has another form than documented")
	}
	return nil
}

// unusable returns the error of an answer with unexpected content. Its body is never shown.
func (a answer) unusable(why string) error {
	return &connector.RemoteError{
		Op: a.ask.op, Fault: connector.FaultUnavailable, Status: http.StatusOK,
		Detail: "QuickBooks' answer cannot be used: " + why + trace(a.Header),
	}
}

// get sends a request and judges the answer.
func (s *Source) get(ctx context.Context, a ask) (answer, error) {
	u := s.base.JoinPath(a.path)
	query := url.Values{"minorversion": {minorVersion}}
	maps.Copy(query, a.query)
	u.RawQuery = query.Encode() // encodes the + of an offset, otherwise a space
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", a.op, err)
	}
	req.Header.Set("Accept", "application/json")
	got, err := s.caller.Do(ctx, a.op, req)
	if err != nil {
		return answer{}, err
	}
	if err := s.judge(ctx, a, got); err != nil {
		return answer{}, err
	}
	out := answer{got, a}
	if came := accounting.NotJSON(got.Body); came != "" {
		return answer{}, out.unusable(came + " came instead of JSON")
	}
	return out, nil
}

// errGone is QuickBooks' own statement that an object does not exist; a status alone may come from a proxy in
// front of it.
var errGone = errors.New("there is no such object")

// judge returns the error of an answer. The fault in its body comes before its status: a throttled request
// may get 403 as well, and XML in place of JSON.
func (s *Source) judge(ctx context.Context, a ask, got accounting.Answer) error {
	f := faultOf(got.Body)
	failed := &connector.RemoteError{
		Op: a.op, Fault: connector.FaultRejected, Status: got.Status,
		Detail: "QuickBooks did not accept the request" + f.text() + trace(got.Header),
	}
	switch status := got.Status; {
	case status == http.StatusTooManyRequests, f.code() == "3001":
		return s.throttled(ctx, a, got.Header)
	case status == http.StatusOK && f.code() == "":
		return nil
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		failed.Fault = connector.FaultUnauthorized
		return &accounting.Disconnected{Reason: f.refusal(status), Err: failed}
	case status >= http.StatusInternalServerError:
		failed.Fault, failed.Detail = connector.FaultUnavailable, "QuickBooks has a failure"+f.text()+trace(got.Header)
		failed.RetryAt = transport.RetryAfter(&http.Response{Header: got.Header}, s.now())
	case f.code() == "610":
		failed.Fault, failed.Err = connector.FaultNotFound, errGone
	case status == http.StatusNotFound:
		failed.Fault = connector.FaultNotFound
	}
	return failed
}

// throttled parks the company for the minute required by Intuit, or for as long as the answer says.
func (s *Source) throttled(ctx context.Context, a ask, header http.Header) error {
	until := transport.RetryAfter(&http.Response{Header: header}, s.now())
	if earliest := s.now().Add(pauseWhenThrottled); until.Before(earliest) {
		until = earliest
	}
	if err := s.caller.Limiter.Park(ctx, until); err != nil {
		return fmt.Errorf("%s: note the request limit: %w", a.op, err)
	}
	return fmt.Errorf("%s: %w", a.op, &accounting.Parked{Until: until})
}

// fault is the error in an answer: Fault in most answers, fault in those about the token (the same for
// encoding/json), and XML at times.
type fault struct {
	Fault struct {
		Type  string `xml:"type,attr"`
		Error []struct {
			Code errorCode `xml:"code,attr"`
		}
	}
}

// errorCode is an error's number, written as a text or as digits.
type errorCode string

// UnmarshalJSON takes both.
func (c *errorCode) UnmarshalJSON(text []byte) error {
	*c = errorCode(strings.Trim(string(text), `"`))
	return nil
}

// faultOf reads the fault in a body, if there is one in any of the forms.
func faultOf(body []byte) fault {
	var f fault
	if text := bytes.TrimSpace(body); len(text) > 0 && text[0] == '<' {
		if xml.Unmarshal(text, &f) != nil {
			return fault{}
		}
		return f
	}
	if json.Unmarshal(body, &f) != nil {
		return fault{}
	}
	return f
}

// code returns the first error's number without leading zeros; "" for no fault.
func (f fault) code() string {
	if len(f.Fault.Error) == 0 {
		return ""
	}
	return strings.TrimLeft(string(f.Fault.Error[0].Code), "0")
}

// text names the fault by number and kind; its own words may quote what we sent.
func (f fault) text() string {
	if f.code() == "" {
		return ""
	}
	return fmt.Sprintf(" (error %.10q, %.40q)", f.code(), f.Fault.Type)
}

// refusal says in plain words why QuickBooks does not let us in.
func (f fault) refusal(status int) string {
	switch {
	case f.code() == "3100":
		return "the consent is for another company, or development keys meet a live company or the other way round (error 3100)"
	case status == http.StatusUnauthorized:
		return "QuickBooks refuses the access token" + f.text()
	}
	return "QuickBooks forbids it: the consent was withdrawn, the subscription ended, or the app may not read any more" +
		f.text()
}

// trace names the answer for Intuit's support.
func trace(h http.Header) string {
	id := h.Get("intuit_tid")
	if id == "" || len(id) > 64 ||
		strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
		return ""
	}
	return ", intuit_tid " + id
}
