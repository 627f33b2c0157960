package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	yaml "go.yaml.in/yaml/v4"

	"payersync/cmd/payersync/internal/config"
	"payersync/mapping"
)

// beyondConfigSchema are the wrong configurations beyond any schema, with reasons.
var beyondConfigSchema = map[string]string{
	"address-with-password":              inText,
	"address-with-query":                 inText,
	"address-without-host":               inText,
	"address-without-port":               inText,
	"alerts-addresses":                   inText,
	"alerts-ways":                        acrossKeys,
	"blank-mapping":                      inText,
	"connection-name-with-space":         inText,
	"delimiter-of-two":                   inText,
	"dialect-out-of-range":               inText,
	"dialect-read-only-of-a-key":         inText,
	"duration-in-words":                  inText,
	"duration-negative":                  inText,
	"health-at-the-webhooks":             acrossKeys,
	"ledger-blank":                       inText,
	"letters-half-signed-in":             acrossKeys,
	"letters-in-the-clear":               acrossKeys,
	"letters-smtp":                       inText,
	"letters-templates":                  inEnvironment,
	"letters-values":                     inText,
	"letters-without-a-folder":           inEnvironment,
	"letters-without-what-they-need":     acrossKeys,
	"limit-in-words":                     inText,
	"no-client-secret":                   acrossKeys,
	"no-id-column":                       acrossKeys,
	"no-signature-header":                acrossKeys,
	"percentage-too-high":                inText,
	"plain-http":                         inText,
	"plain-http-auth":                    inText,
	"proxy-everybody":                    inText,
	"proxy-in-words":                     inText,
	"pages-by-name":                      inText,
	"pages-oidc-nobody":                  inText,
	"pages-port-zero":                    inText,
	"pages-without-name":                 inText,
	"pages-other-scheme":                 inText,
	"pages-open-to-all":                  inText,
	"pages-without-host":                 inText,
	"same-address-twice":                 acrossKeys,
	"schedule-out-of-range":              inText,
	"schedule-that-never-comes":          inText,
	"schedule-that-panics-the-parser":    inText,
	"schedule-with-six-fields":           inText,
	"schedule-with-unknown-zone":         inText,
	"schedule-with-zone-only":            inText,
	"secret-blank":                       inEnvironment,
	"secret-file-is-a-folder":            inEnvironment,
	"secret-file-missing":                inEnvironment,
	"signature-timestamp-without-header": acrossKeys,
	"signature-without-body":             inText,
	"static-webhook-without-credentials": acrossKeys,
	"static-without-token":               acrossKeys,
	"two-connections-of-one-name":        acrossKeys,
	"values-of-sources":                  acrossKeys,
	"variable-not-set":                   inEnvironment,
	"webhook-secret-too-short":           inEnvironment,
	"writeback-ways":                     acrossKeys,
	"webhook-without-path":               inText,
}

const (
	inEnvironment = "a schema reads no environment and no file"
	inText        = "the program reads the text, and has a better sentence than a pattern would give"
	acrossKeys    = "it depends on another key"
)

func TestTheConfigSchemaRefusesWrongFilesWhereASchemaCan(t *testing.T) {
	t.Parallel()
	schema := compiled(t, config.Schema())
	files, err := filepath.Glob("internal/config/testdata/config/wrong/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		why, beyond := beyondConfigSchema[name]
		err := schema.Validate(contentOf(t, file))
		switch {
		case err != nil && beyond:
			t.Errorf("%s is refused, though the list says: %s", name, why)
		case err == nil && !beyond:
			t.Errorf("%s is accepted, and nothing says why", name)
		case err != nil:
			refused++
		}
	}
	if refused+len(beyondConfigSchema) != len(files) {
		t.Errorf("%d files are refused and %d listed, of %d", refused, len(beyondConfigSchema), len(files))
	}
	t.Logf("the schema refuses %d of %d wrong files", refused, len(files))
}

// TestTheSchemasAcceptWhatInitWrites uses the line with a file's schema, like an editor.
func TestTheSchemasAcceptWhatInitWrites(t *testing.T) {
	t.Parallel()
	schemas := map[string]*jsonschema.Schema{mappingSchemaFile: compiled(t, mapping.Schema()),
		configSchemaFile: compiled(t, config.Schema())}
	for _, kind := range append(sourceKinds(), "") {
		files, err := firstFiles(kind)
		if err != nil {
			t.Fatal(err)
		}
		checked := 0
		for _, f := range files {
			line, _, _ := strings.Cut(string(f.data), "\n")
			named, found := strings.CutPrefix(line, "# yaml-language-server: $schema=")
			if !found {
				continue
			}
			var content any
			if err := yaml.Unmarshal(f.data, &content); err != nil {
				t.Fatal(err)
			}
			if err := schemas[named].Validate(content); err != nil {
				t.Errorf("%s of the kind %q: %v", f.name, kind, err)
			}
			checked++
		}
		if checked != 3 {
			t.Errorf("%d files of the kind %q name a schema, want 3", checked, kind)
		}
	}
}

func TestTheConfigSchemaAcceptsEveryExample(t *testing.T) {
	t.Parallel()
	schema := compiled(t, config.Schema())
	for _, file := range []string{"internal/config/testdata/config/whole.yaml", "../../configs/payersync.example.yaml",
		"../../configs/quickstart/payersync.yaml", "../../configs/quickstart/production.yaml"} {
		if err := schema.Validate(contentOf(t, file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := compiled(t, config.NodeSchema()).Validate(contentOf(t, "../../configs/node.example.yaml")); err != nil {
		t.Error(err)
	}
}

// compiled is a published schema, read by a validator of its own.
func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", tree); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func contentOf(t *testing.T, file string) any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var content any
	if err := yaml.Unmarshal(data, &content); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return content
}
