// Package csvfile reads customers from one exported CSV file. Every read is the whole file. A missing row
// says nothing about its customer, because an export is chosen by hand, without ids of removed customers or
// times of edit. README.md lists the traps.
//
// This package finds out how the file was written (encoding, delimiter, header row), gives every row one
// record, and keeps one bad row from stopping the others. It passes the cells on untouched: the mapping
// interprets the columns and their content.
//
// # From file to records
//
//	file ─▶ text ─▶ lines ─▶ rows ─▶ records ─▶ pages of 500
//	         │        │        │        └ a row becomes one record; rows that share an
//	         │        │        │          id become one record with a problem
//	         │        │        └ the header is the first of 50 rows with the id columns
//	         │        └ a row ends where its last cell does, however long it is
//	         └ byte order mark, else UTF-8, else Windows-1252
//
// The file is read twice, first for the ids and the quotation marks alone, so that
// memory holds one page and the ids, whatever the number of rows. A file that
// changed meanwhile ends the read with an error.
//
// # Quotation marks
//
// The text of a cell may look like rows of the file, and must never become one. As long as every quotation
// mark follows the rules of CSV, the ends of cells are certain. A mark with text on both sides in a cell that
// is not quoted, as in 24" pipe, neither opens a cell nor closes one, and is text. After any other mark out
// of place a cell may go on for lines that look like rows. So everything behind it is one record with a
// problem, together with the rows before it that may be lines of the last quoted cell. The read ends with
// accounting.ErrUndecided.
//
// # Source ids
//
// A record's source id is the text of its id column without surrounding spaces.
// Several id columns are joined with "|"; a "|" or "\" inside one of them is
// written "\|" or "\\", so that different values never give the same id. A row
// without a usable id is known as "line N"; a row whose id reads like that is
// refused, so these never meet a real one.
package csvfile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// The limits of a file. Above them is an error (size, columns) or a problem of the row (MaxRowBytes).
const (
	MaxFileBytes = 256 << 20 // bytes of a file
	MaxRowBytes  = 256 << 10 // bytes of a row in UTF-8, quoted line breaks included
	MaxColumns   = 1000      // columns of a header
)

const pageSize = 500 // records per page

// Config names the file and its format. Only Path is always needed; ID is needed too unless Preset knows the
// system's own id column.
type Config struct {
	Path string `yaml:"path"`

	// Within is the folder that must contain the file.
	Within connector.Within `yaml:"-" json:"-"`

	// ID names the column with a customer's id, or several columns that form it together.
	ID []string `yaml:"id,omitempty"`

	// Preset is the exporting system; "" is generic.
	Preset string `yaml:"preset,omitempty" jsonschema:"enum=generic,enum=xero,enum=sage"`

	// Encoding is detected when it is "" or auto. A byte order mark always wins.
	Encoding string `yaml:"encoding,omitempty" jsonschema:"enum=auto,enum=utf-8,enum=utf-16le,enum=utf-16be,enum=windows-1252,enum=iso-8859-15,enum=macintosh,enum=cp850,enum=cp437,enum=utf-8-twice"`

	// Delimiter is one character, or the word tab. When it is "" or auto, a comma,
	// semicolon or tab is detected.
	Delimiter string `yaml:"delimiter,omitempty"`
}

// Source is a CSV file as an accounting source. It holds no file open between
// calls and may be used by several goroutines at once.
type Source struct {
	path     string
	within   connector.Within
	name     string // base name, for people
	ids      [][]string
	preset   preset
	encoding string
	comma    rune // 0: detect
}

// New returns the source of the configuration c. It does not touch the file. Its errors name the wrong key of
// c.
func New(c Config) (*Source, error) {
	if strings.TrimSpace(c.Path) == "" {
		return nil, fmt.Errorf("csv source: path is blank; name the exported file")
	}
	p, err := presetNamed(cmp.Or(c.Preset, "generic"))
	if err != nil {
		return nil, err
	}
	comma, err := delimiterNamed(c.Delimiter)
	if err != nil {
		return nil, err
	}
	if err := checkEncoding(c.Encoding); err != nil {
		return nil, err
	}
	ids, err := idColumns(c.ID, p)
	if err != nil {
		return nil, err
	}
	return &Source{
		path: c.Path, within: c.Within, name: filepath.Base(c.Path), ids: ids,
		preset: p, encoding: cmp.Or(c.Encoding, autoDetect), comma: comma,
	}, nil
}

