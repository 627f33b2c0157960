package billing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
)

// pages is a service that answers the list with what page returns for a number;
// it counts how often each is asked for.
type pages struct {
	mu    sync.Mutex
	asked []int
	page  func(number int) (status int, body string)
}

func (p *pages) RoundTrip(r *http.Request) (*http.Response, error) {
	return behindToken(func(r *http.Request) (*http.Response, error) {
		number, err := strconv.Atoi(r.URL.Query().Get("Page"))
		p.mu.Lock()
		p.asked = append(p.asked, number)
		p.mu.Unlock()
		status, body := p.page(number)
		return respond(status, "application/json", body), err
	}).RoundTrip(r)
}

// ids renders a bare page of customers.
func ids(names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf(`{"id":%q,"name":"N"}`, name))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// readAll makes a pass and returns the ids and the error that ended it.
func readAll(ctx context.Context, client *billing.Client) (got []string, err error) {
	for customers, err := range client.Customers(ctx) {
		if err != nil {
			return got, err
		}
		for _, c := range customers {
			got = append(got, c.ID)
		}
	}
	return got, nil
}

// covers F18, F45, F46, S17
func TestListIsReadToItsEndOrNotAtAll(t *testing.T) {
	t.Parallel()
	of := func(all ...string) func(int) (int, string) { // one customer a page
		return func(n int) (int, string) {
			if n < 0 || n >= len(all) {
				return 200, "[]"
			}
			return 200, ids(all[n])
		}
	}
	fromOne := func(inner func(int) (int, string)) func(int) (int, string) {
		return func(n int) (int, string) { return inner(n - 1) }
	}
	tests := []struct {
		name    string
		page    func(int) (int, string)
		want    []string
		wantErr bool
	}{
		{"no customers", of(), nil, false},
		{"pages from 0", of("a", "b", "c"), []string{"a", "b", "c"}, false},
		{"pages from 1, page 0 empty", fromOne(of("a", "b")), []string{"a", "b"}, false},
		{"pages from 1, page 0 refused", func(n int) (int, string) {
			if n == 0 {
				return 400, `{}`
			}
			return fromOne(of("a", "b"))(n)
		}, []string{"a", "b"}, false},
		{"pages from 1, page 0 like page 1", func(n int) (int, string) { return fromOne(of("a", "b"))(max(n, 1)) },
			[]string{"a", "b"}, false},
		{"a short page in the middle", func(n int) (int, string) {
			return 200, []string{ids("a", "b"), ids("c"), ids("d", "e"), "[]"}[min(n, 3)]
		}, []string{"a", "b", "c", "d", "e"}, false},
		{"a customer moves to the next page", func(n int) (int, string) {
			return 200, []string{ids("a", "b"), ids("b", "c"), ids("c"), ids("d"), "[]"}[min(n, 4)]
		}, []string{"a", "b", "c", "d"}, false},
		{"page ignored", func(int) (int, string) { return 200, ids("a", "b") }, []string{"a", "b"}, true},
		{"last page for ever", func(n int) (int, string) { return of("a", "b")(min(n, 1)) }, []string{"a", "b"}, true},
		{"last page for ever, but counted", func(n int) (int, string) {
			return 200, fmt.Sprintf(`{"customers":%s,"page":{"totalElements":2}}`, ids([]string{"a", "b"}[min(n, 1)]))
		}, []string{"a", "b"}, false},
		{"beyond the end refused, but counted", func(n int) (int, string) {
			if n > 0 {
				return 404, `{}`
			}
			return 200, `{"items":` + ids("a", "b") + `,"totalElements":2}`
		}, []string{"a", "b"}, false},
		{"beyond the end refused", func(n int) (int, string) {
			if n > 0 {
				return 404, `{}`
			}
			return 200, ids("a", "b")
		}, []string{"a", "b"}, true},
		{"a page fails", func(n int) (int, string) {
			if n == 1 {
				return 500, ``
			}
			return of("a", "b", "c")(n)
		}, []string{"a"}, true},
		{"a customer without id", func(n int) (int, string) { return 200, `[{"name":"x"}]` }, nil, true},
		{"no list in it", func(n int) (int, string) { return 200, `{"status":"ok"}` }, nil, true},
		{"null", func(n int) (int, string) { return 200, `null` }, nil, true},
		{"page 0 forbidden", func(n int) (int, string) { return 403, `{}` }, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			service := &pages{page: tt.page}
			client := newClient(t, config(service))
			for pass := range 2 {
				got, err := readAll(t.Context(), client)
				if diff := cmp.Diff(tt.want, got); diff != "" || (err != nil) != tt.wantErr {
					t.Errorf("pass %d: error %v; customers (-want +got):\n%s", pass, err, diff)
				}
				if err != nil && connector.FaultOf(err) == "" {
					t.Errorf("error %v is no *connector.RemoteError", err)
				}
			}
			if n := len(service.asked); n > 40 {
				t.Errorf("%d pages were asked for", n)
			}
		})
	}
}

