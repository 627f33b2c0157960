// Package vaulttest plays a Transit engine to tests: it takes one request, as Vault does, and nothing that is not
// exactly that.
package vaulttest

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// What the server has: a key of some versions in an engine of a namespace, and a token that may use it and nothing else.
const (
	Key       = "payersync"
	Mount     = "team/transit"
	Namespace = "harbour"
	Token     = "hvs.the-token-of-this-node"
	WideToken = "hvs.the-token-of-somebody-else" // may use whatever there is
	latest    = 12
)

// Server is a Transit engine. It is safe for concurrent use.
type Server struct {
	URL  string
	aead cipher.AEAD

	mu     sync.Mutex
	sealed bool
	oldest int // version that may still be opened
	asked  int // requests, of whatever kind
}

// New starts a server on a loopback address.
func New(t testing.TB) *Server {
	block, err := aes.NewCipher([]byte("a key that never leaves a Vault."))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{aead: aead}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Wrapped returns the ciphertext of what a base64 text stands for, as the engine prints it of a version of its key.
func (s *Server) Wrapped(version int, text string) string {
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("vault:v%d:%s", version, base64.StdEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, nil)))
}

// Seal makes the server answer as one that was sealed, or unsealed again.
func (s *Server) Seal(sealed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = sealed
}

// Disallow makes versions of the key below one open nothing.
func (s *Server) Disallow(below int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = below
}

// Asked returns how many requests came since it was asked last.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.asked
	s.asked = 0
	return n
}

// ServeHTTP answers a request to decrypt. What it refuses it repeats, as no server should.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked++
	sealed, oldest := s.sealed, s.oldest
	s.mu.Unlock()
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	status, answer := s.answer(r, body, sealed, oldest)
	if status != http.StatusOK {
		answer = map[string]any{"errors": []string{fmt.Sprint(answer), r.Header.Get("X-Vault-Token"), string(body)}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// answer has the statuses and words of Vault 1.21, in their order: what a token may not do is refused before it is looked
// for.
func (s *Server) answer(r *http.Request, body []byte, sealed bool, oldest int) (int, any) {
	var asked struct {
		Ciphertext string `json:"ciphertext"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&asked)
	engine, key, _ := strings.Cut(r.URL.EscapedPath(), "/decrypt/")
	version, sum, isWrapped := strings.Cut(strings.TrimPrefix(asked.Ciphertext, "vault:v"), ":")
	number, unnumbered := strconv.Atoi(version)
	box, encoding := base64.StdEncoding.DecodeString(sum)
	token := r.Header.Get("X-Vault-Token")
	switch {
	case sealed:
		return http.StatusServiceUnavailable, "Vault is sealed"
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.URL.RawQuery != "":
		return http.StatusMethodNotAllowed, "unsupported operation"
	case token != Token && token != WideToken:
		return http.StatusForbidden, "2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n"
	case r.Header.Get("X-Vault-Namespace") != Namespace, token == Token && r.URL.EscapedPath() != "/v1/"+Mount+"/decrypt/"+Key:
		return http.StatusForbidden, "1 error occurred:\n\t* permission denied\n\n"
	case engine != "/v1/"+Mount:
		return http.StatusNotFound, fmt.Sprintf("no handler for route %q. route entry not found.", strings.TrimPrefix(r.URL.Path, "/v1/"))
	case key != Key:
		return http.StatusBadRequest, "encryption key not found"
	case err != nil || !isWrapped || unnumbered != nil || encoding != nil:
		return http.StatusBadRequest, "invalid ciphertext: no prefix"
	case number > latest:
		return http.StatusBadRequest, "invalid ciphertext: version is too new"
	case number < oldest:
		return http.StatusBadRequest, "ciphertext or signature version is disallowed by policy (too old)"
	}
	plain, err := s.aead.Open(nil, nil, box, nil)
	if err != nil {
		return http.StatusBadRequest, "cipher: message authentication failed"
	}
	return http.StatusOK, map[string]any{
		"request_id": "8d5b1d0e", "lease_id": "", "renewable": false, "lease_duration": 0,
		"data": map[string]any{"plaintext": base64.StdEncoding.EncodeToString(plain)}, "wrap_info": nil, "warnings": nil, "auth": nil, "mount_type": "transit",
	}
}
