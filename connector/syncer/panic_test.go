package syncer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/syncer"
)

// panics is a client that panics with what it was given when it creates a customer.
type panics struct{ syncer.Billing }

func (panics) CreateCustomer(_ context.Context, body []byte) (connector.RemoteCustomer, error) {
	panic(string(body))
}

// A mistake that one record meets ends the run, and neither the process nor the silence about
// the record; the next run goes on.
func TestAPanicEndsTheRunAndNotTheProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("C001", "Ada Quetzalcoatl", "ada@example.org")
	w.syncer.Billing = panics{w.billing}
	res, err := w.syncer.Run(t.Context(), w.connection(),
		syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "test", Holder: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var broken *connector.PanicError
	if !errors.As(res.Err, &broken) || !strings.HasPrefix(broken.Where(), "syncer/panic_test.go:") ||
		strings.Contains(res.Problem+broken.Stack, "Quetzalcoatl") {
		t.Errorf("the run ended with %v", res.Err)
	}
	w.syncer.Billing = w.billing
	res, err = w.syncer.Run(t.Context(), w.connection(),
		syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "test", Holder: "test"})
	if err != nil || res.Outcome != connector.RunComplete {
		t.Errorf("the next run ended %s: %v, %v", res.Outcome, res.Err, err)
	}
}
