// Package billing is the client of the billing service: tokens, customers, mandates and the webhook subscription, the
// lossless merge of updates, and the verification and parsing of webhook deliveries. README.md describes the known
// interface. Open points are settings of a Dialect, never guesses.
//
// The package stores nothing, decides nothing about payers, and repeats no call after a possible effect. Its callers
// freeze bytes before sending, replay calls with an unknown outcome, and act on reads. The client has no DELETE.
//
// Every failed call returns a *connector.RemoteError. Its Fault gives the meaning:
//
//	answer                                   read           write
//	2xx that can be read                     –              –
//	2xx that cannot (HTML, broken, no id)    unavailable    unknown
//	301, 302, 303, 5xx, 408, no answer       unavailable    unknown
//	307, 308, 501, never left                unavailable    unavailable
//	401 after one renewal, 403               unauthorized   unauthorized
//	404                                      not_found      not_found
//	429                                      throttled      throttled
//	any other 4xx                            rejected       rejected
//
// A body is readable if its content type is JSON or missing, and it is one JSON value within the bounds of fault F90.
// JSON under another type usually comes from a portal or firewall, and is refused.
package billing
