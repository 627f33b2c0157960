package connector

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Within is a folder to confine files to, despite their names and links; "" is the whole machine. Paths out of it fail
// with ErrLeadsOut.
type Within string

// ErrLeadsOut means a path leads out of the folder required for its file.
var ErrLeadsOut = errors.New("it leads out of its folder")

// OpenFile is os.OpenFile.
func (w Within) OpenFile(path string, flag int, perm fs.FileMode) (f *os.File, err error) {
	if w == "" {
		return os.OpenFile(path, flag, perm) //nolint:gosec // the operator's configuration names it
	}
	err = w.in(path, func(root *os.Root, name string) (err error) {
		f, err = root.OpenFile(name, flag, perm)
		return err
	})
	return f, err
}

// Open is os.Open.
func (w Within) Open(path string) (*os.File, error) { return w.OpenFile(path, os.O_RDONLY, 0) }

// Stat is os.Stat.
func (w Within) Stat(path string) (info fs.FileInfo, err error) {
	if w == "" {
		return os.Stat(path)
	}
	err = w.in(path, func(root *os.Root, name string) (err error) {
		info, err = root.Stat(name)
		return err
	})
	return info, err
}

// ReadFile is os.ReadFile.
func (w Within) ReadFile(path string) ([]byte, error) {
	f, err := w.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// Rename is os.Rename within the file's folder.
func (w Within) Rename(path, name string) error {
	to := filepath.Join(filepath.Dir(path), name)
	if w == "" {
		return os.Rename(path, to)
	}
	return w.in(path, func(root *os.Root, from string) error {
		return root.Rename(from, filepath.Join(filepath.Dir(from), name))
	})
}

// Resolve returns a file's path without links, for programs opening the file by themselves. A later change of links can
// mislead it.
func (w Within) Resolve(path string) (string, error) {
	if w == "" {
		return path, nil
	}
	folder, err := filepath.EvalSymlinks(string(w))
	if err != nil {
		return "", err
	}
	plain, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if name, err := filepath.Rel(folder, plain); err != nil || !filepath.IsLocal(name) {
		return "", fmt.Errorf("%s: %w", path, ErrLeadsOut)
	}
	return plain, nil
}

// in does something with a file by its name below the folder.
func (w Within) in(path string, do func(root *os.Root, name string) error) error {
	name, err := filepath.Rel(string(w), path)
	if err != nil || !filepath.IsLocal(name) {
		return fmt.Errorf("%s: %w", path, ErrLeadsOut)
	}
	root, err := os.OpenRoot(string(w))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	err = do(root, name)
	var system syscall.Errno
	if err != nil && !errors.As(err, &system) { // it is refused by package os itself
		return fmt.Errorf("%s: %w", path, ErrLeadsOut)
	}
	return err
}
