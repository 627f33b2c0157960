package main

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite what the golden files and scripts expect")

// TestMain makes this test binary the program too: what the tests run as
// payersync is a process of its own, with the real main.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"payersync": main})
}
