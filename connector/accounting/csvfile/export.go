package csvfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"payersync/connector"
)

// export is a file opened for one read, with its detected format.
type export struct {
	path     string
	within   connector.Within
	file     *os.File
	info     fs.FileInfo // when it was opened
	encoding string
	comma    rune
	header   header
}

// Error says why a file could not be read as a whole, and what to do about it. It wraps its cause if there is
// one, for example fs.ErrNotExist.
type Error struct {
	Path string // as configured
	Why  string
	Next string
	Err  error
}

// Error returns the three parts in one line.
func (e *Error) Error() string { return fmt.Sprintf("cannot read %s: %s; %s", e.Path, e.Why, e.Next) }

// Unwrap returns the cause, nil when there is none.
func (e *Error) Unwrap() error { return e.Err }

func (e *export) fail(why, next string, cause error) error {
	return &Error{Path: e.path, Why: why, Next: next, Err: cause}
}

// open opens the file and finds its encoding, delimiter and header. The caller
// closes the export.
func (s *Source) open(ctx context.Context) (*export, error) {
	e := &export{path: s.path, within: s.within}
	if err := ctx.Err(); err != nil {
		return nil, e.unreadable(err)
	}
	if err := e.openFile(); err != nil {
		return nil, err
	}
	if err := e.recognise(s); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *export) close() { _ = e.file.Close() } // it was only read

// openFile opens a plain file of a sensible size. It looks before it opens: to
// open a pipe would wait for a writer.
func (e *export) openFile() error {
	info, err := e.within.Stat(e.path)
	if err == nil {
		err = e.checkFile(info)
	}
	if err == nil {
		e.file, err = e.within.Open(e.path)
	}
	switch {
	case errors.Is(err, connector.ErrLeadsOut):
		return e.fail("it leads out of its folder", "put the file itself there, and no symbolic link", err)
	case errors.Is(err, fs.ErrNotExist):
		return e.fail("there is no such file", "put the export there, or correct its path", err)
	case errors.Is(err, fs.ErrPermission):
		return e.fail("this user may not read it", "allow it to be read by the user that payersync runs as", err)
	}
	e.info = info
	return err
}

func (e *export) checkFile(info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return e.fail("it is not a plain file", "give the path of the exported CSV file", nil)
	case info.Size() == 0:
		return e.fail("it is empty", "export it again", nil)
	case info.Size() > MaxFileBytes:
		return e.fail(fmt.Sprintf("it has more than %d MiB", MaxFileBytes>>20), "export the customers only, or fewer columns",
			nil)
	}
	return nil
}

// unchanged returns an error if the file has changed since it was opened.
func (e *export) unchanged() error {
	now, err := e.within.Stat(e.path)
	if err == nil && os.SameFile(now, e.info) && now.Size() == e.info.Size() && now.ModTime().Equal(e.info.ModTime()) {
		return nil
	}
	return e.fail("it changed while it was being read", "run again when nothing writes to it", err)
}

// recognise finds out how the file is written, unless the configuration says so.
func (e *export) recognise(s *Source) error {
	start, err := e.start()
	if err != nil {
		return err
	}
	if e.encoding, err = e.chooseEncoding(s.encoding, start); err != nil {
		return err
	}
	search := &headerSearch{ids: s.ids}
	if err := e.findHeader(search, s.comma); err != nil {
		return err
	}
	if e.header.line == 0 {
		return e.noHeader(search, start)
	}
	return e.checkHeader()
}

// checkKind refuses anything but lines of text; start is the beginning of the file.
func (e *export) checkKind(start []byte) error {
	switch {
	case bytes.HasPrefix(start, []byte("PK\x03\x04")), bytes.HasPrefix(start, []byte("\xD0\xCF\x11\xE0")):
		return e.fail("it is a spreadsheet, not a CSV file", "save it from the spreadsheet as CSV UTF-8", nil)
	case bytes.IndexByte(start, '\r') >= 0 && bytes.IndexByte(start, '\n') < 0:
		return e.fail("its lines end as on very old Macintosh computers", "save it as CSV UTF-8", nil)
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(start, []byte("\ufeff")), " \t\r\n")
	for _, k := range otherKinds {
		if k.begins.Match(text) {
			return e.fail("it is "+k.what+", not a CSV file", k.next, nil)
		}
	}
	return nil
}

// otherKinds are text formats often mistaken for CSV, by their beginnings.
var otherKinds = []struct {
	what, next string
	begins     *regexp.Regexp
}{
	{"a web page", "open it in a spreadsheet, and save it from there as CSV UTF-8",
		regexp.MustCompile(`(?i)^<(!doctype html|html|head|body|table|meta)\b`)},
	{"an XML file", "export it again as CSV UTF-8", regexp.MustCompile(`^<\?xml\b`)},
	{"a PDF document", "export it again as CSV UTF-8", regexp.MustCompile(`^%PDF-`)},
	{"JSON", "export it again as CSV UTF-8", regexp.MustCompile(`^(\{\s*"|\[\s*\{)`)},
	{"a file of contact cards", "export it again as CSV UTF-8", regexp.MustCompile(`(?i)^BEGIN:VCARD`)},
}

