package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// noCore keeps the memory of the process, which holds secrets and people's data, out of
// files and from other processes of the same user: no core is written, not even where cores
// are handed to a program, which asks for no limit. The limit is for what it starts, and a
// service that may set none has none to set.
func noCore() error {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
