package connector

import (
	"context"
	"errors"
	"fmt"
)

// Wrap returns err with what failed before it, or nil for nil. The format takes no verb for err.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// stopped is the problem of a run or a job that a person or a stop of the process ended.
const stopped = "it was stopped before its end"

// ProblemOf returns the words for people about the error that ended a run or a job; "" without an error.
func ProblemOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled):
		return stopped
	}
	return err.Error()
}
