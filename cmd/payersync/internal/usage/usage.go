// Package usage defines the mistakes that end a command with exit status 2: in its call, or in its
// configuration. The program decides on output and exit status.
package usage

import "fmt"

// Mistake is a mistake in how a command was called or configured.
type Mistake struct{ Err error }

// Error describes the mistake for the caller of the command.
func (e Mistake) Error() string { return e.Err.Error() }

// Unwrap returns the mistake.
func (e Mistake) Unwrap() error { return e.Err }

// Errorf returns an Mistake with a text as fmt.Errorf makes it.
func Errorf(format string, args ...any) error { return Mistake{fmt.Errorf(format, args...)} }
