package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"payersync/connector"
)

// ProbesMost is how many requests a probe makes at most, without those for tokens.
const ProbesMost = 60

// prober sends requests and notes the meaning of the answers. It uses variants of the client with different dialects.
// After an error it sends and notes nothing more.
type prober struct {
	client *Client
	found  []Finding
	asked  int
	sample []object // customers as the list shows them
	token  *Client  // the provider of its tokens
	err    error
}

func (p *prober) note(setting, answer string, seen ...any) {
	if p.err == nil && (setting != settingEvents || len(p.client.config.Events) > 0) {
		p.found = append(p.found, p.client.finding(setting, answer, seen...))
	}
}

// errProbes means a probe has reached its limit of requests.
var errProbes = fmt.Errorf("the probe has made its %d requests", ProbesMost)

// get reads what the interface says nothing of the shape of.
func (p *prober) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	if p.err != nil {
		return nil, p.err
	}
	if p.asked++; p.asked > ProbesMost {
		return nil, errProbes
	}
	r := p.token.read("probe the billing service", path, query)
	r.ofNobody = !strings.Contains(path, "/customers/")
	return p.token.send(ctx, r)
}

// ProbeList determines the dialect's settings visible in the list of customers, using only GET of customers. An error
// means the service could not be read; the findings so far come with it.
func (c *Client) ProbeList(ctx context.Context) ([]Finding, error) { return c.probe(ctx) }

// Probe is ProbeList plus all other settings visible by reading. It sends only GET. It requests the mandates of a
// customer only if a read just before shows a signed or active mandate. In this state a GET creates none, under any
// interpretation by the service.
func (c *Client) Probe(ctx context.Context) ([]Finding, error) {
	return c.probe(ctx, (*prober).linkMethod, (*prober).subscription)
}

func (c *Client) probe(ctx context.Context, more ...func(*prober, context.Context)) ([]Finding, error) {
	p := &prober{client: c, token: c}
	steps := []func(*prober, context.Context){(*prober).enter, (*prober).pages, (*prober).spellings, (*prober).keysInLists}
	for _, step := range append(steps, more...) {
		step(p, ctx)
	}
	for _, name := range []string{"update", "cancel", "link_when_created"} {
		p.note(name, "unread")
	}
	p.note("webhook_setup", unprobed)
	p.note("reinstate", unprobed)
	return p.found, p.err
}

// enter requests the list without parameters. From the answer it determines the authentication of the token endpoint
// and the list, and the list's place.
func (p *prober) enter(ctx context.Context) {
	d := p.client.dialect
	body, err := p.get(ctx, "/customers", nil)
	switch app := d.APIAuth == "client_credentials"; {
	case app && refusedToken(err):
		err = p.otherTokenAuth(err, func() (err error) {
			body, err = p.get(ctx, "/customers", nil)
			return err
		})
	case app && err == nil:
		p.note("token_auth", "token")
	case connector.FaultOf(err) == connector.FaultUnauthorized && !isA[noToken](err):
		p.note("api_auth", "refused", p.client.ways("api_auth")[1])
	}
	if p.err = err; err != nil {
		return
	}
	p.note("api_auth", "customers")
	where, customers, err := listIn(body)
	switch usual := where == "array" || slices.Contains(usualEnvelopes, where); {
	case err != nil:
		p.note("list.envelope", "no list")
	case d.List.Envelope == "auto" && usual:
		p.note("list.envelope", "usual", where)
	default:
		p.note("list.envelope", "list", where)
	}
	p.sample, p.err = customers, err
}

// refusedToken reports whether the token endpoint itself refused the credentials.
func refusedToken(err error) bool {
	return connector.FaultOf(err) == connector.FaultUnauthorized && isA[noToken](err)
}

