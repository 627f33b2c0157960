package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"payersync/connector"
	"payersync/connector/billing"
)

func (a *app) checkCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Preflight: configuration, mapping, credentials, ledger, the open points",
		Long: `Checks everything that a run needs and changes nothing: the configuration, the key
and the ledger, each source and its mapping with the mapping's examples, the billing
service's credentials, its list of customers, and the webhook signature. Every check
is made, also after one has failed.`,
		Example: "  payersync check && payersync plan",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer s.close()
			return a.check(cmd.Context(), s)
		},
	}
}

// finding is one line of the preflight.
type finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func (a *app) check(ctx context.Context, s *session) error {
	findings := []finding{
		tell("configuration", fmt.Sprintf("%s, %s", a.config, plural(len(s.cfg.Connections), "connection")), nil),
		tell("ledger", "whole, both hash chains hold", s.ledger.Integrity(ctx)),
	}
	for _, c := range s.cfg.Connections {
		findings = append(findings, s.checkConnection(ctx, c)...)
	}
	findings = append(findings, s.checkBilling(ctx), s.checkWebhook())
	code := exitDone
	for _, f := range findings {
		if !f.OK {
			code = exitFailed
		}
		if a.json() {
			if err := printJSON(a.out, f); err != nil {
				return err
			}
			continue
		}
		mark := "ok  "
		if !f.OK {
			mark = "FAIL"
		}
		fmt.Fprintf(a.out, "%s  %-22s %s\n", mark, f.Check, f.Detail)
	}
	if code != exitDone {
		return exitError(code)
	}
	return nil
}

func tell(check, detail string, err error) finding {
	if err != nil {
		return finding{check, false, err.Error()}
	}
	return finding{check, true, detail}
}

// checkConnection reads a source whole and maps it, without keeping anything.
func (s *session) checkConnection(ctx context.Context, c connectionConfig) []finding {
	conn, err := s.connection(ctx, c)
	if err != nil {
		return []finding{tell("connection "+c.Name, "", err)}
	}
	records, included, refused := 0, 0, 0
	for page, err := range conn.Source.Customers(ctx, time.Time{}) {
		if err != nil {
			return []finding{tell("source "+c.Name, "", err)}
		}
		for _, r := range page.Records {
			records++
			res, err := conn.Mapping.Apply(r)
			switch {
			case r.Problem != "" || err != nil || (res.Included && len(res.Customer.Problems()) > 0):
				refused++
			case res.Included:
				included++
			}
		}
	}
	detail := fmt.Sprintf("%s: %d would be customers, %d would be held, the rest is excluded", plural(records, "record"), included, refused)
	return []finding{
		tell("source "+c.Name, detail, nil),
		tell("mapping "+c.Name, "its examples hold", conn.Mapping.CheckExamples()),
	}
}

// checkBilling asks for a token and one page of customers.
func (s *session) checkBilling(ctx context.Context) finding {
	for page, err := range s.billing.Customers(ctx) {
		if err != nil {
			return tell("billing service", "", explainFault(err))
		}
		return tell("billing service", fmt.Sprintf("credentials accepted, the first page lists %s", plural(len(page), "customer")), nil)
	}
	return tell("billing service", "credentials accepted, there are no customers yet", nil)
}

// explainFault adds what to do about a fault that a person can mend.
func explainFault(err error) error {
	switch connector.FaultOf(err) {
	case connector.FaultUnauthorized:
		return fmt.Errorf("%w; check billing.client_id and billing.client_secret", err)
	case connector.FaultUnavailable:
		return fmt.Errorf("%w; check billing.base_url and the network", err)
	}
	return err
}

func (s *session) checkWebhook() finding {
	if s.cfg.Billing.Webhook == nil {
		return tell("webhook", "none configured: changes are found by the sweep alone", nil)
	}
	_, err := billing.NewVerifier(s.cfg.Billing.Webhook.Signature.Signature)
	return tell("webhook", "the signature can be verified", err)
}
