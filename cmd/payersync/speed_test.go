//go:build !race

package main

const defaultKillRows = 10_000
