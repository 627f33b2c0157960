package mapping

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/mapping/strict"
)

// sheet is a source as a spreadsheet is: columns of texts, some with names of
// two words.
func sheet() connector.SourceInfo {
	return connector.SourceInfo{Kind: "csv", Tenant: "tenant-1",
		Fields: textFields("Cust No", "Company Name", "First Name", "Last Name",
			"E-Mail", "Phone", "City", "Country", "Balance", "Limit", "Since", "Status")}
}

// sheetRow is a record of it.
const sheetRow = `{"Cust No": "C1", "Company Name": "Acme", "First Name": "Ann", "Last Name": "Lee", "E-Mail": "a@b.example", "Phone": "030 901820",
	"City": "Leeds", "Country": "UK", "Balance": "1200", "Limit": "90", "Since": "2020-01-31", "Status": "Active"}`

// wholeFiles are the files that cannot be written below a title.
var wholeFiles = map[string]string{
	"BOM":      "\uFEFF" + sheetHead + "customer: {name: City}\n",
	"UTF-16":   "\xff\xfev\x00e\x00r\x00",
	"CRLF":     strings.ReplaceAll(sheetHead+"customer: {name: City}\n", "\n", "\r\n"),
	"empty":    "",
	"comments": "# nothing yet\n",
	"csv":      "Cust No;Company Name;City\nC1;Acme;Leeds\nC2;\"Bell, Ltd\";York\n",
	"xlsx":     "PK\x03\x04\x14\x00\x06\x00\x08\x00\x00\x00",
	"rtf":      "{\\rtf1\\ansi customer:\\par name: City}",
	"json":     `{"version": 1, "source": "csv", "key": {"customerNo": "City"}, "customer": {"name": "City"}}`,
	"one line": "version: 1, source: csv, key: City, customer: name: City\n",
	"sentence": "Please take the company name as the name of the customer.\n",
}

const sheetHead = "version: 1\nsource: csv\nkey: {customerNo: City}\n"

// sheetFile is the whole file of a case: what it does not say itself is put
// before it.
func sheetFile(text string) string {
	if name, ok := strings.CutPrefix(text, "whole: "); ok {
		return wholeFiles[strings.TrimSpace(name)]
	}
	text = strings.NewReplacer("␉", "\t", "␠", "\u00a0", "␀", "\xe9").Replace(text)
	if strings.HasPrefix(text, "version:") || strings.HasPrefix(text, "source:") {
		return text
	}
	out := "version: 1\nsource: csv\n"
	for _, block := range []string{"key: {customerNo: City}\n", "customer:\n  name: City\n"} {
		name, _, _ := strings.Cut(block, ":")
		if !regexp.MustCompile(`(?mi)^` + name + `s?\s*:`).MatchString(text) {
			out += block
		}
	}
	return out + text
}

func TestTheCommonestMistakesNameTheirCure(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/mistakes/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no mistakes found: %v", err)
	}
	mistakes := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, cases, _ := strings.Cut(string(data), "\n== ")
		got := strings.TrimRight(head, "\n") + "\n"
		for c := range strings.SplitSeq(cases, "\n== ") {
			title, text, _ := strings.Cut(c, "\n")
			written := regexp.MustCompile(`(?m)^> ?.*\n?`).ReplaceAllString(text+"\n", "")
			written = strings.TrimRight(written, "\n") + "\n"
			whole := sheetFile(written)
			checkCures(t, title, whole)
			got += fmt.Sprintf("\n== %s\n%s%s", title, written, quotedLines(toldOf(t, whole)))
			mistakes++
		}
		checkGolden(t, file, got)
	}
	if mistakes < 100 {
		t.Errorf("there are %d mistakes, want 100", mistakes)
	}
}

// toType is what tells a person what to write or do.
var toType = regexp.MustCompile(`did you mean "|; (?:put|save|remove|write|use|give|pick|start|add|compare|payersync) |remove the |such as [A-Z]|the choices are: |the fields are |, as in \S|that begin with -|what is known here: |compare with a fixed one: `)

