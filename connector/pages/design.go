package pages

import (
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// design shows every part of the pages once, with invented data. Only the demo serves it.
func (v *visit) design() error {
	at := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	pair := func(id, name string, score int) matchRow {
		return matchRow{RecordID: state.RecordID{Connection: "books", SourceID: id}, Name: name, Path: "/design", ID: id,
			Score: score, Alike: "same name; same e-mail",
			Ours:   shownSide{Number: id, Email: "accounts@" + id + ".example", Place: "LS1 4AP Leeds"},
			Theirs: shownSide{Name: name, Email: "office@" + id + ".example"}}
	}
	return v.show("design", "Parts", struct {
		Chips   []chip
		Shares  []share
		Needs   []needRow
		Choices []choiceOf
		Tiles   []tile
		Steps   []stepOn
		Matches []matchRow
		Pager   pager
		Sides   []side
		Events  []event
		Chart   *chart
		Confirm asked
	}{
		Chips: []chip{mandate("ACTIVE"), mandate("CREATED"), mandate("PENDING"), mandate("CANCELLED"), mandate("")},
		Shares: []share{{"can be debited", good, 138, "/design", 0, 752},
			{"signed, bank decides", bank, 9, "/design", 754, 47}, {"awaiting signature", waits, 24, "/design", 803, 129},
			{"no mandate requested", none, 4, "/design", 934, 20}, {"cancelled", stopped, 8, "/design", 956, 44}},
		Needs: []needRow{
			{Line: admin.Line{Kind: admin.KindPlan, Title: "A plan waits for approval",
				Detail: "141 new customers are above the limit of 20.", Count: 1, Who: connector.WhoYou,
				Next: "Look at the changes, then approve or reject them.", Otherwise: "payersync sends none of these changes.",
				Since: at, Urgent: true}, Path: "/design", On: leads{"/design", "Review"}},
			{Line: admin.Line{Kind: admin.KindFinding, Title: "No e-mail address", Count: 12, Who: connector.WhoBooks,
				Next: "Enter an e-mail address in the accounting system.", Otherwise: "payersync requests no mandate from them.",
				Since: at}, Path: "/design", On: leads{"/design", "Show them"}},
		},
		Choices: []choiceOf{{"All", "/design", 183, true}, {"Awaiting signature", "/design", 24, false},
			{"Active", "/design", 138, false}},
		Tiles: []tile{{"141", "new customers"}, {"2", "updates"}, {"131", "signing links"},
			{"2 minutes", "for 274 requests"}},
		Steps: []stepOn{{"Record read", true, time.Time{}}, {"In the service", true, at}, {"Asked to sign", true, at},
			{Title: "Signed"}, {Title: "Active"}},
		Matches: []matchRow{pair("k2066", "Okafor Nursery", 97),
			pair("k2003", "MacDonald Nursery (Holdings) of Bath and North East Somerset plc", 61)},
		Pager: pager{Next: "/design"}.of(2, 300),
		Sides: []side{{Label: "E-mail", Ours: "priya@patel-dental.example", Theirs: "p.patel@old.example", Differs: true},
			{Label: "City", Ours: "Leeds", Theirs: "Leeds"}},
		Events: []event{{At: at, What: "Signing link requested", Why: "run 2"},
			{At: at, What: "Created in the billing service", Why: "run 1"}},
		Chart: newChart("Since when", "Days in the same state.", "Days", "Payers", []string{"0–7", "8–14", ">14"},
			[]int{12, 7, 3}),
		Confirm: asked{shownPayer: shownPayer{Path: "/design"}, Act: "cancel", Danger: true, Needs: true,
			Preview: admin.Preview{Title: "Cancel the mandate",
				Becomes: "The payer can no longer be debited. A new mandate needs a new signature."}},
	})
}
