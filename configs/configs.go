// Package configs holds the files that payersync ships with: the quick start,
// the annotated example of the configuration, one mapping per kind of export and
// the files to install it with. README.md says what each is for. Reading and
// checking them is left to their users.
package configs

import "embed"

// FS holds the files of this folder by their slash-separated paths, for example
// "quickstart/customers.csv".
//
//go:embed README.md payersync.example.yaml quickstart mappings deploy
var FS embed.FS
