package pages

// Routes are the patterns of all addresses for who is signed in, with the least role each
// takes.
func Routes() map[string]Role {
	out := map[string]Role{}
	for _, r := range all {
		out[r.pattern] = r.role
	}
	return out
}
