//go:build !race

package xero_test

// manyContacts is the size at which walks by pages are compared.
const manyContacts = 10_000
