package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// noCore keeps the process's memory, with secrets and personal data, out of files and away from other
// processes of the same user. No core is written, not even if cores go to a program, which ignores the limit.
// The limit is for child processes. A service without permission for limits needs none.
func noCore() error {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
