package state

import "testing"

func TestCountsByLinkSayHowManyOfThemLeftTheBooks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(5)
	if err := d.Do(t.Context(), func(tx *Tx) error {
		return tx.exec("UPDATE source_records SET state = 'archived' WHERE source_id = (SELECT min(source_id) FROM payers WHERE link_state = 'linked')")
	}); err != nil {
		t.Fatal(err)
	}
	for state := range map[string]bool{"linked": true, "new": true} {
		listed, left := 0, 0
		for _, r := range d.records(RecordFilter{Link: state}) {
			listed++
			if r.Left {
				left++
			}
		}
		funnel, err := d.Funnel(t.Context())
		numbers, countErr := d.NewCounter().Count(t.Context())
		counted := PayerCount{}
		for _, p := range numbers.Payers {
			if p.State == state {
				counted.N, counted.Left = counted.N+p.N, counted.Left+p.Left
			}
		}
		if err != nil || countErr != nil || funnel.Payers[state] != listed || funnel.Left[state] != left ||
			counted.N != listed || counted.Left != left || state == "linked" && left != 1 {
			t.Errorf("%s: %d are listed, %d of them left; the funnel counts %d and %d, the metrics %+v: %v, %v", state, listed,
				left, funnel.Payers[state], funnel.Left[state], counted, err, countErr)
		}
	}
}
