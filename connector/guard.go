package connector

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
)

// PanicError is the error of a step that panicked. What was thrown could hold anything, also
// somebody's name, so only an error of the Go runtime is given in words; of anything else the
// type is given.
type PanicError struct {
	What  string // for example "runtime error: index out of range [3] with length 2"
	Stack string // where it happened; arguments are numbers in it
}

// Error returns what was thrown.
func (e *PanicError) Error() string { return "it panicked: " + e.What }

// Where returns the file and the line that panicked, "" when the stack does not tell. A release
// names its files without the folders that they were built in.
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

// NewPanicError returns the error of what was thrown at a place.
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

// Guard calls f and turns its panic into a *PanicError. A panic of a goroutine that nobody
// guards ends the process, and Go prints what was thrown.
func Guard(f func() error) (err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = NewPanicError(thrown, string(debug.Stack()))
		}
	}()
	return f()
}
