//go:build unix && !linux

package main

import "syscall"

// noCore keeps the memory of the process, which holds secrets and people's data, out of
// core files.
func noCore() error { return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }
