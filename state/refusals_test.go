package state

import (
	"slices"
	"testing"
	"time"
)

func TestRefusedRequestsAddUpByDayAndReasonAndAreKeptForNinetyDays(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	began := d.Now()
	refuse := func(more ...Refusals) { d.do(func(tx *Tx) error { return tx.AddRefusals(more) }) }
	later := began.Add(time.Minute)
	refuse(NewRefusals("signature_failed", 3, later, later), NewRefusals("too_large", 1, began, began))
	refuse(NewRefusals("signature_failed", 4, began, later.Add(time.Minute)),
		NewRefusals("signature_failed", 2, began.Add(day), began.Add(day)))
	want := []Refusals{
		NewRefusals("signature_failed", 2, began.Add(day), began.Add(day)),
		NewRefusals("signature_failed", 7, began, later.Add(time.Minute)),
		NewRefusals("too_large", 1, began, began),
	}
	if got, err := d.Refusals(t.Context(), began); err != nil || !slices.Equal(got, want) {
		t.Errorf("it holds %+v, %v\nwant %+v", got, err, want)
	}
	if got, err := d.Refusals(t.Context(), began.Add(day)); err != nil || !slices.Equal(got, want[:1]) {
		t.Errorf("since a day later it holds %+v, %v", got, err)
	}
	d.clock.move(RefusalsKept + time.Hour)
	would, err := d.WouldRetain(t.Context(), Retention{Bodies: day, Details: day})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := d.Retain(t.Context(), Retention{Bodies: day, Details: day}); err != nil || done != would ||
		done.Refusals != 2 {
		t.Errorf("it did %+v and would have done %+v, %v", done, would, err)
	}
	if got, err := d.Refusals(t.Context(), began); err != nil || !slices.Equal(got, want[:1]) {
		t.Errorf("after ninety days it holds %+v, %v", got, err)
	}
}
