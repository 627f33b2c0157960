//go:build race

package credentials_test

const underRace = true // the race detector is on: long tests repeat themselves less often
