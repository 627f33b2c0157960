// Package billing is the client of the billing service: its tokens, customers,
// mandates and webhook subscription, the lossless merge of an update, and the
// checking and reading of webhook deliveries. README.md says what is known of the
// interface. What that leaves open is a Dialect, never a guess.
//
// It keeps nothing, decides nothing about payers and repeats no call that may
// have had an effect: freezing bytes before they are sent, replaying a call of
// unknown outcome and acting on what is read are left to its callers. It has no
// DELETE.
//
// Every call that fails returns a *connector.RemoteError, whose Fault says what
// it means:
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
// A body counts as readable when its content type is JSON, or is missing, and
// it is one JSON value within the bounds of fault F90. JSON under any other
// type is what a portal or firewall sends, and is not believed.
package billing
