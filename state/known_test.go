package state

import (
	"errors"
	"testing"

	"payersync/connector"
)

// SaveRemote stores what a read showed of a customer in the index. It reports whether no later read is known.
func (tx *Tx) SaveRemote(c connector.RemoteCustomer, ticket int64) (fresh bool, err error) {
	return tx.see(Observation{CustomerID: c.ID, Customer: &c, Mandate: c.Mandate, Ticket: ticket})
}

// see stores an observation in the index.
func (tx *Tx) see(o Observation) (fresh bool, err error) {
	known, err := tx.Known(o)
	if err != nil {
		return false, err
	}
	return !known[0].Stale, errors.Join(tx.saveShown(known[0]), when(known[0].Overtaken, ErrOvertaken))
}

func TestCustomersWhoseAnswerAnotherMayChangeAreAskedForAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planLink(run, "c1", "cus_1")
	d.planLink(run, "c2", "cus_2")
	ours, other := remote("cus_1", key("c1")), connector.RemoteCustomer{ID: "cus_3", Name: "Nobody's"}
	d.do(func(tx *Tx) error {
		return errors.Join(second(tx.SaveRemote(ours, 1)), second(tx.SaveRemote(remote("cus_2", key("c2")), 1)))
	})
	for name, c := range map[string]struct {
		page []connector.RemoteCustomer
		want []string // the records of the customers; "-" for nobody's, "" for one to be asked for alone
	}{
		"one": {[]connector.RemoteCustomer{ours}, []string{"c1"}},
		"several": {[]connector.RemoteCustomer{ours, other, remote("cus_2", key("c2"))},
			[]string{"c1", "-", "c2"}},
		"one twice":               {[]connector.RemoteCustomer{ours, other, ours}, []string{"", "-", ""}},
		"a key twice":             {[]connector.RemoteCustomer{ours, remote("cus_3", key("c1"))}, []string{"", "-"}},
		"an id that is not clean": {[]connector.RemoteCustomer{ours, {ID: "cus_2\x00"}}, []string{"c1", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			d.do(func(tx *Tx) error {
				known, err := tx.Known(connector.Map(c.page, func(c connector.RemoteCustomer) Observation {
					return Observation{CustomerID: c.ID, Customer: &c, Ticket: 9}
				})...)
				for i, k := range known {
					got := ""
					switch {
					case k != nil && k.Ours:
						got = k.SourceID
					case k != nil:
						got = "-"
					}
					if got != c.want[i] {
						t.Errorf("customer %d is of %q, want %q", i, got, c.want[i])
					}
				}
				return err
			})
		})
	}
}

func second[T any](_ T, err error) error { return err }
