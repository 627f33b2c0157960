package main

import (
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"payersync/cmd/payersync/internal/show"
)

// containersUser is the user of the image.
const containersUser = 65532

var handOver = regexp.MustCompile(`(?m)^#   (payersync init .*?)\s+# `)

// init's files are closed to others, and the image has a user of its own: the Dockerfile's line that changes
// the owner is run as written.
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
	if err := errors.Join(os.Chmod(dir, 0o755),
		copyProgram(filepath.Join(dir, "payersync-bin"), filepath.Join(dir, "bin"))); err != nil {
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

// copyProgram copies this program to a place open to every user, as payersync.
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
	// a process that starts meanwhile would hold the file open for writing, and nobody could run it
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Mkdir(folder, 0o755), os.Chmod(to, 0o755), os.Chmod(folder, 0o755),
		os.Symlink(to, filepath.Join(folder, "payersync")))
}

// The image holds only the program, certificates and time zones. Only the ledger's volume is writable: there
// is no shell, no /proc, no folder for temporary files. The configuration lines from the compose file and the
// manifests are used as written.
func TestRootSeesTheProgramWorkInAnEmptyReadOnlyRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may change the root folder of a process; run this test as root")
	}
	if program, err := elf.Open("/proc/self/exe"); err != nil ||
		slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skipf("this program needs libraries of the system, which the image has not (%v): CGO_ENABLED=0 go test", err)
	}
	for _, says := range []struct{ file, secrets string }{
		{"compose.yaml", "run/secrets"}, {"kubernetes/payersync.yaml", "run/secrets/payersync"},
	} {
		t.Run(says.file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../../configs/deploy/" + says.file)
			if err != nil {
				t.Fatal(err)
			}
			root := t.TempDir()
			secrets, setup, volume := filepath.Join(root, says.secrets), filepath.Join(root, "etc/payersync"),
				filepath.Join(root, "var/lib/payersync")
			err = errors.Join(os.MkdirAll(secrets, 0o755), os.MkdirAll(filepath.Join(root, "etc"), 0o755),
				os.MkdirAll(filepath.Join(root, "usr/local"), 0o755), os.MkdirAll(volume, 0o755))
			// As Kubernetes hands it over, open to the group; Docker's has 0700 and the user's own.
			err = errors.Join(err, os.Chown(volume, 0, containersUser), os.Chmod(volume, 0o770|os.ModeSetgid))
			if err := errors.Join(err,
				copyProgram(filepath.Join(root, "usr/local/payersync"), filepath.Join(root, "usr/local/bin"))); err != nil {
				t.Fatal(err)
			}
			made := exec.CommandContext(t.Context(), filepath.Join(root, "usr/local/bin/payersync"), "init", setup)
			if out, err := made.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for name, data := range map[string]string{"billing_client_id": "id", "billing_client_secret": "secret",
				"webhook_secret": ""} {
				err = errors.Join(err, os.WriteFile(filepath.Join(secrets, name), []byte(data), 0o444))
			}
			err = errors.Join(err, os.Rename(filepath.Join(setup, "production.yaml"), filepath.Join(setup, "payersync.yaml")),
				os.Rename(filepath.Join(setup, "payersync.key"), filepath.Join(secrets, "payersync.key")),
				os.Chmod(filepath.Join(secrets, "payersync.key"), 0o444))
			if err != nil {
				t.Fatal(err)
			}
			setTheLinesOf(t, string(text), filepath.Join(setup, "payersync.yaml"), "/etc/payersync/customers.csv",
				func(path string) string { return path })
			if err := os.Chmod(root, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, readable := range []string{setup, filepath.Join(setup, "payersync.yaml"),
				filepath.Join(setup, "mapping.yaml"), filepath.Join(setup, "customers.csv")} {
				if err := os.Chmod(readable, 0o755); err != nil { // a ConfigMap's are
					t.Fatal(err)
				}
			}
			for _, args := range [][]string{{"version"}, {"status"}, {"mapping", "check"}, {"payers", "list"}} {
				c := exec.CommandContext(t.Context(), "/usr/local/payersync", args...)
				c.Dir = "/var/lib/payersync"
				c.Env = []string{"PAYERSYNC_CONFIG=/etc/payersync/payersync.yaml"}
				c.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
					Credential: &syscall.Credential{Uid: containersUser, Gid: containersUser}}
				if out, err := c.CombinedOutput(); err != nil && c.ProcessState.ExitCode() != exitAttention {
					t.Errorf("%q: %v\n%s", args, err, out)
				}
			}
			info, err := os.Stat(filepath.Join(volume, "payersync.db"))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the ledger is not made on its volume, closed to others: %v, %v", info, err)
			}
		})
	}
}

// The image's labels have the values given to its build.
func TestTheImageIsLabelledWithWhatItWasBuiltFrom(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	builder, image, found := strings.Cut(string(text), "\nFROM scratch\n")
	if !found {
		t.Fatal("the image is not made from scratch: this test has lost its subject")
	}
	for _, arg := range []string{"ARG VERSION=development\n", "ARG REVISION=\n"} {
		if !strings.Contains(builder, arg) || !strings.Contains(image, arg) {
			t.Errorf("both stages need %q: an argument ends with its stage", arg)
		}
	}
	for _, want := range []string{"-X main.version=${VERSION}", "-X main.revision=${REVISION}"} {
		if !strings.Contains(builder, want) {
			t.Errorf("the build is not told %s", want)
		}
	}
	for _, want := range []string{`image.version="${VERSION}"`, `image.revision="${REVISION}"`, "image.title=",
		"image.description=", "\nUSER 65532:65532\n", `HEALTHCHECK`} {
		if !strings.Contains(image, want) {
			t.Errorf("the image has no %s", want)
		}
	}
}

// A program built without the history names the commit given to the build.
func TestTheVersionNamesWhatTheBuildWasTold(t *testing.T) {
	told, at := version, revision
	t.Cleanup(func() { version, revision = told, at })
	version, revision = "1.2.3", "0123abc"
	if got := versionLine(); !strings.HasPrefix(got, "payersync 1.2.3 (0123abc") {
		t.Errorf("it says %q", got)
	}
}

// The pages of a release are the same whenever and wherever they are made.
func TestManualPagesBearTheDayThatTheyAreTold(t *testing.T) {
	t.Parallel()
	for _, told := range []struct {
		epoch string
		code  int
		day   string
	}{{"86400", exitDone, `"Jan 1970"`}, {"yesterday", exitUsage, ""}} {
		dir := t.TempDir()
		code := run(t.Context(), program{Console: &show.Console{Out: io.Discard, ErrOut: io.Discard},
			getenv: func(name string) (string, bool) {
				return told.epoch, name == "SOURCE_DATE_EPOCH"
			}}, []string{"man", dir})
		page, _ := os.ReadFile(filepath.Join(dir, "payersync.1"))
		if code != told.code || !strings.Contains(string(page), told.day) {
			t.Errorf("SOURCE_DATE_EPOCH=%s: exit status %d\n%.200s", told.epoch, code, page)
		}
	}
}
