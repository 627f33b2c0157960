package match

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// linked returns customers with these cards, the first of them being linked to payers, and finds duplicates among them.
func duplicates(t *testing.T, ours int, cards ...card) []Pair {
	t.Helper()
	var records []Record
	var all []Customer
	for i, c := range cards {
		id := fmt.Sprintf("C%d", i+1)
		all = append(all, c.customer(id))
		if i < ours {
			records = append(records, c.record(id))
		}
	}
	found, err := Duplicates(t.Context(), All(records), All(all), Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTwoCustomersOfOnePayerAreFound(t *testing.T) {
	t.Parallel()
	bernd := anna.but(func(c *card) { c.name = "Bernd Müller" })
	for name, test := range map[string]struct {
		ours  int
		cards []card
		want  []string // pairs
	}{
		"a customer alone":              {1, []card{anna}, nil},
		"an equal one that is nobody's": {1, []card{anna, anna}, []string{"C1 C2"}},
		"an equal one of another payer": {2, []card{anna, anna}, []string{"C1 C2"}},
		"two equal ones":                {1, []card{anna, anna, anna}, []string{"C1 C2", "C1 C3"}},
		"two that are nobody's":         {0, []card{anna, anna}, nil},
		"one letter lost": {1, []card{anna, anna.but(func(c *card) { c.name = "Anna Mülle" })},
			[]string{"C1 C2"}},
		"moved": {1,
			[]card{anna, anna.but(func(c *card) { c.line1, c.postcode = "Am Markt 3", "20095" })}, []string{"C1 C2"}},
		"name and e-mail address alone": {1,
			[]card{anna, anna.but(func(c *card) { c.line1, c.postcode, c.phone = "", "", "" })}, []string{"C1 C2"}},
		"a name that says little, with all the rest": {1,
			[]card{anna.but(func(c *card) { c.name = "Annaco" }), anna.but(func(c *card) { c.name = "Annaco" })},
			[]string{"C1 C2"}},
		"initials of hers": {1, []card{anna, anna.but(func(c *card) { c.name = "A. Müller" })},
			nil},
		"a company of her name": {1,
			[]card{anna, anna.but(func(c *card) { c.name = "Anna Müller GmbH" })}, nil},
		"somebody of her family, with one e-mail": {1, []card{anna, bernd}, nil},
		"all of a family, each linked": {3,
			[]card{anna, bernd, anna.but(func(c *card) { c.name = "Clara Müller" })}, nil},
		"a namesake": {1,
			[]card{anna, {name: anna.name, email: "other@example.org", postcode: "20095", line1: "Am Markt 3",
				phone: "040 99887766"}}, nil},
		"a name and a phone, at a place of another one": {1,
			[]card{anna, anna.but(func(c *card) { c.email, c.line1, c.postcode = "other@example.org", "Am Markt 3", "20095" })},
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range duplicates(t, test.ours, test.cards...) {
				got = append(got, p.Record+" "+p.Customer)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("found %v, want %v", got, test.want)
			}
		})
	}
}

func TestDuplicatesDoNotDependOnTheOrderOfTheLists(t *testing.T) {
	t.Parallel()
	p := populate(5, 400, families)
	ours, all := ofOneService(p)
	want, err := Duplicates(t.Context(), All(ours), All(all), Settings{})
	if err != nil || len(want) == 0 {
		t.Fatalf("found %d: %v", len(want), err)
	}
	rnd := rand.New(rand.NewPCG(5, 5))
	for range 5 {
		rnd.Shuffle(len(ours), func(i, j int) { ours[i], ours[j] = ours[j], ours[i] })
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		got, err := Duplicates(t.Context(), listed(ours), listed(all), Settings{Part: 1 + rnd.IntN(300)})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("another order finds %d, and not %d: %v", len(got), len(want), err)
		}
	}
}

// ofOneService takes a population's records for customers that payers are linked to.
func ofOneService(p *population) (ours []Record, all []Customer) {
	for _, r := range p.records {
		c := Customer{Numbers: r.Numbers}
		c.ID, c.Name, c.Addresses, c.ExternalData = r.ID, r.Want.Name, r.Want.Addresses, r.Want.ExternalData
		for _, person := range r.Want.People {
			c.Emails, c.Phones = append(c.Emails, person.Email), append(c.Phones, person.Phone)
		}
		ours, all = append(ours, r), append(all, c)
	}
	return ours, append(all, p.customers...)
}

// The populations hold far more look-alikes than anybody's books do, so this compares levels and is no forecast.
func TestDuplicatesAreSeldomWrong(t *testing.T) {
	t.Parallel()
	right, wrong, by := 0, 0, map[string]int{}
	for _, seed := range []uint64{1, 2} {
		p := populate(seed, 1000, families)
		ours, all := ofOneService(p)
		found, err := Duplicates(t.Context(), All(ours), All(all), Settings{Region: "DE"})
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range found {
			if p.right(pair.Record, pair.Customer) {
				right++
				continue
			}
			wrong++
			by[p.family[pair.Record]]++
			if testing.Verbose() && by[p.family[pair.Record]] < 4 {
				t.Logf("wrong, %s: %d %s", p.family[pair.Record], pair.Score, Why(pair.Codes))
			}
		}
	}
	t.Logf("%d right, %d wrong: %v", right, wrong, by)
	if float64(wrong) > 0.05*float64(right+wrong) {
		t.Errorf("of %d pairs %d are wrong: %v", right+wrong, wrong, by)
	}
}

// BenchmarkDuplicates compares PAYERSYNC_BENCH_CUSTOMERS linked customers with as many others, 2,000 by default.
func BenchmarkDuplicates(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("PAYERSYNC_BENCH_CUSTOMERS"))
	if err != nil {
		n = 2_000
	}
	p := populate(99, n, families)
	ours, all := ofOneService(&population{records: p.records[:n], customers: p.customers[:n]})
	var peak atomic.Uint64
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(200 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapInuse))
			}
		}
	}()
	for b.Loop() {
		found, err := Duplicates(b.Context(), All(ours), All(all), Settings{Region: "DE"})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(found)), "pairs")
	}
	close(done)
	b.ReportMetric(float64(peak.Load())/(1<<20), "peak-MiB")
}