// otherTokenAuth sends the credentials in the other format, tries again, and returns the final error.
func (p *prober) otherTokenAuth(refused error, again func() error) (err error) {
	other := p.client.ways("token_auth")[1]
	if p.token, err = p.client.variant("token_auth", other); err != nil {
		return err
	}
	if err = again(); refusedToken(err) {
		p.note("token_auth", "refused")
		return refused
	}
	p.note("token_auth", "other", other)
	return err
}

// listIn finds the list in an answer, and returns its member and its customers.
func listIn(body []byte) (where string, customers []object, err error) {
	where, list := "array", json.RawMessage(body)
	if o, err := parseObject(body); err == nil {
		list = nil
		for _, m := range o {
			if len(m.value) > 0 && m.value[0] == '[' && (list == nil || slices.Contains(usualEnvelopes, m.key)) {
				where, list = m.key, m.value
			}
		}
	}
	parts, err := parseArray(list)
	if err != nil || list == nil {
		return "", nil, errEnvelope
	}
	for _, part := range parts {
		o, err := parseObject(part)
		if err != nil || o.text("id") == "" {
			return "", nil, errEnvelope
		}
		customers = append(customers, o)
	}
	return where, customers, nil
}

// page requests a page with these parameters and returns its ids; refused means the service has no such page.
func (p *prober) page(ctx context.Context, query url.Values) (ids []string, refused bool) {
	body, err := p.get(ctx, "/customers", query)
	if fault := connector.FaultOf(err); fault == connector.FaultRejected || fault == connector.FaultNotFound {
		return nil, true
	}
	var customers []object
	if err == nil {
		_, customers, err = listIn(body)
	}
	ids = append(ids, connector.Map(customers, func(c object) string { return c.text("id") })...)
	p.err = err
	return ids, false
}

// The known names of the page and size parameters.
var (
	pageNames = []string{"Page", "page", "pageNumber"}
	sizeNames = []string{"Size", "size", "pageSize", "per_page"}
)

// firstOf returns the first name accepted by passes; "" for none.
func firstOf(names []string, passes func(string) bool) string {
	if i := slices.IndexFunc(names, passes); i >= 0 {
		return names[i]
	}
	return ""
}

// pages determines the names of the page and size parameters, and the first page number. If the service has no size
// parameter, pages looks only for the page parameter.
func (p *prober) pages(ctx context.Context) {
	l := p.client.dialect.List
	if len(p.sample) < 2 {
		for _, name := range []string{"list.size_param", "list.page_param", "list.first_page"} {
			p.note(name, "few")
		}
		return
	}
	size := firstOf(startingWith(l.SizeParam, sizeNames), func(name string) bool {
		one, _ := p.page(ctx, url.Values{name: {"1"}})
		return len(one) == 1
	})
	page := firstOf(startingWith(l.PageParam, pageNames), func(name string) bool { return p.moves(ctx, name, size) })
	p.note("list.size_param", "one", size)
	if page == "" {
		p.note("list.page_param", "none", "another name", l.PageParam)
		p.note("list.first_page", "none")
		return
	}
	p.note("list.page_param", "one", page)
	zero, refused := p.page(ctx, numbered(page, "0", size))
	one, _ := p.page(ctx, numbered(page, "1", size))
	first := "0"
	if refused || len(zero) == 0 && len(one) > 0 || slices.Equal(zero, one) {
		first = "1"
	}
	found := first
	if l.FirstPage == "auto" {
		found = "auto"
	}
	p.note("list.first_page", "pages", found, page, first)
}

func numbered(page, number, size string) url.Values {
	query := url.Values{page: {number}}
	if size != "" {
		query.Set(size, "1")
	}
	return query
}

// moves reports whether a parameter selects other customers. A refused page 1 proves nothing, nor does a page 1 with
// different content on a second read.
func (p *prober) moves(ctx context.Context, page, size string) bool {
	first, refused := p.page(ctx, numbered(page, "1", size))
	if refused {
		return false
	}
	if second, refused := p.page(ctx, numbered(page, "2", size)); !refused && slices.Equal(first, second) {
		return false
	}
	again, refused := p.page(ctx, numbered(page, "1", size))
	return !refused && slices.Equal(first, again)
}

