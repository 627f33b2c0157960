package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// containersUser is the user whom the image runs as.
const containersUser = 65532

var handOver = regexp.MustCompile(`(?m)^#   (payersync init .*?)\s+# `)

// What init makes is closed to others, and the image runs as a user of its own: the line in
// the Dockerfile that hands the files over is run as it stands.
func TestRootHandsTheFilesOfInitToTheContainersUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away; run this test as root")
	}
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	line := handOver.FindStringSubmatch(string(text))
	if line == nil {
		t.Fatal("the Dockerfile does not say how the files are handed over: this test has lost its subject")
	}
	first, second, _ := strings.Cut(line[1], " && sudo ")
	dir, err := os.MkdirTemp("", "payersync-container-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), copyProgram(filepath.Join(dir, "payersync-bin"), filepath.Join(dir, "bin"))); err != nil {
		t.Fatal(err)
	}
	sh := func(user uint32, command string) (string, error) {
		c := exec.CommandContext(t.Context(), "sh", "-euc", command)
		c.Dir, c.Env = dir, []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + dir}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := sh(0, "umask 077; "+first); err != nil {
		t.Fatalf("%s: %v\n%s", first, err, out)
	}
	const look = "payersync status --config payersync/payersync.yaml"
	if out, err := sh(containersUser, look); err == nil || !strings.Contains(out, "cannot be read") {
		t.Errorf("before they are handed over: %v\n%s", err, out)
	}
	if out, err := sh(0, second); err != nil {
		t.Fatalf("%s: %v\n%s", second, err, out)
	}
	if out, err := sh(containersUser, look); err != nil {
		t.Errorf("the container's user cannot use what init made: %v\n%s", err, out)
	}
}

// copyProgram copies this program to where every user may run it, as payersync.
func copyProgram(to, folder string) error {
	from, err := os.Executable()
	if err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Mkdir(folder, 0o755), os.Chmod(to, 0o755), os.Chmod(folder, 0o755),
		os.Symlink(to, filepath.Join(folder, "payersync")))
}
