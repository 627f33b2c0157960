package connector

// The helpers are called in hundreds of places: inlined there they would make the program larger.

// Map returns f of each element of list, in order; nil for an empty list.
//
//go:noinline
func Map[E, R any](list []E, f func(E) R) (out []R) {
	for _, e := range list {
		out = append(out, f(e))
	}
	return out
}

// Filter returns the elements of list that keep picks, in order; nil for none.
//
//go:noinline
func Filter[E any](list []E, keep func(E) bool) (out []E) {
	for _, e := range list {
		if keep(e) {
			out = append(out, e)
		}
	}
	return out
}

// Find returns the first element of list for which is holds, and whether there is one.
//
//go:noinline
func Find[E any](list []E, is func(E) bool) (found E, ok bool) {
	for _, e := range list {
		if is(e) {
			return e, true
		}
	}
	return found, false
}

// Each calls do with each element of list, in order. It stops at the first error and returns it.
//
//go:noinline
func Each[E any](list []E, do func(E) error) error {
	for _, e := range list {
		if err := do(e); err != nil {
			return err
		}
	}
	return nil
}

// Set returns the set of the elements of list.
func Set[K comparable](list []K) map[K]bool {
	out := make(map[K]bool, len(list))
	for _, k := range list {
		out[k] = true
	}
	return out
}

// By returns the elements of list by a key. The last one of equal keys counts.
func By[E any, K comparable](list []E, key func(E) K) map[K]E {
	out := make(map[K]E, len(list))
	for _, e := range list {
		out[key(e)] = e
	}
	return out
}

// First returns the first result of f on the elements of list, in order, that is not zero.
//
//go:noinline
func First[E any, R comparable](list []E, f func(E) R) (found R) {
	for _, e := range list {
		if r := f(e); r != found {
			return r
		}
	}
	return found
}
