package admin

import "slices"

// Role is a person's permission.
type Role string

// The roles. Each includes the rights of the roles before it.
const (
	Viewer   Role = "viewer"   // looks at states, counts and names
	Operator Role = "operator" // also at addresses and links, and acts
	Admin    Role = "admin"    // also at raw records, and edits the mapping and people; everybody with a terminal is one
)

// Roles are all roles, the least first.
var Roles = []Role{Viewer, Operator, Admin}

// May reports whether a role includes another.
func (r Role) May(need Role) bool {
	return slices.Contains(Roles, r) && slices.Index(Roles, r) >= slices.Index(Roles, need)
}
