package pages_test

import (
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payersync/connector/pages"
)

var (
	benchPayers = flag.Int("bench-payers", 2000, "how many payers BenchmarkPages has; the pages are meant for 100000")
	benchLedger = flag.String("bench-ledger", "",
		"folder of the ledger of BenchmarkPages: filled where it is empty, and used as it is where it is not")
)

// benchHouse returns a house with a crowd, in the folder of -bench-ledger where there is one.
// Filling it takes minutes for 100,000 payers. The model of the service forgets them.
func benchHouse(b *testing.B) *house {
	b.Helper()
	if *benchLedger == "" {
		h, _ := newPost(b)
		h.crowd(*benchPayers)
		return h
	}
	filled := filepath.Join(*benchLedger, "filled")
	_, err := os.Stat(filled)
	h, _ := newPostIn(b, *benchLedger)
	if err != nil {
		h.crowd(*benchPayers)
		h.write(filled, "")
	}
	return h
}

// crowd makes the books as many customers, of whom some sign and some mandates become active.
func (h *house) crowd(payers int) {
	h.t.Helper()
	books := strings.Builder{}
	books.WriteString("AccountNumber,Name,Contact,Email,Phone,Address,City,Postcode,Second Address,Second City,Second Postcode,Status,Language\n")
	for n := 1; n <= payers; n++ {
		email := fmt.Sprintf("accounts%d@bakery%d.io", n, n)
		if n%50 == 0 {
			email = "none" // somebody must look
		}
		fmt.Fprintf(&books, "HB%03d,Bakery %d Limited,Ada Crumb,%s,,%d High Street,Leeds,LS1 1AA,,,,Active,en\n", n, n, email,
			n)
	}
	h.books([]byte(books.String()))
	h.syncer.Settings.Workers = 8
	h.run(true)
	for i, c := range h.box.Customers() {
		if len(c.Mandates) == 0 || i%3 == 0 {
			continue
		}
		err := h.box.Sign(c.Mandates[0].ID)
		if err == nil && i%3 == 1 {
			err = h.box.Approve(c.Mandates[0].ID)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
	h.sweep()
	h.run(false)
}

// BenchmarkPages requests each page with all permissions, over a ledger filled by runs, with letters to all
// unsigned payers. It reports the time of the first answer, which may start a count or unseal the names, the
// 95th percentile of the others, and their size. The baseline is a page that reads only the signed-in user
// from the ledger.
func BenchmarkPages(b *testing.B) {
	h := benchHouse(b)
	cookie := cookieOf(b, h.ledger, h.pages, pages.Admin, nil)
	for {
		if _, err := h.standings.Latest(b.Context()); err == nil {
			break
		}
	}
	paths := append([]string{"/none"}, readPaths()...)
	timed := func(name string, answer func() (status, size int)) {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			size := 0
			for b.Loop() {
				began := time.Now()
				status, n := answer()
				if took = append(took, time.Since(began)); status >= http.StatusInternalServerError {
					b.Fatalf("it was answered %d", status)
				}
				size = n
			}
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(ms(took[0]), "first-ms")
			if took = took[1:]; len(took) > 0 {
				slices.Sort(took)
				b.ReportMetric(ms(took[(len(took)*19+19)/20-1]), "p95-ms")
			}
			b.ReportMetric(float64(size)/1000, "kB")
		})
	}
	for _, path := range paths {
		timed("GET "+path, func() (int, int) {
			w := request{method: http.MethodGet, path: path, cookie: cookie}.to(b, h.pages)
			return w.Code, w.Body.Len()
		})
	}
	for _, words := range []string{fmt.Sprintf("bakery %d", *benchPayers-1), "limited"} {
		timed("search for "+strings.ReplaceAll(words, " ", "_"), func() (int, int) {
			w := request{method: http.MethodPost, path: "/payers", site: "same-origin", cookie: cookie, form: "text=" +
				strings.ReplaceAll(words, " ", "+")}.to(b, h.pages)
			if w.Code != http.StatusSeeOther {
				b.Fatalf("the search was answered %d", w.Code)
			}
			w = request{method: http.MethodGet, path: w.Header().Get("Location"), cookie: cookie}.to(b, h.pages)
			return w.Code, w.Body.Len()
		})
	}
}

// readPaths are the addresses of all pages, the short ones first.
func readPaths() (paths []string) {
	for pattern, row := range access {
		if strings.HasPrefix(pattern, "GET ") && !row.file {
			paths = append(paths, row.path)
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return paths
}

// BenchmarkPeople lets ten people open every page and search, all at once. It reports the peak of additional
// memory, and the part kept after they are gone.
func BenchmarkPeople(b *testing.B) {
	h := benchHouse(b)
	if err := h.ledger.WaitForIntegrity(b.Context()); err != nil {
		b.Fatal(err)
	}
	memory := func() int64 { // of the process, in bytes; 0 where nothing tells
		text, _ := os.ReadFile("/proc/self/statm")
		var size, resident int64
		_, _ = fmt.Sscan(string(text), &size, &resident)
		return resident * int64(os.Getpagesize())
	}
	debug.FreeOSMemory()
	before, paths := memory(), readPaths()
	var most atomic.Int64
	for b.Loop() {
		var people sync.WaitGroup
		for range 10 {
			cookie := cookieOf(b, h.ledger, h.pages, pages.Admin, nil)
			people.Go(func() {
				for _, path := range paths {
					request{method: http.MethodGet, path: path, cookie: cookie}.to(b, h.pages)
					w := request{method: http.MethodPost, path: "/payers", site: "same-origin", cookie: cookie,
						form: "text=limited"}.to(b, h.pages)
					request{method: http.MethodGet, path: w.Header().Get("Location"), cookie: cookie}.to(b, h.pages)
					now := memory()
					for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
					}
				}
			})
		}
		people.Wait()
	}
	b.ReportMetric(float64(most.Load()-before)/1e6, "most-MB")
	debug.FreeOSMemory()
	b.ReportMetric(float64(memory()-before)/1e6, "kept-MB")
}
