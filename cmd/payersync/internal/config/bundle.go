package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"payersync/connector"
)

// maxBundleFile is how much of a file of an account is read, in bytes.
const maxBundleFile = 4 << 20

// ReadBundle reads the files of an account's configuration from account.yaml's folder, by their paths below
// it. It skips hidden files, such as an editor's or git's own.
func ReadBundle(folder string) (map[string][]byte, error) {
	out := map[string][]byte{}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("cannot read the account's files: %w; name the folder of %s", err, AccountFile)
	}
	defer func() { _ = root.Close() }()
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != "." && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		info, err := entry.Info()
		switch {
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is no ordinary file; put the file itself there", path)
		case info.Size() > maxBundleFile:
			return fmt.Errorf("%s is too large for a configuration; keep it elsewhere, and name its whole path", path)
		}
		out[path], err = root.ReadFile(path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the account's files in %s cannot be read: %w", folder, err)
	}
	return out, nil
}

// Unpacked is a folder with the files of an account, as long as this process needs them.
type Unpacked struct {
	Path string
	held *os.File // the locked folder: a killed process releases it
}

// Remove removes the folder. A nil folder is fine.
func (u *Unpacked) Remove() error {
	if u == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(u.Path), u.held.Close())
}

// unpackedName begins the names of such folders, and of no others.
const unpackedName = "payersync-account-"

// Unpack writes the files of an account into a new folder, readable by this user alone. The folder is in
// runtime, from XDG_RUNTIME_DIR, or else in memory, if the machine has a place for that.
func Unpack(runtime, account string, files map[string][]byte) (u *Unpacked, err error) {
	for _, place := range places(runtime) {
		if u, err = newUnpacked(place, account); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the account's files need a temporary folder: %w; set TMPDIR to a writable one", err)
	}
	if err := u.write(files); err != nil {
		return nil, errors.Join(fmt.Errorf("write the account's files: %w", err), u.Remove())
	}
	return u, nil
}

// newUnpacked creates a folder and locks it. Before the lock, RemoveLeft of another process may remove it as
// abandoned; then newUnpacked creates another.
func newUnpacked(place, account string) (*Unpacked, error) {
	for {
		path, err := os.MkdirTemp(place, unpackedName+account+"-")
		if err != nil {
			return nil, err
		}
		f, err := os.Open(path) //nolint:gosec // it was made just now
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
		u := &Unpacked{path, f}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, errors.Join(err, u.Remove())
		}
		if _, gone := os.Lstat(path); gone == nil {
			return u, nil
		}
		_ = f.Close() // of nothing
	}
}

func (u *Unpacked) write(files map[string][]byte) error {
	root, err := os.OpenRoot(u.Path)
	if err != nil {
		return err
	}
	for name, body := range files {
		if err == nil {
			err = root.MkdirAll(filepath.Dir(name), 0o700)
		}
		if err == nil {
			err = root.WriteFile(name, body, 0o400)
		}
	}
	return errors.Join(err, root.Close())
}

// RemoveLeft removes the folders of accounts' files left by this user's killed processes, and returns their
// number. A live process holds a lock on its folder, so that one stays.
func RemoveLeft(runtime string) (n int, err error) {
	for _, place := range places(runtime) {
		place = cmp.Or(place, os.TempDir())
		found, globErr := filepath.Glob(filepath.Join(place, unpackedName+"*"))
		err = errors.Join(err, globErr)
		for _, path := range found {
			was, leftErr := removeLeft(path)
			if was {
				n++
			}
			err = errors.Join(err, leftErr)
		}
	}
	return n, err
}

// removeLeft removes a folder without a lock.
func removeLeft(path string) (was bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0) //nolint:gosec // it is looked at next
	if err != nil {
		return false, nil // somebody else's, or no folder, or gone by now
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return false, nil
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	case err != nil: // nobody knows whether it is held
		return false, fmt.Errorf("look whether somebody needs %s: %w", path, err)
	}
	err = os.RemoveAll(path)
	return err == nil, err
}

// places are the possible parents of such a folder, the best first; the last is the system's for temporary
// files.
func places(runtime string) (out []string) {
	out = connector.Filter([]string{runtime, "/dev/shm"},
		func(place string) bool { return place != "" && privatePlace(place) })
	return append(out, "")
}

// privatePlace reports whether nobody else can exchange what this user makes in a folder: it is this
// user's own, or nobody may rename what is another's there.
func privatePlace(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	own := ok && int(owner.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
	return own || info.Mode()&fs.ModeSticky != 0
}

// Literals returns the literal secrets in a configuration that was read without its secrets: no diff may show
// them. Ids are none.
func (c *Config) Literals() (out []string) {
	eachSecret(reflect.ValueOf(c).Elem(), func(ref string) {
		if !strings.HasPrefix(ref, "file:") && ref != "" {
			out = append(out, ref)
		}
	})
	return out
}

// SecretFiles returns the names of the secret files, in the same way.
func (c *Config) SecretFiles() map[string]bool {
	out := map[string]bool{}
	eachSecret(reflect.ValueOf(c).Elem(), func(ref string) {
		if name, is := strings.CutPrefix(ref, "file:"); is {
			out[filepath.ToSlash(filepath.Clean(name))] = true
		}
	})
	return out
}

// eachSecret passes on every secret in v, as written.
func eachSecret(v reflect.Value, do func(ref string)) {
	if s, is := reflect.TypeAssert[connector.Secret](v); is {
		do(s.Expose())
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			eachSecret(v.Elem(), do)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !slices.Contains([]string{"Node", "ClientID"}, v.Type().Field(i).Name) {
				eachSecret(v.Field(i), do)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachSecret(v.Index(i), do)
		}
	}
}
