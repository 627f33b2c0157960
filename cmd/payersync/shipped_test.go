package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v4"

	"payersync/cmd/payersync/internal/config"
)

// differs lists the settings of shipped examples other than the defaults, each with the reason. People copy
// them with the example.
var differs = map[string]string{
	"connections[].two_way":                        "auto is what it is without: shown, so that the key can be found",
	"billing.webhook.known_types":                  "no type is known without a person: an empty list shows the key",
	"http.proxy":                                   "off by default: where there is a proxy, this is how it is written",
	"alerts.name":                                  "no default: the name of the computer it runs on",
	"alerts.ways[].names":                          "whether names may leave is for the operator to say",
	"alerts.ways[].min_severity":                   "the second way of the example is one that wakes somebody",
	"backup.recipients":                            "no default: only an operator knows who may read them",
	"billing.authorize_url":                        "no default: shown for services that want a person's consent",
	"billing.scopes":                               "no default: shown for services that want a person's consent",
	"billing.link_valid":                           "no default: only the service says how long its links work",
	"billing.profile":                              "the quick start speaks to the sandbox",
	"billing.webhook.signature.key":                "left out it means the same; the example shows every key",
	"billing.webhook.signature.secrets":            "without them the service has to name one",
	"billing.webhook.signature.tolerance":          "left out it means the same; the example shows every key",
	"connections[].organisation":                   "no default: a CSV file does not say whose books it is",
	"connections[].schedule":                       "without one serve does not sync",
	"connections[].source.active":                  "no default: names a column of the books in question",
	"connections[].source.updated_at":              "no default: names a column of the books in question",
	"connections[].source.custom_connection":       "the snippet is about the one kind of app that is not the usual one",
	"connections[].source.delimiter":               "left out it means the same; the example shows every key",
	"connections[].source.encoding":                "left out it means the same; the example shows every key",
	"connections[].source.preset":                  "left out it means the same; the example shows every key",
	"connections[].source.host":                    "the snippet is about a server elsewhere",
	"connections[].source.password":                "no default: servers on the same machine may want none",
	"ledger.path":                                  "the quick start's ledger is the sandbox's alone",
	"connections[].letters.holidays":               "no default: holidays are those of a place",
	"connections[].letters.language":               "left out it means the same; the example shows every key",
	"connections[].letters.time_zone":              "no default: only an operator knows where payers are",
	"letters.dkim_selector":                        "no default: it is the mail server's",
	"letters.sender":                               "the quick start shows letters, which the sandbox catches",
	"letters.service_chasing_off":                  "the sandbox writes to nobody",
	"letters.smtp.tls":                             "the sandbox's mail server is on the same machine",
	"letters.from":                                 "no default: only an operator knows who writes",
	"letters.holidays":                             "no default: holidays are those of a place",
	"pages.oidc.name":                              "left out it is the issuer's host; the example shows every key",
	"pages.oidc.roles.viewer":                      "there is no default: who has no role does not get in",
	"pages.oidc.roles.operator":                    "there is no default: who has no role does not get in",
	"pages.oidc.roles.admin":                       "there is no default: who has no role does not get in",
	"server.admin_url":                             "the address is the installation's own; the example shows every key",
	"server.admin_proxies":                         "left out it means the same; the example shows every key",
	"letters.journal":                              "left out it means the same; the example shows every key",
	"letters.legal":                                "no default: only an operator knows who writes",
	"letters.languages":                            "only an operator knows what payers read",
	"letters.time_zone":                            "no default: only an operator knows where payers are",
	"letters.link_hosts":                           "no default: they are the billing service's",
	"letters.stop_url":                             "no default: it is the address of the proxy",
	"letters.test_to":                              "no default: letters of a sandbox go nowhere",
	"log.format":                                   "the quick start is watched by a person at a terminal",
	"connections[].writeback.fields":               "no default: names columns of the books in question",
	"connections[].writeback.sql.password":         "no default: servers on the same machine may want none",
	"connections[].writeback.tryton.asked":         "no default: names a category of the books in question, as the next three",
	"connections[].writeback.tryton.signed":        "as the one before",
	"connections[].writeback.tryton.active":        "as the one before",
	"connections[].writeback.tryton.cancelled":     "as the one before",
	"connections[].writeback.quickbooks.otherwise": "no default: names a payment method of the books in question",
}

// Where a C compiler is installed, go build links with the system's library unless it is told
// not to.
func TestTheBuildThatIsShownIsStatic(t *testing.T) {
	t.Parallel()
	shown := 0
	for _, name := range []string{"README.md", "Dockerfile"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "go build") {
				shown++
				if !strings.Contains(line, "CGO_ENABLED=0 go build") {
					t.Errorf("%s builds a binary that needs a C library: %s", name, line)
				}
			}
		}
	}
	if shown < 2 {
		t.Errorf("%d builds were found", shown)
	}
}

