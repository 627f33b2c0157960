package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/connector"
	"payersync/connector/letters"
)

// checkLetters checks the sender of letters, and whether receivers would accept payersync's mail.
func (a *app) checkLetters(ctx context.Context, cfg *config.Config) []finding {
	l := cfg.Letters
	switch letters.Sender(l.Sender) {
	case letters.SenderService:
		return []finding{tell("letters", "the billing service writes to payers; payersync sends them nothing", nil)}
	case letters.SenderPayersync:
	default:
		return []finding{tell("letters",
			"payersync sends no letters; payersync mandates handover lists the unsigned payers, with their signing links", nil)}
	}
	settings, err := cfg.LetterSettings("")
	if err != nil {
		return []finding{tell("letters", "", err)}
	}
	out := []finding{tell("letters",
		fmt.Sprintf("payersync writes to payers as %s, in %s", settings.Address, strings.Join(l.Languages, ", ")), nil)}
	if !l.ServiceChasingOff {
		out = append(out, warning("letters chasing",
			"nobody has confirmed that the billing service sends no letters of its own, so payers may get two",
			"switch its e-mails and reminders off for these customers, and then set letters.service_chasing_off: true"))
	}
	if settings.Test {
		found := warning("letters test_to", "the billing service is a test service, so payers get nothing",
			"name in letters.test_to who gets their letters")
		if settings.TestTo != "" {
			found = tell("letters test_to",
				"the billing service is a test service, so letters.test_to gets all letters, and payers nothing", nil)
		}
		out = append(out, found)
	}
	if err := mayMakeIn(filepath.Dir(settings.Journal)); err != nil {
		found := tell("letters journal", "",
			fmt.Errorf("the journal of letters cannot be written in %s: %w", filepath.Dir(settings.Journal), err))
		found.Next = "give the folder to the user of payersync, or name another place in letters.journal"
		out = append(out, found)
	}
	if settings.Test && settings.TestTo != "" && connector.IsLoopback(l.SMTP.Host) {
		return out // a mail server on this machine does not ask whose domain it is
	}
	_, domain, _ := strings.Cut(settings.Address, "@")
	return append(out, a.checkDomain(ctx, domain, l.DKIMSelector, settings.ReplyTo)...)
}

// checkLetterFolder reports whether this node has the journal of letters that other nodes write. Nodes without a shared
// folder send no letters.
func (a *app) checkLetterFolder(ctx context.Context, s *session.Session) []finding {
	if s.Config.Node == nil || letters.Sender(s.Config.Letters.Sender) != letters.SenderPayersync {
		return nil
	}
	const check = "letters folder"
	desk, err := deskOf(s)
	if err != nil {
		return nil // checkLetters says so
	}
	folder := filepath.Dir(desk.Settings.Journal)
	node, err := desk.CheckFolder(ctx)
	var unshared *letters.NotSharedError
	if errors.As(err, &unshared) {
		found := tell(check, "", fmt.Errorf("the folder %s is not the one that node %s writes the journal of letters in, so this node sends no letters", folder, unshared.Other))
		found.Next = "mount the folder that the nodes share at " + folder + " on this node too, and check again"
		return []finding{found}
	}
	if err != nil {
		return []finding{tell(check, "", err)}
	}
	nodes, err := nodesOf(ctx, a.node.server)
	switch {
	case err != nil:
		return []finding{tell(check, "", err)}
	case node != "" && node != desk.Settings.Node:
		return []finding{tell(check, fmt.Sprintf("the folder %s shows what node %s wrote there", folder, node), nil)}
	case len(nodes) < 2:
		return nil
	case node == "":
		return []finding{warning(check,
			fmt.Sprintf("%d nodes are listed, and none has looked for letters yet, so nobody knows whether they share %s",
				len(nodes), folder),
			"mount one folder there on all nodes, start them, and check again on each")}
	}
	return []finding{tell(check,
		fmt.Sprintf("this node wrote in %s last; payersync check on another node says whether it has the same folder",
			folder), nil)}
}

func warning(check, detail, next string) finding {
	return finding{Check: check, OK: true, Warning: true, Detail: detail, Next: next}
}

// namePatience limits the wait for the DNS.
const namePatience = 10 * time.Second

// checkDomain checks for a published list of the mail servers of the sender's domain: mail without one is
// often taken for spam.
func (a *app) checkDomain(ctx context.Context, domain, selector, reports string) []finding {
	ctx, done := context.WithTimeout(ctx, namePatience)
	defer done()
	texts := a.texts
	if texts == nil {
		texts = net.DefaultResolver.LookupTXT
	}
	d := domainCheck{ctx: ctx, texts: texts, domain: domain}
	return []finding{d.spf(), d.dkim(selector), d.dmarc(reports)}
}

