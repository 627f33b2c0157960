package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	yaml "go.yaml.in/yaml/v4"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
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
		p := program{Console: &show.Console{In: strings.NewReader(""), Out: io.Discard, ErrOut: said},
			getenv: func(string) (string, bool) { return "", false }}
		ended <- run(ctx, p, append([]string{"sandbox", "--listen", "127.0.0.1:0"}, args...))
	}()
	t.Cleanup(func() {
		stop()
		if code := await(t, "the sandbox to end", ended); code != exitDone && code != exitInterrupted {
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
	resp, err := client.Get(pages + "/sandbox/letters")
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
	said, pages := runSandbox(t, "--smtp", "localhost:0", "--mail-fault", "refused,recipient=bob@payer.example")
	eventually(t, "the mail server", func() bool { return strings.Contains(said.String(), "/letters.") })
	c, err := smtp.Dial("127.0.0.1:" + portOf(said.String(), "mail server is at 127.0.0.1:"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SendMail("books@harbour.example", []string{"ada@payer.example"},
		strings.NewReader("Subject: Hello\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := c.SendMail("books@harbour.example", []string{"bob@payer.example"},
		strings.NewReader("Subject: Hello\r\n\r\n")); err == nil || !strings.Contains(err.Error(), "takes no mail") {
		t.Errorf("a letter that --mail-fault refuses is answered %v", err)
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
		resp, err := client.Get(pages)
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
		p := program{Console: &show.Console{In: strings.NewReader(""), Out: io.Discard, ErrOut: said},
			getenv: func(string) (string, bool) { return "", false }}
		if code := run(t.Context(), p,
			[]string{"sandbox", "--listen", "127.0.0.1:0", "--smtp", address}); code != exitUsage ||
			!strings.Contains(said.String(), "on this machine only") {
			t.Errorf("%s: ended with %d and said %s", address, code, said)
		}
	}
}

func TestSandboxStartsWithProfileSwitchesFaultsAndCustomers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "customers.csv")
	rows := "Name;Email;Key;Mandate;Notes\nM\xfcller;a@b.test;A1;active;x\nAnn;;;;\n;c@d.test;A3;;\nZoe;z@z.test;A1;WEIRD;\n" // Windows-1252
	if err := os.WriteFile(file, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	said, pages := runSandbox(t, "--smtp", "", "--profile", "adfin", "--switch", "update=path_id", "--from", file,
		"--fault", "error_before,method=GET,path=/api/customers", "--view", "noKeys", "--webhook-secret", "chosen")
	for _, want := range []string{
		"Not read of " + file + ": the columns Notes.",
		"Not taken: line 4 has no name",
		"the status in line 5 is not known",
		"At the start there are 3 customers: 1 with a mandate, 1 without a key, 1 with a key of another customer too. Rows not loaded: 1.",
		"profile: adfin", "authorize_url: ", "delivery_key: {}",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q but\n%s", want, said)
		}
	}
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/sandbox/customers": {200, "Müller"}, "/sandbox/switches": {410, "--switch NAME=VALUE"}, "/api/customers": {503, ""},
	} {
		resp, err := client.Get(pages + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want.status || !strings.Contains(string(body), want.body) {
			t.Errorf("%s lacks %v: %d %s", path, want, resp.StatusCode, body)
		}
	}
}

func TestFlagsOfTheSandboxReachItsModel(t *testing.T) {
	t.Parallel()
	f := sandboxFlags{
		profile: "adfin", switches: []string{"update=path_id"}, faults: []string{"late"}, view: "noKeys",
		secret: quickStartSecret, mailFaults: []string{"refused,recipient=ada@payer.example"},
	}
	r, err := f.rehearsal()
	if err != nil {
		t.Fatal(err)
	}
	model := sandbox.New(sandbox.Options{Switches: r.switches})
	r.start(model)
	if got := model.Switches(); got.Update != "path_id" || got.ExternalData != "array" ||
		model.View() != (sandbox.View{NoKeys: true}) {
		t.Errorf("switches are %+v and the view is %+v", got, model.View())
	}
	if want := []catcher.MailFault{{Kind: catcher.Refused, Recipient: "ada@payer.example"}}; !slices.Equal(r.mailFaults,
		want) {
		t.Errorf("mail faults are %+v", r.mailFaults)
	}
}

func TestSandboxFlagsSayWhatIsWrong(t *testing.T) {
	for args, want := range map[string]string{
		"--switch updte=x":                     "did you mean update?",
		"--switch update":                      "write it as NAME=VALUE",
		"--switch update=pathid":               "did you mean path_id?",
		"--switch signature.key=hex":           "choose the secret with --webhook-secret",
		"--switch signature.timestamp_item=t":  "name signature.signature_item too",
		"--switch signature.with_older=true":   "name signature.signature_item too",
		"--switch signature.signature_item=a,": "a name such as v1",
		"--switch signature.signed=foo":        "{body} once",
		"--switch signature.signed={body}{on}": "an unknown placeholder",
		"--switch signature.signed={id}{body}": "name signature.id_header too",
		"--profile other":                      "use standard or adfin",
		"--fault lat":                          "is not known",
		"--view half":                          "use missing",
		"--mail-fault flood":                   "is not known",
	} {
		f := sandboxFlags{profile: "standard", secret: quickStartSecret}
		flag, value, _ := strings.Cut(args, " ")
		switch flag {
		case "--switch":
			f.switches = []string{value}
		case "--profile":
			f.profile = value
		case "--fault":
			f.faults = []string{value}
		case "--view":
			f.view = value
		case "--mail-fault":
			f.mailFaults = []string{value}
		}
		if _, err := f.rehearsal(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

func TestSandboxPrintsWhatChecksItsSignatures(t *testing.T) {
	t.Parallel()
	said, _ := runSandbox(t, "--smtp", "", "--switch", "signature.algorithm=ed25519", "--switch",
		"signature.signature_item=v1",
		"--switch", "signature.timestamp_item=t", "--switch", "signature.signed={timestamp}.{body}", "--switch",
		"signature.with_older=true")
	var printed struct {
		Billing struct {
			Webhook struct {
				Signature struct {
					billing.Signature `yaml:",inline"`
					Secrets           []string
				}
			}
		}
	}
	_, block, _ := strings.Cut(said.String(), "For payersync.yaml:\n\n")
	block, _, _ = strings.Cut(block, "\nThe sandbox is at")
	if err := yaml.Unmarshal([]byte(block), &printed); err != nil {
		t.Fatalf("%v in\n%s", err, block)
	}
	sig := printed.Billing.Webhook.Signature
	for _, text := range sig.Secrets {
		sig.Signature.Secrets = append(sig.Signature.Secrets, connector.NewSecret(text))
	}
	if _, err := billing.NewVerifier(sig.Signature); err != nil || sig.SignatureItem != "v1" || sig.TimestampItem != "t" ||
		sig.Key != "base64" {
		t.Errorf("%v: it prints\n%s", err, block)
	}
	if strings.Contains(said.String(), quickStartSecret) {
		t.Error("what the private key is made of is told")
	}
}

func TestSandboxShowsHowFarItIsWithALargeFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "customers.csv")
	var rows strings.Builder
	rows.WriteString("Name,Key\n")
	for i := range 250 {
		fmt.Fprintf(&rows, "Payer %d,A%d\n", i, i)
	}
	if err := os.WriteFile(file, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	said, clock := &output{}, time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	a := &app{program: program{Console: &show.Console{Out: io.Discard, ErrOut: said}}, now: func() time.Time {
		clock = clock.Add(3 * time.Second)
		return clock
	}}
	model := sandbox.New(sandbox.Options{})
	if err := a.beginWith(t.Context(), model, file); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "starting with customers: 200 of 250") || len(model.Customers()) != 250 {
		t.Errorf("with %d customers it says\n%s", len(model.Customers()), said)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := a.beginWith(stopped, sandbox.New(sandbox.Options{}), file); !errors.Is(err, context.Canceled) {
		t.Errorf("an interruption ends it with %v", err)
	}
}
