package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// sandboxAddress is where the README's sandbox listens.
const sandboxAddress = "127.0.0.1:8090"

// walked are the sections of the README whose commands are typed as they stand there, and
// how a line may end otherwise than with 0.
var walked = []struct {
	section string
	ends    map[string]int
}{
	{"Install", nil},
	{"Your own customers, in four commands", map[string]int{"./payersync backfill": exitAttention}},
	{"First set-up, with sample data", map[string]int{"payersync plan": exitApproval, "payersync backfill": exitAttention}},
}

// TestTheReadmeIsWalked types what the README says at a terminal, line by line, in a checkout
// of its own with an export in it. Where it asks, it is told yes, or what it offers.
func TestTheReadmeIsWalked(t *testing.T) {
	t.Parallel()
	if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", sandboxAddress); err == nil {
		_ = conn.Close()
		if os.Getenv("CI") != "" {
			t.Fatalf("something listens on %s, where the README's sandbox belongs", sandboxAddress)
		}
		t.Skipf("something listens on %s, where the README's sandbox belongs", sandboxAddress)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	checkout := checkedOut(t)
	export, err := os.ReadFile("../../configs/quickstart/customers.csv")
	if err := errors.Join(err, os.WriteFile(filepath.Join(checkout, "Customers Harbour Books Ltd.csv"), export, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, w := range walked {
		commands := commandsOf(t, string(readme), w.section)
		ends := walk(t, checkout, commands)
		for i, line := range commands {
			want := 0
			for command, code := range w.ends {
				if strings.HasPrefix(line, command) {
					want = code
				}
			}
			switch code, ended := ends[i]; {
			case !ended:
				t.Errorf("%s: %s was not reached", w.section, line)
			case code != want:
				t.Errorf("%s: %s ended with %d, want %d", w.section, line, code, want)
			}
		}
	}
}

// commandsOf returns the lines of the first block of a section, without what they say behind
// them. Some are for machines with Docker, which few tests have.
func commandsOf(t *testing.T, readme, section string) (lines []string) {
	t.Helper()
	_, text, found := strings.Cut(readme, "\n## "+section+"\n")
	_, text, block := strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	if !found || !block {
		t.Fatalf("the README has no section %q with commands: this test has lost its subject", section)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(behind.ReplaceAllString(line, ""))
		if strings.HasPrefix(line, "docker ") {
			checkDockerfile(t)
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("the README has no commands under %q", section)
	}
	return lines
}

var behind = regexp.MustCompile(`\s+#.*$`)

// checkDockerfile looks whether everything that is copied into the image is there.
func checkDockerfile(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "COPY" || strings.HasPrefix(words[1], "--from") {
			continue
		}
		for _, from := range words[1 : len(words)-1] {
			if _, err := os.Stat(filepath.Join("../..", from)); err != nil && !strings.HasPrefix(from, "--") {
				t.Errorf("the image copies %s: %v", from, err)
			}
		}
	}
}

// checkedOut returns a copy of the repository.
func checkedOut(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkout")
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("../..", path)
		switch {
		case err != nil:
			return err
		case rel == ".git" && d.IsDir():
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, rel), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(filepath.Join(dir, rel), data, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// walkTakes is how long the commands of a section may take, of which one builds the program.
const walkTakes = 10 * time.Minute

// walk types lines into one shell at a terminal, and returns with which codes they ended.
func walk(t *testing.T, dir string, lines []string) map[int]int {
	t.Helper()
	var script strings.Builder
	for i, line := range lines {
		fmt.Fprintf(&script, "%s\necho \"::$? %d::\"\n", line, i)
		if strings.HasSuffix(line, "&") {
			fmt.Fprintf(&script, "until (exec 3<>/dev/tcp/%s) 2>/dev/null; do sleep 0.1; done\n", strings.Replace(sandboxAddress, ":", "/", 1))
		}
	}
	script.WriteString("kill $(jobs -p) 2>/dev/null; wait\n")
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, done := context.WithTimeout(t.Context(), walkTakes)
	defer done()
	shell := exec.CommandContext(ctx, "bash", "-c", script.String())
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) } // what it started, too
	shell.Dir = dir
	shell.Stdin, shell.Stdout, shell.Stderr = tty, tty, tty
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := errors.Join(pty.Setsize(keys, &pty.Winsize{Rows: 24, Cols: 80}), shell.Start(), tty.Close()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		part := make([]byte, 4096)
		for {
			n, err := keys.Read(part)
			mu.Lock()
			seen.Write(part[:n])
			asked, offered := strings.HasSuffix(seen.String(), "[y/N] "), offer.MatchString(seen.String())
			mu.Unlock()
			switch {
			case asked:
				_, _ = io.WriteString(keys, "y\r")
			case offered:
				_, _ = io.WriteString(keys, "\r")
			}
			if err != nil {
				return // nobody is at the terminal any more
			}
		}
	}()
	failed := shell.Wait()
	<-read
	_ = keys.Close()
	ends := map[int]int{}
	for _, m := range ended.FindAllStringSubmatch(seen.String(), -1) {
		code, _ := strconv.Atoi(m[1])
		line, _ := strconv.Atoi(m[2])
		ends[line] = code
	}
	if failed != nil || t.Failed() || testing.Verbose() {
		t.Logf("the terminal shows (%v)\n%s", failed, seen.String())
	}
	return ends
}

// offer is a question that says what an empty answer means.
var offer = regexp.MustCompile(`\[[^\]\n]+\] $`)

var ended = regexp.MustCompile(`::(\d+) (\d+)::`)
