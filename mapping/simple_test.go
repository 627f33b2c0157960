package mapping

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/mapping/strict"
)

func TestSimpleRulesAreReadAndWrittenBack(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]Simple{
		`Name`:                             {Kind: Column, Parts: []string{"Name"}},
		`trim(field("Post Code"))`:         {Kind: Column, Parts: []string{`trim(field("Post Code"))`}},
		`PrimaryEmailAddr.Address`:         {Kind: Column, Parts: []string{"PrimaryEmailAddr.Address"}},
		`postcode(Zip)`:                    {Kind: Column, Parts: []string{"Zip"}, Form: "postcode(…)"},
		`lower(firstEmail(trim(Email)))`:   {Kind: Column, Parts: []string{"trim(Email)"}, Form: "lower(firstEmail(…))"},
		`phone(Tel, country(Land))`:        {Kind: Column, Parts: []string{"Tel"}, Form: "phone(…, country(Land))"},
		`coalesce(trim(A), trim(B))`:       {Kind: First, Parts: []string{"trim(A)", "trim(B)"}},
		`phone(coalesce(Tel, Mobile))`:     {Kind: First, Parts: []string{"Tel", "Mobile"}, Form: "phone(…)"},
		`coalesce(join([A, B], " "), C)`:   {Kind: First, Parts: []string{`join([A, B], " ")`, "C"}},
		`coalesce(trim(Language), "en")`:   {Kind: First, Parts: []string{"trim(Language)", `"en"`}},
		`join([trim(A), B], ", ")`:         {Kind: Joined, Parts: []string{"trim(A)", "B"}, Sign: ", "},
		`A == "x" ? trim(B) : ""`:          {Kind: OnlyIf, Parts: []string{"trim(B)"}, If: "A", Equals: "x"},
		`not isBlank(A) ? B : ""`:          {Kind: OnlyIf, Parts: []string{"B"}, If: "A"},
		`"Cash \"customer\""`:              {Kind: Fixed, Text: `Cash "customer"`},
		`A + B`:                            {Kind: ByHand},
		`A != "" ? B : ""`:                 {Kind: ByHand}, // a blank of spaces is another case
		`A == "x" ? B : C`:                 {Kind: ByHand},
		`A == B ? C : ""`:                  {Kind: ByHand},
		`join(split(A, "\n"), ", ")`:       {Kind: ByHand},
		`join([A, B], Sign)`:               {Kind: ByHand},
		`address(Addresses, "POBOX").City`: {Kind: ByHand},
		`not isBlank() ? B : ""`:           {Kind: ByHand},
		`trim(`:                            {Kind: ByHand},
		``:                                 {Kind: ByHand},
	} {
		got := ReadSimple(expression)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", expression, diff)
		}
		if got.Kind != ByHand && got.Expression() != expression {
			t.Errorf("%s is written back as %s", expression, got.Expression())
		}
	}
}

func TestAPartIsAColumnOrAnotherExpression(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{
		"Name": "Name", "trim(Name)": "Name", `trim(field("Post Code"))`: `field("Post Code")`, "A.B": "A.B",
		"trim(A.B)": "A.B",
		"trim(A).B": "", "lower(A)": "", `"en"`: "", "": "", "A[0]": "", `field(A)`: "",
	} {
		if got := ColumnOf(part); got != want {
			t.Errorf("the column of %q is %q, want %q", part, got, want)
		}
	}
}

