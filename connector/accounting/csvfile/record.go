package csvfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"payersync/connector"
)

// spoilt matches ids damaged by spreadsheets: long digits as 1.23E+15, errors, and ##### from a narrow
// column.
var spoilt = regexp.MustCompile(`^(?:-?\d(?:[.,]\d+)?[Ee][+-]\d+|#+|#(?:REF!|N/A|VALUE!|NAME\?|NUM!|NULL!|DIV/0!))$`)

// lineID matches the ids of rows without a usable id of their own.
var lineID = regexp.MustCompile(`^line [0-9]+$`)

// identify completes a row below the header with its id, and with a problem when
// its text cannot be used.
func (h header) identify(r row) row {
	id, problem := "", ""
	if r.cells != nil {
		id, problem = h.id(r)
		r.problem = h.textProblem(r)
	}
	if problem != "" {
		r.problem = problem
	}
	if r.id = id; id == "" {
		r.id = "line " + strconv.Itoa(r.line)
	}
	return r
}

// id returns the id of the first filled alternative, or the reason why there is none.
func (h header) id(r row) (id, problem string) {
	for _, columns := range h.ids {
		var ok bool
		if id, ok = joinID(r.cells, columns); !ok {
			continue
		}
		if problem := h.idProblem(r, columns); problem != "" {
			return "", problem
		}
		return id, ""
	}
	return "", fmt.Sprintf("Line %d needs a value in %s.", r.line, strings.TrimSuffix(h.idNames(), "."))
}

// joinID joins the cells of an id; false when one of them is blank.
func joinID(cells []string, columns []int) (string, bool) {
	if len(columns) == 1 {
		id := strings.TrimSpace(cells[columns[0]])
		return id, id != ""
	}
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = escapeID.Replace(strings.TrimSpace(cells[c]))
		if parts[i] == "" {
			return "", false
		}
	}
	return strings.Join(parts, "|"), true
}

var escapeID = strings.NewReplacer(`\`, `\\`, `|`, `\|`)

func (h header) idProblem(r row, columns []int) string {
	for _, c := range columns {
		cell := strings.TrimSpace(r.cells[c])
		switch {
		case garbled(cell) || strings.ContainsFunc(cell, unicode.IsControl):
			return fmt.Sprintf("The %s in line %d holds characters that are no text.", h.names[c], r.line)
		case spoilt.MatchString(cell):
			return fmt.Sprintf("The %s in line %d was changed by a spreadsheet (long numbers turn into 1.23E+15); format the column as text and export it again.", h.names[c], r.line)
		case len(columns) == 1 && lineID.MatchString(cell):
			return fmt.Sprintf("The %s in line %d reads like a line number and cannot be used as an id.", h.names[c], r.line)
		}
	}
	return ""
}

// idNames returns the id columns for people: "A and B", or "A or B" when either
// will do.
func (h header) idNames() string {
	var alternatives []string
	for _, columns := range h.ids {
		var names []string
		for _, c := range columns {
			names = append(names, h.names[c])
		}
		alternatives = append(alternatives, strings.Join(names, " and "))
	}
	return strings.Join(alternatives, " or ")
}

// textProblem names the first column with unusable text (fault F52). It accepts all other characters; later
// steps decide which may be sent.
func (h header) textProblem(r row) string {
	for c, cell := range r.cells {
		switch {
		case strings.IndexByte(cell, 0) >= 0:
			return fmt.Sprintf("The %s in line %d holds a NUL character.", h.names[c], r.line)
		case garbled(cell):
			return fmt.Sprintf("The %s in line %d holds characters that could not be read in the file's encoding.", h.names[c],
				r.line)
		}
	}
	return ""
}

// recorder turns rows into records.
type recorder struct {
	file   string
	shared sharedIDs
	idName string
	keys   []string // each column's name as a JSON key, with colon and, but for the first, comma
	buffer bytes.Buffer
	json   *json.Encoder
}

func newRecorder(h header, file string, shared sharedIDs) *recorder {
	r := &recorder{file: file, shared: shared, idName: h.idNames()}
	r.json = json.NewEncoder(&r.buffer)
	r.json.SetEscapeHTML(false)
	for i, name := range h.names {
		key := r.quote(name) + ":"
		if i > 0 {
			key = "," + key
		}
		r.keys = append(r.keys, key)
	}
	return r
}

func (rec *recorder) record(r row) connector.Record {
	out := connector.Record{
		SourceID: strings.Clone(r.id), // it may be kept, and would hold the whole row's text
		State:    connector.RecordActive,
		Data:     json.RawMessage("{}"),
		Origin:   fmt.Sprintf("%s line %d", rec.file, r.line),
		Problem:  r.problem,
	}
	if lines := rec.shared[r.id]; lines != nil {
		out.Problem = fmt.Sprintf("Lines %s have the same %s; each customer needs its own row and its own %s.",
			listLines(lines), rec.idName, strings.TrimSuffix(rec.idName, "."))
	}
	if out.Problem == "" {
		out.Data = rec.data(r.cells)
	}
	return out
}

// data returns the cells as a JSON object in the order of the columns.
func (rec *recorder) data(cells []string) json.RawMessage {
	rec.buffer.Reset()
	rec.buffer.WriteByte('{')
	for i, cell := range cells {
		rec.buffer.WriteString(rec.keys[i])
		rec.appendText(cell)
	}
	rec.buffer.WriteByte('}')
	return bytes.Clone(rec.buffer.Bytes())
}

func (rec *recorder) quote(text string) string {
	rec.buffer.Reset()
	rec.appendText(text)
	return rec.buffer.String()
}

// appendText writes text as a JSON string. The encoder cannot fail on a string into memory. Its line break at
// the end is cut off.
func (rec *recorder) appendText(text string) {
	_ = rec.json.Encode(text)
	rec.buffer.Truncate(rec.buffer.Len() - 1)
}

// listLines returns "4 and 9" or "4, 9, 12 and 20", shortened after the fifth.
func listLines(lines []int) string {
	const most = 5
	words := make([]string, 0, most+1)
	for _, n := range lines[:min(len(lines), most)] {
		words = append(words, strconv.Itoa(n))
	}
	if more := len(lines) - most; more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
