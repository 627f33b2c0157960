// Package sandbox is a stateful model of the billing service, as one http.Handler with its state in memory.
// It refuses the same requests as the service, misbehaves on request, and has a Switch for every open point
// of the interface (billing/README.md#open-points), so a client can be tested against each. Tests can read
// the Truth. It is not for real payers.
//
// It has no hidden goroutines and reads no clock but Options.Now: with one seed and one order of calls it
// answers the same bytes. Two things wait in real time on purpose: Options.Latency and the Slow fault, and
// Run, which sends webhooks until its context ends. It does not judge the client, keep state across restarts,
// or speak TLS.
//
// # Addresses
//
//	/api/…                          the service, /api/oauth2/token for tokens
//	/sign/{mandateId}               the page on which a payer signs
//	/auth/login                     the page on which a person gives consent (authorization code)
//	/                               the operator's page, with forms to /sandbox/…
//	POST /sandbox/mandates/{id}/{sign|approve|cancel|reinstate|bank}
//	GET  /sandbox/customers, GET /sandbox/requests
//	/letters                        with Options.Letters, what its mail server was sent
//	GET  /sandbox/letters?to=…, POST /sandbox/letters/clear
//
// # Switches
//
// Table describes every switch once, for the checks, the help of payersync sandbox, and Set. A new one is a
// field with a yaml tag and a line there. SetSwitches may change them at any moment, all or none. A change
// shows in the next answer, and changes the spelling of existing customers.
//
// # Incomplete readings
//
// Faults strike single requests; a View lasts. While one is set, lists answer 200 and are empty, short,
// without keys or outdated, and with ReadLag reads by id lag too. SetView may change it at any moment. Each
// view omits the same customers in every list, like an index being rebuilt or a token with fewer rights, so
// two readings of such a list agree.
//
// # Mandates
//
// As the interface has them; the acts of Sandbox in brackets.
//
//	(none) ──link──▶ CREATED ──[Sign]──▶ PENDING ──[Approve]──▶ ACTIVE
//	                    │                   │                     │
//	                    └──── cancel call, [PayerCancel], [BankCancel] ────▶ CANCELLED ──[Reinstate]──▶ ACTIVE
//
// A link call in PENDING or ACTIVE returns the existing mandate; in CANCELLED it makes a new one; in CREATED
// the switch LinkWhenCreated decides. A link works until another replaces it or LinkLife is over; then its
// page calls it expired. [ChangeBank] makes a new mandate without any call. [Migrate] brings in a mandate in
// MIGRATING, which Approve makes ACTIVE.
//
// # Webhooks
//
// Every subscribed act on a mandate or customer puts one delivery on a queue. Deliver sends the due ones, one
// by one:
//
//	queued ──2xx──▶ gone
//	  ▲  └──anything else──▶ waits for the next time of Options.Retries ──none left──▶ gone
//	  └──────────────────────────────┘
package sandbox
