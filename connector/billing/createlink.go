package billing

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"payersync/connector"
)

// withCreateLink adds the signing link to the customer in a create's answer, if the dialect names the link's place. An
// address alone does not count: without a mandate with an id, waiting for a signature, the link is requested as usual.
func (c *Client) withCreateLink(made connector.RemoteCustomer) connector.RemoteCustomer {
	m := made.Mandate
	if c.dialect.CreateLink == "" || m == nil || m.ID == "" || m.Status != connector.MandateCreated || m.URL != "" {
		return made
	}
	o, err := parseObject(made.Raw)
	if err != nil {
		return made
	}
	if link := o.at(c.dialect.CreateLink); c.isSigningLink(link) {
		with := *m
		with.URL = link
		made.Mandate = &with
	}
	return made
}

// isSigningLink reports whether payers may be sent to a link: an https address, or http on this machine for the
// sandbox, other than the redirect page.
func (c *Client) isSigningLink(link string) bool {
	u, err := url.Parse(link)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" &&
		!(u.Scheme == "http" && connector.IsLoopback(u.Hostname())) {
		return false
	}
	back, err := url.Parse(c.redirect)
	return err != nil || !strings.EqualFold(u.Host, back.Host) || strings.Trim(u.Path, "/") != strings.Trim(back.Path, "/")
}

// validateCreateLink refuses a path unfit for a mandate's link.
func (d Dialect) validateCreateLink() error {
	const setting = "dialect.create_link"
	path := strings.Split(d.CreateLink, ".")
	switch {
	case d.CreateLink == "":
		return nil
	case !isPath(d.CreateLink):
		return fmt.Errorf("%s: %q is no path; give names of members with dots between them, for example url", setting,
			d.CreateLink)
	case path[len(path)-1] == "redirectUrl":
		return errors.New(setting +
			": redirectUrl is where payers come back to; give the member with the address at which they sign")
	case slices.Contains([]string{"id", ownName, ownPeople, ownAddresses, "externalData", "timezone"}, path[0]):
		return fmt.Errorf("%s: %q holds something else; give where the service puts the direct debit URL", setting, path[0])
	}
	return nil
}

// isPath reports whether a text is names of members with dots between them.
func isPath(path string) bool {
	return !strings.ContainsAny(path, " \t\"'") && !slices.Contains(strings.Split(path, "."), "")
}
