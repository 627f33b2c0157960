package pages

import "slices"

// Role is a user's permission on the pages.
type Role string

// The roles. Each includes the rights of the roles before it.
const (
	Viewer   Role = "viewer"   // looks at states, counts and names
	Operator Role = "operator" // also at addresses and links, and acts
	Admin    Role = "admin"    // also at raw records, and edits the mapping and people
)

// Roles are all roles, the least first.
var Roles = []Role{Viewer, Operator, Admin}

// May reports whether a role includes another.
func (r Role) May(need Role) bool {
	return slices.Contains(Roles, r) && slices.Index(Roles, r) >= slices.Index(Roles, need)
}

// User is the signed-in person.
type User struct {
	Name string // for the audit log
	Role Role

	Connections []string // the login's limits, besides the user's; nil for none
}
