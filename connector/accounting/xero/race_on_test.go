//go:build race

package xero_test

// manyContacts is fewer under the race detector, which looks for other things.
const manyContacts = 2_000
