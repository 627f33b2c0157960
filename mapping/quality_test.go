package mapping

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"payersync/connector"
)

// messyMapping reads testdata/messy.csv, sixty customers in three languages.
const messyMapping = `version: 1
source: csv
key: {customerNo: Kundennr}
include: isBlank(Saldo) or number(Saldo, ",") >= 0 or true
customer:
  name: Firma
  people:
    - name: Vorname + " " + Nachname
      email: firstEmail(field("E-Mail"))
      phone: phone(Telefon)
  addresses:
    - line1: Straße
      city: Ort
      postCode: postcode(PLZ)
      country: country(Land)
externalData:
  since: date(Seit, "D.M.YYYY")
`

func messy(t testing.TB) (connector.SourceInfo, []connector.Record) {
	t.Helper()
	file, err := os.Open("testdata/messy.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader := csv.NewReader(file)
	reader.Comma = ';'
	rows, err := reader.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []connector.Record
	for _, row := range rows[1:] {
		values := map[string]string{}
		for i, cell := range row {
			values[rows[0][i]] = cell
		}
		data, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, connector.Record{SourceID: row[0], State: connector.RecordActive, Data: data})
	}
	return connector.SourceInfo{Kind: "csv", Fields: textFields(rows[0]...)}, out
}

func messyReport(t testing.TB, mapping string) CoverageReport {
	t.Helper()
	src, records := messy(t)
	m, err := Load("mapping.yaml", []byte(mapping), src)
	if err != nil {
		t.Fatalf("Load:\n%v", err)
	}
	c := m.NewCoverage()
	for _, r := range records {
		c.Add(r)
	}
	return c.Report()
}

func TestCoverageTellsWhatWasNotUnderstood(t *testing.T) {
	t.Parallel()
	report := messyReport(t, messyMapping)
	var got strings.Builder
	fmt.Fprintf(&got, "%d records, %d failed\n", report.Records, report.Failed)
	for _, m := range report.Misread {
		fmt.Fprintf(&got, "\n%s (line %d), %s: %d not understood, %d others\n  %s\n", m.Path, m.Line, m.Function, m.Count,
			m.Others, m.Cure)
		for _, v := range m.Values {
			fmt.Fprintf(&got, "  %q ×%d %s\n", v.Value, v.Count, strings.Join(v.CouldBe, " or "))
		}
	}
	for _, s := range report.Shared {
		fmt.Fprintf(&got, "\n%s: %d values of %d records\n", s.Field, s.Values, s.Records)
		for _, v := range s.Largest {
			fmt.Fprintf(&got, "  %q ×%d: %s\n", v.Value, v.Count, strings.Join(v.SourceIDs, " "))
		}
	}
	checkGolden(t, "testdata/messy.golden", got.String())
}

func TestARegionMakesNationalNumbersUnderstood(t *testing.T) {
	t.Parallel()
	without := misreadOf(messyReport(t, messyMapping), WithoutRegion)
	with := misreadOf(messyReport(t, "region: DE\n"+messyMapping), WithoutRegion)
	if without == 0 || with != 0 {
		t.Errorf("%d numbers lack a region, and %d where the mapping names one", without, with)
	}
}

func misreadOf(r CoverageReport, function string) (n int) {
	for _, m := range r.Misread {
		if m.Function == function {
			n += m.Count
		}
	}
	return n
}

