//go:build race

package protocol

// scale is by how much the tests are smaller under the race detector, which makes
// them ten times as slow and finds nothing in a package without goroutines.
const scale = 16
