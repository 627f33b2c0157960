// Package connector is the vocabulary of payersync: what a record, a customer,
// a mandate and a change are, which states they can be in, and the reason codes
// that people meet. It uses the standard library only and does nothing by
// itself; reading systems, speaking HTTP and storing rows are left to the
// packages below and beside it.
//
// # Link state of a payer
//
// A payer is one source record that the mapping includes. Its link says how it
// relates to a customer of the billing service.
//
//	          create frozen          answer confirmed by a read
//	new ───────────────────▶ creating ───────────────────▶ linked
//	 │                          │                            │
//	 │ key found, GET agrees    │ answer carries another key │ 404, or gone
//	 │ (adoption)               ▼                            ▼ from a full list
//	 ├──────────▶ linked     conflict                     missing
//	 │                          ▲
//	 │ key found twice          │
//	 └──────────────────────────┘
//
// held stands beside every state but linked: the payer waits for a person (a
// likeness to confirm, a key two records share) and nothing is sent for it.
// Nothing leaves conflict, missing or held without a change of the facts or a
// person's word.
//
// # State of a change
//
// A change is one thing to do for one payer. Its exact bytes are committed
// before they are sent, and only those bytes are sent until the answer is
// definite.
//
//	pending ──freeze──▶ frozen ──answer 2xx──▶ done
//	   │                  │ ▲ ──answer 4xx──▶ failed
//	   │ newer plan       │ │ replay
//	   ▼        no answer ▼ │
//	 void               unknown ──no replay is safe──▶ held
//
// # Status of a mandate
//
// Spelt as the billing service spells it (billing/README.md#mandates). A status it
// does not list is kept as it came and never acted on.
//
//	(none) ──link──▶ CREATED ──payer signs──▶ PENDING ──bank──▶ ACTIVE
//	                    │                        │                │
//	                    └────────────┬───────────┴────────────────┘
//	                                 ▼
//	                             CANCELLED   a new mandate only on a person's word
package connector
