package configs_test

import (
	"encoding/csv"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting/csvfile"
)

// unpack copies a shipped file to disk and returns its path.
func unpack(t *testing.T, name string) string {
	t.Helper()
	content, err := fs.ReadFile(configs.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(name))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// quickstart returns the quick start's source and what a read of it gives.
func quickstart(t *testing.T) (*csvfile.Source, []connector.Record) {
	t.Helper()
	source, err := csvfile.New(csvfile.Config{Path: unpack(t, "quickstart/customers.csv"), ID: []string{"AccountNumber"}})
	if err != nil {
		t.Fatal(err)
	}
	var records []connector.Record
	for page, err := range source.Customers(t.Context(), time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, page.Records...)
	}
	return source, records
}

func TestQuickStartHasTheIntendedMixOfRows(t *testing.T) {
	t.Parallel()
	_, records := quickstart(t)
	kinds := map[string]func(cell map[string]string) bool{
		"without name":   func(c map[string]string) bool { return c["Name"] == "" },
		"without e-mail": func(c map[string]string) bool { return c["Email"] == "" },
		"e-mail without @": func(c map[string]string) bool {
			return c["Email"] != "" &&
				!strings.Contains(c["Email"], "@")
		},
		"several e-mails":          func(c map[string]string) bool { return strings.Count(c["Email"], "@") > 1 },
		"e-mail with capitals":     func(c map[string]string) bool { return c["Email"] != strings.ToLower(c["Email"]) },
		"line break in address":    func(c map[string]string) bool { return strings.Contains(c["Address"], "\n") },
		"two addresses":            func(c map[string]string) bool { return c["Second Address"] != "" },
		"not active":               func(c map[string]string) bool { return !strings.EqualFold(c["Status"], "active") },
		"formula-like name":        func(c map[string]string) bool { return strings.HasPrefix(c["Name"], "=") },
		"spaces around name":       func(c map[string]string) bool { return c["Name"] != strings.TrimSpace(c["Name"]) },
		"apostrophe in name":       func(c map[string]string) bool { return strings.ContainsAny(c["Name"], "'’") },
		"letters beyond a to z":    func(c map[string]string) bool { return regexp.MustCompile(`[À-ž]`).MatchString(c["Name"]) },
		"quotation marks in name":  func(c map[string]string) bool { return strings.Contains(c["Name"], `"`) },
		"lower-case postcode":      func(c map[string]string) bool { return c["Postcode"] == strings.ToLower(c["Postcode"]) },
		"phone with international": func(c map[string]string) bool { return strings.HasPrefix(c["Phone"], "+44") },
	}
	got := map[string]int{"records": len(records)}
	for _, r := range records {
		if r.Problem != "" {
			got["with a problem"]++
			continue
		}
		var cells map[string]string
		if err := json.Unmarshal(r.Data, &cells); err != nil {
			t.Fatal(err)
		}
		for kind, is := range kinds {
			if is(cells) {
				got[kind]++
			}
		}
	}
	want := map[string]int{
		"records": 39, "with a problem": 1,
		"without name": 1, "without e-mail": 1, "e-mail without @": 1, "several e-mails": 2, "e-mail with capitals": 4,
		"line break in address": 1, "two addresses": 1, "not active": 1, "formula-like name": 1, "spaces around name": 2,
		"apostrophe in name": 6, "letters beyond a to z": 5, "quotation marks in name": 1, "lower-case postcode": 3,
		"phone with international": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows by kind (-want +got):\n%s", diff)
	}
}

func TestQuickStartReportsBothRowsOfASharedAccountNumber(t *testing.T) {
	t.Parallel()
	_, records := quickstart(t)
	i := slices.IndexFunc(records, func(r connector.Record) bool { return r.Problem != "" })
	if i < 0 {
		t.Fatal("no record has a problem")
	}
	got := records[i].SourceID + ": " + records[i].Problem
	want := "HB026: Lines 28 and 29 have the same AccountNumber; each customer needs its own row and its own AccountNumber."
	if got != want {
		t.Errorf("problem\n got %s\nwant %s", got, want)
	}
}

// TestQuickStartNamesNobodyReal keeps to reserved domains, numbers set aside for
// drama and postcodes with letters that no inward code has.
func TestQuickStartNamesNobodyReal(t *testing.T) {
	t.Parallel()
	content, err := fs.ReadFile(configs.FS, "quickstart/customers.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(content))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	domain := regexp.MustCompile(`@[^;,>\s]+`)
	phone := regexp.MustCompile(`^(?:(?:\+44 |0)1632 960\d{3}|07700 900\d{3}|020 7946 0\d{3}|029 2018 0\d{3}|028 9649 6\d{3}|0191 498 0\d{3}|\(?01(?:1[3-8]|[2-6]1)\)? 496 0\d{3})$`)
	inward := regexp.MustCompile(`(?i)\d[a-z]*[CIKMOV][a-z]*$`)
	for _, row := range rows[1:] {
		for _, d := range domain.FindAllString(row[3], -1) {
			if !strings.HasSuffix(strings.ToLower(d), ".example") {
				t.Errorf("%s: e-mail domain %s could be real", row[0], d)
			}
		}
		if !phone.MatchString(row[4]) {
			t.Errorf("%s: phone number %s could be real", row[0], row[4])
		}
		for _, code := range []string{row[7], row[10]} {
			if code != "" && !inward.MatchString(code) {
				t.Errorf("%s: postcode %s could be real", row[0], code)
			}
		}
	}
}

func TestReadmeNamesEveryShippedFile(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "README.md" || strings.HasSuffix(path, ".go") {
			return err
		}
		for _, folder := range []string{"quickstart/", "sources/"} {
			if strings.HasPrefix(path, folder) {
				path = folder
			}
		}
		if !strings.Contains(string(readme), "`"+path+"`") {
			t.Errorf("README.md does not name %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// .ci/promql checks the labels and the syntax, with Prometheus' own parsers.
func TestRulesAndDashboardNameMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("prometheus/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+)").FindAllStringSubmatch(string(table), -1) {
		shown[m[1]] = true
		if m[2] == "histogram" {
			shown[m[1]+"_bucket"], shown[m[1]+"_count"], shown[m[1]+"_sum"] = true, true, true
		}
	}
	for _, file := range []string{"prometheus/payersync.rules.yaml", "grafana/payersync.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bpayersync_\w+`).FindAllString(string(text), -1)
		for _, name := range names {
			if !shown[name] {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		if len(names) < 25 {
			t.Errorf("%s: %d metrics were looked at", file, len(names))
		}
	}
}
