package httpsource_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/transport"
)

// benchContacts is the length of the list of BenchmarkReadOfAVeryLongList. PAYERSYNC_BENCH_RECORDS lowers it for a mere
// check that the benchmark runs.
func benchContacts() int {
	if n, err := strconv.Atoi(os.Getenv("PAYERSYNC_BENCH_RECORDS")); err == nil && n > 0 {
		return n
	}
	return 200_000
}

// longList is FreeAgent with so many contacts. It makes each page when somebody asks for it, and keeps none.
type longList int

// RoundTrip answers the requests for the company and for pages of contacts.
func (n longList) RoundTrip(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}, "X-Total-Count": {strconv.Itoa(int(n))}}
	answer := func(body string) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(body)),
			Request: r}, nil
	}
	if strings.HasSuffix(r.URL.Path, "/company") {
		return answer(`{"company": {"subdomain": "northwind", "name": "Northwind Books"}}`)
	}
	size, err1 := strconv.Atoi(r.URL.Query().Get("per_page"))
	page, err2 := strconv.Atoi(r.URL.Query().Get("page"))
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("no page is asked for: %s", r.URL.Path)
	}
	var rows []string
	for i := (page - 1) * size; i < min(page*size, int(n)); i++ {
		rows = append(rows, fmt.Sprintf(`{"url": "https://api.freeagent.com/v2/contacts/%d",
			"organisation_name": "Customer %d Ltd", "email": "accounts%d@customer.example", "address1": "%d Quay St",
			"town": "Leeds", "postcode": "LS1 4AP", "country": "United Kingdom", "status": "Active",
			"created_at": "2026-01-02T03:04:05.000Z", "updated_at": "2026-02-03T04:05:06.000Z"}`, i+1, i, i, i))
	}
	if page*size < int(n) {
		header.Set("Link", fmt.Sprintf(`<https://api.freeagent.com/v2/contacts?page=%d>; rel="next"`, page+1))
	}
	return answer(`{"contacts": [` + strings.Join(rows, ",") + `]}`)
}

// BenchmarkReadOfAVeryLongList reads a whole list by a profile. It reports the memory in use beside that at the begin,
// measured at every hundredth page.
func BenchmarkReadOfAVeryLongList(b *testing.B) {
	n := benchContacts()
	for _, p := range shipped(b) {
		if p.Name() != "freeagent" {
			continue
		}
		limiter := &accountingtest.Limiter{}
		s, err := httpsource.New(p, p.SampleConfig(), httpsource.Dependencies{
			HTTP:  transport.New(transport.Options{Base: longList(n), Retries: -1}),
			Token: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"}), Limiter: limiter, Now: time.Now})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			start, began, most, met, pages := time.Now(), heapInUse(), uint64(0), 0, 0
			for page, err := range s.Customers(b.Context(), time.Time{}) {
				if err != nil {
					b.Fatal(err)
				}
				met += len(page.Records)
				if pages++; pages%100 == 0 {
					most = max(most, heapInUse())
				}
			}
			if met != n {
				b.Fatalf("%d records of %d", met, n)
			}
			b.ReportMetric(float64(max(most, began)-began)/(1<<20), "MiB")
			b.ReportMetric(float64(time.Since(start).Microseconds())/float64(n), "us/record")
		}
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
