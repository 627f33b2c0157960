// Package testdsn lets tests keep the rows of a ledger in a database and not in its file. The product
// sets nothing of it.
package testdsn

// DSN returns the address of the PostgreSQL database of the ledger at path, or "" for the file
// itself. nil means that every ledger is its file.
var DSN func(path string) (string, error)
