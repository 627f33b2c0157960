package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SIGKILL ends each command of a move at random moments, and each is called again: the move, the run with the
// new keys, the undo, and the run with the old ones. No customer is lost or created twice, nobody is asked to
// sign again, and each mandate is kept.
//
// covers F01, F67, F231, S1, S16
func TestKillNineOfAMoveOfBooksLosesNobodyAndNoMandate(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*movingBooks){
		"finished": func(k *movingBooks) {
			k.killed("backfill", "quickbooks", "--yes")
			k.expectKeys("quickbooksCustomerId")
		},
		"undone before a key is written": func(k *movingBooks) {
			k.killed("connections", "move", "acme", "quickbooks", "--undo", "--yes")
			k.finish("backfill", "acme", "--yes")
			k.expectKeys("accountNumber")
		},
		"undone after all keys are written": func(k *movingBooks) {
			k.finish("backfill", "quickbooks", "--yes")
			k.killed("connections", "move", "acme", "quickbooks", "--undo", "--yes")
			k.killed("backfill", "acme", "--yes")
			k.expectKeys("accountNumber")
		},
		"undone in the middle, and moved again": func(k *movingBooks) {
			k.killedOnce(k.moment(k.random, k.customers/2), "backfill", "quickbooks", "--yes")
			k.killed("connections", "move", "acme", "quickbooks", "--undo", "--yes")
			k.killed("connections", "move", "acme", "quickbooks", "--yes")
			k.killed("backfill", "quickbooks", "--yes")
			k.expectKeys("quickbooksCustomerId")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const payers, signed = 20, 8
			w := aCompany(t, payers, signed)
			w.withQuickBooks(t, payers, 0)
			w.run("plan", "quickbooks")
			k := &movingBooks{world: w, random: seeded(t), links: w.asked(), customers: payers, signed: signed}
			k.killed("connections", "move", "acme", "quickbooks", "--yes")
			end(k)
		})
	}
}

// movingBooks is a world with a move between connections while its processes are killed.
type movingBooks struct {
	*world
	random                   *rand.Rand
	links, customers, signed int
}

// killed kills a command again and again, and then lets it come to its end.
func (k *movingBooks) killed(args ...string) {
	k.t.Helper()
	undo, inside := slices.Contains(args, "--undo"), 0
	for range kills() {
		if undo && !k.moveOf().Moved {
			break // an undo was killed after its last commit: there is nothing more to take back
		}
		come := k.moment(k.random, k.customers/2)
		if args[0] == "connections" { // it sends nothing
			began, wait := time.Now(), time.Duration(k.random.Int64N(int64(200*time.Millisecond)))
			come = func() bool { return time.Since(began) > wait }
		}
		if k.killedOnce(come, args...) {
			inside++
		}
	}
	switch {
	case !undo:
		k.finish(args...)
	case k.moveOf().Moved:
		k.finishUndo(args)
	}
	k.expectAll()
	k.t.Logf("%d kills came inside a process of %v", inside, args)
}

// killedOnce kills a command at its moment, and reports whether that was before its end.
func (k *movingBooks) killedOnce(come func() bool, args ...string) bool {
	k.t.Helper()
	p := k.start(args...)
	eventually(k.t, "the moment to kill", func() bool { return p.over() || come() })
	p.signal(syscall.SIGKILL)
	r := p.wait()
	k.expectAll()
	return r.code == -1
}

// finishUndo lets an undo finish. A pair whose request was cut off by a kill stays, with a finding: the
// request may still arrive.
func (k *movingBooks) finishUndo(args []string) {
	k.t.Helper()
	if r := k.run(args...); r.code != exitDone &&
		(r.code != exitAttention || !strings.Contains(r.errOut, "a request for this record may still arrive")) {
		k.t.Fatalf("the undo ends with %d:\n%s%s", r.code, r.out, r.errOut)
	}
}

// expectAll fails the test unless each payer has one customer and each mandate holds.
func (k *movingBooks) expectAll() {
	k.t.Helper()
	if n := len(k.box.Customers()); n != k.customers {
		k.t.Fatalf("there are %d customers, want %d", n, k.customers)
	}
	if n := k.active(); n != k.signed {
		k.t.Fatalf("%d mandates are active, want %d", n, k.signed)
	}
	if n := k.asked(); n != k.links {
		k.t.Fatalf("%d signing links were asked for again", n-k.links)
	}
}

// expectKeys fails the test unless all customers carry a key of this name alone, and the ledger is whole.
func (k *movingBooks) expectKeys(name string) {
	k.t.Helper()
	if got := k.holders(); got[name] != k.customers || len(got) != 1 {
		k.t.Errorf("the keys are %v, want %d of %s", got, k.customers, name)
	}
	k.expectWholeLedger()
}
