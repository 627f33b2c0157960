package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"payersync/cmd/payersync/guides"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector/sandbox"
)

// The scripts are sessions at a terminal, one file each, for people to read.
// Beside the usual commands they have
//
//	exits CODE payersync …   the command ends with this exit code
//	edit FILE OLD NEW        replaces a text in a file; \n is a new line
//	version NAME FILE        sets $NAME to the version of a mapping file, eight characters
//	customers FILE           puts customers into the service, one JSON object a line
//	theirs OLD NEW           replaces a text in the one customer of the service that holds it
//	spells PROFILE           has the service answer as this profile of the dialect expects
//	consents NAME …          payersync connect NAME, and yes to what the browser asks
//	payer NAME ACT …         what a payer or the bank does with the newest mandate: sign, approve
//	delivers N               the service delivers its webhooks until N more were taken
//
// and $SERVICE, the address of a sandbox of their own, $HOOKS, where its webhooks go, and $TODAY in UTC. What they expect to be
// printed is rewritten by
//
//	go test ./cmd/payersync -run Scripts -update
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "edit": edit,
			"version": mappingVersion, "customers": customers, "theirs": theirs, "holds": holds, "spells": spells,
			"consents": consents, "payer": payer, "delivers": delivers},
		Setup: serveSandboxTo,
	})
}

// serveSandboxTo serves a sandbox to one script, as payersync sandbox does.
func serveSandboxTo(env *testscript.Env) error {
	service := httptest.NewUnstartedServer(nil)
	model := sandbox.New(sandbox.Options{PublicURL: "http://" + service.Listener.Addr().String(), Seed: 1,
		Deliver: http.DefaultClient, Retries: slices.Repeat([]time.Duration{0}, 1000)})
	service.Config.Handler = model
	env.Values[modelKey] = model
	service.Start()
	env.Defer(service.Close)
	env.Setenv("SERVICE", service.Listener.Addr().String())
	hooks, err := unused()
	env.Setenv("HOOKS", hooks)
	env.Setenv("TODAY", time.Now().UTC().Format(time.DateOnly))
	return err
}

// modelKey is where a script's sandbox is kept.
const modelKey = "sandbox"

// holds checks whether a customer of the service holds a text.
func holds(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] holds CUSTOMER TEXT")
	}
	c, known := ts.Value(modelKey).(*sandbox.Sandbox).Customer(args[0])
	if quoted, err := json.Marshal(args[1]); err != nil || !known ||
		neg == (strings.Contains(string(c.Raw), args[1]) || bytes.Contains(c.Raw, quoted[1:len(quoted)-1])) {
		ts.Fatalf("customer %s is %s, %v", args[0], c.Raw, err)
	}
}

func customers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: customers FILE")
	}
	model, ok := ts.Value(modelKey).(*sandbox.Sandbox)
	if !ok {
		ts.Fatalf("there is no sandbox")
	}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		_, err := model.Add(json.RawMessage(line))
		ts.Check(err)
	}
}

func theirs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: theirs OLD NEW")
	}
	model, ok := ts.Value(modelKey).(*sandbox.Sandbox)
	if !ok {
		ts.Fatalf("there is no sandbox")
	}
	edited := 0
	for _, c := range model.Customers() {
		var whole any
		ts.Check(json.Unmarshal(c.Raw, &whole))
		if raw, n := replaced(whole, args[0], args[1]); n > 0 {
			body, err := json.Marshal(raw)
			ts.Check(errors.Join(err, model.Edit(c.ID, body)))
			edited++
		}
	}
	if edited != 1 {
		ts.Fatalf("%d customers hold %q", edited, args[0])
	}
}

// replaced returns a JSON value with one text in the place of another, and how often.
func replaced(v any, old, now string) (any, int) {
	n := 0
	switch v := v.(type) {
	case string:
		if v == old {
			return now, 1
		}
	case []any:
		for i := range v {
			var more int
			v[i], more = replaced(v[i], old, now)
			n += more
		}
	case map[string]any:
		for name := range v {
			var more int
			v[name], more = replaced(v[name], old, now)
			n += more
		}
	}
	return v, n
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGUMENT…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	var ended *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("%s ended with %d, want %d", strings.Join(args[1:], " "), code, want)
	}
}

