package pages

import "payersync/connector/office"

// Role is a user's permission on the pages.
type Role = office.Role

// The roles. Each includes the rights of the roles before it.
const (
	Viewer   = office.Viewer
	Operator = office.Operator
	Admin    = office.Admin
)

// Roles are all roles, the least first.
var Roles = office.Roles

// User is the signed-in person.
type User struct {
	Name string // for the audit log
	Role Role

	Connections []string // the login's limits, besides the user's; nil for none
}