// domainCheck queries a domain's published mail records.
type domainCheck struct {
	ctx    context.Context
	texts  func(context.Context, string) ([]string, error)
	domain string
}

// published returns the records of a name that begin with a word; none is no error.
func (d domainCheck) published(name, begin string) (found []string, err error) {
	all, err := d.texts(d.ctx, name)
	var none *net.DNSError
	if errors.As(err, &none) && none.IsNotFound {
		return nil, nil
	}
	for _, text := range all {
		if fields := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ';' || r == '\t' }); begin == "" ||
			len(fields) > 0 && strings.EqualFold(fields[0], begin) {
			found = append(found, strings.TrimSpace(text))
		}
	}
	return found, err
}

// unasked is the finding without an answer of the DNS.
func unasked(check, name string, err error) finding {
	why := "it gave no answer"
	var failed *net.DNSError
	if errors.As(err, &failed) && !failed.IsTimeout {
		why = failed.Err
	}
	return warning(check, fmt.Sprintf("the DNS could not be asked for %s: %s", name, why),
		"run payersync check again with access to the internet")
}

// spf checks for the servers allowed to send mail for a domain.
func (d domainCheck) spf() finding {
	const check = "letters SPF"
	found, err := d.published(d.domain, "v=spf1")
	switch {
	case err != nil:
		return unasked(check, d.domain, err)
	case len(found) == 0:
		return warning(check, d.domain+" does not name the servers that may send its mail",
			"publish a TXT record at "+d.domain+" such as v=spf1 include:YOUR-MAIL-PROVIDER -all; your provider names what to include")
	case len(found) > 1:
		return warning(check, fmt.Sprintf("%s has %d SPF records, and receivers then go by none", d.domain, len(found)),
			"make one record of them, with one v=spf1 and all that they include")
	case strings.Contains(found[0]+" ", " +all ") || strings.Contains(found[0]+" ", " all "):
		return warning(check, d.domain+" lets every server in the world send its mail",
			"end the record with -all in place of all")
	}
	return tell(check, d.domain+" names the servers that may send its mail", nil)
}

// dkim checks for the signing key of the domain's mail.
func (d domainCheck) dkim(selector string) finding {
	const check = "letters DKIM"
	if selector == "" {
		return warning(check, "the selector of your mail server's DKIM key is not configured, so payersync did not check it",
			"name it in letters.dkim_selector; your mail provider shows it")
	}
	name := selector + "._domainkey." + d.domain
	found, err := d.published(name, "")
	if err != nil {
		return unasked(check, name, err)
	}
	revoked := false
	for _, text := range found {
		for tag := range strings.SplitSeq(text, ";") {
			key, value, _ := strings.Cut(tag, "=")
			if strings.TrimSpace(key) != "p" {
				continue
			}
			if strings.TrimSpace(value) != "" {
				return tell(check, "the key of "+name+" is published", nil)
			}
			revoked = true
		}
	}
	if revoked {
		return warning(check, "the key at "+name+" was taken back",
			"name the present selector of your mail server in letters.dkim_selector")
	}
	return warning(check, "there is no key at "+name,
		"publish the TXT record of your mail provider for it, v=DKIM1; p=…, or correct letters.dkim_selector")
}

// dmarc checks for the treatment of unsigned mail from other servers. A parent domain may publish it for the
// domains below.
func (d domainCheck) dmarc(reports string) finding {
	const check = "letters DMARC"
	for name := d.domain; strings.Contains(name, "."); _, name, _ = strings.Cut(name, ".") {
		found, err := d.published("_dmarc."+name, "v=DMARC1")
		switch {
		case err != nil:
			return unasked(check, "_dmarc."+name, err)
		case len(found) > 1:
			return warning(check, fmt.Sprintf("_dmarc.%s has %s, and receivers then go by none", name,
				connector.Plural(len(found), "record")), "remove all but one")
		case len(found) == 1:
			policies := []string{"none", "quarantine", "reject"}
			for tag := range strings.SplitSeq(found[0], ";") {
				if key, value, _ := strings.Cut(tag, "="); strings.TrimSpace(key) == "p" &&
					slices.Contains(policies, strings.TrimSpace(value)) {
					return tell(check, fmt.Sprintf("_dmarc.%s says what becomes of mail that is not yours: %s", name,
						strings.TrimSpace(value)), nil)
				}
			}
			return warning(check, "the record at _dmarc."+name+" has no policy known to receivers",
				"publish v=DMARC1; p=none, and later p=quarantine")
		}
	}
	return warning(check, d.domain+" has no policy for forged mail in its name",
		fmt.Sprintf("publish a TXT record at _dmarc.%s: v=DMARC1; p=none; rua=mailto:%s", d.domain,
			cmp.Or(reports, "postmaster@"+d.domain)))
}
