package connector

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
)

// PanicError is the error of a panicked step. A panic value may contain anything, even a person's name. So only errors
// of the Go runtime appear as text; for other values only the type appears.
type PanicError struct {
	What  string // for example "runtime error: index out of range [3] with length 2"
	Stack string // where it happened; arguments are numbers in it
}

// Error returns the panic's value.
func (e *PanicError) Error() string { return "it panicked: " + e.What }

// Where returns the file and line of the panic, "" if the stack does not show it. A release names its files without
// their build folders.
func (e *PanicError) Where() string {
	_, after, _ := strings.Cut(e.Stack, "\npanic(")
	for line := range strings.Lines(after) {
		place, isPlace := strings.CutPrefix(line, "\t")
		if file, _, _ := strings.Cut(place, " "); isPlace && !strings.Contains("/"+file, "/runtime/") {
			return path.Join(path.Base(path.Dir(file)), path.Base(strings.TrimSpace(file)))
		}
	}
	return ""
}

// NewPanicError returns the error of a panic at a place.
func NewPanicError(thrown any, stack string) *PanicError {
	e := &PanicError{What: fmt.Sprintf("%T", thrown), Stack: stack}
	if err, ok := thrown.(error); ok {
		var broken runtime.Error
		if errors.As(err, &broken) {
			e.What = broken.Error()
		}
	}
	return e
}

// Guard calls f and turns its panic into a *PanicError. An unguarded panic in a goroutine ends the process, and Go
// prints its value.
func Guard(f func() error) (err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = NewPanicError(thrown, string(debug.Stack()))
		}
	}()
	return f()
}
