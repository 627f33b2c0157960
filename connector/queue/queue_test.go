package queue

import (
	"testing"
)

const childOf = "PAYERSYNC_QUEUE_DATABASE"

func child(string) {}

var _ testing.TB
