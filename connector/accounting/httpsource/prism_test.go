package httpsource_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v4"
	"golang.org/x/oauth2"

	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/transport"
)

// described is a profile whose vendor describes the API.
type described struct {
	profile, file string
	settings      map[string]string
	customers     int               // more than on a page
	whole         bool              // the model of the profile knows no read since a time with these settings
	record        string            // the schema of a record
	joined        map[string]string // the schemas of rows of further lists, by the field that they become
	wrong         string            // a pair of a list's query that Prism must refuse

	// known has what a request or a field has and the description has not, with the reason: "path …" for a missing path,
	// "query …" for a missing parameter, "field …" for a missing field, and "refused …" for what Prism refuses.
	known map[string]string
}

var descriptions = []described{
	{profile: "xero-http", file: "xero_accounting.yaml", record: "Contact", customers: 505, wrong: "page=first",
		known: map[string]string{"path /connections": otherFile}},
	{profile: "xero-http", file: "xero_accounting.yaml", record: "Contact", customers: 505, wrong: "page=first",
		settings: map[string]string{"only_customers": "true"}, whole: true,
		known: map[string]string{"path /connections": otherFile}},
	{profile: "xero-http", file: "xero_accounting.yaml", record: "Contact", customers: 505, wrong: "page=first",
		settings: map[string]string{"custom_connection": "true"},
		known: map[string]string{
			"refused Request header must have required property 'xero-tenant-id'": "it is blank, as Xero wants it here, and " +
				"Prism takes that for none",
		}},
	{profile: "fortnox", file: "openapi/fortnox.yaml", record: "fortnox_Customer", customers: 105, wrong: "sortby=city",
		known: map[string]string{
			"path /3/companyinformation": cut,
			"query page":                 "the description has no pages; recorded answers have them, in MetaInformation",
			"query limit":                "as page",
		}},
	{profile: "invoice-ninja", file: "openapi/invoice-ninja.yaml", record: "Client", customers: 105,
		wrong: "updated_at=yesterday", settings: map[string]string{"url": "https://invoicing.co"},
		known: map[string]string{
			"path /api/v1/companies": cut,
			"query page":             "only the schema of the answer has pages, in meta.pagination",
			"query per_page":         "as page",
			"field display_name":     "the vendor's source writes it",
			"field archived_at":      "the vendor's source writes it",
			"field country_id":       "the vendor's source writes a text; digits would become their text",
		}},
	{profile: "moneybird", file: "openapi/moneybird.yaml", record: "contact_response", customers: 105,
		wrong: "per_page=all"},
	{profile: "sage-accounting", file: "openapi/sage-accounting.yaml", record: "Contact", customers: 205,
		wrong: "items_per_page=201", known: map[string]string{"path /v3.1/businesses": cut}},
	{profile: "sevdesk", file: "openapi/sevdesk.yaml", record: "Model_ContactResponse", customers: 105, wrong: "depth=2",
		joined: map[string]string{"addresses": "Model_ContactAddressResponse", "ways": "Model_CommunicationWayResponse"},
		known: map[string]string{
			"query limit":                 "the introduction of the description names it, which is cut",
			"query offset":                "as limit",
			"query countAll":              "as limit",
			"field addresses":             "a list of its own, which payersync joins",
			"field ways":                  "a list of its own, which payersync joins",
			"field addresses.id":          recordedText,
			"field addresses.country.id":  recordedText,
			"field addresses.category.id": recordedText,
		}},
}

const (
	cut          = "the file is cut to customers"
	otherFile    = "another file of the vendor describes it"
	recordedText = "recorded answers have texts"
)

