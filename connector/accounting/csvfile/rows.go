package csvfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// row is one row of the file, header and titles included.
type row struct {
	line    int      // its first line, counted from 1
	cells   []string // nil when it cannot be used
	problem string   // why it cannot be used, a sentence; "" when it can
	id      string   // source id, of rows below the header
	cut     bool     // the file ends inside this row
}

// strayMark is a quotation mark out of place: the end of its cell is uncertain, so every line from line from
// on may be a row or the text of a cell.
type strayMark struct {
	line int  // of the mark
	from int  // the first uncertain line
	cut  bool // the file may end inside the cell
}

// Error gives the line of the mark; Error.Why of the file says more.
func (s *strayMark) Error() string { return fmt.Sprintf("stray quotation mark in line %d", s.line) }

// rowReader splits text into rows. A cell with a quotation mark as its first character ends at the next mark
// before a delimiter or the end of a line. A mark inside such a cell is written twice. In any other cell a
// mark with text on both sides is text.
//
// Every other mark is stray, and ends the reading: it may belong to a cell with lines like rows in its text. So does
// a mark that opens a cell with as many delimiters in its lines as rows have: the rows behind it may have become its
// text.
type rowReader struct {
	in    *bufio.Reader
	comma string
	width int // columns a row must have; 0 takes any number

	line int    // the line of the next byte
	size int    // bytes of the current row
	text []byte // of the current row's cells; none of it beyond MaxRowBytes
	ends []int  // of the cells in text
	last byte   // the last byte read

	begun  int // the first line of the current row
	quoted int // the first line of the last row with a quoted cell; 0 for none
	plain  int // rows since then without one
}

func newRowReader(text io.Reader, comma rune) *rowReader {
	r := &rowReader{in: bufio.NewReaderSize(text, 64<<10), comma: string(comma), line: 1}
	for r.follows("\ufeff") { // a second byte order mark
		r.size = 0
	}
	return r
}

// enter begins the rows below a header of so many columns. The cells above are
// certain: the header was found in them.
func (r *rowReader) enter(width int) { r.width, r.quoted, r.plain = width, 0, 0 }

// next returns the next row with content, and io.EOF behind the last one.
func (r *rowReader) next() (row, error) {
	for {
		end, err := r.read()
		if err != nil {
			return row{}, err
		}
		out := row{line: r.begun}
		if r.size > MaxRowBytes {
			out.problem = fmt.Sprintf("begins a row of more than %d KiB", MaxRowBytes>>10)
		} else {
			out.cells, out.problem = fit(r.cells(), r.width)
		}
		switch {
		case out.problem != "":
			out.problem = fmt.Sprintf("Line %d %s.", out.line, out.problem)
			out.cut = end == endOfFile
			return out, nil
		case slices.ContainsFunc(out.cells, filled):
			return out, nil
		}
	}
}

// cells returns the cells of the current row; they share one string.
func (r *rowReader) cells() []string {
	text, from := string(r.text), 0
	cells := make([]string, len(r.ends))
	for i, end := range r.ends {
		cells[i], from = text[from:end], end
	}
	return cells
}

// ending is the end of a cell.
type ending int

const (
	inside ending = iota // it does not end here
	endOfCell
	endOfLine
	endOfFile
)

// read reads one row to its true end, and the blank lines before it.
func (r *rowReader) read() (ending, error) {
	b, end, err := r.char()
	for err == nil && end == endOfLine {
		b, end, err = r.char()
	}
	if err == nil && end == endOfFile {
		err = io.EOF
	}
	r.begun, r.size, r.text, r.ends = r.line, 1, r.text[:0], r.ends[:0]
	r.plain++
	for err == nil {
		if end, err = r.cell(b, end); err != nil {
			break
		}
		r.ends = append(r.ends, len(r.text))
		if end != endOfCell {
			return end, nil
		}
		b, end, err = r.char()
	}
	return inside, err
}

// char returns the next character's byte, or the end of an unquoted cell. A line break is one character, in
// every spelling.
func (r *rowReader) char() (byte, ending, error) {
	b, err := r.in.ReadByte()
	if errors.Is(err, io.EOF) {
		return 0, endOfFile, nil
	}
	if err != nil {
		return 0, inside, err
	}
	if b == endMark && r.isEnd() {
		return 0, endOfFile, nil
	}
	r.size++
	r.last = b
	switch {
	case b == '\r' && (r.follows("\n") || r.atEnd()):
		r.last = '\n'
	case b == r.comma[0] && r.follows(r.comma[1:]):
		return b, endOfCell, nil
	}
	if r.last != '\n' {
		return b, inside, nil
	}
	r.line++
	return '\n', endOfLine, nil
}

