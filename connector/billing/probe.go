package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"payersync/connector"
)

// Certainty says how sure a probe is of what it found.
type Certainty string

// The certainties of a finding.
const (
	Proven  Certainty = "proven"  // an answer shows it
	Likely  Certainty = "likely"  // answers look like it, and requests may still be spelt otherwise
	Unknown Certainty = "unknown" // Finding.How says what would tell
)

// Finding is what a probe found out about one open point.
type Finding struct {
	Setting    string    `json:"setting"`    // below billing, for example dialect.update
	Configured string    `json:"configured"` // its value
	Found      string    `json:"found"`      // the value that fits the service; "" when it is not known
	Certainty  Certainty `json:"certainty"`
	How        string    `json:"how"`
}

// Differs reports whether the service is not as the configuration says, which unknown does not.
func (f Finding) Differs() bool {
	return f.Found != "" && f.Found != f.Configured && f.Configured != "unknown"
}

// ProbesMost is how many requests a probe makes at most, without those for tokens.
const ProbesMost = 60

// unprobed are the settings of a dialect that no probe finds out, and why.
var unprobed = map[string]string{
	"list.size":            "a page that is capped is read on to the end, whatever the size",
	"webhook_setup":        "webhooks would have to be subscribed to; payersync webhooks subscribe names it",
	"reinstate":            "a mandate would have to be brought back; payersync mandates reinstate names it",
	"financial_status":     "what a member of an answer means is not to be seen",
	"financial_query":      "what a parameter brings is seen by nobody who does not know it",
	"list.financial_query": "what a parameter brings is seen by nobody who does not know it",
	"create_link":          "a customer would have to be created",
	"person_primary":       "what a member of a contact means is not to be seen",
	"person_communication": "what a member of a contact means is not to be seen",
}

// prober collects what answers say. It asks the service with variants of the client, which
// differ in the dialect alone.
type prober struct {
	client *Client
	found  []Finding
	asked  int
	sample []object // customers as the list shows them
	token  *Client  // whose tokens are taken
}

func (p *prober) note(setting, configured, found string, c Certainty, how string, args ...any) {
	p.found = append(p.found, Finding{"dialect." + setting, configured, found, c, fmt.Sprintf(how, args...)})
}

// variant returns the client with another dialect. Its settings were valid, so it is too.
func (c *Client) variant(change func(*Dialect)) (*Client, error) {
	cfg := c.config
	change(&cfg.Dialect)
	return New(cfg)
}

// errProbes means that a probe has made all the requests that it may.
var errProbes = fmt.Errorf("the probe has made its %d requests", ProbesMost)

// ask reads what the interface says nothing of the shape of.
func (p *prober) ask(ctx context.Context, path string, query url.Values) ([]byte, error) {
	if p.asked++; p.asked > ProbesMost {
		return nil, errProbes
	}
	r := p.token.read("probe the billing service", path, query)
	r.ofNobody = !strings.Contains(path, "/customers/")
	return p.token.send(ctx, r)
}

// ProbeList finds out what can be seen of the dialect from the list of customers, by GET of
// customers and nothing else. An error means that the service could not be read at all; what
// was found until then comes with it.
func (c *Client) ProbeList(ctx context.Context) ([]Finding, error) {
	p := &prober{client: c, token: c}
	err := p.read(ctx, p.pages, p.spellings, p.keysInLists)
	return p.found, err
}

// Probe is ProbeList and what else reading shows. It sends GET and nothing else. The mandates
// of a customer are asked for only where the one that is read just before is signed or
// active, when a GET makes none whatever the service takes it for.
func (c *Client) Probe(ctx context.Context) ([]Finding, error) {
	p := &prober{client: c, token: c}
	err := p.read(ctx, p.pages, p.spellings, p.keysInLists, p.linkMethod, p.subscription)
	return p.found, err
}

func (p *prober) read(ctx context.Context, steps ...func(context.Context) error) error {
	body, err := p.enter(ctx)
	if err != nil {
		return err
	}
	whole, err := p.envelope(body)
	if err != nil {
		return err
	}
	p.sample = whole
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	p.unknown()
	return nil
}