// vendorFile returns the path of a vendor's description. They are not part of the repository: without them the test is
// skipped, unless VENDOR_SPECS says that they are there.
func vendorFile(t *testing.T, name string) string {
	t.Helper()
	folder, promised := os.LookupEnv("VENDOR_SPECS")
	path, err := filepath.Abs(filepath.Join(cmp.Or(folder, "../../../../shared/specs"), name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); os.IsNotExist(err) && !promised {
		t.Skipf("there is no %s: vendors' descriptions are not part of the repository; set VENDOR_SPECS to their folder",
			path)
	}
	return path
}

// description reads a vendor's description, of OpenAPI 3 or Swagger 2.
func description(t *testing.T, path string) *openapi3.T {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var value map[string]any
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(path, err)
	}
	if value["swagger"] != nil {
		var old openapi2.T
		raw, err := json.Marshal(value)
		if err := cmp.Or(err, json.Unmarshal(raw, &old)); err != nil {
			t.Fatal(path, err)
		}
		spec, err := openapi2conv.ToV3(&old)
		if err != nil {
			t.Fatal(path, err)
		}
		return spec
	}
	spec, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(path, err)
	}
	return spec
}

// judge sends each request to Prism as well, and lets the model of the profile's system answer. Prism's own answers
// are examples, which lead to no second page.
type judge struct {
	t       *testing.T
	spec    *openapi3.T
	prism   string
	fake    *httpsource.Fake
	known   map[string]string
	met     map[string]bool // what does not fit
	last    *http.Request   // that has a query
	through map[string]int  // judged requests, by the path of the description
}

// RoundTrip answers a request after Prism's judgement.
func (j *judge) RoundTrip(r *http.Request) (*http.Response, error) {
	j.judge(r)
	return j.fake.RoundTrip(r)
}

// found reports something that does not fit the description, unless it is known.
func (j *judge) found(what, why string) {
	if _, known := j.known[what]; !known && !j.met[what] {
		j.t.Errorf("%s: %s", what, why)
	}
	j.met[what] = true
}

func (j *judge) judge(r *http.Request) {
	path, below := j.below(r.URL)
	template, item := j.pathOf(path)
	if !below || item == nil || item.GetOperation(r.Method) == nil {
		j.found("path "+r.URL.Path, "the description has no "+r.Method+" of it")
		return
	}
	for _, refusal := range j.refusals(r, path) {
		j.found("refused "+refusal, path+"?"+r.URL.RawQuery)
	}
	if r.URL.RawQuery != "" {
		j.last = r
	}
	j.through[template]++
	names := map[string]bool{} // Prism accepts any further parameter
	for _, p := range slices.Concat(item.Parameters, item.GetOperation(r.Method).Parameters) {
		names[p.Value.In+" "+p.Value.Name] = true
	}
	for name := range r.URL.Query() {
		if !names["query "+name] {
			j.found("query "+name, template+" has no such parameter")
		}
	}
}

// refusals asks Prism for what is wrong with a request.
func (j *judge) refusals(r *http.Request, path string) (out []string) {
	u, err := url.Parse(j.prism + path)
	if err != nil {
		j.t.Fatal(err)
	}
	u.RawQuery = r.URL.RawQuery
	asked := r.Clone(r.Context())
	asked.URL, asked.Host = u, ""
	resp, err := http.DefaultTransport.RoundTrip(asked)
	if err != nil {
		return []string{err.Error()}
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var refusal struct {
		Detail     string
		Validation []struct{ Message string }
	}
	err = json.NewDecoder(resp.Body).Decode(&refusal)
	if err != nil || len(refusal.Validation) == 0 { // an answer that the description has for a wrong request
		return []string{fmt.Sprintf("HTTP %d: %s%s", resp.StatusCode, refusal.Detail, resp.Header.Get("sl-violations"))}
	}
	for _, v := range refusal.Validation {
		out = append(out, v.Message)
	}
	return out
}

// expectRefusal fails unless Prism refuses a request with one wrong pair in its query.
func (j *judge) expectRefusal(wrong string) {
	j.t.Helper()
	name, value, _ := strings.Cut(wrong, "=")
	r := j.last.Clone(j.t.Context())
	query := r.URL.Query()
	query.Set(name, value)
	r.URL.RawQuery = query.Encode()
	path, _ := j.below(r.URL)
	for _, refusal := range j.refusals(r, path) {
		if _, known := j.known["refused "+refusal]; !known {
			return
		}
	}
	j.t.Errorf("Prism accepts %s?%s, so it judges nothing", path, query.Encode())
}

// compare finds each declared field in the description.
func (j *judge) compare(d described) {
	fields := shippedBy(j.t, d.profile).Fields()
	schema := func(name string) *openapi3.Schema {
		if j.spec.Components.Schemas[name] == nil {
			j.t.Fatalf("the description has no schema %s", name)
		}
		return j.spec.Components.Schemas[name].Value
	}
	for field, why := range accountingtest.Undescribed(fields, schema(d.record)) {
		if of, _, inner := strings.Cut(field, "."); !inner || d.joined[of] == "" {
			j.found("field "+field, why)
		}
	}
	for _, f := range fields {
		if name := d.joined[f.Name]; name != "" {
			for field, why := range accountingtest.Undescribed(f.Fields, schema(name)) {
				j.found("field "+f.Name+"."+field, why)
			}
		}
	}
}

// below returns the path of an address below one of the servers of the description.
func (j *judge) below(u *url.URL) (path string, found bool) {
	for _, server := range j.spec.Servers {
		base := strings.TrimSuffix(server.URL, "/")
		if path, found = strings.CutPrefix(u.Scheme+"://"+u.Host+u.EscapedPath(), base); found {
			return path, true
		}
	}
	return "", false
}

var hole = regexp.MustCompile(`\\\{[^}]*\\\}`)

// pathOf finds a path in the description; one without holes first.
func (j *judge) pathOf(path string) (template string, item *openapi3.PathItem) {
	templates := slices.SortedFunc(maps.Keys(j.spec.Paths.Map()), func(a, b string) int {
		return cmp.Compare(strings.Count(a, "{"), strings.Count(b, "{"))
	})
	for _, t := range templates {
		if regexp.MustCompile("^" + hole.ReplaceAllString(regexp.QuoteMeta(t), "[^/]*") + "$").MatchString(path) {
			return t, j.spec.Paths.Value(t)
		}
	}
	return "", nil
}

func TestVendorsDescriptionsAcceptTheRequestsOfProfiles(t *testing.T) {
	t.Parallel()
	var files []string
	for _, d := range descriptions {
		files = append(files, vendorFile(t, d.file))
	}
	addresses := startOracle(t, "prism.js", slices.Compact(slices.Clone(files))...)
	at := -1
	for i, d := range descriptions {
		if i == 0 || files[i] != files[i-1] {
			at++
		}
		prism := addresses[at]
		t.Run(fmt.Sprint(d.profile, d.settings), func(t *testing.T) {
			j := &judge{t: t, spec: description(t, files[i]), prism: prism, known: d.known, met: map[string]bool{},
				through: map[string]int{}}
			j.read(d)
			j.expectRefusal(d.wrong)
			j.compare(d)
			for what := range d.known {
				if !j.met[what] {
					t.Errorf("%s fits the description: leave it out of known", what)
				}
			}
			total := 0
			for _, n := range j.through {
				total += n
			}
			if total < 5 {
				t.Errorf("Prism judged only %d requests: %v", total, j.through)
			}
			t.Logf("Prism judged %d requests: %v", total, j.through)
		})
	}
}

// read reads a model of the system whole and since an hour, and sends the requests of a check.
func (j *judge) read(d described) {
	p := shippedBy(j.t, d.profile)
	c := p.SampleConfig()
	maps.Copy(c.Settings, d.settings)
	c.PageSize = 0 // as in production
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	var err error
	if j.fake, err = httpsource.NewFake(p, c, clock); err != nil {
		j.t.Fatal(err)
	}
	j.fake.Add(d.customers)
	s, err := httpsource.New(p, c, httpsource.Dependencies{
		HTTP:  transport.New(transport.Options{Base: j, Retries: -1, Now: clock}),
		Token: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"}), Limiter: &accountingtest.Limiter{}, Now: clock})
	if err != nil {
		j.t.Fatal(err)
	}
	times := []time.Time{{}, now.Add(-time.Hour)}
	if d.whole {
		times = times[:1]
	}
	for _, since := range times {
		if got, err := readAll(j.t.Context(), s, since); err != nil || len(got) != d.customers {
			j.t.Errorf("a read gives %d records, %v", len(got), err)
		}
	}
	s.Probe(j.t.Context()) // the model does not answer each of them
}
