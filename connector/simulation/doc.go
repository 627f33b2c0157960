// Package simulation plays weeks of faults in a minute: the real mapping, runs,
// reconciliation, webhook endpoint and ledger, over a sandbox of the billing
// service, under the clock of a testing/synctest bubble and one seed. Only tests
// import it, and the product knows nothing of it.
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
// Safety, at every request and after every step that could write: S1 to S11, S13, S15 to S19, V2
// and V3 of connector/FAULTS.md, that nothing is asked for again before a look at
// it (F58), and that a cancelled mandate is not replaced by itself. Liveness, after
// the healing: L1 to L4, L6, V5 and S6, and L5 through a record that the service
// refuses; L7 by stories. Where others make a case that a person must decide, the
// oracle foretells the reasons that may be shown. Not judged here: S12, V1 and V4,
// which tests of the packages themselves cover, and S14, which is about tokens that
// are refreshed by another: the simulated service has none.
//
// A crash is a flag: from then on every commit and request of the process fails
// without effect, its calls unwind, and the world opens the ledger anew.
// Requests that overlap, and writers that wait, are put into one order by sleeps
// of the bubble's clock, so that one seed has one story; a test plays seeds twice.
//
// # Troubles
//
// A fault strikes one request. A trouble lasts, for minutes, hours or days, and lies
// beside every fault: lists that answer 200 and are empty, short, without pages,
// without keys or behind; reads by id that lag; a clock that is up to forty days ahead
// while a process dies; a ledger that is copied back; and others who make a customer
// for a record of ours just after the list was read. Before a list begins to lie, the
// ledger is shown a customer whose record comes while it does. trouble.go names the
// kinds; drawnTroubles says which of them seeds draw, -troubles for one run.
//
// Under them the judge wants more of a create: two lists that agree, and the last one
// that this very run has read, lack nobody whom the ledger knows and who is there, nor
// anybody's key. A customer of which the ledger was never told, hidden by a list that
// lacks nothing else, cannot be known; the judge counts those and lets them pass. So it
// does with a key that is passed on because the clock was put ahead while the create of
// the record before was under way (F116).
// While reads by id lag, statuses may go back; and a customer that is not found is
// missing only when it is older than such a read may lag (two minutes), and not for
// good. To heal, the list is put right first, and the clock.
//
// # Amends
//
// One seed of three has others put right what they spoilt, while requests of ours that
// have to do with it are under way: a key is put back, customers with a doubled key are
// deleted, their record leaves. Another third passes keys on: a create of a record gets
// no answer and may still arrive, its key is doubled and the customers are deleted, or
// they are not; the record is excluded, deleted or gets another key; and a record with
// its key comes, in the same books or in those of a second connection. Of the rest some
// have customers moved, and some have a person say that a record's customer is not its own,
// take that back, say who the record is, or want an update undone. amends.go names the kinds. -amends=false plays a seed without, whose story they leave as it is, and does
// not judge what people are told (V5).
//
// # The oracle proves itself
//
// Weaker protocols, kept as variants, each with the seed that caught it last.
// TestEveryWeakerVariantIsCaught plays that first, and where it catches no more because
// seeds draw other worlds, 1, 2, 3 … up to variantSeeds, or the variant's own.
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
// With -engine postgres the worlds keep their ledgers in a PostgreSQL that the tests start, each world in a
// database of its own. A process that dies loses its sessions, and with them what was not committed; in every other seed the
// server itself ends all sessions now and then, right before a commit or right after it, as one does that is
// started anew, and the processes go on. A backup is a copy of the database, and whoever
// puts it back notes that in it: no mark tells. Nor does a lock say that a run is dead: its lease has to end first.
//
// With -as-file the lock does, and no session ends. Then a seed has one story on both engines,
// to the millisecond, which TestBothEnginesTellTheSameStories compares; regressions and weaker
// variants are played so. What only happens to a file is left to the tests of package state: one that is moved, torn or
// exchanged.
//
// # Carried to another engine
//
// With -stops N every process is stopped N times, before steps that the seed draws, and the ledger is carried to
// the other engine by what payersync ledger copy calls: it may die at any commit of that, and is told the same again.
// Then everybody goes on there, with the same key, and the judge as before: a ledger that is carried is none that
// was put back, so that nothing waits and nothing is forgotten. While a run is open, be it one that is dead, it must be
// refused, and is tried again before each later step; and where it was it must not open. With -carry=false they are stopped and
// started again and nothing else: the story is the same, to the millisecond, which
// TestAStoryGoesOnWhereItsLedgerWasCarried compares. A backup of before is dropped, as people are told.
//
// # Running it
//
//	go test ./connector/simulation                                   a few seeds, and everything else
//	go test ./connector/simulation -run TestSimulation -seeds 5000 -from 0 -v            fresh ones
//	go test ./connector/simulation -run TestSimulation -seeds 5000 -from 0 -troubles all       with every trouble
//	go test ./connector/simulation -run TestSimulation -troubles 'list empty,clock ahead'      with some
//	go test ./connector/simulation -run TestSimulation -seeds 200000 -timeout 0 -v       over an hour
//	go test ./connector/simulation -run TestSimulation -seed N -v                        one
//	go test ./connector/simulation -run Crash -exhaustive -timeout 0 -v                  crashes in every story, and pairs
//	go test ./connector/simulation -engine postgres -timeout 0                           all of it on PostgreSQL
//	go test ./connector/simulation -engine postgres -run TestBothEngines -both 1000 -timeout 0 -v      the same seeds on both
//	go test ./connector/simulation -engine postgres -run TestAStoryGoesOn -journeys 100 -timeout 0 -v  carried, and in one place
//	go test ./connector/simulation -stops 3 -seeds 1000 -timeout 0 -v                    fresh ones that are carried, from a file first
//
// The seeds are shared among as many processes as there are processors.
// A seed that fails is shortened by leaving out faults and steps for as long as
// the same invariant breaks (-shrink=false leaves it whole).
package simulation
