package xero_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/xero"
	"payersync/connector/accounting/xero/xerotest"
	"payersync/connector/transport"
)

// covers F21, F29, F44, F45, F46, F110
func TestSourceConforms(t *testing.T) {
	accountingtest.Run(t, accountingtest.Harness{Open: openBooks, Many: 35})
}

// books is one organisation, its clock and a source that reads it.
type books struct {
	*xerotest.Server
	clock   atomic.Int64
	limiter accountingtest.Limiter
	source  *xero.Source
}

func (b *books) now() time.Time { return time.Unix(0, b.clock.Load()).UTC() }

func (b *books) pass(d time.Duration) { b.clock.Add(int64(d)) }

// open starts an organisation with n customers. Nothing is repeated, so that
// every trouble reaches the source.
func open(t testing.TB, n int, c xero.Config) *books {
	t.Helper()
	b := &books{}
	b.clock.Store(time.Date(2026, 11, 20, 10, 0, 0, 250e6, time.UTC).UnixNano())
	b.Server = xerotest.New(b.now)
	b.Add(n)
	b.pass(time.Hour)
	b.source = b.connect(t, c, b.Server)
	return b
}

// connect returns a source that reads b with tokens of the given kind.
func (b *books) connect(t testing.TB, c xero.Config, tokens oauth2.TokenSource) *xero.Source {
	t.Helper()
	client := transport.New(transport.Options{Base: b.Server, Retries: -1, Now: b.now})
	s, err := xero.New(c, xero.Deps{HTTP: client, Token: tokens, Limiter: &b.limiter, Now: b.now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openBooks(t testing.TB, n int) accountingtest.Company {
	b := open(t, n, xero.Config{PageSize: 10})
	return b.company(b.source)
}

func (b *books) company(s accounting.Source) accountingtest.Company {
	c := accountingtest.Company{
		Source: s, Truth: b.truth, Now: b.now, Pass: b.pass, Serve: b.AfterPage,
		Add:     func() string { return b.Add(1)[0] },
		Edit:    b.edit,
		Archive: b.Archive, Delete: b.Erase, Erase: b.Erase, Merge: b.Merge, Held: b.limiter.Open,
		Spoil: func(id string) { b.Edit(id, func(c *xerotest.Contact) { c.Spoilt = true }) },
		Break: func() func() { b.Suffer(xerotest.Down, 1, 0); return b.Mend },
		Tie:   func(ids []string) { b.Tie(b.now(), ids...) },
		Leave: b.Remove,
	}
	c.Troubles = append(c.Troubles,
		accountingtest.Trouble{Name: "access token expired", Ends: accountingtest.Complete, Begin: func() func() {
			b.AfterPage(b.ExpireTokens)
			return func() { b.AfterPage(nil) }
		}})
	for f, ends := range map[xerotest.AnswerFault]accountingtest.Ending{
		xerotest.Down: accountingtest.Unavailable, xerotest.Overloaded: accountingtest.Unavailable,
		xerotest.WebPage: accountingtest.Unavailable,
		xerotest.XML:     accountingtest.Unavailable, xerotest.Cut: accountingtest.Unavailable,
		xerotest.NoList:    accountingtest.Unavailable,
		xerotest.WrongPage: accountingtest.Unavailable, xerotest.MinuteLimit: accountingtest.Parked,
		xerotest.DayLimit:  accountingtest.Parked,
		xerotest.Withdrawn: accountingtest.Disconnected, xerotest.NoScope: accountingtest.Disconnected,
		xerotest.Expired: accountingtest.Disconnected,
	} {
		c.Troubles = append(c.Troubles, accountingtest.Trouble{Name: string(f), Ends: ends, Begin: func() func() {
			b.Suffer(f, 1, 3600)
			return func() { b.Mend(); b.limiter.Unpark() }
		}})
	}
	return c
}

// edit changes a contact; no two edits have the same time.
func (b *books) edit(id string) {
	b.pass(time.Millisecond)
	b.Edit(id, func(c *xerotest.Contact) { c.Name += "+"; c.EmailAddress = nil })
}

// truth is what a complete read must give, made from the books alone.
func (b *books) truth() []connector.Record {
	var out []connector.Record
	for _, c := range b.Contacts() {
		if c.Spoilt {
			continue
		}
		data, err := json.Marshal(c)
		if err != nil {
			panic(err)
		}
		r := connector.Record{SourceID: c.ContactID, State: connector.RecordActive, Data: data}
		switch {
		case c.MergedToContactID != "":
			r.State, r.MergedInto = connector.RecordMerged, c.MergedToContactID
		case c.ContactStatus == "ARCHIVED":
			r.State = connector.RecordArchived
		case c.ContactStatus == "GDPRREQUEST":
			r.State = connector.RecordDeleted
		}
		out = append(out, r)
	}
	return out
}

// naive reads as the obvious program does: pages in the order of edits, until one
// is short.
type naive struct {
	*books
	size int
}

func (n naive) Describe(ctx context.Context) (connector.SourceInfo, error) {
	return n.source.Describe(ctx)
}

func (n naive) Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		for page := 1; ; page++ {
			records, err := n.page(ctx, page, since)
			if !yield(connector.Page{Records: records}, err) || err != nil || len(records) < n.size {
				return
			}
		}
	}
}

func (n naive) page(ctx context.Context, page int, since time.Time) ([]connector.Record, error) {
	u := "https://api.xero.com/api.xro/2.0/Contacts?includeArchived=true&order=UpdatedDateUTC+ASC&pageSize=" +
		strconv.Itoa(n.size) + "&page=" + strconv.Itoa(page)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, http.NoBody)
	if err != nil {
		return nil, err
	}
	token, _ := n.Token() // the model always gives one
	req.Header = http.Header{
		"Authorization": {"Bearer " + token.AccessToken}, "Accept": {"application/json"}, "Xero-Tenant-Id": {n.Tenants[0].ID},
		"If-Modified-Since": {since.UTC().Format(time.RFC3339)},
	}
	resp, err := n.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	var body struct{ Contacts []struct{ ContactID string } }
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || resp.StatusCode != http.StatusOK {
		return nil, errors.Join(errors.New("no page"), err)
	}
	out := make([]connector.Record, len(body.Contacts))
	for i, c := range body.Contacts {
		out[i] = connector.Record{SourceID: c.ContactID, State: connector.RecordActive}
	}
	return out, nil
}