// idColumns returns the alternatives for a row's id: the configured columns, or
// else those of the preset.
func idColumns(configured []string, p preset) ([][]string, error) {
	if len(configured) == 0 {
		if len(p.ids) == 0 {
			return nil, fmt.Errorf("csv source: id is missing; name the column that identifies a customer, for example id: [AccountNumber]")
		}
		return p.ids, nil
	}
	columns := make([]string, len(configured))
	for i, name := range configured {
		columns[i] = columnName(name)
		if columns[i] == "" {
			return nil, fmt.Errorf("csv source: entry %d of id is blank; name a column of the file or remove the entry", i+1)
		}
	}
	return [][]string{columns}, nil
}

// Describe reads the header and returns its columns as text fields, spelt as in the file. It fails with the
// errors of an unreadable file.
func (s *Source) Describe(ctx context.Context) (connector.SourceInfo, error) {
	e, err := s.open(ctx)
	if err != nil {
		return connector.SourceInfo{}, err
	}
	defer e.close()
	info := connector.SourceInfo{Kind: "csv", Snapshot: true}
	for i, name := range e.header.names {
		info.Fields = append(info.Fields, s.preset.field(name, i+1))
	}
	return info, e.unchanged()
}

// Customers yields every row of the file in its order, in pages of 500; since is ignored. An unusable row is
// a record with its Problem set and no data. The sequence ends with an error when the file is absent, empty,
// without header, cut off, or changed during the read (fault F45), and with accounting.ErrUndecided when a
// quotation mark makes the rows uncertain.
func (s *Source) Customers(ctx context.Context, _ time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		err := s.read(ctx, func(p connector.Page) bool { return yield(p, nil) })
		if err != nil {
			yield(connector.Page{}, err)
		}
	}
}

// form is the version of the conversion from a file to records. Raise it with every change that gives other
// records for the same file, so files are read again.
const form = 1

// Mark returns a digest of the file's bytes, its name, and all configuration for reading it.
func (s *Source) Mark(ctx context.Context) (string, error) {
	e := &export{path: s.path, within: s.within}
	if err := ctx.Err(); err != nil {
		return "", e.unreadable(err)
	}
	if err := e.openFile(); err != nil {
		return "", err
	}
	defer e.close()
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %q %q %q %d\n", form, s.name, s.ids, s.encoding, s.comma)
	if _, err := io.Copy(sum, io.LimitReader(e.file, MaxFileBytes+1)); err != nil {
		return "", e.unreadable(err)
	}
	return hex.EncodeToString(sum.Sum(nil)), e.unchanged()
}

// read passes the file's pages to yield until yield stops, which is no error.
func (s *Source) read(ctx context.Context, yield func(connector.Page) bool) error {
	e, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer e.close()
	found, err := e.survey(ctx)
	if err != nil {
		return err
	}
	page := make([]connector.Record, 0, pageSize)
	recorder, cut := newRecorder(e.header, s.name, found.shared), false
	for r, err := range e.certain(ctx, found.stray) {
		if err != nil {
			return err
		}
		cut = r.cut
		if found.shared.repeated(r) {
			continue
		}
		page = append(page, recorder.record(r))
		if len(page) < pageSize {
			continue
		}
		if err := e.unchanged(); err != nil {
			return err
		}
		if !yield(connector.Page{Records: page}) {
			return nil
		}
		page = make([]connector.Record, 0, pageSize)
	}
	if err := e.unchanged(); err != nil {
		return err
	}
	if len(page) > 0 && !yield(connector.Page{Records: page}) {
		return nil
	}
	return e.whole(cut, found.stray)
}

// whole says whether the file was read to its end.
func (e *export) whole(cut bool, stray *strayMark) error {
	switch {
	case cut:
		return e.fail("its last line ends in the middle of a row, so rows may be missing behind it",
			"export it again, or end the last line if the file is whole", io.ErrUnexpectedEOF)
	case stray != nil:
		return e.fail(stray.why(), strayNext, accounting.ErrUndecided)
	}
	return nil
}
