package propose

import (
	"regexp"
	"slices"
	"strings"
)

var timeForm = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$`)

// Changed returns the column that holds the time of a row's last edit; "" for none.
func Changed(t Table) string {
	for _, word := range changedWords {
		for at, name := range t.Columns {
			if plainWords(name) == word && t.holdsTimes(at) {
				return name
			}
		}
	}
	return ""
}

func (t Table) holdsTimes(at int) bool {
	filled := false
	return !slices.ContainsFunc(t.Rows, func(row []string) bool {
		cell := strings.TrimSpace(row[at])
		filled = filled || cell != ""
		return cell != "" && !timeForm.MatchString(cell)
	}) && filled
}
