package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/sandbox/catcher"
	"payersync/connector/server"
)

func (a *app) demoCmd() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "See the whole job on an embedded sandbox, no account needed",
		Long: `Starts a model of the billing service on this machine, and writes a first set-up into
a temporary folder. Then it runs the real commands: plan, backfill, signing links,
webhooks (one twice, one out of order, one lost), and a sweep. A second run sends
nothing. Letters go to payers without a signature, and a reminder three days later.
Nothing leaves this machine: the demo catches the letters, and has its own clock.

At the end it shows the results and the address of the pages. At a terminal it stays up
until Ctrl-C, and then removes the folder. --script prints each command with its output,
and ends at once.`,
		Example: "  payersync demo\n  payersync demo --script | less\n  payersync demo --keep    # keeps the ledger for other commands",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), f) },
	}
	c.Flags().BoolVar(&f.script, "script", false, "print each command with its output, and end at once")
	c.Flags().BoolVar(&f.keep, "keep", false, "stay up until Ctrl-C also without a terminal, and keep the folder")
	return c
}

// demoFlags say how a demonstration is shown.
type demoFlags struct{ script, keep bool }

// demo is one demonstration under way.
type demo struct {
	*app
	dir      string
	steps    io.Writer // takes the commands with their output
	clock    *demoClock
	model    *sandbox.Sandbox
	letters  *catcher.Catcher
	hooks    string // serve's address for webhooks
	admin    string // serve's address for pages
	step     int
	webhooks int // delivered so far
	servers  sync.WaitGroup
	broken   chan error // why a server ended before the demo did
}

func (a *app) demo(ctx context.Context, f demoFlags) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	dir, err := os.MkdirTemp("", "payersync-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	if !f.keep {
		defer func() { _ = os.RemoveAll(dir) }() // leftovers are in a temporary folder
	}
	d := &demo{app: a, dir: dir, steps: io.Discard, clock: newDemoClock(), broken: make(chan error, 2)}
	if f.script {
		d.steps = a.Out
	}
	listener, mail, err := d.prepare(ctx)
	if err != nil {
		return err
	}
	d.inBackground(func() error { return d.letters.Serve(ctx, mail) })
	d.inBackground(func() error { return server.Serve(ctx, listener, server.NewHTTPServer(d.model)) })
	err = d.play(ctx)
	stays := f.keep || !f.script && show.IsTerminal(a.In) && show.IsTerminal(a.Out)
	if err == nil && stays {
		err = d.catchUp(ctx)
	}
	if err == nil {
		err = d.results(ctx)
	}
	if err == nil && stays {
		err = d.inviteToLook(ctx, listener.Addr(), f.keep)
	}
	if err == nil && stays {
		err = d.model.Run(ctx) // from here on webhooks go by themselves
	}
	stop()
	d.servers.Wait()
	close(d.broken)
	for why := range d.broken {
		err = errors.Join(err, why)
	}
	return err
}

// inBackground runs a server beside the demo. The demo waits for it at the end.
func (d *demo) inBackground(serve func() error) {
	d.servers.Go(func() {
		if err := serve(); err != nil {
			d.broken <- err
		}
	})
}

// prepare writes the set-up and opens the doors of the sandbox and of its mail server.
func (d *demo) prepare(ctx context.Context) (service, mail net.Listener, err error) {
	var doors [4]net.Listener
	for i := range doors {
		if doors[i], err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("open a port for the demo: %w", err), closeAll(doors[:i]...))
		}
	}
	service, mail = doors[0], doors[1]
	d.hooks, d.admin = doors[2].Addr().String(), doors[3].Addr().String()
	if err := closeAll(doors[2:]...); err != nil { // serve opens them again
		return nil, nil, errors.Join(err, closeAll(service, mail))
	}
	d.letters = catcher.New(catcher.Config{Now: d.clock.now})
	d.model = newSandbox(service, connector.NewSecret(quickStartSecret),
		sandbox.Options{Now: d.clock.now, Letters: d.letters})
	quiet := &app{program: program{Console: &show.Console{In: d.In, Out: io.Discard, ErrOut: io.Discard, Output: "table"},
		getenv: d.getenv}}
	if err := quiet.initialise(ctx, initFlags{dir: d.dir}); err != nil {
		return nil, nil, errors.Join(err, closeAll(service, mail))
	}
	return service, mail, d.pointConfig(service.Addr().String(), mail.Addr().(*net.TCPAddr).Port)
}

