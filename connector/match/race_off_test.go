//go:build !race

package match

const slow = false
