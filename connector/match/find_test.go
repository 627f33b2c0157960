package match

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestACustomerThatTwoRecordsClaimIsForAPerson(t *testing.T) {
	t.Parallel()
	found := find(t, []card{anna, anna}, []card{anna})
	proposed := 0
	for _, id := range []string{"R1", "R2"} {
		pairs := found[id].Others
		if found[id].Best != nil {
			proposed++
			pairs = append(pairs, *found[id].Best)
		}
		if len(pairs) != 1 || pairs[0].Score > recordToo.limit || pairs[0].Bulk() ||
			!strings.Contains(pairs[0].told(), "another record fits as well") {
			t.Errorf("%s: %+v", id, pairs)
		}
	}
	if proposed != 1 {
		t.Errorf("the customer is proposed %d times", proposed)
	}
}

func TestARecordThatTwoCustomersFitIsForAPerson(t *testing.T) {
	t.Parallel()
	s := find(t, []card{anna}, []card{anna, anna.but(func(c *card) { c.line1 = "" })})["R1"]
	if s.Best == nil || s.Best.Customer != "C1" || len(s.Others) != 1 || s.Others[0].Customer != "C2" {
		t.Fatalf("%+v", s)
	}
	for _, p := range []Pair{*s.Best, s.Others[0]} {
		if p.Score > customerToo.limit || !strings.Contains(p.told(), "another customer fits as well") {
			t.Errorf("%s: %d because %s", p.Customer, p.Score, p.told())
		}
	}
}

func TestATakenCustomerIsShownAndNeverProposed(t *testing.T) {
	t.Parallel()
	s := find(t, []card{anna}, []card{anna}, "C1")["R1"]
	if s.Best != nil || len(s.Others) != 1 || s.Others[0].Taken != "linked to record R9" || s.Others[0].Bulk() ||
		s.Others[0].Score != 100 {
		t.Errorf("%+v", s)
	}
	// And it makes the free one doubtful: the record may be in the accounting system twice.
	s = find(t, []card{anna}, []card{anna, anna}, "C1")["R1"]
	if s.Best == nil || s.Best.Customer != "C2" || s.Best.Score > customerToo.limit {
		t.Errorf("%+v", s)
	}
}

func TestTwinsOnBothSidesAreToldApart(t *testing.T) {
	t.Parallel()
	anne := anna.but(func(c *card) { c.name = "Anne Müller" })
	found := find(t, []card{anna, anne}, []card{anne, anna})
	if found["R1"].Best.Customer != "C2" || found["R2"].Best.Customer != "C1" {
		t.Errorf("%+v", found)
	}
	// One in the books and the other with the service are a typo to look at.
	if one := find(t, []card{anna}, []card{anne})["R1"].Best; one.Bulk() {
		t.Errorf("twins in bulk: %d because %s", one.Score, one.told())
	}
}

func TestBranchesFindTheirOwn(t *testing.T) {
	t.Parallel()
	branch := nordwind.but(func(c *card) { c.phone, c.line1, c.postcode = "030 555777", "Ring 9", "10115" })
	found := find(t, []card{nordwind, branch}, []card{branch, nordwind})
	if found["R1"].Best.Customer != "C2" || found["R2"].Best.Customer != "C1" {
		t.Errorf("%+v", found)
	}
	if one := find(t, []card{nordwind}, []card{branch})["R1"].Best; one.Bulk() ||
		!strings.Contains(one.told(), "different postcode") {
		t.Errorf("branches in bulk: %d because %s", one.Score, one.told())
	}
}

func TestWhatAPersonRejectedIsPassedOver(t *testing.T) {
	t.Parallel()
	records, customers := []Record{anna.record("R1")}, []Customer{anna.customer("C1"), anna.customer("C2")}
	found, err := Find(t.Context(), listed(records), listed(customers),
		Settings{Rejected: func(r, c string) bool { return r == "R1" && c == "C1" }})
	if err != nil || len(found) != 1 || found[0].Best.Customer != "C2" || len(found[0].Others) > 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	if strings.Contains(found[0].Best.told(), "fits as well") {
		t.Errorf("the rejected customer still counts: %s", found[0].Best.told())
	}
}

