// Package credentials keeps the consents that people gave: it asks for one,
// stores its tokens sealed in the ledger, and renews them for whoever reads a
// system in that person's name. What a token is good for, which organisation it
// should reach and how a vendor names its addresses are left to the callers.
//
// # One consent
//
//	Consent.URL ──▶ browser ──▶ redirect ──▶ Consent.Redeem ──▶ Save ──▶ Source.Token …
//	 state, PKCE     10 min      once          code for tokens    durable
//
// # One renewal
//
// A refresh token that rotates is used by one refresher at a time, across
// goroutines and processes, and what it gave is durable before it is used:
//
//	          lease of this generation
//	stale ───────────────────────────▶ renewing ──answer──▶ saved (generation + 1) ──▶ usable
//	  ▲  │ another has it: wait for        │
//	  │  └── its newer generation          ├──no answer, 5xx, 429──▶ cooling down ──▶ stale
//	  │                                    ├──invalid_grant twice──▶ broken: a person must connect again
//	  └──── the lease runs out ────────────┴──the process died
//
// A generation is renewed once. After a crash between answer and save the same
// refresh token is tried once more, which servers with a grace window accept.
package credentials
