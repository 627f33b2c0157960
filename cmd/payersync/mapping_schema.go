package main

import (
	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/usage"
	"payersync/mapping"
)

// The files of the schemas written by init, as in the yaml-language-server line of mapping.yaml and
// payersync.yaml.
const (
	mappingSchemaFile = "mapping.schema.json"
	configSchemaFile  = "payersync.schema.json"
)

func (a *app) mappingSchemaCmd() *cobra.Command {
	var of string
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of mapping.yaml or payersync.yaml, for editors",
		Long: `Prints the JSON Schema. An editor with the YAML language server uses it to complete
and check a mapping while you type. payersync init writes it beside the files, with
this first line in them:

  # yaml-language-server: $schema=` + mappingSchemaFile + `

A schema cannot know your fields: payersync mapping check does.`,
		Example: "  payersync mapping fields --schema > " + mappingSchemaFile +
			"\n  payersync mapping fields --schema --for config > " + configSchemaFile,
		RunE: func(_ *cobra.Command, _ []string) error { return a.runMappingSchema(of) },
	}
	c.Flags().StringVar(&of, "for", "mapping", "mapping, config or node")
	return c
}

func (a *app) runMappingSchema(of string) error {
	schemas := map[string]func() []byte{"mapping": mapping.Schema, "config": config.Schema, "node": config.NodeSchema}
	schema, known := schemas[of]
	if !known {
		return usage.Errorf("--for is mapping, config or node, not %q", of)
	}
	_, err := a.Out.Write(schema())
	return err
}

// schemaLine returns the line that names a file's schema for editors.
func schemaLine(schema string) string { return "# yaml-language-server: $schema=" + schema + "\n" }
