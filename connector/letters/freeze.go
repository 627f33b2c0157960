package letters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/mail"
	"payersync/connector/readiness"
	"payersync/state"
)

// freeze checks the payer and the customer once more, writes the letter, and stores it. It returns the letter's
// address.
func (d *Desk) freeze(ctx context.Context, x Next, messageID string) (to string, err error) {
	before, err := d.Ledger.ReadinessOf(ctx, x.RecordID)
	if err != nil {
		return "", err
	}
	if before == nil || before.Mandate.ID != x.MandateID || before.BillingID == "" {
		return "", &keptError{"its payer has another mandate by now"}
	}
	looked := d.Ledger.Now()
	customer, err := d.Reader.Read(ctx, before.BillingID, connector.CauseSweep, "letters")
	if err != nil {
		return "", fmt.Errorf("look at customer %s before its letter: %w", before.BillingID, err)
	}
	if err := d.step(Looked); err != nil {
		return "", err
	}
	now, err := d.Ledger.ReadinessOf(ctx, x.RecordID) // it includes the read's result
	if err != nil {
		return "", err
	}
	link, err := d.Ledger.SigningLink(ctx, x.MandateID)
	if err != nil {
		return "", err
	}
	if why := d.differs(x, now, customer, link); why != "" {
		return "", &keptError{why}
	}
	to = strings.TrimSpace(now.Label.Email)
	if d.Settings.Test {
		to = d.Settings.TestTo
	}
	draft := d.draft(x, now, link, messageID)
	draft.To = to
	message, err := d.Settings.Templates.Write(draft)
	if err != nil {
		return "", fmt.Errorf("write the letter of step %d for mandate %s: %w", x.Step, x.MandateID, err)
	}
	err = d.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.FreezeLetter(state.Letter{
			MandateID: x.MandateID, Step: x.Step, Kind: string(x.Kind), RecordID: x.RecordID, Recipient: x.Recipient,
			Setup: x.Setup, Language: draft.Language,
			MessageID: messageID, Body: slices.Concat([]byte(to+"\n"), message), LookedAt: looked, FrozenAt: tx.Now(),
		})
	})
	if errors.Is(err, state.ErrLetterTaken) {
		return "", &keptError{err.Error()}
	}
	return to, err
}

// differs describes the differences between the customer in the read, the record and the letter; "" when they
// do.
func (d *Desk) differs(x Next, now *state.ReadinessFacts, customer *connector.RemoteCustomer, link string) string {
	switch {
	case customer == nil:
		return "the billing service says that the customer does not exist"
	case now == nil || now.Label == nil || now.BillingID != customer.ID || !readiness.CanBeInvited(*now) || now.LetBe:
		return "its payer is not to be written to any more"
	case now.Mandate.ID != x.MandateID:
		return "its payer has another mandate by now"
	case customer.Mandate == nil || customer.Mandate.ID != x.MandateID:
		return "the billing service shows another mandate"
	case customer.Mandate.Status != connector.MandateCreated:
		return "the mandate waits for no signature any more"
	case connector.KeyIn(customer.ExternalData, now.Key.Name) != now.Key:
		return "the customer does not carry the payer's key"
	}
	address := strings.TrimSpace(now.Label.Email)
	switch {
	case mail.CheckAddress(address) != nil || d.Ledger.RecipientHash(address) != x.Recipient:
		return "the accounting system has another e-mail address by now"
	case !slices.ContainsFunc(customer.Emails,
		func(shown string) bool { return strings.EqualFold(strings.TrimSpace(shown), address) }):
		return "the billing service has another e-mail address than the accounting system"
	case customer.Mandate.URL != "" && customer.Mandate.URL != link:
		return "the billing service shows another signing link"
	}
	if link == "" {
		return "payersync does not have its signing link"
	}
	if err := CheckLink(link, d.Settings.LinkHosts); err != nil {
		return err.Error()
	}
	return ""
}

// draft returns the content of a letter.
func (d *Desk) draft(x Next, now *state.ReadinessFacts, link, messageID string) Draft {
	return Draft{
		Kind: x.Kind, Language: d.language(now.Label.Language, d.Settings.Language[x.Connection]),
		To: strings.TrimSpace(now.Label.Email), MessageID: messageID + "@" + d.domain(),
		Date: d.Ledger.Now().In(d.Settings.zone(x.Connection)),
		Stop: d.Ledger.StopToken(x.MandateID), Name: now.Label.Name, Contact: now.Label.Contact, Number: now.Label.Number,
		Link: link, Days: x.Days,
	}
}

// language returns our nearest language to the payer's, or else to the connection's.
func (d *Desk) language(wanted, otherwise string) string {
	base, _, _ := strings.Cut(wanted, "-")
	for _, test := range []string{wanted, base, otherwise} {
		for _, have := range d.Settings.Languages {
			if test != "" && strings.EqualFold(have, test) {
				return have
			}
		}
	}
	if len(d.Settings.Languages) == 0 {
		return "en"
	}
	return d.Settings.Languages[0]
}

func (d *Desk) domain() string {
	_, domain, _ := strings.Cut(d.Settings.Address, "@")
	return domain
}
