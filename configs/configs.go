// Package configs holds the files that payersync ships with: the quick start,
// the annotated example of the configuration, one mapping per kind of source, the
// queries for books that are databases, and the files to install it with. README.md says what each is for. Reading and
// checking them is left to their users.
package configs

import "embed"

// FS holds the files of this folder by their slash-separated paths, for example
// "quickstart/customers.csv".
//
//go:embed README.md payersync.example.yaml node.example.yaml quickstart mappings sql deploy
var FS embed.FS
