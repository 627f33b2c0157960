//go:build unix && !linux

package main

import "syscall"

// noCore keeps the process's memory, with secrets and personal data, out of core files.
func noCore() error { return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }
