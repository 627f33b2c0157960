//go:build race

package main

const defaultKillRows = 500 // the race detector slows the ledger down twentyfold
