//go:build !race

package credentials_test

const underRace = false
