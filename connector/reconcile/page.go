package reconcile

import (
	"fmt"
	"iter"

	"payersync/connector"
	"payersync/state"
)

// atOnce is how many customers of a list one write observes, if the pages are smaller.
const atOnce = 500

// inBlocks joins the pages of a list to blocks of atOnce customers and more.
func inBlocks(pages iter.Seq2[[]connector.RemoteCustomer, error]) iter.Seq2[[]connector.RemoteCustomer, error] {
	return func(yield func([]connector.RemoteCustomer, error) bool) {
		var block []connector.RemoteCustomer
		for page, err := range pages {
			if err == nil {
				if block = append(block, page...); len(block) < atOnce {
					continue
				}
			}
			if len(block) > 0 && !yield(block, nil) || err != nil && !yield(nil, err) {
				return
			}
			block = nil
		}
		if len(block) > 0 {
			yield(block, nil)
		}
	}
}

// listed makes observations of the customers of a page.
func listed(list *state.Listing, page []connector.RemoteCustomer) []Observation {
	return connector.Map(page, func(c connector.RemoteCustomer) Observation {
		o := OfCustomer(c, list.Ticket, connector.CauseSweep, fmt.Sprint(list.Pass))
		o.List = list
		return o
	})
}