func (e *export) checkHeader() error {
	if n := len(e.header.names); n > MaxColumns {
		return e.fail(fmt.Sprintf("its header has %d columns, more than %d", n, MaxColumns), "export fewer columns", nil)
	}
	for i, name := range e.header.names {
		if garbled(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return e.fail(fmt.Sprintf("the heading of column %d in line %d holds characters that are no text", i+1,
				e.header.line),
				"correct the heading or set encoding", nil)
		}
	}
	return nil
}

// chooseEncoding returns the encoding of the byte order mark, else the configured one, else the best fit for
// the whole file.
func (e *export) chooseEncoding(configured string, start []byte) (string, error) {
	if marked := markedEncoding(start); marked != "" {
		return marked, nil
	}
	if configured != autoDetect {
		return configured, nil
	}
	if err := e.rewind(); err != nil {
		return "", e.unreadable(err)
	}
	name, err := detectEncoding(e.file)
	if err != nil {
		return "", e.unreadable(err)
	}
	return name, nil
}

// findHeader tries the delimiters and keeps the one with the widest header.
func (e *export) findHeader(search *headerSearch, comma rune) error {
	commas := []rune{',', ';', '\t'}
	if comma != 0 {
		commas = []rune{comma}
	}
	for _, c := range commas {
		r, err := e.fromStart(c)
		if err != nil {
			return err
		}
		h, found, err := search.in(r)
		if err != nil {
			return e.unreadable(err)
		}
		if found && len(h.names) > len(e.header.names) {
			e.header, e.comma = h, c
		}
	}
	return nil
}

// noHeader explains a file without header; start is how the file begins.
func (e *export) noHeader(search *headerSearch, start []byte) error {
	if bytes.IndexByte(start, 0) >= 0 && !strings.HasPrefix(e.encoding, "utf-16") {
		return e.fail("it looks like UTF-16 without a byte order mark",
			"set encoding to utf-16le or utf-16be, or save it as CSV UTF-8", nil)
	}
	return e.fail(search.missing(), "correct id in the configuration or export the file with its header", nil)
}

// rows yields the rows below the header with their ids. It ends after the first
// error; a *strayMark is one.
func (e *export) rows(ctx context.Context) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		r, err := e.belowHeader()
		for err == nil {
			var next row
			if next, err = r.next(); err != nil {
				break
			}
			if err = ctx.Err(); err != nil {
				break
			}
			if !yield(e.header.identify(next), nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(row{}, e.unreadable(err))
		}
	}
}

// belowHeader returns a reader positioned behind the header.
func (e *export) belowHeader() (*rowReader, error) {
	r, err := e.fromStart(e.comma)
	if err != nil {
		return nil, err
	}
	for {
		above, err := r.next()
		if err != nil {
			return nil, err
		}
		if above.line == e.header.line {
			r.enter(len(e.header.names))
			return r, nil
		}
	}
}

func (e *export) fromStart(comma rune) (*rowReader, error) {
	if err := e.rewind(); err != nil {
		return nil, err
	}
	return newRowReader(decode(e.file, e.encoding), comma), nil
}

func (e *export) rewind() error {
	_, err := e.file.Seek(0, io.SeekStart)
	return err
}

// unreadable wraps an error of the file or the context.
func (e *export) unreadable(err error) error { return fmt.Errorf("read %s: %w", e.path, err) }

// survey is the result of a first reading of the file.
type survey struct {
	shared sharedIDs
	stray  *strayMark // the first unreadable place of the file; nil if there is none
}

// sharedIDs maps every repeated id to the lines of its rows.
type sharedIDs map[string][]int

// survey reads the file once for its ids and its quotation marks.
func (e *export) survey(ctx context.Context) (survey, error) {
	first, found := map[string]int{}, survey{shared: sharedIDs{}}
	for r, err := range e.rows(ctx) {
		if errors.As(err, &found.stray) {
			break
		}
		if err != nil {
			return found, err
		}
		line, seen := first[r.id]
		switch {
		case !seen:
			first[strings.Clone(r.id)] = r.line // the id is a part of its whole row's text
		case found.shared[r.id] == nil:
			found.shared[strings.Clone(r.id)] = []int{line, r.line}
		default:
			found.shared[r.id] = append(found.shared[r.id], r.line)
		}
	}
	return found, nil
}

// certain yields the rows that cannot be text of a cell. All others come as one row with a problem.
func (e *export) certain(ctx context.Context, stray *strayMark) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for r, err := range e.rows(ctx) {
			if errors.As(err, &stray) || err == nil && stray != nil && r.line >= stray.from {
				yield(e.header.identify(stray.row()), nil)
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// row stands for everything from the first uncertain line.
func (s *strayMark) row() row {
	return row{line: s.from, problem: fmt.Sprintf("L%s. None of it was used. Please c%s.", s.why()[1:], strayNext[1:]),
		cut: s.cut}
}

func (s *strayMark) why() string {
	return fmt.Sprintf("line %d has a quotation mark in the wrong place, so that rows and text cannot be told apart from line %d on", s.line, s.from)
}

const strayNext = "correct that line (inside quotation marks, a mark is written twice) and export the file again"

// repeated reports whether an earlier row already represents this one.
func (s sharedIDs) repeated(r row) bool {
	lines := s[r.id]
	return len(lines) > 0 && !slices.Equal(lines[:1], []int{r.line})
}
