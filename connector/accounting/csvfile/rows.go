package csvfile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// row is one row of the file, header and titles included.
type row struct {
	line    int      // where it begins, counted from 1
	cells   []string // valid until the next row; nil when it could not be split
	problem string   // why it cannot be used, a sentence; "" when it can
	id      string   // source id, of rows below the header
	cut     bool     // the file ends inside this row
}

// line is one physical line with its line break.
type line struct {
	number int
	text   []byte // blank when long
	long   bool   // over MaxRowBytes
}

var errRowTooLong = errors.New("row too long")

// lineReader hands encoding/csv one line at a time, so that csv never takes more
// than the row it is working on, and can take lines of a broken row back.
type lineReader struct {
	in     *bufio.Reader
	number int    // of the last line that came from in
	queue  []line // lines of the current row, then lines that were taken back
	used   int    // how many of queue the current row has used
	bytes  int    // size of those
	rest   []byte // of the last used line, not handed over yet
}

// Read implements io.Reader for encoding/csv.
func (l *lineReader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if err := l.advance(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// advance makes one more line part of the current row. Blank lines before a row
// are dropped.
func (l *lineReader) advance() error {
	for {
		if l.used == len(l.queue) {
			next, err := l.fetch()
			if err != nil {
				return err
			}
			l.queue = append(l.queue, next)
		}
		next := l.queue[l.used]
		if l.used == 0 && !next.long && len(bytes.TrimRight(next.text, "\r\n")) == 0 {
			l.queue = l.queue[1:]
			continue
		}
		l.used++
		l.bytes += len(next.text)
		if next.long || l.bytes > MaxRowBytes {
			return errRowTooLong
		}
		l.rest = next.text
		return nil
	}
}

// fetch reads the next line. A line that is too long is skipped to its end.
func (l *lineReader) fetch() (line, error) {
	next := line{number: l.number + 1}
	for {
		part, err := l.in.ReadSlice('\n')
		if len(next.text)+len(part) > MaxRowBytes {
			next.long, next.text = true, nil
		}
		if !next.long {
			next.text = append(next.text, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(next.text) == 0 && !next.long) {
			return line{}, err
		}
		l.number++
		return next, nil
	}
}

// begin makes ready for the next row. After a broken row only its first line is
// gone.
func (l *lineReader) begin(broken bool) {
	used := l.used
	if broken {
		used = min(used, 1)
	}
	l.queue = l.queue[used:]
	l.used, l.bytes, l.rest = 0, 0, nil
}

// atEnd reports whether the row's first line is the last of the file and has no
// line break.
func (l *lineReader) atEnd() bool {
	first := l.queue[0]
	return !first.long && !bytes.HasSuffix(first.text, []byte("\n"))
}

// rowReader splits text into rows.
type rowReader struct {
	lines  *lineReader
	csv    *csv.Reader
	width  int // columns a row must have; 0 takes any number
	broken bool
}

func newRowReader(text io.Reader, comma rune) *rowReader {
	lines := &lineReader{in: bufio.NewReaderSize(text, 64<<10)}
	r := csv.NewReader(lines)
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = comma, -1, true
	return &rowReader{lines: lines, csv: r}
}

// next returns the next row that is not blank, and io.EOF behind the last one.
func (r *rowReader) next() (row, error) {
	for {
		r.lines.begin(r.broken)
		cells, err := r.csv.Read()
		problem, err := rowProblem(err)
		if err != nil {
			return row{}, err
		}
		first := r.lines.queue[0].number
		if problem == "" {
			cells, problem = fit(cells, r.width)
		}
		r.broken = problem != ""
		if r.broken {
			return row{line: first, problem: fmt.Sprintf("Line %d %s.", first, problem), cut: r.lines.atEnd()}, nil
		}
		if slices.ContainsFunc(cells, filled) {
			return row{line: first, cells: cells}, nil
		}
	}
}

// rowProblem tells what is the matter with one row from what ends the read.
func rowProblem(err error) (problem string, fatal error) {
	var parse *csv.ParseError
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, errRowTooLong):
		return fmt.Sprintf("begins a row of more than %d KiB", MaxRowBytes>>10), nil
	case errors.As(err, &parse):
		return "has a quotation mark in the wrong place, so its columns cannot be told apart", nil
	default:
		return "", err
	}
}

// fit cuts blank cells beyond the width of the header and refuses rows of any
// other width: their values may stand in the wrong columns.
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
