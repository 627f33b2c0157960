package quickbooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/quickbooks"
	"payersync/connector/accounting/quickbooks/quickbookstest"
	"payersync/connector/transport"
)

// covers F21, F29, F44, F45, F46, F110
func TestSourceConforms(t *testing.T) {
	accountingtest.Run(t, accountingtest.Harness{Open: openBooks, Many: 35})
}

// The same by query alone, which cannot detect merged customers.
func TestSourceConformsWithoutChangeDataCapture(t *testing.T) {
	accountingtest.Run(t, accountingtest.Harness{Many: 35, Open: func(t testing.TB, n int) accountingtest.Company {
		b := open(t, n, quickbooks.Config{PageSize: 10, QueryOnly: true})
		c := b.company(b.source)
		c.Delete = nil
		return c
	}})
}

// books is one company, its clock and a source that reads it.
type books struct {
	*quickbookstest.Server
	clock   atomic.Int64
	limiter accountingtest.Limiter
	source  *quickbooks.Source
}

func (b *books) now() time.Time { return time.Unix(0, b.clock.Load()).UTC() }

func (b *books) pass(d time.Duration) { b.clock.Add(int64(d)) }

// open starts a company with n customers. Nothing is repeated, so that every
// trouble reaches the source.
func open(t testing.TB, n int, c quickbooks.Config) *books {
	t.Helper()
	b := &books{}
	b.clock.Store(time.Date(2026, 11, 20, 10, 0, 0, 250e6, time.UTC).UnixNano())
	b.Server = quickbookstest.New(b.now)
	b.Add(n)
	b.pass(time.Hour)
	b.source = b.connect(t, c, b.Server)
	return b
}

