package main

import (
	"path/filepath"
	"strings"
	"testing"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/connector"
	"payersync/connector/billing"
)

// A company that reads FreeAgent needs one more field. It keeps its payers and its mapping.
func TestACompanyAddsAFieldToAShippedProfile(t *testing.T) {
	t.Parallel()
	w, v, _ := newProfiledWorld(t, "freeagent", freeagentBlock, 3)
	if done := w.connect(v); done.code != exitDone {
		t.Fatal(done.out, done.errOut)
	}
	w.expect(exitDone, "sync", "books")
	w.write("books.yaml", "extends: freeagent\nrecord: {fields: [{name: x_debtor, is: Debtor number}]}\n")
	w.edit(configFile, "kind: freeagent", "kind: http, profile: books.yaml")
	w.edit("freeagent.yaml", "externalData: {", `externalData: {debtor: 'coalesce(x_debtor, "none")', `)
	checked := w.expect(exitDone, "source", "--check", w.path("books.yaml"))
	if !strings.Contains(checked.out, "examples") {
		t.Errorf("the check does not read the examples of the shipped profile:\n%s", checked.out)
	}
	planned := w.run("plan", "books")
	if planned.code != exitApproval || !strings.Contains(planned.out, "3 to update") {
		t.Fatalf("the plan ended with %d:\n%s%s", planned.code, planned.out, planned.errOut)
	}
	w.expect(exitDone, "sync", "books", "--yes")
	for _, c := range w.box.Customers() {
		if c.ExternalData["debtor"] != "none" {
			t.Errorf("customer %s has %v", c.ID, c.ExternalData)
		}
	}
	if n := len(w.box.Customers()); n != 3 {
		t.Errorf("there are %d customers", n)
	}
	w.edit("books.yaml", "freeagent", "freagent")
	if r := w.run("plan", "books"); r.code != exitUsage || !strings.Contains(r.errOut, "books.yaml:1:10") ||
		!strings.Contains(r.errOut, `did you mean "freeagent"?`) {
		t.Errorf("a misspelt name ends with %d:\n%s", r.code, r.errOut)
	}
}

func TestInitTakesTheMappingOfTheExtendedProfile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, name := range config.Profiles() {
		file, dir := w.path(name+"-books.yaml"), w.path("of-"+name)
		w.write(name+"-books.yaml", "extends: "+name+"\nname: ours\nrecord: {fields: [{name: x_debtor}]}\n")
		w.expect(exitDone, "init", "--source", file, "--ask", "everybody", dir)
		p, err := config.LoadProfile(file)
		if err != nil {
			t.Fatal(err)
		}
		info := connector.SourceInfo{Kind: "ours", Fields: p.Fields()}
		if _, err := session.LoadMapping(filepath.Join(dir, mappingFile), info, billing.Dialect{}); err != nil {
			t.Errorf("the mapping for %s: %v", name, err)
		}
		shipped := strings.Replace(readShipped(t, "configs/sources/"+name+"/mapping.yaml"), "source: "+name, "source: ours", 1)
		_, rules, _ := strings.Cut(shipped, "\nkey:")
		if written := w.read("of-" + name + "/" + mappingFile); !strings.Contains(written, strings.SplitN(rules, "\nmandate:", 2)[0]) {
			t.Errorf("the mapping for %s is not the shipped one:\n%s", name, written)
		}
	}
}
