package protocol

// next returns the one step that the small worlds take: for the customer, and when nothing can be done there,
// for the mandate.
func (o Outcome) next() Step {
	if !o.Customer.works() && (o.Mandate.works() || o.Customer.Do == Nothing) {
		return o.Mandate
	}
	return o.Customer
}

// works reports whether there is something to send or to read.
func (s Step) works() bool {
	return s.Do != Nothing && s.Do != Later && s.Do != Wait && s.Do != Approval && s.Do != Tell
}
