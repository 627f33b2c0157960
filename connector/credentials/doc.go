// Package credentials manages people's consents: it asks for one, stores its tokens sealed in the ledger, and
// renews them for the sources. The callers decide about the use of a token, its organisation and the
// addresses of a vendor.
//
// # One consent
//
//	Consent.URL ──▶ browser ──▶ redirect ──▶ Consent.Redeem ──▶ Save ──▶ Source.Token …
//	 state, PKCE     10 min      once          code for tokens    durable
//
// # One renewal
//
// One refresher at a time uses a rotating refresh token, across goroutines and processes. Its new tokens are
// durable before they are used:
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
