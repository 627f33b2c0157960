package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/csvfile"
	"payersync/mapping"
)

// mostTried is the number of rows of a file or table planned on the model. A plan stores each record in a
// ledger, about half a millisecond a row.
const mostTried = 5000

// rowCounts are the mapping's results for all rows of a file, without a plan.
type rowCounts struct {
	Customers int `json:"customers"`
	Asked     int `json:"asked"`    // of the customers, for a mandate
	LeftOut   int `json:"left_out"` // excluded rows
	Held      int `json:"held"`     // records on hold
}

// firstRows returns the set-up for the first rows of a large file, written into a folder: a plan of all of
// them would take minutes. For other files it returns the set-up itself.
func (s *csvSetup) firstRows(dir string) (*dataSetup, error) {
	if s.found.Count <= mostTried || len(s.found.Rows) < mostTried {
		return &s.dataSetup, nil
	}
	first := *s
	first.csv = filepath.Join(dir, filepath.Base(s.csv))
	first.reads = csvfile.Config{Path: first.csv, ID: s.reads.ID, Preset: s.reads.Preset, Delimiter: ",",
		Encoding: "utf-8"}
	first.block = first.sourceBlock
	return &first.dataSetup, s.writeFirst(first.csv)
}

// writeFirst writes the first rows of the file in UTF-8 with commas, each on its line of the file.
func (s *csvSetup) writeFirst(path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // a folder made by init
	if err != nil {
		return fmt.Errorf("write the first rows of %s: %w", s.file(), err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := &lineCounter{to: f, line: 1}
	out := csv.NewWriter(lines)
	for i := -1; i < mostTried; i++ {
		cells, line := s.found.Columns, s.found.Line
		if i >= 0 {
			cells, line = s.found.Rows[i], s.found.Lines[i]
		}
		for lines.line < line {
			if _, err := lines.Write([]byte("\n")); err != nil {
				return err
			}
		}
		if err := out.Write(cells); err != nil {
			return err
		}
		out.Flush()
	}
	return out.Error()
}

// lineCounter counts the line of the next byte.
type lineCounter struct {
	to   *os.File
	line int
}

// Write writes text and counts its lines.
func (c *lineCounter) Write(text []byte) (int, error) {
	for _, b := range text {
		if b == '\n' {
			c.line++
		}
	}
	return c.to.Write(text)
}

// countRows applies the mapping to every row of the file or table.
func (s *dataSetup) countRows(ctx context.Context) (*rowCounts, error) {
	m, err := s.loaded()
	if err != nil {
		return nil, err
	}
	source, err := s.opened()
	if err != nil {
		return nil, err
	}
	var total rowCounts
	var lock sync.Mutex
	var pages errgroup.Group
	pages.SetLimit(runtime.GOMAXPROCS(0))
	for page, err := range source.Customers(ctx, time.Time{}) {
		switch {
		case errors.Is(err, accounting.ErrUndecided): // earlier rows are valid, and init reports it
		case err != nil:
			return nil, errors.Join(err, pages.Wait())
		}
		pages.Go(func() error {
			counts := countRecords(m, page.Records)
			lock.Lock()
			defer lock.Unlock()
			total.Customers += counts.Customers
			total.Asked += counts.Asked
			total.LeftOut += counts.LeftOut
			total.Held += counts.Held
			return nil
		})
	}
	return &total, pages.Wait()
}

// countRecords applies the mapping to records.
func countRecords(m *mapping.Mapping, records []connector.Record) (counts rowCounts) {
	for _, r := range records {
		made, err := m.Apply(r)
		switch {
		case r.Problem != "" || err != nil || made.Included && len(made.Customer.Problems()) > 0:
			counts.Held++
		case !made.Included:
			counts.LeftOut++
		default:
			counts.Customers++
			if made.RequestMandate {
				counts.Asked++
			}
		}
	}
	return counts
}
