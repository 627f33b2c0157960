package syncer_test

import (
	"net/http"
	"testing"
	"time"

	"payersync/state"
)

// schema85 was killed four times, at an unlink, an update, a request for a link, and a create: each is frozen, and the
// service may have got it. Beside them lie planned updates, creates and links, an accepted match that no run has
// carried out, a plan of which a person has approved one of three creates, and one that waits whole.
//
// schema85-restored is an older copy of a ledger in its place. The service has two customers and an update unknown to it.
//
// The wanted ends are those of the version that made them.

// openRequests are the requests of schema85 that its ledger waits for.
var openRequests = []string{
	`{"crm":"77"},"notes":"theirs","people"`, // the unlink of A1
	`"U3 new"`,
	"c3657287-4e52-4ac8-8589-0f49c8870ed5/directdebitmandates", // for L1
	`"name":"F3"`,
}

// covers F05, F70, S1, S3
func TestALedgerOfTheLastVersionEndsAsItWouldHave(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]string{
		"all arrived": nil, "nothing arrived": openRequests,
		"the unlink was lost": openRequests[:1], "the update was lost": openRequests[1:2],
		"the link was lost": openRequests[2:3], "the create was lost": openRequests[3:],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goOnFromSchema85(t, lost)
		})
	}
}

func goOnFromSchema85(t *testing.T, lost []string) {
	b := openBefore(t, "schema85", 2*time.Hour, 4*time.Minute, lost...)
	b.syncer.Settings.Guards.MaxCreates = 1
	b.wantWaiting("before the first run", map[string]int{"initech": 3, "hooli": 2})
	b.run(3, "initech", "hooli")
	b.wantTold("after three runs", map[string]string{"L1": "link_lost"})
	b.wantWaiting("after three runs", map[string]int{"initech": 2, "hooli": 2})
	b.wantCreated("W2", true) // the approved one of three
	for _, key := range []string{"W1", "W3", "V1", "V2"} {
		b.wantCreated(key, false)
	}

	b.clock.advance(time.Hour)
	b.sweep()
	b.run(3, "initech", "hooli")
	told := map[string]string{"A1": "unlinked", "L1": "link_lost"}
	b.wantTold("when nothing can arrive any more", told)

	plans, err := b.ledger.WaitingPlans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plans {
		if err := b.ledger.Do(t.Context(), func(tx *state.Tx) error { return tx.Approve(p.ID, "tester") }); err != nil {
			t.Error(err)
		}
	}
	b.run(3, "initech", "hooli")
	b.wantTold("in the end", told)
	b.wantWaiting("in the end", map[string]int{})
	leftOut := []string{"A1"}
	if (act{Path: openRequests[2]}).is(lost) {
		leftOut = append(leftOut, "L1") // whose link is asked for again by a person only
	}
	b.wantServed(18, leftOut...)
	b.wantOnceOnly()
	for _, c := range b.service.Customers() {
		if c.ExternalData["crm"] == "77" && c.ExternalData["customerNo"] != "" {
			t.Errorf("the unlinked customer still carries %v", c.ExternalData)
		}
	}
	if c := b.byKey()["M1"]; c.ExternalData["crm"] != "78" {
		t.Errorf("the accepted match was not carried out: %+v", c)
	}
	if n, want := len(b.bodies(http.MethodPut, "/api/customers")), b.updates(lost); n != want {
		t.Errorf("%d updates were sent, want %d", n, want)
	}
	if found, err := b.ledger.Verify(t.Context(), nil); err != nil || len(found) > 0 {
		t.Errorf("the ledger is damaged: %v, %v", found, err)
	}
}

func TestARestoredLedgerOfTheLastVersionEndsAsItWouldHave(t *testing.T) {
	t.Parallel()
	b := openBefore(t, "schema85-restored", 71*time.Minute, 3*time.Minute)
	b.run(3)
	b.wantTold("after three runs", map[string]string{})
	if n := len(b.service.Customers()); n != 5 {
		t.Errorf("while requests may arrive, the service has %d customers, want 5", n)
	}
	b.clock.advance(6 * time.Minute)
	b.sweep()
	b.run(2)
	b.clock.advance(time.Hour)
	b.sweep()
	b.run(3)
	b.wantTold("in the end", map[string]string{"B4": "link_lost", "B5": "link_lost"})
	b.wantServed(6)
	b.wantOnceOnly()
}

// updates returns how many updates are left to send: U1, U2, M1, and the lost ones.
func (b *before) updates(lost []string) int {
	n := 3
	for _, part := range openRequests[:2] {
		if (act{Path: part}).is(lost) {
			n++
		}
	}
	return n
}

// wantWaiting fails the test unless exactly these connections have a waiting plan, with so many creates.
func (b *before) wantWaiting(when string, want map[string]int) {
	b.t.Helper()
	plans, err := b.ledger.WaitingPlans(b.t.Context())
	if err != nil || len(plans) != len(want) {
		b.t.Errorf("%s: %d plans wait, want %d: %v", when, len(plans), len(want), err)
	}
	for _, p := range plans {
		if p.Creates != want[p.Connection] || p.State != state.PlanWaiting {
			b.t.Errorf("%s: the plan of %s is %s with %d creates, want %d", when, p.Connection, p.State, p.Creates,
				want[p.Connection])
		}
	}
}

func (b *before) wantCreated(key string, want bool) {
	b.t.Helper()
	if _, is := b.byKey()[key]; is != want {
		b.t.Errorf("the service has a customer %s: %t, want %t", key, is, want)
	}
}
