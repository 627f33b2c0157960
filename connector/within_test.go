package connector

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestFilesAreOpenedWithinTheirFolderAlone(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	own, other := filepath.Join(top, "own"), filepath.Join(top, "other")
	for _, folder := range []string{own, other} {
		if err := errors.Join(os.Mkdir(folder, 0o700),
			os.WriteFile(filepath.Join(folder, "books"), []byte(folder), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"inside": "books", "outside": "../other/books",
		"whole": filepath.Join(other, "books"), "folder": "../other", "lost": "../other/none"} {
		if err := os.Symlink(to, filepath.Join(own, name)); err != nil {
			t.Fatal(err)
		}
	}
	w := Within(own)
	for path, want := range map[string]error{
		"own/books": nil, "own/inside": nil, "own/../own/books": nil, "own/none": fs.ErrNotExist,
		"own/outside": ErrLeadsOut, "own/whole": ErrLeadsOut, "own/folder/books": ErrLeadsOut, "own/lost": ErrLeadsOut,
		"own/../other/books": ErrLeadsOut, "other/books": ErrLeadsOut,
	} {
		path = top + "/" + path
		data, err := w.ReadFile(path)
		if !errors.Is(err, want) || want == nil && string(data) != own {
			t.Errorf("%s was read as %q, %v, want %v", path, data, err, want)
		}
		if _, err := w.Stat(path); !errors.Is(err, want) {
			t.Errorf("%s was looked at: %v, want %v", path, err, want)
		}
		if plain, err := w.Resolve(path); path != top+"/own/lost" &&
			(!errors.Is(err, want) || want == nil && plain != filepath.Join(own, "books")) {
			t.Errorf("%s was resolved to %s, %v, want %v", path, plain, err, want)
		}
	}
	if err := w.Rename(filepath.Join(own, "books"), "../other/taken"); !errors.Is(err, ErrLeadsOut) {
		t.Errorf("it was moved out: %v", err)
	}
	if err := w.Rename(filepath.Join(own, "books"), "moved"); err != nil {
		t.Error(err)
	}
	if data, err := Within("").ReadFile(filepath.Join(own, "folder", "books")); err != nil || string(data) != other {
		t.Errorf("without a folder it is %q, %v", data, err)
	}
}
