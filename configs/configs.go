// Package configs holds the files shipped with payersync: the quick start, the annotated example of the
// configuration, one mapping per kind of source, the queries for accounting systems with a database, and the
// files for an installation. README.md explains each. It neither parses nor checks them.
package configs

import "embed"

// FS holds the files of this folder by their slash-separated paths, for example
// "quickstart/customers.csv".
//
//go:embed README.md payersync.example.yaml node.example.yaml quickstart mappings sql deploy
var FS embed.FS
