// Package protocol holds the one decision that payersync exists for: given all
// that is known of a payer, what may be sent next, and what must a person be told?
//
// It is a pure function over facts. A fact is something that happened and does not
// stop having happened: a record was read, a request left with these bytes, an
// answer came, a read that began at this point showed this, a person said a word,
// a ledger was restored. Facts are stored, conclusions are computed: Next, Reasons
// and Class are computed from Facts each time, and their results are never put
// back into Facts.
//
// Two rules carry everything else.
//
//   - A request without an answer is a fact, an Attempt. It ends in two ways only: by
//     an answer to it, or when its time is over and a look that began later shows
//     what became of it. Finding a customer, a doubled key, an excluded record, an
//     edit or a person's word end none. An update that was answered is kept until one
//     that left later is answered too, because a read may lag behind the answer.
//   - Order is by ticket, never by a clock. The ledger gives out tickets, one
//     after the other; whatever is compared here is a ticket. Where time matters,
//     as for an attempt that may still arrive, whoever gathers the facts notes the
//     ticket at which the time was over.
//
// The tables in table.go are the machine. A line is a set of conditions and a step;
// the first line that fits is taken. README.md is printed from them.
//
// # What it leaves to others
//
// Gathering facts from the ledger, taking tickets, reading and sending, waiting,
// counting tries, and how a customer is compared with what is wanted are left to
// state and syncer; what a list of customers proves is left to reconcile. The
// package knows no context, no clock, no SQL and no HTTP, and it never fails.
//
// # How it is shown to be right
//
// TestEveryCombinationOfFactsHasOneLine walks through every combination of a small
// domain. TestEverySchedule plays every schedule of a small world with this very
// function inside, and TestEveryWeakerProtocolIsCaught shows that it would have seen
// what weaker rules do wrong:
//
//	go test ./connector/protocol -run Schedule -v                                         what CI runs
//	go test ./connector/protocol -run Schedule -v -protocol.states 100000000 -timeout 0   deeper
//
// The worlds that it is played in are values in memory and keep no ledger, so there is no
// flag -engine here: whatever engine keeps the facts, these are the same.
package protocol
