package billing

import (
	"fmt"
	"slices"
	"strings"
)

// Certainty is the certainty of a probe's finding.
type Certainty string

// The certainties of a finding.
const (
	Proven  Certainty = "proven"  // an answer shows it
	Likely  Certainty = "likely"  // answers look like it, and requests may still be spelt otherwise
	Unknown Certainty = "unknown" // Finding.How names a way to find out
)

// Finding is a probe's result for one open point.
type Finding struct {
	Setting    string    `json:"setting"`    // below billing, for example dialect.update
	Configured string    `json:"configured"` // its value
	Found      string    `json:"found"`      // the value that fits the service; "" when it is not known
	Certainty  Certainty `json:"certainty"`
	How        string    `json:"how"`
}

// Differs reports whether the service differs from the configuration. The value unknown never differs.
func (f Finding) Differs() bool {
	return f.Found != "" && f.Found != f.Configured && f.Configured != "unknown"
}

// point is an open point of the dialect with a text value.
type point struct {
	name   string
	at     func(*Dialect) *string
	values []string // nil for any text; a trial tries them in this order
}

// points are the settings below dialect; Validate takes the values from here.
var points = []point{
	{"token_auth", func(d *Dialect) *string { return &d.TokenAuth }, []string{"form", "basic"}},
	{"api_auth", func(d *Dialect) *string { return &d.APIAuth },
		[]string{"client_credentials", "authorization_code", "static"}},
	{"list.envelope", func(d *Dialect) *string { return &d.List.Envelope }, nil},
	{"list.size_param", func(d *Dialect) *string { return &d.List.SizeParam }, nil},
	{"list.page_param", func(d *Dialect) *string { return &d.List.PageParam }, nil},
	{"list.first_page", func(d *Dialect) *string { return &d.List.FirstPage }, []string{"auto", "0", "1"}},
	{"person_fields", func(d *Dialect) *string { return &d.PersonFields }, []string{"short", "long"}},
	{"address_fields", func(d *Dialect) *string { return &d.AddressFields }, []string{"short", "long"}},
	{"external_data", func(d *Dialect) *string { return &d.ExternalData }, []string{"map", "list", "object"}},
	{"update", func(d *Dialect) *string { return &d.Update }, []string{"body_id", "path_id"}},
	{"mandate_link", func(d *Dialect) *string { return &d.MandateLink }, []string{"auto", "put", "get"}},
	{"link_when_created", func(d *Dialect) *string { return &d.LinkWhenCreated }, []string{"unknown", "same", "new"}},
	{"cancel", func(d *Dialect) *string { return &d.Cancel }, []string{"colon", "slash", "query", "body"}},
	{"reinstate", func(d *Dialect) *string { return &d.Reinstate }, []string{"none", "colon", "slash", "query", "body"}},
	{"webhook_setup", func(d *Dialect) *string { return &d.WebhookSetup }, []string{"subscribe", "digest_auth_subscribe"}},
	{"webhook_read", func(d *Dialect) *string { return &d.WebhookRead }, []string{"auto", "none"}},
}

// meaning is one answer's meaning for a setting.
type meaning struct {
	request   string // "" where no probe sends one
	setting   string // below dialect; settingEvents is below billing
	answer    string
	found     string // asConfigured, asShown, or "" for not known
	certainty Certainty
	how       string // a format for the answer's value
}

const (
	asConfigured = "configured" // the value of the configuration fits
	asShown      = "shown"      // the answer's value fits

	settingEvents = "webhook.events" // the subscribed types; no part of the dialect
	unprobed      = "unprobed"       // the answer of a setting without a request

	postToken   = "POST to billing.auth_url"
	getList     = "GET /customers"
	getPages    = "GET /customers with a page and a size"
	getLink     = "GET …/directdebitmandates of a customer whose mandate is signed or active"
	getWebhooks = "GET /apps/{client_id}/webhooks"
	putCustomer = "PUT of a scratch customer by itself"
	putLink     = "PUT or GET …/directdebitmandates of a scratch customer"
	putCancel   = "PUT that cancels a mandate of a scratch customer"

	byWriting    = "the same probe with --allow-writes CUSTOMER finds out"
	notRead      = "reading does not show it; " + byWriting
	fewCustomers = "the service lists fewer than two customers; with more of them it shows"
	absentEvents = "subscriptions of the app carry %[2]s, and none carries %[3]s in any spelling: compare it with the events that the provider documents"
	notParameter = "what a parameter brings is seen by nobody who does not know it"
	notMember    = "what a member of a contact means is not to be seen"
)

