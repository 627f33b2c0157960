// Package pages shows payersync's data in a browser and lets people act on it. Its readers are accountants checking
// debits, credit controllers chasing signatures, and approvers. The server renders whole pages; they work without
// script. Package admin supplies the content and the actions, the same as for the commands.
//
//	GET  ─▶ host ─▶ login ─▶ role ─▶ page
//	POST ─▶ host ─▶ same origin ─▶ login ─▶ role ─▶ act (audit log first) ─▶ 303 to a GET
//
// GET changes no state, except for the audit entry before personal data is shown. The serving command chooses the
// listener and its access rules.
package pages