func TestEnvelopeIsTakenAtItsWord(t *testing.T) {
	t.Parallel()
	tests := []struct {
		envelope, body string
		ok             bool
	}{
		{"auto", ids("a"), true},
		{"auto", `{"results":` + ids("a") + `}`, true},
		{"auto", `{"payers":` + ids("a") + `}`, false},
		{"payers", `{"payers":` + ids("a") + `}`, true},
		{"payers", `{"customers":` + ids("a") + `}`, false},
		{"payers", ids("a"), false},
		{"array", ids("a"), true},
		{"array", `{"customers":` + ids("a") + `}`, false},
		{"auto", `{"customers":"none"}`, false},
		{"auto", `{"customers":null}`, true},
	}
	for _, tt := range tests {
		cfg := config(&pages{page: func(n int) (int, string) {
			if n > 0 {
				return 200, map[bool]string{true: "[]", false: `{"payers":[],"customers":[]}`}[strings.HasPrefix(tt.body, "[")]
			}
			return 200, tt.body
		}})
		cfg.Dialect.List.Envelope = tt.envelope
		if _, err := readAll(t.Context(), newClient(t, cfg)); (err == nil) != tt.ok {
			t.Errorf("envelope %s over %s: error %v", tt.envelope, tt.body, err)
		}
	}
}

// Full pages are fetched four ahead of the caller, in order, and a caller that
// stops leaves nothing running: the bubble would report it.
func TestPagesAreFetchedAheadAndInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var inFlight, most atomic.Int32
		service := &pages{page: func(n int) (int, string) {
			most.Store(max(most.Load(), inFlight.Add(1)))
			defer inFlight.Add(-1)
			time.Sleep(time.Second)
			if n >= 20 {
				return 200, "[]"
			}
			return 200, ids(fmt.Sprint("a", n), fmt.Sprint("b", n))
		}}
		cfg := config(service)
		cfg.Dialect.List.Size, cfg.Dialect.List.FirstPage = 2, "0"
		client := newClient(t, cfg)
		begin := time.Now()
		got, err := readAll(t.Context(), client)
		if err != nil || len(got) != 40 || got[0] != "a0" || got[39] != "b19" {
			t.Errorf("read %d customers, %v: %v", len(got), err, got)
		}
		if took := time.Since(begin); took > 8*time.Second || most.Load() != 5 {
			t.Errorf("20 pages took %v with up to %d at once", took, most.Load())
		}
		for range client.Customers(t.Context()) {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, err := range client.Customers(ctx) {
			cancel()
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled pass ended with %v", err)
			}
		}
	})
}

func TestSmallAccountCostsOneRequestMoreThanItsPages(t *testing.T) {
	t.Parallel()
	service := &pages{page: func(n int) (int, string) {
		if n > 0 {
			return 200, "[]"
		}
		return 200, ids("a", "b", "c")
	}}
	client := newClient(t, config(service))
	for range 2 {
		if _, err := readAll(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]int{0, 1, 0, 1}, service.asked); diff != "" {
		t.Errorf("pages asked for (-want +got):\n%s", diff)
	}
}