// follows takes text if it comes next, and reports whether it did.
func (r *rowReader) follows(text string) bool {
	if text == "" {
		return true
	}
	next, _ := r.in.Peek(len(text)) // an error comes again with the next byte
	if string(next) != text {
		return false
	}
	_, _ = r.in.Discard(len(text)) // it was peeked at
	r.size += len(text)
	return true
}

// endMark is the character at the end of files of DOS programs.
const endMark = 0x1a

// isEnd reports whether nothing but end marks follows, and takes them.
func (r *rowReader) isEnd() bool {
	rest, err := r.in.Peek(1 << 10)
	if !errors.Is(err, io.EOF) || len(bytes.Trim(rest, "\x1a\r\n")) > 0 {
		return false
	}
	_, _ = r.in.Discard(len(rest)) // it was peeked at
	return true
}

func (r *rowReader) atEnd() bool {
	_, err := r.in.Peek(1)
	return errors.Is(err, io.EOF)
}

// cell reads one cell, from its first character b or its end.
func (r *rowReader) cell(b byte, end ending) (ending, error) {
	if end == inside && b == '"' {
		return r.quotedCell()
	}
	var err error
	blank, marked := true, false // nothing but spaces yet; nothing but spaces since a mark
	for ; end == inside && err == nil; b, end, err = r.char() {
		switch {
		case b == '"' && blank: // some write a space before a quoted cell
			return inside, r.stray(r.line, false)
		case b == '"':
			marked = true
		case b != ' ' && b != '\t':
			blank, marked = false, false
		}
		r.keep(b)
	}
	if marked && r.quoted > 0 && err == nil {
		return inside, r.stray(r.markLine(end), true)
	}
	return end, err
}

// quotedCell reads the rest of a cell behind its first mark.
func (r *rowReader) quotedCell() (ending, error) {
	opened, commas := r.line, 0
	for {
		b, end, err := r.char()
		switch {
		case err != nil:
			return inside, err
		case end == endOfFile:
			never := r.stray(opened, false)
			never.cut = r.last != '\n'
			return inside, never
		case end == endOfCell:
			commas++
			r.keep([]byte(r.comma)...)
			continue
		case b != '"':
			r.keep(b)
			continue
		}
		last := r.line
		if b, end, err = r.char(); err != nil {
			return inside, err
		}
		switch {
		case end != inside && r.holdsRows(last-opened, commas):
			return inside, r.stray(opened, false)
		case end != inside:
			r.quoted, r.plain = r.begun, 0
			return end, nil
		case b != '"':
			return inside, r.stray(r.line, false)
		}
		r.keep('"')
	}
}

// fewestColumns is the number of columns from which a row is told from text by its delimiters. The text of an address
// may well have three in a line.
const fewestColumns = 5

// holdsRows reports whether the text of a cell with so many line breaks and delimiters may be rows of the file.
func (r *rowReader) holdsRows(breaks, commas int) bool {
	return r.width >= fewestColumns && breaks > 0 && commas >= breaks*(r.width-1)
}

// keep makes text part of the current row.
func (r *rowReader) keep(text ...byte) {
	if r.size <= MaxRowBytes {
		r.text = append(r.text, text...)
	}
}

// markLine returns the line of the mark behind a cell.
func (r *rowReader) markLine(end ending) int {
	if end == endOfLine {
		return r.line - 1
	}
	return r.line
}

// stray ends the reading at a mark. The rows since the last quoted cell are uncertain if the mark may be that
// cell's end, or if some of them have no quoted cell: they may all be lines of it.
func (r *rowReader) stray(line int, mayEnd bool) *strayMark {
	s := &strayMark{line: line, from: r.begun}
	if r.quoted > 0 && (mayEnd || r.plain > 1) {
		s.from = r.quoted
	}
	return s
}

// fit cuts blank cells beyond the width of the header and refuses rows of any other width: their values may
// be in the wrong columns.
func fit(cells []string, width int) ([]string, string) {
	if width == 0 {
		return cells, ""
	}
	for len(cells) > width && !filled(cells[len(cells)-1]) {
		cells = cells[:len(cells)-1]
	}
	switch {
	case len(cells) > width:
		return nil, fmt.Sprintf("has %d columns where the header has %d", len(cells), width)
	case len(cells) < width && slices.ContainsFunc(cells, filled):
		return nil, fmt.Sprintf("has only %d of the header's %d columns", len(cells), width)
	}
	return cells, ""
}

func filled(cell string) bool { return strings.TrimSpace(cell) != "" }
