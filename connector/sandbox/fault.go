package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FaultKind is a way for a request to go wrong.
type FaultKind string

// The fault kinds. "Effect" is the request's change of customers, mandates, tokens and subscriptions.
const (
	LostRequest  FaultKind = "lost_request"  // the connection ends; no effect
	LostResponse FaultKind = "lost_response" // effect, then the connection ends
	// the connection ends; the effect comes after Delay, or at ReleaseLate when Delay is 0; the token is judged then
	Late        FaultKind = "late"
	Throttled   FaultKind = "throttled"    // 429 with RetryAfter; no effect
	ErrorBefore FaultKind = "error_before" // Status, 503 when 0; no effect
	ErrorAfter  FaultKind = "error_after"  // effect, then Status, 502 when 0
	HTML        FaultKind = "html"         // 200 with a page, as a captive portal answers; no effect
	Truncated   FaultKind = "truncated"    // effect; half of the answer, then the connection ends
	Slow        FaultKind = "slow"         // effect; the answer takes Delay, in real time
	WrongType   FaultKind = "wrong_type"   // effect; the answer says text/html
	EmptyBody   FaultKind = "empty_body"   // effect; the answer has its status and no body
)

const captivePortal = "<!doctype html><title>Sign in</title><p>Please sign in to use this network.</p>"

// FaultKinds lists every kind.
func FaultKinds() []FaultKind {
	kinds := make([]FaultKind, len(faultMeanings))
	for i, k := range faultMeanings {
		kinds[i] = k.kind
	}
	return kinds
}

// Means describes the kind in a sentence.
func (k FaultKind) Means() string {
	for _, known := range faultMeanings {
		if known.kind == k {
			return known.means
		}
	}
	return ""
}

var faultMeanings = []struct {
	kind  FaultKind
	means string
}{
	{LostRequest, "The connection ends, nothing was done."},
	{LostResponse, "It is done, then the connection ends."},
	{Late, "The connection ends; it is done after delay."},
	{Throttled, "429 with retry_after, nothing was done."},
	{ErrorBefore, "status, else 503; nothing was done."},
	{ErrorAfter, "It is done, then status, else 502."},
	{HTML, "200 with a page to sign in, nothing was done."},
	{Truncated, "It is done; the answer breaks off."},
	{Slow, "It is done; the answer takes delay."},
	{WrongType, "It is done; the answer says text/html."},
	{EmptyBody, "It is done; the answer has no body."},
}

// Fault affects API requests that match Method and Path, as often as Skip, Every, Probability and Count allow
// together. Of several injected faults only the first matching one applies.
type Fault struct {
	Kind   FaultKind
	Method string // "" is every method
	Path   string // a path.Match pattern over the path, for example /api/customers/*; "" is every path

	Skip        int     // let so many matching requests pass first
	Every       int     // then strike every nth; 0 and 1 strike each
	Probability float64 // of those, strike with this chance, drawn from the seed; 0 strikes each
	Count       int     // stop after so many strikes; 0 is never

	Status     int           // of ErrorBefore and ErrorAfter
	RetryAfter string        // header of Throttled, ErrorBefore and ErrorAfter, word for word; "" sends none
	Delay      time.Duration // of Late, in Now-time, and of Slow, in real time
}

// Validate reports the invalid parts of f; nil for none.
func (f Fault) Validate() error {
	var errs []error
	if !slices.Contains(FaultKinds(), f.Kind) {
		errs = append(errs, fmt.Errorf("sandbox fault kind %q is not known: use one of %v", f.Kind, FaultKinds()))
	}
	if _, err := path.Match(f.Path, ""); err != nil {
		errs = append(errs, fmt.Errorf("sandbox fault path %q: %w", f.Path, err))
	}
	if f.Probability < 0 || f.Probability > 1 {
		errs = append(errs, fmt.Errorf("sandbox fault probability is %v: use a number from 0 to 1", f.Probability))
	}
	return errors.Join(errs...)
}

// FaultFields are the names beside the kind that ParseFault knows.
func FaultFields() []string {
	return []string{"method", "path", "skip", "every", "probability", "count", "status", "retry_after", "delay"}
}

// ParseFault reads a fault as people write it: its kind, then fields such as
// method=POST behind commas.
func ParseFault(text string) (Fault, error) {
	var f Fault
	kind, rest, more := strings.Cut(text, ",")
	err := f.set("kind", strings.TrimSpace(kind))
	if more {
		for part := range strings.SplitSeq(rest, ",") {
			name, value, _ := strings.Cut(part, "=")
			err = errors.Join(err, f.set(strings.TrimSpace(name), strings.TrimSpace(value)))
		}
	}
	if err != nil {
		return Fault{}, err
	}
	return f, f.Validate()
}

func (f *Fault) set(name, value string) (err error) {
	numbers := map[string]*int{"skip": &f.Skip, "every": &f.Every, "count": &f.Count, "status": &f.Status}
	switch name {
	case "kind":
		if f.Kind = FaultKind(value); !slices.Contains(FaultKinds(), f.Kind) {
			err = f.Validate()
		}
	case "method":
		f.Method = strings.ToUpper(value)
	case "path":
		f.Path = value
	case "retry_after":
		f.RetryAfter = value
	case "delay":
		if f.Delay, err = time.ParseDuration(value); err != nil || f.Delay < 0 {
			err = refused(fmt.Sprintf("sandbox fault delay is %q: use a length of time such as 30s", value))
		}
	case "probability":
		if f.Probability, err = strconv.ParseFloat(value, 64); err != nil {
			err = refused(fmt.Sprintf("sandbox fault probability is %q: use a number from 0 to 1", value))
		}
	case "skip", "every", "count", "status":
		n, wrong := strconv.Atoi(value)
		if wrong != nil || n < 0 || name == "status" && n != 0 && (n < 400 || n > 599) {
			return refused(fmt.Sprintf("sandbox fault %s is %q: use a number of 0 or more, as status one from 400 to 599", name,
				value))
		}
		*numbers[name] = n
	default:
		err = refused(fmt.Sprintf("a sandbox fault has no field %q: use %s", name, strings.Join(FaultFields(), ", ")))
	}
	return err
}

