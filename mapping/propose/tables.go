package propose

import (
	"slices"
	"strings"
)

// Likely scores a table as the table of customers, by its name and its columns; 0 or less means no sign of
// it. A table without a column for a name scores none.
func Likely(name string, columns []string) int {
	points := 0
	words := strings.Fields(plainWords(name[strings.LastIndexByte(name, '.')+1:]))
	for i, w := range customerTables {
		if !slices.Contains(words, w) {
			continue
		}
		points = 100 - i
		if len(words) > 1 {
			points -= 20
		}
		break
	}
	for _, w := range words {
		if slices.Contains(besideTables, w) ||
			slices.ContainsFunc(documents, func(d string) bool { return strings.HasPrefix(w, d) }) {
			points -= 80
		}
	}
	has := func(roles ...role) bool {
		return slices.ContainsFunc(columns, func(name string) bool {
			c := newColumn(Table{}, 0, name)
			return slices.ContainsFunc(roles, func(r role) bool { return c.score(r) > 400 })
		})
	}
	if !has(roleName, roleCompany, roleLast) {
		return 0
	}
	for _, r := range [][]role{{roleEmail}, {roleStreet, rolePlace}, {roleTown, rolePostcode}, {rolePhone, roleMobile},
		{roleID}} {
		if has(r...) {
			points += 20
		}
	}
	return points
}
