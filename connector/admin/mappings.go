package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/mapping/strict"
	"payersync/state"
	"payersync/state/files"
)

// Mappings holds people's views of and acts on the mappings of connections.
type Mappings struct {
	Ledger *state.Ledger
	Syncer *syncer.Syncer // asks the ledger alone here
	Files  []MappingFile  // of the connections, in the order of the configuration
	Read   func(path string) ([]byte, error)
	// Source describes a connection's source as far as its stored records need it.
	Source func(ctx context.Context, connection string) (syncer.Connection, error)
	// Parse loads a text for a source. Its error is a *strict.Error for a text with mistakes.
	Parse func(name string, text []byte, info connector.SourceInfo) (*mapping.Mapping, error)
	Tally *Tallies // of slow counts; outlives the configuration

	// Elsewhere is the reason against saving here: the files are copies of originals stored elsewhere. It is nil if the
	// files are the originals.
	Elsewhere error

	others []MappingFile // of connections hidden from the user
}

// LimitedTo returns the mappings of some connections, with a ledger limited to these. A file shared with a hidden
// connection cannot be saved.
func (m *Mappings) LimitedTo(ledger *state.Ledger, connections []string) *Mappings {
	only := *m
	only.Ledger, only.Files = ledger, nil
	for _, f := range m.Files {
		if slices.Contains(connections, f.Connection) {
			only.Files = append(only.Files, f)
		} else {
			only.others = append(only.others, f)
		}
	}
	return &only
}

// MappingFile is the mapping file of a connection.
type MappingFile struct{ Connection, Path string }

// MappingText is the text of a mapping as its file has it.
type MappingText struct {
	Path string
	Text string
	Hash string // its version
}

// HashOfMapping returns the version of a text.
func HashOfMapping(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Now returns the text in a connection's file; false for an unconfigured connection.
func (m *Mappings) Now(connection string) (MappingText, bool, error) {
	i := slices.IndexFunc(m.Files, func(f MappingFile) bool { return f.Connection == connection })
	if i < 0 {
		return MappingText{}, false, nil
	}
	text, err := m.Read(m.Files[i].Path)
	return MappingText{m.Files[i].Path, string(text), HashOfMapping(text)}, true, err
}

// Sharing returns the other connections with the same mapping file, under any name.
func (m *Mappings) Sharing(connection string) (others []string) {
	places := map[string]string{}
	for _, f := range m.Files {
		places[f.Connection] = fileAt(f.Path)
	}
	for _, f := range m.Files {
		if f.Connection != connection && places[f.Connection] == places[connection] {
			others = append(others, f.Connection)
		}
	}
	return others
}

// fileAt returns a file's path without links.
func fileAt(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return filepath.Clean(path)
	}
	return real
}

// Checked is the result of reading a text as the mapping of a connection.
type Checked struct {
	syncer.Connection                  // with the mapping, unless it cannot be read as one
	Mistakes          []strict.Problem // of the text and its examples
}

// Check reads a text as the mapping of a connection, and tries its examples.
func (m *Mappings) Check(ctx context.Context, connection string, text []byte) (Checked, error) {
	conn, err := m.Source(ctx, connection)
	if err != nil {
		return Checked{}, err
	}
	if conn.Mapping, err = m.Parse("mapping", text, conn.Info); err == nil {
		err = conn.Mapping.CheckExamples()
	}
	var wrong *strict.Error
	if errors.As(err, &wrong) {
		return Checked{conn, wrong.Problems}, nil
	}
	return Checked{conn, nil}, err
}

// Why a mapping is not saved.
var (
	// ErrMappingSame means the file already has this text.
	ErrMappingSame = errors.New("the file has this text already")
	// ErrMappingMoved means the file has changed since it was opened.
	ErrMappingMoved = errors.New("the file was changed since it was opened")
	// ErrMappingOthers means the file also belongs to a connection hidden from the person saving.
	ErrMappingOthers = errors.New("the file is the mapping of connections that you do not see, too")
	// ErrMappingWrong means the text has mistakes.
	ErrMappingWrong = errors.New("the text has mistakes")
)

// MappingUnwritable means a mapping file cannot be written from here: it is read only, part of an image, or a mount of
// its own.
type MappingUnwritable struct{ Err error }

// Error says why.
func (e *MappingUnwritable) Error() string {
	return "the mapping file cannot be written: " + e.Err.Error()
}

// Unwrap returns why.
func (e *MappingUnwritable) Unwrap() error { return e.Err }

