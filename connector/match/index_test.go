package match

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Most customers of a long list look like nobody, and what very many have in common leads to
// none of them. Whoever is kept is found by everything that a record shares with few.
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
	s := &search{Settings: Settings{Region: "DE"}}
	for _, r := range p.records {
		s.records = append(s.records, entryOfRecord(r, s.Region))
	}
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
		for key := range s.records[i].keys {
			var want, got []string
			if want = have[key]; len(want) > mostAlike {
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
	if over == 0 || len(kept) != len(reached) || len(kept) == len(p.customers) || kept["X000"] {
		t.Errorf("%d keys that too many have; %d customers kept, %d of them found, of %d", over, len(kept), len(reached), len(p.customers))
	}
	if n := s.counts.emails["office@accountant.example"]; n[0] < 1 || n[1] != 3*mostAlike {
		t.Errorf("the accountant's address is counted %v times", n)
	}
}

// An address of too many leads to nobody, and is told with how many have it all the same.
func TestWhatTooManyShareIsCountedOverTheWholeList(t *testing.T) {
	t.Parallel()
	customers := []Customer{anna.customer("C0")}
	for i := range 2 * mostAlike {
		customers = append(customers, card{name: fmt.Sprintf("Stranger%d Else%d", i, i), email: anna.email}.customer(fmt.Sprint("S", i)))
	}
	found, err := Find(t.Context(), []Record{anna.record("R1")}, listed(customers), Settings{Region: "DE"})
	if err != nil || len(found) != 1 || found[0].Best == nil || found[0].Best.Customer != "C0" || len(found[0].Others) > 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	if told := found[0].Best.told(); !strings.Contains(told, fmt.Sprintf("%d customers share this e-mail", 2*mostAlike+1)) {
		t.Errorf("because %s", told)
	}
}

func TestWhoIsFoundIsMarkedAndNobodyElse(t *testing.T) {
	t.Parallel()
	var asked []string
	customers := []Customer{anna.customer("C1"), nordwind.customer("C2"), anna.customer("C3")}
	found, err := Find(t.Context(), []Record{anna.record("R1")}, listed(customers), Settings{Region: "DE", Mark: func(found []*Customer) error {
		for _, c := range found {
			asked = append(asked, c.ID)
			if c.ID == "C1" {
				c.Taken = "linked to record R9"
			}
		}
		return nil
	}})
	if err != nil || len(found) != 1 || found[0].Best == nil || found[0].Best.Customer != "C3" || found[0].Others[0].Taken != "linked to record R9" {
		t.Fatalf("%+v, %v", found, err)
	}
	if slices.Sort(asked); !slices.Equal(asked, []string{"C1", "C3"}) {
		t.Errorf("%v were asked about", asked)
	}
}
