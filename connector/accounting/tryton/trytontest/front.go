package trytontest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Front is a proxy before the server and passes calls on, unless it is set to do otherwise.
type Front struct {
	URL string

	mu     sync.Mutex
	server string
	answer func(call Call, w http.ResponseWriter) bool
	after  func(call Call)
	calls  []Call
}

// Call is one call that came by.
type Call struct {
	Method string
	Auth   string // the Authorization header
	Params []json.RawMessage
}

// NewFront puts a front before the database's server until the test ends.
func (d *Database) NewFront(t testing.TB) *Front {
	f := &Front{server: d.URL}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.URL = s.URL
	return f
}

// Answer calls answer for every call; if it returns true it has written the answer itself. nil ends that.
func (f *Front) Answer(answer func(Call, http.ResponseWriter) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// After calls after behind every answered call, before the answer is passed on. nil ends that.
func (f *Front) After(after func(Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = after
}

// Calls returns the calls so far.
func (f *Front) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	call := Call{Auth: r.Header.Get("Authorization")}
	_ = json.Unmarshal(body, &call) // the server refuses anything but a call
	f.mu.Lock()
	f.calls = append(f.calls, call)
	answer, after := f.answer, f.after
	f.mu.Unlock()
	if answer != nil && answer(call, w) {
		return
	}
	f.pass(w, r, body, func() {
		if after != nil {
			after(call)
		}
	})
}

func (f *Front) pass(w http.ResponseWriter, r *http.Request, body []byte, answered func()) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, f.server+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		http.Error(w, "no such address", http.StatusBadGateway)
		return
	}
	req.Header = r.Header.Clone()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		http.Error(w, "no server", http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		http.Error(w, "no answer", http.StatusBadGateway)
		return
	}
	answered()
	for _, name := range []string{"Content-Type", "Date"} {
		w.Header().Set(name, resp.Header.Get(name))
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(text)
}

// Served calls what After was given, for a call that went past the front.
func (f *Front) Served(call Call) {
	f.mu.Lock()
	after := f.after
	f.mu.Unlock()
	if after != nil {
		after(call)
	}
}
