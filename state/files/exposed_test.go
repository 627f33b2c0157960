package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func exposed(t *testing.T, path string) fs.FileMode {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	mode, err := Exposed(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return mode
}

func TestAFileThatOthersMayReadIsExposed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	for mode, want := range map[fs.FileMode]fs.FileMode{0o600: 0, 0o400: 0, 0o640: 0o640, 0o604: 0o604, 0o620: 0o620,
		0o444: 0o444, 0o644: 0o644} {
		write(t, path, "secret", mode)
		if got := exposed(t, path); got != want {
			t.Errorf("mode %04o: got %04o, want %04o", mode, got, want)
		}
	}
	if got := exposed(t, os.DevNull); got != 0 {
		t.Errorf("a device is exposed with mode %04o", got)
	}
}

// Docker, Kubernetes and systemd mount secrets so, often for everybody to read.
func TestASecretThatWasMountedIsNotExposed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount; run this test as root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("this machine lets no test mount anything: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "secret")
	write(t, path, "secret", 0o444)
	if got := exposed(t, path); got != 0o444 {
		t.Errorf("in memory that can be written to: got %04o", got)
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if got := exposed(t, path); got != 0 {
		t.Errorf("mounted read-only: got %04o", got)
	}
}
