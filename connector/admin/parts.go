package admin

import (
	"slices"
	"strings"
	"sync"
)

// parts are the limited views of a value, by their connections.
type parts[T any] struct {
	mu  sync.Mutex
	all map[string]*T
}

// of returns the view for some connections, and creates it if needed.
func (p *parts[T]) of(connections []string, begin func() *T) *T {
	key := strings.Join(slices.Sorted(slices.Values(connections)), "\x1f")
	p.mu.Lock()
	defer p.mu.Unlock()
	part := p.all[key]
	if part == nil {
		if p.all == nil {
			p.all = map[string]*T{}
		}
		part = begin()
		p.all[key] = part
	}
	return part
}

// each does something with every part.
func (p *parts[T]) each(do func(*T)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range p.all {
		do(part)
	}
}