// connect returns a source that reads b with tokens of the given kind.
func (b *books) connect(t testing.TB, c quickbooks.Config, tokens oauth2.TokenSource) *quickbooks.Source {
	t.Helper()
	if c.Company == "" {
		c.Company = quickbookstest.Realm
	}
	client := transport.New(transport.Options{Base: b.Server, Retries: -1, Now: b.now})
	s, err := quickbooks.New(c, quickbooks.Deps{HTTP: client, Token: tokens, Limiter: &b.limiter, Now: b.now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openBooks(t testing.TB, n int) accountingtest.Company {
	b := open(t, n, quickbooks.Config{PageSize: 10})
	return b.company(b.source)
}

func (b *books) company(s accounting.Source) accountingtest.Company {
	c := accountingtest.Company{
		Source: s, Truth: b.truth, Now: b.now, Pass: b.pass, Serve: b.AfterPage,
		Add: func() string { return b.Add(1)[0] }, Edit: b.edit, Archive: b.Deactivate, Delete: b.mergeAway,
		Held:  b.limiter.Open,
		Spoil: func(id string) { b.Edit(id, func(c *quickbookstest.StoredCustomer) { c.Spoilt = true }) },
		Break: func() func() { b.Suffer(quickbookstest.Down, 1); return b.Mend },
		Tie:   func(ids []string) { b.Tie(b.now(), ids...) },
		Leave: b.mergeAway,
	}
	c.Troubles = append(c.Troubles,
		accountingtest.Trouble{Name: "access token expired", Ends: accountingtest.Complete, Begin: func() func() {
			b.AfterPage(b.ExpireTokens)
			return func() { b.AfterPage(nil) }
		}})
	for f, ends := range map[quickbookstest.AnswerFault]accountingtest.Ending{
		quickbookstest.Down: accountingtest.Unavailable, quickbookstest.Throttled: accountingtest.Parked,
		quickbookstest.ThrottledXML: accountingtest.Parked,
		quickbookstest.WebPage:      accountingtest.Unavailable, quickbookstest.PlainText: accountingtest.Unavailable,
		quickbookstest.Cut:        accountingtest.Unavailable,
		quickbookstest.NoEnvelope: accountingtest.Unavailable, quickbookstest.FaultIn200: accountingtest.Refused,
		quickbookstest.Withdrawn: accountingtest.Disconnected, quickbookstest.OtherCompany: accountingtest.Disconnected,
		quickbookstest.Expired: accountingtest.Disconnected,
	} {
		c.Troubles = append(c.Troubles, accountingtest.Trouble{Name: string(f), Ends: ends, Begin: func() func() {
			b.Suffer(f, 1)
			return func() { b.Mend(); b.limiter.Unpark() }
		}})
	}
	return c
}

// edit changes a customer; no two edits have the same time. The billing address
// of every other one disappears, and with it its property.
func (b *books) edit(id string) {
	b.pass(time.Millisecond)
	b.Edit(id, func(c *quickbookstest.StoredCustomer) { c.DisplayName += "+"; c.BillAddr = nil })
}

// mergeAway merges a customer into whichever other one comes first.
func (b *books) mergeAway(id string) {
	for _, c := range b.Customers() {
		if c.ID != id && c.Active {
			b.Merge(id, c.ID)
			return
		}
	}
}

// truth is what a complete read must give, made from the books alone.
func (b *books) truth() []connector.Record {
	var out []connector.Record
	for _, c := range b.Customers() {
		if c.Spoilt {
			continue
		}
		r := connector.Record{SourceID: c.ID, State: connector.RecordActive, Data: dataOf(c)}
		if !c.Active || c.Job || c.IsProject {
			r.State = connector.RecordArchived
		}
		out = append(out, r)
	}
	return out
}

func dataOf(c quickbookstest.StoredCustomer) json.RawMessage {
	data, err := json.Marshal(struct {
		quickbookstest.StoredCustomer
		MetaData map[string]string
	}{c, map[string]string{"CreateTime": c.CreateTime()}})
	if err != nil {
		panic(err)
	}
	return data
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

func (n naive) Customers(ctx context.Context, _ time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		for start := 1; ; start += n.size {
			records, err := n.page(ctx, start)
			if !yield(connector.Page{Records: records}, err) || err != nil || len(records) < n.size {
				return
			}
		}
	}
}

func (n naive) page(ctx context.Context, start int) ([]connector.Record, error) {
	statement := fmt.Sprintf("SELECT * FROM Customer WHERE Active IN (true,false) ORDERBY MetaData.LastUpdatedTime STARTPOSITION %d MAXRESULTS %d", start, n.size)
	u := "https://quickbooks.api.intuit.com/v3/company/" + quickbookstest.Realm + "/query?query=" +
		url.QueryEscape(statement)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, http.NoBody)
	if err != nil {
		return nil, err
	}
	token, _ := n.Token() // the model always gives one
	req.Header.Set("Authorization", "Bearer "+token.AccessToken)
	resp, err := n.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	var body struct {
		QueryResponse struct{ Customer []struct{ ID string } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		return nil, err
	}
	var out []connector.Record
	for _, c := range body.QueryResponse.Customer {
		out = append(out, connector.Record{SourceID: c.ID, State: connector.RecordActive})
	}
	return out, nil
}

// covers F46
func TestNaiveWalkLosesCustomersUnderEditsAndOursDoesNot(t *testing.T) {
	t.Parallel()
	const size = 10
	for _, tt := range []struct {
		name  string
		naive bool
	}{{"pages in the order of edits", true}, {"ours", false}} {
		b := open(t, 500, quickbooks.Config{PageSize: size})
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
			t.Errorf("%s: %d customers lost", tt.name, lost)
		}
	}
}

// A customer that is merged away while the list is read moves all behind it one
// place forward. Under a plain walk by position each merge loses a row.
//
// covers F44, F46, F110
func TestMergesUnderTheReadLoseNobody(t *testing.T) {
	t.Parallel()
	b := open(t, 300, quickbooks.Config{PageSize: 20})
	random := rand.New(rand.NewPCG(9, 10))
	merges := 0
	b.AfterPage(func() {
		if merges < 12 {
			merges++
			all := b.Customers()
			b.Merge(all[random.IntN(len(all)/2)].ID, all[len(all)-1].ID)
		}
	})
	records, proof, err := drain(b.source.Customers(t.Context(), time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range records {
		seen[r.SourceID] = true
	}
	for _, c := range b.Customers() {
		if !seen[c.ID] {
			t.Errorf("customer %s is lost", c.ID)
		}
	}
	t.Logf("%d merges, proof %+v", merges, proof)
	if merges != 12 || proof.Passes != 1 {
		t.Errorf("%d merges, %d passes; a list that moves up is read on from the last row that was met", merges, proof.Passes)
	}
}
