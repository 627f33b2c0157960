package connector_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"payersync/connector"
)

func TestAPanicBecomesAnErrorThatHoldsNoValue(t *testing.T) {
	t.Parallel()
	var none []string
	tests := []struct {
		name  string
		throw func() error
		want  string
	}{
		{"a text", func() error { panic("Jane Doe") }, "it panicked: string"},
		{"an error", func() error { panic(fmt.Errorf("of %s", "Jane Doe")) }, "it panicked: *errors.errorString"},
		{"an index", func() error { return errors.New(none[len("Jane Doe")]) },
			"it panicked: runtime error: index out of range [8] with length 0"},
	}
	for _, tt := range tests {
		err := connector.Guard(tt.throw)
		var p *connector.PanicError
		if !errors.As(err, &p) || !strings.Contains(p.Stack, "guard_test.go") || strings.Contains(p.Stack, "Jane") {
			t.Fatalf("%s: got %v", tt.name, err)
		}
		if where := p.Where(); !strings.HasPrefix(where, "connector/guard_test.go:") {
			t.Errorf("%s: it happened at %q", tt.name, where)
		}
		if got := strings.Replace(err.Error(), "*fmt.wrapError", "*errors.errorString", 1); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if err := connector.Guard(func() error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an ordinary error became %v", err)
	}
}
