package letters

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"payersync/connector"
)

// The reasons why a signing link is not mailed. Neither tells a link; the second is wrapped with the link's host.
var (
	ErrLink     = errors.New("the signing link is no https address that people can be given")
	ErrLinkHost = errors.New("that host is not in letters.link_hosts")
)

// longestLink is the largest number of bytes of a signing link.
const longestLink = 2000

var (
	linkChars = regexp.MustCompile(`^[A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]+$`)
	hostChars = regexp.MustCompile(`^[A-Za-z0-9.:\[\]-]{1,255}$`)
)

// CheckLink reports why a signing link cannot be given to a person. It fails with ErrLink, or with ErrLinkHost for a
// host that is none of hosts. Plain http is for this machine only.
func CheckLink(raw string, hosts []string) error {
	u, err := url.Parse(raw)
	if err != nil || len(raw) > longestLink || !linkChars.MatchString(raw) || u.Hostname() == "" || u.User != nil {
		return ErrLink
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !connector.IsLoopback(u.Hostname())) {
		return ErrLink
	}
	if !slices.ContainsFunc(hosts,
		func(h string) bool { return strings.EqualFold(h, u.Hostname()) || strings.EqualFold(h, u.Host) }) {
		host := u.Hostname()
		if !hostChars.MatchString(host) {
			host = "another host"
		}
		return fmt.Errorf("the signing link leads to %s: %w", host, ErrLinkHost)
	}
	return nil
}

// linksLooked is the number of links of a connection that a look checks: the configuration is wrong for all of them, or
// for none.
const linksLooked = 3

// holdLinks holds the letters of a connection when the signing links of its first letters lead to hosts that the
// configuration does not name.
func (d *Desk) holdLinks(ctx context.Context, p *Plan) error {
	type looked struct {
		links   int
		refused error
	}
	of := map[string]*looked{}
	for _, x := range p.Next {
		l := of[x.Connection]
		if l == nil {
			l = &looked{}
			of[x.Connection] = l
		}
		if x.What != Due && x.What != Waits || l.links == linksLooked || l.links > 0 && l.refused == nil {
			continue
		}
		link, err := d.Ledger.SigningLink(ctx, x.MandateID)
		if err != nil {
			return err
		}
		if link == "" {
			continue
		}
		l.links++
		if l.refused = CheckLink(link, d.Settings.LinkHosts); !errors.Is(l.refused, ErrLinkHost) {
			l.refused = nil
		}
	}
	for connection, l := range of {
		if l.refused != nil {
			p.Holds = append(p.Holds,
				Hold{Code: HoldLinks, Connection: connection, Text: "Of the letters looked at, " + l.refused.Error() +
					". Add the host if it is the billing service's."})
		}
	}
	slices.SortStableFunc(p.Holds, func(a, b Hold) int { return strings.Compare(a.Connection, b.Connection) })
	return nil
}
