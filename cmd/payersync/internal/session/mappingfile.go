package session

import (
	"errors"
	"fmt"
	"io"
	"os"

	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/billing"
	"payersync/mapping"
	"payersync/mapping/strict"
)

// MaxMapping limits the bytes read of a mapping file; the loader refuses a file of that size.
const MaxMapping = 2 << 20

// LoadMapping loads a mapping for a source with info, and a service with the dialect d. A mistake is a
// *strict.Error.
func LoadMapping(path string, info connector.SourceInfo, d billing.Dialect) (*mapping.Mapping, error) {
	data, err := ReadMapping(path)
	if err != nil {
		return nil, err
	}
	return ParseMapping(path, data, info, d)
}

// ParseMapping is LoadMapping for a text with a file name.
func ParseMapping(name string, data []byte, info connector.SourceInfo, d billing.Dialect) (*mapping.Mapping, error) {
	m, err := mapping.Load(name, data, info)
	if err != nil {
		return nil, err
	}
	if err := m.CheckFlags(d.Unnamed()); err != nil {
		return nil, err
	}
	return m, nil
}

// MappingForRun loads a mapping for a run: its examples must hold. Only mapping check shows the differences,
// because examples may be real records, and this error may be logged.
func MappingForRun(path string, info connector.SourceInfo, d billing.Dialect) (*mapping.Mapping, error) {
	m, err := LoadMapping(path, info, d)
	if err != nil {
		return nil, err
	}
	var differ *strict.Error
	if err := m.CheckExamples(); errors.As(err, &differ) {
		first := differ.Problems[0]
		first.Message, first.Source = fmt.Sprintf("its examples have other results than expected, in %s; payersync mapping check shows them: correct the mapping or the examples", connector.Plural(len(differ.Problems), "place")), ""
		return nil, strict.NewError([]strict.Problem{first})
	} else if err != nil {
		return nil, err
	}
	return m, nil
}

// ReadMapping returns the text of a mapping file. It is no longer than MaxMapping and a byte.
func ReadMapping(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the configuration names it; it is only read
	if err != nil {
		return nil, usage.Errorf("the mapping cannot be read: %w; name the file in connections[].mapping", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxMapping))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read the mapping %s: %w", path, err)
	}
	return data, nil
}