// enter asks for the list as it comes without parameters, and settles by that how the token
// endpoint and the list want to be asked.
func (p *prober) enter(ctx context.Context) ([]byte, error) {
	d := p.client.dialect
	body, err := p.ask(ctx, "/customers", nil)
	switch {
	case err == nil:
		if d.APIAuth == "client_credentials" {
			p.note("token_auth", d.TokenAuth, d.TokenAuth, Proven, "the token endpoint gave a token")
		}
		p.note("api_auth", d.APIAuth, d.APIAuth, Proven, "customers were shown with its token")
		return body, nil
	case refusedToken(err) && d.APIAuth == "client_credentials":
		return p.otherTokenAuth(ctx, err)
	case connector.FaultOf(err) == connector.FaultUnauthorized && !isA[noToken](err):
		p.note("api_auth", d.APIAuth, otherGrant(d.APIAuth), Likely,
			"the token endpoint gave a token, and customers are refused with it: they want a token of another kind, or of somebody with more rights")
	}
	return nil, err
}

func otherGrant(grant string) string {
	if grant == "client_credentials" {
		return "authorization_code"
	}
	return "client_credentials"
}

// refusedToken reports whether the token endpoint itself refused the credentials.
func refusedToken(err error) bool {
	return connector.FaultOf(err) == connector.FaultUnauthorized && isA[noToken](err)
}

// tokenOtherwise makes the client of the probe show its credentials in the one other way.
func (p *prober) tokenOtherwise() (other string, err error) {
	other = "basic"
	if p.client.dialect.TokenAuth == "basic" {
		other = "form"
	}
	p.token, err = p.client.variant(func(d *Dialect) { d.TokenAuth = other })
	return other, err
}

// judgeTokenAuth notes what became of the other way, and returns the error that stands.
func (p *prober) judgeTokenAuth(other string, first, second error) error {
	d := p.client.dialect
	if refusedToken(second) {
		p.note("token_auth", d.TokenAuth, "", Unknown, "the token endpoint takes the credentials neither in the form nor in the header: check them first")
		return first
	}
	p.note("token_auth", d.TokenAuth, other, Proven, "the token endpoint refused the credentials the one way and gave a token the other way")
	return second
}

// otherTokenAuth tries the other way to show the credentials, once.
func (p *prober) otherTokenAuth(ctx context.Context, refused error) ([]byte, error) {
	other, err := p.tokenOtherwise()
	if err != nil {
		return nil, err
	}
	body, err := p.ask(ctx, "/customers", nil)
	if err := p.judgeTokenAuth(other, refused, err); err != nil {
		return nil, err
	}
	p.note("api_auth", p.client.dialect.APIAuth, p.client.dialect.APIAuth, Proven, "customers were shown with its token")
	return body, nil
}

// envelope finds the list in an answer, and returns its customers.
func (p *prober) envelope(body []byte) ([]object, error) {
	l := p.client.dialect.List
	found, list := "", json.RawMessage(nil)
	if o, err := parseObject(body); err == nil {
		for _, m := range o {
			if len(m.value) > 0 && m.value[0] == '[' && (list == nil || slices.Contains(usualEnvelopes, m.key)) {
				found, list = m.key, m.value
			}
		}
	} else {
		found, list = "array", body
	}
	members, err := customersIn(list)
	switch {
	case err != nil || list == nil:
		p.note("list.envelope", l.Envelope, "", Unknown, "the answer holds no list of customers: compare billing.base_url with what the service documents")
		return nil, errEnvelope
	case l.Envelope == "auto" && (found == "array" || slices.Contains(usualEnvelopes, found)):
		p.note("list.envelope", l.Envelope, "auto", Proven, "the list is found by itself (%s)", found)
	default:
		p.note("list.envelope", l.Envelope, found, Proven, "that is where the list stands")
	}
	return members, nil
}

func customersIn(list json.RawMessage) ([]object, error) {
	parts, err := parseArray(list)
	if err != nil {
		return nil, err
	}
	out := make([]object, 0, len(parts))
	for _, part := range parts {
		o, err := parseObject(part)
		if err != nil || o.text("id") == "" {
			return nil, errNoID
		}
		out = append(out, o)
	}
	return out, nil
}