// spellings looks at how listed customers are written. The interface shows one spelling in
// requests and another in answers, so none of it is proven of requests.
func (p *prober) spellings(context.Context) {
	p.spelling("person_fields", "people", []string{"name", "phone"}, []string{"firstName", "lastName", "phoneNo"})
	p.spelling("address_fields", "addresses", []string{"line1", "postCode"}, []string{"addressLine1", "postalCode"})
	shape := ""
	for _, c := range p.sample {
		if s := pairShape(c.get("externalData")); s != "" {
			shape = s
		}
	}
	p.note("external_data", "one", shape)
	p.computed()
}

func (p *prober) spelling(setting, list string, short, long []string) {
	shorts, longs := false, false
	for _, c := range p.sample {
		for e := range elements(c.get(list)) {
			shorts = shorts || slices.ContainsFunc(short, e.has)
			longs = longs || slices.ContainsFunc(long, e.has)
		}
	}
	switch {
	case shorts && longs:
		p.note(setting, "both", list)
	case longs:
		p.note(setting, "one", "long", list, strings.Join(long, ", "))
	case shorts:
		p.note(setting, "one", "short", list, strings.Join(short, ", "))
	default:
		p.note(setting, "none", list)
	}
}

// pairShape returns the value of external_data for a shape; "" for none.
func pairShape(raw json.RawMessage) string {
	o, err := parseObject(raw)
	list, _ := parseArray(raw)
	switch {
	case len(o) == 0 && len(list) == 0:
		return ""
	case isConnector(o), hasConnector(list):
		return "object"
	case err == nil:
		return "map"
	}
	return "list"
}

// computed looks for members set only by the service: times.
func (p *prober) computed() {
	readOnly := p.client.dialect.ReadOnly
	found := slices.Clone(readOnly)
	for _, c := range p.sample {
		for _, m := range c {
			isTime := strings.HasSuffix(m.key, "Time") || strings.HasSuffix(m.key, "At") || strings.HasSuffix(m.key, "_at")
			if _, err := ParseTime(scalar(m.value)); err == nil && isTime && !slices.Contains(found, m.key) {
				found = append(found, m.key)
			}
		}
	}
	if len(found) == len(readOnly) {
		p.note("read_only", "no times")
	} else {
		p.note("read_only", "times", strings.Join(found, ", "))
	}
}

// ErrNoKeysInLists means lists omit externalData, although it identifies our customers. Creates must not rely on such a
// list.
var ErrNoKeysInLists = errors.New("the list of customers leaves externalData out, by which customers are known again; ask the provider for a list that holds it")

// whole reads a listed customer by its id, and returns the path of it.
func (p *prober) whole(ctx context.Context, listed object) (path string, o object) {
	path, err := idPath("probe the billing service", "/customers/", listed.text("id"))
	if err == nil {
		var body []byte
		body, err = p.get(ctx, path, nil)
		o, _ = parseObject(body) // anything but an object shows nothing
	}
	if p.err == nil {
		p.err = err
	}
	return path, o
}

// keysInLists compares a listed customer with the same customer whole.
func (p *prober) keysInLists(ctx context.Context) {
	for _, c := range p.sample[:min(3, len(p.sample))] {
		if pairShape(c.get("externalData")) != "" {
			return
		}
		if _, o := p.whole(ctx, c); p.err == nil && pairShape(o.get("externalData")) != "" {
			p.err = ErrNoKeysInLists
		}
	}
}

