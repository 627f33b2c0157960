package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/internal/longtest"
	"payersync/state"
)

var knownCustomers = longtest.Int("known-customers", 60, 500, "customers that the service has before payersync comes")

// matchedMapping writes the key on customers without one.
const matchedMapping = `version: 1
source: csv
key: {accountNumber: AccountNumber}
customer:
  name: trim(Name)
  people:
    - {name: trim(Name), email: lower(trim(Email)), phone: trim(Phone)}
  addresses:
    - {line1: Street, city: '"Leeds"', postCode: Depot}
mandate:
  request: any(customer.people, .email != "")
`

// trader is somebody in the world, as the books or the service write it down.
type trader struct{ name, email, phone, street, postcode string }

// typo swaps two letters in the middle of the longest word.
func typo(name string) string {
	words := strings.Fields(name)
	longest := 0
	for i, w := range words {
		if len(w) > len(words[longest]) {
			longest = i
		}
	}
	w := []byte(words[longest])
	i := len(w) / 2
	w[i-1], w[i] = w[i], w[i-1]
	if string(w) == words[longest] {
		w = slices.Delete(w, i, i+1)
	}
	words[longest] = string(w)
	return strings.Join(words, " ")
}

// crowd makes different traders.
type crowd struct {
	rnd  *rand.Rand
	seen map[string]bool
	n    int
}

func (c *crowd) pick(from string) string {
	words := strings.Fields(from)
	return words[c.rnd.IntN(len(words))]
}

func (c *crowd) next() trader {
	c.n++
	t := trader{
		email: fmt.Sprintf("office@t%05d.example", c.n), phone: fmt.Sprintf("01632 %06d", 100_000+c.n),
		street:   fmt.Sprintf("%d %s Street", 1+c.rnd.IntN(200), c.pick("Mill Bridge Station Church Market Victoria Albert")),
		postcode: fmt.Sprintf("LS%d %d%c%c", 1+c.rnd.IntN(28), 1+c.rnd.IntN(9), 'A'+c.rnd.IntN(20), 'A'+c.rnd.IntN(20)),
	}
	for {
		if c.rnd.IntN(3) == 0 {
			t.name = c.pick("Amelia Brian Chidi Deirdre Edmund Farida Gareth Hannah Imran Joanna Kwame Lorna Mateusz Niamh Oliver Priya Rhiannon Stefan Tariq Ursula Violet Winston Yusuf Zoe") +
				" " + c.pick("A. B. C. D. E. F. G. H. J. K. L. M.") + " " +
				c.pick("Abernethy Blackwood Castellan Drummond Eastwood Fairbrother Greenhalgh Hathersage Ingleby Jankowski Kavanagh Lockwood Merriweather Nakamura Okonkwo Pemberton Quigley Ravenscroft Somerville Thistlewood Underhill Vasquez Wetherby Yardley")
		} else {
			t.name = c.pick("Amber Blue Copper Dapple Elder Fern Golden Hazel Iron Juniper Knoll Larch Maple Nettle Oaken Poplar Quarry Rowan Silver Thorn Umber Velvet Willow Yew") + " " +
				c.pick("Anchor Barrow Castle Dale Ember Forge Garden Harbour Island Junction Kettle Lantern Meadow Needle Orchard Paddock Quay River Steeple Tower Upland Valley Wharf Yard") + " " +
				c.pick("Bakery Brewing Cabinets Dairy Electrics Flooring Glazing Haulage Ironworks Joinery Kitchens Logistics Millers Nurseries Optics Plumbing Roofing Textiles Upholstery Vets") + " Ltd"
		}
		if !c.seen[t.name] {
			c.seen[t.name] = true
			return t
		}
	}
}

// there is the service's version of a trader in the accounting system.
func (c *crowd) there(ours trader, how int) trader {
	theirs := ours
	switch how % 10 {
	case 1:
		theirs.name = typo(ours.name)
	case 2:
		theirs.name = strings.Replace(ours.name, " Ltd", " Limited", 1)
	case 3:
		theirs.email = "old." + ours.email
	case 4:
		theirs.phone = ""
	case 5:
		theirs.name, theirs.email = typo(ours.name), ""
	case 6:
		theirs.name, theirs.phone = "  "+strings.ToUpper(ours.name), ""
	case 7:
		theirs.street, theirs.postcode = "", ""
	case 8:
		theirs.name, theirs.email, theirs.phone = strings.TrimSuffix(ours.name, " Ltd"), "", ""
	case 9:
		if words := strings.Fields(ours.name); !strings.HasSuffix(ours.name, " Ltd") {
			theirs.name = words[len(words)-1] + ", " + strings.Join(words[:len(words)-1], " ")
		}
	}
	return theirs
}

func (t trader) customer() json.RawMessage {
	person := map[string]string{"name": t.name}
	if t.email != "" {
		person["email"] = t.email
	}
	if t.phone != "" {
		person["phone"] = t.phone
	}
	fields := map[string]any{"name": t.name, "people": []any{person}}
	if t.postcode != "" {
		fields["addresses"] = []any{map[string]string{"line1": t.street, "city": "Leeds", "postCode": t.postcode}}
	}
	raw, _ := json.Marshal(fields)
	return raw
}

// firstDay is a service with n customers, four of five of them among our records, and some further records.
type firstDay struct {
	w      *world
	of     map[string]string // the record that a customer is, by its id
	ours   map[string]bool   // records that have a customer there
	before int
}

func newFirstDay(t *testing.T, n int) *firstDay {
	t.Helper()
	c := &crowd{rnd: rand.New(rand.NewPCG(5, 0)), seen: map[string]bool{}}
	f := &firstDay{of: map[string]string{}, ours: map[string]bool{}, before: n}
	var rows []row
	var there []trader
	var of []string
	enter := func(ours trader) string {
		id := fmt.Sprintf("A%05d", len(rows)+1)
		rows = append(rows, row{ID: id, Name: ours.name, Email: ours.email, Phone: ours.phone, Street: ours.street,
			Depot: ours.postcode})
		return id
	}
	for i := range n * 4 / 5 {
		ours := c.next()
		if i%25 == 4 || i%25 == 14 { // one accountant for several
			ours.email = fmt.Sprintf("books@accountant%d.example", i/250)
		}
		id := enter(ours)
		f.ours[id] = true
		there, of = append(there, c.there(ours, i)), append(of, id)
	}
	for i := range n - len(there) {
		stranger := c.next()
		switch i % 10 {
		case 0: // has the name of one of ours
			stranger.name = rows[c.rnd.IntN(len(rows))].Name
		case 1: // has its accountant
			stranger.email = fmt.Sprintf("books@accountant%d.example", i/100)
		}
		there, of = append(there, stranger), append(of, "")
	}
	for i := range n / 20 { // the service does not have them
		ours := c.next()
		if i%5 == 0 {
			ours.email = fmt.Sprintf("books@accountant%d.example", i/50)
		}
		enter(ours)
	}
	f.w = newWorld(t, rows)
	f.w.write("mapping.yaml", matchedMapping)
	for _, i := range c.rnd.Perm(len(there)) {
		id, err := f.w.box.Add(there[i].customer())
		if err != nil {
			t.Fatal(err)
		}
		f.of[id] = of[i]
	}
	return f
}

// decide fills in a review list with full knowledge.
func (f *firstDay) decide(file string) (accepted, rejected int) {
	f.w.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		f.w.t.Fatal(err)
	}
	cells, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))).ReadAll()
	if err != nil {
		f.w.t.Fatal(err)
	}
	record, customer, decision := slices.Index(cells[0], "record_id"), slices.Index(cells[0], "customer_id"),
		slices.Index(cells[0], "decision")
	for _, line := range cells[1:] {
		// the list keeps spreadsheets from reading ids as numbers
		if f.of[strings.TrimPrefix(line[customer], "'")] == line[record] {
			line[decision] = "accept"
			accepted++
		} else {
			line[decision] = "reject"
			rejected++
		}
		if !f.ours[line[record]] {
			line[decision] = "new"
		}
	}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(cells); err != nil {
		f.w.t.Fatal(err)
	}
	f.w.write(filepath.Base(file), text.String())
	return accepted, rejected
}

// tally is what became of everybody.
type tally struct {
	customers, linked, wrong, doubled, made int
	touched                                 int // strangers that are not as they were
}

func (f *firstDay) count(strangers map[string]string) (n tally) {
	has := map[string]int{}
	for _, c := range f.w.box.Customers() {
		n.customers++
		key := c.ExternalData["accountNumber"]
		if raw, was := strangers[c.ID]; was && raw != string(c.Raw) {
			n.touched++
		}
		record, there := f.of[c.ID]
		switch {
		case key == "":
			continue
		case there && record != key:
			n.wrong++
		case !there && f.ours[key]:
			n.doubled++
		case !there:
			n.made++
		}
		n.linked++
		if has[key]++; has[key] > 1 {
			n.doubled++
		}
	}
	return n
}

// strangers returns the customers without a record.
func (f *firstDay) strangers(all []sandbox.Customer) map[string]string {
	out := map[string]string{}
	for _, c := range all {
		if f.of[c.ID] == "" {
			out[c.ID] = string(c.Raw)
		}
	}
	return out
}

// The sequence that README.md tells for a service that already has the customers: whoever is
// there is found, nobody is made twice, and strangers are left alone.
//
// covers F117
func TestAServiceThatHasTheCustomersIsLinkedInSevenCommands(t *testing.T) {
	t.Parallel()
	f := newFirstDay(t, knownCustomers())
	strangers := f.strangers(f.w.box.Customers())
	took := func(code int, args ...string) {
		t.Helper()
		start := time.Now()
		p := f.w.start(args...)
		<-p.ended // the test's own deadline bounds it: a long form takes minutes
		r := p.wait()
		t.Logf("%6.1f s  payersync %s", time.Since(start).Seconds(),
			strings.ReplaceAll(strings.Join(args, " "), f.w.dir+"/", ""))
		if r.code != code {
			t.Fatalf("payersync %s ended with %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), r.code, code, r.out,
				r.errOut)
		}
	}
	f.w.run("plan", "--limit", "5")
	if n := f.count(strangers); n.customers != f.before || n.linked != 0 {
		t.Fatalf("a plan left %+v", n)
	}
	file := f.w.path("who-is-who.csv")
	took(exitDone, "payers", "match", "--limit", "5")
	took(exitDone, "payers", "same", "--above", "90", "--yes")
	took(exitDone, "payers", "match", "--csv", file)
	accepted, rejected := f.decide(file)
	took(exitDone, "payers", "match", "--import", file, "--yes")
	took(exitDone, "payers", "match", "--finish", "--yes")
	took(exitDone, "backfill", "--yes")

	n := f.count(strangers)
	t.Logf("%d customers before and %d after: %d linked, %d of them made; a person accepted %d and rejected %d; %d wrong matches, %d doubled, %d strangers touched",
		f.before, n.customers, n.linked, n.made, accepted, rejected, n.wrong, n.doubled, n.touched)
	records := len(f.ours) + f.before/20
	if n.linked != records || n.made != f.before/20 || n.customers != f.before+f.before/20 ||
		n.wrong+n.doubled+n.touched > 0 {
		t.Errorf("want all %d records linked, %d customers made, and nobody wrong, doubled or touched", records, f.before/20)
	}
	if r := f.w.expect(exitDone, "sync"); !strings.Contains(r.out,
		fmt.Sprintf("%d unchanged, 0 created, 0 linked, 0 updated", records)) {
		t.Errorf("the next sync says\n%s", r.out)
	}
	var status statusReport
	if err := json.Unmarshal([]byte(f.w.expect(exitDone, "status", "--output", "json").out), &status); err != nil {
		t.Fatal(err)
	}
	for reason, told := range status.Attention {
		t.Errorf("%d need a person: %s", told, connector.Reason(reason).Sentence())
	}
}

// members returns what the service holds of its customers, but for their mandates.
func (f *firstDay) members() map[string]map[string]any {
	f.w.t.Helper()
	out := map[string]map[string]any{}
	for _, c := range f.w.box.Customers() {
		var o map[string]any
		if err := json.Unmarshal(c.Raw, &o); err != nil {
			f.w.t.Fatal(err)
		}
		delete(o, "directDebitMandate")
		out[c.ID] = o
	}
	return out
}

// Strangers who were taken for ours by mistake are, once that is undone, what they were, and
// the records find their own.
//
// covers F76
func TestEveryWrongMatchIsUndoneAndTheServiceIsAsItWas(t *testing.T) {
	t.Parallel()
	f := newFirstDay(t, 60)
	before := f.members()
	wrong, right := map[string]string{}, map[string]string{}
	for _, c := range f.w.box.Customers() {
		if f.of[c.ID] == "" && len(wrong) < 8 {
			wrong[fmt.Sprintf("A%05d", len(wrong)+1)] = c.ID
		} else if f.of[c.ID] != "" {
			right[f.of[c.ID]] = c.ID
		}
	}
	f.w.run("plan")
	records := slices.Sorted(maps.Keys(wrong))
	for _, record := range records {
		f.w.expect(exitDone, "payers", "same", record, wrong[record], "--reason", "looks right", "--yes")
	}
	f.w.expect(exitDone, "payers", "match", "--finish", "--yes")
	f.w.expect(exitAttention, "backfill", "--yes")
	for _, record := range records {
		if key := f.members()[wrong[record]]["externalData"]; fmt.Sprint(key) != "map[accountNumber:"+record+"]" {
			t.Fatalf("the stranger %s was taken for %s, and carries %v", wrong[record], record, key)
		}
		var shown struct {
			Changes []state.PastChange `json:"changes"`
		}
		if err := json.Unmarshal([]byte(f.w.expect(exitDone, "payers", "show", record, "--output", "json").out),
			&shown); err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(shown.Changes, func(c state.PastChange) bool {
			return c.Action == connector.ActionAdopt && c.State == connector.ChangeDone
		})
		if at < 0 {
			t.Fatalf("%s has no adoption to undo: %+v", record, shown.Changes)
		}
		f.w.expect(exitDone, "payers", "undo", fmt.Sprint(shown.Changes[at].ID), "--reason", "a mistake", "--yes")
	}
	f.w.expect(exitAttention, "sync")
	after := f.members()
	for _, record := range records {
		if diff := cmp.Diff(before[wrong[record]], after[wrong[record]]); diff != "" {
			t.Errorf("the stranger who was taken for %s is not as it was (-was +is):\n%s", record, diff)
		}
	}
	for _, record := range records {
		f.w.expect(exitDone, "payers", "same", record, right[record], "--reason", "looked at", "--yes")
	}
	f.w.expect(exitAttention, "backfill", "--yes")
	carriers := map[string][]string{}
	for _, c := range f.w.box.Customers() {
		carriers[c.ExternalData["accountNumber"]] = append(carriers[c.ExternalData["accountNumber"]], c.ID)
	}
	for _, record := range records {
		if got := carriers[record]; !slices.Equal(got, []string{right[record]}) {
			t.Errorf("%s is %s, and its key is on %q", record, right[record], got)
		}
	}
}
