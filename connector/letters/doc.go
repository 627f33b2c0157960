// Package letters writes to payers who have not signed their mandates yet: an invitation, and
// then reminders in steps, each at most once.
//
//	standings ─▶ due ─▶ brakes ─▶ look ─▶ freeze ─▶ sending ─▶ journal ─▶ wire ─▶ outcome
//	             │        │         │        │          │          │         └ sent, refused,
//	        today's     waits     same    ledger     ledger      file          deferred, unclear
//	        step, or  for a      mandate,
//	        why not   person     address
//
// It is the opposite of how customers are made: a lost letter costs a day and a doubled one
// costs trust, so that nothing is repeated whose outcome is not known. That is shown to people.
//
// What a letter looks like is left to the templates, the conversation with a mail server to the
// post, which payers wait for a signature to package standing.
package letters
