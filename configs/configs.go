// Package configs holds the files shipped with payersync: the quick start, the annotated example of the
// configuration, one mapping per kind of source, the queries for accounting systems with a database, the profiles of
// accounting systems with an API, and the files for an installation. README.md explains each. It neither parses nor
// checks them.
package configs

import "embed"

// FS holds the files that the program writes for its users, by their slash-separated paths, for example
// "quickstart/customers.csv". The other files of this folder are shipped beside the program.
//
//go:embed quickstart mappings sql sources
var FS embed.FS
