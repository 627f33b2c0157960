package billing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"payersync/connector"
)

// CreateCustomer posts exactly the given bytes and returns the customer in the answer. For the same bytes the service
// answers with the same customer while it remembers them. A call with an unknown outcome must therefore be repeated
// with the same bytes (faults F02 to F04, F09). A refusal is FaultRejected. The caller checks the answer for our key.
func (c *Client) CreateCustomer(ctx context.Context, body []byte) (connector.RemoteCustomer, error) {
	const op = "create customer"
	made, err := c.customer(ctx, c.write(op, http.MethodPost, "/customers", body))
	if err == nil {
		made = c.withCreateLink(made)
	}
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented: // no record is at fault
		return made, wrongWay(op, connector.FaultOf(err), err, "makes no customer in this way", "billing.base_url")
	}
	return made, err
}

// Customer fetches one customer, with the latest mandate. FaultNotFound means there is no customer with this id.
func (c *Client) Customer(ctx context.Context, id string) (connector.RemoteCustomer, error) {
	return c.fetch(ctx, id, nil)
}

func (c *Client) fetch(ctx context.Context, id string, query url.Values) (connector.RemoteCustomer, error) {
	const op = "get customer"
	path, err := idPath(op, "/customers/", id)
	if err != nil {
		return connector.RemoteCustomer{}, err
	}
	r := c.read(op, path, query)
	out, err := c.customer(ctx, r)
	if err == nil && out.ID != id {
		return connector.RemoteCustomer{}, unreadable(r, http.StatusOK, errOtherCustomer)
	}
	return out, err
}

func (c *Client) customer(ctx context.Context, r request) (connector.RemoteCustomer, error) {
	body, err := c.send(ctx, r)
	if err != nil {
		return connector.RemoteCustomer{}, err
	}
	out, err := c.dialect.readCustomer(body)
	if err != nil {
		return connector.RemoteCustomer{}, unreadable(r, http.StatusOK, err)
	}
	return out, nil
}

// UpdateCustomer puts exactly the given bytes from MergeCustomer. They replace the whole customer. The answer may be
// empty; a later Customer shows the result.
func (c *Client) UpdateCustomer(ctx context.Context, id string, body []byte) error {
	const op = "update customer"
	path, err := idPath(op, "/customers/", id)
	if err != nil {
		return err
	}
	if c.dialect.Update == "body_id" {
		path = "/customers"
	}
	r := c.write(op, http.MethodPut, path, body)
	r.mayBeEmpty = true
	_, err = c.send(ctx, r)
	switch statusOf(err) {
	case http.StatusNotFound:
		if _, missing := c.Customer(ctx, id); missing != nil {
			return err // whether it is gone is for the caller's own read to see
		}
		return wrongWay(op, connector.FaultRejected, err, "has the customer and takes no update of it in this way",
			"billing.dialect.update")
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return wrongWay(op, connector.FaultOf(err), err, "takes no update in this way", "billing.dialect.update")
	}
	return err
}

// wrongWay is the refusal of a request because of its spelling, with the setting responsible.
func wrongWay(op string, fault connector.Fault, refused error, what, setting string) error {
	return &connector.RemoteError{
		Op: op, Fault: fault, Status: statusOf(refused),
		Detail: fmt.Sprintf("the service %s; compare %s with what it documents", what, setting), Err: connector.ErrWrongWay,
	}
}

// advise adds the setting to check to a failure. It does not change the fault.
func advise(err error, advice string) error {
	var remote *connector.RemoteError
	if !errors.As(err, &remote) {
		return err
	}
	out := *remote
	out.Detail += "; " + advice
	return &out
}

// idPath appends an id to a path. It refuses blank ids and ids naming another resource, before any request.
func idPath(op, path, id string) (string, error) {
	if id == "" || id == "." || id == ".." {
		return "", &connector.RemoteError{Op: op, Fault: connector.FaultRejected,
			Detail: "the id is blank or no id; nothing was sent"}
	}
	return path + url.PathEscape(id), nil
}
