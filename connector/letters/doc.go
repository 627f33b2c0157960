// Package letters writes to payers with unsigned mandates: an invitation, and then reminders in steps, each at most
// once.
//
//	standings ─▶ due ─▶ brakes ─▶ look ─▶ freeze ─▶ sending ─▶ journal ─▶ wire ─▶ outcome
//	             │        │         │        │          │          │         └ sent, refused,
//	        today's     waits     same    ledger     ledger      file          deferred, unclear
//	        step, or  for a      mandate,
//	        why not   person     address
//
// Unlike creates of customers, letters are never repeated after an unknown outcome: a lost letter costs a day, a
// duplicate costs trust. People see these outcomes.
//
// The templates define the letters' text, the post talks to a mail server, and package readiness selects the payers
// waiting for a signature.
package letters
