package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"payersync/state"
)

const unitFolder = "../../configs/deploy/systemd"

// The unit's installation lines are run as written, below a folder. Every file loaded by a unit is there,
// closed to others, and the key opens a ledger. Commands work with only the files passed on by systemd, and
// with root's own.
func TestTheUnitsInstallLinesPutEveryFileInItsPlace(t *testing.T) {
	t.Parallel()
	unit := readUnit(t, "payersync@.service")
	root, work := t.TempDir(), t.TempDir()
	below := strings.NewReplacer("/etc/", root+"/etc/", "/usr/local/bin/", root+"/bin/", "/var/lib/", root+"/var/").Replace
	for _, folder := range []string{"/etc/systemd/system", "/bin", "/var/payersync/books"} {
		if err := os.MkdirAll(root+folder, 0o700); err != nil {
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
	for _, name := range unitNames(t) {
		if err := os.WriteFile(filepath.Join(work, name), []byte(readUnit(t, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"billing_client_id", "billing_client_secret", "webhook_secret"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte("secret of 32 characters or more!!"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for line := range strings.Lines(unit) {
		command, is := strings.CutPrefix(strings.TrimSpace(line), "#   ")
		if is && (strings.HasPrefix(command, "install ") || strings.HasPrefix(command, "payersync ")) {
			lines = append(lines, below(command))
		}
	}
	sh := exec.CommandContext(t.Context(), "sh", "-euc", "umask 022\n"+strings.Join(lines, "\n"))
	sh.Dir, sh.Env = work, append(os.Environ(), "PATH="+work+":"+os.Getenv("PATH"))
	if out, err := sh.CombinedOutput(); err != nil || len(lines) < 6 {
		t.Fatalf("%d lines: %v\n%s", len(lines), err, out)
	}
	for _, name := range unitNames(t) {
		if _, err := os.Stat(root + "/etc/systemd/system/" + name); err != nil {
			t.Errorf("the lines do not install %s: %v", name, err)
		}
	}
	books := filepath.Join(root, "customers.csv")
	customers, err := os.ReadFile("../../configs/quickstart/customers.csv")
	if err := errors.Join(err, os.WriteFile(books, customers, 0o644)); err != nil {
		t.Fatal(err)
	}
	setTheLinesOf(t, unit, root+"/etc/payersync/books/payersync.yaml", books, below)
	passed := filepath.Join(root, "credentials")
	if err := os.Mkdir(passed, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range credentialsOf(unit) {
		path = below(strings.ReplaceAll(path, "%i", "books"))
		info, err := os.Stat(path)
		if err != nil {
			t.Errorf("the unit loads a file that its lines do not put there: %v", err)
			continue
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %04o, want 0600", path, mode)
		}
		data, err := os.ReadFile(path)
		if err := errors.Join(err, os.WriteFile(filepath.Join(passed, name), data, 0o400)); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{root + "/etc/payersync/books", passed} {
		c := exec.CommandContext(t.Context(), filepath.Join(work, "payersync"), "mapping", "check", "--config",
			folder+"/payersync.yaml")
		c.Dir = root
		if out, err := c.CombinedOutput(); err != nil && c.ProcessState.ExitCode() != exitAttention {
			t.Errorf("with the files in %s: %v\n%s", folder, err, out)
		}
	}
	l, err := state.Open(t.Context(),
		state.Options{Path: filepath.Join(root, "var/payersync/books/payersync.db"), KeyFile: passed + "/payersync.key"})
	if err != nil {
		t.Fatalf("the key that was passed on opens no ledger: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// setTheLinesOf puts the lines from a file of configs/deploy into a configuration made by init, with the
// absolute path of an export.
func setTheLinesOf(t *testing.T, says, file, books string, below func(string) string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), "path: books.csv", "path: "+books, 1)
	says = strings.Join(regexp.MustCompile(`(?m)^#   (ledger|billing): .*$`).FindAllString(says, -1), "\n")
	for _, m := range regexp.MustCompile(`[{ ](path|key_file|client_id|client_secret): ([^ ,}]+)[,}]`).FindAllStringSubmatch(says, -1) {
		key, value := m[1], below(m[2])
		line := regexp.MustCompile(`(?m)^  ` + key + `: \S+`)
		if !line.MatchString(text) {
			t.Fatalf("init's configuration has no line with %s", key)
		}
		text = line.ReplaceAllString(text, "  "+key+": "+value)
	}
	if !strings.Contains(text, "path: "+below("/var/lib/payersync/")) || strings.Contains(text, "env:BILLING") {
		t.Fatalf("it does not say what to write into payersync.yaml:\n%s", text)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// All units of an instance have the same permissions, user and files: a second user would own the ledger
// while the first works on it.
func TestTheUnitsOfAnInstanceShareAccountFilesAndLimits(t *testing.T) {
	t.Parallel()
	first := readUnit(t, "payersync@.service")
	_, want, found := strings.Cut(first, "\n# An account of its own")
	want, _, _ = strings.Cut(want, "\n[Install]")
	if !found || !strings.Contains(want, "\nUser=payersync-%i\n") || !strings.Contains(want, "\nSystemCallFilter=") {
		t.Fatal("payersync@.service does not name its account and limits: this test has lost its subject")
	}
	for _, name := range unitNames(t) {
		text := readUnit(t, name)
		if !strings.HasSuffix(name, ".service") {
			continue
		}
		_, limits, _ := strings.Cut(text, "\n# An account of its own")
		limits, _, _ = strings.Cut(limits, "\n[Install]")
		if strings.TrimSpace(limits) != strings.TrimSpace(want) {
			t.Errorf("%s has other limits than payersync@.service", name)
		}
		if got, want := credentialsOf(text), credentialsOf(first); !maps.Equal(got, want) {
			t.Errorf("%s is passed %v, payersync@.service %v", name, got, want)
		}
	}
}

// An exit status that stays until a person acts is a failure of the unit; what the next run
// settles by itself, and what is there for weeks, is none. The unit says so of each.
func TestATimersRunFailsWhereAPersonMustAct(t *testing.T) {
	t.Parallel()
	unit := readUnit(t, "payersync-sync@.service")
	no := []int{exitDone, exitAttention, exitThrottled, exitHeld, exitInterrupted}
	line := regexp.MustCompile(`(?m)^SuccessExitStatus=(.*)$`).FindStringSubmatch(unit)
	if line == nil {
		t.Fatal("the unit takes every exit status for a failure")
	}
	for _, code := range severity {
		success := code == exitDone || slices.Contains(strings.Fields(line[1]), fmt.Sprint(code))
		if success != slices.Contains(no, code) {
			t.Errorf("exit status %d: the unit takes it for a success: %v", code, success)
		}
		described := regexp.MustCompile(fmt.Sprintf(`(?m)^#   %d +\S|^# .*\b%d\b.*\bare failures\.`, code,
			code)).MatchString(unit)
		if code != exitDone && !described {
			t.Errorf("exit status %d: the unit does not say what it is to it", code)
		}
	}
}

// systemd's own tool reads every unit without a complaint, and rates what each of them could do.
func TestSystemdAcceptsTheUnits(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("systemd-analyze is not installed: apt-get install systemd")
		}
		t.Skip("systemd-analyze is not installed")
	}
	root := t.TempDir()
	installed := filepath.Join(root, "etc/systemd/system")
	for _, folder := range []string{installed, filepath.Join(root, "usr/local/bin")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(root, "usr/local/bin/payersync")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"sysinit", "basic", "shutdown", "timers", "time-sync", "time-set", "network-online",
		"multi-user"} {
		if err := os.WriteFile(filepath.Join(installed, target+".target"), []byte("[Unit]\nDescription="+target+"\n"),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range unitNames(t) {
		if err := os.WriteFile(filepath.Join(installed, name), []byte(readUnit(t, name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range unitNames(t) {
		verify := exec.CommandContext(t.Context(), "systemd-analyze", "--root="+root, "--man=no", "verify",
			strings.Replace(name, "@", "@books", 1))
		if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("systemd-analyze verify %s: %v\n%s", name, err, out)
		}
		if !strings.HasSuffix(name, ".service") {
			continue
		}
		// 15 is 1.5 of 10
		rate := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--no-pager", "--offline=true",
			"--threshold=15", filepath.Join(installed, name))
		out, err := rate.CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze security %s: %v\n%s", name, err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Log(lines[len(lines)-1])
	}
}

func unitNames(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(unitFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) < 3 {
		t.Fatalf("the units are %v: this test has lost its subject", names)
	}
	return names
}

func readUnit(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(unitFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// credentialsOf returns the files passed on by systemd to a unit, by their names there.
func credentialsOf(unit string) map[string]string {
	passed := map[string]string{}
	for line := range strings.Lines(unit) {
		if credential, is := strings.CutPrefix(strings.TrimSpace(line), "LoadCredential="); is {
			name, path, _ := strings.Cut(credential, ":")
			passed[name] = path
		}
	}
	return passed
}