func TestAFieldOffersTheFormsThatFitIt(t *testing.T) {
	t.Parallel()
	for region, want := range map[string][]string{
		"":             {"phone(…)"},
		"region: NL\n": {`phone(…, default(country(Land), "NL"))`, "phone(…)"},
	} {
		fields, err := CustomerFields([]byte("version: 1\nsource: csv\n" + region +
			"key: {no: No}\ncustomer:\n  name: Name\n  addresses: [{country: country(Land)}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fields {
			switch f.Path {
			case "customer.people[0].phone":
				if diff := cmp.Diff(want, f.Forms); diff != "" {
					t.Errorf("with %q:\n%s", region, diff)
				}
			case "customer.name":
				if f.Forms != nil || !f.Required {
					t.Errorf("the name has %q", f.Forms)
				}
			}
		}
	}
}

// mappingFiles returns the shipped mappings and proposed ones, as files of Linux and of Windows.
func mappingFiles(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, pattern := range []string{"../configs/mappings/*.yaml", "../configs/quickstart/mapping.yaml",
		"propose/testdata/*.golden"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for i, name := range found {
			if i%20 != 0 && strings.HasSuffix(name, ".golden") {
				continue // the others are alike
			}
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if begin := bytes.Index(data, []byte("\n# How a row")); strings.HasSuffix(name, ".golden") {
				end := bytes.LastIndex(data, []byte("\n\n"))
				if begin < 0 || end < begin {
					continue // nothing was proposed
				}
				data = data[begin+1 : end+1]
			}
			if CheckForm(name, data) != nil {
				continue
			}
			out[name] = data
			out[name+" of Windows"] = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
		}
	}
	return out
}

func TestARuleThatIsSavedWithoutAChangeChangesNoByte(t *testing.T) {
	t.Parallel()
	simple := 0
	for name, data := range mappingFiles(t) {
		fields, err := CustomerFields(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, f := range fields {
			got, err := SetRule(data, f.Path, f.Rule)
			if f.Rule.Kind == ByHand {
				if !errors.Is(err, ErrNotSimple) {
					t.Errorf("%s: %s by hand: %v", name, f.Path, err)
				}
				continue
			}
			simple++
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %s changed (%v)", name, f.Path, err)
			}
		}
	}
	if simple < 150 {
		t.Errorf("only %d rules were tried", simple)
	}
}

// differing returns the part of a text that is replaced in another one, and the number of the line where it begins.
func differing(before, after []byte) (part string, line int) {
	from := 0
	for from < min(len(before), len(after)) && before[from] == after[from] {
		from++
	}
	end := len(before)
	for to := len(after); end > from && to > from && before[end-1] == after[to-1]; to-- {
		end--
	}
	return string(before[from:end]), 1 + bytes.Count(before[:from], []byte("\n"))
}

func TestAChangedRuleChangesItsLineAlone(t *testing.T) {
	t.Parallel()
	rules := []Simple{
		{Kind: First, Parts: []string{"trim(A)", `trim(field("B b"))`}},
		{Kind: Joined, Parts: []string{"A", "B"}, Sign: ": "},
		{Kind: OnlyIf, Parts: []string{"trim(A)"}, If: "trim(B)", Equals: "it's"},
		{Kind: Fixed, Text: `# "all"`},
		{Kind: Column, Parts: []string{"Tel"}, Form: "phone(…)"},
	}
	for name, data := range mappingFiles(t) {
		fields, err := CustomerFields(data)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range fields {
			if f.Rule.Kind == ByHand {
				continue
			}
			rule := rules[i%len(rules)]
			got, err := SetRule(data, f.Path, rule)
			if err != nil {
				t.Errorf("%s: %s: %v", name, f.Path, err)
				continue
			}
			after, err := CustomerFields(got)
			if err != nil {
				t.Errorf("%s: %s: %v in\n%s", name, f.Path, err, got)
				continue
			}
			for j, a := range after { // new blocks have more fields
				if at := slices.IndexFunc(fields, func(b CustomerField) bool { return b.Path == a.Path }); a.Path != f.Path &&
					(at < 0 || fields[at].Text != a.Text) {
					t.Errorf("%s: %s changed %s", name, f.Path, a.Path)
				} else if a.Path == f.Path && cmp.Diff(rule, after[j].Rule) != "" {
					t.Errorf("%s: %s is %q", name, f.Path, a.Text)
				}
			}
			if part, line := differing(data, got); f.Line == 0 && part != "" || f.Line > 0 &&
				(line != f.Line || !strings.Contains(f.Text, strings.Trim(part, "'")) && !strings.Contains(part, "''")) {
				t.Errorf("%s: %s replaces %q in line %d", name, f.Path, part, line)
			}
			if back, err := SetRule(got, f.Path, f.Rule); err == nil && f.Rule.Kind != NoRule && f.Rule.Expression() == f.Text &&
				!bytes.Equal(back, data) {
				t.Errorf("%s: %s is not as before:\n%s", name, f.Path, cmp.Diff(string(data), string(back)))
			}
		}
	}
}

func TestARuleIsAddedAndRemoved(t *testing.T) {
	t.Parallel()
	data := []byte("version: 1\nsource: csv\nkey: {no: No}\ncustomer:\n  name: Name # who\n")
	steps := []struct {
		path string
		rule Simple
		text string
	}{
		{"customer.people[0].email", Simple{Kind: Column, Parts: []string{"Mail"}}, "  people:\n    - email: Mail\n"},
		{"customer.people[0].phone", Simple{Kind: Column, Parts: []string{"Tel"}}, "    - email: Mail\n      phone: Tel\n"},
		{"customer.people[0].email", Simple{}, "    - phone: Tel\n"},
		{"customer.addresses[0].city", Simple{Kind: Fixed, Text: "York"}, "  addresses:\n    - city: '\"York\"'\n"},
		{"mandate.language", Simple{Kind: Fixed, Text: "en"}, "mandate:\n  language: '\"en\"'\n"},
	}
	for _, s := range steps {
		got, err := SetRule(data, s.path, s.rule)
		if err != nil || !strings.HasSuffix(string(got), s.text) {
			t.Fatalf("%s: %v\n%s", s.path, err, got)
		}
		data = got
	}
	for path, rule := range map[string]Simple{
		"customer.name":            {},
		"customer.nickname":        {Kind: Fixed, Text: "x"},
		"customer.people[0].phone": {Kind: First, Parts: []string{"A), foo(B"}},
		"key.no":                   {Kind: ByHand},
		"mandate.to":               {Kind: OnlyIf, Parts: []string{"A"}},
	} {
		if got, err := SetRule(data, path, rule); !errors.Is(err, ErrNotSimple) && !errors.Is(err, strict.ErrNoPlace) {
			t.Errorf("%s: %v\n%s", path, err, got)
		}
	}
}

// An expression that is read as a simple rule is written as the same expression.
func FuzzReadSimple(f *testing.F) {
	for _, e := range []string{`trim(Name)`, `phone(coalesce(A, B), "GB")`, `join([A, B], " ")`, `A == "x" ? B : ""`,
		`"Cash"`, `not isBlank(A) ? B : ""`, `(A + B) * C == "…" ? D : ""`} {
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		s := ReadSimple(expression)
		if s.Kind == ByHand {
			return
		}
		if again := ReadSimple(s.Expression()); cmp.Diff(s, again) != "" || !s.isSame() {
			t.Errorf("%s is %+v, and written %s it is %+v", expression, s, s.Expression(), again)
		}
	})
}
