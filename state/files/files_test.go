package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// somebody is an account that is not root's.
const somebody = 65534

func open(t *testing.T, path string) *Folder {
	t.Helper()
	d, err := OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestALinkOfOnesOwnIsFollowedToWhereItLeads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "real", "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "real", "below", "mapping.yaml"), "old", 0o640)
	link(t, "real", filepath.Join(dir, "relative"))
	link(t, filepath.Join(dir, "relative"), filepath.Join(dir, "twice"))
	link(t, filepath.Join(dir, "twice", "below", "mapping.yaml"), filepath.Join(dir, "link.yaml"))
	link(t, "loop", filepath.Join(dir, "loop"))

	d, name, err := Locate(filepath.Join(dir, "link.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if want := filepath.Join(dir, "real", "below"); d.Path() != want || name != "mapping.yaml" {
		t.Errorf("got %s in %s, want mapping.yaml in %s", name, d.Path(), want)
	}
	for _, path := range []string{"loop", filepath.Join("loop", "x")} {
		if _, _, err := Locate(filepath.Join(dir, path)); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("%s: got %v, want %v", path, err, syscall.ELOOP)
		}
	}
	if _, err := OpenFolder(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
	if root := open(t, "/"); root.Path() != "/" {
		t.Errorf("the root's path is %q", root.Path())
	}
}

// covers F112
func TestRootFollowsNoLinkThatSomebodyElseCouldHaveMade(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may give a link away; run this test as root")
	}
	for _, tt := range []struct {
		name         string
		folder, link int
		mode         fs.FileMode
		refused      bool
	}{
		{name: "root's link in root's folder", mode: 0o755},
		{name: "root's link in a sticky folder", mode: 0o777 | fs.ModeSticky},
		{name: "somebody's link in a sticky folder", link: somebody, mode: 0o777 | fs.ModeSticky, refused: true},
		{name: "root's link in somebody's folder", folder: somebody, mode: 0o755, refused: true},
		{name: "root's link in a folder that everybody writes to", mode: 0o777, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, target := t.TempDir(), t.TempDir()
			write(t, filepath.Join(target, "mapping.yaml"), "root's", 0o600)
			toFolder, toFile := filepath.Join(dir, "folder"), filepath.Join(dir, "mapping.yaml")
			link(t, target, toFolder)
			link(t, filepath.Join(target, "mapping.yaml"), toFile)
			if err := errors.Join(os.Lchown(toFolder, tt.link, tt.link), os.Lchown(toFile, tt.link, tt.link),
				os.Chown(dir, tt.folder, tt.folder), os.Chmod(dir, tt.mode)); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{toFile, filepath.Join(toFolder, "mapping.yaml")} {
				d, _, err := Locate(path)
				if errors.Is(err, ErrPlanted) != tt.refused || err != nil && !tt.refused {
					t.Errorf("%s: got %v, want it refused: %v", path, err, tt.refused)
				}
				if err == nil {
					_ = d.Close()
				}
			}
		})
	}
}

func TestWhatIsNoOrdinaryFileIsNotOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir)
	write(t, filepath.Join(dir, "file"), "text", 0o600)
	link(t, "file", filepath.Join(dir, "link"))
	write(t, filepath.Join(dir, "one"), "text", 0o600)
	if err := errors.Join(os.Link(filepath.Join(dir, "one"), filepath.Join(dir, "two")),
		os.Mkdir(filepath.Join(dir, "folder"), 0o700),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "one", "two", "folder", "pipe"} {
		if _, err := d.Read(name, 9); !errors.Is(err, ErrPlanted) {
			t.Errorf("read %s: got %v, want %v", name, err, ErrPlanted)
		}
		if _, err := d.OpenOrCreateFor(name, "file"); !errors.Is(err, ErrPlanted) {
			t.Errorf("open %s: got %v, want %v", name, err, ErrPlanted)
		}
		if err := d.CheckBeside(name, "file"); !errors.Is(err, ErrPlanted) {
			t.Errorf("look at %s: got %v, want %v", name, err, ErrPlanted)
		}
	}
	if data, err := d.Read("file", 2); err != nil || string(data) != "te" {
		t.Errorf("got %q, %v; want two bytes of the file", data, err)
	}
	if err := errors.Join(d.CheckBeside("file", "one"), d.CheckBeside("absent", "file")); err != nil {
		t.Error(err)
	}
}

func TestAReplacedFileKeepsItsPermissionsAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir)
	write(t, filepath.Join(dir, "mapping.yaml"), "old", 0o640)
	link(t, "/etc/passwd", filepath.Join(dir, "kept.yaml"))
	if err := errors.Join(d.Replace("mapping.yaml", []byte("new"), "mapping.yaml"),
		d.Replace("kept.yaml", []byte("old"), "mapping.yaml"),
		d.Replace("alone.yaml", []byte("new"), "alone.yaml")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		text string
		mode fs.FileMode
	}{"mapping.yaml": {"new", 0o640}, "kept.yaml": {"old", 0o640}, "alone.yaml": {"new", 0o600}} {
		data, err := d.Read(name, 99)
		info, statErr := os.Lstat(filepath.Join(dir, name))
		if err := errors.Join(err, statErr); err != nil || string(data) != want.text || info.Mode() != want.mode {
			t.Errorf("%s holds %q with mode %v (%v), want %q and %v", name, data, info.Mode(), err, want.text, want.mode)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("%v are left (%v)", left, err)
	}
}

// covers F112
func TestOnlyAFileThatTheCallMadeIsHandedOver(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may give a file away; run this test as root")
	}
	dir := t.TempDir()
	d := open(t, dir)
	write(t, filepath.Join(dir, "ledger"), "", 0o600)
	write(t, filepath.Join(dir, "roots"), "", 0o600)
	if err := os.Chown(filepath.Join(dir, "ledger"), somebody, somebody); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"roots": 0, "new": somebody} {
		f, err := d.OpenOrCreateFor(name, "ledger")
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != want {
			t.Errorf("%s belongs to %+v, want account %d", name, info.Sys(), want)
		}
	}
	if err := d.Replace("ledger", []byte("new"), "ledger"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "ledger")); err != nil || info.Sys().(*syscall.Stat_t).Uid != somebody {
		t.Errorf("the replaced file belongs to %+v (%v), want its owner", info.Sys(), err)
	}
}
