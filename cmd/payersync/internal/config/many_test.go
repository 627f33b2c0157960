package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A person who names the wrong file learns so at once, however long it is.
func TestManyThousandUnknownKeysAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	const many = 60_000
	const slowest = 20 * time.Second // far below what a quadratic reading takes, and far above a linear one on a busy machine
	var keys strings.Builder
	for i := range many {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	file := []byte(minimal + "adoptoin: exact\n" + keys.String())
	for name, read := range map[string]func() error{
		"a configuration": func() error { _, err := Parse("payersync.yaml", file, 0, environment); return err },
		"a node": func() error {
			_, err := parseNode("node.yaml", []byte("loog: {}\n"+keys.String()), 0, environment)
			return err
		},
	} {
		began := time.Now()
		err := read()
		took := time.Since(began)
		t.Logf("%s: %v", name, took)
		if err == nil || !strings.Contains(err.Error(), "did you mean") || !strings.Contains(err.Error(), " more") || took > slowest {
			t.Errorf("%s: %v, and it says %.2000v", name, took, err)
		}
	}
}
