package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector/sandbox/catcher"
)

// runSandbox runs the command until the test ends, and returns what it says and where
// its pages are.
func runSandbox(t *testing.T, args ...string) (said *output, pages string) {
	t.Helper()
	said = &output{}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		p := program{Console: &show.Console{In: strings.NewReader(""), Out: io.Discard, ErrOut: said}, getenv: func(string) (string, bool) { return "", false }}
		ended <- run(ctx, p, append([]string{"sandbox", "--listen", "127.0.0.1:0"}, args...))
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != exitDone && code != exitInterrupted {
			t.Errorf("the sandbox ended with %d: %s", code, said)
		}
	})
	eventually(t, "the sandbox", func() bool { return strings.Contains(said.String(), "Ctrl-C stops it") })
	return said, "http://127.0.0.1:" + portOf(said.String(), "sandbox is at http://127.0.0.1:")
}

// portOf returns the number behind a text.
func portOf(said, before string) string {
	_, after, _ := strings.Cut(said, before)
	return regexp.MustCompile(`^\d+`).FindString(after)
}

func lettersAt(t *testing.T, pages string) (int, []catcher.Letter) {
	t.Helper()
	resp, err := http.Get(pages + "/sandbox/letters")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var letters []catcher.Letter
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(&letters); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode, letters
}

func TestSandboxCatchesLettersAndShowsThem(t *testing.T) {
	t.Parallel()
	said, pages := runSandbox(t, "--smtp", "localhost:0")
	eventually(t, "the mail server", func() bool { return strings.Contains(said.String(), "/letters.") })
	c, err := smtp.Dial("127.0.0.1:" + portOf(said.String(), "mail server is at 127.0.0.1:"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SendMail("books@harbour.example", []string{"ada@payer.example"}, strings.NewReader("Subject: Hello\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, letters := lettersAt(t, pages); len(letters) != 1 || letters[0].Subject != "Hello" {
		t.Errorf("got %+v", letters)
	}
}

// covers F151
func TestSandboxWithoutAMailPortServesAllElse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, tt := range map[string]struct{ smtp, says string }{
		"taken": {taken.Addr().String(), "Warning: no letters are caught: listen tcp " + taken.Addr().String()},
		"none":  {"", ""},
	} {
		said, pages := runSandbox(t, "--smtp", tt.smtp)
		if !strings.Contains(said.String(), tt.says) || (tt.says == "") != !strings.Contains(said.String(), "Warning") {
			t.Errorf("%s: it says %s", name, said)
		}
		if status, _ := lettersAt(t, pages); status != http.StatusNotFound {
			t.Errorf("%s: letters are answered %d", name, status)
		}
		resp, err := http.Get(pages)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: the page is answered %d", name, resp.StatusCode)
		}
	}
}

func TestSandboxCatchesLettersOnThisMachineOnly(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:2525", ":2525", "192.0.2.1:25", "mail.example.org:25", "2525"} {
		said := &output{}
		p := program{Console: &show.Console{In: strings.NewReader(""), Out: io.Discard, ErrOut: said}, getenv: func(string) (string, bool) { return "", false }}
		if code := run(t.Context(), p, []string{"sandbox", "--listen", "127.0.0.1:0", "--smtp", address}); code != exitUsage || !strings.Contains(said.String(), "on this machine only") {
			t.Errorf("%s: ended with %d and said %s", address, code, said)
		}
	}
}
