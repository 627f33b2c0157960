package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"payersync/connector"
	"payersync/mapping"
	"payersync/mapping/strict"

	"payersync/cmd/payersync/internal/usage"
)

// maxMapping is the size of mapping file that is read; the loader refuses it.
const maxMapping = 2 << 20

func loadMapping(path string, info connector.SourceInfo) (*mapping.Mapping, error) {
	data, err := readMapping(path)
	if err != nil {
		return nil, err
	}
	return mapping.Load(path, data, info)
}

// mappingForRun loads a mapping that a run may go by: its examples hold. How they differ is
// left to mapping check, because they may be somebody's records, and this may be logged.
func mappingForRun(path string, info connector.SourceInfo) (*mapping.Mapping, error) {
	m, err := loadMapping(path, info)
	if err != nil {
		return nil, err
	}
	var differ *strict.Error
	if err := m.CheckExamples(); errors.As(err, &differ) {
		first := differ.Problems[0]
		first.Message, first.Source = fmt.Sprintf("what becomes of its examples differs from what they want, in %s; "+
			"payersync mapping check shows them: mend the mapping or the examples", plural(len(differ.Problems), "place")), ""
		return nil, strict.NewError([]strict.Problem{first})
	} else if err != nil {
		return nil, err
	}
	return m, nil
}

func readMapping(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the configuration names it; it is only read
	if err != nil {
		return nil, usage.Errorf("the mapping cannot be read: %w; name the file in connections[].mapping", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxMapping))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read the mapping %s: %w", path, err)
	}
	return data, nil
}
