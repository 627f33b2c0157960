package httpsource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/accounting/xero"
	"payersync/connector/accounting/xero/xerotest"
	"payersync/connector/transport"
	"payersync/internal/longtest"
	"payersync/mapping"
)

// xeroBooks is one organisation of Xero's model, read by the package and by the profile.
type xeroBooks struct {
	*xerotest.Server
	clock            atomic.Int64
	limiter          accountingtest.Limiter
	profile, builtIn accounting.Source
}

func (b *xeroBooks) now() time.Time { return time.Unix(0, b.clock.Load()).UTC() }

func openXero(t testing.TB, n, size int) *xeroBooks {
	t.Helper()
	b := &xeroBooks{}
	b.clock.Store(time.Date(2026, 11, 20, 10, 0, 0, 250e6, time.UTC).UnixNano())
	b.Server = xerotest.New(b.now)
	b.Add(n)
	b.clock.Add(int64(time.Hour))
	client := transport.New(transport.Options{Base: b.Server, Retries: -1, Now: b.now})
	var err error
	if b.profile, err = httpsource.New(shippedBy(t, "xero-http"), httpsource.Config{PageSize: size},
		httpsource.Dependencies{HTTP: client, Token: b.Server, Limiter: &b.limiter, Now: b.now}); err != nil {
		t.Fatal(err)
	}
	if b.builtIn, err = xero.New(xero.Config{PageSize: size},
		xero.Deps{HTTP: client, Token: b.Server, Limiter: &b.limiter, Now: b.now}); err != nil {
		t.Fatal(err)
	}
	return b
}

// read returns the records of a read by id, and its error.
func readAll(ctx context.Context, s accounting.Source, since time.Time) (map[string]connector.Record, error) {
	out := map[string]connector.Record{}
	for page, err := range s.Customers(ctx, since) {
		if err != nil {
			return out, err
		}
		for _, r := range page.Records {
			out[r.SourceID] = r
		}
	}
	return out, nil
}

func (b *xeroBooks) edit(id string) {
	b.clock.Add(int64(time.Millisecond))
	b.Edit(id, func(c *xerotest.Contact) { c.Name += "+"; c.EmailAddress = nil })
}

// The harness is that of the built-in package, with the profile as its source.
//
// covers F21, F29, F44, F45, F46, F110
func TestXeroProfileConformsToTheModelOfXero(t *testing.T) {
	accountingtest.Run(t, accountingtest.Harness{Many: 35, Open: func(t testing.TB, n int) accountingtest.Company {
		b := openXero(t, n, 10)
		c := accountingtest.Company{
			Source: b.profile, Now: b.now, Pass: func(d time.Duration) { b.clock.Add(int64(d)) }, Serve: b.AfterPage,
			Truth: b.truth,
			Add:   func() string { return b.Add(1)[0] }, Edit: b.edit,
			Archive: b.Archive, Delete: b.Erase, Erase: b.Erase, Merge: b.Merge, Held: b.limiter.Open,
			Spoil: func(id string) { b.Edit(id, func(c *xerotest.Contact) { c.Spoilt = true }) },
			Break: func() func() { b.Suffer(xerotest.Down, 1, 0); return b.Mend },
			Tie:   func(ids []string) { b.Tie(b.now(), ids...) }, Leave: b.Remove,
		}
		c.Troubles = append(c.Troubles,
			accountingtest.Trouble{Name: "access token expired", Ends: accountingtest.Complete, Begin: func() func() {
				b.AfterPage(b.ExpireTokens)
				return func() { b.AfterPage(nil) }
			}})
		for f, ends := range xeroEndings {
			c.Troubles = append(c.Troubles, accountingtest.Trouble{Name: string(f), Ends: ends, Begin: func() func() {
				b.Suffer(f, 1, 3600)
				return func() { b.Mend(); b.limiter.Unpark() }
			}})
		}
		return c
	}})
}

