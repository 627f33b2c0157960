package server

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"payersync/connector"
)

// StopPath is the default path for unsubscribing from letters: the token of the letter follows it.
const StopPath = "/letters/stop/"

// StopOutcome says how one request for its pages ended.
type StopOutcome string

// The outcomes. A stranger sees the same answer for the first three.
const (
	LettersStopped StopOutcome = "letters_stopped"      // 200: durable in the ledger
	StoppedBefore  StopOutcome = "letters_stopped_then" // 200: it was said before
	StopUnknown    StopOutcome = "letter_stop_unknown"  // 200: the token is none of ours
	StopShown      StopOutcome = "letter_stop_shown"    // 200: a page with a button; programs open links, too
	StopRefused    StopOutcome = "letter_stop_refused"  // 4xx: it is not such a request, or one too many
	StopNotStored  StopOutcome = "letter_stop_not_kept" // 503: the ledger did not take it
	StopPanicked   StopOutcome = "letter_stop_panicked" // 500
)

// StopEvent is the server's report of one request below Config.StopPath. It names nobody.
type StopEvent struct {
	Outcome StopOutcome
	Client  netip.Prefix // the sender's /24 or /64; invalid if unknown
	Err     error        // the reason, if there is more than the outcome
}

// The pages. They are the same for every token, and hold no script, no style and no image.
var (
	//go:embed stop.html
	stopPage []byte
	//go:embed stopped.html
	stoppedPage []byte
)

const (
	stopBody = 4 << 10 // bytes; the form has some thirty
	oneClick = "One-Click"
	policy   = "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

// serveStop answers one request below Config.StopPath. A GET changes nothing: mail programs and
// scanners open links by themselves. A POST is the recipient's word, by a button or by the
// mail program's own (RFC 8058).
func (s *Server) serveStop(w http.ResponseWriter, r *http.Request) {
	client := s.client(r)
	defer func() {
		if thrown := recover(); thrown != nil {
			s.cfg.StopReport(StopEvent{Outcome: StopPanicked, Client: client,
				Err: fmt.Errorf("the page that stops letters panicked with a %T", thrown)})
			w.WriteHeader(http.StatusInternalServerError)
		}
	}()
	h := w.Header()
	for name, value := range map[string]string{
		"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
		"X-Robots-Tag":            "noindex, nofollow",
		"Content-Security-Policy": policy, "Content-Type": "text/html; charset=utf-8",
	} {
		h.Set(name, value)
	}
	status, page, event := s.stop(w, r)
	if (event.Outcome == StopUnknown || event.Outcome == StopRefused) && s.tooMany(w, r, client) {
		status, page, event = http.StatusTooManyRequests, nil, StopEvent{Outcome: StopRefused}
	}
	event.Client = client
	if page == nil {
		h.Del("Content-Type")
	}
	w.WriteHeader(status)
	_, _ = w.Write(page) //nolint:gosec // one of two constant pages
	s.cfg.StopReport(event)
}

// stop does everything to a request but answer it.
func (s *Server) stop(w http.ResponseWriter, r *http.Request) (status int, page []byte, event StopEvent) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return http.StatusOK, stopPage, StopEvent{Outcome: StopShown}
	case http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		return http.StatusMethodNotAllowed, nil, StopEvent{Outcome: StopRefused}
	}
	r.Body = http.MaxBytesReader(w, r.Body, stopBody)
	if err := connector.ReadForm(r, stopBody); err != nil {
		return connector.BodyStatus(err), nil, StopEvent{Outcome: StopRefused}
	}
	if r.PostFormValue("List-Unsubscribe") != oneClick {
		return http.StatusBadRequest, nil, StopEvent{Outcome: StopRefused}
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeWait)
	defer cancel()
	got, err := s.cfg.Ledger.OptOut(ctx, strings.TrimPrefix(r.URL.Path, s.cfg.StopPath))
	switch {
	case err != nil:
		w.Header().Set("Retry-After", retryAfter)
		return http.StatusServiceUnavailable, nil, StopEvent{Outcome: StopNotStored, Err: err}
	case !got.Known:
		return http.StatusOK, stoppedPage, StopEvent{Outcome: StopUnknown}
	}
	keepConnection(r.Context()) // only our letters have such a token
	if got.News {
		return http.StatusOK, stoppedPage, StopEvent{Outcome: LettersStopped}
	}
	return http.StatusOK, stoppedPage, StopEvent{Outcome: StoppedBefore}
}
