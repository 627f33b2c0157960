package propose

import (
	"regexp"
	"slices"
	"strings"
)

// templateCell matches a template's placeholder for a value.
var templateCell = regexp.MustCompile(`(?i)^[(\[<]?(required|optional|mandatory|pflichtfeld|pflicht|freiwillig|obligatoire|facultatif|obbligatorio|verplicht|obligatorio|text|string|number|numeric|integer|date|boolean|decimal|n?(var)?char(\(\d+\))?|text\(\d+\)|max\.? ?\d+.*|up to \d+ char.*|(e\.?g\.?|z\. ?b\.|p\. ?ex\.|bijv\.|for example|example|beispiel)[:. ].*)[)\]>]?$`)

// templateRows is how many rows below the headings a template may fill.
const templateRows = 3

// setTemplatesAside moves rows with repeated headings, or descriptions of them, to the totals: they are no
// customers.
func (t *Table) setTemplatesAside() {
	rows := make([][]string, 0, len(t.Rows))
	for i, row := range t.Rows {
		if t.isTemplate(row, i < templateRows) {
			t.Totals = append(slices.Clip(t.Totals), row)
			continue
		}
		rows = append(rows, row)
	}
	t.Rows = rows
}

func (t *Table) isTemplate(row []string, begins bool) bool {
	filled, repeated := 0, 0
	for i, cell := range row {
		cell = strings.TrimSpace(cell)
		if cell == "" {
			continue
		}
		filled++
		switch {
		case strings.EqualFold(cell, t.Columns[i]):
			repeated++
		case !begins || !templateCell.MatchString(cell):
			return false
		}
	}
	return filled > 1 && (begins || repeated == filled)
}