// checkCures checks every message about a file for the place and the correction. It applies the correction,
// which must be right.
func checkCures(t *testing.T, title, file string) {
	t.Helper()
	for _, p := range problemsOf(t, file) {
		switch {
		case p.File != "mapping.yaml":
			t.Errorf("%s: %q does not name the file", title, p)
		case p.Line == 0 && !strings.HasPrefix(p.Message, "the file is "):
			t.Errorf("%s: %q names no line", title, p)
		case p.Instead == "" && !toType.MatchString(p.Message):
			t.Errorf("%s: %q gives nothing to type", title, p)
		case p.Instead != "":
			lines := strings.Split(file, "\n")
			lines[p.Line-1] = p.Instead
			for _, left := range problemsOf(t, strings.Join(lines, "\n")) {
				if left.Line == p.Line {
					t.Errorf("%s: what is to be written is wrong as well: %q", title, left)
				}
			}
		}
	}
}

func problemsOf(t *testing.T, file string) []strict.Problem {
	t.Helper()
	m, err := Load("mapping.yaml", []byte(file), sheet())
	if err == nil {
		err = m.CheckExamples()
	}
	var wrong *strict.Error
	if err != nil && !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	if wrong == nil {
		return nil
	}
	return wrong.Problems
}

func quotedLines(s string) string {
	return regexp.MustCompile(`(?m)^`).ReplaceAllString(strings.TrimRight(s, "\n"), "> ") + "\n"
}

// toldOf is what a person is told of a file, or what it makes of a record.
func toldOf(t *testing.T, file string) string {
	t.Helper()
	m, err := Load("mapping.yaml", []byte(file), sheet())
	if err == nil {
		err = m.CheckExamples()
	}
	var wrong *strict.Error
	if errors.As(err, &wrong) {
		return wrong.Error()
	}
	got, err := m.Apply(record(t, sheetRow))
	if err != nil {
		return "accepted; a record fails: " + err.Error()
	}
	return fmt.Sprintf("accepted: payer %v, %s", got.Included, shown(viewOf(got.Customer)))
}

func TestWhatTheReadmeSaysOfMistakesIsTrue(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "### When the mapping is not what it should be")
	section, _, _ = strings.Cut(section, "\n## ")
	_, told, _ := strings.Cut(section, "```\n")
	told, table, _ := strings.Cut(told, "```")

	src := connector.SourceInfo{Kind: "csv",
		Fields: textFields("Anrede", "Firma", "Post Code", "Name", "Limit", "Balance", "Since", "Status")}
	const head = "version: 1\nsource: csv\nregion: DE\nkey: {id: Firma}\n"
	_, err = Load("mapping.yaml", []byte(head+"customer:\n  name: =WENN(Anrede=\"\";Firma;Anrede & \" \" & Firma)\n"), src)
	if err == nil || err.Error()+"\n" != told {
		t.Errorf("README.md says\n%s\nand it is\n%v", told, err)
	}
	load := func(expression string) error {
		_, asName := Load("m.yaml", fmt.Appendf(nil, "%scustomer:\n  name: >-\n    %s\n", head, expression), src)
		_, asInclude := Load("m.yaml", fmt.Appendf(nil, "%scustomer: {name: Firma}\ninclude: >-\n  %s\n", head, expression),
			src)
		if asName == nil || asInclude == nil {
			return nil
		}
		return asName
	}
	rows := regexp.MustCompile("(?m)^\\| (`.*) \\| [^`|]* \\| (`.*) \\|$").FindAllStringSubmatch(table, -1)
	code := regexp.MustCompile("`([^`]*)`")
	for _, row := range rows {
		for _, wrong := range code.FindAllStringSubmatch(row[1], -1) {
			if load(wrong[1]) == nil {
				t.Errorf("%s is not refused", wrong[1])
			}
		}
		for _, right := range code.FindAllStringSubmatch(row[2], -1) {
			if err := load(right[1]); err != nil {
				t.Errorf("%s is refused: %v", right[1], err)
			}
		}
	}
	if len(rows) < 9 {
		t.Errorf("the table has %d rows", len(rows))
	}
}
