package main

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"payersync/connector/accounting/sqltable/sqltabletest"
)

var update = flag.Bool("update", false, "rewrite what the golden files and scripts expect")

// TestMain makes this test binary the program too: what the tests run as
// payersync is a process of its own, with the real main.
func TestMain(m *testing.M) {
	testscript.Main(side{m}, map[string]func(){"payersync": main, "bare-endpoint": bareEndpoint})
}

// side doubles the default number of parallel tests: they mostly wait for a process.
type side struct{ *testing.M }

func (s side) Run() int {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))) // a number is taken
	}
	defer sqltabletest.Stop()
	return s.M.Run()
}
