// Package connector is the vocabulary of payersync: what a record, a customer,
// a mandate and a change are, which states they can be in, and the reason codes
// that people meet. It uses the standard library only and does nothing by
// itself; reading systems, speaking HTTP and storing rows are left to the
// packages below and beside it.
//
// # Link state of a payer
//
// A payer is one source record that the mapping includes. Its link says, in one word for
// people, how it relates to a customer of the billing service:
//
//	new       nothing is known of a customer, and nothing stands in the way of one
//	creating  a create was sent, and no read has shown its customer with the key yet
//	linked    a read has shown the customer with the key, and nobody else has it
//	conflict  the key is doubled, another's, or off the customer
//	missing   a read says that the customer does not exist
//	held      there is no customer, and a person has to decide
//
// Nothing is decided by it: protocol/README.md has every arrow, printed from the tables
// that do decide.
//
// # State of a change
//
// A change is one thing to do for one payer. Its exact bytes are committed
// before they are sent, and only those bytes are sent until the answer is
// definite.
//
//	pending ──freeze──▶ frozen ──answer 2xx──▶ done
//	   │  ▲               │ ▲ ──answer 4xx──▶ failed
//	   │  └─certainly not─┤ │ replay
//	   │       sent       ▼ │
//	   │    no answer: unknown ──found──▶ done
//	   │                    │  └──too often, and looked for──▶ held
//	   │ newer plan         │ nobody wants it, and looked for
//	   └──────▶ void ◀──────┘
//
// A pending change is held, too, when what is read right before it is sent is for a
// person to decide.
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
