// Package admin provides the content and the actions shared by commands and pages: lists of the records of all sources
// with their display names, a search, and all known facts about one payer. Both use it, so they always agree.
//
// Package syncer decides the effect of an act on a payer, and the requests it causes. The commands and pages decide the
// display (columns, colours, time zones).
//
//	               ┌─ Records: where each stands ──┐
//	Lists.Page ──▶ │                               ├──▶ Page: rows, and whether there are more
//	               └─ names in memory: the search ─┘
//
// Names are sealed in the ledger. Without the sealing key, a Lists has no names; it reports this and lists everything
// else.
package admin

// LongestReason is how many letters people may give as the reason of an act.
const LongestReason = 500
