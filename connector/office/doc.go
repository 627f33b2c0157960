// Package office is what people are shown and what they do: lists of the records of all
// sources with the names that people know them by, a search, and all that is known of one
// payer. Commands print it and pages show it, so that the two never disagree.
//
// What an act means for a payer, and what is sent because of it, is decided in package syncer.
// How things look (columns, colours, time zones) is left to whoever shows them.
//
//	               ┌─ Records: where each stands ──┐
//	Lists.Page ──▶ │                               ├──▶ Page: rows, and whether there are more
//	               └─ names in memory: the search ─┘
//
// Names are sealed in the ledger. A Lists opened without the sealing key has none; it says so
// and lists everything else.
package office

// LongestReason is how many letters people may give as the reason of an act.
const LongestReason = 500