// meanings is the table of probes. For a setting without a request it gives the reason.
var meanings = []meaning{
	{postToken, "token_auth", "token", asConfigured, Proven, "the token endpoint gave a token"},
	{postToken, "token_auth", "other", asShown, Proven,
		"the token endpoint refused the credentials the one way and gave a token the other way"},
	{postToken, "token_auth", "refused", "", Unknown,
		"the token endpoint takes the credentials neither in the form nor in the header: check them first"},
	{getList, "api_auth", "customers", asConfigured, Proven, "customers were shown with its token"},
	{getList, "api_auth", "refused", asShown, Likely,
		"the token endpoint gave a token, and customers are refused with it: they want a token of another kind, or of somebody with more rights"},
	{getList, "list.envelope", "no list", "", Unknown,
		"the answer holds no list of customers: compare billing.base_url with what the service documents"},
	{getList, "list.envelope", "usual", asConfigured, Proven, "the list is found by itself (%s)"},
	{getList, "list.envelope", "list", asShown, Proven, "that is where the list stands"},
	{getPages, "list.size_param", "few", "", Unknown, fewCustomers},
	{getPages, "list.size_param", "none", "", Unknown,
		"no name that was tried makes pages smaller; the service may have none, or a least size"},
	{getPages, "list.size_param", "one", asShown, Proven, "with %s=1 a page has one customer"},
	{getPages, "list.page_param", "few", "", Unknown, fewCustomers},
	{getPages, "list.page_param", "none", asShown, Likely,
		"neither %[2]s nor another name that was tried leads to another page"},
	{getPages, "list.page_param", "one", asShown, Proven, "another %s leads to another page"},
	{getPages, "list.first_page", "few", "", Unknown, fewCustomers},
	{getPages, "list.first_page", "none", "", Unknown, "it shows when the name of the page is right"},
	{getPages, "list.first_page", "pages", asShown, Proven, "pages %[2]s=0 and %[2]s=1 show that pages begin at %[3]s"},
	{getList, "person_fields", "none", "", Unknown, "no customer of the first page has %s"},
	{getList, "person_fields", "both", "", Unknown, "listed customers have %s in both spellings"},
	{getList, "person_fields", "one", asShown, Likely, "listed customers have %[2]s with %[3]s"},
	{getList, "address_fields", "none", "", Unknown, "no customer of the first page has %s"},
	{getList, "address_fields", "both", "", Unknown, "listed customers have %s in both spellings"},
	{getList, "address_fields", "one", asShown, Likely, "listed customers have %[2]s with %[3]s"},
	{getList, "external_data", "none", "", Unknown, "no customer of the first page has any"},
	{getList, "external_data", "one", asShown, Likely, "listed customers have it in this shape"},
	{getList, "read_only", "no times", asConfigured, Likely, "no listed customer has another time of the service's"},
	{getList, "read_only", "times", asShown, Likely, "the service writes these times itself"},
	{putCustomer, "read_only", "moved", asShown, Proven, "what else moved with the update is the service's own"},
	{putCustomer, "update", "unread", "", Unknown, notRead},
	{putCustomer, "update", "none", "", Unknown, "the service refuses the customer as it showed it itself, in both ways"},
	{putCustomer, "update", "one", asShown, Proven, "the customer was replaced by itself in this way"},
	{getLink, "mandate_link", "unsigned", "", Unknown,
		"no listed customer has a mandate that is signed or active, and with any other a request might make one; " +
			byWriting},
	{getLink, "mandate_link", "refused", asShown, Likely,
		"GET is refused (HTTP %[2]d), so PUT has to make the signing link"},
	{getLink, "mandate_link", "error", "", Unknown, "%v; " + byWriting},
	{getLink, "mandate_link", "list", asShown, Likely, "GET lists mandates, so PUT has to make the signing link"},
	{getLink, "mandate_link", "mandate", "", Unknown,
		"GET gives the mandate; whether PUT does is not to be seen by reading; " + byWriting},
	{getLink, "mandate_link", "untried", "", Unknown, "GET gives the mandate, and PUT was not tried; " + byWriting},
	{putLink, "mandate_link", "one", asShown, Proven, "%[2]s made a signing link"},
	{putLink, "mandate_link", "none", "", Unknown, "neither PUT nor GET made a signing link"},
	{putLink, "link_when_created", "unread", "", Unknown, notRead},
	{putLink, "link_when_created", "refused", "", Unknown, "a second request was refused (HTTP %d)"},
	{putLink, "link_when_created", "same", asShown, Proven, "a second request gave the same mandate"},
	{putLink, "link_when_created", "new", asShown, Proven, "a second request gave another mandate"},
	{putCancel, "cancel", "unread", "", Unknown, notRead},
	{putCancel, "cancel", "no mandate", "", Unknown, "there was no mandate to cancel"},
	{putCancel, "cancel", "unsure", "", Unknown, "what became of a cancellation is not known"},
	{putCancel, "cancel", "refused", "", Unknown, "the service takes a cancellation in none of the ways that are known"},
	{putCancel, "cancel", "done", asShown, Proven, "a mandate was cancelled in this way"},
	{"", "reinstate", unprobed, "", Unknown, "a mandate would have to be brought back; reinstating one names it"},
	{"", "webhook_setup", unprobed, "", Unknown, "webhooks would have to be subscribed to; subscribing names it"},
	{getWebhooks, "webhook_read", "not asked", "", Unknown, "none means that it is not asked"},
	{getWebhooks, "webhook_read", "no secret", "", Unknown,
		"it takes the app's own client_id and client_secret, which the configuration lacks"},
	{getWebhooks, "webhook_read", "not shown", asConfigured, Proven,
		"the service does not show subscriptions: nobody can be told when ours is gone"},
	{getWebhooks, "webhook_read", "error", "", Unknown, "%v"},
	{getWebhooks, "webhook_read", "subscriptions", asConfigured, Proven, "the service shows its subscriptions"},
	{getWebhooks, settingEvents, "not asked", "", Unknown,
		"subscriptions are not asked for (dialect.webhook_read is none)"},
	{getWebhooks, settingEvents, "no secret", "", Unknown,
		"subscriptions show it, and reading them takes the app's own client_id and client_secret"},
	{getWebhooks, settingEvents, "not shown", "", Unknown,
		"the service does not show subscriptions; compare the names with the events that the provider documents"},
	{getWebhooks, settingEvents, "error", "", Unknown, "the subscriptions, which show it, could not be read"},
	{getWebhooks, settingEvents, "none", "", Unknown,
		"no subscription is shown that carries events; subscribe to webhooks, and a probe after that compares their names"},
	{getWebhooks, settingEvents, "same", asConfigured, Likely, "subscriptions of the app carry the events by these names"},
	{getWebhooks, settingEvents, "otherwise", asShown, Likely,
		"subscriptions of the app carry %[2]s, and %[3]s in another spelling"},
	{getWebhooks, settingEvents, "absent", "", Unknown, absentEvents},
	{getWebhooks, settingEvents, "both", asShown, Likely, absentEvents},
	{"", "list.size", unprobed, "", Unknown, "a page that is capped is read on to the end, whatever the size"},
	{"", "financial_status", unprobed, "", Unknown, "what a member of an answer means is not to be seen"},
	{"", "financial_query", unprobed, "", Unknown, notParameter},
	{"", "list.financial_query", unprobed, "", Unknown, notParameter},
	{"", "create_link", unprobed, "", Unknown, "a customer would have to be created"},
	{"", "person_primary", unprobed, "", Unknown, notMember},
	{"", "person_communication", unprobed, "", Unknown, notMember},
}