func TestWhoIsHeldForALikenessIsListed(t *testing.T) {
	t.Parallel()
	stranger := card{name: "Quayside Motors Ltd", email: anna.email, postcode: "80331"}
	namesake := card{name: "Anna Müller", email: "other@web.de", phone: "0221 999888", postcode: "50667"}
	for _, c := range []card{stranger, namesake} {
		if s := find(t, []card{anna}, []card{c})["R1"]; s.Best == nil || s.Best.Score > postcodeDiffers.limit {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	if found := find(t, []card{anna},
		[]card{{name: "Peter Olsen", email: "peter@web.de", postcode: "10115"}}); len(found) > 0 {
		t.Errorf("a stranger is listed: %+v", found)
	}
}

func TestIdsAreDistinct(t *testing.T) {
	t.Parallel()
	r, k := anna.record("R1"), anna.customer("C1")
	for _, tt := range []struct {
		records   []Record
		customers []Customer
		want      string
	}{
		{[]Record{r, r}, nil, `two records have the id "R1"`},
		{[]Record{r}, []Customer{k, k}, `two customers have the id "C1"`},
		{[]Record{{}}, nil, `two records have the id ""`},
	} {
		if _, err := Find(t.Context(), listed(tt.records), listed(tt.customers), Settings{}); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

func TestFindStopsWhenItIsTold(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx, listed([]Record{anna.record("R1")}), listed[Customer](nil), Settings{}); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
}

// Invariants for any population and order of lists.
func TestProposalsAreOneToOneAndClear(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		p := populate(100+seed, 300, slices.Concat(families, heldOut))
		for i := range p.customers {
			if i%7 == 0 {
				p.customers[i].Taken = "carries the key id=1"
			}
		}
		found, err := Find(t.Context(), listed(p.records), listed(p.customers), Settings{Region: "DE", RunnersUp: kept})
		if err != nil {
			t.Fatal(err)
		}
		given, scores := map[string]string{}, map[string][]Pair{} // pairs of a record or a customer
		for i, s := range found {
			if i > 0 && s.score() > found[i-1].score() {
				t.Errorf("seed %d: %s is not in its place", seed, s.Record)
			}
			pairs := s.Others
			if s.Best != nil {
				if first := given[s.Best.Customer]; first != "" || s.Best.Taken != "" {
					t.Errorf("seed %d: %s is proposed for %s and %q, taken: %q", seed, s.Best.Customer, s.Record, first, s.Best.Taken)
				}
				given[s.Best.Customer] = s.Record
				pairs = append(pairs, *s.Best)
			}
			for _, pair := range pairs {
				scores[pair.Record], scores[pair.Customer] = append(scores[pair.Record], pair), append(scores[pair.Customer], pair)
			}
		}
		for id, pairs := range scores {
			for _, a := range pairs {
				near := func(b Pair) bool { return b.Record+b.Customer != a.Record+a.Customer && b.Score >= a.Score-Margin }
				if a.Score < 0 || a.Score > 100 || a.Score >= BulkLevel && slices.ContainsFunc(pairs, near) {
					t.Errorf("seed %d: %s has %+v among %+v", seed, id, a, pairs)
				}
			}
		}

		rnd := rand.New(rand.NewPCG(seed, 1))
		rnd.Shuffle(len(p.records), func(i, j int) { p.records[i], p.records[j] = p.records[j], p.records[i] })
		rnd.Shuffle(len(p.customers), func(i, j int) { p.customers[i], p.customers[j] = p.customers[j], p.customers[i] })
		again, err := Find(t.Context(), listed(p.records), listed(p.customers), Settings{Region: "DE", RunnersUp: kept})
		if err != nil || !reflect.DeepEqual(found, again) {
			t.Errorf("seed %d: another order of the lists gives other proposals (%v)", seed, err)
		}
	}
}

// Blocking leaves out what is not worth a look, and nothing else: every pair is
// compared with every other here.
func TestNothingWorthALookIsMissed(t *testing.T) {
	t.Parallel()
	missed, all := 0, 0
	for seed := range uint64(2) {
		p := populate(200+seed, 400, families)
		found, err := Find(t.Context(), listed(p.records), listed(p.customers), Settings{Region: "DE", RunnersUp: kept})
		if err != nil {
			t.Fatal(err)
		}
		met := map[[2]string]bool{}
		for _, s := range found {
			for _, pair := range append(s.Others, Above([]Suggestion{s}, 0)...) {
				met[[2]string{pair.Record, pair.Customer}] = true
			}
		}
		var records, customers []entry
		for _, r := range p.records {
			records = append(records, entryOfRecord(r, "DE"))
		}
		for _, c := range p.customers {
			customers = append(customers, entryOfCustomer(c, "DE"))
		}
		counts := newCounts()
		for i := range records {
			counts.add(&records[i])
		}
		for i := range customers {
			counts.count(&customers[i])
		}
		for i := range records {
			for k := range customers {
				v := counts.compare(nil, &records[i], &customers[k])
				if v.score() < 60 {
					continue
				}
				all++
				if !met[[2]string{records[i].id, customers[k].id}] {
					missed++
					t.Logf("missed at %d: %+v and %+v", v.score(), p.records[i], p.customers[k])
				}
			}
		}
	}
	if all < 300 || missed > 0 {
		t.Errorf("%d of %d pairs that are worth a look are missed", missed, all)
	}
}
