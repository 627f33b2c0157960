package connector

import "fmt"

const redacted = "[redacted]"

// Secret is a confidential value: it prints as [redacted] in every format and encoding. Call Expose only at the point
// of use.
type Secret struct{ value string }

// NewSecret returns s as a secret.
func NewSecret(s string) Secret { return Secret{s} }

// Expose returns the value itself.
func (s Secret) Expose() string { return s.value }

// IsZero reports whether the secret is blank.
func (s Secret) IsZero() bool { return s.value == "" }

// Equal reports whether two secrets are the same. It takes as long as it takes: it
// is not for what a stranger sends.
func (s Secret) Equal(o Secret) bool { return s == o }

// String returns [redacted].
func (Secret) String() string { return redacted }

// GoString returns [redacted].
func (Secret) GoString() string { return redacted }

// Format writes [redacted] for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText returns [redacted], for every text-based encoding.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText sets the secret to the text, so a configuration may contain one.
func (s *Secret) UnmarshalText(text []byte) error {
	s.value = string(text)
	return nil
}
