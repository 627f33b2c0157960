package httpsource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// maxText is how much of a body the rules for errors see.
const maxText = 64 << 10

// answer is an answer that the rules for errors let pass, read as JSON.
type answer struct {
	accounting.Answer
	env  map[string]any // the variables of rules for it
	rows []json.RawMessage
}

// unusable returns the error of an answer with unexpected content. Its body is never shown.
func (s *Source) unusable(op, why string) error {
	return &connector.RemoteError{Op: op, Fault: connector.FaultUnavailable, Status: http.StatusOK,
		Detail: s.profile.Title() + "'s answer cannot be used: " + why}
}

// ask sends a request and reads the answer; records is the path to the rows in it.
func (s *Source) ask(ctx context.Context, op string, req *http.Request, records string, vars map[string]any) (answer,
	error) {
	got, err := s.caller.Do(ctx, op, req)
	if err != nil {
		return answer{}, err
	}
	if s.heard != nil {
		s.heard(op, got)
	}
	a := s.answerOf(got, vars)
	notJSON := accounting.NotJSON(got.Body)
	body, rows, found := any(nil), []json.RawMessage(nil), false
	if notJSON == "" {
		body, rows, found, err = split(got.Body, records, op != opList)
		if err != nil {
			return a, s.unusable(op, err.Error())
		}
	}
	a.env["body"], a.rows = body, rows
	if err := s.judge(ctx, op, a); err != nil {
		return a, err
	}
	switch {
	case notJSON != "":
		return a, s.unusable(op, notJSON+" came instead of JSON")
	case !found:
		return a, s.unusable(op, "it holds no list at "+records)
	}
	a.env["rows"] = len(rows)
	return a, nil
}

// answerOf returns an answer whose body was not read yet.
func (s *Source) answerOf(got accounting.Answer, vars map[string]any) answer {
	a := answer{Answer: got, env: copyOf(vars)}
	a.env["status"], a.env["rows"], a.env["body"] = got.Status, 0, nil
	a.env["header"] = func(name string) string { return got.Header.Get(name) }
	a.env["link"] = func(rel string) string { return linkOf(got.Header, rel) }
	return a
}

// errEmpty is an answer that means an empty page.
var errEmpty = errors.New("an empty page")

// judge returns the error of an answer: by the profile's rules, and by those of every system.
func (s *Source) judge(ctx context.Context, op string, a answer) error {
	if s.profile.empty != nil {
		if yes, err := s.profile.empty.is(a.env); err == nil && yes {
			return errEmpty
		}
	}
	if err := s.byRules(ctx, op, a); err != nil || a.Status == http.StatusOK {
		return err
	}
	return s.byStatus(ctx, op, a)
}

// byRules returns the error of an answer by the profile's rules; nil if none fits.
func (s *Source) byRules(ctx context.Context, op string, a answer) error {
	env := copyOf(a.env)
	env["text"] = strings.ToLower(string(a.Body[:min(len(a.Body), maxText)]))
	for i, r := range s.profile.errors {
		yes, err := r.is(env)
		if err != nil && a.Status == http.StatusOK {
			return s.unusable(op, err.Error())
		}
		if err == nil && yes {
			return s.failure(ctx, op, s.profile.file.Errors[i], a)
		}
	}
	return nil
}

// byStatus returns the error of an answer with another status than 200.
func (s *Source) byStatus(ctx context.Context, op string, a answer) error {
	say := s.profile.Title()
	switch {
	case a.Status == http.StatusTooManyRequests:
		return s.failure(ctx, op, errorFile{Is: "throttled"}, a)
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden:
		return s.failure(ctx, op,
			errorFile{Is: "disconnected", Say: fmt.Sprintf("%s refuses the credentials (HTTP %d)", say, a.Status)}, a)
	case a.Status < http.StatusMultipleChoices:
		return s.failure(ctx, op,
			errorFile{Is: "unavailable", Say: fmt.Sprintf("%s answers with HTTP %d, which is no list", say, a.Status)}, a)
	case a.Status >= http.StatusInternalServerError, a.Status == http.StatusRequestTimeout,
		a.Status == http.StatusTooEarly:
		return s.failure(ctx, op, errorFile{Is: "unavailable", Say: say + " has a failure"}, a)
	case a.Status >= 300 && a.Status < 400:
		return s.failure(ctx, op,
			errorFile{Is: "unavailable", Say: say + " sends to another address, which payersync does not follow"}, a)
	}
	return s.failure(ctx, op, errorFile{Is: "rejected", Say: say + " did not accept the request; a path, a parameter or the size of a page in the profile may be wrong"}, a)
}

