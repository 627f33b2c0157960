package state

import (
	"testing"
)

// An update format is trusted after one clean round trip, for the members that were there. It is dropped
// after two losses, or after one without another explanation.
func TestAWayOfUpdatingIsBelievedByItsRoundTrips(t *testing.T) {
	t.Parallel()
	clean := Verification{By: TripUpdate, Subject: "change 1"}
	rich := Verification{By: TripProbe, Survived: []string{"notes", "externalData"}}
	doubt := Verification{By: TripUpdate, Lost: []string{"notes"}}
	sure := Verification{By: TripUpdate, Lost: []string{"notes"}, Sure: true}
	word := Verification{By: TripPerson, Survived: []string{TripAny}}
	for _, c := range []struct {
		name                  string
		trips                 []Verification
		bare, full, disproved bool
	}{
		{"none", nil, false, false, false},
		{"a clean one with nothing of others", []Verification{clean}, true, false, false},
		{"a clean one with all kinds", []Verification{rich}, true, true, false},
		{"one doubt", []Verification{doubt}, false, false, false},
		{"two doubts", []Verification{doubt, doubt}, false, false, true},
		{"a doubt between clean ones", []Verification{doubt, clean, doubt}, true, false, false},
		{"a loss that nothing else explains", []Verification{rich, sure}, false, false, true},
		{"two doubts, then a probe", []Verification{doubt, doubt, rich}, true, true, false},
		{"two doubts, then a person's word", []Verification{doubt, doubt, word}, true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newDesk(t).Ledger
			way := UpdateFormat{"api.example.com/v1", "update=body_id"}
			for _, trip := range c.trips {
				if err := l.Do(t.Context(), func(tx *Tx) error { return tx.SaveRoundTrip(way, trip) }); err != nil {
					t.Fatal(err)
				}
			}
			p, err := l.RoundTrip(t.Context(), UpdateFormat{"API.example.com/v1", way.Spelling})
			if err != nil || len(p.Trips) != len(c.trips) {
				t.Fatalf("%d round trips: %v", len(p.Trips), err)
			}
			if bare, full, disproved := p.Covers(nil), p.Covers([]string{"notes"}), len(p.Disproved()) > 0; bare != c.bare ||
				full != c.full || disproved != c.disproved {
				t.Errorf("covers nothing of others %t, notes %t; disproved %t", bare, full, disproved)
			}
			if other, err := l.RoundTrip(t.Context(), UpdateFormat{way.Address, "update=path_id"}); err != nil || len(other.Trips) > 0 {
				t.Errorf("another way has %d round trips: %v", len(other.Trips), err)
			}
		})
	}
}
