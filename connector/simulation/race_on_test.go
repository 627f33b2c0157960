//go:build race

package simulation

// scale is by how much the tests are smaller under the race detector, which makes
// every world ten times as slow.
const scale = 16
