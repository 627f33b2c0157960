// Package sandbox is a stateful model of the billing service, as one http.Handler
// with its state in memory. It refuses what the service refuses, misbehaves on
// request, and has a Switch for every point that the interface leaves open
// (billing/README.md#open-points), so that a client can be tried against each.
// Truth is there for tests to look at; nothing in it is meant for real payers.
//
// It has no hidden goroutines and reads no clock but Options.Now: with one seed
// and one order of calls it answers the same bytes. Two things wait in real
// time, because that is what they are for: Options.Latency and the Slow fault,
// and Run, which sends webhooks until its context ends. Judging the client,
// keeping state across restarts and speaking TLS are left to others.
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
// Table describes every switch once: what checks them, the help of payersync sandbox,
// and Set read it. A new one is a field with a yaml tag and a line there.
// SetSwitches may change them at any moment, all or none. Answers are made when they
// are asked for, so a change shows in the next one; the spelling of customers that are
// there is changed with it.
//
// # Readers that see less than the truth
//
// Faults strike single requests; a View lasts. While one is set, lists answer 200
// and are empty, short, without keys or behind, and reads by id lag too if it says
// so; SetView may change it at any moment. Each view leaves out the same customers
// in every list, as an index that is being rebuilt or a token with fewer rights
// does, so that two readings of such a list agree.
//
// # Mandates
//
// As the interface has them; the acts of Sandbox in brackets.
//
//	(none) ──link──▶ CREATED ──[Sign]──▶ PENDING ──[Approve]──▶ ACTIVE
//	                    │                   │                     │
//	                    └──── cancel call, [PayerCancel], [BankCancel] ────▶ CANCELLED ──[Reinstate]──▶ ACTIVE
//
// A link call in PENDING or ACTIVE answers the mandate that exists; in
// CANCELLED it makes a new one; in CREATED the switch LinkWhenCreated decides. A link
// is open until another takes its place or LinkLife is over; then its page says that
// it has expired. [ChangeBank] makes a new mandate without any call.
// [Migrate] brings in a mandate in MIGRATING, which Approve makes ACTIVE.
//
// # Webhooks
//
// Every act on a mandate or customer that the subscription covers puts one
// delivery on a queue. Deliver sends what is due, one by one:
//
//	queued ──2xx──▶ gone
//	  ▲  └──anything else──▶ waits for the next time of Options.Retries ──none left──▶ gone
//	  └──────────────────────────────┘
package sandbox