func TestSearchStopsAtAShortPageAndAtTheTenthFullOne(t *testing.T) {
	t.Parallel()
	for _, perPage := range []int{1, 2} {
		service := &pages{page: func(n int) (int, string) {
			return 200, ids([]string{fmt.Sprint("a", n), fmt.Sprint("b", n)}[:perPage]...)
		}}
		cfg := config(service)
		cfg.Dialect.List.Size = 2
		got, err := newClient(t, cfg).SearchCustomers(t.Context(), "north")
		want := map[int]int{1: 1, 2: 20}[perPage]
		if err != nil || len(got) != want {
			t.Errorf("%d a page: found %d, %v; want %d", perPage, len(got), err, want)
		}
	}
}

// covers F18
func TestSandboxThatIgnoresPagesIsNotBelieved(t *testing.T) {
	t.Parallel()
	switches := sandbox.Standard()
	switches.List.IgnorePage, switches.List.MaxSize = true, 2
	box, client := newSandbox(t, switches, billing.Standard())
	for i := range 5 {
		if _, err := box.Add([]byte(fmt.Sprintf(`{"name":"N%d"}`, i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readAll(t.Context(), client); err == nil {
		t.Error("a list without an end was read to its end")
	}
}

// A list many times larger than what may be held is read page by page: what was
// handed over is let go of. Not parallel: others would be counted with it.
//
// covers F19
func TestALargeListIsNotHeldInMemory(t *testing.T) {
	const listed, perPage, most = 60, 100, 32 << 20
	note := strings.Repeat("n", 10<<10) // a page of 100 is about a megabyte
	service := &pages{page: func(n int) (int, string) {
		if n >= listed {
			return 200, "[]"
		}
		var out strings.Builder
		for i := range perPage {
			fmt.Fprintf(&out, `,{"id":"c%d","name":"N","note":%q}`, n*perPage+i, note)
		}
		return 200, "[" + out.String()[1:] + "]"
	}}
	client := newClient(t, config(service))
	before, seen, peak := heap(), 0, uint64(0)
	for customers, err := range client.Customers(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if seen += len(customers); seen%(10*perPage) == 0 {
			peak = max(peak, heap())
		}
	}
	if seen != listed*perPage {
		t.Errorf("%d customers were read, want %d", seen, listed*perPage)
	}
	grown := int64(peak) - int64(before)
	t.Logf("%d MiB were listed, %d KiB were held", listed*perPage*len(note)>>20, grown>>10)
	if grown > most {
		t.Errorf("%d MiB were held while %d MiB were listed", grown>>20, listed*perPage*len(note)>>20)
	}
}

func TestAPageThatIsTooLargeNamesTheSizeOfPages(t *testing.T) {
	t.Parallel()
	client := newClient(t, config(&pages{page: func(int) (int, string) {
		return 200, `[{"id":"c1","name":"` + strings.Repeat("x", 9<<20) + `"}]`
	}}))
	var err error
	for _, e := range client.Customers(t.Context()) {
		err = e
	}
	if err == nil || !strings.Contains(err.Error(), "set billing.dialect.list.size to fewer than 100") {
		t.Errorf("the error does not name the setting: %v", err)
	}
}

// A page of many tiny things fits into the bytes of an answer, and must into
// memory. Not parallel: others would be counted with it.
//
// covers F19
func TestAPageOfTinyThingsIsNotHeldInMemory(t *testing.T) {
	tests := []struct {
		name, before, thing, after string
		things                     int
		refused                    []string
	}{
		{"customers", "[", `{"id":"c%d"}`, "]", 400_000,
			[]string{"400000 customers", "dialect.list.size asks for 100", "dialect.list.size_param"}},
		{"customers in an envelope", `{"items":[`, `{"id":"c%d"}`, "]}", 400_000, []string{"400000 customers"}},
		{"people of a customer", `[{"id":"c1","people":[`, `{"email":"p%d"}`, "]}]", 400_000, nil},
		{"addresses of nothing", `[{"id":"c1","addresses":[`, `%d`, "]}]", 1_000_000, nil},
	}
	const most = 80 << 20
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var list []byte
			for i := range tt.things {
				list = fmt.Appendf(append(list, ','), tt.thing, i)
			}
			body := tt.before + string(list[1:]) + tt.after
			empty := tt.before + tt.after
			if tt.refused == nil {
				empty = "[]"
			}
			client := newClient(t, config(&pages{page: func(n int) (int, string) {
				if n > 0 {
					return 200, empty
				}
				return 200, body
			}}))
			list = nil
			before := heap()
			peak, stop := watch()
			_, err := readAll(t.Context(), client)
			stop()
			grown := int64(*peak) - int64(before)
			t.Logf("a page of %d KiB took %d MiB: %v", len(body)>>10, grown>>20, err)
			if (err != nil) != (tt.refused != nil) {
				t.Errorf("error %v, want one: %t", err, tt.refused != nil)
			}
			for _, what := range tt.refused {
				if err == nil || !strings.Contains(err.Error(), what) {
					t.Errorf("the error is %v, want it to say %q", err, what)
				}
			}
			if grown > most {
				t.Errorf("it took %d MiB, want at most %d", grown>>20, most>>20)
			}
		})
	}
}

// covers F18
func TestAServiceMaySendMoreThanWasAskedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		asked, sent int
		ok          bool
	}{{1, 5000, true}, {100, 5000, true}, {100, 5001, false}, {1000, 10_000, true}, {1000, 10_001, false}} {
		names := make([]string, tt.sent)
		for i := range names {
			names[i] = fmt.Sprint("c", i)
		}
		body := ids(names...)
		cfg := config(&pages{page: func(n int) (int, string) {
			if n > 0 {
				return 200, "[]"
			}
			return 200, body
		}})
		cfg.Dialect.List.Size = tt.asked
		got, err := readAll(t.Context(), newClient(t, cfg))
		if (err == nil) != tt.ok || tt.ok && len(got) != tt.sent {
			t.Errorf("asked for %d and sent %d: read %d, %v; want success: %t", tt.asked, tt.sent, len(got), err, tt.ok)
		}
	}
}

// watch notes the most memory that is in use until stop is called, garbage
// included: it has to fit, too.
func watch() (peak *uint64, stop func()) {
	peak = new(uint64)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			*peak = max(*peak, m.HeapAlloc)
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return peak, func() { close(end); <-ended }
}

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Texts in the service must not break the storage of a list.
func TestIDsOfAnyTextAreKeptAndToldApart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 9000)
	ids := []string{"c1", "c\x001", "c\x002", "\x00", "c\ufffd1", long + "1", long + "2"}
	var list []map[string]any
	for _, id := range ids {
		list = append(list, map[string]any{"id": id, "name": "A",
			"directDebitMandate": map[string]any{"id": id, "status": id, "lastUpdatedTime": id}})
	}
	body, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	d := billing.Standard()
	d.List.FirstPage = "0"
	cfg := config(scripted(func(r *http.Request, _ string) (int, string, string) {
		if r.URL.Query().Get(d.List.PageParam) == "0" {
			return 200, "application/json", string(body)
		}
		return 200, "application/json", "[]"
	}))
	cfg.Dialect = d
	seen := map[string]bool{}
	for page, err := range newClient(t, cfg).Customers(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page {
			want := connector.Indexed(ids[len(seen)])
			if c.ID != want || c.Mandate.ID != want || string(c.Mandate.Status) != want || c.Mandate.ServiceTime != want ||
				strings.Contains(c.ID, "\x00") {
				t.Errorf("read %q with %+v, want %q", c.ID, c.Mandate, want)
			}
			seen[c.ID] = true
		}
	}
	if len(seen) != len(ids) {
		t.Errorf("%d customers were told apart, want %d", len(seen), len(ids))
	}
}
