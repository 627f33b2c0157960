package match

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/internal/longtest"
)

// Most customers of a long list resemble nobody, and common values lead to none of them. Every rare value of
// a record leads to its customers.
func TestTheIndexLeadsToWhoeverSharesWhatFewHave(t *testing.T) {
	t.Parallel()
	p := populate(300, 200, families)
	for i := range 3 * mostAlike {
		c := p.customers[i]
		if i%3 == 0 {
			c = card{name: fmt.Sprintf("Nobody%d Else%d", i, i)}.customer("")
		}
		c.ID, c.Emails = fmt.Sprintf("X%03d", i), []string{"office@accountant.example"}
		p.customers = append(p.customers, c)
	}
	p.records[0].Want.People[0].Email = "office@accountant.example"
	s := &search{Settings: Settings{Region: "DE"}, counts: newCounts()}
	for _, r := range p.records {
		s.records = append(s.records, entryOfRecord(r, s.Region))
		s.counts.add(&s.records[len(s.records)-1])
	}
	s.index = newIndex(s.records)
	if err := s.meetAll(listed(p.customers)); err != nil {
		t.Fatal(err)
	}
	have, reached := map[uint64][]string{}, map[string]bool{}
	for _, c := range p.customers {
		e := entryOfCustomer(c, s.Region)
		for key := range e.keys {
			if !slices.Contains(have[key], c.ID) {
				have[key] = append(have[key], c.ID)
			}
		}
	}
	over := 0
	for i := range s.records {
		for key, strong := range s.records[i].keys {
			var want, got []string
			switch want = have[key]; {
			case len(want) <= mostAlike:
			case strong:
				want, over = want[:mostAlike], over+1
			default:
				want, over = nil, over+1
			}
			for _, k := range s.index.customers(key) {
				got = append(got, s.near[k].id)
				reached[s.near[k].id] = true
			}
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("%s is led to %v, want %v", s.records[i].id, got, want)
			}
		}
	}
	kept := map[string]bool{}
	for _, n := range s.near {
		if n.id != "" {
			kept[n.id] = true
		}
	}
	if over == 0 || len(kept) != len(reached) || len(kept) == len(p.customers) || kept["X297"] {
		t.Errorf("%d keys that too many have; %d customers kept, %d of them found, of %d", over, len(kept), len(reached),
			len(p.customers))
	}
	if n := s.counts.emails["office@accountant.example"]; n[0] < 1 || n[1] != 3*mostAlike {
		t.Errorf("the accountant's address is counted %v times", n)
	}
}

// For an address of too many the record is held, and told with how many have it.
func TestWhatTooManyShareIsCountedOverTheWholeList(t *testing.T) {
	t.Parallel()
	customers := []Customer{anna.customer("C0")}
	for i := range 2 * mostAlike {
		customers = append(customers,
			card{name: fmt.Sprintf("Stranger%d Else%d", i, i), email: anna.email}.customer(fmt.Sprint("S", i)))
	}
	found, err := Find(t.Context(), listed([]Record{anna.record("R1")}), listed(customers), Settings{Region: "DE"})
	if err != nil || len(found) != 1 || found[0].Best == nil || found[0].Best.Customer != "C0" ||
		len(found[0].Others) != 3 || found[0].Others[0].Score != 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	if told := found[0].Best.told(); !strings.Contains(told,
		fmt.Sprintf("%d customers share this e-mail", 2*mostAlike+1)) {
		t.Errorf("because %s", told)
	}
}

func TestARecordWithANameOfVeryManyHasCandidates(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Anna Berg", "#"} {
		var customers []Customer
		for i := range 3 * mostAlike {
			customers = append(customers, card{name: name}.customer(fmt.Sprint("C", i)))
		}
		found, err := Find(t.Context(), listed([]Record{card{name: name}.record("R1")}), listed(customers), Settings{})
		if err != nil || len(found) != 1 || len(found[0].Free()) == 0 {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}

func TestTakenCustomersDoNotCrowdOutTheFreeOne(t *testing.T) {
	t.Parallel()
	var customers []Customer
	for i := range 3 * kept {
		c := anna.customer(fmt.Sprint("C", i))
		c.Taken = "linked to record R9"
		customers = append(customers, c)
	}
	free := card{name: "Anna Müller", postcode: "50667"}.customer("free")
	found, err := Find(t.Context(), listed([]Record{anna.record("R1")}), listed(append(customers, free)),
		Settings{Region: "DE"})
	if err != nil || len(found) != 1 || len(found[0].Free()) != 1 || found[0].Best.Customer != "free" {
		t.Fatalf("%+v, %v", found, err)
	}
}

func TestTheSizeOfAPartDoesNotMatter(t *testing.T) {
	longtest.Story(t, longtest.Computing)
	t.Parallel()
	p := populate(7, 200, families)
	whole, err := Find(t.Context(), listed(p.records), listed(p.customers), Settings{Region: "DE"})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 7, len(p.records) - 1, len(p.records)} {
		parts, err := Find(t.Context(), listed(p.records), listed(p.customers), Settings{Region: "DE", Part: size})
		if diff := cmp.Diff(whole, parts); err != nil || diff != "" {
			t.Errorf("parts of %d: %v (-whole +parts):\n%s", size, err, diff)
		}
	}
}