// page asks for a page by these parameters and returns the ids on it; refused says that the
// service has no such page.
func (p *prober) page(ctx context.Context, query url.Values) (ids []string, refused bool, err error) {
	body, err := p.ask(ctx, "/customers", query)
	if fault := connector.FaultOf(err); fault == connector.FaultRejected || fault == connector.FaultNotFound {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	quiet := &prober{client: p.client}
	customers, err := quiet.envelope(body)
	for _, c := range customers {
		ids = append(ids, c.text("id"))
	}
	return ids, false, err
}

// namePairs are the names of the page and of its size that services have been seen to use.
var namePairs = [][2]string{{"Page", "Size"}, {"page", "size"}, {"page", "pageSize"}, {"page", "per_page"}, {"pageNumber", "pageSize"}}

// pages finds out the names of the page and its size, and where pages begin.
func (p *prober) pages(ctx context.Context) error {
	l := p.client.dialect.List
	if len(p.sample) < 2 {
		const how = "the service lists fewer than two customers; with more of them it shows"
		p.note("list.size_param", l.SizeParam, "", Unknown, how)
		p.note("list.page_param", l.PageParam, "", Unknown, how)
		p.note("list.first_page", l.FirstPage, "", Unknown, how)
		return nil
	}
	size, page, err := p.pageNames(ctx)
	if err != nil {
		return err
	}
	if size == "" {
		p.note("list.size_param", l.SizeParam, "", Unknown, "no name that was tried makes pages smaller; the service may have none, or a least size")
	} else {
		p.note("list.size_param", l.SizeParam, size, Proven, "with %s=1 a page has one customer", size)
	}
	if page == "" {
		p.note("list.page_param", l.PageParam, "another name", Likely, "neither %s nor another name that was tried leads to another page", l.PageParam)
		p.note("list.first_page", l.FirstPage, "", Unknown, "it shows when the name of the page is right")
		return nil
	}
	p.note("list.page_param", l.PageParam, page, Proven, "another %s leads to another page", page)
	return p.firstPage(ctx, page, size)
}

// pageNames looks for names that have an effect, those of the configuration first. Of a service
// that does not know the size the page alone is looked for.
func (p *prober) pageNames(ctx context.Context) (size, page string, err error) {
	l := p.client.dialect.List
	pairs := append([][2]string{{l.PageParam, l.SizeParam}}, namePairs...)
	var tried []string
	for _, pair := range pairs {
		if slices.Contains(tried, pair[1]) {
			continue
		}
		tried = append(tried, pair[1])
		one, _, err := p.page(ctx, url.Values{pair[1]: {"1"}})
		if err != nil {
			return "", "", err
		}
		if len(one) == 1 {
			size = pair[1]
			break
		}
	}
	tried = nil
	for _, pair := range pairs {
		if slices.Contains(tried, pair[0]) {
			continue
		}
		tried = append(tried, pair[0])
		moves, err := p.moves(ctx, pair[0], size)
		if err != nil || moves {
			return size, pair[0], err
		}
	}
	return size, "", nil
}

func numbered(page, number, size string) url.Values {
	query := url.Values{page: {number}}
	if size != "" {
		query.Set(size, "1")
	}
	return query
}

// moves reports whether a parameter leads to other customers. A page 1 that is refused is no
// page, and one that is another when it is read again moves by itself: neither shows anything.
func (p *prober) moves(ctx context.Context, page, size string) (bool, error) {
	first, refused, err := p.page(ctx, numbered(page, "1", size))
	if err != nil || refused {
		return false, err
	}
	second, noSecond, err := p.page(ctx, numbered(page, "2", size))
	if err != nil || !noSecond && slices.Equal(first, second) {
		return false, err
	}
	again, refused, err := p.page(ctx, numbered(page, "1", size))
	return err == nil && !refused && slices.Equal(first, again), err
}

func (p *prober) firstPage(ctx context.Context, page, size string) error {
	configured := p.client.dialect.List.FirstPage
	zero, refused, err := p.page(ctx, numbered(page, "0", size))
	if err != nil {
		return err
	}
	one, _, err := p.page(ctx, numbered(page, "1", size))
	if err != nil {
		return err
	}
	found := "0"
	switch {
	case refused, len(zero) == 0 && len(one) > 0, slices.Equal(zero, one):
		found = "1"
	}
	how := fmt.Sprintf("pages %s=0 and %[1]s=1 show that pages begin at %s", page, found)
	if configured == "auto" {
		found = "auto"
	}
	p.note("list.first_page", configured, found, Proven, "%s", how)
	return nil
}

// spellings looks at how listed customers are written. The interface shows one spelling in
// requests and another in answers, so none of it is proven of requests.
func (p *prober) spellings(context.Context) error {
	d := p.client.dialect
	p.spelling("person_fields", d.PersonFields, "people", []string{"name", "phone"}, []string{"firstName", "lastName", "phoneNo"})
	p.spelling("address_fields", d.AddressFields, "addresses", []string{"line1", "postCode"}, []string{"addressLine1", "postalCode"})
	found := ""
	for _, c := range p.sample {
		if shape := pairShape(c.get("externalData")); shape != "" {
			found = shape
		}
	}
	if found == "" {
		p.note("external_data", d.ExternalData, "", Unknown, "no customer of the first page has any")
	} else {
		p.note("external_data", d.ExternalData, found, Likely, "listed customers have it in this shape")
	}
	p.computed()
	return nil
}

func (p *prober) spelling(setting, configured, list string, short, long []string) {
	shorts, longs := 0, 0
	for _, c := range p.sample {
		for e := range elements(c.get(list)) {
			if slices.ContainsFunc(short, e.has) {
				shorts++
			}
			if slices.ContainsFunc(long, e.has) {
				longs++
			}
		}
	}
	switch {
	case shorts+longs == 0:
		p.note(setting, configured, "", Unknown, "no customer of the first page has %s", list)
	case shorts > 0 && longs > 0:
		p.note(setting, configured, "", Unknown, "listed customers have %s in both spellings", list)
	case longs > 0:
		p.note(setting, configured, "long", Likely, "listed customers have %s with %s", list, strings.Join(long, ", "))
	default:
		p.note(setting, configured, "short", Likely, "listed customers have %s with %s", list, strings.Join(short, ", "))
	}
}

// pairShape returns the value of external_data that writes this shape; "" for none.
func pairShape(raw json.RawMessage) string {
	if o, err := parseObject(raw); err == nil {
		switch {
		case len(o) == 0:
			return ""
		case isConnector(o):
			return "object"
		}
		return "map"
	}
	list, err := parseArray(raw)
	switch {
	case err != nil || len(list) == 0:
		return ""
	case hasConnector(list):
		return "object"
	}
	return "list"
}

// computed looks for members that only the service can know: times.
func (p *prober) computed() {
	readOnly := p.client.dialect.ReadOnly
	missing := slices.Clone(readOnly)
	for _, c := range p.sample {
		for _, m := range c {
			isTime := strings.HasSuffix(m.key, "Time") || strings.HasSuffix(m.key, "At") || strings.HasSuffix(m.key, "_at")
			if _, err := ParseTime(scalar(m.value)); err == nil && isTime && !slices.Contains(missing, m.key) {
				missing = append(missing, m.key)
			}
		}
	}
	configured, found := strings.Join(readOnly, ", "), strings.Join(missing, ", ")
	how := "no listed customer has another time of the service's"
	if found != configured {
		how = "the service writes these times itself"
	}
	p.note("read_only", configured, found, Likely, "%s", how)
}

// ErrNoKeysInLists means that lists leave externalData out, by which a customer of ours is
// known again: nothing may be created on the word of such a list.
var ErrNoKeysInLists = errors.New("the list of customers leaves externalData out, by which customers are known again; ask the provider for a list that holds it")

// keysInLists compares a listed customer with the same customer whole.
func (p *prober) keysInLists(ctx context.Context) error {
	for i, c := range p.sample {
		if pairShape(c.get("externalData")) != "" || i == 3 {
			return nil
		}
		path, err := idPath("probe the billing service", "/customers/", c.text("id"))
		if err != nil {
			return err
		}
		body, err := p.ask(ctx, path, nil)
		if err != nil {
			return err
		}
		if o, err := parseObject(body); err == nil && pairShape(o.get("externalData")) != "" {
			return ErrNoKeysInLists
		}
	}
	return nil
}

// linkMethod asks for the mandates of a customer whose mandate is signed or active: a request
// for a link would give that mandate and make none.
func (p *prober) linkMethod(ctx context.Context) error {
	const setting = "mandate_link"
	configured := p.client.dialect.MandateLink
	path, err := p.signed(ctx)
	if err != nil {
		return err
	}
	if path == "" {
		p.note(setting, configured, "", Unknown, "no listed customer has a mandate that is signed or active, and with any other a request might make one; %s", byWriting)
		return nil
	}
	body, err := p.ask(ctx, path+"/directdebitmandates", nil)
	o, broken := parseObject(body)
	switch {
	case slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, statusOf(err)):
		p.note(setting, configured, notGet(configured), Likely, "GET is refused (HTTP %d), so PUT has to make the link", statusOf(err))
	case err != nil:
		p.note(setting, configured, "", Unknown, "%v; %s", err, byWriting)
	case (broken != nil || o.has("mandates") || o.text("status") == ""):
		p.note(setting, configured, notGet(configured), Likely, "GET lists mandates, so PUT has to make the link")
	case configured == "get" || configured == "auto":
		p.note(setting, configured, "", Unknown, "GET gives the mandate; whether PUT does is not to be seen by reading; %s", byWriting)
	default:
		p.note(setting, configured, "", Unknown, "GET gives the mandate, and PUT was not tried; %s", byWriting)
	}
	return nil
}