func closeAll(doors ...net.Listener) (err error) {
	for _, door := range doors {
		err = errors.Join(err, door.Close())
	}
	return err
}

// pointConfig makes the shipped set-up speak to the demo's own servers, and leaves the
// runs and the letters to the demo: no schedule may come in between.
func (d *demo) pointConfig(service string, mail int) error {
	path := filepath.Join(d.dir, "payersync.yaml")
	data, err := os.ReadFile(path) //nolint:gosec // the demo wrote it, in a folder of its own
	if err != nil {
		return err
	}
	text := strings.NewReplacer("127.0.0.1:8090", service, "127.0.0.1:8080", d.hooks,
		`server: {webhooks: "127.0.0.1:8080"}`, `server: {webhooks: "`+d.hooks+`", admin: "`+d.admin+`"}`, "port: 2525",
		fmt.Sprintf("port: %d", mail),
		"  profile: sandbox\n", "  profile: sandbox\n  rate_per_second: 500\n", "  sender: payersync ",
		"  per_minute: 600\n  sender: payersync ",
		"    schedule:", "    # schedule:").Replace(string(data)) +
		"schedules: {sweep: \"@yearly\", letters: \"@yearly\", retention: \"@yearly\", duplicates: \"@yearly\", keep_alive: \"@yearly\"}\n"
	return os.WriteFile(path, []byte(text), 0o600)
}

// serve runs the real serve command, with its log in the demo's folder.
func (d *demo) serve(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(d.dir, "serve.log"), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	code := run(ctx, program{Console: &show.Console{In: strings.NewReader(""), Out: log, ErrOut: log}, getenv: d.environ,
		clock: d.clock.now, design: true}, []string{"serve"})
	if err := log.Close(); err != nil {
		return err
	}
	if code != exitDone {
		return fmt.Errorf("serve ended with exit status %d", code)
	}
	return nil
}

// environ returns a variable of the demonstration's commands, which find its configuration. The hints that they print
// stay short.
func (d *demo) environ(name string) (string, bool) {
	if name == "PAYERSYNC_CONFIG" {
		return filepath.Join(d.dir, configFile), true
	}
	return d.getenv(name)
}

// play walks through the demonstration.
func (d *demo) play(ctx context.Context) error {
	for _, act := range []func(context.Context) error{
		d.showPlan, d.backfill, d.links, d.mandates, d.secondRun, d.invite, d.remind, d.whoCanBeDebited, d.end,
	} {
		if err := act(ctx); err != nil {
			return fmt.Errorf("demo, step %d: %w", d.step, err)
		}
	}
	return nil
}

// title begins a step.
func (d *demo) title(text string) {
	d.step++
	fmt.Fprintf(d.steps, "\n── %d. %s\n", d.step, text)
	if d.steps == io.Discard && show.IsTerminal(d.ErrOut) {
		fmt.Fprintf(d.ErrOut, "%2d. %s\n", d.step, text)
	}
}

// command runs a command as if typed by a person, and fails unless it ends with the expected exit code.
func (d *demo) command(ctx context.Context, want int, args ...string) error {
	return d.run(ctx, d.steps, d.steps, want, args...)
}

// run is command, with its results and its narration apart.
func (d *demo) run(ctx context.Context, out, errOut io.Writer, want int, args ...string) error {
	fmt.Fprintf(d.steps, "\n$ payersync %s\n", strings.Join(args, " "))
	if code := d.try(ctx, out, errOut, args); code != want {
		return fmt.Errorf("payersync %s ended with exit status %d, not %d", args[0], code, want)
	}
	return nil
}

// try runs a command and returns its exit code.
func (d *demo) try(ctx context.Context, out, errOut io.Writer, args []string) int {
	return run(ctx, program{Console: &show.Console{In: strings.NewReader(""), Out: out, ErrOut: errOut}, getenv: d.environ,
		clock: d.clock.now}, args)
}

func (d *demo) showPlan(ctx context.Context) error {
	d.title("A plan: 40 messy rows; it shows the changes, and sends nothing.")
	return d.command(ctx, exitApproval, "plan", "--limit", "3")
}

