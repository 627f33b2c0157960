package pages

import "payersync/connector/admin"

// Role is a user's permission on the pages.
type Role = admin.Role

// The roles. Each includes the rights of the roles before it.
const (
	Viewer   = admin.Viewer
	Operator = admin.Operator
	Admin    = admin.Admin
)

// Roles are all roles, the least first.
var Roles = admin.Roles

// User is the signed-in person.
type User struct {
	Name string // for the audit log
	Role Role

	Connections []string // the login's limits, besides the user's; nil for none
}
