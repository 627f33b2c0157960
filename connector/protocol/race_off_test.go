//go:build !race

package protocol

// scale is by how much the tests are smaller under the race detector.
const scale = 1
