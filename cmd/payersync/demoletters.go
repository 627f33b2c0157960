package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox/catcher"
	"payersync/connector/transport"
)

// The payers of the demo's letters, by their number: one for each language.
var (
	readers = []string{"HB001", "HB003", "HB005"}
	signer  = "HB005" // the payer who signs after the letter
)

// invite writes to the payers with a signing link and no signature. The first letters wait until a person has
// seen them.
func (d *demo) invite(ctx context.Context) error {
	d.title("Letters: payers without a signature get one, after an approval.")
	if err := d.command(ctx, exitDone, "letters", "plan", "--limit", "3"); err != nil {
		return err
	}
	fmt.Fprintln(d.steps, "\n   approve lists them all, and shows three in full")
	if err := d.run(ctx, io.Discard, d.steps, exitDone, "letters", "approve", "--yes"); err != nil {
		return err
	}
	if err := d.run(ctx, d.steps, io.Discard, exitDone, "letters", "send"); err != nil {
		return err
	}
	fmt.Fprintf(d.steps, "\n   The mail server has caught %s. Some of their subjects:\n",
		connector.Plural(d.letters.Received(), "letter"))
	for _, number := range readers {
		l, err := d.letterTo(number, d.letters.Letters(""))
		if err != nil {
			return err
		}
		fmt.Fprintf(d.steps, "   %s  %s\n", number, l.Subject)
	}
	return nil
}

// letterTo returns the letter to the payer with a number.
func (d *demo) letterTo(number string, among []catcher.Letter) (catcher.Letter, error) {
	for _, l := range among {
		if strings.Contains(l.Text, number) {
			return l, nil
		}
	}
	return catcher.Letter{}, fmt.Errorf("no letter to %s has come", number)
}

// remind lets one payer sign by the link in the letter, and three days pass: the others
// are reminded.
func (d *demo) remind(ctx context.Context) error {
	d.title("Three days pass. One payer signs; the others get a reminder.")
	invited := d.letters.Received()
	l, err := d.letterTo(signer, d.letters.Letters(""))
	if err != nil {
		return err
	}
	if err := d.passHalf(ctx, true); err != nil {
		return err
	}
	if err := follow(ctx, l); err != nil {
		return err
	}
	fmt.Fprintf(d.steps, "   %s signs\n", signer)
	if err := d.deliver(ctx); err != nil {
		return err
	}
	for half := range 5 {
		if err := d.passHalf(ctx, half < 4); err != nil {
			return err
		}
	}
	if err := d.run(ctx, d.steps, io.Discard, exitDone, "letters", "send"); err != nil {
		return err
	}
	reminders := d.letters.Letters("")[:d.letters.Received()-invited]
	if len(reminders) != invited-1 {
		return fmt.Errorf("%d reminders came for %d letters", len(reminders), invited)
	}
	if _, err := d.letterTo(signer, reminders); err == nil {
		return fmt.Errorf("%s has signed and was reminded", signer)
	}
	first, err := d.letterTo(readers[0], reminders)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.steps, "\n   %s got none. The one to %s:\n\n", signer, readers[0])
	said, _, _ := strings.Cut(first.Text, "\n\n--------") // the sender's details follow below
	for line := range strings.Lines(said) {
		fmt.Fprintf(d.steps, "   │ %s", line)
	}
	fmt.Fprintln(d.steps)
	return nil
}

// follow signs at the link of a letter, as its reader's browser does.
func follow(ctx context.Context, l catcher.Letter) error {
	links := l.Links()
	if len(links) == 0 {
		return fmt.Errorf("the letter %q has no signing link", l.Subject)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, links[0], nil)
	if err != nil {
		return err
	}
	browser := &http.Client{Timeout: 10 * time.Second, Transport: transport.WithUserAgent(nil),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Do(req)
	if err != nil {
		return fmt.Errorf("open the signing link of a letter: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("the signing link of a letter answers %s", resp.Status)
	}
	return nil
}

// passHalf lets half a day pass. In the morning the accounting system is read and the mandates looked at;
// letters says whether due letters are sent, too.
func (d *demo) passHalf(ctx context.Context, letters bool) error {
	d.clock.pass(12 * time.Hour)
	if d.clock.now().UTC().Hour() < 12 {
		if err := d.quietly(ctx, exitAttention, "sync"); err != nil {
			return err
		}
		if err := d.quietly(ctx, exitDone, "sweep"); err != nil {
			return err
		}
	}
	if !letters {
		return nil
	}
	return d.quietly(ctx, exitDone, "letters", "send")
}

// quietly is command, without showing it.
func (d *demo) quietly(ctx context.Context, want int, args ...string) error {
	said := &strings.Builder{}
	if code := d.try(ctx, io.Discard, said, args); code != want {
		return fmt.Errorf("payersync %s ended with exit status %d, not %d: %s", args[0], code, want, said)
	}
	return nil
}

func (d *demo) whoCanBeDebited(ctx context.Context) error {
	d.title("A report: every record, the payers that can be debited, and the findings.")
	return d.command(ctx, exitDone, "report", "--limit", "5")
}

// catchUp lets the days until now pass.
func (d *demo) catchUp(ctx context.Context) error {
	for d.clock.now().Before(time.Now().Add(-12 * time.Hour)) {
		if err := d.passHalf(ctx, true); err != nil {
			return err
		}
	}
	d.clock.pass(12 * time.Hour)
	return nil
}