// Save replaces the opened version of the file with a text, for every connection with this file. The text must fit the
// sources of all of them. It keeps the file's line ends, because browsers send their own. It returns the file's new
// version.
func (m *Mappings) Save(ctx context.Context, connection, opened, text string, by syncer.Operator) (string, error) {
	now, known, err := m.Now(connection)
	switch {
	case err != nil:
		return "", err
	case !known:
		return "", fmt.Errorf("there is no connection %q", connection)
	case now.Hash != opened:
		return "", ErrMappingMoved
	}
	text = LineEnds(text, now.Text)
	if text == now.Text {
		return "", ErrMappingSame
	}
	if m.Elsewhere != nil {
		return "", &MappingUnwritable{m.Elsewhere}
	}
	for _, f := range m.others {
		if fileAt(f.Path) == fileAt(now.Path) {
			return "", ErrMappingOthers
		}
	}
	for _, name := range append([]string{connection}, m.Sharing(connection)...) {
		checked, err := m.Check(ctx, name, []byte(text))
		if err != nil {
			return "", err
		}
		if len(checked.Mistakes) > 0 {
			return "", fmt.Errorf("%w, read for %s", ErrMappingWrong, name)
		}
	}
	hash := HashOfMapping([]byte(text))
	_, err = ReplaceMapping(ctx, m.Ledger, now.Path, MappingChange{
		Text: text, Over: opened, Limit: maxMapping,
		Entry: state.Entry{
			Actor: by.Name, Action: state.MappingSaved, Reason: by.Reason,
			Subject: fmt.Sprintf("%s %s → %s", connection, opened[:state.MappingMark], hash[:state.MappingMark]),
		},
	})
	return hash, err
}

// maxMapping is one byte more than a mapping may have.
const maxMapping = strict.MaxSize + 1

// LineEnds returns a text with the line ends of another one: all of them for an equal text, otherwise that of its first
// line.
func LineEnds(text, like string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if text == strings.ReplaceAll(like, "\r\n", "\n") {
		return like // its lines may end in both ways
	}
	if first, _, more := strings.Cut(like, "\n"); more && strings.HasSuffix(first, "\r") {
		return strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// MappingChange is a new text for a mapping file.
type MappingChange struct {
	Text  string
	Over  string      // the version that the file has to be; "" for any, or none
	Limit int64       // of the file as it was, in bytes
	Keep  bool        // the file as it was stays beside it
	Entry state.Entry // of the audit log, written before the file changes
}

// ReplaceMapping replaces a mapping file atomically, unless it already has the text. It keeps mode, owner and links. It
// returns the path of the copy of the earlier file. If the audit log has an entry for a change and the change fails, a
// second entry notes the failure.
func ReplaceMapping(ctx context.Context, ledger *state.Ledger, path string, c MappingChange) (kept string, err error) {
	folder, name, err := files.Locate(path)
	if err != nil {
		return "", &MappingUnwritable{err}
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	unlock, err := folder.Lock()
	if err != nil {
		return "", &MappingUnwritable{err}
	}
	defer func() { err = errors.Join(err, unlock()) }()
	before, err := folder.Read(name, c.Limit)
	absent := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !absent:
		return "", err
	case c.Over != "" && (absent || HashOfMapping(before) != c.Over):
		return "", ErrMappingMoved
	case !absent && string(before) == c.Text:
		return "", nil
	}
	if err := mayWrite(folder, name, absent); err != nil {
		return "", &MappingUnwritable{err}
	}
	written, err := folder.Write(name, []byte(c.Text), name)
	if err != nil {
		return "", &MappingUnwritable{err}
	}
	if c.Keep && !absent {
		ext := filepath.Ext(name)
		old := fmt.Sprintf("%s.before-%s%s", strings.TrimSuffix(name, ext), HashOfMapping(before)[:8], ext)
		if err := folder.Replace(old, before, name); err != nil {
			return "", errors.Join(err, written.Discard())
		}
		kept = filepath.Join(folder.Path(), old)
	}
	if err := ledger.Do(ctx, func(tx *state.Tx) error { return tx.Audit(c.Entry) }); err != nil {
		return kept, errors.Join(err, written.Discard())
	}
	if err := written.Publish(); err != nil {
		undone := c.Entry
		undone.Action, undone.Reason = "not done: "+c.Entry.Action, "the file could not be replaced"
		return kept, errors.Join(&MappingUnwritable{err},
			ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.Audit(undone) }))
	}
	return kept, nil
}

// mayWrite refuses a file with a read-only mode: replacing it would have the same effect as writing.
func mayWrite(folder *files.Folder, name string, absent bool) error {
	if absent {
		return nil
	}
	f, err := folder.Open(name)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if info.Mode().Perm()&0o222 == 0 {
		return &fs.PathError{Op: "write", Path: filepath.Join(folder.Path(), name), Err: fs.ErrPermission}
	}
	return nil
}

// DiffLine is a line of the difference between two texts.
type DiffLine struct {
	Sign string // "+" for one of the second alone, "-" of the first alone, "@" for a place, " " for both
	Text string
}

// DiffOf returns the differing lines of two texts, with some context; none for equal texts.
func DiffOf(a, b string) (out []DiffLine) {
	plain := func(s string) []byte { return bytes.ReplaceAll([]byte(s), []byte("\r\n"), []byte("\n")) }
	text := string(diff.Diff("a", plain(a), "b", plain(b)))
	if text == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, line := range lines[min(3, len(lines)):] { // they name the two
		_, size := utf8.DecodeRuneInString(line)
		out = append(out, DiffLine{line[:size], line[size:]})
	}
	return out
}
