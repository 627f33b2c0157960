package pages_test

import (
	"context"
	"testing"

	"payersync/connector/pages"
	"payersync/state"
)

// The overview names the payers of the last day, and a person gives a field back to the write-back.
func TestNamesOfTheLastDayAndFieldsOfOthersInABrowser(t *testing.T) {
	h, _ := newPost(t)
	h.books(bakeries(8))
	h.run(true)
	h.activate(2)
	h.recount()
	h.field = &field{}
	target := must(h.writer(context.Background(), sample))(t)
	for _, l := range []look{{width: 1280}, {width: 390}} {
		h.do(func(tx *state.Tx) error {
			return tx.FieldIsTheirs(state.RecordID{Connection: sample, SourceID: "HB003"}, target.SetupHash(),
				state.WritebackField{}, "")
		})
		b := h.browse(l)
		b.name = "named-" + l.String()
		h.signIn(b, "olga", pages.Operator)
		b.open("/")
		b.stop("Last 24 hours", "8 customers created", "Bakery 8 Limited", "and 3 more", "2 mandates became active")
		b.open(writesOf + "?show=stuck")
		b.stop("Changed by somebody else", "Bakery 3 Limited")
		b.open("/payers/" + sample + "/HB003")
		b.stop("Write to the field again…")
		b.press(`a[href$="/HB003/field"]`)
		b.stop("Write to the field again", "Somebody else changed the field", "No action takes it back.")
		b.fill("#reason", "a slip of the pen")
		b.press("main form[method=post] button.primary")
		b.stop("The next run of the write-back writes to the field again.")
	}
}
