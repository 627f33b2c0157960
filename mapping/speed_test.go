//go:build !race

package mapping

// slowdown is how much slower the tests run than the product.
const slowdown = 1
