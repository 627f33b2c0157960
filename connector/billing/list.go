package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"payersync/connector"
	"payersync/connector/transport"
)

// Bounds of a list pass. A service ignoring the page number cannot keep it going endlessly (fault F18).
const (
	maxPages      = 100_000
	maxStale      = 3  // pages in a row without a new customer
	maxAhead      = 4  // pages being fetched while earlier ones are worked on
	maxSearchPage = 10 // pages of likenesses
)

// The maximum number of customers on one page. The service may not know the size parameter, or may have its own
// minimum. So pages may have ten times the requested size, and in any case the number of ordinary customers in an
// answer of 8 MiB. A larger page holds tiny customers, and each takes many times its bytes in memory (fault F19).
const (
	maxTimesSize = 10
	maxAnyway    = 5000
)

var (
	errRepeats  = errors.New("the service repeats pages, so the list cannot be read to its end; check billing.dialect.list.page_param")
	errEndless  = fmt.Errorf("the list has more than %d pages", maxPages)
	errEnvelope = errors.New("the list is not where dialect.list.envelope says, nor under a usual name")
)

// Customers makes one complete pass over the service's customers, page by page in the service's order. It yields a
// repeated customer once. The sequence ends after the first error; without an error it read everything (invariant S17).
//
// The end is a page without customers. A short page proves nothing, because services cap the size. With first_page:
// auto, the first page number is probed once. After that, full pages are prefetched a few ahead.
func (c *Client) Customers(ctx context.Context) iter.Seq2[[]connector.RemoteCustomer, error] {
	return func(yield func([]connector.RemoteCustomer, error) bool) {
		p := c.newPass("list customers", nil, maxAhead)
		ctx, stop := context.WithCancel(ctx)
		defer p.wait()
		defer stop()
		for {
			fresh, more, err := p.next(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(fresh) > 0 && !yield(fresh, nil) || !more {
				return
			}
		}
	}
}

// SearchCustomers returns customers with a name or e-mail address similar to the text, at most the first ten pages. The
// service's search is fuzzy: it finds no keys, and an empty result proves nothing.
func (c *Client) SearchCustomers(ctx context.Context, text string) ([]connector.RemoteCustomer, error) {
	p := c.newPass("search customers", url.Values{searchText: {text}}, 0)
	defer p.wait()
	var out []connector.RemoteCustomer
	for range maxSearchPage {
		fresh, more, err := p.next(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, fresh...)
		if !more || len(fresh) > 0 && len(fresh) < c.dialect.List.Size {
			break
		}
	}
	return out, nil
}

// pageBase is the number of the first page.
type pageBase int32

const (
	baseUnknown pageBase = iota
	baseZero
	baseOne
)

func (c *Client) pageBase() pageBase {
	switch c.dialect.List.FirstPage {
	case "0":
		return baseZero
	case "1":
		return baseOne
	}
	return pageBase(c.firstPage.Load())
}

// pass is one walk over the pages.
type pass struct {
	client   *Client
	op       string
	filter   url.Values
	base     pageBase
	number   int // the number of next's page
	maxAhead int
	ahead    int  // pages being fetched beyond that one
	fullest  int  // customers on the fullest page so far
	onZero   int  // customers on page 0
	noZero   bool // page 0 was refused, not just empty
	stale    int  // pages in a row without anything new
	total    int  // customers there are, as the service counts them; -1 when it does not
	seen     *connector.IDs
	fetches  map[int]chan page
	fetchers sync.WaitGroup
}

// page is one fetched page.
type page struct {
	customers []connector.RemoteCustomer
	total     int // of the whole list; -1 when it was not said
	err       error
}

func (c *Client) newPass(op string, filter url.Values, maxAhead int) *pass {
	p := &pass{
		client: c, op: op, filter: filter, base: c.pageBase(), maxAhead: maxAhead, total: -1,
		seen: connector.NewIDs(), fetches: make(map[int]chan page),
	}
	if p.base == baseOne {
		p.number = 1
	}
	return p
}

// next returns the new customers of the next page, and whether there may be more.
func (p *pass) next(ctx context.Context) (fresh []connector.RemoteCustomer, more bool, err error) {
	number, got := p.number, p.nextPage(ctx)
	p.number++
	if got.err != nil {
		p.noZero = p.noZero || p.probing(number)
		return nil, p.probing(number), p.forgive(number, got.err)
	}
	p.total = got.total
	fresh = p.unseen(got.customers)
	p.learnBase(number, len(got.customers), len(fresh))
	p.lookAhead(len(got.customers))
	if len(got.customers) == 0 {
		return nil, p.probing(number), nil
	}
	more, err = p.progress(len(fresh))
	return fresh, more, err
}

// probing reports whether the page is page 0 of a list possibly starting at 1. Then neither its absence nor its
// emptiness proves anything.
func (p *pass) probing(number int) bool { return p.base == baseUnknown && number == 0 }

// forgive returns nil for a refusal caused only by a missing page.
func (p *pass) forgive(number int, err error) error {
	fault := connector.FaultOf(err)
	noSuchPage := fault == connector.FaultRejected || fault == connector.FaultNotFound
	if noSuchPage && (p.probing(number) || p.complete()) {
		return nil
	}
	return err
}

// complete reports whether all customers counted by the service were seen.
func (p *pass) complete() bool { return p.total > 0 && p.seen.Len() >= p.total }

// progress reports whether there may be more after a page with so many new
// customers. Pages shift while others write, so a page without any is no error
// yet, but a few in a row are: the page number is ignored.
func (p *pass) progress(fresh int) (more bool, err error) {
	if fresh > 0 {
		p.stale = 0
	} else if p.complete() {
		return false, nil
	} else if p.stale++; p.stale == maxStale {
		return false, p.fail(errRepeats)
	}
	if p.number > maxPages {
		return false, p.fail(errEndless)
	}
	return true, nil
}

func (p *pass) fail(why error) error {
	return &connector.RemoteError{Op: p.op, Fault: connector.FaultUnavailable, Detail: "the list cannot be read", Err: why}
}

func (p *pass) unseen(customers []connector.RemoteCustomer) []connector.RemoteCustomer {
	return slices.DeleteFunc(customers, func(c connector.RemoteCustomer) bool { return !p.seen.Add(c.ID) })
}

// learnBase determines the first page number from pages 0 and 1. A page 1 equal to page 0 decides nothing: starting at
// 0 reads it twice, without harm. An empty page 0 decides nothing either: customers may have been added since. A page
// never read again would make two passes agree on an incomplete list.
func (p *pass) learnBase(number, count, fresh int) {
	switch {
	case p.base != baseUnknown:
	case number == 0:
		p.onZero = count
	case number == 1 && p.noZero && count > 0:
		p.settle(baseOne)
	case number == 1 && p.onZero > 0 && (count == 0 || fresh > 0):
		p.settle(baseZero)
	}
}

func (p *pass) settle(base pageBase) {
	p.base = base
	p.client.firstPage.Store(int32(base))
}

// lookAhead fetches more pages ahead while they come full, and none once they
// do not: the end is near then.
func (p *pass) lookAhead(count int) {
	full := count > 0 && (count >= p.client.dialect.List.Size || count == p.fullest)
	p.fullest = max(p.fullest, count)
	switch {
	case !full || p.base == baseUnknown && p.number < 2:
		p.ahead = 0
	default:
		p.ahead = min(max(1, 2*p.ahead), p.maxAhead)
	}
}

// nextPage returns the next page, and starts to prefetch the pages after it.
func (p *pass) nextPage(ctx context.Context) page {
	for number := p.number; number <= p.number+p.ahead; number++ {
		if p.fetches[number] == nil {
			p.start(ctx, number)
		}
	}
	defer delete(p.fetches, p.number)
	return <-p.fetches[p.number]
}

func (p *pass) start(ctx context.Context, number int) {
	done := make(chan page, 1)
	p.fetches[number] = done
	p.fetchers.Go(func() {
		var got page
		if err := connector.Guard(func() error {
			got = p.client.fetchPage(ctx, p.op, p.filter,
				number)
			return nil
		}); err != nil {
			got.err = err
		}
		done <- got
	})
}

// wait returns when nothing is being fetched any more; the caller has cancelled
// what is.
func (p *pass) wait() { p.fetchers.Wait() }

// searchText is the parameter for the search text, a person's name or address.
const searchText = "searchText"

func (c *Client) fetchPage(ctx context.Context, op string, filter url.Values, number int) page {
	query := url.Values{
		c.dialect.List.PageParam: {strconv.Itoa(number)},
		c.dialect.List.SizeParam: {strconv.Itoa(c.dialect.List.Size)},
	}
	maps.Copy(query, filter)
	if !filter.Has(searchText) {
		maps.Copy(query, c.dialect.financial(c.dialect.List.FinancialQuery))
	}
	r := c.read(op, "/customers", query)
	r.ofNobody = !filter.Has(searchText)
	body, err := c.send(ctx, r)
	if err != nil {
		return page{err: c.dialect.adviseList(err, number)}
	}
	out, err := c.dialect.open(body)
	if err != nil {
		return page{err: unreadable(r, http.StatusOK, err)}
	}
	return out
}

// adviseList names the settings to check after a refused page. Every list has the first two pages, because numbers
// start at 0 or 1.
func (d Dialect) adviseList(err error, number int) error {
	var failed *transport.Error
	if errors.As(err, &failed) && failed.Reason == transport.ReasonTooLarge {
		return advise(err, fmt.Sprintf("set billing.dialect.list.size to fewer than %d customers a page", d.List.Size))
	}
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		if number <= 1 {
			return advise(err, "it lists no customers at this address; compare billing.base_url with what it documents")
		}
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
	default:
		return err
	}
	names := "page_param, size_param, size and first_page"
	if d.financial(d.List.FinancialQuery) != nil {
		names = "financial_query, " + names
	}
	return advise(err, "compare "+names+" of billing.dialect.list with what it documents")
}

