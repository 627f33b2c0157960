package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"payersync/state"
)

// The lines by which the unit says that it is installed are run as they stand, below a folder:
// every file that it loads is there, closed to others, and the key opens a ledger.
func TestTheUnitsInstallLinesPutEveryFileInItsPlace(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../../configs/deploy/payersync.service")
	if err != nil {
		t.Fatal(err)
	}
	root, work := t.TempDir(), t.TempDir()
	below := strings.NewReplacer("/etc/systemd/system/", root+"/unit/", "/etc/", root+"/etc/", "/usr/local/bin/", root+"/bin/").Replace
	for _, folder := range []string{root + "/unit", root + "/bin", root + "/etc"} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(work, "payersync")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"billing_client_id": "id", "billing_client_secret": "secret", "webhook_secret": "secret", "payersync.service": string(unit),
	} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var lines, credentials []string
	for line := range strings.Lines(string(unit)) {
		line = strings.TrimSpace(line)
		if command, is := strings.CutPrefix(line, "#   "); is && !strings.HasPrefix(command, "systemctl") && (strings.HasPrefix(command, "install ") || strings.HasPrefix(command, "payersync ")) {
			lines = append(lines, below(command))
		}
		if credential, is := strings.CutPrefix(line, "LoadCredential="); is {
			_, path, _ := strings.Cut(credential, ":")
			credentials = append(credentials, below(path))
		}
	}
	sh := exec.CommandContext(t.Context(), "sh", "-euc", "umask 022\n"+strings.Join(lines, "\n"))
	sh.Dir, sh.Env = work, append(os.Environ(), "PATH="+work+":"+os.Getenv("PATH"))
	if out, err := sh.CombinedOutput(); err != nil || len(lines) < 5 {
		t.Fatalf("%d lines: %v\n%s", len(lines), err, out)
	}
	for _, path := range credentials {
		info, err := os.Stat(path)
		if err != nil {
			t.Errorf("the unit loads a file that its lines do not put there: %v", err)
			continue
		}
		if mode := info.Mode().Perm(); strings.Contains(path, "/credentials/") && mode != 0o600 {
			t.Errorf("%s has mode %04o, want 0600", path, mode)
		}
	}
	l, err := state.Open(t.Context(), state.Options{Path: filepath.Join(t.TempDir(), "payersync.db"), KeyFile: root + "/etc/payersync/credentials/payersync.key"})
	if err != nil {
		t.Fatalf("the key that was put there opens no ledger: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
