package show

import (
	"fmt"
	"slices"
	"time"

	"payersync/connector/safecsv"
)

// Column is one column of a Listing.
type Column[T any] struct {
	Name   string         // in CSV; blank for a column that only tables have
	Title  string         // in tables; blank for a column that only CSV has
	Cell   func(T) string // the text for people
	Stored func(T) string // the text in CSV; nil for that of Cell
	Sparse bool           // a table omits the column if all of its cells are blank
}

// Listing prints the rows of a list as --output asks for: as a table, as one JSON object on a line each, or as CSV.
// Its columns are those of the table and of the CSV; JSON has the members of T.
type Listing[T any] struct {
	Columns []Column[T]
	Empty   string   // what people read about a list without rows; blank for a common sentence
	Narrow  []string // titles of the columns that a narrow terminal does without, in this order
	Paged   bool     // a table is written page by page, so that it is never in memory as a whole

	console *Console
	csv     *safecsv.Writer
	table   PagedTable
	rows    []T // of a table that is written at the end
	any     bool
}

// On directs the listing to a console, and returns it.
func (l *Listing[T]) On(c *Console) *Listing[T] {
	l.console = c
	return l
}

// Print writes all rows of a list.
func (l *Listing[T]) Print(rows []T) error {
	if err := l.Write(rows); err != nil {
		return err
	}
	return l.End()
}

// Write writes the next rows. A table that is not Paged waits for End.
func (l *Listing[T]) Write(rows []T) error {
	l.any = l.any || len(rows) > 0
	switch {
	case l.console.JSON():
		return Lines(l.console.Out, rows)
	case l.console.CSV():
		return l.writeCSV(rows)
	case l.Paged:
		l.writeTable(rows)
	default:
		l.rows = append(l.rows, rows...)
	}
	return nil
}

// End writes the rest. People read what an empty list means.
func (l *Listing[T]) End() error {
	switch {
	case l.console.JSON():
	case l.console.CSV():
		if err := l.writeCSV(nil); err != nil { // a list without rows has its header
			return err
		}
		return l.csv.Close()
	case l.any:
		l.writeTable(l.rows)
	case l.Empty != "":
		l.console.Print("%s", l.Empty)
	default:
		l.console.Print("There is nothing to list.")
	}
	return nil
}

func (l *Listing[T]) writeCSV(rows []T) error {
	columns := slices.DeleteFunc(slices.Clone(l.Columns), func(c Column[T]) bool { return c.Name == "" })
	if l.csv == nil {
		l.csv = safecsv.New(l.console.Out, ',')
		if err := l.csv.Row(textsOf(columns, func(c Column[T]) string { return c.Name })); err != nil {
			return err
		}
	}
	for _, row := range rows {
		if err := l.csv.Row(textsOf(columns, func(c Column[T]) string {
			if c.Stored != nil {
				return c.Stored(row)
			}
			return c.Cell(row)
		})); err != nil {
			return err
		}
	}
	return nil
}

// textsOf returns a text of each column.
func textsOf[T any](columns []Column[T], of func(Column[T]) string) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = of(c)
	}
	return out
}

func (l *Listing[T]) writeTable(rows []T) {
	if len(rows) == 0 {
		return
	}
	columns := slices.DeleteFunc(slices.Clone(l.Columns), func(c Column[T]) bool {
		return c.Title == "" || c.Sparse && !slices.ContainsFunc(rows, func(row T) bool { return c.Cell(row) != "" })
	})
	header, cells := tableOf(columns, rows)
	for _, title := range l.Narrow {
		if Fits(l.console.Out, header, cells) {
			break
		}
		columns = slices.DeleteFunc(columns, func(c Column[T]) bool { return c.Title == title })
		header, cells = tableOf(columns, rows)
	}
	l.table.Write(l.console.Out, header, cells)
}

func tableOf[T any](columns []Column[T], rows []T) (header []string, cells [][]string) {
	for _, row := range rows {
		cells = append(cells, textsOf(columns, func(c Column[T]) string { return c.Cell(row) }))
	}
	return textsOf(columns, func(c Column[T]) string { return c.Title }), cells
}

// Number returns a column of numbers.
func Number[T any, N int | int64](name, title string, of func(T) N) Column[T] {
	return Column[T]{Name: name, Title: title, Cell: func(row T) string { return fmt.Sprint(of(row)) }}
}

// Moment returns a column of times: local in tables, UTC in CSV, blank for the zero time.
func Moment[T any](name, title string, of func(T) time.Time) Column[T] {
	return Column[T]{Name: name, Title: title, Cell: func(row T) string { return Time(of(row)) },
		Stored: func(row T) string {
			if of(row).IsZero() {
				return ""
			}
			return of(row).UTC().Format(time.RFC3339)
		}}
}

// StoredMoment returns a column of times of the ledger, which CSV has as they are stored.
func StoredMoment[T any](name, title string, of func(T) string) Column[T] {
	return Column[T]{Name: name, Title: title, Cell: func(row T) string { return Stored(of(row)) }, Stored: of}
}
