package config

import (
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

// ReadBundle reads the files of an account's configuration from the folder that account.yaml is in,
// by their paths below it. What begins with a dot is left out, as an editor's or git's own.
func ReadBundle(folder string) (map[string][]byte, error) {
	out := map[string][]byte{}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("the account's files cannot be read: %w; name the folder that %s is in", err, AccountFile)
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

// Unpack writes the files of an account into a new folder, which this user alone may read: in runtime, which
// XDG_RUNTIME_DIR names, or else in memory, where the machine has a place for that. Whoever calls it
// removes the folder, also after an error.
func Unpack(runtime, account string, files map[string][]byte) (folder string, err error) {
	for _, place := range places(runtime) {
		if folder, err = os.MkdirTemp(place, "payersync-"+account+"-"); err == nil {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("the account's files need a folder for a moment: %w; set TMPDIR to one that may be written to", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return folder, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for name, body := range files {
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return folder, fmt.Errorf("write the account's files: %w", err)
		}
		if err := root.WriteFile(name, body, 0o400); err != nil {
			return folder, fmt.Errorf("write the account's files: %w", err)
		}
	}
	return folder, nil
}

// places are where such a folder may be, the best first; the last is the system's for temporary files.
func places(runtime string) (out []string) {
	for _, place := range []string{runtime, "/dev/shm"} {
		if place != "" && privatePlace(place) {
			out = append(out, place)
		}
	}
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

// Literals returns the secrets that stand in the file itself, of a configuration that was read without
// its secrets: no diff may show them. Ids are none.
func (c *Config) Literals() (out []string) {
	eachSecret(reflect.ValueOf(c).Elem(), func(ref string) {
		if !strings.HasPrefix(ref, "file:") && ref != "" {
			out = append(out, ref)
		}
	})
	return out
}

// SecretFiles returns the names of the files that hold its secrets, in the same way.
func (c *Config) SecretFiles() map[string]bool {
	out := map[string]bool{}
	eachSecret(reflect.ValueOf(c).Elem(), func(ref string) {
		if name, is := strings.CutPrefix(ref, "file:"); is {
			out[filepath.ToSlash(filepath.Clean(name))] = true
		}
	})
	return out
}

// eachSecret hands over every secret in v, as it is written.
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
