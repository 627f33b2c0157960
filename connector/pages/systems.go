package pages

import (
	"cmp"
	"slices"
	"strings"
)

// System is an accounting system that payersync reads.
type System struct {
	Name, Title string
	Access      string // what gives access, in two words
	Tested      string // what it was tested with, in a few words
	Reads       string // changes, or everything each time
	Walk        string // how the list is read; "" for a system with code of its own
	Limits      string // requests
	Register    string // what to register at the vendor
	Traps       []string
	Begin       string // the operator's command
}

// systemsWhole is the largest number of systems shown with all that is known of them.
const systemsWhole = 3

// systems lists the accounting systems, all or those that a search finds. It shows a few of them in full.
func (v *visit) systems() error {
	asked := strings.ToLower(v.filled("q"))
	var found []System
	for _, s := range v.pages.cfg.Systems {
		if s.Name == asked {
			found = []System{s}
			break
		}
		if strings.Contains(strings.ToLower(s.Name+" "+s.Title), asked) {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b System) int {
		return cmp.Compare(strings.ToLower(a.Title), strings.ToLower(b.Title))
	})
	return v.show("systems", "Connect your accounting system", struct {
		Asked string
		Found []System
		Whole bool
	}{v.filled("q"), found, len(found) <= systemsWhole})
}