// failure returns the error of a rule.
func (s *Source) failure(ctx context.Context, op string, e errorFile, a answer) error {
	switch e.Is {
	case "throttled":
		return s.throttled(ctx, op, e, a.Header)
	case "disconnected":
		return &accounting.Disconnected{Reason: e.Say}
	}
	out := &connector.RemoteError{Op: op, Fault: connector.FaultUnavailable, Status: a.Status, Detail: e.Say,
		RetryAt: transport.RetryAfter(&http.Response{Header: a.Header}, s.now())}
	if e.Is == "rejected" {
		out.Fault, out.RetryAt = connector.FaultRejected, time.Time{}
		if a.Status == http.StatusNotFound {
			out.Fault = connector.FaultNotFound
		}
	}
	return out
}

// throttled parks the company until the time that the answer gives, else for the rule's wait.
func (s *Source) throttled(ctx context.Context, op string, e errorFile, header http.Header) error {
	now := s.now()
	until := transport.RetryAfter(&http.Response{Header: header}, now)
	if e.Reset != nil {
		if at := e.Reset.at(header, now); !at.IsZero() {
			until = at
		}
	}
	if until.IsZero() {
		wait := time.Duration(e.Wait)
		if wait <= 0 {
			wait = time.Minute
		}
		until = now.Add(wait)
	}
	if err := s.caller.Limiter.Park(ctx, until); err != nil {
		return fmt.Errorf("%s: note the request limit: %w", op, err)
	}
	return fmt.Errorf("%s: %w", op, &accounting.Parked{Until: until})
}

// at reads the header; the zero time without a number in it. A pause has at most a day.
func (r resetFile) at(header http.Header, now time.Time) time.Time {
	n, err := strconv.ParseInt(strings.TrimSpace(header.Get(r.Header)), 10, 64)
	if err != nil || n < 0 {
		return time.Time{}
	}
	latest := now.Add(24 * time.Hour)
	at := latest
	switch {
	case r.As == "seconds" && n < int64(24*time.Hour/time.Second):
		at = now.Add(time.Duration(n) * time.Second)
	case r.As == "epoch":
		at = time.Unix(n, 0)
	case r.As == "epoch-ms":
		at = time.UnixMilli(n)
	}
	switch {
	case at.Before(now):
		return now
	case at.After(latest):
		return latest
	}
	return at
}

// split reads an answer: the rows at a path as they came, and the rest as a value, with a list of as many nulls in
// the place of the rows. With single, an object in the place of the list is its only row.
func split(body []byte, path string, single bool) (rest any, rows []json.RawMessage, found bool, err error) {
	if path == "" { // only the value is asked for
		rest, err = valueOf(body)
		return rest, nil, true, err
	}
	if path == "$" {
		if rows, found = rowsOf(body, single); found {
			return make([]any, len(rows)), rows, true, nil
		}
		rest, err = valueOf(body)
		return rest, nil, false, err
	}
	head, tail, deeper := strings.Cut(path, ".")
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		v, err := valueOf(body)
		return v, nil, false, err
	}
	out := make(map[string]any, len(members))
	for name, raw := range members {
		switch {
		case name != head:
			out[name], err = valueOf(raw)
		case deeper:
			out[name], rows, found, err = split(raw, tail, single)
		default:
			if rows, found = rowsOf(raw, single); found {
				out[name] = make([]any, len(rows))
			} else {
				out[name], err = valueOf(raw)
			}
		}
		if err != nil {
			return nil, nil, false, err
		}
	}
	return out, rows, found, nil
}

func rowsOf(raw json.RawMessage, single bool) (rows []json.RawMessage, found bool) {
	raw = bytes.TrimSpace(raw)
	if single && len(raw) > 0 && raw[0] == '{' {
		return []json.RawMessage{raw}, true
	}
	err := json.Unmarshal(raw, &rows)
	return rows, err == nil && rows != nil
}

// valueOf reads a value for expressions. Whole numbers stay exact; those beyond 64 bits become texts.
func valueOf(raw json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, errors.New("it is no JSON")
	}
	return exact(v), nil
}

func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return f
		}
		return v.String()
	case map[string]any:
		for key := range v {
			v[key] = exact(v[key])
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	}
	return v
}

var linkHeader = regexp.MustCompile(`<([^>]*)>([^<]*)`)

// linkOf returns the address of a relation in the Link headers; "" for none.
func linkOf(header http.Header, rel string) string {
	for _, m := range linkHeader.FindAllStringSubmatch(strings.Join(header.Values("Link"), ", "), -1) {
		for param := range strings.SplitSeq(m[2], ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(strings.TrimRight(strings.TrimSpace(param), ",")), "=")
			if strings.EqualFold(strings.TrimSpace(name), "rel") &&
				strings.EqualFold(strings.Trim(strings.TrimSpace(value), `'"`), rel) {
				return m[1]
			}
		}
	}
	return ""
}

func copyOf(env map[string]any) map[string]any {
	out := make(map[string]any, len(env)+8)
	for key, v := range env {
		out[key] = v
	}
	return out
}
