package state

import "fmt"

// sameContent in place of a hash says that the last plan saw a record's present content.
const sameContent = "="

// isPlanned is the condition that the last plan saw the present content of record r.
const isPlanned = "r.planned_hash IN ('" + sameContent + "', r.content_hash)"

// mappingTag returns a mapping's version as records and labels keep it: the begin of its hash, 64 bits. Earlier rows
// keep all of it.
func mappingTag(version string) string { return version[:min(len(version), 16)] }

// plannedWith is the condition that the last plan of record r used the mapping with the version of an expression.
func plannedWith(version string) string {
	return fmt.Sprintf("r.planned_mapping IN (%[1]s, substr(%[1]s, 1, 16))", version)
}

// MadeWith reports whether a label was made with the mapping of this version.
func (c Candidate) MadeWith(version string) bool {
	return c.LabelledBy != "" && (c.LabelledBy == version || c.LabelledBy == mappingTag(version))
}
