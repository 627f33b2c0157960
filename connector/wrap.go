package connector

import "fmt"

// Wrap returns err with what failed before it, or nil for nil. The format takes no verb for err.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
