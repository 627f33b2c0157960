package main

import (
	"context"
	"errors"
	"fmt"

	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"payersync/mapping/strict"
	"payersync/state"
)

// The exit codes are a public interface (README.md lists them).
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitAttention   = 3
	exitApproval    = 4
	exitThrottled   = 5
	exitHeld        = 6
	exitStandstill  = 7
	exitInterrupted = 130
)

// exitError ends a command with a code of its own after it has said everything
// there is to say.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// exitCode returns the exit code for a command's error.
func exitCode(err error) int {
	var code exitError
	var wrong usage.Mistake
	var config *strict.Error
	var other *state.ErrOtherEnvironment
	var account *state.ErrOtherAccount
	var open *state.ErrRunOpen
	var moved *state.MovedError
	var stands *syncer.Standstill
	var short *reconcile.ShortListError
	var waits *reconcile.QuarantineError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &wrong), errors.As(err, &config), errors.As(err, &other), errors.As(err, &account),
		errors.As(err, &moved):
		return exitUsage
	case errors.As(err, &open), errors.Is(err, state.ErrRunning):
		return exitHeld
	case errors.As(err, &stands), errors.As(err, &short) && short.Standstill():
		return exitStandstill
	case errors.Is(err, context.Canceled), errors.Is(err, show.ErrUnread):
		return exitInterrupted
	case errors.As(err, &waits), connector.FaultOf(err) == connector.FaultThrottled:
		return exitThrottled
	}
	return exitFailed
}

// codeOf returns the exit code for how a run ended.
func codeOf(r syncer.Result) int {
	switch {
	case r.AwaitsApproval():
		return exitApproval
	case r.Outcome == connector.RunComplete, r.Outcome == connector.RunIncomplete:
		if r.Err != nil {
			return exitCode(r.Err)
		}
		if r.Outcome == connector.RunIncomplete || r.Counts.Held+r.Counts.Failed+r.Attention > 0 {
			return exitAttention
		}
		return exitDone
	}
	return exitFailed
}

// severity orders exit codes for a command with several connections: the most urgent one for a person wins.
var severity = []int{exitDone, exitAttention, exitApproval, exitThrottled, exitHeld, exitStandstill, exitFailed,
	exitUsage, exitInterrupted}

// worse returns the more severe of two exit codes.
func worse(a, b int) int {
	for _, code := range severity {
		if code == a {
			return b
		}
		if code == b {
			return a
		}
	}
	return exitFailed
}