func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	text = strings.ReplaceAll(text, args[1], strings.ReplaceAll(args[2], `\n`, "\n"))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func mappingVersion(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: version NAME FILE")
	}
	ts.Setenv(args[0], hashOf([]byte(ts.ReadFile(args[1])))[:shortHash])
}

// TestEveryCommandHasAHelpThatIsKept ensures that every command has a description, an example and an entry in
// the script of help pages.
func TestEveryCommandHasAHelpThatIsKept(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(filepath.Join("testdata", "script", "help.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	a := &app{program: program{Console: &show.Console{}, getenv: func(string) (string, bool) { return "", false }}}
	for _, c := range commandsBelow(a.root()) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s has no description or no example", c.CommandPath())
		}
		if !strings.Contains(string(script), "\nexec "+c.CommandPath()+" --help\n") {
			t.Errorf("help.txtar does not keep the help of %s", c.CommandPath())
		}
	}
}

// TestTheWayIntoAFilledServiceIsTried compares the commands of the guide about matching with the
// script that tries them, one by one and in their order; there they may have --yes.
func TestTheWayIntoAFilledServiceIsTried(t *testing.T) {
	t.Parallel()
	g, _ := guides.Find("matching")
	commands := shellLines(g.Text)
	if len(commands) < 5 {
		t.Fatalf("the guide has only %d commands", len(commands))
	}
	script, err := os.ReadFile(filepath.Join("testdata", "script", "match.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	rest := string(script)
	for _, command := range commands[:5] {
		_, after, found := strings.Cut(rest, command+"\n")
		if !found {
			_, after, found = strings.Cut(rest, command+" --yes")
		}
		if !found {
			t.Errorf("match.txtar does not try, at its place: %s", command)
			continue
		}
		rest = after
	}
}

func spells(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: spells PROFILE")
	}
	switches, err := sandbox.Profile(args[0])
	ts.Check(err)
	ts.Check(ts.Value(modelKey).(*sandbox.Sandbox).SetSwitches(switches))
}

// consents runs payersync connect, and does what a person would in a browser.
func consents(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: consents NAME …")
	}
	program := ""
	for _, folder := range filepath.SplitList(ts.Getenv("PATH")) {
		if at := filepath.Join(folder, "payersync"); program == "" && isFile(at) {
			program = at
		}
	}
	redirect, err := unused()
	ts.Check(err)
	cmd := exec.Command(program,
		slices.Concat([]string{"connect"}, args, []string{"--redirect", "http://" + redirect + "/callback"})...)
	cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"PATH", "HOME", "PAYERSYNC_CONFIG"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	said := bufio.NewScanner(out)
	for said.Scan() {
		ts.Logf("%s", said.Text())
		if address := strings.TrimSpace(said.Text()); strings.HasPrefix(address, "http://") {
			resp, err := client.PostForm(address, url.Values{"answer": {"yes"}})
			ts.Check(err)
			ts.Check(resp.Body.Close())
		}
	}
	ts.Check(cmd.Wait())
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func payer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: payer NAME ACT …")
	}
	model := ts.Value(modelKey).(*sandbox.Sandbox)
	i := slices.IndexFunc(model.Customers(),
		func(c sandbox.Customer) bool { return c.Name == args[0] && len(c.Mandates) > 0 })
	if i < 0 {
		ts.Fatalf("no customer with a mandate is called %q", args[0])
	}
	mandates := model.Customers()[i].Mandates
	for _, act := range args[1:] {
		does := map[string]func(string) error{"sign": model.Sign, "approve": model.Approve}[act]
		if does == nil {
			ts.Fatalf("nobody can %q", act)
		}
		ts.Check(does(mandates[len(mandates)-1].ID))
	}
}

// delivers gives serve time to listen; what nobody takes is sent again.
func delivers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: delivers N")
	}
	wanted, err := strconv.Atoi(args[0])
	ts.Check(err)
	model, deadline := ts.Value(modelKey).(*sandbox.Sandbox), time.Now().Add(patience)
	for taken := 0; taken < wanted; time.Sleep(20 * time.Millisecond) {
		n, err := model.Deliver(context.Background())
		ts.Check(err)
		if taken += n; time.Now().After(deadline) {
			ts.Fatalf("%d of %d webhooks were taken, and %d wait", taken, wanted, model.Pending())
		}
	}
}
