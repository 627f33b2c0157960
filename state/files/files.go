// Package files opens and makes files in folders that somebody else may write to. A command of root
// often works beside a service account, in the account's own folder. Any file there, above all a
// link, may be a trap for root.
//
// So it resolves names one by one, from an open folder, and makes every decision about the opened
// file. Root follows no link that another user could have made, and hands only files created by the
// same call to their new owner.
package files

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrPlanted means that another user could have replaced the file: it is a link, a pipe, or a file
// with a second name.
var ErrPlanted = errors.New("somebody else could have put it there")

// maxLinks is how many links are followed to one file.
const maxLinks = 40

// Folder is an open folder; it stays the same one even if its path changes.
type Folder struct {
	at   *os.File
	path string
}

// OpenFolder opens the folder at path. To follow a link that somebody else could
// have made fails with ErrPlanted when this process is root's.
func OpenFolder(path string) (*Folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return walk(path)
}

// Locate opens the folder of the file at path and returns the file's name in it, after resolving
// links; the file need not exist.
func Locate(path string) (*Folder, string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	for range maxLinks {
		d, err := walk(filepath.Dir(path))
		if err != nil {
			return nil, "", err
		}
		name := filepath.Base(path)
		target, err := d.follow(name)
		if err == nil && target == "" || errors.Is(err, fs.ErrNotExist) {
			return d, name, nil
		}
		if err := errors.Join(err, d.Close()); err != nil {
			return nil, "", err
		}
		path = target
	}
	return nil, "", &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// walk opens the folder at an absolute path.
func walk(path string) (*Folder, error) {
	for range maxLinks {
		d, instead, err := descend(path)
		if err != nil || instead == "" {
			return d, err
		}
		path = instead
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// descend opens the folder at an absolute path, name by name. At a link it stops
// and returns the path that is meant instead.
func descend(path string) (d *Folder, instead string, err error) {
	d = &Folder{path: "/"}
	if d.at, err = openAt(unix.AT_FDCWD, d.path, folderFlags, d.path); err != nil {
		return nil, "", err
	}
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	for i, name := range names {
		next, target, err := d.enter(name)
		if err := errors.Join(err, d.Close()); err != nil {
			return nil, "", err
		}
		if target != "" {
			return nil, filepath.Join(target, filepath.Join(names[i+1:]...)), nil
		}
		d = next
	}
	return d, "", nil
}

// enter opens a folder in d, or returns the target of a link of that name.
func (d *Folder) enter(name string) (next *Folder, target string, err error) {
	if target, err = d.follow(name); err != nil || target != "" {
		return nil, target, err
	}
	path := filepath.Join(d.path, name)
	at, err := openAt(d.fd(), name, folderFlags|unix.O_NOFOLLOW, path)
	return &Folder{at, path}, "", err
}

// follow returns where the link called name leads, "" when it is no link.
func (d *Folder) follow(name string) (target string, err error) {
	path := filepath.Join(d.path, name)
	link, err := d.stat(name)
	if err != nil || !isLink(link) {
		return "", err
	}
	var here unix.Stat_t
	if err := unix.Fstat(d.fd(), &here); err != nil {
		return "", &fs.PathError{Op: "stat", Path: d.path, Err: err}
	}
	if os.Geteuid() == 0 && !ofRoot(here, link) {
		return "", &fs.PathError{Op: "follow the symbolic link", Path: path, Err: ErrPlanted}
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(d.fd(), name, buf)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: path, Err: err}
	}
	if target = string(buf[:n]); !filepath.IsAbs(target) {
		target = filepath.Join(d.path, target)
	}
	return filepath.Clean(target), nil
}

// ofRoot reports whether nobody but root could have made a link in folder. In a sticky folder, such
// as /tmp, nobody removes or renames another user's file.
func ofRoot(folder, link unix.Stat_t) bool {
	if link.Uid != 0 || folder.Uid != 0 {
		return false
	}
	if folder.Mode&unix.S_ISVTX != 0 {
		return true
	}
	return folder.Mode&0o002 == 0 && (folder.Mode&0o020 == 0 || folder.Gid == 0)
}

func isLink(st unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFLNK }

func openAt(at int, name string, flags int, path string) (*os.File, error) {
	for {
		fd, err := unix.Openat(at, name, flags|unix.O_CLOEXEC, 0o600)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if err != unix.EINTR {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

func (d *Folder) fd() int { return int(d.at.Fd()) }

// stat looks at name itself, not at where it leads.
func (d *Folder) stat(name string) (st unix.Stat_t, err error) {
	if err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return st, &fs.PathError{Op: "stat", Path: filepath.Join(d.path, name), Err: err}
	}
	return st, nil
}

// Trace is the file system's description of a file. It changes with every write, replacement, or
// change of its times. Times are nanoseconds since 1970.
type Trace struct {
	Device   uint64 `json:"device"`
	Inode    uint64 `json:"inode"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"`
	Changed  int64  `json:"changed"` // the file or what is told of it; the system's clock alone sets it
}

// Trace returns the trace of a file in the folder, or an error that wraps fs.ErrNotExist for a
// missing file. For a link it describes the link.
func (d *Folder) Trace(name string) (Trace, error) {
	st, err := d.stat(name)
	if err != nil {
		return Trace{}, err
	}
	return Trace{Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano()}, nil //nolint:unconvert // a device is another kind of number elsewhere
}

// Path returns the folder's path, with no link in it.
func (d *Folder) Path() string { return d.path }

// Close lets the folder go.
func (d *Folder) Close() error { return d.at.Close() }

// Has reports whether info is of the file called name.
func (d *Folder) Has(name string, info fs.FileInfo) bool {
	st, err := d.stat(name)
	of, ok := info.Sys().(*syscall.Stat_t)
	return err == nil && ok && st.Dev == of.Dev && st.Ino == of.Ino
}

// Create makes a file, mode 0600, that was not there; fs.ErrExist when it was.
func (d *Folder) Create(name string) (*os.File, error) {
	return openAt(d.fd(), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, filepath.Join(d.path, name))
}

// CreateFor makes a file as Create does. If root creates it beside another user's file and
// neighbour is not "", the file gets that file's owner (the folder's for "."). SQLite does so with
// its own files: an administrator's command must not shut out the service.
func (d *Folder) CreateFor(name, neighbour string) (*os.File, error) {
	f, err := d.Create(name)
	if err != nil || neighbour == "" || os.Geteuid() != 0 {
		return f, err
	}
	st, err := d.stat(neighbour)
	if err == nil {
		err = f.Chown(int(st.Uid), int(st.Gid))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenOrCreateFor opens an existing file, which keeps its owner, or creates one as CreateFor does.
// It fails with ErrPlanted unless the file is an ordinary one with a single name.
func (d *Folder) OpenOrCreateFor(name, neighbour string) (*os.File, error) {
	for {
		f, err := d.open(name, unix.O_RDWR)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if f, err = d.CreateFor(name, neighbour); !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// open opens an ordinary file that has no other name. It is looked at before it is
// opened, because to open a pipe or a device does something, and once more when it
// can no longer be exchanged.
func (d *Folder) open(name string, flags int) (*os.File, error) {
	st, err := d.stat(name)
	if err != nil {
		return nil, err
	}
	if err := ordinary(st); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(d.path, name), err)
	}
	f, err := openAt(d.fd(), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, filepath.Join(d.path, name))
	if err != nil {
		return nil, err
	}
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := ordinary(st); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

// CheckBeside refuses with ErrPlanted a special file, or a file with a second name elsewhere. To
// root it also refuses a file with another owner than its neighbour. To be absent is no mistake.
func (d *Folder) CheckBeside(name, neighbour string) error {
	st, err := d.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	next, nextErr := d.stat(neighbour)
	if err := errors.Join(err, nextErr, ordinary(st)); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(d.path, name), err)
	}
	if os.Geteuid() == 0 && st.Uid != next.Uid {
		return fmt.Errorf("%s: it belongs to somebody else than %s: %w", filepath.Join(d.path, name), neighbour, ErrPlanted)
	}
	return nil
}

func ordinary(st unix.Stat_t) error {
	switch {
	case isLink(st):
		return fmt.Errorf("it is a symbolic link: %w", ErrPlanted)
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("it is no ordinary file: %w", ErrPlanted)
	case st.Nlink > 1:
		return fmt.Errorf("it has a second name somewhere else (a hard link): %w", ErrPlanted)
	}
	return nil
}

// Read returns the content of an ordinary file, at most limit bytes.
func (d *Folder) Read(name string, limit int64) ([]byte, error) {
	f, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, errors.Join(err, f.Close())
}

// Replace writes a file atomically: the new file is on disk before it takes the name and the place
// of the old one. Mode and owner are those of its neighbour, which may be the file itself; without
// one it is this user's, mode 0600.
func (d *Folder) Replace(name string, data []byte, neighbour string) error {
	w, err := d.Write(name, data, neighbour)
	if err != nil {
		return err
	}
	return w.Publish()
}

// Write is Replace without its last step: the old file keeps the name until Publish.
func (d *Folder) Write(name string, data []byte, neighbour string) (Written, error) {
	mode := fs.FileMode(0o600)
	st, err := d.stat(neighbour)
	absent := errors.Is(err, fs.ErrNotExist)
	switch {
	case absent:
		neighbour = ""
	case err != nil:
		return Written{}, err
	default:
		mode = fs.FileMode(st.Mode).Perm()
	}
	temporary := "." + name + "." + rand.Text()
	f, err := d.CreateFor(temporary, neighbour)
	if err != nil {
		return Written{}, err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return Written{}, errors.Join(err, unix.Unlinkat(d.fd(), temporary, 0))
	}
	return Written{d, temporary, name}, nil
}

// Written is a file that is on the disk whole and has not taken its name yet.
type Written struct {
	folder          *Folder
	temporary, name string
}

// Publish gives the file its name, in the place of whatever had it.
func (w Written) Publish() error {
	d := w.folder
	if err := unix.Renameat(d.fd(), w.temporary, d.fd(), w.name); err != nil {
		return errors.Join(&fs.PathError{Op: "rename", Path: filepath.Join(d.path, w.name), Err: err}, w.Discard())
	}
	return d.Sync()
}

// Discard removes the file.
func (w Written) Discard() error { return unix.Unlinkat(w.folder.fd(), w.temporary, 0) }

// Lock blocks other lockers of the folder, in this process or another one of this machine, until
// the returned function is called.
func (d *Folder) Lock() (unlock func() error, err error) {
	f, err := openAt(d.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY, d.path)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return f.Close, nil
		}
		if err != unix.EINTR {
			return nil, errors.Join(&fs.PathError{Op: "lock", Path: d.path, Err: err}, f.Close())
		}
	}
}

// Exists reports whether anything has the name.
func (d *Folder) Exists(name string) (bool, error) {
	_, err := d.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// OpenFor opens an ordinary file for reading and writing, as Open does for reading.
func (d *Folder) OpenFor(name string) (*os.File, error) { return d.open(name, unix.O_RDWR) }

// Open opens an ordinary file for reading. It fails with ErrPlanted for any other, or with a second
// name elsewhere.
func (d *Folder) Open(name string) (*os.File, error) { return d.open(name, unix.O_RDONLY) }

// Names returns the names in the folder, in order.
func (d *Folder) Names() ([]string, error) {
	f, err := openAt(d.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY, d.path)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, f.Close())
}

// Remove takes a name away, and the file that has no other. To be absent is no mistake.
func (d *Folder) Remove(name string) error {
	if err := unix.Unlinkat(d.fd(), name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "remove", Path: filepath.Join(d.path, name), Err: err}
	}
	return nil
}

// Rename renames a file and replaces any file with that name.
func (d *Folder) Rename(from, to string) error {
	if err := unix.Renameat(d.fd(), from, d.fd(), to); err != nil {
		return &fs.PathError{Op: "rename", Path: filepath.Join(d.path, from), Err: err}
	}
	return nil
}

// Publish gives a file another name that nothing has; fs.ErrExist when something has it.
func (d *Folder) Publish(from, to string) error {
	err := unix.Linkat(d.fd(), from, d.fd(), to, 0)
	switch {
	case err == nil:
		return d.Remove(from)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS): // no second names on this file system
		if _, err := d.stat(to); err == nil {
			return &fs.PathError{Op: "rename", Path: filepath.Join(d.path, to), Err: fs.ErrExist}
		}
		return d.Rename(from, to)
	}
	return &fs.PathError{Op: "rename", Path: filepath.Join(d.path, to), Err: err}
}

// Owner returns the user and the group that the folder belongs to.
func (d *Folder) Owner() (uid, gid int, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd(), &st); err != nil {
		return 0, 0, &fs.PathError{Op: "stat", Path: d.path, Err: err}
	}
	return int(st.Uid), int(st.Gid), nil
}

// Sync makes the names of new files durable.
func (d *Folder) Sync() error {
	f, err := openAt(d.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY, d.path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