// linkMethod requests the mandates of a customer with a signed or active mandate: a link request returns this mandate
// and creates none.
func (p *prober) linkMethod(ctx context.Context) {
	const setting = "mandate_link"
	method := p.client.dialect.MandateLink
	path := p.signed(ctx)
	if path == "" {
		p.note(setting, "unsigned")
		return
	}
	put := "put" // if GET makes no link
	if method == "auto" {
		put = method // which tries PUT first
	}
	body, err := p.get(ctx, path+"/directdebitmandates", nil)
	o, broken := parseObject(body)
	switch {
	case slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented},
		statusOf(err)):
		p.note(setting, "refused", put, statusOf(err))
	case err != nil:
		p.note(setting, "error", err)
	case broken != nil || o.has("mandates") || o.text("status") == "":
		p.note(setting, "list", put)
	case method == "put":
		p.note(setting, "untried")
	default:
		p.note(setting, "mandate")
	}
}

// signed returns the path of a customer with a signed or active mandate, confirmed by a new read; "" for none. A list
// may be out of date, and after a cancellation a GET might create a new mandate.
func (p *prober) signed(ctx context.Context) string {
	for _, c := range p.sample {
		if !hasSigned(c) {
			continue
		}
		if path, o := p.whole(ctx, c); hasSigned(o) {
			return path
		}
	}
	return ""
}

func hasSigned(c object) bool {
	m, err := parseObject(c.get("directDebitMandate"))
	return err == nil && slices.Contains([]string{string(connector.MandatePending), string(connector.MandateActive)},
		m.text("status"))
}

// subscription reads the app's subscriptions. They also show the names of events.
func (p *prober) subscription(ctx context.Context) {
	own := p.client.dialect.APIAuth != "client_credentials"
	note := func(answer string, seen ...any) {
		p.note("webhook_read", answer, seen...)
		p.note(settingEvents, answer)
	}
	switch {
	case p.err != nil:
		return
	case p.client.dialect.WebhookRead == "none":
		note("not asked")
		return
	case p.client.config.ClientID == "" || p.client.config.ClientSecret.IsZero():
		note("no secret")
		return
	}
	p.asked++
	all, err := p.token.Subscriptions(ctx)
	if own && refusedToken(err) {
		err = p.otherTokenAuth(err, func() (err error) {
			all, err = p.token.Subscriptions(ctx)
			return err
		})
	} else if own && (err == nil || errors.Is(err, ErrNotShown)) {
		p.note("token_auth", "token")
	}
	switch {
	case errors.Is(err, ErrNotShown):
		note("not shown")
	case err != nil:
		note("error", err)
	default:
		p.note("webhook_read", "subscriptions")
		p.events(all)
	}
}

// events compares the configured event names with those in subscriptions. The service has accepted these, so another
// spelling among them is likely the correct one. A name absent from them may still be correct: nobody may have
// subscribed to it.
func (p *prober) events(all []Subscription) {
	var carried, otherwise, absent []string
	for _, s := range all {
		carried = append(carried, s.Events...)
	}
	slices.Sort(carried)
	carried = slices.Compact(carried)
	found := slices.Clone(p.client.config.Events)
	for i, name := range found {
		if slices.Contains(carried, name) {
			continue
		}
		at := slices.IndexFunc(carried, func(c string) bool { return plainEvent(c) == plainEvent(name) })
		if at < 0 {
			absent = append(absent, name)
			continue
		}
		found[i], otherwise = carried[at], append(otherwise, name)
	}
	list := func(names []string) string { return strings.Join(names, ", ") }
	switch {
	case len(carried) == 0:
		p.note(settingEvents, "none")
	case len(absent) > 0 && len(otherwise) > 0:
		p.note(settingEvents, "both", list(found), list(carried), list(absent))
	case len(absent) > 0:
		p.note(settingEvents, "absent", "", list(carried), list(absent))
	case len(otherwise) > 0:
		p.note(settingEvents, "otherwise", list(found), list(carried), list(otherwise))
	default:
		p.note(settingEvents, "same")
	}
}

// plainEvent is a name without what spellings differ in: case, what stands between its words,
// and the plural.
func plainEvent(name string) string {
	plain := strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(name))
	return strings.TrimSuffix(plain, "s")
}