func TestWhatIsRememberedOfRecordsIsBounded(t *testing.T) {
	src, records := messy(t)
	m, err := Load("mapping.yaml", []byte(messyMapping), src)
	if err != nil {
		t.Fatal(err)
	}
	c := m.NewCoverage()
	before := heap()
	const many = 20_000
	for i := range many {
		data := fmt.Sprintf(`{"Kundennr": "%[1]d", "Firma": "Firm %[1]d", "E-Mail": "no. %[1]d %[2]s", "Land": "Land %[1]d", "Telefon": "%[1]d"}`, i, strings.Repeat("x", 1000))
		c.Add(connector.Record{SourceID: fmt.Sprint(i), State: connector.RecordActive, Data: []byte(data)})
	}
	if grown := heap() - before; grown > 10<<20 {
		t.Errorf("%d records with nothing in common take %d bytes", many, grown)
	}
	for _, misread := range c.Report().Misread {
		sum := misread.Others
		for _, v := range misread.Values {
			sum += v.Count
		}
		if misread.Count != many || sum != many || len(misread.Values) != maxShownValues {
			t.Errorf("%s: %d not understood, of which %d are told in %d values", misread.Function, misread.Count, sum,
				len(misread.Values))
		}
	}
	runtime.KeepAlive(records)
	runtime.KeepAlive(c)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestOnlySoManyNamesAreCompared(t *testing.T) {
	t.Parallel()
	s := newSharing()
	for i := range maxCompared {
		s.first[uint64(i)] = sharer{"", 1}
	}
	s.add("a", "Acme")
	s.add("b", "Acme")
	if got := s.report("name"); !got.Partial || got.Values != 0 {
		t.Errorf("the report is %+v, want one that says it is partial", got)
	}
}

func TestARecordsTwoContactsShareNothing(t *testing.T) {
	t.Parallel()
	c := (&Mapping{}).NewCoverage()
	two := connector.Customer{People: []connector.Person{{Email: "a@b.example"}, {Email: "A@b.example"}}}
	c.share("1", two)
	c.share("2", two)
	want := Shared{Field: "email", Values: 1, Records: 2,
		Largest: []SharedValue{{Value: "a@b.example", Count: 2, SourceIDs: []string{"1", "2"}}}}
	if diff := cmp.Diff(want, c.emails.report("email")); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

func TestCountriesAreKnownInTheLanguagesOfTheirNeighbours(t *testing.T) {
	t.Parallel()
	for _, tag := range []language.Tag{language.English, language.German, language.French, language.Italian,
		language.Spanish, language.Dutch} {
		for _, r := range isoRegions() {
			name := display.Regions(tag).Name(r)
			if got := country(name); got != r.String() && (got != strings.TrimSpace(name) || len(couldBe(name)) == 0) {
				t.Errorf("country(%q) = %q in %s, want %s", name, got, tag, r)
			}
		}
	}
	for name, want := range map[string]string{
		"D": "DE", "a": "AT", "F.": "FR", "CDN": "CA", "SLO": "SI", "Frankreich": "FR", "Allemagne": "DE",
		"Paesi Bassi": "NL", "Reino Unido": "GB",
		"Oostenrijk": "AT", "Großbritannien": "GB", "Grossbritannien": "GB", "Angleterre": "GB", "Olanda": "NL",
		"EE. UU.": "US", "BRD": "DE",
		"CH": "CH", "ROU": "RO", "BRN": "BN", "FL": "FL", "D-80331": "D-80331", "A1": "A1", "Kongo": "Kongo",
		"Korea": "Korea",
	} {
		if got := country(name); got != want {
			t.Errorf("country(%q) = %q, want %s", name, got, want)
		}
	}
	if code, understood := readCountry("#N/A"); code != "NA" || understood {
		t.Errorf("#N/A gives %q as ever, understood: %v; want a doubt", code, understood)
	}
	if got := couldBe("Kongo"); !slices.Equal(got, []string{"CD", "CG"}) {
		t.Errorf("Kongo could be %v", got)
	}
}

func TestNoLettersOnCarsAreTheCodeOfAnotherCountry(t *testing.T) {
	t.Parallel()
	for letters, code := range carLetters {
		if got := country(letters); got != code || len(letters) == 2 {
			t.Errorf("country(%q) = %q, want %s", letters, got, code)
		}
		for _, r := range isoRegions() {
			if r.ISO3() == letters && r.String() != code {
				t.Errorf("%s is the code of %s, so the letters on the cars of %s are not known", letters, r, code)
			}
		}
	}
}
