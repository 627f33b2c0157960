package xero

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// ask is one read of the API.
type ask struct {
	op     string // the operation, for errors
	path   string
	query  url.Values
	tenant string    // "" where a request belongs to no organisation
	since  time.Time // If-Modified-Since; zero for none
}

// answer is a 200 with JSON in it.
type answer struct {
	accounting.Answer
	ask ask
}

// unusable returns the error of an answer with unexpected content. Its body is never shown.
func (a answer) unusable(why error) error {
	return &connector.RemoteError{Op: a.ask.op, Fault: connector.FaultUnavailable, Status: http.StatusOK,
		Detail: "Xero's answer cannot be used: " + why.Error()}
}

// get sends a request and judges the answer.
func (s *Source) get(ctx context.Context, a ask) (answer, error) {
	u := s.base.JoinPath(a.path)
	u.RawQuery = a.query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", a.op, err)
	}
	req.Header.Set("Accept", "application/json") // the default is XML
	switch {
	case s.config.CustomConnection:
		req.Header.Set("Xero-Tenant-Id", "") // the token identifies it; the specification still requires the header
	case a.tenant != "":
		req.Header.Set("Xero-Tenant-Id", a.tenant)
	}
	if !a.since.IsZero() {
		// in whole seconds, and no HTTP-date despite its name
		req.Header.Set("If-Modified-Since", a.since.UTC().Format(time.RFC3339))
	}
	got, err := s.caller.Do(ctx, a.op, req)
	if err != nil {
		return answer{}, err
	}
	if err := s.judge(ctx, a, got); err != nil {
		return answer{}, err
	}
	out := answer{got, a}
	if came := accounting.NotJSON(got.Body); came != "" {
		return answer{}, out.unusable(errors.New(came + " came instead of JSON"))
	}
	return out, nil
}

// judge returns the error of an answer other than 200.
func (s *Source) judge(ctx context.Context, a ask, got accounting.Answer) error {
	switch {
	case got.Status == http.StatusOK:
		return nil
	case got.Status == http.StatusTooManyRequests:
		return s.throttled(ctx, a, got.Header)
	case got.Status == http.StatusUnauthorized, got.Status == http.StatusForbidden:
		return refused(got)
	case got.Status >= http.StatusInternalServerError:
		return &connector.RemoteError{
			Op: a.op, Fault: connector.FaultUnavailable, Status: got.Status, Detail: "Xero has a failure",
			RetryAt: transport.RetryAfter(&http.Response{Header: got.Header}, s.now()),
		}
	}
	return rejected(a, got)
}

// throttled parks the organisation until Xero's time. A wait of hours means the daily limit, and no request
// leaves before its end.
func (s *Source) throttled(ctx context.Context, a ask, header http.Header) error {
	until := transport.RetryAfter(&http.Response{Header: header}, s.now())
	if until.IsZero() {
		until = s.now().Add(time.Minute)
		if strings.EqualFold(header.Get("X-Rate-Limit-Problem"), "day") {
			until = s.now().Add(time.Hour)
		}
	}
	if err := s.caller.Limiter.Park(ctx, until); err != nil {
		return fmt.Errorf("%s: note the request limit: %w", a.op, err)
	}
	return fmt.Errorf("%s: %w", a.op, &accounting.Parked{Until: until})
}

// refused tells the kinds of 401 and 403 apart by Xero's words for them. Its own text is not shown.
func refused(got accounting.Answer) error {
	said := strings.ToLower(string(got.Body))
	switch {
	case got.Status == http.StatusUnauthorized && strings.Contains(said, "tokenexpired"):
		return &accounting.Disconnected{Reason: "Xero calls the access token expired; check this machine's clock"}
	case got.Status == http.StatusUnauthorized && strings.Contains(said, "authorizationunsuccessful"):
		return &accounting.Disconnected{Reason: "the scope accounting.contacts.read is missing from the consent"}
	case got.Status == http.StatusUnauthorized:
		return &accounting.Disconnected{Reason: "Xero refuses the access token"}
	case strings.Contains(said, "authenticationunsuccessful"):
		return &accounting.Disconnected{Reason: "the consent for this organisation was withdrawn"}
	}
	return &accounting.Disconnected{Reason: "Xero forbids it: a permission of the app is missing, or the organisation's plan ended"}
}

// rejected returns the error for an invalid request.
func rejected(a ask, got accounting.Answer) error {
	var said struct {
		ErrorNumber int
		Type        string
	}
	fault := connector.FaultRejected
	if got.Status == http.StatusNotFound {
		fault = connector.FaultNotFound
	}
	detail := "Xero did not accept the request"
	if json.Unmarshal(got.Body, &said) == nil && said.ErrorNumber != 0 {
		detail += fmt.Sprintf(" (its error %d, %.60q)", said.ErrorNumber, said.Type)
	}
	if said.Type == "HighVolumeException" {
		detail += "; the organisation has too many contacts to be read whole, so set only_customers: true in the xero block of its connection"
	}
	return &connector.RemoteError{Op: a.op, Fault: fault, Status: got.Status, Detail: detail}
}
