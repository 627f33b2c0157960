// Package protocol decides the next request for a payer, and the report to a person, from all known facts.
//
// It is a pure function over facts. A fact is a past event, and stays true: a record was read, a request left
// with these bytes, an answer came, a read begun at this point showed this, a person decided, a ledger was
// restored. Facts are stored, conclusions are computed: Decide computes the Outcome from Facts each time, and
// no part of it is ever put back into Facts.
//
// Two rules carry everything else.
//
//   - A request without an answer is a fact, an Attempt. It ends in two ways only: by
//     an answer to it, or when its time is over and a later read shows its outcome. It
//     stays open if a customer, a doubled key, an excluded record, an edit or a person's
//     decision appears. An answered update is kept until a later one is answered too,
//     because a read may lag behind the answer.
//   - Order is by ticket, never by a clock. The ledger gives out tickets, one after the
//     other, and this package compares tickets only. If time matters, as for an attempt
//     that may still arrive, the caller notes the ticket at which the time was over.
//
// The tables in table.go are the machine. A line is a set of conditions and a step; the first line that fits
// counts. README.md is printed from them.
//
// # Limits
//
// Packages state and syncer gather facts, take tickets, read, send, wait, count tries, and compare a customer
// with the wanted values. Package reconcile judges the proof of a list of customers. The package knows no
// context, no clock, no SQL and no HTTP, and it never fails.
//
// # Tests
//
// TestEveryCombinationOfFactsHasOneLine walks through every combination of a small domain. TestEverySchedule
// plays every schedule of a small world with this function. TestEveryWeakerProtocolIsCaught shows that the
// schedules catch the faults of weaker rules:
//
//	go test ./connector/protocol -run Schedule -v                                         a tenth of it
//	PAYERSYNC_LONG=1 go test ./connector/protocol -run Schedule -v                        what CI runs
//	go test ./connector/protocol -run Schedule -v -protocol.states 100000000 -timeout 0   deeper
//
// These worlds are values in memory without a ledger, so there is no flag -engine here.
package protocol
