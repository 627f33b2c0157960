package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/letters"
	"payersync/connector/letters/templates"
	"payersync/connector/mail"
)

// letterExample chooses the letter to fill with invented data.
type letterExample struct{ kind, language string }

func (e *letterExample) flags(c *cobra.Command) {
	c.Flags().StringVar(&e.kind, "kind", string(letters.Invitation), "letter: "+strings.Join(kindNames(), ", "))
	c.Flags().StringVar(&e.language, "language", "", "language; default the first of letters.languages")
}

func kindNames() (names []string) {
	return connector.Map(templates.Kinds, func(k letters.Kind) string { return string(k) })
}

// write returns the letter, and its templates.
func (e letterExample) write(cfg *config.Config) (templates.Letter, *templates.Set, error) {
	if !slices.Contains(kindNames(), e.kind) {
		return templates.Letter{}, nil,
			usage.Errorf("there is no letter %q%s; choose one of %s", e.kind, didYouMean(e.kind, kindNames()),
				strings.Join(kindNames(), ", "))
	}
	language := cmp.Or(e.language, cfg.Letters.Languages[0])
	if !slices.Contains(cfg.Letters.Languages, language) {
		return templates.Letter{}, nil,
			usage.Errorf("there are no letters in %q; letters.languages has %s, and more can be added there", language,
				strings.Join(cfg.Letters.Languages, ", "))
	}
	shown := *cfg
	if len(shown.Letters.LinkHosts) == 0 {
		shown.Letters.LinkHosts = []string{"pay.example.com"}
	}
	if shown.Letters.From == "" {
		shown.Letters.From, shown.Letters.ReplyTo = "Your company <accounts@example.com>", "accounts@example.com"
	}
	shown.Letters.Legal = cmp.Or(shown.Letters.Legal, "Your company, its address and register, as letters.legal says them")
	set, err := shown.LetterTemplates()
	if err != nil {
		return templates.Letter{}, nil, usage.Mistake{Err: err}
	}
	kind := letters.Kind(e.kind)
	letter, err := set.Render(kind, language, templates.Examples(kind, shown.Letters.LinkHosts[0]))
	return letter, set, err
}

// letterReport is the output of `letters preview --output json`; its keys are public.
type letterReport struct {
	Subject string `json:"subject"`
	Text    string `json:"text"`
	HTML    string `json:"html"`
	Version string `json:"templates"`
}

func (a *app) lettersPreviewCmd() *cobra.Command {
	var example letterExample
	c := &cobra.Command{
		Use:   "preview",
		Short: "Show a letter filled with invented data",
		Long: `Shows a letter with invented data in its final form. It uses the templates in force:
those of payersync, or your own in the folder letters.templates. If a template has a
mistake, the command prints the file, line and column. Nothing is sent.`,
		Example: "  payersync letters preview\n  payersync letters preview --kind reminder --language de --output json | jq -r .html",
		RunE: func(_ *cobra.Command, _ []string) error {
			cfg, err := a.loadLocal()
			if err != nil {
				return err
			}
			letter, set, err := example.write(cfg)
			if err != nil {
				return err
			}
			return a.Answer(letterReport{letter.Subject, letter.Text, letter.HTML, set.Version()}, "Subject: %s\n\n%s",
				letter.Subject, letter.Text)
		},
	}
	example.flags(c)
	return c
}

func (a *app) lettersTestCmd() *cobra.Command {
	var example letterExample
	var to string
	c := &cobra.Command{
		Use:   "test",
		Short: "Send one letter filled with invented data to yourself",
		Long: `Sends one letter to the address that you name, and prints the answer of the mail
server. The letter has invented data, never a payer's. Its subject begins with
"Test:", and its signing link leads nowhere. The command ignores letters.sender, so
you can test all settings before payers get letters.`,
		Example: "  payersync letters preview --test --to me@harbour.example\n  payersync letters preview --test --to me@harbour.example --kind last_reminder --language fr",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runLettersTest(cmd.Context(), example, to) },
	}
	example.flags(c)
	c.Flags().StringVar(&to, "to", "", "the recipient: one address")
	return c
}

func (a *app) runLettersTest(ctx context.Context, example letterExample, to string) error {
	if to == "" {
		return usage.Errorf("name the recipient of the test letter: --to me@harbour.example")
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	return a.testLetter(ctx, cfg, example, to)
}

func (a *app) testLetter(ctx context.Context, cfg *config.Config, example letterExample, to string) error {
	if l := cfg.Letters; l.SMTP == nil || l.From == "" {
		return usage.Errorf("no letter can be sent: the configuration names no mail server or no sender; add letters.smtp and letters.from, as configs/payersync.example.yaml shows")
	}
	if err := mail.CheckAddress(to); err != nil {
		return usage.Errorf("--to cannot be used: %v; write one bare address, for example me@harbour.example", err)
	}
	letter, set, err := example.write(cfg)
	if err != nil {
		return err
	}
	settings, err := cfg.LetterSettings("")
	if err != nil {
		return err
	}
	_, domain, _ := strings.Cut(settings.Address, "@")
	letter.Subject = "Test: " + letter.Subject
	message, err := set.Message(letter,
		templates.Envelope{To: to, MessageID: "test-" + rand.Text() + "@" + domain, Date: a.now()})
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // mail servers do without one
	answer, err := cfg.MailServer(host).Send(ctx, settings.Address, to, message)
	if err != nil {
		return fmt.Errorf("the test letter was not handed over: %w; %s", err, cureOfSending(err))
	}
	if a.JSON() {
		return show.JSON(a.Out, struct {
			Answer string `json:"answer"`
		}{answer})
	}
	_, err = fmt.Fprintf(a.Out, "The mail server took the letter: %s\n", show.Visible(answer))
	return err
}

// cureOfSending returns the next step for a letter refused by a mail server.
func cureOfSending(err error) string {
	var refused *mail.RefusedError
	var deferred *mail.DeferredError
	var unclear *mail.UnclearError
	stage := mail.AtConnection
	switch {
	case errors.As(err, &unclear):
		return "look whether it arrived before you try again"
	case errors.As(err, &deferred):
		return "try again later"
	case errors.As(err, &refused):
		stage = refused.Stage
	}
	switch stage {
	case mail.AtSignIn:
		return "put letters.smtp.user and password right"
	case mail.AtSender:
		return "name a sender in letters.from that this mail server allows"
	case mail.AtRecipient, mail.AtMessage:
		return "ask the operator of the mail server, or try another address in --to"
	}
	return "check letters.smtp: host, port and tls"
}
