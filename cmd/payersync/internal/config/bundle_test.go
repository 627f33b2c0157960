package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnAccountsFilesComeBackAsTheyWereForTheirUserAlone(t *testing.T) {
	t.Parallel()
	files := map[string]string{"account.yaml": accountFile, "mapping.yaml": "version: 1\n",
		"secrets/deep/billing": "hunter2", "empty": ""}
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
	unpacked, err := Unpack(runtime, "acme", read)
	if err != nil || filepath.Dir(unpacked.Path) != runtime {
		t.Fatalf("unpacked to %v, %v", unpacked, err)
	}
	to := unpacked.Path
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
		if err != nil || filepath.Dir(to.Path) == open {
			t.Fatalf("in %q: %v, %v", place, to, err)
		}
		if err := to.Remove(); err != nil {
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
		"a link": {func(path string) error { return os.Symlink("/etc/hostname", path) }, "secret is no ordinary file"},
		"a large file": {func(path string) error { return os.WriteFile(path, make([]byte, maxBundleFile+1), 0o600) },
			"secret is too large"},
	} {
		dir := folder(t, map[string]string{"account.yaml": accountFile})
		if err := tt.make(filepath.Join(dir, "secret")); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadBundle(dir); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadBundle(filepath.Join(t.TempDir(), "none")); err == nil ||
		!strings.Contains(err.Error(), "name the folder") {
		t.Errorf("no folder: %v", err)
	}
}

// What a process left that was killed holds secrets; what a living one needs is let alone, and so is what is no folder of
// an account.
//
// covers F194
func TestFilesThatAProcessLeftWhichWasKilledAreRemoved(t *testing.T) {
	t.Parallel()
	runtime := t.TempDir()
	unpack := func() *Unpacked {
		t.Helper()
		u, err := Unpack(runtime, "acme", map[string][]byte{"secrets/billing": []byte("hunter2")})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	living, killed, other := unpack(), unpack(), filepath.Join(runtime, "payersync-demo-1")
	link := filepath.Join(runtime, unpackedName+"acme-link")
	if err := errors.Join(killed.held.Close(), os.Mkdir(other, 0o700), os.Symlink(other, link)); err != nil {
		t.Fatal(err)
	}
	if n, err := RemoveLeft(runtime); n < 1 || err != nil { // more, where other tests of this machine were killed
		t.Errorf("%d were removed, %v", n, err)
	}
	for path, stays := range map[string]bool{living.Path: true, filepath.Join(living.Path, "secrets", "billing"): true,
		killed.Path: false, other: true, link: true} {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s stays: %t", path, !stays)
		}
	}
	if err := living.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(living.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a folder that is done with stays")
	}
}