func (d *demo) backfill(ctx context.Context) error {
	d.title("A backfill: one customer per row; an invalid row stops no other.")
	if err := d.command(ctx, exitAttention, "backfill", "--yes"); err != nil {
		return err
	}
	return d.command(ctx, exitDone, "attention", "list")
}

func (d *demo) links(ctx context.Context) error {
	d.title("Signing links: each new payer with an e-mail address has one.")
	d.inBackground(func() error { return d.serve(ctx) })
	if err := d.command(ctx, exitDone, "webhooks", "subscribe"); err != nil {
		return err
	}
	return d.command(ctx, exitDone, "mandates", "list", "--state", "CREATED", "--links", "--limit", "4")
}

// mandates lets four payers sign and the bank decide on two, and brings the news
// by webhook: one delivery twice, one out of order, one never.
func (d *demo) mandates(ctx context.Context) error {
	d.title("Payers sign and the bank decides; webhooks arrive signed, over HTTP.")
	who, err := d.someMandates(4)
	if err != nil {
		return err
	}
	for _, act := range []struct {
		what string
		do   error
	}{
		{"four payers sign", errors.Join(d.model.Sign(who[0]), d.model.Sign(who[1]), d.model.Sign(who[2]),
			d.model.Sign(who[3]))},
		{"the bank approves the first", d.model.Approve(who[0])},
		{"the bank cancels the second", d.model.BankCancel(who[1], "ACCOUNT_CLOSED")},
	} {
		if act.do != nil {
			return act.do
		}
		fmt.Fprintf(d.steps, "   %s\n", act.what)
	}
	if err := d.disturb(who); err != nil {
		return err
	}
	if err := d.deliver(ctx); err != nil {
		return err
	}
	if err := d.command(ctx, exitDone, "webhooks", "list"); err != nil {
		return err
	}
	d.title("A sweep: repairs the mandate of the lost webhook.")
	if err := d.command(ctx, exitDone, "sweep"); err != nil {
		return err
	}
	return d.compare(ctx, who)
}

// someMandates returns n mandates waiting for a signature, without the payers of the letters shown later.
func (d *demo) someMandates(n int) ([]string, error) {
	var ids []string
	for _, c := range d.model.Customers() {
		if slices.Contains(readers, c.ExternalData["accountNumber"]) {
			continue
		}
		for _, m := range c.Mandates {
			if ids = append(ids, m.ID); len(ids) == n {
				return ids, nil
			}
		}
	}
	return nil, fmt.Errorf("the sandbox has %d mandates, not %d", len(ids), n)
}

// disturb swaps the two deliveries of the first payer, loses the third's and
// doubles the fourth's.
func (d *demo) disturb(who []string) error {
	queue := d.model.Deliveries()
	find := func(mandate string, nth int) int {
		for i, q := range queue.List() {
			if q.MandateID == mandate {
				if nth--; nth < 0 {
					return i
				}
			}
		}
		return -1
	}
	signed, active, lost := find(who[0], 0), find(who[0], 1), find(who[2], 0)
	if signed < 0 || active < 0 || lost < 0 {
		return errors.New("the sandbox did not queue the deliveries")
	}
	queue.Swap(signed, active)
	queue.Drop(lost)
	queue.Duplicate(find(who[3], 0))
	fmt.Fprintln(d.steps, "   on their way, the first payer's two webhooks change places, the third's is lost, the fourth's comes twice")
	return nil
}

// deliver sends the webhooks to serve and waits until they are reflected.
func (d *demo) deliver(ctx context.Context) error {
	if err := d.waitFor(ctx, "serve to come up", func() bool { return healthy(ctx, d.hooks) == nil }); err != nil {
		return err
	}
	sent, err := d.model.Deliver(ctx)
	if err != nil {
		return fmt.Errorf("deliver the webhooks: %w", err)
	}
	d.webhooks += sent
	fmt.Fprintf(d.steps, "   %s delivered\n", connector.Plural(sent, "webhook"))
	return d.waitFor(ctx, "the webhooks to be reflected", func() bool {
		report, err := d.report(ctx)
		return err == nil && report.Inbox["received"] == 0
	})
}

