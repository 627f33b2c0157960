package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnAccountsFilesComeBackAsTheyWereForTheirUserAlone(t *testing.T) {
	t.Parallel()
	files := map[string]string{"account.yaml": accountFile, "mapping.yaml": "version: 1\n", "secrets/deep/billing": "hunter2", "empty": ""}
	from := folder(t, files)
	for _, left := range []string{".git/config", ".env", "secrets/.swp"} {
		path := filepath.Join(from, left)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("left out"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read, err := ReadBundle(from)
	if err != nil {
		t.Fatal(err)
	}
	runtime := t.TempDir()
	to, err := Unpack(runtime, "acme", read)
	if err != nil || filepath.Dir(to) != runtime {
		t.Fatalf("unpacked to %s, %v", to, err)
	}
	got := map[string]string{}
	err = filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o400}[entry.IsDir()]; info.Mode().Perm() != want {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		if entry.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(to, path)
		got[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if diff := cmp.Diff(files, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A folder that others may write to is no place for what is an account's.
func TestFilesAreNotPutWhereOthersCouldExchangeThem(t *testing.T) {
	t.Parallel()
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{open, filepath.Join(open, "none"), ""} {
		to, err := Unpack(place, "acme", map[string][]byte{"account.yaml": nil})
		if err != nil || filepath.Dir(to) == open {
			t.Errorf("in %q: %s, %v", place, to, err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsNoFileOfAnAccountIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		make func(path string) error
		says string
	}{
		"a link":       {func(path string) error { return os.Symlink("/etc/hostname", path) }, "secret is no ordinary file"},
		"a large file": {func(path string) error { return os.WriteFile(path, make([]byte, maxBundleFile+1), 0o600) }, "secret is too large"},
	} {
		dir := folder(t, map[string]string{"account.yaml": accountFile})
		if err := tt.make(filepath.Join(dir, "secret")); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadBundle(dir); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadBundle(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "name the folder") {
		t.Errorf("no folder: %v", err)
	}
}
