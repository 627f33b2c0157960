package sandbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// crowded returns a world with customers C0, C1, … made a minute apart.
func crowded(t *testing.T, n int, sw Switches) *world {
	t.Helper()
	w := newWorld(t, with(sw))
	for i := range n {
		w.create(fmt.Sprintf(`{"name":"C%d","people":[{"email":"c%d@example.com"}],"externalData":{"key":"secret-%d"}}`, i, i,
			i))
		w.wait(time.Minute)
	}
	return w
}

// names returns the customers' names in a list answer, from under key when
// there is an envelope.
func (w *world) names(query string, key ...string) string {
	w.t.Helper()
	body := w.want(200, "GET", "/api/customers"+query, "").body
	var customers []struct{ Name string }
	must(w.t, json.Unmarshal([]byte(at(w.t, body, key...)), &customers))
	var out []string
	for _, c := range customers {
		out = append(out, c.Name)
	}
	return strings.Join(out, " ")
}

func TestListPages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		list  List
		query string
		want  string
	}{
		{"all fit", List{}, "", "C0 C1 C2 C3 C4"},
		{"default size", List{DefaultSize: 2}, "", "C0 C1"},
		{"zero-based, first", List{}, "?Page=0&Size=2", "C0 C1"},
		{"zero-based, second", List{}, "?Page=1&Size=2", "C2 C3"},
		{"short last page", List{}, "?Page=2&Size=2", "C4"},
		{"beyond the end", List{}, "?Page=9&Size=2", ""},
		{"one-based, first", List{FirstPage: 1}, "?Page=1&Size=2", "C0 C1"},
		{"one-based, index 0 is read as the first", List{FirstPage: 1}, "?Page=0&Size=2", "C0 C1"},
		{"one-based, second", List{FirstPage: 1}, "?Page=2&Size=2", "C2 C3"},
		{"capped size", List{MaxSize: 3}, "?Page=1&Size=5", "C3 C4"},
		{"page ignored", List{IgnorePage: true}, "?Page=3&Size=2", "C0 C1"},
		{"other parameter names", List{PageParam: "page", SizeParam: "size"}, "?page=1&size=2", "C2 C3"},
		{"misnamed parameters are not seen", List{PageParam: "page", SizeParam: "size"}, "?Page=1&Size=2", "C0 C1 C2 C3 C4"},
		{"newest first", List{Sort: "created_desc"}, "?Size=2", "C4 C3"},
		{"sort parameter not known", List{}, "?Size=2&sort=creationTime,DESC", "C0 C1"},
		{"sort parameter known", List{SortParam: true}, "?Size=2&sort=creationTime,DESC", "C4 C3"},
		{"sort parameter ascending by itself", List{SortParam: true, Sort: "created_desc"}, "?Size=2&sort=creationTime",
			"C0 C1"},
	}
	for _, tt := range tests {
		w := crowded(t, 5, Switches{List: tt.list})
		if got := w.names(tt.query); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestListOrders(t *testing.T) {
	t.Parallel()
	for order, want := range map[string]string{
		"created_asc": "C0 A2 C1", "created_desc": "C1 A2 C0", "name": "A2 C0 C1", "updated_desc": "A2 C1 C0",
	} {
		w := newWorld(t, with(Switches{List: List{Sort: order}}))
		w.create(`{"name":"C0"}`)
		id := w.create(`{"name":"C2"}`)
		w.create(`{"name":"C1"}`)
		w.wait(time.Minute)
		must(t, w.Edit(id, json.RawMessage(`{"name":"A2"}`)))
		if got := w.names(""); got != want {
			t.Errorf("%s: got %q, want %q", order, got, want)
		}
	}
}

func TestListSortParameter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(Switches{List: List{SortParam: true}}))
	id := w.create(`{"name":"B"}`)
	w.create(`{"name":"A"}`)
	w.wait(time.Minute)
	must(t, w.Edit(id, json.RawMessage(`{"name":"B2"}`)))
	for sort, want := range map[string]string{
		"name": "A B2", "name,asc": "A B2", "lastUpdatedTime,DESC": "B2 A", "creationTime,desc": "A B2",
		"creationTime,ASC": "B2 A", "unknown": "B2 A",
	} {
		if got := w.names("?sort=" + sort); got != want {
			t.Errorf("%s: got %q, want %q", sort, got, want)
		}
	}
}

func TestListRefusesPagesOutOfRange(t *testing.T) {
	t.Parallel()
	w := crowded(t, 1, Switches{List: List{FirstPage: 1, RefuseBelow: true}})
	for _, query := range []string{"?Page=-1", "?Page=x", "?Size=0", "?Size=-2", "?Page=0", "?Page=99999999999999999999",
		"?Page=9999999999"} {
		w.want(400, "GET", "/api/customers"+query, "")
	}
}

func TestListEnvelopes(t *testing.T) {
	t.Parallel()
	page := `{"page":1,"size":2,"totalPages":3,"totalElements":5,"numberOfElements":2,"sort":"created_asc"}`
	for envelope, members := range map[string][]string{"customers": {"page", "pagination"}, "items": {"page"}} {
		w := crowded(t, 5, Switches{List: List{Envelope: envelope}})
		if got := w.names("?Page=1&Size=2", envelope); got != "C2 C3" {
			t.Errorf("%s: got %q", envelope, got)
		}
		body := w.want(200, "GET", "/api/customers?Page=1&Size=2", "").body
		for _, name := range members {
			if diff := cmp.Diff(page, at(t, body, name)); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", envelope, diff)
			}
		}
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	w := crowded(t, 4, Switches{})
	all := w.Customers()
	pending := w.openLink(all[1].ID)
	must(t, w.Sign(pending))
	w.openLink(all[2].ID)
	must(t, w.SetFinancialStatus(all[3].ID, "OVERDUE"))
	tests := []struct{ name, query, want string }{
		{"search by name, any case", "?searchText=c1", "C1"},
		{"search by e-mail", "?searchText=c2@example.com", "C2"},
		{"search is fuzzy", "?searchText=example", "C0 C1 C2 C3"},
		{"one of the words is enough", "?searchText=C0+nobody", "C0"},
		{"search knows no key", "?searchText=secret-1", ""},
		{"blank search finds all", "?searchText=+", "C0 C1 C2 C3"},
		{"activity", "?onlyCustomersWithActivity=true", "C1 C2"},
		{"no activity asked", "?onlyCustomersWithActivity=false", "C0 C1 C2 C3"},
		{"one status", "?ddMandateStatuses=PENDING", "C1"},
		{"statuses repeated", "?ddMandateStatuses=PENDING&ddMandateStatuses=CREATED", "C1 C2"},
		{"statuses by comma", "?ddMandateStatuses=PENDING,CREATED", "C1 C2"},
		{"financial status", "?financialStatus=OVERDUE", "C3"},
		{"filters add up", "?ddMandateStatuses=PENDING&searchText=C2", ""},
		{"pages of a filter", "?onlyCustomersWithActivity=true&Page=1&Size=1", "C2"},
	}
	for _, tt := range tests {
		if got := w.names(tt.query); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestListDriftsWhenACustomerGoes(t *testing.T) {
	t.Parallel()
	w := crowded(t, 4, Switches{})
	if got := w.names("?Page=0&Size=2"); got != "C0 C1" {
		t.Fatalf("got %q", got)
	}
	must(t, w.Delete(w.Customers()[0].ID))
	if got := w.names("?Page=1&Size=2"); got != "C3" {
		t.Errorf("got %q: C2 should have slipped to the page before", got)
	}
}