// covers F46
func TestNaiveWalkLosesContactsUnderEditsAndOursDoesNot(t *testing.T) {
	t.Parallel()
	const size = 10
	for _, tt := range []struct {
		name  string
		naive bool
	}{{"pages in the order of edits", true}, {"ours", false}} {
		b := open(t, 500, xero.Config{PageSize: size})
		var s accounting.Source = b.source
		if tt.naive {
			s = naive{b, size}
		}
		lost, err := accountingtest.Lost(t.Context(), b.company(s))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d of 500 lost", tt.name, lost)
		if (lost > 0) != tt.naive {
			t.Errorf("%s: %d contacts lost", tt.name, lost)
		}
	}
}

// covers F46
func TestManyContactsWithTiesAtPageEdgesAndEditsUnderTheRead(t *testing.T) {
	t.Parallel()
	const contacts, size = manyContacts, 100
	read := func(naively bool) (lost int, pages int) {
		b := open(t, contacts, xero.Config{PageSize: size})
		ids := make([]string, 0, contacts)
		for _, c := range b.Contacts() {
			ids = append(ids, c.ContactID)
		}
		b.tieInGroups(30, 150)
		random := rand.New(rand.NewPCG(7, 8))
		b.AfterPage(func() {
			pages++
			for range 20 {
				b.edit(ids[random.IntN(len(ids))])
			}
		})
		var s accounting.Source = b.source
		if naively {
			s = naive{b, size}
		}
		seen := map[string]bool{}
		for page, err := range s.Customers(t.Context(), time.Time{}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Records {
				seen[r.SourceID] = true
			}
		}
		return contacts - len(seen), pages
	}
	lost, pages := read(false)
	naiveLost, naivePages := read(true)
	t.Logf("of %d contacts, 20 edited behind each page: ours lost %d in %d pages; pages in the order of edits lost %d in %d",
		contacts, lost, pages, naiveLost, naivePages)
	if lost != 0 {
		t.Errorf("%d of %d contacts lost", lost, contacts)
	}
	if naiveLost == 0 {
		t.Error("the naive walk lost nothing: the test proves nothing")
	}
}

// tieInGroups gives runs of contacts the same time of last edit, in turn of each
// length, so that ties lie across page edges.
func (b *books) tieInGroups(lengths ...int) {
	at := b.now().Add(-48 * time.Hour)
	all := b.Contacts()
	for i, n := 0, 0; i < len(all); n++ {
		group := all[i:min(i+lengths[n%len(lengths)], len(all))]
		for _, c := range group {
			b.Tie(at, c.ContactID)
		}
		i += len(group)
		at = at.Add(time.Second)
	}
}