// usualEnvelopes are the known list keys.
var usualEnvelopes = []string{"customers", "items", "content", "data", "results"}

// open reads a page, bare or in its envelope.
func (d Dialect) open(body []byte) (page, error) {
	l := d.List
	out := page{total: -1}
	members, err := each(body, '[')
	switch {
	case err != nil:
		members, out.total, err = l.openEnvelope(body)
	case l.Envelope != "auto" && l.Envelope != "array":
		err = errEnvelope
	}
	if err != nil {
		return page{}, err
	}
	if err := l.checkCount(members); err != nil {
		return page{}, err
	}
	for member := range members {
		customer, err := d.readCustomer(member)
		if err != nil {
			return page{}, fmt.Errorf("a customer in the list: %w", err)
		}
		out.customers = append(out.customers, customer)
	}
	return out, nil
}

// checkCount refuses a page much larger than requested.
func (l List) checkCount(members iter.Seq[json.RawMessage]) error {
	sent, most := 0, max(maxTimesSize*l.Size, maxAnyway)
	for range members {
		sent++
	}
	if sent <= most {
		return nil
	}
	return fmt.Errorf("the service sent %d customers on one page where dialect.list.size asks for %d, and more than %d are not taken; "+
		"check the name of the parameter in dialect.list.size_param, or raise dialect.list.size", sent, l.Size, most)
}

func (l List) openEnvelope(body []byte) (members iter.Seq[json.RawMessage], total int, err error) {
	o, err := parseObject(body)
	if err != nil || l.Envelope == "array" {
		return nil, 0, errEnvelope
	}
	keys := usualEnvelopes
	if l.Envelope != "auto" {
		keys = []string{l.Envelope}
	}
	for _, key := range keys {
		if o.has(key) {
			members, err := eachElement(o.get(key))
			return members, readTotal(o), err
		}
	}
	return nil, 0, errEnvelope
}

// readTotal looks for the count in both known places, and beside the list itself.
func readTotal(envelope object) int {
	text := envelope.text("totalElements")
	for _, key := range []string{"pagination", "page"} {
		if nested, err := parseObject(envelope.get(key)); err == nil && text == "" {
			text = nested.text("totalElements")
		}
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return n
	}
	return -1
}
