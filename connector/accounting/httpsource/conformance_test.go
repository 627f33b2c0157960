package httpsource_test

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/transport"
	"payersync/internal/longtest"
)

// shipped returns the shipped profiles.
func shipped(t testing.TB) (out []*httpsource.Profile) {
	t.Helper()
	names, err := fs.Glob(configs.FS, "sources/*/profile.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d profiles, %v", len(names), err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(configs.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := httpsource.Load(name, data)
		if err != nil {
			t.Fatalf("%s:\n%v", name, err)
		}
		if want := path.Base(path.Dir(name)); p.Name() != want {
			t.Errorf("%s is called %s", name, p.Name())
		}
		out = append(out, p)
	}
	return out
}

// shippedBy returns the shipped profile of a name.
func shippedBy(t testing.TB, name string) *httpsource.Profile {
	t.Helper()
	all := shipped(t)
	at := slices.IndexFunc(all, func(p *httpsource.Profile) bool { return p.Name() == name })
	if at < 0 {
		t.Fatalf("no profile is called %s", name)
	}
	return all[at]
}

// covers F21, F29, F44, F45, F46, F110
func TestShippedProfilesConform(t *testing.T) {
	for _, p := range shipped(t) {
		t.Run(p.Name(), func(t *testing.T) {
			accountingtest.Run(t, accountingtest.Harness{Open: func(t testing.TB,
				n int) accountingtest.Company {
				return openModel(t, p, p, n).company(t)
			}, Many: 3*p.PageSize() + 5})
		})
	}
}

func TestModelsOfSystemsServePagesOfEachSize(t *testing.T) {
	t.Parallel()
	for _, p := range shipped(t) {
		if p.SampleConfig().PageSize == 0 { // the system has pages of its own size
			continue
		}
		for _, size := range []int{7, 0} {
			c := p.SampleConfig()
			c.PageSize = size
			now := func() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) }
			fake, err := httpsource.NewFake(p, c, now)
			if err != nil {
				t.Fatal(err)
			}
			fake.Add(230)
			s, err := httpsource.New(p, c, httpsource.Dependencies{Now: now, Limiter: &accountingtest.Limiter{},
				HTTP:  transport.New(transport.Options{Base: fake, Retries: -1, Now: now}),
				Token: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"})})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := readAll(t.Context(), s, time.Time{}); err != nil || len(got) != 230 {
				t.Errorf("%s with pages of %d, 0 for the largest: %d of 230 records, %v", p.Name(), size, len(got), err)
			}
		}
	}
}

// model is the model of a system, its clock and a source that reads it.
type model struct {
	*httpsource.Fake
	profile *httpsource.Profile
	source  *httpsource.Source
	clock   atomic.Int64
	limiter accountingtest.Limiter
}

func (m *model) now() time.Time { return time.Unix(0, m.clock.Load()).UTC() }

// openModel starts the system of one profile with n customers, and reads it by another.
func openModel(t testing.TB, system, by *httpsource.Profile, n int) *model {
	t.Helper()
	m := &model{profile: by}
	m.clock.Store(time.Date(2026, 11, 20, 10, 0, 0, 250e6, time.UTC).UnixNano())
	fake, err := httpsource.NewFake(system, system.SampleConfig(), m.now)
	if err != nil {
		t.Fatal(err)
	}
	m.Fake = fake
	m.Add(n)
	m.clock.Add(int64(time.Hour))
	client := transport.New(transport.Options{Base: fake, Retries: -1, Now: m.now})
	tokens := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"})
	m.source, err = httpsource.New(by, by.SampleConfig(),
		httpsource.Dependencies{HTTP: client, Token: tokens, Limiter: &m.limiter, Now: m.now})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// serve calls after behind each page. Nothing tells a customer added under the read from a missed one in a system
// without times of edit, so such a list must rest in the end.
func (m *model) serve(after func()) {
	calls := 0
	if m.After = after; after != nil && (m.profile.Whole() || m.profile.Timeless()) {
		m.After = func() {
			if calls++; calls <= 5 {
				after()
			}
		}
	}
}

func (m *model) company(t testing.TB) accountingtest.Company {
	change := func(id string, how func(name *string, state *connector.RecordState, survivor *string)) {
		m.clock.Add(int64(time.Millisecond))
		m.Change(id, how)
	}
	c := accountingtest.Company{
		Source: m.source, Now: m.now, Held: m.limiter.Open,
		Truth: func() []connector.Record {
			out, err := m.Truth()
			if err != nil {
				t.Fatal(err)
			}
			return out
		},
		Pass:  func(d time.Duration) { m.clock.Add(int64(d)) },
		Serve: m.serve,
		Add:   func() string { return m.Add(1)[0] },
		Edit: func(id string) {
			change(id, func(name *string, _ *connector.RecordState, _ *string) { *name += "+" })
		},
		Spoil: m.Fake.Spoil, Leave: m.Remove,
		Tie:   m.Tie,
		Break: func() func() { m.Fault = httpsource.Down; return func() { m.Fault = "" } },
	}
	as := func(state connector.RecordState) func(string) {
		return func(id string) {
			change(id, func(_ *string, s *connector.RecordState, _ *string) { *s = state })
		}
	}
	for _, state := range m.profile.States() {
		switch state {
		case connector.RecordArchived:
			c.Archive = as(state)
		case connector.RecordDeleted:
			c.Delete = as(state)
		case connector.RecordMerged:
			c.Merge = func(loser, survivor string) {
				change(loser, func(_ *string, s *connector.RecordState, into *string) { *s, *into = state, survivor })
			}
		}
	}
	for fault, ends := range endings {
		c.Troubles = append(c.Troubles, accountingtest.Trouble{Name: string(fault), Ends: ends, Begin: func() func() {
			m.Fault = fault
			return func() { m.Fault = ""; m.limiter.Unpark() }
		}})
	}
	return c
}

var endings = map[httpsource.Fault]accountingtest.Ending{
	httpsource.Down: accountingtest.Unavailable, httpsource.Overloaded: accountingtest.Unavailable,
	httpsource.WebPage: accountingtest.Unavailable,
	httpsource.Cut:     accountingtest.Unavailable, httpsource.NoList: accountingtest.Unavailable,
	httpsource.Redirect:  accountingtest.Unavailable,
	httpsource.Throttled: accountingtest.Parked, httpsource.Bare: accountingtest.Parked,
	httpsource.Expired: accountingtest.Disconnected, httpsource.Forbidden: accountingtest.Disconnected,
}

// rounds is how often a random test goes on.
func rounds() int { return longtest.Number(40, 150) }

func TestShippedProfilesPassTheirCheck(t *testing.T) {
	t.Parallel()
	for _, p := range shipped(t) {
		examples, err := fs.ReadFile(configs.FS, "sources/"+p.Name()+"/examples.yaml")
		if err != nil {
			t.Error(err)
			continue
		}
		began := time.Now()
		for _, f := range p.Check(t.Context(), examples) {
			if !f.OK {
				t.Errorf("%s: %s: %s", p.Name(), f.Name, f.Detail)
			}
		}
		t.Logf("%s: checked in %s", p.Name(), time.Since(began))
	}
}

func readerOf(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }
