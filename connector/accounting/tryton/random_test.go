package tryton_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/accounting/tryton/trytontest"
)

// After any changes, an incremental read brings a stored copy up to date with Tryton, except for deleted
// parties, which only a full read reveals. The bound is the exact beginning of the read before, without any
// overlap that could hide a gap.
//
// covers F44, F45, S17
func TestIncrementalReadsEqualAFullDumpAfterRandomChanges(t *testing.T) {
	const pulls, operations = 20, 15
	b := openBooks(t)
	w := &world{books: b, random: rand.New(rand.NewPCG(7, 8)), done: map[string]int{}}
	w.parties = b.add(12)
	w.countries = b.Create("country.country", trytontest.Values{"name": "United Kingdom", "code": "GB"},
		trytontest.Values{"name": "France", "code": "FR"})
	w.categories = b.Create("party.category", trytontest.Values{"name": "Customers"}, trytontest.Values{"name": "Friends"})
	began := time.Now()
	kept := read(t, b.source, time.Time{})
	again := 0 // records that incremental reads brought
	for pull := range pulls {
		for range operations {
			w.change()
		}
		since := began
		began = time.Now()
		changed := read(t, b.source, since)
		again += len(changed)
		for id, r := range changed {
			kept[id] = r
		}
		truth, full := byID(b.truth()), read(t, b.source, time.Time{})
		maps.DeleteFunc(kept, func(id string, _ connector.Record) bool { _, there := full[id]; return !there })
		for name, copied := range map[string]map[string]connector.Record{"the copy kept by incremental reads": kept,
			"a full read": full} {
			if diff := cmp.Diff(facts(t, truth), facts(t, copied)); diff != "" {
				t.Fatalf("after pull %d %s differs from Tryton (-Tryton +copy):\n%s", pull+1, name, diff)
			}
		}
	}
	t.Logf("%d operations over %d incremental pulls, 0 differences; %d of %d records came again; done: %v",
		pulls*operations, pulls, again, pulls*len(kept), w.done)
	for _, kind := range []string{"create", "edit", "edit a part", "merge", "erase", "delete", "deactivate"} {
		if w.done[kind] == 0 {
			t.Errorf("no operation was of the kind %q", kind)
		}
	}
}

// world changes a database at random, as its users do.
type world struct {
	*books
	random     *rand.Rand
	parties    []int64 // that exist
	countries  []int64
	categories []int64
	gone       map[int64]bool // merged or erased: no longer edited
	serial     int
	done       map[string]int
}

func (w *world) pick(from []int64) int64 { return from[w.random.IntN(len(from))] }

func (w *world) text(what string) string {
	w.serial++
	return fmt.Sprint(what, " ", w.serial)
}

// change does one thing, and another when that one is not possible.
func (w *world) change() {
	acts := []struct {
		kind   string
		weight int
		do     func() bool
	}{
		{"create", 3, w.create}, {"edit", 4, w.edit}, {"edit through the party", 3, w.editThrough},
		{"edit a part", 5, w.editPart},
		{"add a part", 3, w.addPart}, {"deactivate a part", 2, w.deactivatePart},
		{"remove a part through the party", 1, w.removeThrough},
		{"categorise", 1, w.categorise}, {"deactivate", 2, w.deactivate}, {"merge", 2, w.merge}, {"erase", 2, w.erase},
		{"delete", 1, w.remove},
	}
	total := 0
	for _, a := range acts {
		total += a.weight
	}
	for {
		n := w.random.IntN(total)
		for _, a := range acts {
			if n -= a.weight; n >= 0 {
				continue
			}
			if a.do() {
				w.done[a.kind]++
				return
			}
			break
		}
	}
}

func (w *world) create() bool {
	made := w.add(1 + w.random.IntN(3))
	w.parties = append(w.parties, made...)
	return true
}

func (w *world) edit() bool {
	field := []string{"name", "code"}[w.random.IntN(2)]
	w.Write("party.party", w.living(), trytontest.Values{field: w.text("Party")})
	return true
}

func (w *world) editThrough() bool {
	party := w.living()
	if part := w.part("party.address", party); part != 0 {
		w.Write("party.party", party,
			trytontest.Values{"addresses": []any{[]any{"write", []int64{part}, trytontest.Values{"city": w.text("City")}}}})
		return true
	}
	return false
}

func (w *world) editPart() bool {
	model, values := w.aPart()
	part := w.part(model, w.living())
	if part != 0 {
		w.Write(model, part, values)
	}
	return part != 0
}

// aPart returns a model of parts and new values for one of them.
func (w *world) aPart() (string, trytontest.Values) {
	switch w.random.IntN(5) {
	case 0:
		return "party.address", trytontest.Values{"street": w.text("Street")}
	case 1:
		return "party.address", trytontest.Values{"country": w.pick(w.countries)}
	case 2:
		return "party.identifier", trytontest.Values{"code": w.text("Code")}
	case 3:
		return "party.contact_mechanism", trytontest.Values{"name": w.text("Desk")}
	}
	return "party.contact_mechanism",
		trytontest.Values{"type": "email", "value": fmt.Sprintf("p%d@books.example", w.random.IntN(1000))}
}

func (w *world) addPart() bool {
	party := w.living()
	switch w.random.IntN(3) {
	case 0:
		w.Create("party.address", trytontest.Values{"party": party, "street": w.text("Street"), "sequence": w.random.IntN(5)})
	case 1:
		w.Create("party.identifier", trytontest.Values{"party": party, "code": w.text("Code")})
	default:
		w.Create("party.contact_mechanism",
			trytontest.Values{"party": party, "type": "website", "value": "https://" + strconv.Itoa(w.random.IntN(1000)) +
				".example"})
	}
	return true
}

func (w *world) deactivatePart() bool {
	model := []string{"party.address", "party.contact_mechanism"}[w.random.IntN(2)]
	part := w.part(model, w.living())
	if part != 0 {
		w.Write(model, part, trytontest.Values{"active": false})
	}
	return part != 0
}

func (w *world) removeThrough() bool {
	party := w.living()
	part := w.part("party.contact_mechanism", party)
	if part != 0 {
		w.Write("party.party", party, trytontest.Values{"contact_mechanisms": []any{[]any{"delete", []int64{part}}}})
	}
	return part != 0
}

func (w *world) categorise() bool {
	w.Write("party.party", w.living(), trytontest.Values{"categories": []any{[]any{"add", []int64{w.pick(w.categories)}}}})
	return true
}

func (w *world) deactivate() bool {
	w.Write("party.party", w.living(), trytontest.Values{"active": w.random.IntN(3) == 0})
	return true
}

func (w *world) merge() bool {
	loser, survivor := w.living(), w.living()
	if loser == survivor {
		return false
	}
	w.Replace(loser, survivor)
	w.leave(loser)
	return true
}

func (w *world) erase() bool {
	party := w.living()
	w.Erase(party)
	w.leave(party)
	return true
}

// remove deletes a party that nothing was merged into; Tryton refuses others.
func (w *world) remove() bool {
	party := w.living()
	var merged []int64
	w.Call(&merged, "model.party.party.search", []any{[]any{"replaced_by", "=", party}}, 0, nil, nil,
		trytontest.Values{"active_test": false})
	if len(merged) > 0 {
		return false
	}
	w.Delete("party.party", party)
	w.leave(party)
	return true
}

func (w *world) leave(party int64) {
	if w.gone == nil {
		w.gone = map[int64]bool{}
	}
	w.gone[party] = true
}

// living returns a party that is there to be edited.
func (w *world) living() int64 {
	for {
		if party := w.pick(w.parties); !w.gone[party] {
			return party
		}
	}
}

// part returns an active part of a party, 0 when it has none.
func (w *world) part(model string, party int64) int64 {
	var found []int64
	w.Call(&found, "model."+model+".search", []any{[]any{"party", "=", party}}, 0, nil, nil, trytontest.Values{})
	if len(found) == 0 {
		return 0
	}
	return w.pick(found)
}
