//go:build !race

package main

const defaultKillRows = 4_000
