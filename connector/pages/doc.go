// Package pages shows what payersync knows and lets people act on it, in a browser: for the
// accountant who asks who can be debited, the credit controller who chases signatures, and
// whoever approves. A page is made whole by the server, works without script, and is the same
// for the commands' reader: what is shown and what an act does is decided in package office.
//
//	GET  ─▶ host ─▶ login ─▶ role ─▶ page
//	POST ─▶ host ─▶ same origin ─▶ login ─▶ role ─▶ act (audit log first) ─▶ 303 to a GET
//
// No state is changed by GET, but for what is written to the audit log before something
// personal is shown. Where the listener is, and who may reach it, is left to the command that
// serves it.
package pages
