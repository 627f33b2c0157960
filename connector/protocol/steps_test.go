package protocol

// Next returns the next step for the payer: for its customer, and when nothing can be done there, for its
// mandate. It knows a step for any facts.
func Next(f Facts) Step { return decide(&f).next() }

func (d decision) next() Step {
	if !d.customer.works() && (d.mandate.works() || d.customer.Do == Nothing) {
		return d.mandate
	}
	return d.customer
}

// works reports whether there is something to send or to read.
func (s Step) works() bool {
	return s.Do != Nothing && s.Do != Later && s.Do != Wait && s.Do != Approval && s.Do != Tell
}

// Class returns the payer's progress.
func Class(f Facts) Status { return decide(&f).class() }

func (d decision) class() Status {
	class := Out
	if d.holding&left == 0 {
		class = InStep
	}
	for _, s := range [...]Step{d.customer, d.mandate} {
		if now := s.status(); now != "" {
			class = Worse(now, class)
		}
	}
	return class
}

// status returns the payer's status by the step; "" for none.
func (s Step) status() Status {
	switch s.Do {
	case Nothing, Later:
		return ""
	case Tell:
		return StatusOf(s.Reason)
	case Approval:
		return Unpassed
	}
	return Working
}

// Ended returns the tickets of this and other payers' attempts that have ended by the facts. The transaction
// of the deciding fact marks them as ended. An answered create or link request ends at once.
func Ended(f Facts) []int64 {
	var out []int64
	for _, attempts := range [][]Attempt{f.Attempts, f.Others} {
		for _, a := range attempts {
			if !f.open(a) {
				out = append(out, a.Seq)
			}
		}
	}
	return out
}
