package billing

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"payersync/connector"
	"payersync/connector/transport"
)

const opLink = "request mandate link"

// RequestMandateLink creates a mandate for the customer, or fetches the existing one, and returns it with its signing
// link. The link is a secret. The call is sent at most once and never repeated automatically. After FaultUnknown and
// connector.ErrTokenRenewed, the caller reads the customer first (fault F58).
//
// With mandate_link: auto it is sent as PUT, then as GET if PUT was refused with 404, 405 or 501. The client remembers
// the working method. FaultNotFound means the customer does not exist, confirmed by a read.
func (c *Client) RequestMandateLink(ctx context.Context, customerID string) (connector.Mandate, error) {
	path, err := idPath(opLink, "/customers/", customerID)
	if err != nil {
		return connector.Mandate{}, err
	}
	method, settled := c.methodForLink()
	mandate, err := c.requestLink(ctx, method, path, customerID)
	if !settled && isWrongMethod(err) {
		method = http.MethodGet
		mandate, err = c.requestLink(ctx, method, path, customerID)
	}
	if err != nil {
		return connector.Mandate{}, err
	}
	c.linkMethod.Store(method)
	return mandate, nil
}

// methodForLink returns the method to use, and whether it is certain.
func (c *Client) methodForLink() (method string, settled bool) {
	switch c.dialect.MandateLink {
	case "put":
		return http.MethodPut, true
	case "get":
		return http.MethodGet, true
	}
	if method, ok := c.linkMethod.Load().(string); ok {
		return method, true
	}
	return http.MethodPut, false
}

func (c *Client) requestLink(ctx context.Context, method, path, customerID string) (connector.Mandate, error) {
	var body object
	if c.redirect != "" {
		body.set("redirectUrl", quote(c.redirect))
	}
	r := c.write(opLink, method, path+"/directdebitmandates", body.bytes())
	r.repeat = transport.Never
	answer, err := c.send(ctx, r)
	switch statusOf(err) {
	case http.StatusNotFound:
		err = c.explainMissing(ctx, customerID, err)
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		err = wrongWay(opLink, connector.FaultOf(err), err, "makes no signing link in this way",
			"billing.dialect.mandate_link")
	}
	if err != nil {
		return connector.Mandate{}, err
	}
	mandate, err := readMandate(answer, customerID)
	if err != nil {
		err = unreadable(r, http.StatusOK, err)
		if o, broken := parseObject(answer); broken != nil || o.text("id") == "" {
			err = advise(err, "it is no mandate; compare billing.dialect.mandate_link with what it documents")
		}
		return connector.Mandate{}, err
	}
	return mandate, nil
}

// explainMissing finds the cause of a 404. Only a missing customer counts as not found, because this marks the payer as
// missing.
func (c *Client) explainMissing(ctx context.Context, customerID string, notFound error) error {
	_, err := c.Customer(ctx, customerID)
	switch {
	case connector.FaultOf(err) == connector.FaultNotFound:
		return notFound
	case err != nil:
		return err
	}
	return wrongWay(opLink, connector.FaultRejected, notFound, "has the customer and makes no signing link in this way",
		"billing.dialect.mandate_link")
}

// isWrongMethod reports whether the service refused the method, not the request.
func isWrongMethod(err error) bool {
	switch statusOf(err) {
	case http.StatusNotFound:
		return connector.FaultOf(err) == connector.FaultRejected // the customer is there
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

// statusOf returns the status of a refused call; 0 if there was no answer or no call.
func statusOf(err error) int {
	if isA[noToken](err) {
		return 0
	}
	var remote *connector.RemoteError
	if errors.As(err, &remote) {
		return remote.Status
	}
	return 0
}

// CancelMandate cancels a mandate with an optional reason. Only a person may start it. Like the link request, it is
// sent at most once; a read of the customer shows the result.
func (c *Client) CancelMandate(ctx context.Context, mandateID, reason string) error {
	return c.act(ctx, act{op: "cancel mandate", verb: "cancel", spelling: c.dialect.Cancel, noun: "cancellation"},
		mandateID, reason)
}

// ErrNoReinstate means the dialect has no call to reinstate a mandate.
var ErrNoReinstate = errors.New("dialect.reinstate is none: this service is not known to bring a cancelled mandate back; a new mandate takes its place, or set dialect.reinstate where its provider says how")

// ReinstateMandate reinstates a cancelled mandate under its own id, with an optional reason. Only a person may start
// it. It is sent like CancelMandate. Without such a call in the dialect it sends nothing and returns ErrNoReinstate.
func (c *Client) ReinstateMandate(ctx context.Context, mandateID, reason string) error {
	if c.dialect.Reinstate == "none" {
		return ErrNoReinstate
	}
	return c.act(ctx, act{op: "reinstate mandate", verb: "reinstate", spelling: c.dialect.Reinstate,
		noun: "reinstatement"}, mandateID, reason)
}

// act is an action on a mandate by its id. Its verb is also the name of the dialect's setting.
type act struct{ op, verb, spelling, noun string }

func (c *Client) act(ctx context.Context, a act, mandateID, reason string) error {
	path, err := idPath(a.op, "/customers/directdebitmandates/", mandateID)
	if err != nil {
		return err
	}
	var body object
	var query url.Values
	switch a.spelling {
	case "colon":
		path += ":" + a.verb // literally: an escaped colon is another path
	case "slash":
		path += "/" + a.verb
	case "query":
		query = url.Values{"action": {a.verb}}
	case "body":
		body.set("action", quote(a.verb))
	}
	if reason != "" {
		body.set("reason", quote(reason))
	}
	r := c.write(a.op, http.MethodPut, path, body.bytes())
	r.query, r.repeat, r.mayBeEmpty = query, transport.Never, true
	_, err = c.send(ctx, r)
	switch statusOf(err) {
	case http.StatusNotFound: // no read shows a mandate by its id
		return wrongWay(a.op, connector.FaultOf(err), err, "has no such mandate, or takes no "+a.noun+" in this way",
			"billing.dialect."+a.verb)
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return wrongWay(a.op, connector.FaultOf(err), err, "takes no "+a.noun+" in this way", "billing.dialect."+a.verb)
	}
	return err
}
