package connector

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
)

// ReadForm parses a request's form, of either kind, and fails if it is incomplete. PostFormValue hides such failures,
// and a truncated form would look like one with blank fields. memory is the number of bytes of its files to keep in
// memory.
func ReadForm(r *http.Request, memory int64) error {
	body := &watchedBody{ReadCloser: r.Body}
	r.Body = body
	err := r.ParseForm()
	if err == nil && strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "multipart/form-data") {
		err = r.ParseMultipartForm(memory) //nolint:gosec // callers bound the body
	}
	if err != nil && body.err != nil {
		return body.err // the parser of multipart forms hides it
	}
	return err
}

// watchedBody keeps the error from reading a body.
type watchedBody struct {
	io.ReadCloser
	err error
}

// Read reads, and keeps the error.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// BodyStatus returns the status for a request with an unreadable body: 408 if it was too slow, 413 if it is too large,
// 400 otherwise.
func BodyStatus(err error) int {
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}
