// Package simulation plays weeks of faults in a minute: the real mapping, runs, reconciliation, webhook
// endpoint and ledger, over a sandbox of the billing service, under the clock of a testing/synctest bubble
// and one seed. Only tests import it.
//
//	plan (drawn by the seed: faults, their odds, how the service reads its open points)
//	  │
//	world ── next ──▶ one step: a run, a drain, a sweep, an edit, a payer, a clock, a restore …
//	  │                 │ every request passes the wire: faults, disturbances, crashes
//	  │                 ▼
//	  ├── oracle: judges requests, answers and the ledger against the sandbox's truth
//	  └── heal ──▶ all faults end; within two days of simulated time everything converges
//
// # What is judged
//
// Safety, at every request and after every step that could write: S1 to S11, S13, S15 to S19, V2, V3 and V6 of
// connector/FAULTS.md; no request is repeated before a read (F58); no cancelled mandate is replaced
// automatically. Liveness, after the healing: L1 to L4, L6, V5 and S6, and L5 through a record refused by the
// service; L7 by stories. If others' edits need a person's decision, the oracle predicts the allowed reasons.
// Not judged here: S12, V1 and V4, covered by tests of the packages themselves, and S14 about tokens
// refreshed by another process: the simulated service has none.
//
// A crash is a flag: from then on every commit and request of the process fails without effect, its calls
// unwind, and the world opens the ledger anew. Sleeps of the bubble's clock put overlapping requests and
// waiting writers into one order, so one seed has one story; a test plays seeds twice.
//
// # Troubles
//
// A fault affects one request. A trouble lasts for minutes, hours or days, beside all faults. Lists answer
// 200, but are empty, short, without pages, without keys or outdated. Reads by id lag. A clock is up to forty
// days ahead while a process dies. A ledger is copied back. Others create a customer for a record of ours
// just after the list was read. Before a list becomes wrong, the ledger sees a customer whose record comes
// during that time. trouble.go names the kinds; drawnTroubles selects those for seeds, -troubles those for
// one run.
//
// With troubles the judge demands more of a create: two lists agree, and they and the run's own last list
// contain every existing customer known to the ledger, with its key. The ledger cannot know a customer it
// never saw if the list lacks nothing else; the judge counts these and lets them pass. The same applies to a
// key passed on because the clock was set ahead during the earlier record's create (F116). While reads by id
// lag, statuses may go back. A customer not found is missing only if it is older than the lag of two minutes,
// and not for good. Healing first corrects the list and the clock.
//
// # Amends
//
// In one seed of three, others repair their own damage while our requests about it are under way: a key is
// put back, customers with a doubled key are deleted, their record is removed. Another third passes keys on.
// A record's create gets no answer and may still arrive; its key is doubled, and the customers may be
// deleted. The record is excluded, deleted or gets another key. Then a record with its key comes, in the same
// connection or a second one. In some other seeds customers are moved. In some a person unlinks a record,
// takes that back, decides on a match, or undoes an update. amends.go names the kinds. -amends=false plays a
// seed without them, with the same story otherwise, and does not judge findings (V5).
//
// # The oracle proves itself
//
// Variants are weaker protocols, each with the seed that last caught it. TestEveryWeakerVariantIsCaught plays
// that seed first. If it no longer catches the variant, because seeds now draw other worlds, it plays 1, 2, 3
// … up to variantSeeds, or the variant's own limit.
//
//	variant                              caught by
//	rebuild the body on retry            S3
//	one list pass                        S4
//	no look before create                S4
//	incomplete pass counts as complete   S4
//	no quarantine after a restore        S4
//	link asked for again without a look  F58
//	update without fetch                 S5
//	payloads applied as they come        S9
//	payloads applied unless older        S9
//	ticket taken after the read          S9
//	no sweep                             L1, L2
//	an empty list counts as proof        S17, S1
//	a short list counts as proof         S17, S1
//	a list without keys counts           S17, S1
//	no second look for 15 minutes        S1
//	creates of others do not count       S3, S1
//	what was told is told for good       V5
//
// TestTheOracleCatchesWhatNoVariantDoes feeds it made-up events for the rest.
//
// # On PostgreSQL
//
// With -engine postgres the worlds keep their ledgers in a PostgreSQL started by the tests, each world in a
// database of its own. A dying process loses its sessions and all uncommitted writes. In every other seed the
// server itself sometimes ends all sessions, like a restart, right before or after a commit, and the
// processes go on. A backup is a copy of the database, and the restore is noted in it, because there is no
// mark. No lock proves a run dead: its lease has to end first.
//
// With -as-file the lock does, and no session ends. Then a seed has one story on both engines, to the
// millisecond. TestBothEnginesTellTheSameStories compares them, and regressions and weaker variants are
// played this way. Tests of package state cover moved, torn and exchanged files.
//
// # Moves to another engine
//
// With -stops N every process is stopped N times, before random steps, and the ledger moves to the other
// engine as with payersync ledger copy. The copy may die at any commit, and is then repeated. All processes
// go on there, with the same key. The judge does not change: a moved ledger is not a restored one, so nothing
// waits and nothing is forgotten. While a run is open, even a dead one, the move must be refused; it is tried
// again before each later step. The old ledger must not open. With -carry=false the processes are only
// stopped and started again. The story must be the same, to the millisecond;
// TestAStoryGoesOnWhereItsLedgerWasCarried compares them. Older backups are dropped, as the documentation
// asks.
//
// # Running it
//
//	go test ./connector/simulation                                   a few seeds, and everything else
//	go test ./connector/simulation -run TestSimulation -seeds 5000 -from 0 -v            fresh ones
//	go test ./connector/simulation -run TestSimulation -seeds 5000 -from 0 -troubles all       with every trouble
//	go test ./connector/simulation -run TestSimulation -troubles 'list empty,clock ahead'      with some
//	go test ./connector/simulation -run TestSimulation -seeds 200000 -timeout 0 -v       over an hour
//	go test ./connector/simulation -run TestSimulation -seed N -v                        one
//	PAYERSYNC_LONG=1 go test ./connector/simulation -run Crash -exhaustive -timeout 0 -v crashes in every story, and pairs
//	PAYERSYNC_LONG=1 go test ./connector/simulation -engine postgres -timeout 0          all of it on PostgreSQL
//	go test ./connector/simulation -engine postgres -run TestBothEngines -both 1000 -timeout 0 -v      the same seeds on both
//	go test ./connector/simulation -engine postgres -run TestAStoryGoesOn -journeys 100 -timeout 0 -v  carried, and in one place
//	go test ./connector/simulation -stops 3 -seeds 1000 -timeout 0 -v                    fresh ones that are carried, from a file first
//
// The seeds are shared among as many processes as there are processors. A failing seed is shortened: faults
// and steps are removed as long as the same invariant breaks (-shrink=false keeps it whole).
package simulation
