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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"payersync/internal/longtest"
)

// sandboxAddress is where the README's sandbox listens.
const sandboxAddress = "127.0.0.1:8090"

// playedByCI are the lines of the README that .ci/run plays as steps of its own.
var playedByCI = []string{"go run ./cmd/payersync demo", "go test ./..."}

// TestTheReadmeAndTheGuidesAreWalked types what they say at a terminal, line by line, the README in
// a checkout of its own with an export in it. Where a command asks, it is told yes, or what it offers.
func TestTheReadmeAndTheGuidesAreWalked(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(readme) > 10_000 {
		t.Errorf("the README has %d bytes; what is long belongs into a guide", len(readme))
	}
	var lines []string
	for _, line := range shellLines(string(readme)) {
		switch {
		case strings.HasPrefix(line, "docker "): // for machines with Docker, which few tests have
			checkDockerfile(t)
		case !slices.Contains(playedByCI, line):
			lines = append(lines, line)
		}
	}
	// The README builds the program last, and names the line before it uses it.
	build := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "go build") })
	if build < 0 || strings.Count(string(readme), lines[build]) < 2 {
		t.Fatal("the README does not build the program where it is used")
	}
	lines = slices.Concat([]string{lines[build]}, lines[:build], lines[build+1:])
	if len(lines) < 4 {
		t.Fatalf("only %d lines of the README were found: %q", len(lines), lines)
	}
	longtest.Story(t, "a build, and the address of the README's sandbox")
	alone(t)
	checkout := checkedOut(t)
	export, err := os.ReadFile("../../configs/quickstart/customers.csv")
	if err := errors.Join(err,
		os.WriteFile(filepath.Join(checkout, "Customers Harbour Books Ltd.csv"), export, 0o600)); err != nil {
		t.Fatal(err)
	}
	expectEnds(t, "README", lines, walk(t, checkout, lines), map[string]int{"./payersync backfill": exitAttention})
	walkGuides(t, filepath.Join(checkout, "payersync"))
}

// alone fails if another program listens at the default address of the sandbox.
func alone(t *testing.T) {
	t.Helper()
	if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", sandboxAddress); err == nil {
		_ = conn.Close()
		if os.Getenv("CI") != "" {
			t.Fatalf("something listens on %s, where the README's sandbox belongs", sandboxAddress)
		}
		t.Skipf("something listens on %s, where the README's sandbox belongs", sandboxAddress)
	}
}

// expectEnds compares how lines ended with what is expected: 0, unless codes says otherwise of a line
// that begins so.
func expectEnds(t *testing.T, text string, lines []string, ends map[int]int, codes map[string]int) {
	t.Helper()
	for i, line := range lines {
		want, longest := 0, 0
		for begins, code := range codes {
			if strings.HasPrefix(line, begins) && len(begins) > longest { // a way of a command may end otherwise
				want, longest = code, len(begins)
			}
		}
		switch code, ended := ends[i]; {
		case !ended:
			t.Errorf("%s: %s was not reached", text, line)
		case code != want:
			t.Errorf("%s: %s ended with %d, want %d", text, line, code, want)
		}
	}
}

// shellLines returns the lines of all blocks that are marked as sh, without comments.
func shellLines(markdown string) (lines []string) {
	for _, block := range shellBlock.FindAllStringSubmatch(markdown, -1) {
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(behind.ReplaceAllString(line, "")); line != "" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

var (
	shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	behind     = regexp.MustCompile(`\s+#.*$`)
)

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
			fmt.Fprintf(&script, "for try in {1..300}; do (exec 3<>/dev/tcp/%s) 2>/dev/null && break; sleep 0.1; done\n",
				strings.Replace(sandboxAddress, ":", "/", 1))
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
