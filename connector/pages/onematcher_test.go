package pages_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/connector/readiness"
	"payersync/connector/syncer"
	"payersync/internal/longtest"
	"payersync/state"
)

// business is one of the story: it has a customer already, as somebody wrote it by hand.
type business struct{ name, email, street, postcode string }

func businesses(n int) (out []business) {
	firsts := strings.Fields("Ashcombe Brindle Cawthorn Denholme Eastoft Fulwood Garstang Haverton Ingleby Jarrow Kirkstall Lowther Marsden Netherby Oakworth")
	trades := strings.Fields("Bakery Brewery Carpets Dairy Electrics Florists Garage Hosiery Ironworks Joinery Kennels Laundry Motors Nursery Opticians Printers Quarry Roofing Saddlery Timber")
	for i := range n {
		first, trade := firsts[i%len(firsts)], trades[i/len(firsts)]
		out = append(out, business{first + " " + trade + " Ltd",
			fmt.Sprintf("%s@%s.example", strings.ToLower(trade), strings.ToLower(first)), fmt.Sprintf("%d Mill Lane", i+1),
			fmt.Sprintf("LS%d %dAB", 1+i/10, i%10)})
	}
	return out
}

// asInBooks writes a business as the accountant has it: the same, without an address, with another form of Limited, with
// a letter lost, and under the name of its owner.
func (b business) asInBooks(i int) (name, email string) {
	switch i % 5 {
	case 1:
		return b.name, ""
	case 2:
		return strings.Replace(b.name, "Ltd", "Limited", 1), "office@accountant.example"
	case 3:
		return b.name[:3] + b.name[4:], ""
	case 4:
		return "Joan Hale trading as " + strings.TrimSuffix(b.name, " Ltd"), b.email
	}
	return b.name, b.email
}

// The service has 300 customers, and the books have them all, spelt otherwise, and 40 new ones.
//
// covers F101
func TestEverybodyCountsTheSameMatchesAndNobodyIsMadeTwice(t *testing.T) {
	longtest.Story(t, longtest.Computing)
	t.Parallel()
	const there, fresh = 300, 40
	h := newHouse(t)
	books, is := strings.Builder{}, map[string]string{}
	books.WriteString(header)
	for i, b := range businesses(there) {
		raw := must(json.Marshal(map[string]any{"name": b.name,
			"people":    []map[string]string{{"name": "Desk", "email": b.email}},
			"addresses": []map[string]string{{"line1": b.street, "city": "Leeds", "postCode": b.postcode}}}))(t)
		id := fmt.Sprintf("M%03d", i)
		is[id] = must(h.box.Add(raw))(t)
		name, email := b.asInBooks(i)
		fmt.Fprintf(&books, "%s,%s,Ann,%s,,%s,Leeds,%s,,,,Active,\n", id, name, email, b.street, b.postcode)
	}
	for i := range fresh {
		fmt.Fprintf(&books, "N%03d,Xanthe%d Zephyr%d Ltd,Ann,new%d@xz%d.example,,%d Quay,Hull,HU%d 1AA,,,,Active,\n", i, i*7,
			i*11, i, i, i+900, i+1)
	}
	h.books([]byte(books.String()))
	if res := h.run(false); res.Plan.Creates != fresh || res.Plan.Holds != there {
		t.Fatalf("the plan creates %d and holds %d, want %d and %d: %s", res.Plan.Creates, res.Plan.Holds, fresh, there,
			res.Note)
	}
	h.sameNumber(there)
	h.run(true) // everything that is offered is approved
	h.sameNumber(there)
	words := map[string][]admin.PairWord{}
	for _, l := range must(h.matcher.Now(context.Background()))(t).Rows {
		if got := l.Candidates[0].BillingID; got != is[l.SourceID] {
			t.Errorf("the best candidate of %s is a stranger: %+v", l.SourceID, l.Candidates)
		}
		words[l.Connection] = append(words[l.Connection],
			admin.PairWord{SourceID: l.SourceID, BillingID: l.Candidates[0].BillingID, Says: state.WordAccept})
	}
	olga := syncer.Operator{Name: "olga", Reason: "looked"}
	if err := h.matcher.SayAll(context.Background(), words, olga); err != nil {
		t.Fatal(err)
	}
	if n := must(admin.CountNow(context.Background(), h.ledger,
		0))(t).Number(admin.Which{Class: readiness.Conflict}); n != 0 {
		t.Errorf("%d records are in conflict after every match is decided", n)
	}
	first := words[sample][0]
	one := []admin.Pair{{RecordID: state.RecordID{Connection: sample, SourceID: first.SourceID},
		BillingID: first.BillingID}}
	if left, err := h.matcher.TakeBack(context.Background(), one, olga); err != nil || len(left) > 0 {
		t.Fatalf("%v was not taken back: %v", left, err)
	}
	h.sameNumber(1)
	if err := h.matcher.SayAll(context.Background(), map[string][]admin.PairWord{sample: {first}}, olga); err != nil {
		t.Fatal(err)
	}
	h.sameNumber(0)
	h.run(true)
	h.sameNumber(0)
	if got := len(h.customers()); got != there+fresh {
		t.Errorf("the service has %d customers, want %d", got, there+fresh)
	}
	for id, customer := range is {
		if p, err := h.ledger.Payer(context.Background(), sample, id); err != nil || p.BillingID != customer {
			t.Errorf("%s is linked to %s, want %s: %v", id, p.BillingID, customer, err)
		}
	}
}

// sameNumber checks that the matcher, the ledger's counts, the lists and the pages agree on the number of
// records with matches.
func (h *house) sameNumber(want int) {
	h.t.Helper()
	ctx := context.Background()
	open := 0
	for _, s := range must(h.syncer.Match(ctx, h.conn))(h.t) { // payers match
		if len(s.Free()) > 0 {
			open++
		}
	}
	counted := must(h.ledger.MatchCount(ctx, sample))(h.t)
	held := must(h.ledger.Attention(ctx, state.Filter{State: string(connector.ReasonLikeness)}))(h.t)
	told := 0
	for _, r := range must(h.ledger.ReasonCounts(ctx))(h.t) { // status and report
		if r.Reason == connector.ReasonLikeness {
			told = r.Count
		}
	}
	if open != want || counted != want || len(held) != want || told != want {
		h.t.Errorf("the matcher finds %d, the ledger counts %d, %d are held and %d told; want %d", open, counted, len(held),
			told, want)
	}
	h.matcher.Board.Close()
	h.matcher.Board = &admin.Board{}
	page := h.enter(fmt.Sprint("vera", want, len(h.events)), pages.Operator).get("/matches", http.StatusOK)
	if want == 0 {
		holds(h.t, page, "No payer waits for a decision")
		return
	}
	holds(h.t, page, fmt.Sprintf("%d payer", want), "existing customer", "Score", "@")
}
