// Package usage holds the mistakes that end a command with exit status 2: how it was
// called, or what its configuration says. What a command prints and which status it ends
// with is left to the program.
package usage

import "fmt"

// Error is a mistake in how a command was called or configured.
type Error struct{ Err error }

// Error returns what is wrong, in words for who called the command.
func (e Error) Error() string { return e.Err.Error() }

// Unwrap returns what was found wrong.
func (e Error) Unwrap() error { return e.Err }

// Errorf returns an Error with a text as fmt.Errorf makes it.
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }
