package admin_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/match"
	"payersync/state"
	"payersync/state/statetest"
)

// world is a ledger with records that were read, and lists over it.
type world struct {
	t      testing.TB
	path   string
	ledger *state.Ledger
	lists  *admin.Lists
	runs   map[string]int64
	now    time.Time
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "payersync.db"), runs: map[string]int64{},
		now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	statetest.New(t, w.path)
	w.ledger = w.open(state.Options{KeyFile: w.path + ".key"})
	w.lists = &admin.Lists{Ledger: w.ledger}
	return w
}

func (w *world) open(o state.Options) *state.Ledger {
	w.t.Helper()
	o.Path, o.Now = w.path, func() time.Time { return w.now }
	l, err := state.Open(context.Background(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = l.Close() })
	return l
}

func (w *world) do(fn func(*state.Tx) error) {
	w.t.Helper()
	if err := w.ledger.Do(context.Background(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// run returns the open run of a connection.
func (w *world) run(connection string) int64 {
	if w.runs[connection] == 0 {
		w.do(func(tx *state.Tx) (err error) {
			if err := errors.Join(tx.PinConnection(state.Connection{Name: connection,
				Info: connector.SourceInfo{Kind: "books"}}), tx.SaveMapping("m1", "version: 1", "tester")); err != nil {
				return err
			}
			w.runs[connection], err = tx.OpenRun(state.NewRun{Connection: connection, Kind: connector.RunSync, Trigger: "manual",
				Mapping: "m1", Holder: "test"})
			return err
		})
	}
	return w.runs[connection]
}

// read saves records as a run reads them; one without a label is of an earlier version.
func (w *world) read(connection string, labels map[string]*connector.Label) {
	w.t.Helper()
	run := w.run(connection)
	w.now = w.now.Add(time.Minute)
	w.do(func(tx *state.Tx) error {
		for id, label := range labels {
			r := connector.Record{SourceID: id, State: connector.RecordActive, Data: fmt.Appendf(nil, `{"Name":%q}`, w.now)}
			if err := tx.SavePage(run, connection, []connector.Record{r}); err != nil {
				return err
			}
			if label == nil {
				continue
			}
			if err := tx.SaveLabels(connection, "m1", []state.NewLabel{{SourceID: id, Label: *label}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// page returns what is listed, as "connection/id name".
func (w *world) page(q admin.Query) (rows []string, p admin.Page) {
	w.t.Helper()
	p, err := w.lists.Page(context.Background(), q)
	if err != nil {
		w.t.Fatalf("%+v: %v", q, err)
	}
	if once, err := (&admin.Lists{Ledger: w.lists.Ledger, Once: true}).Page(context.Background(), q); err != nil ||
		!reflect.DeepEqual(once, p) {
		w.t.Errorf("%+v: who looks once finds %+v, %v; want %+v", q, once, err, p)
	}
	for _, r := range p.Rows {
		rows = append(rows, w.told(r))
	}
	return rows, p
}

func (w *world) told(r state.RecordRow) string {
	if r.Label == nil {
		return r.Connection + "/" + r.SourceID + " –"
	}
	return r.Connection + "/" + r.SourceID + " " + r.Label.Name
}

func (w *world) wantFound(text string, want ...string) {
	w.t.Helper()
	if got, _ := w.page(admin.Query{Text: text}); !slices.Equal(got, want) {
		w.t.Errorf("searched for %q and found %q, want %q", text, got, want)
	}
}

func named(name string) *connector.Label { return &connector.Label{Name: name} }

func TestASearchFindsAnyPartOfWhatPeopleKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("acme", map[string]*connector.Label{
		"A1": {Number: "HB-017", Name: "Bäckerei Großmann GmbH", Email: "buero@grossmann.example"},
		"A2": {Number: "HB-018", Name: "Crème & Co", Email: "jose@creme.example"},
		"A3": named("Ørsted Łódź"),
		"A4": named("\u202eevil\x1b[2J\u0000 & Söhne"),
		"A5": {Number: "HB-019"},
		"A6": named("محمد علي"),
	})
	w.read("beta", map[string]*connector.Label{"A1": named("Anna Großmann")}) // the same id in other books
	w.wantFound("grossmann", "acme/A1 Bäckerei Großmann GmbH", "beta/A1 Anna Großmann")
	w.wantFound("GROSS  back", "acme/A1 Bäckerei Großmann GmbH") // in any order, in any case
	w.wantFound("rei groß", "acme/A1 Bäckerei Großmann GmbH")
	w.wantFound("creme jose@", "acme/A2 Crème & Co")
	w.wantFound("orsted lodz", "acme/A3 Ørsted Łódź")
	w.wantFound("hb-019", "acme/A5 ")
	w.wantFound("a1", "acme/A1 Bäckerei Großmann GmbH", "beta/A1 Anna Großmann")
	w.wantFound("sohne evil", "acme/A4 \u202eevil\x1b[2J\u0000 & Söhne")
	w.wantFound("علي", "acme/A6 محمد علي")
	w.wantFound("grossmann nobody")
	w.wantFound("%")
	if got, _ := w.page(admin.Query{Text: "grossmann",
		RecordFilter: state.RecordFilter{Connection: "beta"}}); !slices.Equal(got, []string{"beta/A1 Anna Großmann"}) {
		t.Errorf("in one connection: %q", got)
	}
}

// A search also uses the billing service's ids.
func TestASearchFindsTheCustomerAndTheMandateById(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("acme", map[string]*connector.Label{"A1": named("Ada"), "A2": nil})
	run := w.run("acme")
	w.do(func(tx *state.Tx) error {
		for i, id := range []string{"A1", "A2"} {
			if err := tx.SaveDecisions(run, "acme", "m1",
				state.Decision{SourceID: id, ContentHash: "h", Verdict: state.Included,
					Key: connector.Key{Name: "no", Value: "K" + id}}); err != nil {
				return err
			}
			if err := tx.LinkPayer(state.Payer{Connection: "acme", SourceID: id}, fmt.Sprintf("cust-%d", i+1),
				true); err != nil {
				return err
			}
		}
		return nil
	})
	w.wantFound("cust-1", "acme/A1 Ada")
	w.wantFound("cust-2", "acme/A2 –")
	w.wantFound("KA2", "acme/A2 –")
}

func TestASearchKnowsWhatWasReadSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("acme", map[string]*connector.Label{"A1": named("Ada"), "A2": named("Grace")})
	w.wantFound("ada", "acme/A1 Ada")
	before := "ada"
	for _, name := range []string{"Bea", "Cleo", "Bea", "Dora"} { // its name changes with every run
		w.read("acme", map[string]*connector.Label{"A1": named(name), "A2": named("Grace")})
		w.wantFound(name, "acme/A1 "+name)
		w.wantFound(before)
		before = name
	}
	w.read("acme", map[string]*connector.Label{"A3": named("Adam")})
	w.wantFound("ada", "acme/A3 Adam")
}

func TestNamesLoadedAheadAreFoundAndThoseReadSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("acme", map[string]*connector.Label{"A1": named("Ada"), "A2": named("Grace")})
	w.lists.Prepare(t.Context())
	w.lists.Prepare(t.Context())
	part := w.lists.LimitedTo(w.ledger.LimitedTo([]string{"acme"}), []string{"acme"})
	part.Prepare(t.Context())
	w.wantFound("ada", "acme/A1 Ada")
	w.read("acme", map[string]*connector.Label{"A1": named("Bea"), "A3": named("Cleo")})
	w.wantFound("ada")
	w.wantFound("cleo", "acme/A3 Cleo")
	w.lists.Close()
	w.lists.Prepare(t.Context())
	w.wantFound("bea", "acme/A1 Bea")
}

func TestASearchGivesNoMoreThanAPersonReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := map[string]*connector.Label{}
	for n := range admin.MostFound + 2 {
		many[fmt.Sprintf("A%04d", n)] = named("Bakery")
	}
	w.read("acme", many)
	for _, c := range []struct {
		limit, rows int
		more, cut   bool
	}{{0, admin.MostFound, false, true}, {10_000, admin.MostFound, false, true}, {10, 10, true, true}} {
		for _, f := range []state.RecordFilter{{}, {Payers: true}, {Sort: state.ByKey}, {Sort: admin.ByName},
			{Sort: state.ByKey, Payers: true}} {
			f.Limit = c.limit
			if got, p := w.page(admin.Query{Text: "bake", RecordFilter: f}); len(got) != c.rows || p.More != c.more ||
				p.Cut != c.cut {
				t.Errorf("%+v: %d rows, more %v, cut %v; want %+v", f, len(got), p.More, p.Cut, c)
			}
			if got, p := w.page(admin.Query{Text: "nobody", RecordFilter: f}); len(got) != 0 || p.More || p.Cut {
				t.Errorf("%+v: nobody is %q, more %v, cut %v", f, got, p.More, p.Cut)
			}
		}
	}
	w.read("beta", map[string]*connector.Label{"B1": named("Butcher")})
	for _, sort := range []state.RecordSort{"", state.ByKey, admin.ByName} {
		if got, _ := w.page(admin.Query{Text: "bake",
			RecordFilter: state.RecordFilter{Connection: "beta", Sort: sort}}); len(got) != 0 {
			t.Errorf("by %q: bakeries of beta are %q", sort, got)
		}
	}
	if got, p := w.page(admin.Query{Text: "bake a0001"}); len(got) != 1 || p.More {
		t.Errorf("narrowed: %q, more %v", got, p.More)
	}
}

func TestWithoutTheKeyListsHaveNoNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("acme", map[string]*connector.Label{"A1": named("Ada")})
	w.lists.Ledger = w.open(state.Options{KeyFile: w.path + ".away", Keyless: true})
	got, p := w.page(admin.Query{})
	if !slices.Equal(got, []string{"acme/A1 –"}) || !p.Sealed || p.Bare != 0 {
		t.Errorf("listed %q, %+v", got, p)
	}
	for _, q := range []admin.Query{{Text: "ada"}, {RecordFilter: state.RecordFilter{Sort: admin.ByName}}} {
		if _, err := w.lists.Page(t.Context(), q); !errors.Is(err, admin.ErrSealed) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestWhoHasNoNameYetIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("acme", map[string]*connector.Label{"A1": named("Ada"), "A2": nil, "A3": {}})
	w.read("beta", map[string]*connector.Label{"A1": nil})
	for _, c := range []struct {
		q    admin.Query
		want int
	}{{admin.Query{}, 2}, {admin.Query{RecordFilter: state.RecordFilter{Connection: "acme"}}, 1},
		{admin.Query{RecordFilter: state.RecordFilter{Limit: 1}}, 0}, {admin.Query{Text: "ada"}, 2},
		{admin.Query{Text: "nobody"}, 2}} {
		if _, p := w.page(c.q); p.Bare != c.want {
			t.Errorf("%+v: %d without a name, want %d", c.q, p.Bare, c.want)
		}
	}
}

// Whatever the records, each is in every list once, and a search finds the same as a person who reads all of
// them.
func TestListsAndSearchesOfRandomBooksAreWhole(t *testing.T) {
	t.Parallel()
	parts := []string{"ada", "Bäcker", "GROß", "ltd", " ", "é", "Ł", "\t", "\u202e", "0"}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 13))
		text := func() string {
			var b strings.Builder
			for range random.IntN(4) {
				b.WriteString(parts[random.IntN(len(parts))])
			}
			return b.String()
		}
		w := newWorld(t)
		kept := map[state.RecordID]*connector.Label{}
		for range 3 {
			for _, connection := range []string{"acme", "beta"} {
				some := map[string]*connector.Label{}
				for range random.IntN(20) {
					id := fmt.Sprintf("%s%d", parts[random.IntN(3)], random.IntN(20))
					if _, there := kept[state.RecordID{Connection: connection, SourceID: id}]; random.IntN(6) > 0 || there {
						some[id] = &connector.Label{Number: text(), Name: text(), Email: text()}
					} else {
						some[id] = nil
					}
					kept[state.RecordID{Connection: connection, SourceID: id}] = some[id]
				}
				w.read(connection, some)
			}
			w.wantWhole(seed, kept, 1+random.IntN(7))
			w.wantPicked(seed, kept, text())
		}
	}
}

// wantWhole pages through every order.
func (w *world) wantWhole(seed uint64, kept map[state.RecordID]*connector.Label, limit int) {
	w.t.Helper()
	var want []string
	for id, label := range kept {
		want = append(want, w.told(state.RecordRow{PayerRow: state.PayerRow{Connection: id.Connection, SourceID: id.SourceID},
			Label: label}))
	}
	slices.Sort(want)
	for _, sort := range []state.RecordSort{state.ByRecord, state.ByChanged, admin.ByName} {
		var all []state.RecordRow
		q := admin.Query{RecordFilter: state.RecordFilter{Sort: sort, Limit: limit}}
		for {
			_, p := w.page(q)
			all = append(all, p.Rows...)
			if !p.More {
				break
			}
			q.After = &p.Rows[len(p.Rows)-1]
		}
		var got []string
		for _, r := range all {
			got = append(got, w.told(r))
		}
		if sort == admin.ByName &&
			!slices.IsSortedFunc(all, func(a, b state.RecordRow) int { return cmp.Compare(rank(a), rank(b)) }) {
			w.t.Errorf("seed %d: the names are in no order: %q", seed, got)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			w.t.Errorf("seed %d: by %s in pages of %d: %q, want %q", seed, sort, limit, got, want)
		}
	}
}

// A list in pieces equals the list on one page, in every order and with every filter.
func TestAListInPiecesIsTheSameAsInOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	some := map[string]*connector.Label{}
	for n := range admin.PageOfAll + 7 {
		id := fmt.Sprintf("A%04d", n)
		switch {
		case n%50 == 0:
			some[id] = nil // never named
		case n%7 == 0:
			some[id] = named("")
		default:
			some[id] = named(fmt.Sprintf("Bakery %d", n*7919%1000))
		}
	}
	w.read("acme", some)
	w.read("beta", map[string]*connector.Label{"B1": named("Butcher"), "B2": nil})
	for _, sort := range []state.RecordSort{"", state.ByRecord, admin.ByName, state.ByKey, state.ByLink, state.ByMandate,
		state.BySince, state.ByChanged} {
		for _, f := range []state.RecordFilter{{}, {Connection: "beta"}, {Connection: "nobody"}, {Others: true},
			{Payers: true}, {Bare: true}} {
			f.Sort = sort
			want, whole := w.page(admin.Query{RecordFilter: f})
			var got []string
			pieces, bare := 0, 0
			if err := (&admin.Lists{Ledger: w.ledger, Once: true}).Each(t.Context(), admin.Query{RecordFilter: f},
				func(p admin.Page) error {
					for _, r := range p.Rows {
						got = append(got, w.told(r))
					}
					pieces, bare = pieces+1, bare+p.Bare
					if len(p.Rows) > admin.PageOfAll {
						t.Errorf("%+v: a piece has %d rows", f, len(p.Rows))
					}
					return nil
				}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) || pieces == 0 || bare != whole.Bare {
				t.Errorf("%+v: %d pieces have %d rows, %d without a name; want %d and %d", f, pieces, len(got), bare, len(want),
					whole.Bare)
			}
		}
	}
}

// rank puts names in order, those without one after them, and those that were never labelled last.
func rank(r state.RecordRow) string {
	switch {
	case r.Label == nil:
		return "\U0010ffff\U0010ffff"
	case match.Fold(r.Label.Name) == "":
		return "\U0010ffff"
	}
	return match.Fold(r.Label.Name)
}

func (w *world) wantPicked(seed uint64, kept map[state.RecordID]*connector.Label, text string) {
	w.t.Helper()
	if strings.TrimSpace(text) == "" {
		return
	}
	var want []string
	for id, label := range kept {
		picked := id.SourceID == text
		if label != nil {
			picked = picked || !slices.ContainsFunc(strings.Fields(match.Fold(text)), func(word string) bool {
				return !slices.ContainsFunc([]string{label.Number, label.Name, label.Email, id.SourceID},
					func(s string) bool { return strings.Contains(match.Fold(s), word) })
			})
		}
		if picked {
			want = append(want, w.told(state.RecordRow{PayerRow: state.PayerRow{Connection: id.Connection,
				SourceID: id.SourceID}, Label: label}))
		}
	}
	slices.Sort(want)
	got, _ := w.page(admin.Query{Text: text})
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("seed %d: searched for %q and found %q, want %q", seed, text, got, want)
	}
}
