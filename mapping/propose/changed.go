package propose

import (
	"regexp"
	"slices"
	"strings"
)

// changedWords stand above a column with the time of a row's last edit, likeliest first.
var changedWords = []string{
	"updated at", "modified at", "changed at", "last modified at", "last modified", "last updated", "last update", "last change", "last changed", "modified", "updated", "changed", "write date", "modification date", "date modified", "date updated", "updated on", "modified on", "changed on", "tms", "mtime", "update time", "updated time",
	"geandert am", "geaendert am", "geandert", "geaendert", "anderungsdatum", "aenderungsdatum", "letzte anderung", "modifie le", "date modification", "date de modification", "modificato il", "data modifica", "gewijzigd op", "gewijzigd", "modificado", "fecha modificacion",
}

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