// pointOf returns the point with this name; ok is false for lists and numbers.
func pointOf(name string) (p point, ok bool) {
	i := slices.IndexFunc(points, func(p point) bool { return p.name == name })
	if i < 0 {
		return point{}, false
	}
	return points[i], true
}

// ways returns the values of a point, the configured one first.
func (c *Client) ways(name string) []string {
	p, _ := pointOf(name)
	return startingWith(*p.at(&c.dialect), p.values)
}

func startingWith(first string, values []string) []string {
	return append([]string{first}, slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == first })...)
}

// variant returns the client with another value of a point.
func (c *Client) variant(name, value string) (*Client, error) {
	cfg := c.config
	p, _ := pointOf(name)
	*p.at(&cfg.Dialect) = value
	return New(cfg)
}

// finding returns the meaning of an answer for a setting. If the value comes from the answer, it is the first of seen;
// "one" with a blank value is "none".
func (c *Client) finding(setting, answer string, seen ...any) Finding {
	if answer == "one" && seen[0] == "" {
		answer = "none"
	}
	m := meanings[slices.IndexFunc(meanings, func(m meaning) bool { return m.setting == setting && m.answer == answer })]
	f := Finding{Setting: "dialect." + setting, Configured: strings.Join(c.dialect.ReadOnly, ", "), Certainty: m.certainty,
		How: m.how}
	if p, ok := pointOf(setting); ok {
		f.Configured = *p.at(&c.dialect)
	} else if setting == settingEvents {
		f.Setting, f.Configured = setting, strings.Join(c.config.Events, ", ")
	}
	switch m.found {
	case asConfigured:
		f.Found = f.Configured
	case asShown:
		f.Found = fmt.Sprint(seen[0])
	}
	if strings.Contains(m.how, "%") {
		f.How = fmt.Sprintf(m.how, seen...)
	}
	return f
}
