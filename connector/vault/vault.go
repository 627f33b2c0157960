// Package vault has a key opened by HashiCorp Vault, or OpenBao, whose Transit engine encrypted it: a file of
// ours then holds nothing that opens without them. Of their interface it knows the one request that
// https://openbao.org/api-docs/secret/transit/ calls decrypt.
package vault

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/transport"
)

// Transit is a key of a Transit engine, and who may use it.
type Transit struct {
	Address   string // of the server: https, or http on this machine
	Mount     string // of the engine, as in transit
	Key       string // its name there
	Namespace string // "" for none
	Token     connector.Secret
	HTTP      *transport.Client // see NewClient
}

// What a request for a key may take: whoever waits for it has nothing else to do, and an answer is short.
const (
	patience   = 45 * time.Second // with all repeats
	perAttempt = 10 * time.Second
	mostWait   = 5 * time.Second // that the server may ask for
	mostBytes  = 64 << 10
)

// NewClient returns a client with bounds for such requests. It is closed by its caller.
func NewClient(o transport.Options) *transport.Client {
	o.Timeout, o.MaxRetryAfter, o.MaxBody = perAttempt, mostWait, mostBytes
	return transport.New(o)
}

var (
	ciphertext = regexp.MustCompile(`^vault:v[1-9][0-9]*:[A-Za-z0-9+/]+=*$`)
	place      = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)
)

// IsCiphertext reports whether a text looks like what a Transit engine has encrypted.
func IsCiphertext(text connector.Secret) bool { return ciphertext.MatchString(text.Expose()) }

// IsPlace reports whether a text can be the place of an engine, its key's name or a namespace.
func IsPlace(text string) bool { return place.MatchString(text) }

// Decrypt has a ciphertext opened, and returns in base64 what it holds. The error says who could not be asked or what was
// refused, why, and what to do; nothing of the token, the ciphertext or the answer is in it.
func (t Transit) Decrypt(ctx context.Context, sealed connector.Secret) (connector.Secret, error) {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	status, body, err := t.ask(ctx, sealed)
	if err != nil {
		return connector.Secret{}, t.unasked(err)
	}
	if status < 200 || status > 299 {
		return connector.Secret{}, t.refused(status, body)
	}
	var answer struct {
		Data struct {
			Plaintext connector.Secret `json:"plaintext"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Data.Plaintext.IsZero() {
		return connector.Secret{}, fmt.Errorf("what answers at %s is not Vault's Transit: its answer holds no plaintext. Correct ledger.vault.address and ledger.vault.mount", t.Address)
	}
	return answer.Data.Plaintext, nil
}

// ask sends the request. It changes nothing at the server, so it may be sent again.
func (t Transit) ask(ctx context.Context, sealed connector.Secret) (status int, answer []byte, err error) {
	body, err := json.Marshal(map[string]string{"ciphertext": sealed.Expose()})
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(t.Address, "/")+"/v1/"+t.Mount+"/decrypt/"+t.Key, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Vault-Token", t.Token.Expose())
	if t.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", t.Namespace)
	}
	resp, err := t.HTTP.Do(req, transport.Always)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read whole
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// unasked says why there is no answer.
func (t Transit) unasked(err error) error {
	next := "See that it runs and that this machine reaches it, and try again"
	var failed *transport.Error
	if errors.As(err, &failed) {
		switch failed.Reason {
		case transport.ReasonTLS:
			next = "Name the authority of its certificate in ledger.vault.ca_file, and the host as the certificate does"
			if noTLS := (tls.RecordHeaderError{}); errors.As(err, &noTLS) {
				next = "That port speaks no TLS: name the one that does in ledger.vault.address, or write http there, which is for this machine alone"
			}
		case transport.ReasonName, transport.ReasonURL:
			next = "Correct ledger.vault.address"
		case transport.ReasonProxy:
			next = "Let the proxy reach it, or name an address that needs none"
		}
	}
	return fmt.Errorf("Vault at %s cannot be asked: %w. %s", t.Address, err, next) //nolint:staticcheck // it is a name
}

// refused says what an answer means that is none. Its own words are left out: they may repeat what was sent.
func (t Transit) refused(status int, answer []byte) error {
	why, next := "it failed", "Look into its log, and try again"
	switch status {
	case http.StatusBadRequest:
		why, next = t.unopened(answer)
	case http.StatusUnauthorized, http.StatusForbidden:
		why, next = t.denied(answer)
	case http.StatusNotFound:
		why, next = fmt.Sprintf("it has no Transit engine at %s", t.Mount), "Correct ledger.vault.mount, ledger.vault.namespace and ledger.vault.address, which holds no path of Vault's own"
	case http.StatusServiceUnavailable:
		why, next = "it is sealed or not ready", "Unseal it (vault operator unseal), and try again"
	case http.StatusTooManyRequests:
		why, next = "it is asked too often", "Wait a little, and try again"
	default:
		if status >= 300 && status < 400 {
			why, next = "it sends to another server, which is not followed", "Name the active server, or what stands before all of them, in ledger.vault.address"
		}
	}
	return fmt.Errorf("Vault at %s opens no key: %s (HTTP %d). %s", t.Address, why, status, next) //nolint:staticcheck // it is a name
}

// unopened says why a ciphertext was not opened that was looked at.
func (t Transit) unopened(answer []byte) (why, next string) {
	switch {
	case !isVaults(answer):
		return "what answers is not Vault's interface", "Correct ledger.vault.address; a port that speaks TLS is asked with https"
	case says(answer, "key not found"):
		return fmt.Sprintf("it has no key %s at %s", t.Key, t.Mount), "Correct ledger.vault.key and ledger.vault.mount"
	case says(answer, "too old"):
		return fmt.Sprintf("the version of its key %s that ledger.key_encryption_key was made with is disallowed", t.Key),
			fmt.Sprintf("Lower min_decryption_version of %s/keys/%s, or name what %[1]s/rewrap/%[2]s made of that ciphertext", t.Mount, t.Key)
	case says(answer, "too new"):
		return fmt.Sprintf("its key %s lacks the version that ledger.key_encryption_key was made with", t.Key),
			"Correct ledger.vault.key and ledger.vault.address, or put back the newer key where an older one was restored"
	}
	return fmt.Sprintf("its key %s does not open what ledger.key_encryption_key names", t.Key), "Name in ledger.vault.key the key that it was made with, or the ciphertext that belongs to that key"
}

// denied says why a token is of no use. To one whose policy names another path Vault does not say whether there is a key.
func (t Transit) denied(answer []byte) (why, next string) {
	if says(answer, "invalid token") {
		return "it does not know the token, which has run out or was revoked, or is another server's", "Put one into ledger.vault.token that is valid"
	}
	return "the token may not use that key, or is not valid", fmt.Sprintf("Correct ledger.vault.key and ledger.vault.mount, or put a token into ledger.vault.token whose policy allows update of %s/decrypt/%s", t.Mount, t.Key)
}

// isVaults reports whether an answer without success has Vault's shape.
func isVaults(answer []byte) bool {
	var a struct {
		Errors []string `json:"errors"`
	}
	return json.Unmarshal(answer, &a) == nil && a.Errors != nil
}

// says reports whether words that Vault is known to answer with are in an answer.
func says(answer []byte, words string) bool { return bytes.Contains(answer, []byte(words)) }
