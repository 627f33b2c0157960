package connector

import "fmt"

const redacted = "[redacted]"

// Secret is a value that must not be seen: it prints as [redacted] in every
// format and encoding. Expose it only where it is used.
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

// MarshalText returns [redacted], for every encoding that asks for text.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText takes the text as the secret, so that a configuration may hold
// one.
func (s *Secret) UnmarshalText(text []byte) error {
	s.value = string(text)
	return nil
}
