package admin_test

import (
	"context"
	"errors"
	"testing"

	"payersync/connector/admin"
)

func TestACountIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	var kept admin.Tallies
	defer kept.Close()
	made := 0
	count := func(context.Context, func(int)) (any, error) {
		made++
		return made, nil
	}
	for range 2 {
		if got := kept.Begin("a", "text", count); got.AtWork || got.Result != 1 || got.Text != "text" {
			t.Errorf("the count is %+v", got)
		}
	}
	if got := kept.Begin("b", "", count); got.Result != 2 {
		t.Errorf("the other count is %+v", got)
	}
	if got, found := kept.Latest("a"); !found || got.Result != 1 {
		t.Errorf("the kept count is %+v, %t", got, found)
	}
}

func TestACountThatFailedIsMadeAgain(t *testing.T) {
	t.Parallel()
	var kept admin.Tallies
	defer kept.Close()
	full := errors.New("the disk is full")
	if got := kept.Begin("a", "", func(context.Context, func(int)) (any, error) { return nil, full }); !errors.Is(got.Err,
		full) {
		t.Errorf("the count is %+v", got)
	}
	if got := kept.Begin("a", "", func(context.Context, func(int)) (any, error) { return "done", nil }); got.Err != nil ||
		got.Result != "done" {
		t.Errorf("made again it is %+v", got)
	}
}

func TestACountIsCancelledAndTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	var kept admin.Tallies
	waits := func(ctx context.Context, progress func(int)) (any, error) {
		progress(7)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if got := kept.Begin("a", "", waits); !got.AtWork || got.Done != 7 {
		t.Errorf("the count is %+v", got)
	}
	kept.Cancel("a")
	if got, found := kept.Get("a"); found {
		t.Errorf("it is still there: %+v", got)
	}
	kept.Begin("b", "", waits)
	kept.Close()
	if got := kept.Begin("c", "", waits); got.Err == nil {
		t.Error("one began after the end")
	}
}

func TestACountThatWaitsForItsTurnIsCancelledAtOnce(t *testing.T) {
	t.Parallel()
	var kept admin.Tallies
	defer kept.Close()
	waits := func(ctx context.Context, _ func(int)) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	kept.Begin("at work", "", waits)
	kept.Begin("behind it", "", waits)
	kept.Cancel("behind it")
	if got, found := kept.Get("behind it"); found {
		t.Errorf("it is still there: %+v", got)
	}
	if got, found := kept.Get("at work"); !found || !got.AtWork {
		t.Errorf("the one before it is %+v, %t", got, found)
	}
}