// covers F31, F35
func TestAShippedExampleDiffersFromTheDefaultOnlyForAReason(t *testing.T) {
	t.Parallel()
	unused := maps.Clone(differs)
	for name, text := range shippedConfigs(t) {
		for _, key := range keysThatDiffer(t, name, text) {
			if differs[key] == "" {
				t.Errorf("%s sets %s to something else than its default; make it the default, or list it here with the reason",
					name, key)
			}
			delete(unused, key)
		}
	}
	for key := range unused {
		t.Errorf("no shipped example sets %s to something else than its default; remove it from the list", key)
	}
}

// minimalConfig is as much as a configuration needs.
const minimalConfig = `billing:
  base_url: http://127.0.0.1:8090/api
  client_id: env:BILLING_CLIENT_ID
  client_secret: a literal
  redirect_url: http://localhost:8090/signed
connections:
  - {name: a, source: {kind: csv, path: /data/a.csv, preset: xero}, mapping: m.yaml}
`

// shippedConfigs returns every configuration shipped or printed by payersync, by place. It completes snippets
// to whole configurations.
func shippedConfigs(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, file := range []string{"configs/payersync.example.yaml", "configs/quickstart/payersync.yaml",
		"configs/quickstart/production.yaml"} {
		out[file] = readShipped(t, file)
	}
	for _, kind := range append(sourceKinds(), "") {
		files, err := firstFiles(kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.name == configFile || f.name == productionFile {
				out["init --source "+kind+", "+f.name] = string(f.data)
			}
		}
	}
	readmes, err := filepath.Glob("../../*/README.md")
	texts, errGuides := filepath.Glob("../../cmd/payersync/guides/*.md")
	if err := errors.Join(err, errGuides); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Concat(readmes, texts, []string{"../../README.md", "../../connector/README.md"}) {
		file := strings.TrimPrefix(path, "../../")
		for i, block := range yamlBlock.FindAllStringSubmatch(readShipped(t, file), -1) {
			if text, ok := completed(block[1]); ok {
				out[fmt.Sprintf("%s, block %d", file, i+1)] = text
			}
		}
	}
	return out
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// completed makes a configuration of a snippet; false for one that is of another
// kind of file.
func completed(snippet string) (text string, ok bool) {
	billing, _, _ := strings.Cut(minimalConfig, "connections:")
	switch {
	case strings.HasPrefix(snippet, "billing:"):
		_, connections, _ := strings.Cut(minimalConfig, "connections:")
		return snippet + "connections:" + connections, true
	case strings.HasPrefix(snippet, "connections:"):
		return billing + snippet, true
	case strings.HasPrefix(snippet, "alerts:"), strings.HasPrefix(snippet, "letters:"):
		return minimalConfig + snippet, true
	case strings.HasPrefix(snippet, "source: {"):
		return billing + "connections:\n  - name: a\n    " + strings.ReplaceAll(strings.TrimSpace(snippet), "\n", "\n    ") +
			"\n", true
	case strings.HasPrefix(snippet, "- name:"):
		return billing + "connections:\n  " + strings.ReplaceAll(strings.TrimSpace(snippet), "\n", "\n  ") + "\n", true
	}
	return "", false
}

func readShipped(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// keysThatDiffer returns the keys with a value other than the default. Required keys have no default.
func keysThatDiffer(t *testing.T, name, text string) (out []string) {
	t.Helper()
	text = fileSecret.ReplaceAllString(text, "env:WEBHOOK_SECRET")
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	whole, err := parseShipped(&doc)
	if err != nil {
		t.Fatalf("%s:\n%v", name, err)
	}
	eachKey(doc.Content[0], "", func(key string, without func() (restore func())) {
		restore := without()
		rest, err := parseShipped(&doc)
		restore()
		if err == nil && !reflect.DeepEqual(whole, rest) {
			out = append(out, key)
		}
	})
	return out
}

var fileSecret = regexp.MustCompile(`file:[\w./]+`)

func parseShipped(doc *yaml.Node) (*config.Config, error) {
	text, err := yaml.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return parsed(string(text))
}

// parsed reads a configuration whose secrets are all the same.
func parsed(text string) (*config.Config, error) {
	return config.Parse("payersync.yaml", []byte(text), 0, func(string) (string, bool) { return sameSecret, true })
}

const sameSecret = "hunter2-secret-of-32-bytes-or-more"

// eachKey visits every key below node that holds no further keys. Elements of
// lists are visited by one name.
func eachKey(node *yaml.Node, at string, visit func(key string, without func() (restore func()))) {
	switch {
	case node.Kind == yaml.SequenceNode:
		for _, element := range node.Content {
			eachKey(element, at+"[]", visit)
		}
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := strings.TrimPrefix(at+"."+node.Content[i].Value, "."), node.Content[i+1]
			eachKey(value, key, visit)
			if value.Kind == yaml.MappingNode || value.Kind == yaml.SequenceNode && len(value.Content) > 0 &&
				value.Content[0].Kind == yaml.MappingNode {
				continue
			}
			visit(key, func() func() {
				all := slices.Clone(node.Content)
				node.Content = slices.Delete(slices.Clone(node.Content), i, i+2)
				return func() { node.Content = all }
			})
		}
	}
}
