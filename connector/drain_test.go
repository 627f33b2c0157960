package connector_test

import (
	"context"
	"errors"
	"testing"

	"payersync/connector"
)

// covers F184
func TestNothingLeavesOnceTheFenceIsShut(t *testing.T) {
	t.Parallel()
	lost := errors.New("another holds it by now")
	var now error
	ctx, done := connector.Leaving(connector.WithFence(t.Context(), func() error { return now }))
	defer done()
	if err := connector.MayLeave(ctx); err != nil {
		t.Errorf("a request may not leave before: %v", err)
	}
	now = lost
	if err := connector.MayLeave(ctx); !errors.Is(err, lost) {
		t.Errorf("got %v, want %v", err, lost)
	}
}

func TestNothingLeavesAfterTheLastCall(t *testing.T) {
	t.Parallel()
	why := errors.New("closing time")
	last, end := context.WithCancelCause(t.Context())
	ctx := connector.WithDrain(t.Context(), last)
	waiting, done := connector.Leaving(ctx)
	defer done()
	if waiting.Err() != nil {
		t.Fatalf("a request may not leave before the last call: %v", waiting.Err())
	}
	end(why)
	<-waiting.Done()
	late, doneLate := connector.Leaving(ctx)
	defer doneLate()
	if !errors.Is(context.Cause(waiting), why) || !errors.Is(context.Cause(late), why) {
		t.Errorf("the causes are %v and %v, want %v for both", context.Cause(waiting), context.Cause(late), why)
	}
	if ctx.Err() != nil {
		t.Errorf("a request that had left is cut off: %v", ctx.Err())
	}
	anew, doneAnew := connector.Leaving(connector.WithDrain(ctx, context.Background()))
	defer doneAnew()
	if anew.Err() != nil {
		t.Errorf("a later last call does not take the place of the earlier: %v", anew.Err())
	}
}
