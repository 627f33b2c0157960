package connector

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
)

// ReadForm reads the form of a request, of either kind, and fails where it did not arrive whole.
// PostFormValue hides such failures, and a form that broke off would look like one with blank fields.
// memory is how many bytes of its files are kept in memory.
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

// watchedBody keeps the error for which a body could not be read.
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

// BodyStatus returns the status that answers a request whose body could not be read, by the reason:
// 408 for one that was too slow, 413 for one that is too large, 400 for any other.
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
