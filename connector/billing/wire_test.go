package billing_test

import (
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector/sandbox"
)

func readBody(r *http.Request) string {
	if r.Body == nil {
		return ""
	}
	text, _ := io.ReadAll(r.Body) // an in-memory body
	return string(text)
}

func respond(status int, contentType, body string) *http.Response {
	header := http.Header{}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	return &http.Response{
		StatusCode: status, Header: header, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

// issuer hands out tokens of the kind that a person's consent gives.
type issuer struct{ box *sandbox.Sandbox }

func (i issuer) Token() (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: i.box.IssueToken(sandbox.AuthorizationCode, time.Hour)}, nil
}

// roundTrip is a whole service in a function.
type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