// waitFor waits for an event in another goroutine, 10 s at most.
func (d *demo) waitFor(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

func (d *demo) report(ctx context.Context) (r statusReport, err error) {
	var out bytes.Buffer
	code := d.try(ctx, &out, io.Discard, []string{"status", "--output", "json"})
	if code != exitDone {
		return r, fmt.Errorf("status ended with exit status %d", code)
	}
	return r, json.Unmarshal(out.Bytes(), &r)
}

// compare fails unless the ledger shows the four mandates as the service has them.
func (d *demo) compare(ctx context.Context, who []string) error {
	var out bytes.Buffer
	d.try(ctx, &out, io.Discard, []string{"mandates", "list", "--output", "json"})
	for dec := json.NewDecoder(&out); ; {
		var m mandateReport
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if truth, ok := d.model.Mandate(m.MandateID); slices.Contains(who, m.MandateID) &&
			(!ok || string(truth.Status) != m.Status) {
			return fmt.Errorf("the ledger shows mandate %s as %s, the service as %s", m.MandateID, m.Status, truth.Status)
		}
	}
}

func (d *demo) secondRun(ctx context.Context) error {
	d.title("A second run over unchanged data sends nothing.")
	before := d.model.Writes()
	if err := d.command(ctx, exitAttention, "sync"); err != nil {
		return err
	}
	if n := d.model.Writes() - before; n != 0 {
		return fmt.Errorf("the second run sent %d writes", n)
	}
	fmt.Fprintln(d.steps, "   the service saw 0 writes")
	return nil
}

func (d *demo) end(ctx context.Context) error {
	d.title("Where everything stands.")
	return d.command(ctx, exitDone, "status")
}

// results shows on one screen what the demonstration has done.
func (d *demo) results(ctx context.Context) error {
	now, err := d.report(ctx)
	if err != nil {
		return err
	}
	var needs bytes.Buffer
	if code := d.try(ctx, &needs, io.Discard, []string{"attention", "list", "--output", "json"}); code != exitDone {
		return fmt.Errorf("payersync attention list ended with exit status %d", code)
	}
	links := 0
	for _, c := range d.model.Customers() {
		links += len(c.Mandates)
	}
	fmt.Fprintf(d.Out, `
The demo is done. From 40 messy rows of an accounting system:

  %3d records read; %d excluded by the mapping
  %3d customers created in the billing service, each once
  %3d signing links asked for; %d without an e-mail address was not asked
  %3d webhooks taken, one of them twice; a sweep found the lost one
    0 writes by a second run over the same data
  %3d letters caught: invitations in three languages, and reminders

  %3d of %d payers can be debited: %s
  %3d need somebody: payersync attention list names each with its ways out
`, now.Standing.Records, now.Standing.Records-now.Standing.Payers, len(d.model.Customers()), links,
		len(d.model.Customers())-links,
		d.webhooks, d.letters.Received(), now.Standing.Can, now.Standing.Payers, mandatesInWords(now),
		bytes.Count(needs.Bytes(), []byte("\n")))
	return nil
}

// mandatesInWords counts the other mandates by what they wait for.
func mandatesInWords(r statusReport) string {
	waits := r.Mandates
	return fmt.Sprintf("%d must sign, %d wait for the bank, %d cancelled", waits["CREATED"], waits["PENDING"],
		waits["CANCELLED"])
}

func (d *demo) inviteToLook(ctx context.Context, service net.Addr, keep bool) error {
	var link bytes.Buffer
	if code := d.try(ctx, &link, io.Discard, []string{"pages", "link"}); code != exitDone {
		return fmt.Errorf("payersync pages link ended with exit status %d", code)
	}
	config := filepath.Join(d.dir, "payersync.yaml")
	fmt.Fprintf(d.Out, `
Open the pages; this address signs in once, within ten minutes:
  %s
Sign as a payer, and approve as the bank:  http://%s
Read the letters:                          http://%[2]s/letters
In another terminal:
  payersync status --config %s
`, strings.TrimSpace(link.String()), service, config)
	if keep {
		fmt.Fprintf(d.Out, "Ctrl-C ends the demo; %s stays.\n", d.dir)
	} else {
		fmt.Fprintln(d.Out, "Ctrl-C ends the demo and removes its folder. To begin your own: payersync init")
	}
	return nil
}
