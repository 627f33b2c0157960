// Package connector is the vocabulary of payersync: records, customers, mandates and changes, their states, and the
// reason codes for people. It uses only the standard library and performs no actions. Other packages read systems,
// speak HTTP and store rows.
//
// # Link state of a payer
//
// A payer is one source record included by the mapping. Its link state describes, in one word for people, its relation
// to a customer of the billing service:
//
//	new       no customer is known, and nothing prevents a create
//	creating  a create was sent, and no read has shown its customer with the key yet
//	linked    a read has shown the customer with the key, and no other customer has it
//	conflict  the key is doubled, another's, or off the customer
//	missing   a read reports the customer as nonexistent
//	held      there is no customer, and a person has to decide
//
// The link state decides nothing. protocol/README.md shows all transitions, generated from the deciding tables.
//
// # State of a change
//
// A change is one thing to do for one payer. Its exact bytes are committed before they are sent, and only these bytes
// are sent until the answer is definite.
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
// A pending change is also held if the read right before sending calls for a person's decision.
//
// # Status of a mandate
//
// The names are those of the billing service (billing/README.md#mandates). payersync stores an unlisted status
// unchanged and never acts on it.
//
//	(none) ──link──▶ CREATED ──payer signs──▶ PENDING ──bank──▶ ACTIVE
//	                    │                        │                │
//	                    └────────────┬───────────┴────────────────┘
//	                                 ▼
//	                             CANCELLED   a new mandate only on a person's word
package connector