// truth is what a complete read must give, made from the books alone.
func (b *xeroBooks) truth() (out []connector.Record) {
	for _, c := range b.Contacts() {
		data, err := json.Marshal(c)
		if c.Spoilt || err != nil {
			continue
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

var xeroEndings = map[xerotest.AnswerFault]accountingtest.Ending{
	xerotest.Down: accountingtest.Unavailable, xerotest.Overloaded: accountingtest.Unavailable,
	xerotest.WebPage: accountingtest.Unavailable,
	xerotest.XML:     accountingtest.Unavailable, xerotest.Cut: accountingtest.Unavailable,
	xerotest.NoList:    accountingtest.Unavailable,
	xerotest.WrongPage: accountingtest.Unavailable, xerotest.MinuteLimit: accountingtest.Parked,
	xerotest.DayLimit:  accountingtest.Parked,
	xerotest.Withdrawn: accountingtest.Disconnected, xerotest.NoScope: accountingtest.Disconnected,
	xerotest.Expired: accountingtest.Disconnected,
}

func TestXeroProfileGivesTheRecordsOfTheBuiltInPackage(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(11, 12))
	b := openXero(t, 60, 10)
	since := time.Time{}
	for round := range rounds() {
		b.clock.Add(int64(13 * time.Minute))
		for range 6 {
			ids := connector.Map(b.Contacts(), func(c xerotest.Contact) string { return c.ContactID })
			id, other := ids[random.IntN(len(ids))], ids[random.IntN(len(ids))]
			switch random.IntN(8) {
			case 0:
				b.Archive(id)
			case 1:
				b.Erase(id)
			case 2:
				if id != other {
					b.Merge(id, other)
				}
			case 3:
				b.Edit(id, func(c *xerotest.Contact) { c.Spoilt = !c.Spoilt })
			case 4:
				b.Add(1)
			case 5:
				if len(ids) > 40 {
					b.Remove(id)
				}
			default:
				b.edit(id)
			}
		}
		for _, from := range []time.Time{{}, since} {
			want, err1 := readAll(t.Context(), b.builtIn, from)
			got, err2 := readAll(t.Context(), b.profile, from)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("round %d since %s (-package +profile):\n%s", round, from, diff)
			}
		}
		since = b.now().Add(-5 * time.Minute)
	}
}

// planned returns the customers that the shipped mapping of a source makes of records, by id.
func planned(t *testing.T, s accounting.Source, mappingFile string,
	records map[string]connector.Record) map[string]mapping.Result {
	t.Helper()
	text, err := fs.ReadFile(configs.FS, mappingFile)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := mapping.Load(mappingFile, text, info)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]mapping.Result{}
	for id, r := range records {
		if r.State != connector.RecordActive || r.Problem != "" {
			continue
		}
		made, err := m.Apply(r)
		if err != nil {
			t.Fatalf("contact %s: %v", id, err)
		}
		made.Unasked.Line = 0 // the two files begin with other comments
		out[id] = made
	}
	return out
}

// same fails with the differences between what the package and the profile give.
func same[T any](t *testing.T, want, got T) {
	t.Helper()
	if !reflect.DeepEqual(want, got) { // of thousands of equal records, a list of differences takes seconds
		t.Fatalf("(-package +profile)\n%s", cmp.Diff(want, got))
	}
}

// A plan follows from the records, the mapping and the ledger.
func TestXeroProfilePlansAsTheBuiltInPackageOverFiveThousandContacts(t *testing.T) {
	t.Parallel()
	contacts, size := longtest.Number(500, 5000), longtest.Number(50, 500)
	random := rand.New(rand.NewPCG(21, 22))
	b := openXero(t, contacts, size)
	since := time.Time{}
	for round := range 4 {
		b.clock.Add(int64(13 * time.Minute))
		order := random.Perm(contacts)
		ids := connector.Map(b.Contacts(), func(c xerotest.Contact) string { return c.ContactID })
		for n, at := range order[:contacts/10] {
			switch id := ids[at%len(ids)]; n % 5 {
			case 0:
				b.Archive(id)
			case 1:
				b.Erase(id)
			case 2:
				b.Edit(id, func(c *xerotest.Contact) { c.IsCustomer = !c.IsCustomer })
			default:
				b.edit(id)
			}
		}
		b.Merge(ids[1], ids[round+2])
		b.Add(contacts / 50)
		for _, from := range []time.Time{{}, since} {
			want, err1 := readAll(t.Context(), b.builtIn, from)
			got, err2 := readAll(t.Context(), b.profile, from)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if from.IsZero() && len(want) < contacts {
				t.Fatalf("round %d: %d records of at least %d contacts", round, len(want), contacts)
			}
			same(t, want, got)
			same(t, planned(t, b.builtIn, "mappings/xero.yaml", want),
				planned(t, b.profile, "sources/xero-http/mapping.yaml", got))
		}
		since = b.now().Add(-5 * time.Minute)
	}
}

// BenchmarkXeroByProfileAndPackage compares the time for a record.
func BenchmarkXeroByProfileAndPackage(bench *testing.B) {
	b := openXero(bench, 5000, 500)
	for name, s := range map[string]accounting.Source{"package": b.builtIn, "profile": b.profile} {
		bench.Run(name, func(bench *testing.B) {
			for bench.Loop() {
				if all, err := readAll(bench.Context(), s, time.Time{}); err != nil || len(all) != 5000 {
					bench.Fatal(fmt.Sprint(len(all), err))
				}
			}
		})
	}
}
