package pages

import (
	"strconv"

	"payersync/state"
)

// runs lists the runs, the newest first.
func (v *visit) runs() error {
	after, _ := strconv.ParseInt(v.filled("after"), 10, 64)
	rows, err := v.ledger().RunPage(v.Context(), after, rowsShown+1)
	if err != nil {
		return err
	}
	next := ""
	if len(rows) > rowsShown {
		rows = rows[:rowsShown]
		next = strconv.FormatInt(rows[rowsShown-1].RunID, 10)
	}
	return v.show("runs", "Runs", struct {
		Rows  []state.RunDetail
		Pager pager
	}{rows, v.page(next)})
}
