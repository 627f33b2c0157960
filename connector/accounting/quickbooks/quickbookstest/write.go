package quickbookstest

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// AddPaymentMethod makes a payment method and returns its id.
func (s *Server) AddPaymentMethod(name string) string {
	defer s.lock()()
	s.methods = append(s.methods, name)
	return strconv.Itoa(100 + len(s.methods))
}

// Posts returns how many sparse updates were made.
func (s *Server) Posts() int {
	defer s.lock()()
	return s.posts
}

// BeforePost has hook called before each update is looked at.
func (s *Server) BeforePost(hook func(c *StoredCustomer)) {
	defer s.lock()()
	s.beforePost = hook
}

// paymentMethods answers the query for all of them.
func (s *Server) paymentMethods() answer {
	list := []any{}
	for i, name := range s.methods {
		list = append(list, map[string]any{"Id": strconv.Itoa(101 + i), "Name": name, "Active": true,
			"Type": "NON_CREDIT_CARD"})
	}
	response := map[string]any{}
	if len(list) > 0 {
		response = map[string]any{"PaymentMethod": list, "startPosition": 1, "maxResults": len(list)}
	}
	return ok(map[string]any{"QueryResponse": response})
}

// post answers an update. The model knows sparse ones of the payment method alone.
func (s *Server) post(r *http.Request) answer {
	var body map[string]json.RawMessage
	var sent struct {
		Sparse           bool   `json:"sparse"`
		ID               string `json:"Id"`
		SyncToken        string
		PaymentMethodRef *Ref
	}
	var text json.RawMessage
	err := json.NewDecoder(r.Body).Decode(&text)
	if err == nil {
		err = json.Unmarshal(text, &sent)
	}
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	c, found := s.byID[sent.ID]
	switch {
	case err != nil, !sent.Sparse, len(body) != 4, sent.PaymentMethodRef == nil:
		return fault("2010", "ValidationFault", http.StatusBadRequest) // the model takes nothing else
	case !found:
		return fault("610", "ValidationFault", http.StatusBadRequest)
	}
	if s.beforePost != nil {
		s.beforePost(c)
	}
	n, err := strconv.Atoi(sent.PaymentMethodRef.Value)
	switch {
	case c.SyncToken != sent.SyncToken:
		return fault("5010", "ValidationFault", http.StatusBadRequest) // stale object
	case err != nil || n <= 100 || n > 100+len(s.methods):
		return fault("2500", "ValidationFault", http.StatusBadRequest) // invalid reference id
	}
	edits, _ := strconv.Atoi(c.SyncToken)
	c.SyncToken, c.Updated = strconv.Itoa(edits+1), s.Now()
	c.PaymentMethodRef = &Ref{Value: sent.PaymentMethodRef.Value, Name: s.methods[n-101]}
	s.posts++
	return ok(map[string]any{"Customer": c.wire(true)})
}
