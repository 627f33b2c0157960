package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
)

// printJSON writes one value as one line of JSON.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printLines writes one line of JSON for each row.
func printLines[T any](w io.Writer, rows []T) error {
	for _, r := range rows {
		if err := printJSON(w, r); err != nil {
			return err
		}
	}
	return nil
}

// printTable writes rows as a table for people.
func printTable(w io.Writer, header []string, rows [][]string) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = 0
	t.SetStyle(style)
	t.AppendHeader(cells(header))
	for _, r := range rows {
		t.AppendRow(cells(r))
	}
	t.Render()
}

// printRows prints the rows of a list, or that there are none.
func (a *app) printRows(header []string, rows [][]string) {
	if len(rows) == 0 {
		a.say("There is nothing to list.")
		return
	}
	printTable(a.out, header, rows)
}

func cells(texts []string) table.Row {
	row := make(table.Row, len(texts))
	for i, s := range texts {
		row[i] = visible(s)
	}
	return row
}

// visible replaces control and bidirectional characters, so that a value from
// outside cannot steer the terminal (fault F91).
func visible(s string) string { return strings.Map(harmless, s) }

func harmless(r rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
		return '\uFFFD'
	}
	return r
}

// shown returns the text of an optional value.
func shown(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// plural returns "1 thing" or "n things".
func plural(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "s"):
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