// injection is a fault and how often it had its chance.
type injection struct {
	Fault
	matched, struck int
}

// Inject adds a fault. It panics when f does not pass Validate.
func (s *Sandbox) Inject(f Fault) {
	if err := f.Validate(); err != nil {
		panic(err)
	}
	defer s.lock()()
	s.faults = append(s.faults, &injection{Fault: f})
}

// ClearFaults removes every injected fault. Late requests stay under way.
func (s *Sandbox) ClearFaults() {
	defer s.lock()()
	s.faults = nil
}

// strike returns the fault that r meets, blank when there is none.
func (s *Sandbox) strike(r *http.Request) Fault {
	for _, in := range s.faults {
		if in.matches(r) && in.strikes(s.chance) {
			in.struck++
			return in.Fault
		}
	}
	return Fault{}
}

func (in *injection) matches(r *http.Request) bool {
	if in.Method != "" && in.Method != r.Method {
		return false
	}
	ok, _ := path.Match(in.Path, r.URL.Path) // Inject has checked the pattern
	return ok || in.Path == ""
}

func (in *injection) strikes(chance *rand.ChaCha8) bool {
	in.matched++
	switch n := in.matched - in.Skip; {
	case n <= 0, in.Every > 1 && n%in.Every != 0:
		return false
	case in.Count > 0 && in.struck >= in.Count:
		return false
	case in.Probability > 0 && rand.New(chance).Float64() >= in.Probability:
		return false
	}
	return true
}

// suffer serves r under fault f; nil stands for a request that the service has
// not seen.
func (s *Sandbox) suffer(f Fault, r *http.Request, body []byte, entry *Request) *call {
	switch f.Kind {
	case LostRequest:
		return nil
	case Late:
		s.hold(f, r, body, entry)
		return nil
	case Throttled:
		return f.weather(newCall(nil, s.opt.Now()), http.StatusTooManyRequests)
	case ErrorBefore:
		return f.weather(newCall(nil, s.opt.Now()), http.StatusServiceUnavailable)
	case HTML:
		c := newCall(nil, s.opt.Now())
		c.reply(http.StatusOK, []byte(captivePortal))
		c.header.Set("Content-Type", "text/html; charset=utf-8")
		return c
	}
	return f.spoil(s.serve(r, body))
}

// spoil applies f to a right answer.
func (f Fault) spoil(c *call) *call {
	switch f.Kind {
	case ErrorAfter:
		return f.weather(c, http.StatusBadGateway)
	case Truncated:
		c.cut = true
	case WrongType:
		c.header.Set("Content-Type", "text/html; charset=utf-8")
	case EmptyBody:
		c.body = nil
		c.header.Del("Content-Type")
	}
	return c
}

// weather answers c as something in front of the service would.
func (f Fault) weather(c *call, status int) *call {
	if f.Status != 0 && f.Kind != Throttled {
		status = f.Status
	}
	c.refuse(status, "TRY_LATER", "Try again later.")
	setIfNamed(c.header, "Retry-After", f.RetryAfter)
	return c
}

func (f Fault) dropsAnswer() bool {
	return f.Kind == LostRequest || f.Kind == LostResponse || f.Kind == Late
}

// wait is how much later than its effect an answer comes.
func (f Fault) wait() time.Duration {
	if f.Kind == Slow {
		return f.Delay
	}
	return 0
}

// lateCall is a request under way; it takes effect at due, or at ReleaseLate
// when due is zero.
type lateCall struct {
	due   time.Time
	r     *http.Request
	body  []byte
	entry *Request
}

func (s *Sandbox) hold(f Fault, r *http.Request, body []byte, entry *Request) {
	var due time.Time
	if f.Delay > 0 {
		due = s.opt.Now().Add(f.Delay)
	}
	s.late = append(s.late, lateCall{due, r, body, entry})
}

// settle lets the late requests that are due take effect, earliest first.
func (s *Sandbox) settle(now time.Time) {
	if len(s.late) == 0 {
		return
	}
	var due, still []lateCall
	for _, l := range s.late {
		if l.due.IsZero() || l.due.After(now) {
			still = append(still, l)
			continue
		}
		due = append(due, l)
	}
	slices.SortStableFunc(due, func(a, b lateCall) int { return a.due.Compare(b.due) })
	s.late = still
	s.arrive(due)
}

func (s *Sandbox) arrive(calls []lateCall) {
	for _, l := range calls {
		l.entry.Status = s.serve(l.r, l.body).status
	}
}

// ReleaseLate lets every late request take effect now, in the order they were
// sent, and returns how many there were.
func (s *Sandbox) ReleaseLate() int {
	defer s.lock()()
	calls := s.late
	s.late = nil
	s.arrive(calls)
	return len(calls)
}
