package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
	"payersync/connector/sandbox/catcher"
)

// rehearsal is how a sandbox was asked to answer.
type rehearsal struct {
	switches sandbox.Switches
	faults   []sandbox.Fault
	view     sandbox.View

	mailFaults []catcher.MailFault
}

// rehearsal reads the flags, the profile before single switches.
func (f sandboxFlags) rehearsal() (r rehearsal, err error) {
	if r.switches, err = sandbox.Profile(f.profile); err != nil {
		return r, fmt.Errorf("--profile: %w", err)
	}
	for _, text := range f.switches {
		name, value, named := strings.Cut(text, "=")
		if !named {
			return r, fmt.Errorf("--switch %s says no value; write it as NAME=VALUE, for example external_data=list", text)
		}
		if err := r.switches.Set(name, value); err != nil {
			return r, fmt.Errorf("--switch: %w", err)
		}
	}
	r.switches.Signature.Secret = connector.NewSecret(f.secret)
	switch err := r.switches.Validate(); {
	case errors.Is(err, sandbox.ErrSwitch):
		return r, fmt.Errorf("--switch: %w", err)
	case err != nil:
		return r, fmt.Errorf("%w; choose the secret with --webhook-secret", err)
	}
	for _, text := range f.faults {
		fault, err := sandbox.ParseFault(text)
		if err != nil {
			return r, fmt.Errorf("--fault %s: %w", text, err)
		}
		r.faults = append(r.faults, fault)
	}
	for _, text := range f.mailFaults {
		fault, err := catcher.ParseFault(text)
		if err != nil {
			return r, fmt.Errorf("--mail-fault %s: %w", text, err)
		}
		r.mailFaults = append(r.mailFaults, fault)
	}
	if f.view != "" {
		if r.view, err = sandbox.ParseView(f.view); err != nil {
			return r, fmt.Errorf("--view %s: %w", f.view, err)
		}
	}
	return r, nil
}

func (r rehearsal) start(model *sandbox.Sandbox) {
	for _, fault := range r.faults {
		model.Inject(fault)
	}
	model.SetView(r.view)
}

// pasted is the configuration's block for the sandbox. It leaves the effects of single switches out, so the
// person can test whether they are found.
func pasted(baseURL, profile string, model *sandbox.Sandbox) string {
	switches := model.Switches()
	var out strings.Builder
	fmt.Fprintf(&out, "For payersync.yaml:\n\nbilling:\n  profile: %s\n  base_url: %s\n  client_id: sandbox\n  client_secret: sandbox-secret\n", profile, baseURL)
	if switches.APITokens == sandbox.AuthorizationCode {
		fmt.Fprintf(&out, "  authorize_url: %s%s\n", strings.TrimSuffix(baseURL, "/api"), sandbox.AuthorizePath)
	}
	out.WriteString("  redirect_url: https://app.example.com/signed\n")
	out.WriteString("  webhook:\n    public_url: http://127.0.0.1:8080/webhooks/billing\n    events: [dd-mandate, customer]\n")
	named := switches.WebhookSetup != "subscribe" // the secret is, when webhooks are subscribed to
	if named {
		out.WriteString("    delivery_key: {}\n")
	}
	if known, err := sandbox.Profile(profile); err == nil && named && billing.ProfileScheme(profile) != "" &&
		known.Signature == switches.Signature {
		return out.String()
	}
	out.WriteString("    signature:\n")
	writeSignature(&out, switches.Signature)
	if !named {
		fmt.Fprintf(&out, "      secrets: [%q]\n", model.WebhookSecret().Expose())
	}
	return out.String()
}

// writeSignature writes how deliveries are signed.
func writeSignature(out *strings.Builder, sig sandbox.Signature) {
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(out, "      %s: %q\n", key, value)
		}
	}
	if sig.Scheme == "standard-webhooks" {
		line("scheme", sig.Scheme)
	} else {
		line("header", sig.Header)
		line("signature_item", sig.SignatureItem)
		line("timestamp_item", sig.TimestampItem)
		line("timestamp_header", sig.TimestampHeader)
		line("id_header", sig.IDHeader)
		line("algorithm", sig.Algorithm)
		line("encoding", sig.Encoding)
		line("prefix", sig.Prefix)
		line("signed", sig.Signed)
		line("key", sig.KeySpelling())
	}
}

// helpWidth is a width that fits a terminal of 80 columns.
const helpWidth = 80

// sandboxHelp lists switches in their groups, faults and views, as their tables have
// them.
func sandboxHelp() string {
	var out strings.Builder
	out.WriteString("Switches, with what they take. The default of the profile standard stands\nfirst, or in brackets:\n")
	group := ""
	for _, k := range sandbox.Table() {
		if k.Group != group {
			group = k.Group
			fmt.Fprintf(&out, "\n%s\n", group)
		}
		takes := k.Takes()
		if len(k.Allowed) == 0 {
			takes = fmt.Sprintf("%s (%s)", takes, cmp.Or(k.Default, "empty"))
		}
		out.WriteString(hanging("  "+k.Name+": ", takes))
		out.WriteString(hanging("      ", k.Means))
	}
	out.WriteString("\nFaults\n" + hanging("  Each takes any of: ", strings.Join(sandbox.FaultFields(), ", ")) + "\n")
	for _, kind := range sandbox.FaultKinds() {
		out.WriteString(hanging(fmt.Sprintf("  %-14s ", kind), kind.Means()))
	}
	kinds := connector.Map(catcher.FaultKinds(), func(kind catcher.FaultKind) string { return string(kind) })
	out.WriteString("\nFaults of mail\n" + hanging("  Kinds: ", strings.Join(kinds, ", ")) +
		hanging("  Each takes any of: ", "recipient, skip, every, count, code, delay"))
	out.WriteString(`
Views, which last: missing=0.5 (that share of customers is in no list),
lostPages=0.1, noKeys (lists without externalData), listLag=30s, readLag=30s.

A CSV for --from has the headings name, email, phone, line1, line2, city, postcode,
country, mandate (CREATED, PENDING, ACTIVE or CANCELLED), and externalData.NAME or key
for the content of externalData. It loads rows as they are: twice, or without a key.
`)
	return strings.TrimSuffix(out.String(), "\n")
}

// hanging is text behind first, in fitting lines; the later ones are indented.
func hanging(first, text string) string {
	var out strings.Builder
	line := first
	blank := true
	for _, w := range strings.Fields(text) {
		if !blank && len(line)+len(w)+1 > helpWidth {
			out.WriteString(strings.TrimRight(line, " ") + "\n")
			line, blank = "        ", true
		}
		if !blank {
			line += " "
		}
		line, blank = line+w, false
	}
	return out.String() + strings.TrimRight(line, " ") + "\n"
}