// signed returns the path of a customer whose mandate is signed or active by a read of now: what a list
// says may be old, and of a mandate that was cancelled since a GET might make another. It is "" for none.
func (p *prober) signed(ctx context.Context) (string, error) {
	for _, c := range p.sample {
		if !hasSigned(c) {
			continue
		}
		path, err := idPath("probe the billing service", "/customers/", c.text("id"))
		if err != nil {
			return "", err
		}
		body, err := p.ask(ctx, path, nil)
		if err != nil {
			return "", err
		}
		if whole, err := parseObject(body); err == nil && hasSigned(whole) {
			return path, nil
		}
	}
	return "", nil
}

func hasSigned(c object) bool {
	m, err := parseObject(c.get("directDebitMandate"))
	return err == nil && slices.Contains([]string{string(connector.MandatePending), string(connector.MandateActive)}, m.text("status"))
}

// notGet is the setting where GET makes no link: auto tries PUT first.
func notGet(configured string) string {
	if configured == "auto" {
		return configured
	}
	return "put"
}

const byWriting = "payersync check --probe --allow-writes CUSTOMER finds out"

func (p *prober) subscription(ctx context.Context) error {
	const setting = "webhook_read"
	configured := p.client.dialect.WebhookRead
	if configured == "none" {
		p.note(setting, configured, "", Unknown, "none means that it is not asked")
		p.noEvents("subscriptions are not asked for (dialect.webhook_read is none)")
		return nil
	}
	if p.client.config.ClientID == "" || p.client.config.ClientSecret.IsZero() {
		p.note(setting, configured, "", Unknown, "it takes the app's own client_id and client_secret, which the configuration lacks")
		p.noEvents("subscriptions show it, and reading them takes the app's own client_id and client_secret")
		return nil
	}
	p.asked++
	shown, err := p.token.Subscriptions(ctx)
	if own := p.client.dialect.APIAuth != "client_credentials"; own && refusedToken(err) {
		other, failed := p.tokenOtherwise()
		if failed != nil {
			return failed
		}
		var again error
		shown, again = p.token.Subscriptions(ctx)
		err = p.judgeTokenAuth(other, err, again)
	} else if own && (err == nil || errors.Is(err, ErrNotShown)) {
		p.note("token_auth", p.client.dialect.TokenAuth, p.client.dialect.TokenAuth, Proven, "the token endpoint gave a token")
	}
	switch {
	case errors.Is(err, ErrNotShown):
		p.note(setting, configured, configured, Proven, "the service does not show subscriptions: nobody can be told when ours is gone")
		p.noEvents("the service does not show subscriptions; compare the names with the events that the provider documents")
	case err != nil:
		p.note(setting, configured, "", Unknown, "%v", err)
		p.noEvents("the subscriptions, which show it, could not be read")
	default:
		p.note(setting, configured, "auto", Proven, "the service shows its subscriptions")
		p.events(shown)
	}
	return nil
}

// unknown notes what no reading tells.
func (p *prober) unknown() {
	d := p.client.dialect
	for _, s := range [][2]string{{"update", d.Update}, {"cancel", d.Cancel}, {"link_when_created", d.LinkWhenCreated}} {
		p.note(s[0], s[1], "", Unknown, "reading does not show it; %s", byWriting)
	}
	for _, s := range [][2]string{{"webhook_setup", d.WebhookSetup}, {"reinstate", d.Reinstate}} {
		p.note(s[0], s[1], "", Unknown, "%s", unprobed[s[0]])
	}
}

// Unprobed returns the settings of a dialect, by their keys, that no probe finds out, and why.
func Unprobed() map[string]string { return maps.Clone(unprobed) }
